//! Details of an event that only a wire capture knows.

use std::sync::Arc;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::parameter::Parameter;

/// Setting under which the server's report of [`sql::STANDARD_CONFORMING_STRINGS`] at the session's start is stored, if it was off.
/// The client did not send it, and a replay does not: PostgreSQL 19 refuses to switch it off.
pub const REPORTED_STANDARD_CONFORMING_STRINGS: &str = "reported.standard_conforming_strings";

/// Details of an event that a wire capture knows and a log does not. An event of a log has none
/// ([`crate::Event::wire_details`]). An event that was sent in the usual way, without further details, has the
/// default value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireDetails {
    /// Parameter types that the client specified when it prepared the statement, as OIDs. 0, and types
    /// missing at the end, leave the choice to the server.
    pub parameter_types: Vec<u32>,
    /// Whether the client prepared the named statement in the same group of messages. The replay then prepares it
    /// again, even if the name already has this text. Always false for the unnamed statement.
    pub parsed: bool,
    /// Messages that the client sent for it.
    pub messages: MessageSet,
    /// Formats that the client requested for the result's columns. None: all in text. One: all in this
    /// format. Otherwise one for each column.
    pub result_formats: Vec<ResultFormat>,
    /// Maximum number of rows that an Execute or Fetch requested; 0 is all. `None`: not known, or an event of
    /// another kind.
    pub rows_max: Option<u32>,
    /// Data that the client sent for `COPY … FROM STDIN`. If a text has several COPYs, it is the data of the
    /// first.
    pub copy: Option<CopyIn>,
    /// Whether the client had the reply to the session's previous event when it sent this one. If not, the
    /// event is part of a pipeline.
    pub awaited: bool,
    /// Message that followed its messages.
    pub boundary: Boundary,
    /// First rows of the result, if they may have values that later statements use.
    pub first_rows: Option<FirstRows>,
    /// Checksum of the result, independent of the order of rows: the sum of [`RowDigest`] over them.
    pub result_digest: Option<u64>,
    /// Settings that the client sent at `connect` with its user and database, such as `TimeZone` and
    /// `options`. Also [`REPORTED_STANDARD_CONFORMING_STRINGS`] and [`REPORTED_PROCESS_ID`].
    pub settings: Vec<Setting>,
}

/// Setting under which the process id of the session's backend in the capture is stored. A replay does not send it.
pub const REPORTED_PROCESS_ID: &str = "reported.process_id";

/// Returns whether the server reported the setting of this name, and the client did not send it.
pub fn is_reported(name: &str) -> bool {
    [REPORTED_PROCESS_ID, REPORTED_STANDARD_CONFORMING_STRINGS].contains(&name)
}

/// Name and value of a setting.
pub type Setting = (Box<str>, Box<str>);

impl Default for WireDetails {
    fn default() -> Self {
        WireDetails {
            parameter_types: Vec::new(),
            parsed: false,
            messages: MessageSet::Complete,
            result_formats: Vec::new(),
            rows_max: None,
            copy: None,
            awaited: true,
            boundary: Boundary::Sync,
            first_rows: None,
            result_digest: None,
            settings: Vec::new(),
        }
    }
}

impl WireDetails {
    /// Iterates over the settings that the client sent, without those that the server reported.
    pub fn sent_settings(&self) -> impl Iterator<Item = &Setting> {
        let settings = self.settings.iter();
        settings.filter(|(name, _)| !is_reported(name))
    }

    /// Returns the process id of the session's backend in the capture, if known.
    pub fn process_id(&self) -> Option<i32> {
        let mut settings = self.settings.iter();
        let (_, value) = settings.find(|(name, _)| **name == *REPORTED_PROCESS_ID)?;
        value.parse().ok()
    }

    /// Estimates the memory of the details, in bytes.
    pub fn bytes(&self) -> usize {
        let copy = self.copy.as_ref().map_or(0, |copy| {
            copy.data.len() + copy.failed.as_ref().map_or(0, |reason| reason.len())
        });
        let row = self.first_rows.as_ref().map_or(0, |row| {
            let names: usize = row.columns.iter().map(|name| 16 + name.len()).sum();
            let value = |value: &Option<Parameter>| {
                size_of_val(value) + value.as_ref().map_or(0, |value| value.as_bytes().len())
            };
            names + row.values.iter().map(value).sum::<usize>()
        });
        let settings = self.settings.iter();
        let settings = settings.map(|(name, value)| 32 + name.len() + value.len());
        let row = row + settings.sum::<usize>();
        let small = 4 * self.parameter_types.len() + self.result_formats.len();
        size_of::<WireDetails>() + small + copy + row
    }
}

/// Format of a result's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResultFormat {
    /// Text; stored as 0.
    Text,
    /// Binary form of the type; stored as 1.
    Binary,
}

/// Message that followed an event's messages. A simple query ends its own group and has [`Boundary::Sync`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// Sync. The server commits, unless a transaction block is open, and sends ReadyForQuery.
    #[default]
    Sync,
    /// Flush. The server sends its replies so far; the group continues.
    Flush,
    /// No message; the group continues.
    Nothing,
}

impl Boundary {
    /// All boundaries.
    pub const ALL: [Boundary; 3] = [Boundary::Sync, Boundary::Flush, Boundary::Nothing];

    /// Returns the name under which the boundary is stored.
    pub fn name(self) -> &'static str {
        match self {
            Boundary::Sync => "sync",
            Boundary::Flush => "flush",
            Boundary::Nothing => "nothing",
        }
    }

    /// Returns the boundary stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|boundary| boundary.name() == name)
    }
}

/// Messages that a client sent for an event. An incomplete set is recorded only if the server refused it, since it
/// has no other effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MessageSet {
    /// The messages that the event's kind names.
    #[default]
    Complete,
    /// A Bind without an Execute. The event is an `execute`.
    Bind,
    /// A Describe alone: of a statement (a `prepare`), or of a portal (a `fetch`).
    Describe,
}

impl MessageSet {
    /// All sets.
    pub const ALL: [MessageSet; 3] = [MessageSet::Complete, MessageSet::Bind, MessageSet::Describe];

    /// Returns the name under which the set is stored.
    pub fn name(self) -> &'static str {
        match self {
            MessageSet::Complete => "complete",
            MessageSet::Bind => "bind",
            MessageSet::Describe => "describe",
        }
    }

    /// Returns the set stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }
}

/// Data that a client sent for `COPY … FROM STDIN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyIn {
    /// The whole data. The boundaries of messages in it have no meaning.
    pub data: Arc<[u8]>,
    /// Reason of the client's CopyFail; `None` if it sent CopyDone.
    pub failed: Option<Box<str>>,
}

/// The first rows of a result: the first one alone, or those of a result whose rows have a known order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstRows {
    /// Names of the columns.
    pub columns: Vec<Box<str>>,
    /// A value for each column, row by row; `None` for NULL.
    pub values: Vec<Option<Parameter>>,
}

impl FirstRows {
    /// Iterates over the values of all rows, each with the index of its column.
    pub fn with_columns(&self) -> impl Iterator<Item = (usize, &Option<Parameter>)> {
        let columns = self.columns.len().max(1);
        let values = self.values.iter().enumerate();
        values.map(move |(index, value)| (index % columns, value))
    }

    /// Returns the number of rows.
    pub fn count(&self) -> usize {
        self.values.len() / self.columns.len().max(1)
    }
}

/// Checksum of one row of a result: 64-bit XXH3 over the row as the server sends it. That is the body of a
/// DataRow (the number of columns, and each value after its length), or of a CopyData for COPY … TO STDOUT,
/// which the server sends for each row. The digest of a result is the sum of its rows' checksums modulo 2^64.
/// So the order of rows does not matter, and the number of equal rows does. It offers no protection against
/// forged results.
#[derive(Clone, Default)]
pub struct RowDigest {
    bytes: usize,
    left: usize,
    pieces: Option<Box<Xxh3>>,
}

impl std::fmt::Debug for RowDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowDigest")
            .field("bytes", &self.bytes)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// Returns the checksum of a value: XXH3-64 of its bytes as the server sends them; 1 for NULL. The checksum of a column
/// of a result is the sum of its values' checksums modulo 2^64.
pub fn value_digest(value: Option<&[u8]>) -> u64 {
    value.map_or(1, xxh3_64)
}

impl RowDigest {
    /// Returns the checksum of a complete row.
    pub fn of(row: &[u8]) -> u64 {
        xxh3_64(row)
    }

    /// Begins a row of this length, which arrives in pieces.
    pub fn begin_row(&mut self, bytes: usize) {
        (self.bytes, self.left) = (bytes, bytes);
        if let Some(pieces) = &mut self.pieces {
            pieces.reset();
        }
    }

    /// Adds the row's next bytes. Returns the checksum when the row is complete.
    pub fn add_bytes(&mut self, bytes: &[u8]) -> Option<u64> {
        self.left = self.left.saturating_sub(bytes.len());
        if bytes.len() == self.bytes {
            return Some(Self::of(bytes));
        }
        let pieces = self.pieces.get_or_insert_default();
        pieces.update(bytes);
        (self.left == 0).then(|| pieces.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_digest_in_pieces_equals_that_of_the_whole_row() {
        let mut digest = RowDigest::default();
        for cut in 0..4 {
            digest.begin_row(3);
            let pieces = [&b"row"[..cut], &b"row"[cut..]];
            let pieces = pieces.iter().filter(|piece| !piece.is_empty());
            let last = pieces.map(|piece| digest.add_bytes(piece)).last();
            assert_eq!(last, Some(Some(RowDigest::of(b"row"))), "{cut}");
        }
        assert_ne!(RowDigest::of(b"row"), RowDigest::of(b"roW"));
    }
}
