//! The table of statements while it is written, and the way from a text to its fingerprint, which
//! is asked for every event.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use archive::{ArchiveError, FileEntry, TableWriter};
use xxhash_rust::xxh3::xxh3_64;

use crate::event_ref::EventRef;
use crate::table::StatementText;
use sql::{Fingerprint, Fingerprinter, Shaper, classify};

/// The fingerprints of texts seen lately are remembered, up to this many.
const REMEMBERED_MAX: usize = 1 << 16;

/// A longer text is not kept to compare the next one with, in bytes.
const LAST_BYTES_MAX: usize = 1024;

/// The keys are hashes themselves.
#[derive(Debug, Clone, Copy, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type ByHash<V> = HashMap<u64, V, BuildHasherDefault<AsItIs>>;

#[derive(Debug, Clone, Copy)]
struct Known {
    fingerprint: Fingerprint,
    may_write: bool,
}

/// Writes each statement when it is met first.
pub(crate) struct StatementWriter {
    table: TableWriter,
    /// By fingerprint.
    known: ByHash<Known>,
    /// By the hash of a text, or of its shape.
    by_text: ByHash<Known>,
    shaper: Shaper,
    fingerprinter: Fingerprinter,
    writes: u64,
    /// The text that was asked for last: a prepared statement's comes again and again.
    last: Option<(String, Known)>,
}

impl StatementWriter {
    pub(crate) fn new(table: TableWriter) -> Self {
        StatementWriter {
            table,
            known: HashMap::default(),
            by_text: HashMap::default(),
            shaper: Shaper::default(),
            fingerprinter: Fingerprinter::new(),
            writes: 0,
            last: None,
        }
    }

    /// The fingerprint of an event, if it has SQL.
    pub(crate) fn of(&mut self, event: &EventRef<'_>) -> Result<Option<Fingerprint>, ArchiveError> {
        let sql = event.kind.sql();
        sql.map(|sql| self.fingerprint(sql)).transpose()
    }

    /// The fingerprint of one more execution of this text.
    pub(crate) fn fingerprint(&mut self, sql: &str) -> Result<Fingerprint, ArchiveError> {
        let known = self.known(sql)?;
        self.writes += u64::from(known.may_write);
        Ok(known.fingerprint)
    }

    /// The fingerprint of a text that is only spoken of.
    pub(crate) fn name(&mut self, sql: &str) -> Result<Fingerprint, ArchiveError> {
        Ok(self.known(sql)?.fingerprint)
    }

    #[inline]
    fn known(&mut self, sql: &str) -> Result<Known, ArchiveError> {
        if let Some((last, known)) = &self.last
            && last.len() == sql.len()
            && !sql.is_empty()
            && *last == *sql
        {
            return Ok(*known);
        }
        let hash = xxh3_64(self.shaper.shape(sql).unwrap_or(sql.as_bytes()));
        let known = match self.by_text.get(&hash) {
            Some(known) => *known,
            None => self.meet(hash, sql)?,
        };
        if sql.len() <= LAST_BYTES_MAX {
            let (last, of_last) = self.last.get_or_insert_with(|| (String::new(), known));
            last.clear();
            last.push_str(sql);
            *of_last = known;
        }
        Ok(known)
    }

    fn meet(&mut self, hash: u64, sql: &str) -> Result<Known, ArchiveError> {
        let fingerprint = self.fingerprinter.fingerprint(sql);
        let known = match self.known.get(&fingerprint.0) {
            Some(known) => *known,
            None => {
                let class = classify(sql);
                let known = Known {
                    fingerprint,
                    may_write: class.may_write(),
                };
                self.known.insert(fingerprint.0, known);
                let text = StatementText {
                    fingerprint,
                    sql: self.fingerprinter.normalise(sql).to_owned(),
                    class,
                };
                text.write(&mut self.table)?;
                known
            }
        };
        if self.by_text.len() >= REMEMBERED_MAX {
            self.by_text.clear();
        }
        self.by_text.insert(hash, known);
        Ok(known)
    }

    /// Ends the table; also returns how many executions may have written.
    pub(crate) fn finish(self) -> Result<(Vec<FileEntry>, u64), ArchiveError> {
        Ok((self.table.finish()?, self.writes))
    }
}
