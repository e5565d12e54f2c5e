//! A client that sends the messages that a test chooses, and keeps the bytes of both sides.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use protocol::backend::{ErrorNotice, FunctionCallResponse, Report, tag};
use protocol::frontend::{
    Close, Describe, Execute, Flush, PasswordMessage, Query, Sync, Target, Terminate,
};
use protocol::frontend::{bind, function_call, parse, startup};
use protocol::{Format, PROTOCOL_3_0, next_frame};

/// Password of the superuser.
pub const PASSWORD: &str = "outcomes";

/// Value of a parameter with its format.
pub enum Value<'a> {
    Text(&'a str),
}

pub struct Raw {
    stream: TcpStream,
    out: Vec<u8>,
    unread: Vec<u8>,
    /// Bytes of the client (true) and the server.
    pub turns: Vec<(bool, Vec<u8>)>,
}

/// Answer of the server up to a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// SQLSTATEs of the errors.
    pub errors: Vec<String>,
    /// Result of the last function call.
    pub result: Option<Vec<u8>>,
    /// Bodies of the rows.
    pub rows: Vec<Vec<u8>>,
}

impl Raw {
    pub fn connect(port: u16, database: &str, application: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        let mut raw = Raw {
            stream,
            out: Vec::new(),
            unread: Vec::new(),
            turns: Vec::new(),
        };
        let parameters = [
            ("user", "postgres"),
            ("database", database),
            ("application_name", application),
        ];
        let parameters = parameters.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        startup::encode(PROTOCOL_3_0, parameters, &mut raw.out).unwrap();
        raw.until(tag::AUTHENTICATION);
        let password = PASSWORD.as_bytes();
        PasswordMessage { password }.encode(&mut raw.out).unwrap();
        assert_eq!(raw.until(tag::READY_FOR_QUERY).errors, [""; 0]);
        raw
    }

    pub fn parse(&mut self, name: &str, sql: &str, types: &[u32]) -> &mut Self {
        let types = types.iter().copied();
        parse::encode(name.as_bytes(), sql.as_bytes(), types, &mut self.out).unwrap();
        self
    }

    pub fn bind(&mut self, portal: &str, statement: &str, values: &[Value<'_>]) -> &mut Self {
        let formats = values.iter().map(|value| match value {
            Value::Text(_) => Format::Text,
        });
        let bytes = values.iter().map(|value| {
            Some(match value {
                Value::Text(text) => text.as_bytes(),
            })
        });
        let (portal, statement) = (portal.as_bytes(), statement.as_bytes());
        bind::encode(portal, statement, formats, bytes, [], &mut self.out).unwrap();
        self
    }

    pub fn describe(&mut self, target: Target<'_>) -> &mut Self {
        Describe { target }.encode(&mut self.out).unwrap();
        self
    }

    pub fn close(&mut self, target: Target<'_>) -> &mut Self {
        Close { target }.encode(&mut self.out).unwrap();
        self
    }

    pub fn execute(&mut self, portal: &str, rows_max: i32) -> &mut Self {
        let portal = portal.as_bytes();
        Execute { portal, rows_max }.encode(&mut self.out).unwrap();
        self
    }

    /// Sends a Sync, and reads the answers.
    pub fn sync(&mut self) -> Answer {
        Sync.encode(&mut self.out);
        self.until(tag::READY_FOR_QUERY)
    }

    /// Sends a Flush, and reads up to a message with this tag.
    pub fn flush(&mut self, last: u8) -> Answer {
        Flush.encode(&mut self.out);
        self.until(last)
    }

    pub fn query(&mut self, sql: &str) -> Answer {
        let sql = sql.as_bytes();
        Query { sql }.encode(&mut self.out).unwrap();
        self.until(tag::READY_FOR_QUERY)
    }

    /// Calls a function with arguments in binary format.
    pub fn call(&mut self, function: u32, arguments: &[&[u8]]) -> Answer {
        let formats = [Format::Binary];
        let arguments = arguments.iter().copied().map(Some);
        let out = &mut self.out;
        function_call::encode(function, formats, arguments, Format::Binary, out).unwrap();
        self.until(tag::READY_FOR_QUERY)
    }

    /// Sends what waits, and reads up to a message with this tag.
    pub fn until(&mut self, last: u8) -> Answer {
        let out = std::mem::take(&mut self.out);
        self.stream.write_all(&out).unwrap();
        self.turns.push((true, out));
        let mut answer = Answer::default();
        loop {
            while let Some(frame) = next_frame(&self.unread, 1 << 24).unwrap() {
                let body = frame.body;
                match frame.tag {
                    tag::ERROR_RESPONSE => {
                        let error = ErrorNotice::decode(Report::Error, body).unwrap();
                        let code = error.sqlstate().unwrap().to_vec();
                        answer.errors.push(String::from_utf8(code).unwrap());
                    }
                    tag::FUNCTION_CALL_RESPONSE => {
                        let response = FunctionCallResponse::decode(body).unwrap();
                        answer.result = response.result.map(<[u8]>::to_vec);
                    }
                    tag::DATA_ROW => answer.rows.push(body.to_vec()),
                    _ => {}
                }
                let (tag, taken) = (frame.tag, frame.message_bytes());
                self.unread.drain(..taken);
                if tag == last {
                    return answer;
                }
            }
            let mut buffer = [0; 1 << 16];
            let read = self.stream.read(&mut buffer).unwrap();
            if read == 0 {
                return answer;
            }
            self.unread.extend_from_slice(&buffer[..read]);
            self.turns.push((false, buffer[..read].to_vec()));
        }
    }

    /// Ends the session. Returns the bytes of both sides.
    pub fn end(mut self) -> Vec<(bool, Vec<u8>)> {
        let mut out = Vec::new();
        Terminate.encode(&mut out);
        self.stream.write_all(&out).unwrap();
        self.turns.push((true, out));
        self.turns
    }
}
