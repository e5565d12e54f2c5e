//! Planning's share of planning and execution.

use schemars::JsonSchema;
use serde::Serialize;

/// Planning's share of planning and execution, by two independent measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct PlanningShare {
    /// Share of the times that `pg_stat_statements` measured, from 0 to 1; `null` unless planning
    /// is tracked.
    pub by_statistics: Option<f64>,
    /// Share of the stacks within the functions that it measures, from 0 to 1; `null` without
    /// stacks.
    pub by_stacks: Option<f64>,
    /// Half width of the 95 % interval of `by_stacks`.
    pub by_stacks_error: Option<f64>,
}

impl PlanningShare {
    /// Computes the shares from times of planning and execution, and from stacks in both. `None` if
    /// neither is known.
    pub fn new(measured: Option<(f64, f64)>, stacks: (u64, u64)) -> Option<Self> {
        let share = |(planning, execution): (f64, f64)| {
            let both = planning + execution;
            (both > 0.0).then(|| planning / both)
        };
        let by_statistics = measured.and_then(share);
        let by_stacks = share((stacks.0 as f64, stacks.1 as f64));
        let all = (stacks.0 + stacks.1) as f64;
        // Standard error of a binomial share; for a share of 0 or 1, that with one more success or
        // failure.
        let error = |share: f64| {
            let likely = (share * all + 1.0) / (all + 2.0);
            1.96 * (likely * (1.0 - likely) / all).sqrt()
        };
        (by_statistics.is_some() || by_stacks.is_some()).then(|| Self {
            by_statistics,
            by_stacks,
            by_stacks_error: by_stacks.map(error),
        })
    }
}
