//! Tracks a session's named prepared statements: the text of each name, and the parses that no
//! execution has used.
//!
//! Close is never logged, so a name is known until it gets another text. A parse waits for the
//! first execution of its name. A parse without one is a Prepare of its own, emitted when that
//! becomes certain: at the name's next text, or at the session's end.

use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use workload::{KindRef, Outcome};

use super::super::byte_search::find_near;
use super::super::statement::{NamedStatement, split_name};
use super::Output;
use super::exchange::{Exchange, Protocol, Stage};
use super::session::LiveSession;
use crate::reconcile::Location;
use capture_sink::SinkError;

/// Maximum number of statement names remembered for a session. A driver that never reuses a name
/// must not fill the memory, and Close is never logged.
const KNOWN_MAX: usize = 4_096;

/// The shared name and text of a known statement.
pub(super) type SharedStatement = (Rc<str>, Rc<str>);

/// Hashes statement names, which are short: the map is used at every step. It has at most
/// [`KNOWN_MAX`] names, so names chosen to collide cost little.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NameHasher(u64);

impl Hasher for NameHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            // 2^64 over the golden ratio.
            self.0 = (self.0.rotate_left(23) ^ u64::from_le_bytes(word))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    #[inline]
    fn write_u8(&mut self, _: u8) {
        // The end of a text; nothing follows it in a key.
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

pub(super) type KnownStatements =
    std::collections::HashMap<Rc<str>, KnownStatement, BuildHasherDefault<NameHasher>>;

/// A statement that the session prepared under a name.
#[derive(Debug)]
pub(super) struct KnownStatement {
    pub(super) sql: Rc<str>,
    /// Its parse, until an execution uses it.
    unused: Option<Parse>,
}

#[derive(Debug, Clone, Copy)]
struct Parse {
    due_us: i64,
    duration_us: u64,
    lines: u64,
    place: Location,
}

impl LiveSession {
    /// Splits `NAME: SQL`; if the session has this very text under that name, also returns the
    /// shared texts.
    #[inline]
    pub(super) fn split_named<'t>(
        &self,
        text: &'t str,
        has_portal: bool,
    ) -> Option<(NamedStatement<'t>, Option<SharedStatement>)> {
        // The hot case: a plain name that is known.
        let name_end = find_near(text.as_bytes(), 0, b':')?;
        if let Some(sql) = text[name_end + 1..].strip_prefix(' ') {
            // Not "", which has no address in the text: if texts are compared by masked loads
            // (glibc with AVX-512), even an empty comparison at an unmapped address takes a hundred
            // cycles.
            let nothing = &text[..0];
            let statement = match &text[..name_end] {
                "<unnamed>" => nothing,
                name => name,
            };
            let portal = nothing;
            if let Some((name, known)) = self.known.get_key_value(statement)
                && *known.sql == *sql
            {
                let named = NamedStatement {
                    statement,
                    portal,
                    sql,
                };
                return Some((named, Some((name.clone(), known.sql.clone()))));
            }
        }
        let known = |name: &str| self.known.get(name).map(|known| &*known.sql);
        Some((split_name(text, has_portal, known)?, None))
    }

    /// Returns the shared texts of a statement's name and SQL. A name with another text is prepared
    /// again.
    pub(super) fn remember_statement(
        &mut self,
        output: &mut Output<'_>,
        name: &str,
        sql: &str,
    ) -> Result<SharedStatement, SinkError> {
        if let Some((name, known)) = self.known.get_key_value(name)
            && *known.sql == *sql
        {
            return Ok((name.clone(), known.sql.clone()));
        }
        if self.known.len() >= KNOWN_MAX {
            self.forget_statements(output)?;
        }
        let sql: Rc<str> = sql.into();
        let (name, before) = match self.known.remove_entry(name) {
            Some((name, before)) => (name, Some(before)),
            None if name.is_empty() => (output.no_name.clone(), None),
            None => (name.into(), None),
        };
        let known = KnownStatement {
            sql: sql.clone(),
            unused: None,
        };
        self.known.insert(name.clone(), known);
        if let Some(KnownStatement {
            sql,
            unused: Some(parse),
        }) = before
        {
            self.unused_parses -= 1;
            self.emit_prepare(output, &name, &sql, parse)?;
        }
        Ok((name, sql))
    }

    /// Returns a name of the session with this text.
    pub(super) fn name_of(&self, sql: &str) -> Option<Rc<str>> {
        self.known
            .iter()
            .find(|(_, known)| *known.sql == *sql)
            .map(|(name, _)| name.clone())
    }

    /// Returns the time, duration and text of each parse that no execution has used.
    pub(super) fn unused_parses(&self) -> impl Iterator<Item = (i64, u64, &str)> {
        let known = (self.unused_parses > 0).then(|| self.known.values());
        known.into_iter().flatten().filter_map(|known| {
            let parse = known.unused.as_ref()?;
            Some((parse.due_us, parse.duration_us, &*known.sql))
        })
    }

    /// Emits an unused parse as a Prepare.
    fn emit_prepare(
        &mut self,
        output: &mut Output<'_>,
        statement: &Rc<str>,
        sql: &Rc<str>,
        parse: Parse,
    ) -> Result<(), SinkError> {
        if !self.uncommitted.is_empty() {
            // Emitted now, it would overtake the statements that are held, and their times.
            let mut exchange = Box::new(Exchange::empty(&output.no_name));
            (exchange.protocol, exchange.stage) = (Protocol::Extended, Stage::Parsed);
            (exchange.statement, exchange.shared_sql) = (statement.clone(), Some(sql.clone()));
            (exchange.due_us, exchange.duration_us) = (parse.due_us, parse.duration_us);
            (exchange.lines, exchange.place) = (parse.lines, parse.place);
            exchange.timed = true;
            self.uncommitted.push_prepare(exchange);
            return Ok(());
        }
        output.account.lines_in_events += parse.lines;
        let outcome = Outcome {
            duration_us: Some(parse.duration_us),
            ..Outcome::default()
        };
        let kind = KindRef::Prepare { statement, sql };
        self.emit(output, kind, outcome, None, parse.due_us, parse.place)
    }

    pub(super) fn forget_statements(&mut self, output: &mut Output<'_>) -> Result<(), SinkError> {
        let mut unused: Vec<_> = self
            .known
            .drain()
            .filter_map(|(name, known)| Some((name, known.sql, known.unused?)))
            .collect();
        self.unused_parses = 0;
        unused.sort_by(|a, b| (a.2.due_us, &a.0).cmp(&(b.2.due_us, &b.0)));
        unused
            .into_iter()
            .try_for_each(|(name, sql, parse)| self.emit_prepare(output, &name, &sql, parse))
    }

    /// Adds the parse that this exchange is the first to use.
    #[inline]
    pub(super) fn use_parse(&mut self, exchange: &mut Exchange) {
        if self.unused_parses > 0 {
            self.use_parse_of(exchange);
        }
    }

    fn use_parse_of(&mut self, exchange: &mut Exchange) {
        if let Some(known) = self.known.get_mut(&exchange.statement)
            && known.unused.is_some()
            && *known.sql == *exchange.sql()
            && let Some(parse) = known.unused.take()
        {
            self.unused_parses -= 1;
            exchange.lines += parse.lines;
            exchange.duration_us += parse.duration_us;
        }
    }

    /// Keeps a parse that another action followed until its use.
    pub(super) fn keep_parse(
        &mut self,
        output: &mut Output<'_>,
        exchange: Box<Exchange>,
    ) -> Result<(), SinkError> {
        let parse = Parse {
            due_us: exchange.due_us,
            duration_us: exchange.duration_us,
            lines: exchange.lines,
            place: exchange.place,
        };
        let (name, sql) = self.remember_statement(output, &exchange.statement, exchange.sql())?;
        output.recycle(exchange);
        let known = self.known.get_mut(&name).expect("just learnt");
        match known.unused.replace(parse) {
            Some(before) => self.emit_prepare(output, &name, &sql, before),
            None => {
                self.unused_parses += 1;
                Ok(())
            }
        }
    }
}
