//! Share of a run in which the replay itself stood still.

use run::RunInfo;

/// Largest share of a run in which the tool may have stalled ([`run::ToolStall`]) without a warning.
pub(crate) const STALLED_SHARE_MAX: f64 = 0.2;

/// Returns the share of a run in which the tool stalled, from 0 to 1.
pub(crate) fn stalled_share(info: &RunInfo) -> f64 {
    let stalls = info.tool_stalls.iter();
    let stalled_ns: i64 = stalls.map(|stall| stall.until_ns - stall.from_ns).sum();
    stalled_ns as f64 / info.elapsed_ns.max(1) as f64
}
