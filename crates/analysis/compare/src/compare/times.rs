//! From the times of both sides to ratios, and from ratios to findings.

use crate::anomaly::{Anomaly, anomalies};
use crate::details::Details;
use crate::judgement::{CALLS_MIN, CALLS_P99_MIN, Finding, InsufficientData, STRETCHES_MIN, judge};
use crate::profile::RunProfile;
use statistics::LatencySummary;
use statistics::between_runs::{Components, Statement};
use statistics::blocks::block_bits;
use statistics::bootstrap::{Draws, MEASURES, Request, Resampled, Resampler, ratios};
use statistics::discovery;
use statistics::exchange::Exchange;
use statistics::quantile;
use statistics::quantile::{P50, P95, P99};
use statistics::series::{Series, value_of};
use statistics::timeline::Timeline;
use statistics::{INTERVAL_LEVEL_PERCENT, Interval, Ratio};

use super::CompareOptions;
use super::many::in_parallel;
use super::noise::Aa;
use super::{Noise, NoiseSource};

/// How often it is looked closer where a small p-value decides among many statements.
const CLOSER_LOOKS: usize = 6;

/// Whether all runs did the same things at the same times.
pub(super) fn same_stretches<'a>(mut runs: impl Iterator<Item = &'a RunProfile>) -> bool {
    let Some(first) = runs.next() else {
        return false;
    };
    let same = |run: &RunProfile| {
        run.info.workload.id == first.info.workload.id && run.speed() == first.speed()
    };
    first.speed() != "max" && runs.all(same)
}

/// Makes the stretches of all runs as wide as the widest.
pub(super) fn widen<'a>(runs: impl Iterator<Item = &'a mut RunProfile>) {
    let mut runs: Vec<&mut RunProfile> = runs.collect();
    let widest = runs
        .iter()
        .fold(Timeline::new(), |widest, run| widest.wider(run.timeline));
    for run in &mut runs {
        run.widen_to(widest);
    }
}

/// The times of both sides, a series a run.
pub(super) struct Both<'a> {
    pub(super) before: Vec<&'a Series>,
    pub(super) after: Vec<&'a Series>,
    pub(super) draws: &'a Draws,
    pub(super) seed: u64,
}

/// Made ready for resampling.
pub(super) struct Sampled<'a> {
    both: Both<'a>,
    before: Vec<Resampler>,
    after: Vec<Resampler>,
}

/// What was measured of one statement, before it is judged.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) before: Option<LatencySummary>,
    pub(super) after: Option<LatencySummary>,
    pub(super) lack: Option<InsufficientData>,
    pub(super) resampled: Resampled,
    pub(super) block_bits: u32,
    pub(super) seed: u64,
    pub(super) anomalies: Vec<Anomaly>,
    pub(super) details: Option<Details>,
}

impl<'a> Sampled<'a> {
    pub(super) fn new(both: Both<'a>) -> Self {
        let ready = |runs: &[&Series]| runs.iter().map(|run| Resampler::new(run)).collect();
        Self {
            before: ready(&both.before),
            after: ready(&both.after),
            both,
        }
    }

    /// Ratios with the intervals that a bootstrap within runs gives. `runs` are how many runs each
    /// side has, whether the statement is in them or not.
    pub(super) fn measure(&self, runs: (usize, usize)) -> Measured {
        let Both { draws, seed, .. } = self.both;
        let paired = draws.paired();
        let least = |series: &[&Series], runs: usize| {
            let known = series.iter().map(|one| one.count()).min().unwrap_or(0);
            if series.len() < runs { 0 } else { known }
        };
        let calls = least(&self.both.before, runs.0).min(least(&self.both.after, runs.1));
        let stretches = self
            .before
            .iter()
            .chain(&self.after)
            .map(Resampler::stretches);
        let none = |side: &[&Series]| side.iter().all(|one| one.count() == 0);
        let lack = if none(&self.both.before) || none(&self.both.after) {
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
        let request = Request {
            intervals: lack.is_none(),
            tail: calls >= CALLS_P99_MIN,
            block_bits,
        };
        Measured {
            before: latency_summary(&self.both.before, &self.before),
            after: latency_summary(&self.both.after, &self.after),
            lack,
            resampled: ratios(&self.before, &self.after, draws, request),
            block_bits,
            seed,
            ..Measured::default()
        }
    }

    /// What is odd, of what has enough to say anything.
    pub(super) fn anomalies(&self, used: usize) -> Vec<Anomaly> {
        anomalies(&self.before, &self.after, self.both.draws.paired(), used)
    }

    pub(super) fn details(&self, used: usize) -> Details {
        Details::new(&self.before, &self.after, used)
    }

    /// The chance of the difference without a cause, by measure, in one direction.
    fn exchange(&self, bits: u32, margin: f64, longer: bool) -> Exchange {
        let how = (self.both.draws.paired(), bits);
        Exchange::new(
            &self.before,
            &self.after,
            how,
            (margin, longer),
            self.both.seed,
        )
    }
}

/// The latency summary of all runs of a side together: a call counts as much, whichever run it is of.
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
            // A hair less, for sums of fractions.
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

impl Measured {
    /// What is known of a measure where there are several runs.
    fn of_runs(&self, measure: usize) -> Option<Statement> {
        let logs = |side: &[[Option<f64>; MEASURES]]| -> Option<Vec<f64>> {
            side.iter().map(|logs| logs[measure]).collect()
        };
        let [before, after] = &self.resampled.logs;
        Some(Statement {
            before: logs(before)?,
            after: logs(after)?,
            variance_within: self.resampled.variance_within[measure]?,
        })
    }

    fn intervals(&self) -> [Option<Interval>; MEASURES] {
        let ratios = self.resampled.ratios.as_array();
        ratios.map(|ratio: Option<Ratio>| ratio?.interval)
    }
}

/// What is said of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    pub(super) finding: Finding,
    pub(super) p_value: Option<f64>,
}

/// All statements that are judged together, and what they know of runs.
pub(super) struct Family<'a> {
    components: [Option<Components>; MEASURES],
    aa: Option<&'a Aa>,
}

/// Measures whose interval is clear of the margin, with the direction and the p-value.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: usize,
    /// Slower is true; `None` where it is not clear.
    clear: [Option<bool>; MEASURES],
    /// Two-sided, times the measures that were looked at.
    p_values: [f64; MEASURES],
    /// More exchanges could make the smallest of them smaller.
    open: bool,
}

impl Candidate {
    fn p_value(&self) -> f64 {
        let clear = self.clear.iter().zip(self.p_values);
        let known = clear.filter(|(clear, _)| clear.is_some()).map(|(_, p)| p);
        known.fold(1.0, f64::min)
    }
}

impl<'a> Family<'a> {
    /// Learns how much runs differ, and gives the statements the intervals that follow from it.
    pub(super) fn of(measured: &mut [Measured], aa: Option<&'a Aa>) -> Self {
        let components = std::array::from_fn(|measure| {
            let known = measured.iter().filter(|one| one.lack.is_none());
            let statements: Vec<Statement> = known.filter_map(|one| one.of_runs(measure)).collect();
            Components::estimate(&statements)
        });
        let family = Self { components, aa };
        family.widen_intervals(measured);
        family
    }

    /// Gives the intervals that know how much runs differ, where there are several.
    pub(super) fn widen_intervals(&self, measured: &mut [Measured]) {
        for one in measured {
            for measure in 0..MEASURES {
                let (Some(components), Some(statement)) =
                    (&self.components[measure], one.of_runs(measure))
                else {
                    continue;
                };
                let ratios = one.resampled.ratios.as_array_mut();
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

    /// What runs of one side differ by, where there are several.
    pub(super) fn noise(&self) -> Option<Noise> {
        let shift = |measure: usize| self.components[measure].as_ref().map(Components::shift);
        Some(Noise {
            source: NoiseSource::Repeats,
            runs: Vec::new(),
            median: shift(0)?,
            mean: shift(1)?,
            p99: shift(2),
        })
    }

    fn margins(&self, seed: u64, margin: f64) -> [f64; MEASURES] {
        self.aa
            .map_or([margin; MEASURES], |aa| aa.margins(seed, margin))
    }

    /// Judges all together.
    pub(super) fn judge<'b>(
        &self,
        measured: &[Measured],
        options: CompareOptions,
        both: impl Fn(usize) -> Both<'b> + Sync,
    ) -> Vec<Judged> {
        self.judge_beside(measured, options, (0, 0), both)
    }

    /// Judges these beside others, which are so many tests and findings already.
    pub(super) fn judge_beside<'b>(
        &self,
        measured: &[Measured],
        options: CompareOptions,
        (tests, findings): (usize, usize),
        both: impl Fn(usize) -> Both<'b> + Sync,
    ) -> Vec<Judged> {
        let tests = tests + measured.iter().filter(|one| one.lack.is_none()).count();
        let clear: Vec<(usize, [Option<bool>; MEASURES])> = measured
            .iter()
            .enumerate()
            .filter(|(_, one)| one.lack.is_none())
            .filter_map(|(at, one)| {
                let margins = self.margins(one.seed, options.margin);
                let clear = directions(one.intervals(), margins);
                clear.iter().any(Option::is_some).then_some((at, clear))
            })
            .collect();
        let test = |(at, clear): &(usize, [Option<bool>; MEASURES]), wanted: Option<f64>| {
            let sampled = Sampled::new(both(*at));
            self.test(&measured[*at], *at, *clear, (&sampled, options, wanted))
        };
        let mut candidates = in_parallel(&clear, options.threads, |one| test(one, None));
        let rate = options.false_discovery_rate;
        for _ in 0..CLOSER_LOOKS {
            // As if a closer look at each would make its p-value as small as can be.
            let hopeful: Vec<f64> = candidates
                .iter()
                .map(|one| if one.open { 0.0 } else { one.p_value() })
                .collect();
            let Some(wanted) = discovery::level(&hopeful, (tests, findings), rate) else {
                break;
            };
            let closer: Vec<usize> = (0..candidates.len())
                .filter(|at| candidates[*at].open && candidates[*at].p_value() > wanted)
                .collect();
            if closer.is_empty() {
                break;
            }
            let looked = in_parallel(&closer, options.threads, |at| {
                test(&clear[*at], Some(wanted))
            });
            for (at, candidate) in closer.into_iter().zip(looked) {
                candidates[at] = candidate;
            }
        }
        let p_values: Vec<f64> = candidates.iter().map(Candidate::p_value).collect();
        let level = discovery::level(&p_values, (tests, findings), rate);
        let mut found: Vec<Judged> = measured
            .iter()
            .map(|one| Judged {
                finding: match one.lack {
                    Some(lack) => Finding::InsufficientData { reason: lack },
                    None => {
                        let margins = self.margins(one.seed, options.margin);
                        judge(
                            &one.resampled.ratios,
                            options.margin,
                            margins,
                            [false; MEASURES],
                        )
                    }
                },
                p_value: None,
            })
            .collect();
        for candidate in candidates {
            let one = &measured[candidate.at];
            let margins = self.margins(one.seed, options.margin);
            let sure = candidate
                .p_values
                .map(|p| level.is_some_and(|level| p <= level));
            found[candidate.at] = Judged {
                finding: judge(&one.resampled.ratios, options.margin, margins, sure),
                p_value: Some(candidate.p_value()),
            };
        }
        found
    }

    /// Tests the measures of one statement that are clear of the margin.
    fn test(
        &self,
        measured: &Measured,
        at: usize,
        clear: [Option<bool>; MEASURES],
        (sampled, options, wanted): (&Sampled<'_>, CompareOptions, Option<f64>),
    ) -> Candidate {
        let looked_at = measured.intervals().iter().flatten().count() as f64;
        let margins = self.margins(measured.seed, options.margin);
        let mut p_values = [1.0; MEASURES];
        let mut could_be_smaller = [false; MEASURES];
        for longer in [true, false] {
            // Measures with one margin are tested in one go.
            let mut margin_done: Vec<f64> = Vec::new();
            for measure in 0..MEASURES {
                if clear[measure] != Some(longer) || margin_done.contains(&margins[measure]) {
                    continue;
                }
                let margin = margins[measure];
                margin_done.push(margin);
                let mut exchange = sampled.exchange(measured.block_bits, margin, longer);
                if let Some(wanted) = wanted {
                    exchange.look_closer(wanted / looked_at);
                }
                let found = exchange.p_values();
                for other in 0..MEASURES {
                    if clear[other] == Some(longer) && margins[other] == margin {
                        p_values[other] = found[other];
                        could_be_smaller[other] = exchange.could_be_smaller(other);
                    }
                }
            }
        }
        for measure in 0..MEASURES {
            if let (Some(components), Some(statement)) =
                (&self.components[measure], measured.of_runs(measure))
                && clear[measure].is_some()
            {
                let between = components.p_value(&statement, margins[measure]);
                // What runs differ by decides where it is the greater: then exchanges have no part in it.
                could_be_smaller[measure] &= p_values[measure] > between;
                p_values[measure] = p_values[measure].max(between);
            }
            p_values[measure] = (p_values[measure] * looked_at).min(1.0);
        }
        Candidate {
            at,
            clear,
            p_values,
            open: could_be_smaller.contains(&true),
        }
    }
}

/// Where each interval lies clear of the margin: slower is true.
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
