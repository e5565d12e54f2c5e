//! What the server answers.

use std::sync::Arc;

use protocol::backend::{
    CommandComplete, DataRow, ErrorNotice, KeyData, ParameterStatus, ReadyForQuery, Report,
    RowDescription, TransactionStatus, tag,
};
use protocol::{DecodeError, Header};
use workload::{FirstRow, Parameter, REPORTED_STRINGS, ResultFormat, RowDigest, STRINGS, Sqlstate};

use super::connection::{Connection, Out, Take};
use super::exchange::{Described, Pending, Step};
use super::names::takes_names;

/// A description of rows or a first row that is longer is not read, in bytes.
const READ_BYTES_MAX: usize = 64 << 10;

/// The row that is passing.
#[derive(Debug, Default)]
pub(super) struct Row {
    left: usize,
    digest: Option<RowDigest>,
    /// It is the first, and its values are wanted.
    kept: Option<Vec<u8>>,
}

impl Connection {
    /// A message begins; what is to be done with its body.
    pub(super) fn server_header(&mut self, header: Header, at_us: i64, out: &Out<'_>) -> Take {
        if !self.ready {
            // It answers the start-up. What a client asks without waiting for that stands behind it.
            if header.tag == tag::READY_FOR_QUERY && out.recording.is_some() {
                for (pending, _) in self.exchange.under_way() {
                    pending.recorded = true;
                }
            }
            return Take::Usual;
        }
        let answering = self.exchange.answering();
        if let Some(pending) = answering
            && !matches!(
                header.tag,
                tag::NOTICE_RESPONSE | tag::NOTIFICATION | tag::PARAMETER_STATUS
            )
        {
            pending.bytes += header.message_bytes() as u64;
            if header.tag == tag::DATA_ROW {
                pending.rows_came += 1;
                return self.row_begins(header, out);
            }
            // A row of COPY … TO STDOUT: the command's tag counts it.
            if header.tag == tag::COPY_DATA && pending.recorded && out.options.digest {
                self.row.kept = None;
                return self.row_is_summed_up(header);
            }
        }
        match header.tag {
            tag::PARSE_COMPLETE => self.exchange.parsed(at_us),
            tag::BIND_COMPLETE => drop(self.exchange.answered(|step| matches!(step, Step::Bind))),
            tag::CLOSE_COMPLETE => drop(self.exchange.answered(|step| matches!(step, Step::Close))),
            tag::NO_DATA => {
                self.columns = None;
                self.exchange
                    .answered(|step| matches!(step, Step::Describe(_)));
            }
            tag::PORTAL_SUSPENDED => {
                if let Some(pending) = self.exchange.answering() {
                    let came = pending.rows_came;
                    pending.add_rows(Some(came));
                }
                self.executed(at_us);
            }
            tag::EMPTY_QUERY_RESPONSE => self.executed(at_us),
            tag::COPY_IN_RESPONSE | tag::COPY_BOTH_RESPONSE => self.exchange.copies(),
            tag::ROW_DESCRIPTION if header.body_bytes > READ_BYTES_MAX || !self.wants_columns() => {
                self.described(None);
                return Take::Pass;
            }
            _ => (),
        }
        Take::Usual
    }

    /// The Execute that is being answered is done; a query goes on until the server is ready.
    fn executed(&mut self, at_us: i64) {
        if let Some(Step::Execute(number)) = self.exchange.front() {
            let number = *number;
            self.exchange
                .answered(|step| matches!(step, Step::Execute(_)));
            self.exchange.done(number, at_us);
        }
    }

    /// Whether somebody will want to know what the rows' columns are called.
    fn wants_columns(&mut self) -> bool {
        if let Some(Step::Describe(Described::Statement(statement))) = self.exchange.front() {
            return (statement.as_ref()).is_some_and(|statement| statement.makes_values);
        }
        self.exchange
            .upcoming()
            .is_some_and(|pending| pending.wants_row && pending.first_row.is_none())
    }

    /// The server has described rows.
    fn described(&mut self, columns: Option<Arc<[Box<str>]>>) {
        if let Some(Step::Describe(described)) = self.exchange.front() {
            if let Described::Statement(Some(statement)) = described {
                statement.columns.replace(columns.clone());
            }
            self.exchange
                .answered(|step| matches!(step, Step::Describe(_)));
        }
        self.columns = columns;
    }

    fn row_begins(&mut self, header: Header, out: &Out<'_>) -> Take {
        let described = self.columns.is_some();
        let Some(pending) = self.exchange.answering() else {
            return Take::Usual;
        };
        let is_first = pending.wants_row
            && pending.first_row.is_none()
            && (described || columns_of(pending).is_some())
            && header.body_bytes <= READ_BYTES_MAX;
        if !pending.recorded || !(is_first || out.options.digest) {
            return Take::Pass;
        }
        self.row.kept = is_first.then(Vec::new);
        if out.options.digest {
            return self.row_is_summed_up(header);
        }
        self.row.left = header.body_bytes;
        Take::Pieces
    }

    fn row_is_summed_up(&mut self, header: Header) -> Take {
        self.row.left = header.body_bytes;
        let digest = self.row.digest.get_or_insert_default();
        digest.begins(header.body_bytes);
        Take::Pieces
    }

    /// A piece of a row.
    pub(super) fn row_piece(&mut self, piece: &[u8]) -> Result<(), DecodeError> {
        let row = &mut self.row;
        let checksum = row.digest.as_mut().and_then(|digest| digest.piece(piece));
        if let Some(kept) = &mut row.kept {
            kept.extend_from_slice(piece);
        }
        row.left = row.left.saturating_sub(piece.len());
        if row.left > 0 {
            return Ok(());
        }
        let kept = row.kept.take();
        let columns = self.columns.clone();
        let Some(pending) = self.exchange.answering() else {
            return Ok(());
        };
        if let Some(checksum) = checksum {
            let sum = pending.digest.unwrap_or(0);
            pending.digest = Some(sum.wrapping_add(checksum));
        }
        let columns = columns.or_else(|| columns_of(pending));
        if let (Some(body), Some(columns)) = (kept, columns) {
            let row = first_row(&columns, &DataRow::decode(&body)?, pending);
            pending.first_row = row.map(Box::new);
        }
        Ok(())
    }

    /// A setting that the session begins with, whoever gave it: where backslashes in literals escape, its texts mean
    /// something else to who masks them.
    fn begins_with(&mut self, setting: &ParameterStatus<'_>) {
        if setting.name == STRINGS.as_bytes() && setting.value == b"off" {
            self.settings.push((REPORTED_STRINGS.into(), "off".into()));
        }
    }

    /// A message whose body says something.
    pub(super) fn server_message(
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
            // One that is none is nobody's end: nothing else is read of them.
            tag::PARAMETER_STATUS => {
                if let (false, Ok(setting)) = (self.ready, ParameterStatus::decode(body)) {
                    self.begins_with(&setting);
                }
            }
            tag::READY_FOR_QUERY if !self.ready => {
                self.transaction = ReadyForQuery::decode(body)?.status;
                self.is_ready(at_us);
            }
            _ if !self.ready => (),
            tag::COMMAND_COMPLETE => {
                let complete = CommandComplete::decode(body)?;
                self.state.command_complete(complete.tag);
                if let Some(pending) = self.exchange.answering() {
                    pending.add_rows(complete.rows());
                    if takes_names(complete.tag)
                        && let Some(sql) = pending.asked.sql()
                    {
                        self.names.deallocated(complete.tag, sql);
                    }
                }
                self.executed(at_us);
            }
            tag::ERROR_RESPONSE => {
                let error = ErrorNotice::decode(Report::Error, body)?;
                let sqlstate = error.sqlstate().map_or(Sqlstate::UNKNOWN, Sqlstate);
                self.exchange.failed(sqlstate, at_us);
            }
            tag::ROW_DESCRIPTION => {
                let description = RowDescription::decode(body)?;
                let names = description.iter();
                let names = names.map(|field| String::from_utf8_lossy(field.name).into());
                self.described(Some(names.collect()));
            }
            tag::READY_FOR_QUERY => {
                self.transaction = ReadyForQuery::decode(body)?.status;
                if self.transaction == TransactionStatus::Idle {
                    self.names.transaction_ended();
                }
                self.columns = None;
                self.exchange.ready(at_us);
            }
            _ => (),
        }
        Ok(())
    }
}

/// What the columns of its rows are called, where the client has asked for that before.
fn columns_of(pending: &Pending) -> Option<Arc<[Box<str>]>> {
    pending.asked.statement()?.columns.borrow().clone()
}

/// The first row of a result; `None` where its columns are not those that were described.
fn first_row(columns: &[Box<str>], row: &DataRow<'_>, pending: &Pending) -> Option<FirstRow> {
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
    Some(FirstRow {
        columns: columns.to_vec(),
        values: row.columns.iter().enumerate().map(value).collect(),
    })
}
