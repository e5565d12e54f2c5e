//! What a client says.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use protocol::frontend::{Bind, Close, CopyFail, Describe, Execute, Parse, Query, Target, tag};
use protocol::{DecodeError, Format, Header};
use workload::{Boundary, ResultFormat, Unreplayable};

use super::connection::{Connection, KEPT_BYTES_MAX, Out, Take};
use super::exchange::{Asked, Described, Pending, Step};
use super::names::{Portal, Prepared, Statement, makes_values};

impl Connection {
    /// A message begins; what is to be done with its body.
    pub(super) fn client_header(
        &mut self,
        header: Header,
        at_us: i64,
        place: u64,
        out: &mut Out<'_>,
    ) -> Take {
        if header.body_bytes > KEPT_BYTES_MAX && header.tag != tag::COPY_DATA {
            self.too_long(header.tag, at_us, place, out);
            return Take::Pass;
        }
        match header.tag {
            tag::SYNC => self.exchange.boundary(Boundary::Sync),
            tag::FLUSH => self.exchange.boundary(Boundary::Flush),
            tag::TERMINATE => self.terminated(at_us),
            tag::FUNCTION_CALL => {
                out.account.function_calls += 1;
                self.exchange.step(Step::Function);
            }
            protocol::copy::COPY_DONE => self.exchange.copied(),
            protocol::copy::COPY_DATA if self.exchange.copy().is_some() => return Take::Pieces,
            _ => (),
        }
        Take::Usual
    }

    /// A message that is not kept: what it names is not known.
    fn too_long(&mut self, tag: u8, at_us: i64, place: u64, out: &mut Out<'_>) {
        out.account.too_long += 1;
        match tag {
            tag::QUERY | tag::PARSE => {
                let asked = match tag {
                    tag::QUERY => Asked::Simple { sql: String::new() },
                    _ => Asked::Prepare {
                        statement: Rc::new(Statement::unknown("", Unreplayable::TooLong)),
                    },
                };
                let mut pending = self.pending(asked, at_us, place);
                pending.unreplayable = Some(Unreplayable::TooLong);
                match tag {
                    tag::QUERY => {
                        pending.boundary = Boundary::Sync;
                        self.exchange.ask(pending, Step::Query);
                    }
                    _ => {
                        self.names.lost();
                        self.exchange.ask(pending, Step::Parse);
                    }
                }
            }
            tag::BIND => {
                self.names.lost();
                self.exchange.step(Step::Bind);
            }
            _ => (),
        }
    }

    fn pending(&self, asked: Asked, at_us: i64, place: u64) -> Pending {
        let mut pending = Pending::new(asked, at_us, place);
        pending.recorded = self.is_recorded();
        pending
    }

    /// A message whose body says something.
    pub(super) fn client_message(
        &mut self,
        message: u8,
        body: &[u8],
        at_us: i64,
        place: u64,
    ) -> Result<(), DecodeError> {
        match message {
            tag::QUERY => {
                let (text, unreplayable) = text(Query::decode(body)?.sql);
                let wants_row = makes_values(&text);
                let mut sql = self.spare.text();
                sql.push_str(&text);
                let mut pending = self.pending(Asked::Simple { sql }, at_us, place);
                pending.wants_row = wants_row;
                pending.unreplayable = unreplayable;
                pending.boundary = Boundary::Sync;
                self.exchange.ask(pending, Step::Query);
            }
            tag::PARSE => self.parse(&Parse::decode(body)?, at_us, place),
            tag::BIND => self.bind(&Bind::decode(body)?),
            tag::EXECUTE => self.execute(&Execute::decode(body)?, at_us, place),
            tag::DESCRIBE => {
                let described = match Describe::decode(body)?.target {
                    Target::Statement(named) => {
                        let prepared = self.names.prepared(&name(named));
                        Described::Statement(prepared.map(|known| known.statement.clone()))
                    }
                    Target::Portal(_) => Described::Portal,
                };
                self.exchange.step(Step::Describe(described));
            }
            tag::CLOSE => {
                match Close::decode(body)?.target {
                    Target::Statement(named) => {
                        self.names.close_statement(&name(named));
                    }
                    Target::Portal(named) => {
                        self.names.close_portal(&name(named));
                    }
                }
                self.exchange.step(Step::Close);
            }
            tag::COPY_FAIL => {
                let reason = CopyFail::decode(body)?.reason;
                if let Some(copy) = self.exchange.copy() {
                    copy.failed = Some(String::from_utf8_lossy(reason).into());
                }
                self.exchange.copied();
            }
            _ => (),
        }
        Ok(())
    }

    fn parse(&mut self, parse: &Parse<'_>, at_us: i64, place: u64) {
        let (sql, unreplayable) = text(parse.sql);
        let statement = Rc::new(Statement {
            name: name(parse.statement).into(),
            makes_values: makes_values(&sql),
            sql: sql.into(),
            types: parse.parameter_types.iter().collect(),
            unreplayable,
            columns: RefCell::default(),
            alike: RefCell::default(),
        });
        let asked = Asked::Prepare {
            statement: statement.clone(),
        };
        let mut pending = self.pending(asked, at_us, place);
        pending.unreplayable = unreplayable;
        let number = self.exchange.ask(pending, Step::Parse);
        self.names.prepare(Prepared {
            statement,
            parsed: Some((self.exchange.group, number)),
        });
    }

    fn bind(&mut self, bind: &Bind<'_>) {
        let mut parameters = self.spare.parameters();
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
        let named = name(bind.statement);
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
        self.names.bind(&name(bind.portal), portal);
        self.exchange.step(Step::Bind);
    }

    fn execute(&mut self, execute: &Execute<'_>, at_us: i64, place: u64) {
        let named = name(execute.portal);
        let portal_name = self.names.portal_name(&named);
        let group = self.exchange.group;
        let mut merges = None;
        let mut pending = match self.names.portal(&named) {
            Some(portal) => {
                let statement = portal.statement.clone();
                let wants_row = statement.makes_values;
                let asked = match portal.parameters.take() {
                    Some(parameters) => Asked::Execute {
                        statement,
                        portal: portal_name,
                        parameters,
                    },
                    None => Asked::Fetch {
                        statement: Some(statement),
                        portal: portal_name,
                    },
                };
                merges = portal.parsed.take();
                let mut pending = Pending::new(asked, at_us, place);
                pending.result_formats = Some(portal.result_formats.clone());
                pending.unreplayable = portal.unreplayable;
                pending.wants_row = wants_row;
                pending
            }
            // A cursor that SQL declared, or a portal from before.
            None => {
                let asked = Asked::Fetch {
                    statement: None,
                    portal: portal_name,
                };
                let mut pending = Pending::new(asked, at_us, place);
                pending.unreplayable = Some(Unreplayable::StatementUnknown);
                pending
            }
        };
        pending.recorded = self.is_recorded();
        pending.rows_max = Some(execute.rows_max.max(0) as u32);
        let number = self.exchange.ask(pending, Step::Execute);
        if let Some((_, parsed)) = merges.filter(|(parsed_in, _)| *parsed_in == group) {
            self.exchange.merge(parsed, number);
        }
    }

    /// A piece of COPY data.
    pub(super) fn copy_data(&mut self, bytes: &[u8]) {
        if let Some(copy) = self.exchange.copy() {
            copy.cut |= copy.data.len() + bytes.len() > KEPT_BYTES_MAX;
            match copy.cut || copy.unwanted {
                true => copy.data = Vec::new(),
                false => copy.data.extend_from_slice(bytes),
            }
        }
    }
}

/// A text, and why it cannot be sent again as it was.
fn text(bytes: &[u8]) -> (Cow<'_, str>, Option<Unreplayable>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.into(), None),
        Err(_) => (String::from_utf8_lossy(bytes), Some(Unreplayable::NotUtf8)),
    }
}

/// What a client calls something.
fn name(bytes: &[u8]) -> Cow<'_, str> {
    text(bytes).0
}
