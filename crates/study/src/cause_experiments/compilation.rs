//! Proposes to do without just-in-time compilation.

use diagnose::{COMPILATION_RISK, Change};
use plans::MeasuredTimes;

use super::{EXPENSIVE, Intervention};

/// Proposes it for a statement that spends a noticeable part of its time compiling.
pub(super) fn propose(times: &MeasuredTimes) -> Option<Intervention> {
    (times.compilation_ms >= EXPENSIVE * times.total_ms() && times.compilation_ms > 0.0).then(
        || Intervention {
            cause: "just-in-time compilation takes its time".to_owned(),
            change: Change::without_compilation(),
            trial: vec!["SET LOCAL jit = off".to_owned()],
            risk: COMPILATION_RISK,
        },
    )
}
