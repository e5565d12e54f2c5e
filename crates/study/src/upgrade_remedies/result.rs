//! Result of a search for remedies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Measure, Ratio};

/// Kind of a remedy.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
    /// Statistics of tables are collected.
    Analyze,
    /// An extended statistics object is created.
    ExtendedStatistics,
    /// A setting gets the value of the old server.
    Setting,
    /// A planner method that the old version does not have is switched off.
    PlannerMethod,
    /// An index is built again.
    Reindex,
    /// An index is created.
    Index,
    /// The planner is advised to use the plan of the old server (`pg_plan_advice`).
    PlanAdvice,
}

/// Remedy of a regression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegressionRemedy {
    /// Kind.
    pub kind: RemedyKind,
    /// Difference between the servers that it removes, as a sentence.
    pub cause: String,
    /// Statements to execute in the database of the new server, in this order.
    pub statements: Vec<String>,
    /// Setting that they change: name and value.
    pub setting: Option<(String, String)>,
    /// Role whose sessions have the setting; `null` if it is for all sessions of the database, and without a setting.
    #[serde(default)]
    pub role: Option<String>,
    /// Locks and side effects, as a sentence; empty if there are none.
    pub risk: String,
}

/// Sign of a regression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegressionSign {
    /// It got slower in the replays.
    Slower,
    /// It looks slower in the replays, and chance could not be ruled out.
    Suspected,
    /// It has another plan, and does more work if it is executed alone.
    Work,
    /// It returns other rows.
    OtherRows,
    /// Its ORDER BY returns the same rows in another order, since the collations differ.
    OtherOrder,
}

/// Proof of a remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RemedyStatus {
    /// With the remedies, paired replays show that the statement is not slower than the margin allows, nor its mean by more than a
    /// quarter or half of its slowdown; or it does alone what it did on the old server, with a quarter of its slowdown at most, and
    /// the replays exclude that more than half of it is left, or × 1.5 if it only looked slower; or it reads no longer more than on
    /// the old server and was not found slower. Its interval does not show it slower either. It returns the same rows.
    Proved,
    /// The statement is still slower, or returns other rows, with the remedies.
    Refuted,
    /// The statement was executed alone with the remedy, which helped. There are no replays with it, or they do not show that it
    /// suffices.
    Screened,
    /// It has no remedy of its own. With those of other statements, paired replays show that it is not slower; or it does alone what
    /// it did on the old server, and its ratios in the replays are within the margin, exclude more than half of its slowdown, and,
    /// if it was shown to be slower, the earlier interval.
    /// So is a statement that is within the margin without the plan advice that was found for it.
    Resolved,
    /// No candidate helped, or there is none.
    NotFound,
    /// No candidate that was tried helped, and others failed or were not tried, or the dependence of the plan on the sample of
    /// `ANALYZE` is not known.
    Untried,
}

/// Executions of a statement alone, summed over its parameter sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialWork {
    /// Time of planning and execution, in milliseconds.
    pub ms: f64,
    /// Blocks of tables and indexes that it read.
    pub blocks: f64,
}

/// Candidate that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TriedRemedy {
    /// Statements.
    pub statements: Vec<String>,
    /// Work on the new server with it; `null` if it failed or left the plan as it is.
    pub work: Option<TrialWork>,
    /// Whether the plan with it is the one of the old server.
    pub has_old_plan: bool,
    /// Whether its effect is known; `false` if it failed or was not tried.
    pub is_judged: bool,
    /// Result, as a sentence.
    pub result: String,
}

/// Ratio of times, new / old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredFactor {
    /// Ratio.
    pub ratio: f64,
    /// Measure that it is of; `null` if it is not known.
    #[serde(default)]
    pub measure: Option<Measure>,
    /// Lower end of the 95 % confidence interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Ratio of the mean, which slow executions of rare values raise; `null` if it is not known.
    #[serde(default)]
    pub mean: Option<f64>,
    /// Lower end of its interval.
    #[serde(default)]
    pub mean_low: Option<f64>,
    /// Upper end of its interval.
    #[serde(default)]
    pub mean_high: Option<f64>,
}

/// Largest ratio of a mean, which varies more than a median, with which a slowdown counts as gone.
const GONE_MEAN_MAX: f64 = 1.25;
/// Largest ratio with which a slowdown counts as gone if the statement alone does what it did on the old server.
const HALVED_MAX: f64 = 1.5;

impl MeasuredFactor {
    /// Returns the factor of a ratio of this measure. `mean` is that of the mean.
    pub(crate) fn new(measure: Measure, found: Ratio, mean: Option<Ratio>) -> Self {
        let mean_interval = mean.and_then(|mean| mean.interval);
        MeasuredFactor {
            ratio: found.value,
            measure: Some(measure),
            mean: mean.map(|mean| mean.value),
            low: found.interval.map(|interval| interval.low),
            high: found.interval.map(|interval| interval.high),
            mean_low: mean_interval.map(|interval| interval.low),
            mean_high: mean_interval.map(|interval| interval.high),
        }
    }

    /// Whether neither the ratio nor that of the mean can exceed a limit.
    pub(crate) fn is_within(&self, limit: f64) -> bool {
        self.is_within_limits(limit, limit)
    }

    /// Whether the ratio or that of the mean must exceed a limit.
    pub(crate) fn exceeds(&self, limit: f64) -> bool {
        let exceeds = |low: Option<f64>| low.is_some_and(|low| low > limit);
        exceeds(self.low) || exceeds(self.mean_low)
    }

    /// Whether it is that of the slowest executions.
    pub(crate) fn is_of_slowest(&self) -> bool {
        self.measure == Some(Measure::P99)
    }

    /// Whether the slowdown of earlier replays is gone: the ratio is within a limit, and the mean, which varies more, exceeds the
    /// limit by a quarter at most, and has at most half of its slowdown left, on the scale of logarithms.
    pub(crate) fn undoes(&self, earlier: Option<MeasuredFactor>, limit: f64) -> bool {
        let mean = earlier.and_then(|earlier| earlier.mean).unwrap_or(1.0);
        let half = mean.max(1.0).sqrt().min(GONE_MEAN_MAX);
        self.is_within_limits(limit, half.max(limit))
    }

    /// Whether the replays exclude that more than half of an earlier slowdown is left, on the scale of logarithms. They do not
    /// bound the slowest executions.
    pub(crate) fn halves(&self, earlier: Option<MeasuredFactor>, limit: f64) -> bool {
        let half = |ratio: f64| ratio.max(1.0).sqrt().min(HALVED_MAX).max(limit);
        match earlier {
            None => self.is_within(limit),
            Some(earlier) => {
                let mean = earlier.mean.unwrap_or(earlier.ratio);
                !earlier.is_of_slowest() && self.is_within_limits(half(earlier.ratio), half(mean))
            }
        }
    }

    /// Whether the replays show that an earlier slowdown is gone without an action on the statement: the ratios are within the limit,
    /// more than half of the slowdown is excluded, and so is the earlier interval if `was_shown`.
    pub(crate) fn refutes(
        &self,
        earlier: Option<MeasuredFactor>,
        limit: f64,
        was_shown: bool,
    ) -> bool {
        let is_within = self.ratio <= limit && self.mean.is_some_and(|mean| mean <= limit);
        let low = earlier.and_then(|earlier| earlier.low);
        let is_disjoint = low.zip(self.high).is_some_and(|(low, high)| high < low);
        is_within && self.halves(earlier, limit) && (is_disjoint || !was_shown)
    }

    /// Whether the replays exclude a large slowdown, if the earlier ones did not suspect the slowest executions alone.
    pub(crate) fn is_bounded(&self, earlier: Option<MeasuredFactor>) -> bool {
        !earlier.is_some_and(|earlier| earlier.is_of_slowest()) && self.is_within(HALVED_MAX)
    }

    fn is_within_limits(&self, limit: f64, mean_limit: f64) -> bool {
        let is_within = |high: Option<f64>, limit: f64| high.is_some_and(|high| high <= limit);
        is_within(self.high, limit) && is_within(self.mean_high, mean_limit)
    }
}

/// Plan that depends on the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SampleDependence {
    /// Number of new samples on each server.
    pub samples: u32,
    /// Number of those with which the old server chose the plan of the new one.
    pub old_with_new_plan: u32,
    /// Number of those with which the new server chose the plan of the old one.
    pub new_with_old_plan: u32,
}

/// Statement that is worse on the new version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UpgradeRegression {
    /// Fingerprint.
    pub fingerprint: String,
    /// Normalised SQL.
    pub sql: String,
    /// Whether it was found with other values than the first ones, which have another plan.
    #[serde(default)]
    pub is_of_other_values: bool,
    /// Sign of it.
    pub sign: RegressionSign,
    /// Median service time in the paired replays, new / old; `null` if it was not compared.
    pub before: Option<MeasuredFactor>,
    /// The same with all remedies; `null` without replays with them.
    pub after: Option<MeasuredFactor>,
    /// Work alone on the old server; `null` if it was not executed alone.
    pub old_work: Option<TrialWork>,
    /// Work alone on the new server without a remedy.
    pub new_work: Option<TrialWork>,
    /// Work alone on the new server with the remedy.
    pub remedied_work: Option<TrialWork>,
    /// Whether it has the plan of the old server alone: with the remedy, or without one if there is none.
    #[serde(default)]
    pub has_old_plan: bool,
    /// Cause without a remedy, or the reason why it was not executed.
    pub note: Option<String>,
    /// Dependence of the plan on the sample of `ANALYZE`; `null` if there is none, or a remedy was found.
    pub sample_dependence: Option<SampleDependence>,
    /// Remedy.
    pub remedy: Option<RegressionRemedy>,
    /// Proof of the remedy.
    pub status: RemedyStatus,
    /// Candidates that were tried, in order.
    pub tried: Vec<TriedRemedy>,
}

impl UpgradeRegression {
    /// Returns a regression that was not executed alone, without a remedy.
    pub(crate) fn new(
        fingerprint: impl Into<String>,
        sql: impl Into<String>,
        sign: RegressionSign,
    ) -> Self {
        UpgradeRegression {
            fingerprint: fingerprint.into(),
            sql: sql.into(),
            is_of_other_values: false,
            sign,
            before: None,
            after: None,
            old_work: None,
            new_work: None,
            remedied_work: None,
            has_old_plan: false,
            note: None,
            sample_dependence: None,
            remedy: None,
            status: RemedyStatus::NotFound,
            tried: Vec::new(),
        }
    }
}
