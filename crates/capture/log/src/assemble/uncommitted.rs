//! Statements of a session that may belong to one implicit transaction; see [`super::pipelines`].

use std::collections::VecDeque;

use super::exchange::{Exchange, SAME_MESSAGE_US};

/// Maximum number of statements held for a session.
const HELD_MAX: usize = 1_000;
/// Maximum size of their texts, in bytes.
const HELD_BYTES_MAX: usize = 1 << 20;

/// Statements of one session that may belong to one implicit transaction.
#[derive(Debug, Default)]
pub(super) struct UncommittedStatements {
    held: VecDeque<Box<Exchange>>,
    bytes: usize,
    /// Number of statements of the same pipeline that were taken for committed.
    taken_for_committed: u64,
}

/// Relation of a statement to the held ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// It belongs to another transaction.
    Separate,
    SameTransaction,
    /// The log does not say.
    Unknown,
}

impl UncommittedStatements {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns the relation of another statement to the held ones.
    pub(super) fn relation(&self, transaction: u64, due_us: i64, is_simple: bool) -> Relation {
        let Some(last) = self.held.back() else {
            return Relation::Separate;
        };
        if last.transaction != 0 {
            return match last.transaction == transaction {
                true => Relation::SameTransaction,
                false => Relation::Separate,
            };
        }
        match transaction != 0 || is_simple || due_us - last.seen_us > SAME_MESSAGE_US {
            true => Relation::Separate,
            false => Relation::Unknown,
        }
    }

    /// Returns the held statements, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Exchange> {
        self.held.iter().map(AsRef::as_ref)
    }

    /// Holds a statement.
    pub(super) fn push(&mut self, exchange: Box<Exchange>) {
        self.bytes += exchange.text_bytes();
        self.held.push_back(exchange);
    }

    /// Holds a Prepare, which keeps its place among the held statements and decides nothing.
    pub(super) fn push_prepare(&mut self, mut exchange: Box<Exchange>) {
        if let Some(last) = self.held.back() {
            (exchange.transaction, exchange.seen_us) = (last.transaction, last.seen_us);
        }
        self.push(exchange);
    }

    /// Removes the oldest statement if there are too many.
    pub(super) fn pop_excess(&mut self) -> Option<Box<Exchange>> {
        if self.held.len() <= HELD_MAX && (self.bytes <= HELD_BYTES_MAX || self.held.len() == 1) {
            return None;
        }
        let oldest = self.held.pop_front()?;
        self.bytes -= oldest.text_bytes();
        self.taken_for_committed += 1;
        Some(oldest)
    }

    /// Removes the oldest statement. Without any, the next is of another pipeline.
    pub(super) fn pop(&mut self) -> Option<Box<Exchange>> {
        let oldest = self.held.pop_front();
        if self.held.is_empty() {
            (self.bytes, self.taken_for_committed) = (0, 0);
        }
        oldest
    }

    /// Returns the number of statements of the same pipeline that were taken for committed.
    pub(super) fn taken_for_committed(&self) -> u64 {
        self.taken_for_committed
    }
}
