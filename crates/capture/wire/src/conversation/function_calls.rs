//! Decodes calls of functions by their OIDs, as libpq and JDBC make them for large objects.

use std::fmt::Write;

use protocol::DecodeError;
use protocol::backend::FunctionCallResponse;
use protocol::frontend::FunctionCall;
use workload::{
    Boundary, FIRST_USER_OID, FirstRows, LO_CREAT, LO_CREATE, LargeObjectFunction, Parameter,
    Unreplayable,
};

use super::connection::Connection;
use super::named_objects::KeptRows;
use super::pending_requests::{PendingEvent, Request, Step};

impl Connection {
    /// Handles FunctionCall.
    pub(super) fn handle_function_call(&mut self, call: &FunctionCall<'_>, at_us: i64, place: u64) {
        self.end_unexecuted();
        let (parameters, not_utf8) = self.pack_values(call.arguments, call.argument_formats);
        let request = Request::FunctionCall {
            function: call.function.to_string().into(),
            sql: describe_call(call.function, parameters.borrowed().len()).into(),
            parameters,
        };
        let mut pending = self.new_event(request, at_us, place);
        pending.kept_rows = match call.function {
            LO_CREAT | LO_CREATE => KeptRows::First,
            _ => KeptRows::None,
        };
        let format = self
            .names
            .formats([super::result_format(call.result_format)].into_iter());
        pending.result_formats = Some(format);
        pending.unreplayable =
            not_utf8.or((call.function >= FIRST_USER_OID).then_some(Unreplayable::FunctionUnknown));
        pending.boundary = Boundary::Sync;
        self.requests.add_event(pending, Step::Function);
    }

    /// Handles FunctionCallResponse: the result identifies a large object.
    pub(super) fn handle_function_result(&mut self, body: &[u8]) -> Result<(), DecodeError> {
        let response = FunctionCallResponse::decode(body)?;
        let is_kept = |one: &&mut PendingEvent| one.kept_rows != KeptRows::None;
        let Some(pending) = self.requests.current_event().filter(is_kept) else {
            return Ok(());
        };
        let binary = pending.result_formats.as_deref() == Some(&[workload::ResultFormat::Binary]);
        let value = |bytes| match (binary, std::str::from_utf8(bytes)) {
            (false, Ok(text)) => Parameter::from(text),
            _ => Parameter::from(bytes),
        };
        pending.first_rows = Some(Box::new(FirstRows {
            columns: vec!["result".into()],
            values: vec![response.result.map(value)],
        }));
        Ok(())
    }
}

/// Returns a call in words.
fn describe_call(function: u32, arguments: usize) -> String {
    let mut call = match LargeObjectFunction::of(function) {
        Some(known) => known.name.to_owned(),
        None => format!("\"function {function}\""),
    };
    call.push('(');
    for number in 1..=arguments {
        let separator = if number > 1 { ", " } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(call, "{separator}${number}");
    }
    call.push(')');
    call
}
