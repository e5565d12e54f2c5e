//! Writes the table of statements, and caches the fingerprint of each text, which is needed for every event.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use archive::{ArchiveError, FileEntry, TableWriter};
use xxhash_rust::xxh3::xxh3_64;

use crate::event_ref::EventRef;
use crate::table::StatementText;
use sql::{Fingerprint, Fingerprinter, Shaper, classify};

/// Maximum number of cached fingerprints.
const CACHED_MAX: usize = 1 << 16;

/// Maximum bytes of a text that is kept to compare the next one with.
const LAST_BYTES_MAX: usize = 1024;

/// Hasher for keys that are hashes already.
#[derive(Debug, Clone, Copy, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
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

type HashKeyedMap<V> = HashMap<u64, V, BuildHasherDefault<IdentityHasher>>;

#[derive(Debug, Clone, Copy)]
struct CachedStatement {
    fingerprint: Fingerprint,
    may_write: bool,
}

/// Writes each statement at its first appearance.
pub(crate) struct StatementWriter {
    table: TableWriter,
    /// Statements by fingerprint.
    by_fingerprint: HashKeyedMap<CachedStatement>,
    /// Cached statements by the hash of a text, or of its shape.
    by_text: HashKeyedMap<CachedStatement>,
    shaper: Shaper,
    fingerprinter: Fingerprinter,
    writes: u64,
    /// Last text: a prepared statement is often executed repeatedly.
    last: Option<(String, CachedStatement)>,
}

impl StatementWriter {
    pub(crate) fn new(table: TableWriter) -> Self {
        StatementWriter {
            table,
            by_fingerprint: HashMap::default(),
            by_text: HashMap::default(),
            shaper: Shaper::default(),
            fingerprinter: Fingerprinter::new(),
            writes: 0,
            last: None,
        }
    }

    /// Returns the fingerprint of an event, if it has SQL, and counts the execution.
    pub(crate) fn event_fingerprint(
        &mut self,
        event: &EventRef<'_>,
    ) -> Result<Option<Fingerprint>, ArchiveError> {
        let sql = event.kind.sql();
        sql.map(|sql| self.fingerprint(sql)).transpose()
    }

    /// Returns the fingerprint of this text, and counts an execution.
    pub(crate) fn fingerprint(&mut self, sql: &str) -> Result<Fingerprint, ArchiveError> {
        let cached = self.look_up(sql)?;
        self.writes += u64::from(cached.may_write);
        Ok(cached.fingerprint)
    }

    /// Returns the fingerprint of a text that is mentioned but not executed.
    pub(crate) fn mentioned_fingerprint(&mut self, sql: &str) -> Result<Fingerprint, ArchiveError> {
        Ok(self.look_up(sql)?.fingerprint)
    }

    #[inline]
    fn look_up(&mut self, sql: &str) -> Result<CachedStatement, ArchiveError> {
        if let Some((last, cached)) = &self.last
            && last.len() == sql.len()
            && !sql.is_empty()
            && *last == *sql
        {
            return Ok(*cached);
        }
        let hash = xxh3_64(self.shaper.shape(sql).unwrap_or(sql.as_bytes()));
        let cached = match self.by_text.get(&hash) {
            Some(cached) => *cached,
            None => self.add(hash, sql)?,
        };
        if sql.len() <= LAST_BYTES_MAX {
            let (last, of_last) = self.last.get_or_insert_with(|| (String::new(), cached));
            last.clear();
            last.push_str(sql);
            *of_last = cached;
        }
        Ok(cached)
    }

    fn add(&mut self, hash: u64, sql: &str) -> Result<CachedStatement, ArchiveError> {
        let fingerprint = self.fingerprinter.fingerprint(sql);
        let cached = match self.by_fingerprint.get(&fingerprint.0) {
            Some(cached) => *cached,
            None => {
                let class = classify(sql);
                let cached = CachedStatement {
                    fingerprint,
                    may_write: class.may_write(),
                };
                self.by_fingerprint.insert(fingerprint.0, cached);
                let text = StatementText {
                    fingerprint,
                    sql: self.fingerprinter.normalise(sql).to_owned(),
                    class,
                };
                text.write(&mut self.table)?;
                cached
            }
        };
        if self.by_text.len() >= CACHED_MAX {
            self.by_text.clear();
        }
        self.by_text.insert(hash, cached);
        Ok(cached)
    }

    /// Ends the table. Also returns the number of executions that may have written.
    pub(crate) fn finish(self) -> Result<(Vec<FileEntry>, u64), ArchiveError> {
        Ok((self.table.finish()?, self.writes))
    }
}
