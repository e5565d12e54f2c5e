//! Reasons to read a comparison with care.

use std::fmt;

use run::{INCOMPLETE_SHARDS_OPTION, RunStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::run_stats::RunStats;
use crate::side::Side;
use crate::targets::{Detail, StatisticsGapKind, TargetsComparison};

/// 99th percentile of tool lag, in nanoseconds, above which the replaying machine was too slow: ten
/// times the target for a replay (300 µs).
pub const TOOL_LAG_P99_HIGH_NS: u64 = 3_000_000;

/// Share of its span by which a run may end late. A run that ends later than this and later than
/// [`FELL_BEHIND_NS`] could not keep up.
const FELL_BEHIND_SHARE: f64 = 0.05;
/// Minimum delay in nanoseconds; the last statement of a short run may well take a second.
const FELL_BEHIND_NS: i64 = 2_000_000_000;

/// Share of the machine's time from which others are a disturbance. What uses all of the machine takes 1 / (1 − 0.33) = 1.5
/// times as long then, as much as a statement must to be a cause by its median.
pub(crate) const OTHERS_HIGH: f64 = 0.33;
/// Share of the time from which stealing or throttling is one. It makes times 1 / (1 − 0.05) = 1.05 times as long on
/// average, half of the default margin, and comes in bursts.
const LOST_HIGH: f64 = 0.05;

/// Minimum number of statements in a run for a meaningful comparison.
const STATEMENTS_FEW: u64 = 200;

/// Identification of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WhichRun {
    /// The side.
    pub side: Side,
    /// Number of the run on its side, from 1; `None` if it is the only one.
    pub number: Option<usize>,
}

impl fmt::Display for WhichRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.side.name())?;
        self.number.map_or(Ok(()), |number| write!(f, " {number}"))
    }
}

/// Reason to read a comparison with care.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "warning", rename_all = "snake_case")]
pub enum Warning {
    /// The target still had the writes of an earlier replay when a run started.
    TargetNotRestored {
        /// The run.
        run: WhichRun,
        /// Path of the earlier run.
        earlier: String,
        /// Number of tables that the earlier replay changed, and that nothing changed since.
        changed: usize,
        /// Names of the first tables.
        tables: Vec<String>,
    },
    /// Tables of one side have no statistics, or much older ones, so that its plans may be bad for that reason alone.
    ForgottenStatistics {
        /// The side.
        side: Side,
        /// Number of tables without statistics, of which the other side has some.
        missing: usize,
        /// Number of tables whose statistics are much older, or of which many rows changed since.
        outdated: usize,
        /// Names of the first tables.
        tables: Vec<String>,
    },
    /// The servers were built differently, which may cause differences of times and rows.
    UnequalBuilds {
        /// Differences.
        differences: Vec<Detail>,
    },
    /// The runs replayed different workloads, which may cause the differences.
    DifferentWorkloads {
        /// Workload before.
        before: String,
        /// Workload after.
        after: String,
    },
    /// A run is incomplete.
    Partial {
        /// The run.
        run: WhichRun,
        /// Status of the run.
        status: RunStatus,
    },
    /// Shards of a replay by several workers are missing, or did not reach their end.
    ShardsIncomplete {
        /// The run.
        run: WhichRun,
        /// The shards, and the number of their sessions that are incomplete.
        shards: String,
        /// Number of statements that are missing.
        statements: u64,
    },
    /// The runs were replayed at different speeds, so under different load.
    SpeedsDiffer {
        /// Speed before.
        before: String,
        /// Speed after.
        after: String,
    },
    /// The replaying machine was a bottleneck.
    ToolLagHigh {
        /// The run.
        run: WhichRun,
        /// The 99th percentile of tool lag, in nanoseconds.
        p99_ns: u64,
    },
    /// The tool was stopped or starved. What it measured meanwhile is not compared.
    ToolStalled {
        /// The run.
        run: WhichRun,
        /// Number of stalls.
        stalls: usize,
        /// Longest delay that the tool caused, in nanoseconds.
        longest_ns: i64,
        /// Time from the beginning of each stall until nothing was late because of it, in nanoseconds.
        total_ns: i64,
        /// Number of statements of this run that are not compared, because of stalls in this run or another.
        statements: u64,
    },
    /// The replaying machine was busy with other things.
    MachineBusy {
        /// The run.
        run: WhichRun,
        /// Load of the machine.
        #[serde(flatten)]
        load: MachineLoadPercent,
    },
    /// The server could not keep up: the run ended later than planned.
    FellBehind {
        /// The run.
        run: WhichRun,
        /// Delay, in nanoseconds.
        by_ns: i64,
    },
    /// Statements failed only because the replay was read-only. They are not compared.
    RefusedReadOnly {
        /// The run.
        run: WhichRun,
        /// Number of statements: writes, what the role of `--read-only-role` lacks the right for, and what failed after them.
        /// They count as skipped.
        statements: u64,
    },
    /// One run skipped more statements than the other.
    SkippedDiffer {
        /// Skipped statements before.
        before: u64,
        /// Skipped statements after.
        after: u64,
    },
    /// Statements were never sent because their session had no connection.
    NoConnection {
        /// The run.
        run: WhichRun,
        /// Number of statements.
        statements: u64,
    },
    /// All runs of one side ended before the first run of the other began, so changes over time
    /// look like effects of the change.
    NotInTurns {
        /// Side whose runs came first.
        first: Side,
    },
    /// There is little to compare.
    FewStatements {
        /// Statements of the run with fewer.
        statements: u64,
    },
}

/// Returns all warnings.
pub(crate) fn warnings(before: &[RunStats], after: &[RunStats]) -> Vec<Warning> {
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
    let most_skipped = |side: &[RunStats]| {
        let each = side.iter().map(|run| run.all.outcomes.skipped);
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
    let least = all().map(|run| run.all.outcomes.done).min().unwrap_or(0);
    if least < STATEMENTS_FEW {
        found.push(Warning::FewStatements { statements: least });
    }
    found
}

/// Maximum number of tables that a warning names.
const TABLES_NAMED_MAX: usize = 5;
/// Differences of a database that belong to its build.
const BUILD_OF_DATABASE: &str = "locale provider";

/// Returns the warnings that differences of the targets give.
pub(crate) fn target_warnings(targets: &TargetsComparison) -> Vec<Warning> {
    let mut found = Vec::new();
    for side in [Side::Before, Side::After] {
        let gaps = targets.statistics_gaps.iter();
        let mut gaps: Vec<_> = gaps.filter(|gap| gap.side == side).collect();
        gaps.sort_by_key(|gap| gap.kind != StatisticsGapKind::Missing);
        let missing = gaps
            .iter()
            .filter(|gap| gap.kind == StatisticsGapKind::Missing);
        let missing = missing.count();
        if !gaps.is_empty() {
            let named = gaps.iter().take(TABLES_NAMED_MAX);
            found.push(Warning::ForgottenStatistics {
                side,
                missing,
                outdated: gaps.len() - missing,
                tables: named.map(|gap| gap.table.clone()).collect(),
            });
        }
    }
    let databases = targets.databases.iter().flat_map(|one| &one.details);
    let providers = databases.filter(|detail| detail.what == BUILD_OF_DATABASE);
    let mut differences: Vec<Detail> = targets.build.iter().chain(providers).cloned().collect();
    differences.dedup();
    if !differences.is_empty() {
        found.push(Warning::UnequalBuilds { differences });
    }
    found
}

/// Returns the side whose runs all ended before the other's began, if a side has more than one run.
/// With one run each this is unavoidable.
fn first_side(before: &[RunStats], after: &[RunStats]) -> Option<Side> {
    if before.len() + after.len() < 3 {
        return None;
    }
    let begins_us = |run: &RunStats| run.info.started_wall_us;
    let ends_us = |run: &RunStats| begins_us(run) + run.info.elapsed_ns / 1_000;
    let is_over = |side: &[RunStats], other: &[RunStats]| {
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

/// Load of a machine, in whole percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MachineLoadPercent {
    /// Processors' time that other processes used or the hypervisor stole; `null` if unknown.
    pub others: Option<u8>,
    /// Processors' time that the hypervisor stole.
    pub stolen: u8,
    /// Time in which the replay was throttled; `null` if it has no limit.
    pub throttled: Option<u8>,
    /// Time in which some process waited for a processor (PSI); `null` if unknown.
    pub waited: Option<u8>,
}

/// Returns a warning if a third of the machine was used by others, or a twentieth stolen or throttled. Waiting alone
/// is no reason: the server of the replay may be what waits.
fn busy_machine(which: WhichRun, run: &RunStats) -> Option<Warning> {
    let load = run.info.machine?;
    let is_busy = load.others.unwrap_or(0.0) >= OTHERS_HIGH
        || load.stolen >= LOST_HIGH
        || load.throttled.unwrap_or(0.0) >= LOST_HIGH;
    let percent = |share: f64| (share * 100.0).round().clamp(0.0, 100.0) as u8;
    is_busy.then(|| Warning::MachineBusy {
        run: which,
        load: MachineLoadPercent {
            others: load.others.map(percent),
            stolen: percent(load.stolen),
            throttled: load.throttled.map(percent),
            waited: load.waited.map(percent),
        },
    })
}

/// Returns the share of the machine that a side's runs did not have, on average; `None` if a run does not know it.
/// Throttling is left out: the server of the replay may be what used up the limit.
pub(crate) fn lost_share(side: &[RunStats]) -> Option<f64> {
    let share = |run: &RunStats| {
        let load = run.info.machine?;
        Some(load.others.unwrap_or(load.stolen))
    };
    let shares: Vec<f64> = side.iter().map(share).collect::<Option<_>>()?;
    Some(shares.iter().sum::<f64>() / shares.len() as f64)
}

/// Returns the share of the machine that the runs after did not have, minus that of the runs before.
pub(crate) fn lost_more(before: &[RunStats], after: &[RunStats]) -> Option<f64> {
    Some(lost_share(after)? - lost_share(before)?)
}

fn of_one(which: WhichRun, run: &RunStats, found: &mut Vec<Warning>) {
    let status = run.info.status;
    match status {
        RunStatus::Complete => {}
        RunStatus::Incomplete => found.push(Warning::ShardsIncomplete {
            run: which,
            shards: (run.info.options.get(INCOMPLETE_SHARDS_OPTION))
                .cloned()
                .unwrap_or_default(),
            statements: (run.info.workload.statements)
                .saturating_sub(run.info.statements)
                .saturating_add(run.info.skipped.get("stopped").copied().unwrap_or(0)),
        }),
        RunStatus::Stopped | RunStatus::Recovered => {
            found.push(Warning::Partial { run: which, status });
        }
    }
    if let Some(lag) = run.tool_lag()
        && lag.p99_ns > TOOL_LAG_P99_HIGH_NS
    {
        found.push(Warning::ToolLagHigh {
            run: which,
            p99_ns: lag.p99_ns,
        });
    }
    let stalls = &run.info.tool_stalls;
    if let Some(longest_ns) = stalls.iter().map(|stall| stall.longest_ns).max() {
        let lengths = stalls.iter().map(|stall| stall.until_ns - stall.from_ns);
        found.push(Warning::ToolStalled {
            run: which,
            stalls: stalls.len(),
            longest_ns,
            total_ns: lengths.sum(),
            statements: run.statements_in_stalls(),
        });
    }
    found.extend(busy_machine(which, run));
    let last_stall_ns = stalls.last().map_or(i64::MIN, |stall| stall.until_ns);
    let by_ns = run.info.elapsed_ns - run.info.span_due_ns;
    let much_ns = (run.info.span_due_ns as f64 * FELL_BEHIND_SHARE) as i64;
    // Otherwise it may have ended late because of the stall.
    let has_caught_up = last_stall_ns < run.info.span_due_ns;
    if status == RunStatus::Complete
        && run.speed() != "max"
        && by_ns > FELL_BEHIND_NS.max(much_ns)
        && has_caught_up
    {
        found.push(Warning::FellBehind { run: which, by_ns });
    }
    if run.refused_read_only > 0 {
        found.push(Warning::RefusedReadOnly {
            run: which,
            statements: run.refused_read_only,
        });
    }
    if run.no_connection > 0 {
        found.push(Warning::NoConnection {
            run: which,
            statements: run.no_connection,
        });
    }
}
