//! Compares runs before a change with runs after it.
//!
//! A difference of a statement becomes a finding in four steps:
//!
//! 1. Compute the ratios of the medians, means and 99th percentiles with their intervals. With one
//!    run a side, intervals come from a block bootstrap over time ([`statistics::bootstrap`]); with
//!    several, from the variance between runs of one side ([`statistics::variance_components`]).
//! 2. If an interval is clear of the margin, run a permutation test
//!    ([`statistics::permutation_test`]).
//! 3. Of all statements that were tested, those are findings that keep the false discovery rate
//!    ([`statistics::false_discovery_rate`]). P-values are multiplied by the three measures tested
//!    (Bonferroni).
//! 4. Combine the three measures into one finding ([`crate::judgement`]).

mod comparison;
mod facts;
mod noise;
mod pairing;
mod parallel;
mod times;
mod verdict;

use std::collections::HashSet;

use sql::Fingerprint;

use crate::cause::StatementChange;
use crate::details::{DETAILED_MAX, Details};
use crate::error_change::changes;
use crate::observation_unit::ObservationUnit;
use crate::rows_change::compare_rows;
use crate::run_stats::RunStats;
use crate::slowest::slowest;
use crate::statement_role::{StatementRole, statement_roles};
use crate::statement_stats::{OutcomeCounts, StatementStats};
use crate::warning::{OTHERS_HIGH, lost_more, lost_share, warnings};
use crate::work::WorkComparison;
pub use comparison::{
    CompareOptions, Comparison, ContextComparison, ContextStatement, ContextsComparison,
    InconclusiveReason, Noise, NoiseSource, Runs, StatementComparison, TimesComparison, Verdict,
};
pub use facts::{RunFacts, SideFacts};
pub use pairing::Pairing;
use parallel::map_in_parallel;
use statistics::INTERVAL_LEVEL_PERCENT;
use statistics::LatencySummary;
use statistics::bootstrap::{Draws, MEASURES};
use statistics::series::Series;
use time_breakdown::observed::StatementTotals;
use times::{Judgement, Measurement, SampledSides, Sides, TestFamily};

/// Compares runs. It takes ownership, because stretches of shorter runs may be widened.
///
/// # Panics
/// If there is no run before or no run after.
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
    let unit = options.pairing.unit(&mut before, &mut after);
    let paired = times::same_stretches(before.iter().chain(&after));
    times::widen(before.iter_mut().chain(&mut after));
    let noise_model = noise::estimate_noise(noise, options);
    let fingerprints = facts::fingerprints(before.iter().chain(&after));
    let used = facts::stretches_used(before.iter().chain(&after));
    let comparer = Comparer {
        before: &before,
        after: &after,
        draws: Draws::new(before.len() + after.len(), used, paired),
        unit,
        used,
        detailed: statements_with_details(&fingerprints, &before, &after),
    };

    // Measure each statement separately first; then estimate the variance between runs from all of
    // them.
    let mut measured = map_in_parallel(&fingerprints, options.threads, |fingerprint| {
        comparer.measure_statement(*fingerprint)
    });
    let family = TestFamily::estimate(&mut measured, noise_model.as_ref());
    let judged = family.judge(&measured, options, |at| {
        comparer.service_times(fingerprints[at])
    });
    let prior_tests = count_tests(&measured, &judged);
    let [all, connects, response] = WHOLES.map(|(series, seed)| {
        let sides = || comparer.whole_times(series, seed);
        let mut measured = [SampledSides::new(sides()).measure(comparer.runs())];
        let mut runs = before.iter().chain(&after);
        measured[0].blame_stalls(runs.any(|run| run.statements_in_stalls() > 0));
        family.widen_intervals(&mut measured);
        let judged = family.judge_with_prior_tests(&measured, options, prior_tests, |_| sides())[0];
        let [measured] = measured;
        times_comparison(measured, judged, before.len())
    });
    let mut statements: Vec<StatementComparison> = fingerprints
        .iter()
        .zip(measured)
        .zip(judged)
        .map(|((fingerprint, measured), judged)| {
            let margins = family.margins(measured.seed, options.margin);
            comparer.statement_comparison(*fingerprint, measured, judged, margins)
        })
        .collect();
    set_roles(&mut statements);
    sort_by_added_time(&mut statements);
    let mut comparison = Comparison {
        verdict: Verdict::NoRegression { faster: 0 },
        common: None,
        margin: noise_model.as_ref().map_or(options.margin, |model| {
            options.margin.max(model.noise.median)
        }),
        literals: options.literals,
        interval_level_percent: INTERVAL_LEVEL_PERCENT,
        false_discovery_rate: options.false_discovery_rate,
        before: facts::side_facts(&before, response.before),
        after: facts::side_facts(&after, response.after),
        paired,
        unit,
        noise: noise_model
            .as_ref()
            .map(|model| model.noise.clone())
            .or_else(|| family.noise()),
        captured: captured_summary(
            before.iter().map(|run| &run.all),
            after.iter().map(|run| &run.all),
        ),
        all,
        response,
        connects,
        over_time: facts::over_time(&before, &after, used),
        statements,
        contexts: None,
        errors: changes(&before, &after, options.literals),
        machine_lost: lost_more(&before, &after),
        is_machine_busy: lost_share(&after).is_some_and(|lost| lost >= OTHERS_HIGH),
        rows: compare_rows(&before, &after),
        warnings: warnings(&before, &after),
        conditions: Vec::new(),
        targets: None,
        time: None,
        observed: None,
    };
    comparison.judge();
    comparison
}

/// Runs of both sides with equally wide stretches, and the bootstrap draws that all statements share.
struct Comparer<'a> {
    before: &'a [RunStats],
    after: &'a [RunStats],
    draws: Draws,
    unit: ObservationUnit,
    /// Number of stretches up to the last that is not empty.
    used: usize,
    /// Statements that get details.
    detailed: HashSet<Fingerprint>,
}

impl Comparer<'_> {
    /// Returns the numbers of runs before and after.
    fn runs(&self) -> (usize, usize) {
        (self.before.len(), self.after.len())
    }

    /// Returns the service times of a statement in the runs that have it.
    fn service_times(&self, fingerprint: Fingerprint) -> Sides<'_> {
        let times = |side| -> Vec<_> {
            let stats = run_stats_of(side, fingerprint);
            stats.into_iter().map(|one| &one.service).collect()
        };
        Sides {
            before: times(self.before),
            after: times(self.after),
            draws: &self.draws,
            seed: fingerprint.0,
            unit: self.unit,
        }
    }

    /// Returns a series of each run as a whole.
    fn whole_times(&self, series: fn(&RunStats) -> &Series, seed: u64) -> Sides<'_> {
        Sides {
            before: self.before.iter().map(series).collect(),
            after: self.after.iter().map(series).collect(),
            draws: &self.draws,
            seed,
            unit: self.unit,
        }
    }

    /// Returns the work of a statement, if the statistics of all runs describe it.
    fn work(&self, fingerprint: Fingerprint) -> Option<WorkComparison> {
        let of = |side: &[RunStats]| -> Option<Vec<StatementTotals>> {
            side.iter().map(|run| run.work_of(fingerprint)).collect()
        };
        WorkComparison::of_runs(&of(self.before)?, &of(self.after)?, self.unit)
    }

    fn measure_statement(&self, fingerprint: Fingerprint) -> Measurement {
        let sampled = SampledSides::new(self.service_times(fingerprint));
        let mut measured = sampled.measure(self.runs());
        let sides = [self.before, self.after];
        let stats = || {
            sides
                .into_iter()
                .flat_map(|side| run_stats_of(side, fingerprint))
        };
        measured.blame_stalls(stats().any(|one| one.in_stalls > 0));
        if measured.insufficient_data.is_none() {
            measured.anomalies = sampled.anomalies(self.used);
        }
        if self.detailed.contains(&fingerprint) {
            let slowest_of = |side| {
                let stats = run_stats_of(side, fingerprint);
                slowest(stats.iter().map(|one| &one.slowest))
            };
            measured.details = Some(Details {
                slowest_before: slowest_of(self.before),
                slowest_after: slowest_of(self.after),
                ..sampled.details(self.used)
            });
        }
        measured
    }

    fn statement_comparison(
        &self,
        fingerprint: Fingerprint,
        mut measured: Measurement,
        judged: Judgement,
        margins: [f64; MEASURES],
    ) -> StatementComparison {
        let (before, after) = (self.before, self.after);
        let (one, other) = (
            run_stats_of(before, fingerprint),
            run_stats_of(after, fingerprint),
        );
        let outcomes = |side: &[&StatementStats]| merged_outcomes(side.iter().copied());
        let (outcomes_before, outcomes_after) = (outcomes(&one), outcomes(&other));
        let (anomalies, details) = (
            std::mem::take(&mut measured.anomalies),
            measured.details.take(),
        );
        let times = times_comparison(measured, judged, before.len());
        let text = after
            .iter()
            .chain(before)
            .find_map(|run| run.text(fingerprint));
        let response =
            |side: &[&StatementStats]| facts::merged_summary(side.iter().map(|one| &one.response));
        let session_lag = |side: &[&StatementStats]| {
            facts::merged_summary(side.iter().map(|one| &one.session_lag))
        };
        StatementComparison {
            fingerprint,
            sql: text.map(|text| text.sql.clone()),
            class: text.map(|text| text.class),
            work: self.work(fingerprint),
            role: StatementRole::Application,
            change: StatementChange::None,
            margins,
            service: times,
            response_before: response(&one),
            response_after: response(&other),
            session_lag_before: session_lag(&one),
            session_lag_after: session_lag(&other),
            anomalies,
            details,
            calls_before: outcomes_before.calls(),
            calls_after: outcomes_after.calls(),
            errors_before: outcomes_before.failed(),
            errors_after: outcomes_after.failed(),
            errors_captured: outcomes_before
                .captured_failed()
                .max(outcomes_after.captured_failed()),
            skipped_before: outcomes_before.skipped,
            skipped_after: outcomes_after.skipped,
            captured: captured_summary(one.into_iter(), other.into_iter()),
            plans: None,
        }
    }
}

/// Tells the application's statements from those of its tools.
fn set_roles(statements: &mut [StatementComparison]) {
    let texts: Vec<Option<&str>> = statements.iter().map(|one| one.sql.as_deref()).collect();
    let roles = statement_roles(&texts);
    for (statement, role) in statements.iter_mut().zip(roles) {
        statement.role = role;
    }
}

/// Counts the tests of statements, and the findings among them. All statements together are tested in
/// addition to these.
fn count_tests(measured: &[Measurement], judged: &[Judgement]) -> (usize, usize) {
    let tested = measured
        .iter()
        .filter(|one| one.insufficient_data.is_none());
    let found = judged.iter().filter(|one| one.finding.measure().is_some());
    (tested.count(), found.count())
}

/// Sorts statements by the time that the change adds, in descending order.
fn sort_by_added_time(statements: &mut [StatementComparison]) {
    let key = |one: &StatementComparison| one.service.added_ns.unwrap_or(f64::NEG_INFINITY);
    statements.sort_by(|a, b| {
        key(b)
            .total_cmp(&key(a))
            .then(a.fingerprint.cmp(&b.fingerprint))
    });
}

/// Series that are compared for a run as a whole, each with the seed of its noise: service times,
/// connection times, response times.
const WHOLES: [Whole; 3] = [
    (|run| &run.all.service, 1),
    (|run| &run.connects.service, 2),
    (|run| &run.response, 3),
];

type Whole = (fn(&RunStats) -> &Series, u64);

/// Returns the statistics of a statement in each run of a side; runs without it are left out.
fn run_stats_of(side: &[RunStats], fingerprint: Fingerprint) -> Vec<&StatementStats> {
    side.iter()
        .filter_map(|run| run.statements.get(&fingerprint))
        .collect()
}

/// Returns the statements with the most time.
fn statements_with_details(
    fingerprints: &[Fingerprint],
    before: &[RunStats],
    after: &[RunStats],
) -> HashSet<Fingerprint> {
    if fingerprints.len() <= DETAILED_MAX {
        return fingerprints.iter().copied().collect();
    }
    let time = |fingerprint: Fingerprint| -> f64 {
        let runs = before.iter().chain(after);
        let all = runs.filter_map(|run| run.statements.get(&fingerprint));
        all.map(|stats| stats.service.total_ns()).sum()
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

/// Combines measurement and judgement. `runs` is the number of runs before.
fn times_comparison(measured: Measurement, judged: Judgement, runs: usize) -> TimesComparison {
    let added_ns = measured.before.zip(measured.after).map(|(before, after)| {
        let calls = before.count as f64 / runs as f64;
        (after.mean_ns - before.mean_ns) * calls
    });
    let ratios = measured.estimates.ratios;
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

/// Merges the counts of several runs.
fn merged_outcomes<'a>(runs: impl Iterator<Item = &'a StatementStats>) -> OutcomeCounts {
    let mut sum = OutcomeCounts::default();
    for run in runs {
        sum.merge(&run.outcomes);
    }
    sum
}

/// Returns the captured durations from the run with the most of them; a partial run has fewer.
fn captured_summary<'a>(
    before: impl Iterator<Item = &'a StatementStats>,
    after: impl Iterator<Item = &'a StatementStats>,
) -> Option<LatencySummary> {
    let fullest = before.chain(after).max_by_key(|run| run.captured.count());
    fullest.and_then(|run| run.captured.latency_summary())
}
