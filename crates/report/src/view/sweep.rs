//! What is shown of a sweep: curves with intervals, their knees, and every trial.

use std::collections::BTreeMap;

use analyse::sweep::{Bend, Estimate, GROWTH_MIN, NoKnee, Step};
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::amount::{count, percent};

/// A sweep.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SweepView {
    /// `rehearse/sweep/1`.
    #[schemars(extend("const" = "rehearse/sweep/1"))]
    pub schema: &'static str,
    /// The directory, as the user named it.
    pub name: String,
    /// What was done: a script with its scale, or a workload.
    pub load: String,
    /// Where: a private server or an address.
    pub place: String,
    /// When it was begun, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// What the order of trials was made of.
    pub seed: u64,
    /// How many trials each combination has in the plan.
    pub repeat: u32,
    /// What counts: `transactions` of a script, `statements` of a workload.
    pub unit: &'static str,
    /// Statements in one of these.
    pub statements_of_one: u64,
    /// What shapes every trial, by option.
    pub options: BTreeMap<String, String>,
    /// The levels of settings.
    pub variants: Vec<SweepVariantView>,
    /// Trials of the plan.
    pub trials_planned: u64,
    /// Trials that were done.
    pub trials_done: u64,
    /// Trials that failed.
    pub trials_failed: u64,
    /// Trials that were not done, in the order in which they would have been.
    pub not_done: Vec<SweepTrialNameView>,
    /// Why not.
    pub why_not_done: Option<String>,
    /// What the curves go over: `clients`, `rate` (transactions a second that were asked for) or
    /// `speed` (a factor); `null` where nothing of these has two levels.
    pub axis: Option<&'static str>,
    /// Below this growth a step does not pay.
    pub growth_min: f64,
    /// A curve for each combination of all else.
    pub curves: Vec<SweepCurveView>,
    /// Every trial that was done or failed, in the order in which it was done.
    pub trials: Vec<SweepTrialView>,
    /// What has to be known to read all this.
    pub notes: Vec<String>,
}

/// A level of settings.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SweepVariantView {
    /// What it is called; empty where there is one level.
    pub name: String,
    /// What is set, names and values.
    pub settings: BTreeMap<String, String>,
}

/// Which combination of levels.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SweepTrialNameView {
    /// Its place in the order, from 1.
    pub number: u32,
    /// Which repetition.
    pub block: u32,
    /// How many clients, where they are given.
    pub clients: Option<u32>,
    /// `closed loop`, a rate, or a speed.
    pub pace: String,
    /// In which form statements were sent: `captured`, `simple`, `extended` or `prepared`.
    pub mode: String,
    /// Which settings.
    pub variant: String,
}

/// A number of several trials: their geometric mean, and a 95 % interval where there are enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SweepEstimateView {
    /// The geometric mean.
    pub centre: f64,
    /// Where the interval begins.
    pub low: Option<f64>,
    /// Where it ends.
    pub high: Option<f64>,
}

impl From<Estimate> for SweepEstimateView {
    fn from(estimate: Estimate) -> Self {
        SweepEstimateView {
            centre: estimate.centre,
            low: estimate.interval.map(|(low, _)| low),
            high: estimate.interval.map(|(_, high)| high),
        }
    }
}

/// A point of a curve: all trials at one level.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SweepPointView {
    /// The level of the axis; 0 where there is no axis.
    pub level: f64,
    /// Trials that were done here.
    pub trials: u64,
    /// Transactions (or statements) a second.
    pub per_s: Option<SweepEstimateView>,
    /// Response time, the mean of a trial.
    pub mean_us: Option<SweepEstimateView>,
    /// Half of a trial's had no longer a response time.
    pub p50_us: Option<SweepEstimateView>,
    /// 99 % had no longer one.
    pub p99_us: Option<SweepEstimateView>,
    /// CPU time of the server's processes for each statement, where they are of this machine.
    pub server_cpu_us: Option<SweepEstimateView>,
    /// CPU time of our own process for each statement.
    pub client_cpu_us: Option<SweepEstimateView>,
    /// The share of the machine's CPU time that was used, the mean of the trials.
    pub machine_busy: Option<f64>,
    /// How many clients waited for the server, the mean of the trials.
    pub busy: f64,
    /// Statements that failed, of all trials.
    pub failed: u64,
    /// What `pg_stat_statements` counted, of all trials: statements executed.
    pub calls: Option<u64>,
    /// Statements planned, where that was tracked.
    pub plans: Option<u64>,
    /// The share of planning in the time that it counted, where that was tracked.
    pub plan_share: Option<f64>,
}

/// From one level to the next.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SweepStepView {
    /// The lower level.
    pub from: f64,
    /// The higher one.
    pub to: f64,
    /// ln(throughput₂/throughput₁) / ln(level₂/level₁).
    pub growth: f64,
    /// The 95 % interval of it.
    pub growth_low: Option<f64>,
    /// Its end.
    pub growth_high: Option<f64>,
    /// The same of the mean response time.
    pub response_growth: Option<f64>,
}

impl From<&Step> for SweepStepView {
    fn from(step: &Step) -> Self {
        SweepStepView {
            from: step.from,
            to: step.to,
            growth: step.growth,
            growth_low: step.interval.map(|(low, _)| low),
            growth_high: step.interval.map(|(_, high)| high),
            response_growth: step.response_growth,
        }
    }
}

/// The knee of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SweepKneeView {
    /// The level beyond which more brings little.
    pub level: f64,
    /// The lowest level at which it may be, as far as the intervals say.
    pub lowest: Option<f64>,
    /// The highest; `null` with a `lowest` where it may be beyond the range.
    pub highest: Option<f64>,
    /// It is the lowest level that was tried: the knee may be below it.
    pub is_lowest_tried: bool,
}

/// A curve.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SweepCurveView {
    /// What tells it from the others.
    pub name: String,
    /// In which form statements were sent.
    pub mode: String,
    /// Which settings.
    pub variant: String,
    /// How many clients, where they are not the axis.
    pub clients: Option<u32>,
    /// When statements were due, where that is not the axis.
    pub pace: Option<String>,
    /// Its points, by level.
    pub points: Vec<SweepPointView>,
    /// From point to point.
    pub steps: Vec<SweepStepView>,
    /// The knee.
    pub knee: Option<SweepKneeView>,
    /// Why there is none: `one_level`, `still_grows`, `not_asked`, `collapses` (at some level nothing was done) or
    /// `unclear` (by the intervals it may be at any level, or at none).
    pub no_knee: Option<&'static str>,
    /// The level with the most throughput.
    pub peak: Option<f64>,
    /// Throughput at the highest level as a share of that at the peak, where it is clearly less.
    pub falls_to: Option<f64>,
}

impl SweepCurveView {
    /// Takes what is known of its bend.
    pub fn bends(&mut self, bend: &Bend) {
        self.steps = bend.steps.iter().map(SweepStepView::from).collect();
        self.peak = bend.peak;
        self.falls_to = bend.falls_to;
        match bend.knee {
            Ok(knee) => {
                self.knee = Some(SweepKneeView {
                    level: knee.level,
                    lowest: knee.between.map(|(lowest, _)| lowest),
                    highest: knee.between.and_then(|(_, highest)| highest),
                    is_lowest_tried: knee.is_lowest,
                });
            }
            Err(why) => {
                self.no_knee = Some(match why {
                    NoKnee::OneLevel => "one_level",
                    NoKnee::StillGrows => "still_grows",
                    NoKnee::NotAsked => "not_asked",
                    NoKnee::Collapses { .. } => "collapses",
                    NoKnee::Unclear => "unclear",
                });
            }
        }
    }

    /// Its knee in a sentence; nothing where there are no levels to have one.
    pub(crate) fn sentence(&self, axis: &str) -> Option<String> {
        let at = |level: f64| level_text(axis, level);
        let mut text = match (&self.knee, self.no_knee) {
            (Some(knee), _) => {
                let mut text = format!("The knee is at {}: beyond it a step brings", at(knee.level));
                text.push_str(&format!(
                    " less than {:.0} % of what it asks for, and responses take longer",
                    GROWTH_MIN * 100.0
                ));
                match (knee.lowest, knee.highest) {
                    (Some(low), Some(high)) if low == high => {
                        text.push_str("; the intervals leave no other level");
                    }
                    (Some(low), Some(high)) => {
                        text.push_str(&format!("; by the intervals it may be from {} to {}", at(low), at(high)));
                    }
                    (Some(low), None) => {
                        text.push_str(&format!("; by the intervals it may be from {} on, or beyond the range", at(low)));
                    }
                    _ => text.push_str("; one trial a point says nothing of how sure that is"),
                }
                if knee.is_lowest_tried {
                    text.push_str(". It is the lowest level that was tried: the knee may be below it");
                }
                text
            }
            (None, Some("still_grows")) => {
                "No knee within the range: throughput still grows at its end".to_owned()
            }
            (None, Some("not_asked")) => {
                "No knee to name: neither throughput nor response times grow, so it is not the server that holds back"
                    .to_owned()
            }
            (None, Some("collapses")) => {
                "No knee to name: at a level nothing was done in some trial, and throughput ends there".to_owned()
            }
            (None, Some("unclear")) => {
                "No knee to name: by the intervals it may be at any level, or at none; more repetitions would tell"
                    .to_owned()
            }
            _ => return None,
        };
        if let (Some(peak), Some(share)) = (self.peak, self.falls_to) {
            text.push_str(&format!(
                ". Throughput is highest at {} and falls to {} of that at the end of the range",
                at(peak),
                percent(share, 1.0)
            ));
        }
        text.push('.');
        Some(text)
    }
}

/// A level with its unit: `8 clients`, `500/s`, `speed 2`.
pub(crate) fn level_text(axis: &str, level: f64) -> String {
    let number = level_number(level);
    match axis {
        "clients" if level == 1.0 => "1 client".to_owned(),
        "clients" => format!("{number} clients"),
        "rate" => format!("{number}/s"),
        _ => format!("speed {number}"),
    }
}

/// A level without its unit.
pub(crate) fn level_number(level: f64) -> String {
    match level.fract() == 0.0 {
        true => count(level as u64),
        false => format!("{level}"),
    }
}

/// A trial.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SweepTrialView {
    /// Which one.
    #[serde(flatten)]
    pub name: SweepTrialNameView,
    /// When it began, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// How long it took with restoring and warm-up, in seconds.
    pub took_s: f64,
    /// Why there are no numbers.
    pub failed: Option<String>,
    /// What was measured.
    pub numbers: Option<SweepNumbersView>,
}

/// What was measured in a trial, behind its warm-up.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[allow(missing_docs, reason = "as in a point")]
pub struct SweepNumbersView {
    /// How long, in seconds.
    pub window_s: f64,
    pub statements: u64,
    /// Transactions, or statements of a workload.
    pub done: u64,
    /// By SQLSTATE.
    pub failed: BTreeMap<String, u64>,
    /// By reason.
    pub skipped: BTreeMap<String, u64>,
    pub per_s: f64,
    /// In each second.
    pub each_second: Vec<u64>,
    pub mean_us: Option<f64>,
    pub p50_us: Option<f64>,
    pub p95_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
    pub busy: f64,
    pub tool_lag_p99_us: Option<f64>,
    pub client_cpu_us: Option<f64>,
    pub server_cpu_us: Option<f64>,
    pub machine_busy: Option<f64>,
    pub calls: Option<u64>,
    pub plans: Option<u64>,
    pub plan_ms: Option<f64>,
    pub exec_ms: Option<f64>,
    /// What could not be measured, and why.
    pub missing: BTreeMap<String, String>,
    pub connections_failed: u64,
}
