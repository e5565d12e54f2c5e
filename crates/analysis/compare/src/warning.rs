//! Reasons to read a comparison with care.

use std::fmt;

use run::RunStatus;
use schemars::JsonSchema;
use serde::Serialize;

use crate::profile::RunProfile;

/// Tool lag whose 99th percentile is above this, in nanoseconds, says that the replaying machine
/// was too slow: ten times what a replay should keep to (300 µs).
pub const TOOL_LAG_P99_HIGH_NS: u64 = 3_000_000;

/// A run that ended later than it was due by more than this share of its span, and by more than
/// [`FELL_BEHIND_NS`], could not keep up.
const FELL_BEHIND_SHARE: f64 = 0.05;
/// In nanoseconds; the last statement of a short run may well take a second.
const FELL_BEHIND_NS: i64 = 2_000_000_000;

/// Fewer statements than this in a run are a try, not a comparison.
const STATEMENTS_FEW: u64 = 200;

/// A side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Before the change.
    Before,
    /// After the change.
    After,
}

impl Side {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Side::Before => "before",
            Side::After => "after",
        }
    }
}

/// One of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WhichRun {
    /// The side.
    pub side: Side,
    /// Which of the side's runs, from 1; `None` where it is the only one.
    pub number: Option<usize>,
}

impl fmt::Display for WhichRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.side.name())?;
        self.number.map_or(Ok(()), |number| write!(f, " {number}"))
    }
}

/// A reason to read a comparison with care.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "warning", rename_all = "snake_case")]
pub enum Warning {
    /// The runs replayed different workloads; differences may be theirs.
    DifferentWorkloads {
        /// What was replayed before.
        before: String,
        /// What was replayed after.
        after: String,
    },
    /// A run does not hold all of its workload.
    Partial {
        /// Which run.
        run: WhichRun,
        /// How it ended.
        status: RunStatus,
    },
    /// The runs were replayed at different speeds, so under different load.
    SpeedsDiffer {
        /// Before.
        before: String,
        /// After.
        after: String,
    },
    /// The replaying machine was a bottleneck.
    ToolLagHigh {
        /// Which run.
        run: WhichRun,
        /// The 99th percentile of tool lag, in nanoseconds.
        p99_ns: u64,
    },
    /// The server could not keep up: the run ended later than it was due.
    FellBehind {
        /// Which run.
        run: WhichRun,
        /// By how much, in nanoseconds.
        by_ns: i64,
    },
    /// One run skipped more statements than the other.
    SkippedDiffer {
        /// Before.
        before: u64,
        /// After.
        after: u64,
    },
    /// Statements were never sent because their session had no connection.
    NoConnection {
        /// Which run.
        run: WhichRun,
        /// How many statements.
        statements: u64,
    },
    /// All runs of one side were over before the first of the other began: what changed by itself
    /// meanwhile passes for the change.
    NotInTurns {
        /// The side whose runs came first.
        first: Side,
    },
    /// There is little to compare.
    FewStatements {
        /// Done in the run that did less.
        statements: u64,
    },
}

/// All that hold.
pub(crate) fn warnings(before: &[RunProfile], after: &[RunProfile]) -> Vec<Warning> {
    let mut found = Vec::new();
    let all = || before.iter().chain(after);
    let first = &before[0];
    if let Some(other) = all().find(|run| run.info.workload.id != first.info.workload.id) {
        found.push(Warning::DifferentWorkloads {
            before: first.info.workload.name.clone(),
            after: other.info.workload.name.clone(),
        });
    }
    if let Some(other) = all().find(|run| run.speed() != first.speed()) {
        found.push(Warning::SpeedsDiffer {
            before: first.speed().to_owned(),
            after: other.speed().to_owned(),
        });
    }
    for (side, runs) in [(Side::Before, before), (Side::After, after)] {
        for (at, run) in runs.iter().enumerate() {
            let number = (runs.len() > 1).then_some(at + 1);
            of_one(WhichRun { side, number }, run, &mut found);
        }
    }
    let most_skipped = |side: &[RunProfile]| {
        let each = side.iter().map(|run| run.all.account.skipped);
        each.max().unwrap_or(0)
    };
    let (skipped_before, skipped_after) = (most_skipped(before), most_skipped(after));
    if skipped_before != skipped_after {
        found.push(Warning::SkippedDiffer {
            before: skipped_before,
            after: skipped_after,
        });
    }
    if let Some(first) = first_side(before, after) {
        found.push(Warning::NotInTurns { first });
    }
    let least = all().map(|run| run.all.account.done).min().unwrap_or(0);
    if least < STATEMENTS_FEW {
        found.push(Warning::FewStatements { statements: least });
    }
    found
}

/// The side that was over before the other began, where there are more runs than one a side: with
/// one each it cannot be otherwise.
fn first_side(before: &[RunProfile], after: &[RunProfile]) -> Option<Side> {
    if before.len() + after.len() < 3 {
        return None;
    }
    let begins_us = |run: &RunProfile| run.info.started_wall_us;
    let ends_us = |run: &RunProfile| begins_us(run) + run.info.elapsed_ns / 1_000;
    let is_over = |side: &[RunProfile], other: &[RunProfile]| {
        side.iter().map(ends_us).max() <= other.iter().map(begins_us).min()
    };
    if is_over(before, after) {
        Some(Side::Before)
    } else if is_over(after, before) {
        Some(Side::After)
    } else {
        None
    }
}

fn of_one(which: WhichRun, run: &RunProfile, found: &mut Vec<Warning>) {
    let status = run.info.status;
    if status != RunStatus::Complete {
        found.push(Warning::Partial { run: which, status });
    }
    if let Some(lag) = run.tool_lag()
        && lag.p99_ns > TOOL_LAG_P99_HIGH_NS
    {
        found.push(Warning::ToolLagHigh {
            run: which,
            p99_ns: lag.p99_ns,
        });
    }
    let by_ns = run.info.elapsed_ns - run.info.span_due_ns;
    let much_ns = (run.info.span_due_ns as f64 * FELL_BEHIND_SHARE) as i64;
    if status == RunStatus::Complete && run.speed() != "max" && by_ns > FELL_BEHIND_NS.max(much_ns)
    {
        found.push(Warning::FellBehind { run: which, by_ns });
    }
    if run.no_connection > 0 {
        found.push(Warning::NoConnection {
            run: which,
            statements: run.no_connection,
        });
    }
}
