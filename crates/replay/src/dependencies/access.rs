//! Ways in which statements use sets of rows, and the executions that used each set last.

use std::collections::HashMap;

use super::row_effect::RowEffect;
use super::row_sets::RowSet;

/// Most executions of each mode that are kept for one set of rows, one for each session. The earliest are forgotten
/// first.
const SESSIONS_MAX: usize = 4_096;
/// Most sets of rows before the earlier half is forgotten.
const SETS_MAX: usize = 500_000;

/// Execution, with its transaction and its end in captured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) session: u64,
    pub(super) transaction: u64,
    pub(super) sequence: u64,
    pub(super) end_us: i64,
    pub(super) has_failed: bool,
    pub(super) effect: RowEffect,
}

/// Way in which a statement uses a set of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Requires that a row exists, as a foreign key does.
    Reference,
    /// Reads rows.
    Read,
    /// Changes rows, and neither adds nor removes any.
    Change,
    /// Adds or removes rows, or changes their keys.
    Write,
    /// Reads some rows of a table, which it finds by a key.
    ReadByKey,
    /// Writes some rows of a table, which it finds by a key, or adds rows.
    WriteByKey,
}

impl Mode {
    const ALL: [Mode; 6] = [
        Mode::Reference,
        Mode::Read,
        Mode::Change,
        Mode::Write,
        Mode::ReadByKey,
        Mode::WriteByKey,
    ];

    /// Whether the order of the two matters for the same set. That of two keys of a table is known from the keys' own sets.
    fn conflicts_with(self, other: Mode) -> bool {
        use Mode::{Change, Read, ReadByKey, Reference, Write, WriteByKey};
        match (self, other) {
            (Write, _) | (_, Write) => true,
            (Change, Change | Read | ReadByKey | WriteByKey) => true,
            (Read | ReadByKey | WriteByKey, Change) => true,
            (Read, WriteByKey) | (WriteByKey, Read) => true,
            (Change, Reference)
            | (Reference, Change | Read | ReadByKey | WriteByKey | Reference) => false,
            (Read, Read | ReadByKey | Reference) => false,
            (ReadByKey | WriteByKey, ReadByKey | WriteByKey | Reference) => false,
            (ReadByKey, Read) => false,
        }
    }

    /// Whether it locks the rows of the set.
    pub(super) fn locks_rows(self) -> bool {
        matches!(self, Mode::Change | Mode::Write)
    }

    /// Whether everything that conflicts with `other` conflicts with this, so that who follows this follows `other`.
    fn includes(self, other: Mode) -> bool {
        let all = Mode::ALL.into_iter();
        all.filter(|one| one.conflicts_with(other))
            .all(|one| one.conflicts_with(self))
    }
}

/// Reason why the order of two accesses matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    /// One sees what the other writes.
    Visibility,
    /// One waits until the other's transaction is over. So the one that was done first had the lock, unless their
    /// outcomes tell otherwise: both ends are those that the client saw.
    Locks,
}

/// Whether an access was over when another one began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precedence {
    /// Its transaction was over, so the other one depends on it.
    Over,
    /// It was not, or is of the same session.
    Open,
}

impl Access {
    /// Returns the mode with which later accesses conflict. A statement that failed wrote nothing.
    fn kept_mode(self, mode: Mode) -> Mode {
        match mode {
            Mode::Change | Mode::Write if self.has_failed => Mode::Read,
            Mode::WriteByKey if self.has_failed => Mode::ReadByKey,
            mode => mode,
        }
    }
}

/// Last accesses to a set of rows by mode, one for each session.
type LastAccesses = [Vec<Access>; Mode::ALL.len()];

/// Last accesses to all sets of rows.
#[derive(Debug, Default)]
pub(super) struct Accesses {
    recent: HashMap<RowSet, LastAccesses>,
    earlier: HashMap<RowSet, LastAccesses>,
}

impl Accesses {
    /// Adds an access. `depend` is called with those before it with which it conflicts. Those on which it depends are
    /// forgotten, if who conflicts with them conflicts with it.
    pub(super) fn add(
        &mut self,
        rows: RowSet,
        mode: Mode,
        access: Access,
        mut depend: impl FnMut(Access, Conflict) -> Precedence,
    ) {
        if self.recent.len() >= SETS_MAX && !self.recent.contains_key(&rows) {
            self.earlier = std::mem::take(&mut self.recent);
        }
        let earlier = &mut self.earlier;
        let last = self
            .recent
            .entry(rows)
            .or_insert_with(|| earlier.remove(&rows).unwrap_or_default());
        for (other, accesses) in Mode::ALL.into_iter().zip(last.iter_mut()) {
            if mode.conflicts_with(other) {
                let is_included = access.kept_mode(mode).includes(other);
                let conflict = match mode.locks_rows() && other.locks_rows() {
                    true => Conflict::Locks,
                    false => Conflict::Visibility,
                };
                accesses.retain(|one| depend(*one, conflict) == Precedence::Open || !is_included);
            }
        }
        let own = &mut last[access.kept_mode(mode) as usize];
        own.retain(|one| one.session != access.session);
        if own.len() == SESSIONS_MAX {
            own.remove(0);
        }
        own.push(access);
    }
}
