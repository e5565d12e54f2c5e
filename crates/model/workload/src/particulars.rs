//! What a capture from the wire knows of an event, and a log does not.

use std::sync::Arc;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::parameter::Parameter;

/// The setting by which a backslash in a plain literal is itself.
pub const STRINGS: &str = "standard_conforming_strings";
/// Under this name stands what the server said of [`STRINGS`] when the session began, where it said that it is off. The
/// client did not send it, and a replay does not: PostgreSQL 19 refuses to switch it off.
pub const REPORTED_STRINGS: &str = "reported.standard_conforming_strings";

/// What a capture from the wire knows of an event beyond what a log does. An event of a log has none
/// of it ([`crate::Event::particulars`]); one that says no more than that it was sent in the usual way
/// has [`Particulars::default`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Particulars {
    /// The types that the client gave the first parameters when it prepared the statement, as OIDs;
    /// 0, and what is missing at the end, were left to the server.
    pub parameter_types: Vec<u32>,
    /// In which form the client wanted the result's columns: none, all in text; one, all in this
    /// form; otherwise one for each.
    pub result_formats: Vec<ResultFormat>,
    /// How many rows an Execute or Fetch asked for at most; 0 is all. `None`: not known, or of
    /// another kind.
    pub rows_max: Option<u32>,
    /// What the client sent when the server asked it for the data of `COPY … FROM STDIN`, of the
    /// first COPY where a text has several.
    pub copy: Option<CopyIn>,
    /// The answer to the session's previous event was there when it was sent. If not, it is part of
    /// a pipeline.
    pub awaited: bool,
    /// What stood behind its messages.
    pub boundary: Boundary,
    /// The first row of its result.
    pub first_row: Option<FirstRow>,
    /// Equal for results with the same rows, in whatever order: the sum of [`RowDigest`] over them.
    pub result_digest: Option<u64>,
    /// Of a `connect`: the settings that the client sent with its user and database, names and values
    /// (`TimeZone`, `options` and the like); and [`REPORTED_STRINGS`].
    pub settings: Vec<Setting>,
}

/// A setting's name and its value.
pub type Setting = (Box<str>, Box<str>);

impl Default for Particulars {
    fn default() -> Self {
        Particulars {
            parameter_types: Vec::new(),
            result_formats: Vec::new(),
            rows_max: None,
            copy: None,
            awaited: true,
            boundary: Boundary::Sync,
            first_row: None,
            result_digest: None,
            settings: Vec::new(),
        }
    }
}

impl Particulars {
    /// The settings that the client sent: what its server reported is not among them.
    pub fn sent_settings(&self) -> impl Iterator<Item = &Setting> {
        let settings = self.settings.iter();
        settings.filter(|(name, _)| **name != *REPORTED_STRINGS)
    }

    /// About what they take in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let copy = self.copy.as_ref().map_or(0, |copy| {
            copy.data.len() + copy.failed.as_ref().map_or(0, |reason| reason.len())
        });
        let row = self.first_row.as_ref().map_or(0, |row| {
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
        size_of::<Particulars>() + small + copy + row
    }
}

/// The form of a result's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResultFormat {
    /// Text; 0 in the workload.
    Text,
    /// The type's binary form; 1 in the workload.
    Binary,
}

/// What stood behind an event's messages. A simple query ends by itself and has [`Boundary::Sync`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// The end of the group: the server commits what no transaction block holds, and says that it is
    /// ready.
    #[default]
    Sync,
    /// The server was asked for the answers so far; the group goes on.
    Flush,
    /// Nothing; the group goes on.
    Nothing,
}

impl Boundary {
    /// All of them.
    pub const ALL: [Boundary; 3] = [Boundary::Sync, Boundary::Flush, Boundary::Nothing];

    /// The name under which it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Boundary::Sync => "sync",
            Boundary::Flush => "flush",
            Boundary::Nothing => "nothing",
        }
    }

    /// The one stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|boundary| boundary.name() == name)
    }
}

/// What a client sent for `COPY … FROM STDIN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyIn {
    /// The data, whole: where a client cut it into messages has no meaning.
    pub data: Arc<[u8]>,
    /// The client ended it with a failure, for this reason; `None`: it was done.
    pub failed: Option<Box<str>>,
}

/// The first row of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstRow {
    /// The columns' names.
    pub columns: Vec<Box<str>>,
    /// A value for each; `None` for NULL.
    pub values: Vec<Option<Parameter>>,
}

/// A checksum of one row of a result, from the row as the server sends it (the body of a DataRow: the
/// number of columns, and each value behind its length; of COPY … TO STDOUT, that of a CopyData, which the
/// server sends for each row): XXH3 of 64 bits. The digest of a result is the
/// sum of its rows' checksums modulo 2^64, so that the order of rows does not matter, and how often a row
/// comes does. It is no defence against somebody who wants two results to look alike.
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

impl RowDigest {
    /// The checksum of a row that is there whole.
    pub fn of(row: &[u8]) -> u64 {
        xxh3_64(row)
    }

    /// A row of this length comes, in pieces.
    pub fn begins(&mut self, bytes: usize) {
        (self.bytes, self.left) = (bytes, bytes);
        if let Some(pieces) = &mut self.pieces {
            pieces.reset();
        }
    }

    /// Takes in the row's next bytes; its checksum, once it is all there.
    pub fn piece(&mut self, bytes: &[u8]) -> Option<u64> {
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
    fn a_row_in_pieces_has_the_checksum_of_the_whole() {
        let mut digest = RowDigest::default();
        for cut in 0..4 {
            digest.begins(3);
            let pieces = [&b"row"[..cut], &b"row"[cut..]];
            let pieces = pieces.iter().filter(|piece| !piece.is_empty());
            let last = pieces.map(|piece| digest.piece(piece)).last();
            assert_eq!(last, Some(Some(RowDigest::of(b"row"))), "{cut}");
        }
        assert_ne!(RowDigest::of(b"row"), RowDigest::of(b"roW"));
    }
}
