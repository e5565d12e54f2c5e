//! Report of a sweep: curves with intervals, their knees, and every trial.

use std::collections::BTreeMap;

use compare::sweep::{Estimate, KneeEstimate};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Mode, Pace, Record, Trial, Variant};

/// Unit of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadUnit {
    /// Transactions of a script.
    Transactions,
    /// Statements of a workload.
    Statements,
}

/// The x axis of the curves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Number of clients.
    Clients,
    /// Requested transactions per second.
    Rate,
    /// Factor of the captured speed.
    Speed,
}

/// A sweep.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SweepReport {
    /// `rehearse/sweep/1`.
    #[schemars(extend("const" = "rehearse/sweep/1"))]
    pub schema: &'static str,
    /// Directory, as the user named it.
    pub name: String,
    /// A script with its scale, or a workload.
    pub load: String,
    /// A private server or an address.
    pub place: String,
    /// Start time, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// Seed of the order of trials.
    pub seed: u64,
    /// Number of planned trials of each combination.
    pub repeat: u32,
    /// Unit of load.
    pub unit: LoadUnit,
    /// Statements in one unit of load.
    pub statements_of_one: u64,
    /// All other options of the trials.
    pub options: BTreeMap<String, String>,
    /// Levels of settings. `variant` of a curve or trial is an index, from 0.
    pub variants: Vec<Variant>,
    /// Trials of the plan.
    pub trials_planned: u64,
    /// Trials that were done.
    pub trials_done: u64,
    /// Trials that failed.
    pub trials_failed: u64,
    /// Trials that were not done, in their order.
    pub not_done: Vec<Trial>,
    /// The reason why they were not done.
    pub why_not_done: Option<String>,
    /// The x axis of the curves; `null` if no factor of load has two levels.
    pub axis: Option<Axis>,
    /// Growth below which a step does not pay.
    pub growth_min: f64,
    /// A curve for each combination of all other factors.
    pub curves: Vec<SweepCurve>,
    /// All trials, done or failed, in order.
    pub trials: Vec<Record>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Point of a curve: all trials at one level.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SweepPoint {
    /// The level on the x axis; 0 if there is none.
    pub level: f64,
    /// Trials that were done here.
    pub trials: u64,
    /// Throughput.
    pub per_s: Option<Estimate>,
    /// Mean response time of a trial.
    pub mean_us: Option<Estimate>,
    /// Median response time of a trial.
    pub p50_us: Option<Estimate>,
    /// 99th percentile of a trial's response times.
    pub p99_us: Option<Estimate>,
    /// CPU time of the server's processes per statement, if they are on this machine.
    pub server_cpu_us: Option<Estimate>,
    /// CPU time of this program per statement.
    pub client_cpu_us: Option<Estimate>,
    /// Share of the processors' time in use, stolen time included and waiting for disks not, averaged over the trials.
    pub machine_busy: Option<f64>,
    /// Number of clients waiting for the server, averaged over the trials.
    pub busy: f64,
    /// Failed statements of all trials.
    pub failed: u64,
    /// Statements executed in all trials, as `pg_stat_statements` counted them.
    pub calls: Option<u64>,
    /// Statements planned, if that was tracked.
    pub plans: Option<u64>,
    /// Share of planning in the time that `pg_stat_statements` counted, if that was tracked.
    pub plan_share: Option<f64>,
}

/// Curve.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SweepCurve {
    /// Name that distinguishes it from the other curves.
    pub name: String,
    /// Protocol mode.
    pub mode: Mode,
    /// Index of the settings.
    pub variant: usize,
    /// Number of clients, if they are not the x axis.
    pub clients: Option<u32>,
    /// Pace, if it is not the x axis.
    pub pace: Option<Pace>,
    /// Its points, by level.
    pub points: Vec<SweepPoint>,
    /// Its shape; `null` if there is no x axis.
    pub bend: Option<KneeEstimate>,
}
