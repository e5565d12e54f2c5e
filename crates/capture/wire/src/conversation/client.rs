//! Decodes the messages of clients.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use protocol::frontend::{Bind, Close, CopyFail, Describe, Execute, Parse, Query, Target, tag};
use protocol::{DecodeError, Format, Header};
use workload::{Boundary, ResultFormat, Unreplayable};

use super::connection::{BodyHandling, Connection, KEPT_BYTES_MAX, Output};
use super::named_objects::{Portal, PreparedStatement, Statement, generates_values};
use super::pending_requests::{DescribeTarget, EventRecording, PendingEvent, Request, Step};

impl Connection {
    /// Handles the header of a message; returns what to do with its body.
    pub(super) fn handle_client_header(
        &mut self,
        header: Header,
        at_us: i64,
        place: u64,
        out: &mut Output<'_>,
    ) -> BodyHandling {
        if header.body_bytes > KEPT_BYTES_MAX && header.tag != tag::COPY_DATA {
            self.handle_too_long(header.tag, at_us, place, out);
            return BodyHandling::Pass;
        }
        match header.tag {
            tag::SYNC => self.requests.set_boundary(Boundary::Sync),
            tag::FLUSH => self.requests.set_boundary(Boundary::Flush),
            tag::TERMINATE => self.handle_terminate(at_us),
            tag::FUNCTION_CALL => {
                out.account.function_calls += 1;
                self.requests.add_step(Step::Function);
            }
            protocol::copy::COPY_DONE => self.requests.end_copy(),
            protocol::copy::COPY_DATA if self.requests.copy_destination().is_some() => {
                return BodyHandling::Pieces;
            }
            _ => (),
        }
        BodyHandling::Usual
    }

    /// Handles a message that is too long to keep: its names are unknown.
    fn handle_too_long(&mut self, tag: u8, at_us: i64, place: u64, out: &mut Output<'_>) {
        out.account.too_long += 1;
        match tag {
            tag::QUERY | tag::PARSE => {
                let request = match tag {
                    tag::QUERY => Request::Simple { sql: String::new() },
                    _ => Request::Prepare {
                        statement: Rc::new(Statement::unknown("", Unreplayable::TooLong)),
                    },
                };
                let mut pending = self.new_event(request, at_us, place);
                pending.unreplayable = Some(Unreplayable::TooLong);
                match tag {
                    tag::QUERY => {
                        pending.boundary = Boundary::Sync;
                        self.requests.add_event(pending, Step::Query);
                    }
                    _ => {
                        self.names.handle_loss();
                        self.requests.add_event(pending, Step::Parse);
                    }
                }
            }
            tag::BIND => {
                self.names.handle_loss();
                self.requests.add_step(Step::Bind);
            }
            _ => (),
        }
    }

    fn new_event(&self, request: Request, at_us: i64, place: u64) -> PendingEvent {
        let mut pending = PendingEvent::new(request, at_us, place);
        pending.recording = EventRecording::new(self.is_recorded());
        pending
    }

    /// Handles a message with its body.
    pub(super) fn handle_client_message(
        &mut self,
        message: u8,
        body: &[u8],
        at_us: i64,
        place: u64,
    ) -> Result<(), DecodeError> {
        match message {
            tag::QUERY => {
                let (text, unreplayable) = decode_text(Query::decode(body)?.sql);
                let wants_row = generates_values(&text);
                let mut sql = self.buffers.take_text();
                sql.push_str(&text);
                let mut pending = self.new_event(Request::Simple { sql }, at_us, place);
                pending.wants_row = wants_row;
                pending.unreplayable = unreplayable;
                pending.boundary = Boundary::Sync;
                self.requests.add_event(pending, Step::Query);
            }
            tag::PARSE => self.handle_parse(&Parse::decode(body)?, at_us, place),
            tag::BIND => self.handle_bind(&Bind::decode(body)?),
            tag::EXECUTE => self.handle_execute(&Execute::decode(body)?, at_us, place),
            tag::DESCRIBE => {
                let described = match Describe::decode(body)?.target {
                    Target::Statement(named) => {
                        let prepared = self.names.prepared(&decode_name(named));
                        DescribeTarget::Statement(prepared.map(|known| known.statement.clone()))
                    }
                    Target::Portal(_) => DescribeTarget::Portal,
                };
                self.requests.add_step(Step::Describe(described));
            }
            tag::CLOSE => {
                match Close::decode(body)?.target {
                    Target::Statement(named) => {
                        self.names.close_statement(&decode_name(named));
                    }
                    Target::Portal(named) => {
                        self.names.close_portal(&decode_name(named));
                    }
                }
                self.requests.add_step(Step::Close);
            }
            tag::COPY_FAIL => {
                let reason = CopyFail::decode(body)?.reason;
                if let Some(copy) = self.requests.copy_destination() {
                    copy.failed = Some(String::from_utf8_lossy(reason).into());
                }
                self.requests.end_copy();
            }
            _ => (),
        }
        Ok(())
    }

    fn handle_parse(&mut self, parse: &Parse<'_>, at_us: i64, place: u64) {
        let (sql, unreplayable) = decode_text(parse.sql);
        let statement = Rc::new(Statement {
            name: decode_name(parse.statement).into(),
            makes_values: generates_values(&sql),
            sql: sql.into(),
            types: parse.parameter_types.iter().collect(),
            unreplayable,
            columns: RefCell::default(),
            last_details: RefCell::default(),
        });
        let request = Request::Prepare {
            statement: statement.clone(),
        };
        let mut pending = self.new_event(request, at_us, place);
        pending.unreplayable = unreplayable;
        let number = self.requests.add_event(pending, Step::Parse);
        self.names.prepare(PreparedStatement {
            statement,
            parsed: Some((self.requests.group, number)),
        });
    }

    fn handle_bind(&mut self, bind: &Bind<'_>) {
        let mut parameters = self.buffers.take_parameters();
        let mut not_utf8 = None;
        for (index, value) in bind.parameters.iter().enumerate() {
            match (value, bind.parameter_formats.of(index)) {
                (None, _) => parameters.push_null(),
                (Some(bytes), Some(Format::Text) | None) => match std::str::from_utf8(bytes) {
                    Ok(text) => {
                        parameters.push_text(text);
                        parameters.end_value();
                    }
                    Err(_) => {
                        not_utf8 = Some(Unreplayable::NotUtf8);
                        parameters.push_text(&String::from_utf8_lossy(bytes));
                        parameters.end_value();
                    }
                },
                (Some(bytes), Some(_)) => parameters.push_binary(bytes),
            }
        }
        let result_formats = bind.result_formats.iter().map(|format| match format {
            Format::Text => ResultFormat::Text,
            _ => ResultFormat::Binary,
        });
        let result_formats = self.names.formats(result_formats);
        let named = decode_name(bind.statement);
        let (statement, parsed) = match self.names.prepared(&named) {
            Some(prepared) => (prepared.statement.clone(), prepared.parsed),
            None => {
                let unknown = Statement::unknown(&named, Unreplayable::StatementUnknown);
                (Rc::new(unknown), None)
            }
        };
        let portal = Portal {
            unreplayable: statement.unreplayable.or(not_utf8),
            statement,
            parameters: Some(parameters),
            result_formats,
            parsed,
        };
        self.names.bind(&decode_name(bind.portal), portal);
        self.requests.add_step(Step::Bind);
    }

    fn handle_execute(&mut self, execute: &Execute<'_>, at_us: i64, place: u64) {
        let named = decode_name(execute.portal);
        let portal_name = self.names.portal_name(&named);
        let group = self.requests.group;
        let mut merges = None;
        let mut pending = match self.names.portal(&named) {
            Some(portal) => {
                let statement = portal.statement.clone();
                let wants_row = statement.makes_values;
                let request = match portal.parameters.take() {
                    Some(parameters) => Request::Execute {
                        statement,
                        portal: portal_name,
                        parameters,
                    },
                    None => Request::Fetch {
                        statement: Some(statement),
                        portal: portal_name,
                    },
                };
                merges = portal.parsed.take();
                let mut pending = PendingEvent::new(request, at_us, place);
                pending.result_formats = Some(portal.result_formats.clone());
                pending.unreplayable = portal.unreplayable;
                pending.wants_row = wants_row;
                pending
            }
            // A cursor that SQL declared, or a portal from before.
            None => {
                let request = Request::Fetch {
                    statement: None,
                    portal: portal_name,
                };
                let mut pending = PendingEvent::new(request, at_us, place);
                pending.unreplayable = Some(Unreplayable::StatementUnknown);
                pending
            }
        };
        pending.recording = EventRecording::new(self.is_recorded());
        pending.rows_max = Some(execute.rows_max.max(0) as u32);
        let number = self.requests.add_event(pending, Step::Execute);
        if let Some((_, parsed)) = merges.filter(|(parsed_in, _)| *parsed_in == group) {
            self.requests.merge_into(parsed, number);
        }
    }

    /// Handles a piece of COPY data.
    pub(super) fn handle_copy_data(&mut self, bytes: &[u8]) {
        if let Some(copy) = self.requests.copy_destination() {
            copy.cut |= copy.data.len() + bytes.len() > KEPT_BYTES_MAX;
            match copy.cut || copy.unwanted {
                true => copy.data = Vec::new(),
                false => copy.data.extend_from_slice(bytes),
            }
        }
    }
}

/// Decodes a text; also returns why it cannot be replayed, if it cannot.
fn decode_text(bytes: &[u8]) -> (Cow<'_, str>, Option<Unreplayable>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.into(), None),
        Err(_) => (String::from_utf8_lossy(bytes), Some(Unreplayable::NotUtf8)),
    }
}

/// Decodes a name.
fn decode_name(bytes: &[u8]) -> Cow<'_, str> {
    decode_text(bytes).0
}
