//! Combines ratios with intervals into a finding.

use schemars::JsonSchema;
use serde::Serialize;
pub use statistics::Measure;

use statistics::bootstrap::{MEASURES, Ratios};
use statistics::{Interval, Ratio};

/// Default margin: about the difference between two runs of the same server on the same machine.
pub const MARGIN_DEFAULT: f64 = 0.10;

/// Minimum number of calls in each run for any conclusion: with fewer, a median has no useful
/// interval.
pub const CALLS_MIN: u64 = 20;

/// Minimum number of calls in each run for a conclusion on the 99th percentile: ten lie beyond it.
pub const CALLS_P99_MIN: u64 = 1_000;

/// Minimum number of non-empty stretches of each run for any conclusion. With fewer, one
/// disturbance could be the whole difference, and the bootstrap would underestimate the variance.
pub const STRETCHES_MIN: usize = 8;

/// Reason why the data suffices for no conclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InsufficientData {
    /// The statement was executed on one side only.
    OneSided,
    /// One of the runs has fewer than [`CALLS_MIN`] calls.
    FewCalls,
    /// The calls lie in fewer than [`STRETCHES_MIN`] stretches of the run.
    FewStretches,
    /// Too few calls are outside the stalls of the tool ([`run::ToolStall`]).
    ToolStalled,
    /// The interval is neither within the margin nor clear of it.
    Unclear,
    /// The interval is clear of the margin, but chance may explain it, because of the number of
    /// statements tested or the small number of blocks ([`statistics::FALSE_DISCOVERY_RATE`]).
    MayBeChance,
}

/// Judgement of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding {
    /// The whole interval lies above 1 + margin, and chance was ruled out.
    Slower {
        /// Measure that the finding rests on.
        measure: Measure,
    },
    /// The whole interval lies below 1 / (1 + margin), and chance was ruled out.
    Faster {
        /// Measure that the finding rests on.
        measure: Measure,
    },
    /// The median's whole interval lies within the margin, and no other interval is clear of it.
    Same,
    /// None of these could be shown.
    InsufficientData {
        /// Reason.
        #[serde(rename = "insufficient_data_reason")]
        reason: InsufficientData,
    },
}

impl Finding {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Finding::Slower { .. } => "slower",
            Finding::Faster { .. } => "faster",
            Finding::Same => "same",
            Finding::InsufficientData {
                reason: InsufficientData::Unclear | InsufficientData::MayBeChance,
            } => "too noisy",
            Finding::InsufficientData { .. } => "not enough data",
        }
    }

    /// Returns the measure that a difference rests on.
    pub fn measure(self) -> Option<Measure> {
        match self {
            Finding::Slower { measure } | Finding::Faster { measure } => Some(measure),
            Finding::Same | Finding::InsufficientData { .. } => None,
        }
    }
}

/// Thresholds that a difference must exceed, and that sameness must keep, as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Margins {
    /// Threshold for slower or faster: the margin, or the noise if that is greater.
    pub(crate) beyond: f64,
    /// Threshold for the same: the margin. Noise never makes two sides the same.
    pub(crate) within: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Slower,
    Faster,
    Within,
    /// The interval is clear of the margin, but chance was not ruled out.
    Unsure,
}

fn direction(ratio: Option<Ratio>, margins: Margins, sure: bool) -> Option<Direction> {
    let margin = margins.beyond;
    let Interval { low, high } = ratio?.interval?;
    let above = 1.0 + margin;
    // The inverse instead of 1 − margin, so that before and after can be swapped.
    let below = 1.0 / above;
    if (low > above || high < below) && !sure {
        Some(Direction::Unsure)
    } else if low > above {
        Some(Direction::Slower)
    } else if high < below {
        Some(Direction::Faster)
    } else if low >= 1.0 / (1.0 + margins.within) && high <= 1.0 + margins.within {
        Some(Direction::Within)
    } else {
        None
    }
}

/// Combines three ratios into one finding. The mean decides if it is clear, because it is the
/// statement's cost. If only the others are clear and disagree, the slower one decides. `margins`
/// and `sure` are given by measure: median, mean, 99th percentile.
pub(crate) fn judge(
    ratios: &Ratios,
    within: f64,
    margins: [f64; MEASURES],
    sure: [bool; MEASURES],
) -> Finding {
    let of = |at: usize, measure, ratio| {
        let beyond = margins[at];
        (
            measure,
            direction(ratio, Margins { beyond, within }, sure[at]),
        )
    };
    let seen = [
        of(0, Measure::Median, ratios.median),
        of(1, Measure::Mean, ratios.mean),
        of(2, Measure::P99, ratios.p99),
    ];
    let first = |wanted| {
        seen.iter()
            .find(|(_, direction)| *direction == Some(wanted))
            .map(|(measure, _)| *measure)
    };
    let slower = first(Direction::Slower);
    let faster = first(Direction::Faster);
    let mean_is_faster = seen[1].1 == Some(Direction::Faster);
    match (slower, faster) {
        (_, Some(measure)) if mean_is_faster => Finding::Faster { measure },
        (Some(measure), _) => Finding::Slower { measure },
        (None, Some(measure)) => Finding::Faster { measure },
        (None, None) if first(Direction::Unsure).is_some() => Finding::InsufficientData {
            reason: InsufficientData::MayBeChance,
        },
        (None, None) if seen[0].1 == Some(Direction::Within) => Finding::Same,
        (None, None) => Finding::InsufficientData {
            reason: InsufficientData::Unclear,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, high: f64) -> Option<Ratio> {
        Some(Ratio {
            value: (low * high).sqrt(),
            interval: Some(Interval { low, high }),
        })
    }

    fn judged(median: Option<Ratio>, mean: Option<Ratio>, p99: Option<Ratio>) -> Finding {
        judge(
            &Ratios { median, mean, p99 },
            MARGIN_DEFAULT,
            [MARGIN_DEFAULT; MEASURES],
            [true; MEASURES],
        )
    }

    #[test]
    fn difference_must_be_clear_of_the_margin() {
        let same = ratio(0.98, 1.03);
        assert_eq!(judged(same, same, None), Finding::Same);
        assert_eq!(
            judged(ratio(1.2, 1.4), ratio(1.2, 1.5), None),
            Finding::Slower {
                measure: Measure::Median
            }
        );
        assert_eq!(
            judged(ratio(1.02, 1.3), ratio(0.9, 1.4), None),
            Finding::InsufficientData {
                reason: InsufficientData::Unclear
            }
        );
        assert_eq!(
            judged(ratio(0.5, 0.6), ratio(0.5, 0.7), same),
            Finding::Faster {
                measure: Measure::Median
            }
        );
        assert_eq!(
            judged(None, None, None),
            Finding::InsufficientData {
                reason: InsufficientData::Unclear
            }
        );
    }

    #[test]
    fn possible_chance_is_no_finding() {
        let ratios = Ratios {
            median: ratio(1.2, 1.4),
            mean: ratio(0.98, 1.03),
            p99: None,
        };
        let margins = [MARGIN_DEFAULT; MEASURES];
        assert_eq!(
            judge(&ratios, MARGIN_DEFAULT, margins, [false; MEASURES]),
            Finding::InsufficientData {
                reason: InsufficientData::MayBeChance
            }
        );
        assert_eq!(
            judge(&ratios, MARGIN_DEFAULT, [0.5, 0.1, 0.1], [true; MEASURES]),
            Finding::InsufficientData {
                reason: InsufficientData::Unclear
            }
        );
    }

    #[test]
    fn tail_alone_is_a_finding() {
        let same = ratio(0.98, 1.03);
        assert_eq!(
            judged(same, ratio(0.9, 1.3), ratio(2.0, 5.0)),
            Finding::Slower {
                measure: Measure::P99
            }
        );
        assert_eq!(
            judged(same, ratio(1.5, 2.0), None),
            Finding::Slower {
                measure: Measure::Mean
            }
        );
    }

    #[test]
    fn conflicting_measures_follow_the_mean_or_else_the_slower() {
        let faster = ratio(0.3, 0.4);
        let slower = ratio(2.0, 3.0);
        assert_eq!(
            judged(slower, faster, None),
            Finding::Faster {
                measure: Measure::Mean
            }
        );
        assert_eq!(
            judged(faster, slower, None),
            Finding::Slower {
                measure: Measure::Mean
            }
        );
        assert_eq!(
            judged(faster, ratio(0.8, 1.5), slower),
            Finding::Slower {
                measure: Measure::P99
            }
        );
    }
}
