//! Runs before a change and runs after it, side by side.
//!
//! How a difference becomes a finding, for each statement:
//!
//! 1. ratios of the medians, means and 99th percentiles, with intervals: from a block bootstrap over
//!    time where there is one run a side ([`statistics::bootstrap`]), from how much runs of one side differ
//!    where there are several ([`statistics::between_runs`]);
//! 2. where an interval is clear of the margin, a test by exchange ([`statistics::exchange`]);
//! 3. of all statements that were tested, those are findings that keep the false discovery rate
//!    ([`statistics::discovery`]); of three measures tested, a p-value counts three times (Bonferroni);
//! 4. one word for the three measures ([`crate::judgement`]).

mod facts;
mod many;
mod noise;
mod times;

use schemars::JsonSchema;
use serde::Serialize;
use sql::{Fingerprint, StatementClass};

use crate::anomaly::Anomaly;
use crate::condition::ConditionOutcome;
use crate::details::{DETAILED_MAX, Details};
use crate::error_change::{ErrorChange, changes};
use crate::judgement::{Finding, InsufficientData, MARGIN_DEFAULT};
use crate::over_time::ComparedOverTime;
use crate::profile::RunProfile;
use crate::rows_change::{RowsComparison, rows};
use crate::slowest::slowest;
use crate::targets::TargetsComparison;
use crate::tracked::{Account, Tracked};
use crate::warning::{Warning, warnings};
pub use facts::{RunFacts, SideFacts};
use many::in_parallel;
pub use noise::{Noise, NoiseSource};
use plans::StatementPlans;
use statistics::FALSE_DISCOVERY_RATE;
use statistics::LatencySummary;
use statistics::Measure;
use statistics::bootstrap::Draws;
use statistics::series::Series;
use statistics::{INTERVAL_LEVEL_PERCENT, Ratio};
use time_breakdown::observed::ObservedChange;
use time_breakdown::time_model::TimeChange;
use times::{Both, Family, Judged, Measured, Sampled};
use workload::Literals;

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

/// Options of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// Differences up to this share count as none: 0.1 is from 1/1.1 to 1.1.
    pub margin: f64,
    /// Of statements called slower or faster, at most this share is expected to be neither.
    pub false_discovery_rate: f64,
    /// Threads that compute; the result does not depend on it. 0 is as 1.
    pub threads: usize,
    /// Whether messages and plans keep values of the user's data.
    pub literals: Literals,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            margin: MARGIN_DEFAULT,
            false_discovery_rate: FALSE_DISCOVERY_RATE,
            threads: 1,
            literals: Literals::Hidden,
        }
    }
}

/// The runs to compare.
#[derive(Debug, Default)]
pub struct Runs {
    /// Before the change; at least one.
    pub before: Vec<RunProfile>,
    /// After the change; at least one.
    pub after: Vec<RunProfile>,
    /// Of one unchanged server: what these differ by is noise. None, or two at least.
    pub noise: Vec<RunProfile>,
}

/// Runs before a change and after it, compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether messages and plans hold values of the user's data.
    pub literals: Literals,
    /// Reasons to read this with care.
    pub warnings: Vec<Warning>,
    /// Differences of medians up to this share count as none: 0.1 is from 1/1.1 to 1.1. It is what was
    /// asked for, or the noise that was given if that is more. A statement that is noisier has its own.
    pub margin: f64,
    /// Confidence level of the intervals, in percent.
    pub interval_level_percent: u32,
    /// Of statements called slower or faster, at most this share is expected to be neither.
    pub false_discovery_rate: f64,
    /// Whether the same stretches of the workload were compared with each other.
    pub paired: bool,
    /// Differences between runs of the same server; `null` if each side has one run and none were given.
    pub noise: Option<Noise>,
    /// The runs before.
    pub before: SideFacts,
    /// The runs after.
    pub after: SideFacts,
    /// Service time (sent → done) of all statements together.
    pub all: TimesComparison,
    /// Response time (due → done) of all statements together: what a stall adds to those who wait.
    pub response: TimesComparison,
    /// Both sides from stretch to stretch.
    pub over_time: ComparedOverTime,
    /// Captured durations of all statements: another machine, another day, server time only.
    pub captured: Option<LatencySummary>,
    /// Time to open connections.
    pub connects: TimesComparison,
    /// Each statement, by the time that it adds, the most first; those in one run only last.
    pub statements: Vec<StatementComparison>,
    /// Errors that changed; regressions first.
    pub errors: Vec<ErrorChange>,
    /// Numbers of rows that differ. They are no part of the verdict.
    pub rows: RowsComparison,
    /// Outcomes of the conditions that were checked. The caller adds them.
    pub conditions: Vec<ConditionOutcome>,
    /// The targets compared; `null` if a run does not know its own. The caller adds it.
    pub targets: Option<TargetsComparison>,
    /// Components of response time; `null` unless all runs were observed. The caller adds it.
    pub time: Option<TimeChange>,
    /// Numbers observed of the targets; `null` unless all runs were observed. The caller adds it.
    pub observed: Option<ObservedChange>,
}

/// The verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Something got worse.
    Regression {
        /// Number of statements that got slower, noticeably.
        slower: usize,
        /// Number of errors, by statement and code, that are new or more frequent.
        errors: usize,
        /// Whether all statements together got slower.
        overall: bool,
    },
    /// Nothing got worse that could be shown.
    NoRegression {
        /// Number of statements that got faster.
        faster: usize,
    },
    /// Nothing could be shown at all.
    InsufficientData,
}

impl Verdict {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Regression { .. } => "regression",
            Verdict::NoRegression { .. } => "no_regression",
            Verdict::InsufficientData => "insufficient_data",
        }
    }
}

/// One kind of time, of what was done, on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimesComparison {
    /// Before; `None` where nothing was done.
    pub before: Option<LatencySummary>,
    /// After; `None` where nothing was done.
    pub after: Option<LatencySummary>,
    /// The ratio of the medians.
    pub median_ratio: Option<Ratio>,
    /// The ratio of the means: of the totals, at equal calls.
    pub mean_ratio: Option<Ratio>,
    /// The ratio of the 99th percentiles; without interval where there are too few calls.
    pub p99_ratio: Option<Ratio>,
    /// What the change costs: the difference of the means times the calls of a run before, in
    /// nanoseconds.
    pub added_ns: Option<f64>,
    /// The chance of such a difference without a cause, in the measure where it is smallest, times
    /// the measures that were looked at; `None` where no interval was clear of the margin.
    pub p_value: Option<f64>,
    /// Judgement of the difference.
    #[serde(flatten)]
    pub finding: Finding,
}

/// One statement in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StatementComparison {
    /// Which.
    pub fingerprint: Fingerprint,
    /// Its normalised SQL, where the runs know it.
    pub sql: Option<String>,
    /// Its class, where the runs know it.
    pub class: Option<StatementClass>,
    /// Service time (sent → done) of what was done.
    pub service: TimesComparison,
    /// Response time (due → done) of what was done before.
    pub response_before: Option<LatencySummary>,
    /// Response time of what was done after.
    pub response_after: Option<LatencySummary>,
    /// Waiting for the session's previous statement, before.
    pub session_lag_before: Option<LatencySummary>,
    /// Waiting for the session's previous statement, after.
    pub session_lag_after: Option<LatencySummary>,
    /// Anomalies in its times.
    pub anomalies: Vec<Anomaly>,
    /// For a reader who opens it; of the [`DETAILED_MAX`] with the most time.
    pub details: Option<Details>,
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
    pub captured: Option<LatencySummary>,
    /// It is slower, and noticeably so.
    pub regression: bool,
    /// It looks slower, and noticeably so; but chance could not be ruled out.
    pub suspected: bool,
    /// Its plans; `null` if no run asked for them. The caller adds them.
    pub plans: Option<StatementPlans>,
}

impl TimesComparison {
    /// Returns the measure that the finding rests on; the median if it rests on none.
    pub fn measure(&self) -> Measure {
        self.finding.measure().unwrap_or(Measure::Median)
    }

    /// Returns the ratio of a measure.
    pub fn ratio(&self, measure: Measure) -> Option<Ratio> {
        match measure {
            Measure::Median => self.median_ratio,
            Measure::Mean => self.mean_ratio,
            Measure::P99 => self.p99_ratio,
        }
    }
}

impl Comparison {
    /// Whether something got worse.
    pub fn has_regression(&self) -> bool {
        matches!(self.verdict, Verdict::Regression { .. })
    }

    /// Counts the statements that look slower, noticeably, but for which chance could not be ruled out.
    /// They are no part of the verdict.
    pub fn suspected(&self) -> usize {
        self.statements.iter().filter(|one| one.suspected).count()
    }

    /// Counts the statements that returned other rows than before, and do not so between runs of one
    /// side. They are no part of the verdict.
    pub fn other_rows(&self) -> usize {
        let changes = self.rows.changes.iter();
        changes.filter(|change| !change.unsteady).count()
    }

    /// Whether it is known how much two runs of the same server differ: from several runs of a side, or
    /// from runs that were given for it. Otherwise no share of chance findings can be promised.
    pub fn is_noise_known(&self) -> bool {
        let given = |noise: &Noise| noise.source == NoiseSource::Given;
        self.before.runs.len().max(self.after.runs.len()) > 1
            || self.noise.as_ref().is_some_and(given)
    }
}

/// Compares runs. Takes them, since the stretches of the shorter ones may have to be widened.
///
/// # Panics
/// Where there is no run before or none after.
pub fn compare(runs: Runs, options: CompareOptions) -> Comparison {
    let Runs {
        mut before,
        mut after,
        noise,
    } = runs;
    assert!(
        !before.is_empty() && !after.is_empty(),
        "a comparison needs a run on either side"
    );
    let paired = times::same_stretches(before.iter().chain(&after));
    times::widen(before.iter_mut().chain(&mut after));
    let (before, after) = (before.as_slice(), after.as_slice());
    let aa = noise::between(noise, options);
    let runs = (before.len(), after.len());
    let fingerprints = facts::fingerprints(before.iter().chain(after));
    let used = facts::stretches_used(before.iter().chain(after));
    let draws = Draws::new(runs.0 + runs.1, used, paired);
    let detailed = detailed(&fingerprints, before, after);
    let both_of = |fingerprint: Fingerprint| {
        let times = |side| -> Vec<_> {
            let tracked: Vec<&Tracked> = tracked(side, fingerprint);
            tracked.into_iter().map(|one| &one.service).collect()
        };
        Both {
            before: times(before),
            after: times(after),
            draws: &draws,
            seed: fingerprint.0,
        }
    };

    // Each statement by itself first; what they know of each other second.
    let one_statement = |fingerprint: &Fingerprint| {
        let sampled = Sampled::new(both_of(*fingerprint));
        let mut measured = sampled.measure(runs);
        if measured.lack.is_none() {
            measured.anomalies = sampled.anomalies(used);
        }
        if detailed.contains(fingerprint) {
            let slowest_of =
                |side| slowest(tracked(side, *fingerprint).iter().map(|one| &one.slowest));
            measured.details = Some(Details {
                slowest_before: slowest_of(before),
                slowest_after: slowest_of(after),
                ..sampled.details(used)
            });
        }
        measured
    };
    let mut measured = in_parallel(&fingerprints, options.threads, one_statement);
    let family = Family::of(&mut measured, aa.as_ref());
    let judged = family.judge(&measured, options, |at| both_of(fingerprints[at]));
    // All of them together are one more test beside the statements'.
    let tested = measured.iter().filter(|one| one.lack.is_none()).count();
    let differs = |one: &&Judged| one.finding.measure().is_some();
    let beside = (tested, judged.iter().filter(differs).count());
    let alone = |get: fn(&RunProfile) -> &Series, seed| {
        let both = || Both {
            before: before.iter().map(get).collect(),
            after: after.iter().map(get).collect(),
            draws: &draws,
            seed,
        };
        let mut measured = [Sampled::new(both()).measure(runs)];
        family.widen_intervals(&mut measured);
        let judged = family.judge_beside(&measured, options, beside, |_| both())[0];
        let [measured] = measured;
        comparison(measured, judged, runs.0)
    };
    let [all, connects, response] = WHOLES.map(|(get, seed)| alone(get, seed));
    let all_ns = all.before.map_or(0.0, |latency| latency.total_ns) / runs.0 as f64;

    let mut statements: Vec<StatementComparison> = fingerprints
        .iter()
        .zip(measured)
        .zip(judged)
        .map(|((fingerprint, measured), judged)| {
            statement(*fingerprint, (before, after), measured, judged, all_ns)
        })
        .collect();
    statements.sort_by(|a, b| {
        let added = |statement: &StatementComparison| statement.service.added_ns;
        let key = |added: Option<f64>| added.unwrap_or(f64::NEG_INFINITY);
        key(added(b))
            .total_cmp(&key(added(a)))
            .then(a.fingerprint.cmp(&b.fingerprint))
    });

    let errors = changes(before, after, options.literals);
    Comparison {
        verdict: verdict(&all, &statements, &errors, all_ns),
        margin: aa
            .as_ref()
            .map_or(options.margin, |aa| options.margin.max(aa.noise.median)),
        literals: options.literals,
        interval_level_percent: INTERVAL_LEVEL_PERCENT,
        false_discovery_rate: options.false_discovery_rate,
        before: facts::side(before, response.before),
        after: facts::side(after, response.after),
        paired,
        noise: aa
            .as_ref()
            .map(|aa| aa.noise.clone())
            .or_else(|| family.noise()),
        captured: captured(
            before.iter().map(|run| &run.all),
            after.iter().map(|run| &run.all),
        ),
        all,
        response,
        connects,
        over_time: facts::over_time(before, after, used),
        statements,
        errors,
        rows: rows(before, after),
        warnings: warnings(before, after),
        conditions: Vec::new(),
        targets: None,
        time: None,
        observed: None,
    }
}

/// What is compared of a run as a whole, with the number under which its noise is known: service times,
/// times of connecting, response times.
const WHOLES: [Whole; 3] = [
    (|run| &run.all.service, 1),
    (|run| &run.connects.service, 2),
    (|run| &run.response, 3),
];

type Whole = (fn(&RunProfile) -> &Series, u64);

/// What each run of a side knows of a statement; runs that do not have it are left out.
fn tracked(side: &[RunProfile], fingerprint: Fingerprint) -> Vec<&Tracked> {
    side.iter()
        .filter_map(|run| run.statements.get(&fingerprint))
        .collect()
}

/// The statements with the most time.
fn detailed(
    fingerprints: &[Fingerprint],
    before: &[RunProfile],
    after: &[RunProfile],
) -> std::collections::HashSet<Fingerprint> {
    if fingerprints.len() <= DETAILED_MAX {
        return fingerprints.iter().copied().collect();
    }
    let time = |fingerprint: Fingerprint| -> f64 {
        let runs = before.iter().chain(after);
        let all = runs.filter_map(|run| run.statements.get(&fingerprint));
        all.map(|tracked| tracked.service.total_ns()).sum()
    };
    let mut by_time: Vec<(f64, Fingerprint)> = fingerprints
        .iter()
        .map(|fingerprint| (time(*fingerprint), *fingerprint))
        .collect();
    by_time.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    by_time.truncate(DETAILED_MAX);
    by_time
        .into_iter()
        .map(|(_, fingerprint)| fingerprint)
        .collect()
}

/// `runs` are those before.
fn comparison(measured: Measured, judged: Judged, runs: usize) -> TimesComparison {
    let added_ns = measured.before.zip(measured.after).map(|(before, after)| {
        let calls = before.count as f64 / runs as f64;
        (after.mean_ns - before.mean_ns) * calls
    });
    let ratios = measured.resampled.ratios;
    TimesComparison {
        before: measured.before,
        after: measured.after,
        median_ratio: ratios.median,
        mean_ratio: ratios.mean,
        p99_ratio: ratios.p99,
        added_ns,
        p_value: judged.p_value,
        finding: judged.finding,
    }
}

fn statement(
    fingerprint: Fingerprint,
    (before, after): (&[RunProfile], &[RunProfile]),
    mut measured: Measured,
    judged: Judged,
    all_ns: f64,
) -> StatementComparison {
    let (one, other) = (tracked(before, fingerprint), tracked(after, fingerprint));
    let account = |side: &[&Tracked]| account_of(side.iter().copied());
    let (account_before, account_after) = (account(&one), account(&other));
    let (anomalies, details) = (
        std::mem::take(&mut measured.anomalies),
        measured.details.take(),
    );
    let times = comparison(measured, judged, before.len());
    let text = after
        .iter()
        .chain(before)
        .find_map(|run| run.text(fingerprint));
    let response = |side: &[&Tracked]| facts::together(side.iter().map(|one| &one.response));
    let session_lag = |side: &[&Tracked]| facts::together(side.iter().map(|one| &one.session_lag));
    StatementComparison {
        fingerprint,
        sql: text.map(|text| text.sql.clone()),
        class: text.map(|text| text.class),
        regression: is_regression(&times, all_ns),
        suspected: is_suspected(&times, all_ns),
        service: times,
        response_before: response(&one),
        response_after: response(&other),
        session_lag_before: session_lag(&one),
        session_lag_after: session_lag(&other),
        anomalies,
        details,
        calls_before: account_before.calls(),
        calls_after: account_after.calls(),
        errors_before: account_before.failed(),
        errors_after: account_after.failed(),
        errors_captured: account_before
            .captured_failed()
            .max(account_after.captured_failed()),
        skipped_before: account_before.skipped,
        skipped_after: account_after.skipped,
        captured: captured(one.into_iter(), other.into_iter()),
        plans: None,
    }
}

/// The counts of several runs together.
fn account_of<'a>(runs: impl Iterator<Item = &'a Tracked>) -> Account {
    let mut sum = Account::default();
    for run in runs {
        sum.absorb(&run.account);
    }
    sum
}

/// Slower, and noticeably so. `all_ns` is the service time of all statements before.
fn is_regression(times: &TimesComparison, all_ns: f64) -> bool {
    match times.finding {
        Finding::Slower { measure } => is_noticeable(times, measure, all_ns),
        _ => false,
    }
}

/// A measure's interval is clear of the margin for the worse, noticeably so, and chance may have made it.
fn is_suspected(times: &TimesComparison, all_ns: f64) -> bool {
    let may_be_chance = Finding::InsufficientData {
        reason: InsufficientData::MayBeChance,
    };
    let measures = [Measure::Median, Measure::Mean, Measure::P99];
    times.finding == may_be_chance
        && measures.into_iter().any(|measure| {
            let interval = times.ratio(measure).and_then(|ratio| ratio.interval);
            interval.is_some_and(|interval| interval.low > 1.0 + MARGIN_DEFAULT)
                && is_noticeable(times, measure, all_ns)
        })
}

fn is_noticeable(times: &TimesComparison, measure: Measure, all_ns: f64) -> bool {
    let (Some(before), Some(after)) = (times.before, times.after) else {
        return false;
    };
    let longer_ns = after.measure_ns(measure) - before.measure_ns(measure);
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
    let done = |side: Option<LatencySummary>| side.map_or(0, |latency| latency.count);
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
    let known =
        |times: &TimesComparison| !matches!(times.finding, Finding::InsufficientData { .. });
    if !known(all) && !statements.iter().any(|one| known(&one.service)) {
        return Verdict::InsufficientData;
    }
    let faster = |one: &&StatementComparison| matches!(one.service.finding, Finding::Faster { .. });
    Verdict::NoRegression {
        faster: statements.iter().filter(faster).count(),
    }
}

/// What was captured: each run carries it, a partial one less of it.
fn captured<'a>(
    before: impl Iterator<Item = &'a Tracked>,
    after: impl Iterator<Item = &'a Tracked>,
) -> Option<LatencySummary> {
    let fullest = before.chain(after).max_by_key(|run| run.captured.count());
    fullest.and_then(|run| run.captured.latency_summary())
}
