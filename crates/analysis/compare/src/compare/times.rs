//! Computes ratios from the times of both sides, and findings from the ratios.

use crate::anomaly::{Anomaly, anomalies};
use crate::details::Details;
use crate::judgement::{CALLS_MIN, CALLS_P99_MIN, Finding, InsufficientData, STRETCHES_MIN, judge};
use crate::run_stats::RunStats;
use statistics::LatencySummary;
use statistics::block_length::block_bits;
use statistics::bootstrap::{Draws, MEASURES, RatioEstimates, RatioOptions, Resampler, ratios};
use statistics::false_discovery_rate::rejection_level;
use statistics::permutation_test::PermutationTest;
use statistics::quantile;
use statistics::quantile::{P50, P95, P99};
use statistics::series::{Series, value_of};
use statistics::timeline::Timeline;
use statistics::variance_components::{RunLogarithms, VarianceComponents};
use statistics::{INTERVAL_LEVEL_PERCENT, Interval, Ratio};

use super::CompareOptions;
use super::noise::NoiseModel;
use super::parallel::map_in_parallel;
use super::{Noise, NoiseSource};
use crate::observation_unit::ObservationUnit;

/// Maximum number of refinements of small p-values.
const REFINEMENTS_MAX: usize = 6;

/// Whether all runs did the same things at the same times.
pub(super) fn same_stretches<'a>(mut runs: impl Iterator<Item = &'a RunStats>) -> bool {
    let Some(first) = runs.next() else {
        return false;
    };
    let same = |run: &RunStats| {
        run.info.workload.id == first.info.workload.id && run.speed() == first.speed()
    };
    first.speed() != "max" && runs.all(same)
}

/// Widens the stretches of all runs to the widest.
pub(super) fn widen<'a>(runs: impl Iterator<Item = &'a mut RunStats>) {
    let mut runs: Vec<&mut RunStats> = runs.collect();
    let widest = runs
        .iter()
        .fold(Timeline::new(), |widest, run| widest.wider(run.timeline));
    for run in &mut runs {
        run.widen_to(widest);
    }
}

/// Times of both sides, one series for each run.
pub(super) struct Sides<'a> {
    pub(super) before: Vec<&'a Series>,
    pub(super) after: Vec<&'a Series>,
    pub(super) draws: &'a Draws,
    pub(super) seed: u64,
    pub(super) unit: ObservationUnit,
}

/// Sides prepared for resampling.
pub(super) struct SampledSides<'a> {
    sides: Sides<'a>,
    before: Vec<Resampler>,
    after: Vec<Resampler>,
}

/// Measurement of one statement, before it is judged.
#[derive(Default)]
pub(super) struct Measurement {
    pub(super) before: Option<LatencySummary>,
    pub(super) after: Option<LatencySummary>,
    pub(super) insufficient_data: Option<InsufficientData>,
    pub(super) estimates: RatioEstimates,
    pub(super) block_bits: u32,
    pub(super) seed: u64,
    /// Whether the pair of runs is the unit.
    pub(super) is_paired: bool,
    pub(super) anomalies: Vec<Anomaly>,
    pub(super) details: Option<Details>,
}

impl<'a> SampledSides<'a> {
    pub(super) fn new(sides: Sides<'a>) -> Self {
        let ready = |runs: &[&Series]| runs.iter().map(|run| Resampler::new(run)).collect();
        Self {
            before: ready(&sides.before),
            after: ready(&sides.after),
            sides,
        }
    }

    /// Computes the ratios with intervals from a bootstrap within runs. `runs` is the number of
    /// runs of each side, including those without the statement.
    pub(super) fn measure(&self, runs: (usize, usize)) -> Measurement {
        let Sides { draws, seed, .. } = self.sides;
        let paired = draws.paired();
        let least = |series: &[&Series], runs: usize| {
            let known = series.iter().map(|one| one.count()).min().unwrap_or(0);
            if series.len() < runs { 0 } else { known }
        };
        let calls = least(&self.sides.before, runs.0).min(least(&self.sides.after, runs.1));
        let stretches = self
            .before
            .iter()
            .chain(&self.after)
            .map(Resampler::stretches);
        let none = |side: &[&Series]| side.iter().all(|one| one.count() == 0);
        let lack = if none(&self.sides.before) || none(&self.sides.after) {
            Some(InsufficientData::OneSided)
        } else if calls < CALLS_MIN {
            Some(InsufficientData::FewCalls)
        } else if stretches.min().unwrap_or(0) < STRETCHES_MIN {
            Some(InsufficientData::FewStretches)
        } else {
            None
        };
        let block_bits = match lack {
            None => block_bits(&self.before, &self.after, paired),
            Some(_) => 0,
        };
        let request = RatioOptions {
            intervals: lack.is_none(),
            tail: calls >= CALLS_P99_MIN,
            block_bits,
        };
        Measurement {
            before: latency_summary(&self.sides.before, &self.before),
            after: latency_summary(&self.sides.after, &self.after),
            insufficient_data: lack,
            estimates: ratios(&self.before, &self.after, draws, request),
            block_bits,
            seed,
            is_paired: self.sides.unit == ObservationUnit::Pair,
            ..Measurement::default()
        }
    }

    /// Returns the anomalies; only called with sufficient data.
    pub(super) fn anomalies(&self, used: usize) -> Vec<Anomaly> {
        anomalies(&self.before, &self.after, self.sides.draws.paired(), used)
    }

    pub(super) fn details(&self, used: usize) -> Details {
        Details::new(&self.before, &self.after, used)
    }

    /// Creates a permutation test in one direction.
    fn permutation_test(&self, bits: u32, margin: f64, longer: bool) -> PermutationTest {
        let how = (self.sides.draws.paired(), bits);
        PermutationTest::new(
            &self.before,
            &self.after,
            how,
            (margin, longer),
            self.sides.seed,
        )
    }
}

/// Returns the latency summary of all runs of a side together. Each call has the same weight.
fn latency_summary(series: &[&Series], ready: &[Resampler]) -> Option<LatencySummary> {
    if let ([series], [ready]) = (series, ready) {
        return series.latency_summary(ready.sorted());
    }
    let mut sum: Option<LatencySummary> = None;
    let mut samples: Vec<(f64, f64)> = Vec::new();
    for (series, ready) in series.iter().zip(ready) {
        let Some(one) = series.latency_summary(ready.sorted()) else {
            continue;
        };
        let stands_for = one.count as f64 / ready.sorted().len() as f64;
        samples.extend(
            ready
                .sorted()
                .iter()
                .map(|sample| (value_of(*sample), stands_for)),
        );
        sum = Some(match sum {
            None => one,
            Some(sum) => LatencySummary {
                count: sum.count + one.count,
                total_ns: sum.total_ns + one.total_ns,
                max_ns: sum.max_ns.max(one.max_ns),
                ..sum
            },
        });
    }
    let sum = sum?;
    samples.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let at = |per_mille| {
        let rank = quantile::rank(per_mille, sum.count) as f64;
        let mut seen = 0.0;
        let found = samples.iter().find(|(_, stands_for)| {
            seen += stands_for;
            // Tolerance for rounding errors of the sum.
            seen >= rank - 1e-6
        });
        found
            .or(samples.last())
            .map_or(0, |(value, _)| value.round() as u64)
    };
    Some(LatencySummary {
        mean_ns: sum.total_ns / sum.count as f64,
        p50_ns: at(P50),
        p95_ns: at(P95),
        p99_ns: at(P99),
        ..sum
    })
}

impl Measurement {
    /// If there is too little data, and stalls of the tool took some, they are the reason.
    pub(super) fn blame_stalls(&mut self, some_in_stalls: bool) {
        if some_in_stalls && self.insufficient_data.is_some() {
            self.insufficient_data = Some(InsufficientData::ToolStalled);
        }
    }

    /// Returns the logarithms of a measure by run, if all of them are known.
    fn run_logarithms(&self, measure: usize) -> Option<RunLogarithms> {
        let logs = |side: &[[Option<f64>; MEASURES]]| -> Option<Vec<f64>> {
            side.iter().map(|logs| logs[measure]).collect()
        };
        let [before, after] = &self.estimates.logs;
        Some(RunLogarithms {
            before: logs(before)?,
            after: logs(after)?,
            variance_within: self.estimates.variance_within[measure]?,
            is_paired: self.is_paired,
        })
    }

    fn intervals(&self) -> [Option<Interval>; MEASURES] {
        let ratios = self.estimates.ratios.as_array();
        ratios.map(|ratio: Option<Ratio>| ratio?.interval)
    }
}

/// Judgement of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judgement {
    pub(super) finding: Finding,
    pub(super) p_value: Option<f64>,
}

/// Statements that are tested together, with the noise estimated from all of them.
pub(super) struct TestFamily<'a> {
    components: [Option<VarianceComponents>; MEASURES],
    noise_model: Option<&'a NoiseModel>,
}

/// Statement with a measure whose interval is clear of the margin.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: usize,
    /// Whether each measure is slower (true) or faster; `None` if it is not clear.
    clear: [Option<bool>; MEASURES],
    /// Two-sided p-values, multiplied by the number of measures.
    p_values: [f64; MEASURES],
    /// Whether more permutations could make the smallest p-value smaller.
    is_refinable: bool,
}

impl Candidate {
    fn p_value(&self) -> f64 {
        let clear = self.clear.iter().zip(self.p_values);
        let known = clear.filter(|(clear, _)| clear.is_some()).map(|(_, p)| p);
        known.fold(1.0, f64::min)
    }
}

impl<'a> TestFamily<'a> {
    /// Estimates the variance between runs, and gives the statements the intervals that follow from
    /// it.
    pub(super) fn estimate(
        measured: &mut [Measurement],
        noise_model: Option<&'a NoiseModel>,
    ) -> Self {
        let components = std::array::from_fn(|measure| {
            let known = measured
                .iter()
                .filter(|one| one.insufficient_data.is_none());
            let statements: Vec<RunLogarithms> = known
                .filter_map(|one| one.run_logarithms(measure))
                .collect();
            VarianceComponents::estimate(&statements)
        });
        let family = Self {
            components,
            noise_model,
        };
        family.widen_intervals(measured);
        family
    }

    /// Replaces the intervals by those that include the variance between runs, if there are several
    /// runs.
    pub(super) fn widen_intervals(&self, measured: &mut [Measurement]) {
        for one in measured {
            for measure in 0..MEASURES {
                let (Some(components), Some(statement)) =
                    (&self.components[measure], one.run_logarithms(measure))
                else {
                    continue;
                };
                let ratios = one.estimates.ratios.as_array_mut();
                if let Some(ratio) = ratios.into_iter().nth(measure)
                    && let Some(ratio) = ratio
                    && ratio.interval.is_some()
                {
                    let level = f64::from(INTERVAL_LEVEL_PERCENT) / 100.0;
                    ratio.interval = Some(components.interval(&statement, level));
                }
            }
        }
    }

    /// Returns the noise between runs of one side, if there are several.
    pub(super) fn noise(&self) -> Option<Noise> {
        let shift = |measure: usize| {
            self.components[measure]
                .as_ref()
                .map(VarianceComponents::shift)
        };
        Some(Noise {
            source: NoiseSource::Repeats,
            runs: Vec::new(),
            median: shift(0)?,
            mean: shift(1)?,
            p99: shift(2),
        })
    }

    /// Returns the margin of each measure of a statement.
    pub(super) fn margins(&self, seed: u64, margin: f64) -> [f64; MEASURES] {
        self.noise_model
            .map_or([margin; MEASURES], |model| model.margins(seed, margin))
    }

    /// Judges all statements together.
    pub(super) fn judge<'b>(
        &self,
        measured: &[Measurement],
        options: CompareOptions,
        sides_of: impl Fn(usize) -> Sides<'b> + Sync,
    ) -> Vec<Judgement> {
        self.judge_with_prior_tests(measured, options, (0, 0), sides_of)
    }

    /// Judges statements together with tests and findings that were counted elsewhere.
    pub(super) fn judge_with_prior_tests<'b>(
        &self,
        measured: &[Measurement],
        options: CompareOptions,
        (tests, findings): (usize, usize),
        sides_of: impl Fn(usize) -> Sides<'b> + Sync,
    ) -> Vec<Judgement> {
        let tests = tests
            + measured
                .iter()
                .filter(|one| one.insufficient_data.is_none())
                .count();
        let rate = options.false_discovery_rate;
        let rejection_level = |p_values: &[f64]| rejection_level(p_values, (tests, findings), rate);
        let clear = self.clear_measures(measured, options.margin);
        let test = |(at, clear): &(usize, [Option<bool>; MEASURES]), wanted: Option<f64>| {
            let sampled = SampledSides::new(sides_of(*at));
            self.test(&measured[*at], *at, *clear, (&sampled, options, wanted))
        };
        let mut candidates = map_in_parallel(&clear, options.threads, |one| test(one, None));
        for _ in 0..REFINEMENTS_MAX {
            // Assume that refining makes each p-value as small as possible.
            let hopeful: Vec<f64> = candidates
                .iter()
                .map(|one| if one.is_refinable { 0.0 } else { one.p_value() })
                .collect();
            let Some(wanted) = rejection_level(&hopeful) else {
                break;
            };
            let open: Vec<usize> = (0..candidates.len())
                .filter(|at| candidates[*at].is_refinable && candidates[*at].p_value() > wanted)
                .collect();
            if open.is_empty() {
                break;
            }
            let refined =
                map_in_parallel(&open, options.threads, |at| test(&clear[*at], Some(wanted)));
            for (at, candidate) in open.into_iter().zip(refined) {
                candidates[at] = candidate;
            }
        }
        let p_values: Vec<f64> = candidates.iter().map(Candidate::p_value).collect();
        self.judgements(measured, &candidates, rejection_level(&p_values), options)
    }

    /// Returns the statements with a measure that is clear of the margin, with the directions.
    fn clear_measures(
        &self,
        measured: &[Measurement],
        margin: f64,
    ) -> Vec<(usize, [Option<bool>; MEASURES])> {
        measured
            .iter()
            .enumerate()
            .filter(|(_, one)| one.insufficient_data.is_none())
            .filter_map(|(at, one)| {
                let margins = self.margins(one.seed, margin);
                let clear = directions(one.intervals(), margins);
                clear.iter().any(Option::is_some).then_some((at, clear))
            })
            .collect()
    }

    /// Judges all statements; p-values up to `level` rule out chance.
    fn judgements(
        &self,
        measured: &[Measurement],
        candidates: &[Candidate],
        level: Option<f64>,
        options: CompareOptions,
    ) -> Vec<Judgement> {
        let finding = |one: &Measurement, sure| {
            let margins = self.margins(one.seed, options.margin);
            judge(&one.estimates.ratios, options.margin, margins, sure)
        };
        let mut judged: Vec<Judgement> = measured
            .iter()
            .map(|one| Judgement {
                finding: match one.insufficient_data {
                    Some(reason) => Finding::InsufficientData { reason },
                    None => finding(one, [false; MEASURES]),
                },
                p_value: None,
            })
            .collect();
        for candidate in candidates {
            let sure = candidate
                .p_values
                .map(|p| level.is_some_and(|level| p <= level));
            judged[candidate.at] = Judgement {
                finding: finding(&measured[candidate.at], sure),
                p_value: Some(candidate.p_value()),
            };
        }
        judged
    }

    /// Tests the measures of one statement that are clear of the margin.
    fn test(
        &self,
        measured: &Measurement,
        at: usize,
        clear: [Option<bool>; MEASURES],
        (sampled, options, wanted): (&SampledSides<'_>, CompareOptions, Option<f64>),
    ) -> Candidate {
        let looked_at = measured.intervals().iter().flatten().count() as f64;
        let margins = self.margins(measured.seed, options.margin);
        let mut p_values = [1.0; MEASURES];
        let mut could_be_smaller = [false; MEASURES];
        for longer in [true, false] {
            // Measures with the same margin share one test.
            let mut margin_done: Vec<f64> = Vec::new();
            for measure in 0..MEASURES {
                if clear[measure] != Some(longer) || margin_done.contains(&margins[measure]) {
                    continue;
                }
                let margin = margins[measure];
                margin_done.push(margin);
                let mut exchange = sampled.permutation_test(measured.block_bits, margin, longer);
                if let Some(wanted) = wanted {
                    exchange.refine_p_values(wanted / looked_at);
                }
                let found = exchange.p_values();
                for other in 0..MEASURES {
                    if clear[other] == Some(longer) && margins[other] == margin {
                        p_values[other] = found[other];
                        could_be_smaller[other] = exchange.is_refinable(other);
                    }
                }
            }
        }
        for measure in 0..MEASURES {
            if let (Some(components), Some(statement)) =
                (&self.components[measure], measured.run_logarithms(measure))
                && clear[measure].is_some()
            {
                let between = components.p_value(&statement, margins[measure]);
                // The test based on variance between runs decides if its p-value is greater; then
                // permutations have no influence.
                could_be_smaller[measure] &= p_values[measure] > between;
                p_values[measure] = p_values[measure].max(between);
            }
            p_values[measure] = (p_values[measure] * looked_at).min(1.0);
        }
        Candidate {
            at,
            clear,
            p_values,
            is_refinable: could_be_smaller.contains(&true),
        }
    }
}

/// Returns the direction in which each interval is clear of the margin: true is slower.
fn directions(
    intervals: [Option<Interval>; MEASURES],
    margins: [f64; MEASURES],
) -> [Option<bool>; MEASURES] {
    std::array::from_fn(|at| {
        let Interval { low, high } = intervals[at]?;
        if low > 1.0 + margins[at] {
            Some(true)
        } else if high < 1.0 / (1.0 + margins[at]) {
            Some(false)
        } else {
            None
        }
    })
}
