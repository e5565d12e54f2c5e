//! One thing that is looked at a file. A probe finds out whether it can work, and then looks when it is
//! its turn; [`crate::watch`] gives the turns, and takes it off after three failures in a row.

pub(crate) mod activity;
pub(crate) mod connections;
pub(crate) mod counters;
pub(crate) mod locks;
pub(crate) mod machine;
pub(crate) mod permits;
pub(crate) mod queue;
pub(crate) mod statements;

use crate::asker::{Asker, Unable};
use crate::ledger::Ledger;

/// One thing that is looked at.
pub(crate) trait Probe: Send {
    /// What it is called in the run.
    fn name(&self) -> &'static str;

    /// How far apart its looks are, in nanoseconds.
    fn every_ns(&self) -> i64;

    /// Finds out whether it can work, and takes what it needs for differences. Again after failures.
    ///
    /// # Errors
    /// [`Unable::Never`] where it cannot.
    fn begin(&mut self, asker: &mut Asker<'_>, ledger: &Ledger) -> Result<(), Unable>;

    /// Looks. `moment` says whether it is the last time.
    ///
    /// # Errors
    /// Where it saw nothing.
    fn look(
        &mut self,
        asker: &mut Asker<'_>,
        ledger: &Ledger,
        moment: Moment,
    ) -> Result<(), Unable>;

    /// What it has not written yet, where it looks no more.
    fn leave(&mut self, _ledger: &Ledger) {}
}

/// When a probe looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// How many turns were due since its last look and passed over.
    pub(crate) missed: u64,
    /// The watch ends.
    pub(crate) last: bool,
}

/// A row's column.
pub(crate) fn at(row: &connect::login::Row, column: usize) -> &str {
    maybe(row, column).unwrap_or_default()
}

/// A row's column, if it is not NULL.
pub(crate) fn maybe(row: &connect::login::Row, column: usize) -> Option<&str> {
    row.get(column).and_then(|value| value.as_deref())
}

/// A row's column as a number.
pub(crate) fn number<N: std::str::FromStr>(row: &connect::login::Row, column: usize) -> Option<N> {
    maybe(row, column)?.parse().ok()
}
