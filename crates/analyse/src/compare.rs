//! Two runs side by side.

use std::sync::atomic::{AtomicUsize, Ordering};

use run::RunStatus;
use workload::{Fingerprint, StatementClass};

use crate::bootstrap::{Ratio, Ratios, Request, Resampler, ratios};
use crate::caution::{Caution, cautions};
use crate::error_change::{ErrorChange, changes};
use crate::judgement::{
    CALLS_MIN, CALLS_P99_MIN, Finding, Lack, MARGIN_DEFAULT, Measure, STRETCHES_MIN, judge,
};
use crate::landmarks::Landmarks;
use crate::profile::{RunProfile, Tracked};
use crate::rows_change::{RowsComparison, rows};

/// A slower statement is a regression if it adds at least this share of all service time.
pub const NOTICEABLE_SHARE: f64 = 0.001;

/// …or if a call of it takes at least this much longer, in nanoseconds: a tenth of a second is
/// where people begin to notice (Miller 1968; Nielsen, "Usability Engineering", 1993).
pub const NOTICEABLE_CALL_NS: f64 = 100_000_000.0;

/// In no case if a call takes less than this much longer, in nanoseconds: the network and the
/// scheduler make as much of a difference between any two runs.
pub const NOTICEABLE_CALL_NS_MIN: f64 = 20_000.0;

/// All statements together are judged only where both runs did the same number of them within
/// this share: what was done in one run only would pass for a difference in time.
const OVERALL_CALLS_DIFFERENCE: f64 = 0.01;

/// What the user can choose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// Differences up to this share count as none: 0.1 is from 1/1.1 to 1.1.
    pub margin: f64,
    /// Threads that compute; the result does not depend on it. 0 is as 1.
    pub threads: usize,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            margin: MARGIN_DEFAULT,
            threads: 1,
        }
    }
}

/// What came of comparing two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// In a word.
    pub verdict: Verdict,
    /// The margin that it was judged with.
    pub margin: f64,
    /// The run before.
    pub before: RunFacts,
    /// The run after.
    pub after: RunFacts,
    /// The same stretches of the workload were set against each other.
    pub paired: bool,
    /// Service time of all statements together.
    pub all: TimesComparison,
    /// Captured durations of all statements: another machine, another day, server time only.
    pub captured: Option<Landmarks>,
    /// Time to open connections.
    pub connects: TimesComparison,
    /// Each fingerprint, by the time that it adds, the most first; those in one run only last.
    pub statements: Vec<StatementComparison>,
    /// Errors that changed; regressions first.
    pub errors: Vec<ErrorChange>,
    /// Numbers of rows that differ. They are no part of the verdict.
    pub rows: RowsComparison,
    /// Reasons to read this with care.
    pub cautions: Vec<Caution>,
}

/// The comparison in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Something got worse.
    Regression {
        /// Statements that got slower, noticeably.
        slower: usize,
        /// Errors, by statement and code, that are new or more.
        errors: usize,
        /// All statements together got slower.
        overall: bool,
    },
    /// Nothing got worse that could be shown.
    NoRegression {
        /// Statements that got faster.
        faster: usize,
    },
    /// Nothing could be shown at all.
    NotEnoughData,
}

/// One run, in all.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFacts {
    /// The workload's name.
    pub workload: String,
    /// Whether the replay reached its end.
    pub status: RunStatus,
    /// The server's address.
    pub target: String,
    /// The server's version as it reports it; empty if unknown.
    pub server_version: String,
    /// The replay's speed.
    pub speed: String,
    /// When the last statement was done, in nanoseconds from the start.
    pub elapsed_ns: i64,
    /// Statements that the server did.
    pub done: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Statements that were never sent.
    pub skipped: u64,
    /// Connections opened.
    pub connects: u64,
    /// Connections that could not be opened.
    pub connects_failed: u64,
    /// Due → done, of what was done.
    pub response: Option<Landmarks>,
    /// The tool's own delay, of what was sent.
    pub tool_lag: Option<Landmarks>,
    /// Waiting for the session's previous statement, of what was sent.
    pub session_lag: Option<Landmarks>,
}

/// Service time (sent → done), of what was done, in both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct TimesComparison {
    /// Before; `None` where nothing was done.
    pub before: Option<Landmarks>,
    /// After; `None` where nothing was done.
    pub after: Option<Landmarks>,
    /// The ratio of the medians.
    pub median: Option<Ratio>,
    /// The ratio of the means: of the totals, at equal calls.
    pub mean: Option<Ratio>,
    /// The ratio of the 99th percentiles; without interval where there are too few calls.
    pub p99: Option<Ratio>,
    /// What the change costs: the difference of the means times the calls before, in nanoseconds.
    pub added_ns: Option<f64>,
    /// What is known of the difference.
    pub finding: Finding,
}

/// One statement in both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementComparison {
    /// Which.
    pub fingerprint: Fingerprint,
    /// Its normalised SQL, where the runs know it.
    pub sql: Option<String>,
    /// Its class, where the runs know it.
    pub class: Option<StatementClass>,
    /// Service time of what was done.
    pub times: TimesComparison,
    /// How often it was sent before.
    pub calls_before: u64,
    /// How often it was sent after.
    pub calls_after: u64,
    /// How often it failed before.
    pub errors_before: u64,
    /// How often it failed after.
    pub errors_after: u64,
    /// How often it failed where it was captured.
    pub errors_captured: u64,
    /// How often it was not sent before.
    pub skipped_before: u64,
    /// How often it was not sent after.
    pub skipped_after: u64,
    /// Captured durations: another machine, another day, server time only.
    pub captured: Option<Landmarks>,
    /// It is slower, and noticeably so.
    pub regression: bool,
}

impl Comparison {
    /// Whether something got worse.
    pub fn has_regression(&self) -> bool {
        matches!(self.verdict, Verdict::Regression { .. })
    }
}

/// Compares two runs. Takes them, since the stretches of the shorter one may have to be widened.
pub fn compare(
    mut before: RunProfile,
    mut after: RunProfile,
    options: CompareOptions,
) -> Comparison {
    before.widen_to(&after);
    after.widen_to(&before);
    let (before, after) = (&before, &after);
    let paired = before.info.workload.id == after.info.workload.id
        && before.speed() == after.speed()
        && before.speed() != "max";
    let judge_times =
        |one: &Tracked, other: &Tracked, seed| times(one, other, seed, paired, options.margin);

    let all = judge_times(&before.all, &after.all, 1);
    let connects = judge_times(&before.connects, &after.connects, 2);
    let all_ns = all.before.map_or(0.0, |landmarks| landmarks.total_ns);
    let fingerprints: Vec<Fingerprint> = before.fingerprints_with(after).into_iter().collect();
    let nothing = Tracked::new(0);
    let one_statement = |fingerprint: &Fingerprint| {
        let one = before.statements.get(fingerprint).unwrap_or(&nothing);
        let other = after.statements.get(fingerprint).unwrap_or(&nothing);
        let times = judge_times(one, other, fingerprint.0);
        let text = after
            .text(*fingerprint)
            .or_else(|| before.text(*fingerprint));
        StatementComparison {
            fingerprint: *fingerprint,
            sql: text.map(|text| text.sql.clone()),
            class: text.map(|text| text.class),
            regression: is_regression(&times, all_ns),
            times,
            calls_before: one.calls(),
            calls_after: other.calls(),
            errors_before: one.failed(),
            errors_after: other.failed(),
            errors_captured: captured_errors(one).max(captured_errors(other)),
            skipped_before: one.skipped,
            skipped_after: other.skipped,
            captured: captured(one, other),
        }
    };
    let mut statements = in_parallel(&fingerprints, options.threads, one_statement);
    statements.sort_by(|a, b| {
        let added = |statement: &StatementComparison| statement.times.added_ns;
        let key = |added: Option<f64>| added.unwrap_or(f64::NEG_INFINITY);
        key(added(b))
            .total_cmp(&key(added(a)))
            .then(a.fingerprint.cmp(&b.fingerprint))
    });

    let errors = changes(before, after);
    Comparison {
        verdict: verdict(&all, &statements, &errors, all_ns),
        margin: options.margin,
        before: facts(before),
        after: facts(after),
        paired,
        captured: captured(&before.all, &after.all),
        all,
        connects,
        statements,
        errors,
        rows: rows(before, after),
        cautions: cautions(before, after),
    }
}

fn times(one: &Tracked, other: &Tracked, seed: u64, paired: bool, margin: f64) -> TimesComparison {
    let (before, after) = (Resampler::new(&one.service), Resampler::new(&other.service));
    let calls = one.service.count().min(other.service.count());
    let lack = if calls == 0 {
        Some(Lack::OneSided)
    } else if calls < CALLS_MIN {
        Some(Lack::Calls)
    } else if before.stretches().min(after.stretches()) < STRETCHES_MIN {
        Some(Lack::Stretches)
    } else {
        None
    };
    let found: Ratios = ratios(
        &before,
        &after,
        Request {
            paired,
            intervals: lack.is_none(),
            tail: calls >= CALLS_P99_MIN,
            seed,
        },
    );
    let before = one.service.landmarks(before.sorted());
    let after = other.service.landmarks(after.sorted());
    let added_ns = before
        .zip(after)
        .map(|(before, after)| (after.mean_ns() - before.mean_ns()) * before.count as f64);
    TimesComparison {
        before,
        after,
        median: found.median,
        mean: found.mean,
        p99: found.p99,
        added_ns,
        finding: lack.map_or_else(|| judge(&found, margin), Finding::NotEnoughData),
    }
}

/// Slower, and noticeably so. `all_ns` is the service time of all statements before.
fn is_regression(times: &TimesComparison, all_ns: f64) -> bool {
    let (Finding::Slower(measure), Some(before), Some(after)) =
        (times.finding, times.before, times.after)
    else {
        return false;
    };
    let longer_ns = match measure {
        Measure::Median => after.p50_ns as f64 - before.p50_ns as f64,
        Measure::Mean => after.mean_ns() - before.mean_ns(),
        Measure::P99 => after.p99_ns as f64 - before.p99_ns as f64,
    };
    let added_ns = times.added_ns.unwrap_or(0.0);
    longer_ns >= NOTICEABLE_CALL_NS_MIN
        && (longer_ns >= NOTICEABLE_CALL_NS || added_ns >= NOTICEABLE_SHARE * all_ns)
}

fn verdict(
    all: &TimesComparison,
    statements: &[StatementComparison],
    errors: &[ErrorChange],
    all_ns: f64,
) -> Verdict {
    let slower = statements.iter().filter(|one| one.regression).count();
    let errors = errors.iter().filter(|change| change.regression).count();
    let done = |side: Option<Landmarks>| side.map_or(0, |landmarks| landmarks.count);
    let (before, after) = (done(all.before), done(all.after));
    let alike = before.abs_diff(after) as f64 <= OVERALL_CALLS_DIFFERENCE * before as f64;
    let overall = alike && is_regression(all, all_ns);
    if slower > 0 || errors > 0 || overall {
        return Verdict::Regression {
            slower,
            errors,
            overall,
        };
    }
    let known = |times: &TimesComparison| !matches!(times.finding, Finding::NotEnoughData(_));
    if !known(all) && !statements.iter().any(|one| known(&one.times)) {
        return Verdict::NotEnoughData;
    }
    let faster = |one: &&StatementComparison| matches!(one.times.finding, Finding::Faster(_));
    Verdict::NoRegression {
        faster: statements.iter().filter(faster).count(),
    }
}

fn captured(one: &Tracked, other: &Tracked) -> Option<Landmarks> {
    // Both runs carry what was captured; a partial one less of it.
    let fuller = if other.captured.count() > one.captured.count() {
        other
    } else {
        one
    };
    fuller.captured.landmarks()
}

fn captured_errors(tracked: &Tracked) -> u64 {
    tracked.captured_errors.values().sum()
}

fn facts(run: &RunProfile) -> RunFacts {
    RunFacts {
        workload: run.info.workload.name.clone(),
        status: run.info.status,
        target: run.info.target.address.clone(),
        server_version: run.info.target.server_version.clone(),
        speed: run.speed().to_owned(),
        elapsed_ns: run.last_done_ns,
        done: run.all.done,
        failed: run.all.failed(),
        skipped: run.all.skipped,
        connects: run.connects.done,
        connects_failed: run.connects.failed(),
        response: run.response(),
        tool_lag: run.tool_lag(),
        session_lag: run.session_lag(),
    }
}

/// The work on each item, on several threads, in the order of the items.
fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let one_thread = || {
        let mut results = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return results;
            };
            results.push((at, work(item)));
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one_thread)).collect();
        let mut results = one_thread();
        for other in others {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
