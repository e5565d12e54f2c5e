//! Settles which statements an error undid: those before the same Sync, outside of a transaction
//! block.
//!
//! Extended statements up to a Sync are one implicit transaction (PostgreSQL documentation, 54.2.4).
//! No log has Sync. So an extended statement is held until it is known to be committed, and it is
//! marked if an error came first:
//!
//! - If lines have the virtual transaction (csvlog, jsonlog, `%v`), it shows which statements belong
//!   together. What an error undid is [`Unreplayable::RolledBack`]. That holds only if the log shows
//!   `BEGIN` and `SAVEPOINT` too: otherwise a savepoint may have kept the statements before the error,
//!   and their fate is unknown.
//! - Otherwise a statement that writes and an error within [`super::exchange::SAME_MESSAGE_US`] after it may belong
//!   together. Both are [`Unreplayable::FateUnknown`].
//!
//! The failed statement is marked as well: it may have failed because of what was before it, and
//! would succeed alone.
//!
//! A number of statements and bytes is held for a session. Of a longer pipeline, the oldest are
//! taken for committed; if it fails after all, they are counted.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use sql::classify;
use workload::Unreplayable;

use super::super::entry::Entry;
use super::super::quality_counters::{TransactionBoundary, TransactionState, transaction_boundary};
use super::Output;
use super::exchange::{Exchange, Protocol, Stage};
use super::session::LiveSession;
use super::uncommitted::Relation;
use capture_sink::SinkError;

impl LiveSession {
    /// Returns whether a later error may undo an exchange that is finished.
    #[inline]
    pub(super) fn may_be_undone(&self, exchange: &Exchange) -> bool {
        exchange.protocol == Protocol::Extended
            && exchange.stage != Stage::Parsed
            && exchange.sqlstate.is_none()
            && self.transaction != TransactionState::Open
            && may_leave_something(exchange)
    }

    /// Emits an exchange after those that are held, or holds it.
    pub(super) fn emit_in_pipeline(
        &mut self,
        output: &mut Output<'_>,
        mut exchange: Box<Exchange>,
    ) -> Result<(), SinkError> {
        let failed = exchange.sqlstate.is_some();
        let is_simple = exchange.protocol == Protocol::Simple && exchange.shows_protocol();
        let relation = self
            .uncommitted
            .relation(exchange.transaction, exchange.due_us, is_simple);
        if relation == Relation::Separate {
            self.commit_pipeline(output)?;
        }
        if failed {
            let mark = self.undo_pipeline(output, relation)?;
            exchange.unreplayable = exchange.unreplayable.or(mark);
            return self.emit_settled(output, exchange);
        }
        let is_held = self.may_be_undone(&exchange)
            || relation != Relation::Separate && !is_boundary(&exchange);
        if !is_held {
            self.commit_pipeline(output)?;
            return self.emit_settled(output, exchange);
        }
        self.uncommitted.push(exchange);
        while let Some(oldest) = self.uncommitted.pop_excess() {
            self.emit_settled(output, oldest)?;
        }
        Ok(())
    }

    /// Emits the held statements, which are committed as far as the log says.
    pub(super) fn commit_pipeline(&mut self, output: &mut Output<'_>) -> Result<(), SinkError> {
        while let Some(held) = self.uncommitted.pop() {
            self.emit_settled(output, held)?;
        }
        Ok(())
    }

    /// Emits the held statements, which an error undid or may have undone. Returns the mark of the
    /// statement that failed.
    fn undo_pipeline(
        &mut self,
        output: &mut Output<'_>,
        relation: Relation,
    ) -> Result<Option<Unreplayable>, SinkError> {
        let mark = match relation {
            Relation::Separate => None,
            Relation::SameTransaction if output.shows_transaction_blocks() => {
                Some(Unreplayable::RolledBack)
            }
            Relation::SameTransaction | Relation::Unknown => Some(Unreplayable::FateUnknown),
        };
        if mark.is_some() {
            output.account.tallies.fate_lost += self.uncommitted.taken_for_committed();
        }
        let mut marked = None;
        while let Some(mut held) = self.uncommitted.pop() {
            // What only reads left nothing in any case, and a prepared statement outlives an error.
            let is_undone = relation == Relation::SameTransaction || may_write(held.sql());
            if is_undone && held.stage != Stage::Parsed {
                held.unreplayable = mark;
                marked = mark;
            }
            self.emit_settled(output, held)?;
        }
        Ok(marked)
    }

    /// Handles the end of a session by FATAL, which undoes an implicit transaction.
    pub(super) fn abort_pipeline(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
    ) -> Result<(), SinkError> {
        let relation = self
            .uncommitted
            .relation(entry.transaction, entry.wall_us, false);
        match relation {
            Relation::Separate => Ok(()),
            _ => self.undo_pipeline(output, relation).map(|_| ()),
        }
    }
}

impl Output<'_> {
    /// Returns whether the log has all statements as far as it shows, and so `BEGIN` and `SAVEPOINT`.
    fn shows_transaction_blocks(&self) -> bool {
        self.logs_quick_statements || self.account.tallies.reads_at_start
    }
}

fn is_boundary(exchange: &Exchange) -> bool {
    let boundary = transaction_boundary(exchange.sql());
    matches!(
        boundary,
        TransactionBoundary::Begin | TransactionBoundary::End
    )
}

/// Returns whether a statement outside of a transaction block may leave something that an error undoes.
#[inline]
fn may_leave_something(exchange: &Exchange) -> bool {
    let sql = exchange.sql();
    match first_word(sql) {
        FirstWord::Write => true,
        FirstWord::Select => exchange.transaction != 0 || may_select_into(sql),
        FirstWord::Other => {
            !matches!(
                transaction_boundary(sql),
                TransactionBoundary::Begin | TransactionBoundary::End
            ) && (exchange.transaction != 0 || classify(sql).may_write())
        }
    }
}

/// Returns whether a statement may write, judged by its first keywords.
#[inline]
fn may_write(sql: &str) -> bool {
    match first_word(sql) {
        FirstWord::Write => true,
        FirstWord::Select => may_select_into(sql),
        FirstWord::Other => classify(sql).may_write(),
    }
}

/// Returns whether it may be `SELECT … INTO`. What a function writes is not known.
#[inline]
fn may_select_into(sql: &str) -> bool {
    static INTO: LazyLock<[Finder<'static>; 2]> =
        LazyLock::new(|| ["into", "INTO"].map(Finder::new));
    INTO.iter().any(|word| word.find(sql.as_bytes()).is_some()) && classify(sql).may_write()
}

/// First word of a statement, as far as it decides without lexing the rest.
enum FirstWord {
    /// INSERT, UPDATE or DELETE.
    Write,
    Select,
    Other,
}

#[inline]
fn first_word(sql: &str) -> FirstWord {
    let Some(word) = sql.as_bytes().first_chunk::<6>() else {
        return FirstWord::Other;
    };
    match &word.map(|byte| byte | 0x20) {
        b"insert" | b"update" | b"delete" => FirstWord::Write,
        b"select" => FirstWord::Select,
        _ => FirstWord::Other,
    }
}
