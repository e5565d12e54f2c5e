//! What a client says.

use std::sync::Arc;

use pgwire::frontend::{Bind, Close, CopyFail, Describe, Execute, Parse, Query, Target, tag};
use pgwire::{DecodeError, Format, Header};
use workload::{Boundary, PackedParameters, ResultFormat, Unreplayable};

use super::connection::{Connection, KEPT_BYTES_MAX, Out, Take};
use super::exchange::{Asked, Described, Pending, Step};
use super::names::{Portal, Prepared, makes_values};

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
            pgwire::copy::COPY_DONE => self.exchange.copied(),
            pgwire::copy::COPY_DATA if self.exchange.copy().is_some() => return Take::Pieces,
            _ => (),
        }
        Take::Usual
    }

    /// A message that is not kept: what it names is not known.
    fn too_long(&mut self, tag: u8, at_us: i64, place: u64, out: &mut Out<'_>) {
        out.account.too_long += 1;
        let nothing = || Arc::<str>::from("");
        match tag {
            tag::QUERY | tag::PARSE => {
                let asked = match tag {
                    tag::QUERY => Asked::Simple { sql: nothing() },
                    _ => Asked::Prepare {
                        statement: nothing(),
                        sql: nothing(),
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
                let (sql, unreplayable) = text(Query::decode(body)?.sql);
                let wants_row = makes_values(&sql);
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
                    Target::Statement(name) => {
                        Described::Statement(String::from_utf8_lossy(name).into())
                    }
                    Target::Portal(_) => Described::Portal,
                };
                self.exchange.step(Step::Describe(described));
            }
            tag::CLOSE => {
                match Close::decode(body)?.target {
                    Target::Statement(name) => {
                        self.names.close_statement(&String::from_utf8_lossy(name));
                    }
                    Target::Portal(name) => {
                        self.names.close_portal(&String::from_utf8_lossy(name));
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
        let name = String::from_utf8_lossy(parse.statement);
        let (sql, unreplayable) = text(parse.sql);
        let types: Arc<[u32]> = match parse.parameter_types.is_empty() {
            true => Arc::default(),
            false => parse.parameter_types.iter().collect(),
        };
        let asked = Asked::Prepare {
            statement: "".into(),
            sql: sql.clone(),
        };
        let mut pending = self.pending(asked, at_us, place);
        pending.unreplayable = unreplayable;
        pending.parameter_types = types.clone();
        let number = self.exchange.ask(pending, Step::Parse);
        let prepared = Prepared {
            makes_values: makes_values(&sql),
            sql,
            types,
            unreplayable,
            parsed: Some((self.exchange.group, number)),
            columns: None,
            alike: None,
        };
        let name = self.names.prepare(&name, prepared);
        if let Some(pending) = self.exchange.get(number)
            && let Asked::Prepare { statement, .. } = &mut pending.asked
        {
            *statement = name;
        }
    }

    fn bind(&mut self, bind: &Bind<'_>) {
        let name = String::from_utf8_lossy(bind.statement);
        let mut parameters = PackedParameters::default();
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
        let result_formats = result_formats.collect();
        let portal = match self.names.prepared(&name) {
            Some((statement, prepared)) => Portal {
                statement: statement.clone(),
                sql: prepared.sql.clone(),
                types: prepared.types.clone(),
                parameters: Some(parameters),
                result_formats,
                unreplayable: prepared.unreplayable.or(not_utf8),
                makes_values: prepared.makes_values,
                parsed: prepared.parsed,
                columns: prepared.columns.clone(),
                alike: prepared.alike.clone(),
            },
            None => Portal {
                statement: (&*name).into(),
                sql: "".into(),
                types: Arc::default(),
                parameters: Some(parameters),
                result_formats,
                unreplayable: Some(Unreplayable::StatementUnknown),
                makes_values: false,
                parsed: None,
                columns: None,
                alike: None,
            },
        };
        self.names
            .bind(&String::from_utf8_lossy(bind.portal), portal);
        self.exchange.step(Step::Bind);
    }

    fn execute(&mut self, execute: &Execute<'_>, at_us: i64, place: u64) {
        let name = String::from_utf8_lossy(execute.portal);
        let portal_name: Arc<str> = (&*name).into();
        let group = self.exchange.group;
        let mut merges = None;
        let mut pending = match self.names.portal(&name) {
            Some(portal) => {
                let (statement, sql) = (portal.statement.clone(), portal.sql.clone());
                let asked = match portal.parameters.take() {
                    Some(parameters) => Asked::Execute {
                        statement,
                        portal: portal_name,
                        sql,
                        parameters,
                    },
                    None => Asked::Fetch {
                        statement,
                        portal: portal_name,
                        sql,
                    },
                };
                merges = portal.parsed.take();
                let mut pending = Pending::new(asked, at_us, place);
                pending.parameter_types = portal.types.clone();
                pending.result_formats = portal.result_formats.clone();
                pending.unreplayable = portal.unreplayable;
                pending.wants_row = portal.makes_values;
                pending.columns = portal.columns.clone();
                pending.alike = portal.alike.clone();
                pending
            }
            // A cursor that SQL declared, or a portal from before.
            None => {
                let asked = Asked::Fetch {
                    statement: "".into(),
                    portal: portal_name,
                    sql: "".into(),
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
fn text(bytes: &[u8]) -> (Arc<str>, Option<Unreplayable>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.into(), None),
        Err(_) => (
            String::from_utf8_lossy(bytes).into(),
            Some(Unreplayable::NotUtf8),
        ),
    }
}
