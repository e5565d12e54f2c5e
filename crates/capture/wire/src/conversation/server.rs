//! Decodes the messages of servers.

use std::sync::Arc;

use protocol::backend::{
    CommandComplete, DataRow, ErrorNotice, KeyData, ParameterStatus, ReadyForQuery, Report,
    RowDescription, TransactionStatus, tag,
};
use protocol::{DecodeError, Header};
use workload::{
    Parameter, REPORTED_STANDARD_CONFORMING_STRINGS, ResultFormat, STANDARD_CONFORMING_STRINGS,
    Sqlstate,
};

use super::connection::{BodyHandling, Connection, Output};
use super::named_objects::{KeptRows, removes_names};
use super::pending_requests::READ_BYTES_MAX;
use super::pending_requests::{DescribeTarget, EventRecording, PendingEvent, Step};

impl Connection {
    /// Handles the header of a message; returns what to do with its body.
    pub(super) fn handle_server_header(
        &mut self,
        header: Header,
        at_us: i64,
        out: &Output<'_>,
    ) -> BodyHandling {
        if !self.ready {
            // The answer to the start-up. Requests that a client sent without waiting for it
            // come after it.
            if header.tag == tag::READY_FOR_QUERY && out.recording.is_some() {
                for (pending, _) in self.requests.in_progress() {
                    pending.recording = EventRecording::Recorded;
                }
            }
            return BodyHandling::Usual;
        }
        let answering = self.requests.current_event();
        if let Some(pending) = answering
            && !matches!(
                header.tag,
                tag::NOTICE_RESPONSE | tag::NOTIFICATION | tag::PARAMETER_STATUS
            )
        {
            pending.bytes += header.message_bytes() as u64;
            if header.tag == tag::DATA_ROW {
                pending.rows_came += 1;
                return self.begin_row(header, out);
            }
            // A row of COPY … TO STDOUT, which the command tag counts.
            if header.tag == tag::COPY_DATA
                && pending.recording == EventRecording::Recorded
                && out.options.digest
            {
                self.row.kept = None;
                return self.digest_row(header);
            }
        }
        match header.tag {
            tag::PARSE_COMPLETE => {
                self.requests.complete_parse(at_us);
                self.confirm_names();
            }
            tag::BIND_COMPLETE => {
                self.requests
                    .complete_incomplete(|step| matches!(step, Step::Bind(_)));
            }
            tag::CLOSE_COMPLETE => {
                self.requests
                    .take_answered(|step| matches!(step, Step::Close(_)));
                self.confirm_names();
            }
            tag::NO_DATA => {
                self.columns = None;
                self.requests
                    .complete_incomplete(|step| matches!(step, Step::Describe(..)));
            }
            tag::FUNCTION_CALL_RESPONSE => return self.begin_function_result(header, out),
            tag::PORTAL_SUSPENDED => {
                if let Some(pending) = self.requests.current_event() {
                    let came = pending.rows_came;
                    pending.add_rows(Some(came));
                }
                self.complete_execute(at_us);
            }
            tag::EMPTY_QUERY_RESPONSE => self.complete_execute(at_us),
            tag::COPY_IN_RESPONSE | tag::COPY_BOTH_RESPONSE => self.requests.begin_copy(),
            tag::ROW_DESCRIPTION if header.body_bytes > READ_BYTES_MAX || !self.needs_columns() => {
                self.handle_description(None);
                return BodyHandling::Pass;
            }
            _ => (),
        }
        BodyHandling::Usual
    }

    /// Completes the Execute that is being answered; a query continues until the server is ready.
    fn complete_execute(&mut self, at_us: i64) {
        if let Some(Step::Execute(number)) = self.requests.next_step() {
            let number = *number;
            self.requests
                .take_answered(|step| matches!(step, Step::Execute(_)));
            self.requests.complete(number, at_us);
        }
    }

    /// Returns whether the names of the rows' columns are needed.
    fn needs_columns(&mut self) -> bool {
        if let Some(Step::Describe(DescribeTarget::Statement(statement), _)) =
            self.requests.next_step()
        {
            let statement = statement.as_ref();
            return statement.is_some_and(|statement| statement.kept_rows != KeptRows::None);
        }
        self.requests.next_unanswered().is_some_and(|pending| {
            pending.kept_rows != KeptRows::None && pending.first_rows.is_none()
        })
    }

    /// Handles a description of rows.
    fn handle_description(&mut self, columns: Option<Arc<[Box<str>]>>) {
        if let Some(Step::Describe(described, _)) = self.requests.next_step() {
            if let DescribeTarget::Statement(Some(statement)) = described {
                statement.columns.replace(columns.clone());
            }
            self.requests
                .complete_incomplete(|step| matches!(step, Step::Describe(..)));
        }
        self.columns = columns;
    }

    /// Handles answers to changes of names.
    fn confirm_names(&mut self) {
        self.names.confirm(self.requests.take_name_changes());
    }

    fn begin_function_result(&mut self, header: Header, out: &Output<'_>) -> BodyHandling {
        let Some(pending) = self.requests.current_event() else {
            return BodyHandling::Pass;
        };
        if pending.recording != EventRecording::Recorded {
            return BodyHandling::Pass;
        }
        if pending.kept_rows != KeptRows::None && header.body_bytes <= READ_BYTES_MAX {
            return BodyHandling::Usual;
        }
        if !out.options.digest {
            return BodyHandling::Pass;
        }
        self.row.kept = None;
        self.digest_row(header)
    }

    fn begin_row(&mut self, header: Header, out: &Output<'_>) -> BodyHandling {
        let described = self.columns.is_some();
        let Some(pending) = self.requests.current_event() else {
            return BodyHandling::Usual;
        };
        let is_kept =
            pending.keeps_row(header.body_bytes) && (described || known_columns(pending).is_some());
        if pending.recording != EventRecording::Recorded || !(is_kept || out.options.digest) {
            return BodyHandling::Pass;
        }
        self.row.kept = is_kept.then(Vec::new);
        if out.options.digest {
            return self.digest_row(header);
        }
        self.row.left = header.body_bytes;
        BodyHandling::Pieces
    }

    fn digest_row(&mut self, header: Header) -> BodyHandling {
        self.row.left = header.body_bytes;
        let digest = self.row.digest.get_or_insert_default();
        digest.begin_row(header.body_bytes);
        BodyHandling::Pieces
    }

    /// Handles a piece of a row.
    pub(super) fn handle_row_piece(&mut self, piece: &[u8]) -> Result<(), DecodeError> {
        let row = &mut self.row;
        let checksum = row
            .digest
            .as_mut()
            .and_then(|digest| digest.add_bytes(piece));
        if let Some(kept) = &mut row.kept {
            kept.extend_from_slice(piece);
        }
        row.left = row.left.saturating_sub(piece.len());
        if row.left > 0 {
            return Ok(());
        }
        let kept = row.kept.take();
        let columns = self.columns.clone();
        let Some(pending) = self.requests.current_event() else {
            return Ok(());
        };
        if let Some(checksum) = checksum {
            let sum = pending.digest.unwrap_or(0);
            pending.digest = Some(sum.wrapping_add(checksum));
        }
        let columns = columns.or_else(|| known_columns(pending));
        if let (Some(body), Some(columns)) = (kept, columns) {
            let values = decode_row(&columns, &DataRow::decode(&body)?, pending);
            pending.keep_row(&columns, body.len(), values);
        }
        Ok(())
    }

    /// Records a setting at the start of the session, whatever its origin. If backslashes escape in
    /// literals, masking must parse the session's texts accordingly.
    fn record_setting(&mut self, setting: &ParameterStatus<'_>) {
        if setting.name == STANDARD_CONFORMING_STRINGS.as_bytes() && setting.value == b"off" {
            self.settings
                .push((REPORTED_STANDARD_CONFORMING_STRINGS.into(), "off".into()));
        }
    }

    /// Handles a message with its body.
    pub(super) fn handle_server_message(
        &mut self,
        message: u8,
        body: &[u8],
        at_us: i64,
    ) -> Result<(), DecodeError> {
        match message {
            tag::KEY_DATA => {
                let key = KeyData::decode(body)?;
                self.key = Some((key.process_id, key.secret_key.into()));
            }
            // An invalid ParameterStatus is ignored, since nothing else is read of it.
            tag::PARAMETER_STATUS => {
                if let (false, Ok(setting)) = (self.ready, ParameterStatus::decode(body)) {
                    self.record_setting(&setting);
                }
            }
            tag::READY_FOR_QUERY if !self.ready => {
                self.transaction = ReadyForQuery::decode(body)?.status;
                self.handle_ready(at_us);
            }
            _ if !self.ready => (),
            tag::COMMAND_COMPLETE => {
                let complete = CommandComplete::decode(body)?;
                self.state.command_complete(complete.tag);
                if let Some(pending) = self.requests.current_event() {
                    pending.add_rows(complete.rows());
                    if removes_names(complete.tag)
                        && let Some(sql) = pending.request.sql()
                    {
                        self.names.remove_names(complete.tag, sql);
                    }
                }
                self.complete_execute(at_us);
            }
            tag::ERROR_RESPONSE => {
                let error = ErrorNotice::decode(Report::Error, body)?;
                let sqlstate = error.sqlstate().map_or(Sqlstate::UNKNOWN, Sqlstate);
                self.confirm_names();
                self.requests.fail(sqlstate, at_us);
                let skipped = self.requests.take_name_changes();
                for (wrong, right) in self.names.revert(skipped) {
                    self.requests.replace_statement(&wrong, &right);
                }
            }
            tag::FUNCTION_CALL_RESPONSE => self.handle_function_result(body)?,
            tag::ROW_DESCRIPTION => {
                let description = RowDescription::decode(body)?;
                let names = description.iter();
                let names = names.map(|field| String::from_utf8_lossy(field.name).into());
                self.handle_description(Some(names.collect()));
            }
            tag::READY_FOR_QUERY => {
                self.transaction = ReadyForQuery::decode(body)?.status;
                if self.transaction == TransactionStatus::Idle {
                    self.names.end_transaction();
                }
                self.columns = None;
                self.requests.complete_all(at_us);
            }
            _ => (),
        }
        Ok(())
    }
}

/// Returns the names of the rows' columns, if the client has requested them before.
fn known_columns(pending: &PendingEvent) -> Option<Arc<[Box<str>]>> {
    pending.request.statement()?.columns.borrow().clone()
}

/// Decodes a row of a result; `None` if it does not match the described columns.
fn decode_row(
    columns: &[Box<str>],
    row: &DataRow<'_>,
    pending: &PendingEvent,
) -> Option<Vec<Option<Parameter>>> {
    if row.columns.len() != columns.len() {
        return None;
    }
    let formats = pending.result_formats.as_deref().unwrap_or_default();
    let value = |(index, value): (usize, Option<&[u8]>)| {
        let format = match formats.len() {
            1 => formats.first(),
            _ => formats.get(index),
        };
        value.map(|bytes| match (format, std::str::from_utf8(bytes)) {
            (None | Some(ResultFormat::Text), Ok(text)) => Parameter::from(text),
            _ => Parameter::from(bytes),
        })
    };
    Some(row.columns.iter().enumerate().map(value).collect())
}
