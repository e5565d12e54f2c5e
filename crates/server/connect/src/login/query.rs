//! Queries over an open connection: simple ones, and with parameters.

use std::time::Duration;

use protocol::frontend::{Query, Sync, Terminate, bind, execute, parse};
use protocol::{Format, backend};

use super::start_up::{StartUp, refusal};
use super::{Failure, LoginError, NO_POSTGRESQL, Row, ServerFacts, Value};
use crate::Server;

/// Maximum size of a row. No query of this program returns a larger one.
const ROW_BYTES_MAX: usize = 64 << 20;

impl StartUp<'_> {
    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    pub(super) fn limit(&mut self, time: Duration) {
        self.channel.limit(time);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_closed
    }

    pub(super) fn terminate(&mut self) {
        if !self.is_closed {
            let mut goodbye = Vec::new();
            Terminate.encode(&mut goodbye);
            self.channel.terminate(&goodbye);
        }
    }

    /// Returns the rows of a simple query.
    pub(super) fn query(&mut self, sql: &str) -> Result<Vec<Row>, Failure> {
        let query = Query {
            sql: sql.as_bytes(),
        };
        query.encode(&mut self.out).map_err(encoding_error)?;
        self.read_rows()
    }

    /// Returns the rows of a single statement with parameters.
    pub(super) fn query_with(
        &mut self,
        sql: &str,
        types: &[u32],
        values: &[Option<Value<'_>>],
    ) -> Result<Vec<Row>, Failure> {
        let formats = values.iter().map(|value| match value {
            Some(Value::Binary(_)) => Format::Binary,
            Some(Value::Text(_)) | None => Format::Text,
        });
        let bytes = values.iter().map(|value| {
            value.map(|value| match value {
                Value::Text(text) => text.as_bytes(),
                Value::Binary(bytes) => bytes,
            })
        });
        // An encoder appends a whole message or nothing, so data from earlier failures must be cleared.
        let encode = || {
            parse::encode(b"", sql.as_bytes(), types.iter().copied(), &mut self.out)?;
            bind::encode(b"", b"", formats, bytes, [], &mut self.out)?;
            let portal = execute::Execute {
                portal: b"",
                rows_max: 0,
            };
            portal.encode(&mut self.out)
        };
        if let Err(error) = encode() {
            self.out.clear();
            return Err(encoding_error(error).into());
        }
        Sync.encode(&mut self.out);
        self.read_rows()
    }

    /// Has a single statement parsed.
    pub(super) fn parse(&mut self, sql: &str, types: &[u32]) -> Result<(), Failure> {
        let encoded = parse::encode(b"", sql.as_bytes(), types.iter().copied(), &mut self.out);
        encoded.map_err(encoding_error)?;
        Sync.encode(&mut self.out);
        self.read_rows().map(drop)
    }

    /// Sends the encoded messages, and reads up to ReadyForQuery, even after an error.
    fn read_rows(&mut self) -> Result<Vec<Row>, Failure> {
        let mut refused = None;
        let mut rows = Vec::new();
        let result = self
            .send()
            .and_then(|()| self.read_answer(&mut rows, &mut refused));
        if let Err(failure) = result {
            self.is_closed = true;
            // An error message of the server is more specific than a lost connection.
            return Err(refused.map_or(failure, Failure::from));
        }
        match refused {
            Some(error) => Err(error.into()),
            None => Ok(rows),
        }
    }

    fn read_answer(
        &mut self,
        rows: &mut Vec<Row>,
        refused: &mut Option<LoginError>,
    ) -> Result<(), Failure> {
        loop {
            let reply = self.receive_any(ROW_BYTES_MAX)?;
            if let Some(error) = refusal(&reply) {
                refused.get_or_insert(error);
                continue;
            }
            match backend::Message::decode(reply.tag, &reply.body) {
                Ok(backend::Message::ReadyForQuery(_)) => return Ok(()),
                Ok(backend::Message::DataRow(row)) => {
                    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                    rows.push(row.columns.iter().map(|value| value.map(text)).collect());
                }
                Ok(backend::Message::ParameterStatus(status)) => {
                    self.facts.parameter(status.name, status.value);
                }
                _ => {}
            }
        }
    }
}

fn encoding_error(error: protocol::EncodeError) -> LoginError {
    LoginError::new(NO_POSTGRESQL, error.to_string())
}
