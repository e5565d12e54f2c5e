//! Decodes the messages of clients.

use std::cell::RefCell;
use std::rc::Rc;

use protocol::frontend::{
    Bind, Close, CopyFail, Describe, Execute, FunctionCall, Parse, Query, Target, tag,
};
use protocol::{DecodeError, Format, Formats, Header, Values};
use workload::{Boundary, PackedParameters, Unreplayable};

use super::connection::{BodyHandling, Connection, KEPT_BYTES_MAX, Output};
use super::named_objects::{
    KeptRows, Portal, PreparedStatement, Statement, UnexecutedMessage, UnexecutedRequest,
    decode_name, decode_text,
};
use super::pending_requests::{
    CloseTarget, EventRecording, PendingEvent, Preparation, Request, Step,
};

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
            tag::SYNC => self.handle_sync(),
            tag::FLUSH => {
                self.end_unexecuted();
                self.requests.set_boundary(Boundary::Flush);
            }
            tag::TERMINATE => self.handle_terminate(at_us),
            tag::FUNCTION_CALL => out.account.function_calls += 1,
            protocol::copy::COPY_DONE => self.requests.end_copy(),
            protocol::copy::COPY_DATA if self.requests.copy_destination().is_some() => {
                return BodyHandling::Pieces;
            }
            _ => (),
        }
        BodyHandling::Usual
    }

    fn handle_sync(&mut self) {
        self.end_unexecuted();
        if self.requests.is_skipping() {
            self.names.revert_all();
        }
        self.requests.set_boundary(Boundary::Sync);
    }

    /// Handles a message that is too long to keep: its text and names are unknown.
    fn handle_too_long(&mut self, tag: u8, at_us: i64, place: u64, out: &mut Output<'_>) {
        out.account.too_long += 1;
        match tag {
            tag::QUERY => {
                let request = Request::Simple { sql: String::new() };
                let mut pending = self.too_long_event(request, at_us, place);
                pending.boundary = Boundary::Sync;
                self.requests.add_event(pending, Step::Query);
            }
            tag::FUNCTION_CALL => {
                out.account.function_calls += 1;
                let request = Request::FunctionCall {
                    function: Box::default(),
                    sql: Box::default(),
                    parameters: Box::default(),
                };
                let mut pending = self.too_long_event(request, at_us, place);
                pending.boundary = Boundary::Sync;
                self.requests.add_event(pending, Step::Function);
            }
            tag::PARSE => {
                let statement = Rc::new(Statement::unknown("", Unreplayable::TooLong));
                let request = Request::Prepare {
                    statement: statement.clone(),
                };
                let pending = self.too_long_event(request, at_us, place);
                self.requests.add_event(pending, Step::Parse);
                // Another name than the unnamed statement's has no text then, and is counted at its use.
                let parsed = None;
                self.names.prepare(PreparedStatement { statement, parsed });
            }
            tag::BIND => {
                self.begin_bind();
                self.names.forget_portals();
                self.requests.add_step(Step::Bind(None));
            }
            _ => (),
        }
    }

    fn too_long_event(&mut self, request: Request, at_us: i64, place: u64) -> PendingEvent {
        self.end_unexecuted();
        let mut pending = self.new_event(request, at_us, place);
        pending.unreplayable = Some(Unreplayable::TooLong);
        pending
    }

    pub(super) fn new_event(&self, request: Request, at_us: i64, place: u64) -> PendingEvent {
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
                self.end_unexecuted();
                let (text, unreplayable) = decode_text(Query::decode(body)?.sql);
                let kept_rows = KeptRows::of(&text);
                let mut sql = self.buffers.take_text();
                sql.push_str(&text);
                let mut pending = self.new_event(Request::Simple { sql }, at_us, place);
                pending.kept_rows = kept_rows;
                pending.unreplayable = unreplayable;
                pending.boundary = Boundary::Sync;
                self.requests.add_event(pending, Step::Query);
            }
            tag::PARSE => self.handle_parse(&Parse::decode(body)?, at_us, place),
            tag::BIND => self.handle_bind(&Bind::decode(body)?, at_us, place),
            tag::EXECUTE => self.handle_execute(&Execute::decode(body)?, at_us, place),
            tag::DESCRIBE => self.handle_describe(&Describe::decode(body)?, at_us, place),
            tag::CLOSE => {
                self.end_unexecuted();
                let target = match Close::decode(body)?.target {
                    Target::Statement(named) => {
                        self.names.close_statement(&decode_name(named));
                        CloseTarget::Statement
                    }
                    Target::Portal(named) => {
                        self.names.close_portal(&decode_name(named));
                        CloseTarget::Portal
                    }
                };
                self.requests.add_step(Step::Close(target));
            }
            tag::FUNCTION_CALL => {
                self.handle_function_call(&FunctionCall::decode(body)?, at_us, place);
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
        self.end_unexecuted();
        let (sql, unreplayable) = decode_text(parse.sql);
        let statement = Rc::new(Statement {
            name: decode_name(parse.statement).into(),
            kept_rows: KeptRows::of(&sql),
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
        if !statement.name.is_empty() {
            pending.preparation = Preparation::SameGroup;
        }
        let number = self.requests.add_event(pending, Step::Parse);
        self.names.prepare(PreparedStatement {
            statement,
            parsed: Some((self.requests.group, number)),
        });
    }

    fn handle_bind(&mut self, bind: &Bind<'_>, at_us: i64, place: u64) {
        self.begin_bind();
        let (parameters, not_utf8) = self.pack_values(bind.parameters, bind.parameter_formats);
        let result_formats = bind.result_formats.iter().map(super::result_format);
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
        let portal_name = decode_name(bind.portal);
        self.names.bind(&portal_name, portal);
        self.unexecuted = Some(UnexecutedMessage {
            request: UnexecutedRequest::Bind {
                portal: self.names.portal_name(&portal_name),
            },
            at_us,
            place,
        });
        self.requests.add_step(Step::Bind(None));
    }

    /// Packs the values of a Bind or FunctionCall. Also returns why they cannot be replayed, if they cannot.
    pub(super) fn pack_values(
        &mut self,
        values: Values<'_>,
        formats: Formats<'_>,
    ) -> (Box<PackedParameters>, Option<Unreplayable>) {
        let mut parameters = self.buffers.take_parameters();
        let mut not_utf8 = None;
        for (index, value) in values.iter().enumerate() {
            match (value, formats.of(index)) {
                (None, _) => parameters.push_null(),
                (Some(bytes), Some(Format::Text) | None) => {
                    let (text, unreplayable) = decode_text(bytes);
                    not_utf8 = not_utf8.or(unreplayable);
                    parameters.push_text(&text);
                    parameters.end_value();
                }
                (Some(bytes), Some(_)) => parameters.push_binary(bytes),
            }
        }
        (parameters, not_utf8)
    }

    fn handle_execute(&mut self, execute: &Execute<'_>, at_us: i64, place: u64) {
        let named = decode_name(execute.portal);
        self.execute_unexecuted(&named);
        let portal_name = self.names.portal_name(&named);
        let group = self.requests.group;
        let mut merges = None;
        let mut pending = match self.names.portal(&named) {
            Some(portal) => {
                let statement = portal.statement.clone();
                let kept_rows = statement.kept_rows;
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
                pending.kept_rows = kept_rows;
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
