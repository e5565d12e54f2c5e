//! Everything on one time axis, as it is shown: a column a measure, a value a stretch of time.

use std::collections::BTreeMap;

use analyse::{Inspection, Moment, OverTime};
use schemars::JsonSchema;
use serde::Serialize;

/// Everything on one time axis. Each list has one value for each stretch.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct OverTimeView {
    /// Where the axis begins, from the workload's start; negative where the server did something
    /// before its first client.
    pub start_us: i64,
    /// What one value covers.
    pub width_us: i64,
    /// Statements sent.
    pub statements: Vec<u64>,
    /// The server's own time for them, where known.
    pub time_us: Vec<u64>,
    /// Failures of statements that were sent then.
    pub errors: Vec<u64>,
    /// The same by code.
    pub errors_by_code: BTreeMap<String, Vec<u64>>,
    /// Sessions opened.
    pub opened: Vec<u64>,
    /// Sessions whose end was seen.
    pub closed: Vec<u64>,
    /// The most sessions open at one time; one whose end is not in the source counts until it was
    /// last seen.
    pub open: Vec<u64>,
    /// Temporary files.
    pub temporary_files: Vec<u64>,
    /// Their bytes.
    pub temporary_bytes: Vec<u64>,
    /// Waits for locks.
    pub lock_waits: Vec<u64>,
    /// The time of those that ended then.
    pub lock_waited_us: Vec<u64>,
    /// Deadlocks.
    pub deadlocks: Vec<u64>,
    /// Checkpoints completed.
    pub checkpoints: Vec<u64>,
    /// Tables vacuumed by autovacuum.
    pub autovacuums: Vec<u64>,
    /// Tables analyzed by autovacuum.
    pub autoanalyzes: Vec<u64>,
    /// All else that the server did.
    pub others: Vec<u64>,
}

impl OverTimeView {
    pub(super) fn new(inspection: &Inspection) -> Self {
        let OverTime {
            start_us,
            width_us,
            moments,
            ..
        } = &inspection.over_time;
        let column = |of: fn(&Moment) -> u64| moments.iter().map(of).collect();
        let by_code = |code| {
            let of = |moment: &Moment| moment.errors.get(code).copied().unwrap_or(0);
            moments.iter().map(of).collect()
        };
        Self {
            start_us: *start_us,
            width_us: *width_us,
            statements: column(|moment| moment.statements),
            time_us: column(|moment| moment.time_us),
            errors: column(|moment| moment.errors.values().sum()),
            errors_by_code: inspection
                .errors
                .keys()
                .map(|code| (code.to_string(), by_code(code)))
                .collect(),
            opened: column(|moment| moment.opened),
            closed: column(|moment| moment.closed),
            open: column(|moment| moment.open_most),
            temporary_files: column(|moment| moment.temporary_files),
            temporary_bytes: column(|moment| moment.temporary_bytes),
            lock_waits: column(|moment| moment.lock_waits),
            lock_waited_us: column(|moment| moment.lock_waited_us),
            deadlocks: column(|moment| moment.deadlocks),
            checkpoints: column(|moment| moment.checkpoints),
            autovacuums: column(|moment| moment.autovacuums),
            autoanalyzes: column(|moment| moment.autoanalyzes),
            others: column(|moment| moment.others),
        }
    }
}
