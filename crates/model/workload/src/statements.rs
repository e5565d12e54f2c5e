//! Writes the table of statements, and caches the fingerprint of each text, which is needed for every event.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use archive::{ArchiveError, FileEntry, TableWriter};
use xxhash_rust::xxh3::xxh3_64;

use crate::contexts::ContextWriter;
use crate::event_ref::EventRef;
use crate::event_ref::KindRef;
use crate::table::{EventIds, StatementText};
use sql::{
    Backslash, ContextId, ContextReader, Fingerprint, Fingerprinter, LexicalRules,
    STANDARD_CONFORMING_STRINGS, Shaper, StatementClass, classify,
};

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
    /// A `SET` of `standard_conforming_strings`.
    sets_backslash: bool,
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
    last: Option<(String, CachedStatement, Option<ContextId>)>,
    contexts: ContextWriter,
    context_reader: ContextReader,
    /// Sessions in which a backslash escapes in a plain literal, by the settings of their connection and their
    /// own `SET`.
    escaping_sessions: HashSet<u64>,
}

impl StatementWriter {
    pub(crate) fn new(table: TableWriter, contexts: ContextWriter) -> Self {
        StatementWriter {
            table,
            by_fingerprint: HashMap::default(),
            by_text: HashMap::default(),
            shaper: Shaper::default(),
            fingerprinter: Fingerprinter::new(),
            writes: 0,
            last: None,
            contexts,
            context_reader: ContextReader::default(),
            escaping_sessions: HashSet::new(),
        }
    }

    /// Returns the identities of an event, and counts the execution.
    pub(crate) fn event_ids(&mut self, event: &EventRef<'_>) -> Result<EventIds, ArchiveError> {
        match event.kind {
            KindRef::Connect { .. } => {
                self.set_backslash(event.session, event.backslash_at_start());
            }
            KindRef::Disconnect => self.set_backslash(event.session, Backslash::Plain),
            _ => {}
        }
        let Some(sql) = event.kind.sql() else {
            return Ok(EventIds::default());
        };
        let (cached, context) = match self.backslash_in(event.session) {
            // Both readings are equal.
            Backslash::Escape if sql.contains('\\') => {
                let hash = !xxh3_64(sql.as_bytes());
                // No comment is searched, since a backslash changes where literals end.
                (self.get_or_add(hash, sql, Backslash::Escape)?, None)
            }
            _ => self.look_up(sql)?,
        };
        self.writes += u64::from(cached.may_write);
        if cached.sets_backslash
            && event.outcome.sqlstate.is_none()
            && let Some(backslash) = Backslash::set_by(sql)
        {
            self.set_backslash(event.session, backslash);
        }
        Ok(EventIds {
            fingerprint: Some(cached.fingerprint),
            context,
        })
    }

    fn backslash_in(&self, session: u64) -> Backslash {
        let escapes =
            !self.escaping_sessions.is_empty() && self.escaping_sessions.contains(&session);
        match escapes {
            true => Backslash::Escape,
            false => Backslash::Plain,
        }
    }

    fn set_backslash(&mut self, session: u64, backslash: Backslash) {
        match backslash {
            Backslash::Escape => _ = self.escaping_sessions.insert(session),
            Backslash::Plain => _ = self.escaping_sessions.remove(&session),
        }
    }

    /// Returns the fingerprint of a text that is mentioned but not executed.
    pub(crate) fn mentioned_fingerprint(&mut self, sql: &str) -> Result<Fingerprint, ArchiveError> {
        Ok(self.look_up(sql)?.0.fingerprint)
    }

    #[inline]
    fn look_up(&mut self, sql: &str) -> Result<(CachedStatement, Option<ContextId>), ArchiveError> {
        if let Some((last, cached, context)) = &self.last
            && last.len() == sql.len()
            && !sql.is_empty()
            && *last == *sql
        {
            return Ok((*cached, *context));
        }
        // A trace is different in each text. Without it, the texts of a statement have one shape.
        let (statement, context) = match self.context_reader.read(sql) {
            Some(comment) => (comment.statement(sql), self.contexts.add(&comment.context)?),
            None => (sql, None),
        };
        let shape = self.shaper.shape(statement);
        let hash = xxh3_64(shape.unwrap_or(statement.as_bytes()));
        let cached = self.get_or_add(hash, statement, Backslash::Plain)?;
        if sql.len() <= LAST_BYTES_MAX {
            let mut text = self.last.take().map_or_else(String::new, |(text, ..)| text);
            text.clear();
            text.push_str(sql);
            self.last = Some((text, cached, context));
        }
        Ok((cached, context))
    }

    /// Returns the cached statement of a hash; adds it if there is none.
    fn get_or_add(
        &mut self,
        hash: u64,
        sql: &str,
        backslash: Backslash,
    ) -> Result<CachedStatement, ArchiveError> {
        if let Some(cached) = self.by_text.get(&hash) {
            return Ok(*cached);
        }
        let rules = LexicalRules {
            backslash,
            ..LexicalRules::default()
        };
        let fingerprint = self.fingerprinter.fingerprint_with(sql, rules);
        let cached = match self.by_fingerprint.get(&fingerprint.0) {
            Some(cached) => *cached,
            None => {
                let class = classify(sql);
                let normal = self.fingerprinter.normalise_with(sql, rules);
                let cached = CachedStatement {
                    fingerprint,
                    may_write: class.may_write(),
                    sets_backslash: class == StatementClass::Utility
                        && normal.contains(STANDARD_CONFORMING_STRINGS),
                };
                self.by_fingerprint.insert(fingerprint.0, cached);
                let text = StatementText {
                    fingerprint,
                    sql: normal.to_owned(),
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
        let mut files = self.table.finish()?;
        files.extend(self.contexts.finish()?);
        Ok((files, self.writes))
    }
}
