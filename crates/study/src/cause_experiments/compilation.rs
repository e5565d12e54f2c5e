//! Proposes to do without just-in-time compilation.

use diagnose::Change;
use plans::MeasuredTimes;

use super::{EXPENSIVE, Intervention};

/// Proposes it for a statement that spends a noticeable part of its time compiling.
pub(super) fn propose(times: &MeasuredTimes) -> Option<Intervention> {
    (times.compilation_ms >= EXPENSIVE * times.total_ms() && times.compilation_ms > 0.0).then(|| {
        Intervention {
            cause: "just-in-time compilation takes its time".to_owned(),
            change: Change::setting("do not compile", "jit", "off"),
            trial: vec!["SET LOCAL jit = off".to_owned()],
            risk: "long analytical statements may take longer without compilation; a greater jit_above_cost leaves these alone",
        }
    })
}
