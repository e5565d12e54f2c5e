//! Proposes more memory for sorts, hash tables and bitmaps that did not fit.

use diagnose::Change;

use super::super::intervention::{Action, Intervention, MeasuredStatement};

/// Rows take more room in memory than in a file.
const IN_MEMORY: f64 = 3.0;
/// Largest value that is proposed, in MiB.
const MOST_MIB: f64 = 1_024.0;

/// Proposes a `work_mem` in which everything fits, as a power of two.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> Option<Intervention> {
    let spilling = statement.spilling_nodes();
    let first = spilling.first()?;
    let works = spilling.iter().filter_map(|node| node.actual.as_ref());
    let needed_kb = works
        .map(|work| (work.temporary * 8.0).max(work.space_kb) + work.lossy * 2.0)
        .fold(0.0, f64::max);
    let now_kb = statement.setting("work_mem").unwrap_or(4_096.0);
    let mib = (needed_kb * IN_MEMORY).max(now_kb * 2.0) / 1_024.0;
    let mib = mib.max(1.0).log2().ceil().exp2().min(MOST_MIB);
    let is_lossy = first.actual.as_ref().is_some_and(|work| work.lossy > 0.0);
    let instead = match is_lossy {
        true => "checks all rows of pages of which it could only keep the number",
        false => "uses temporary files",
    };
    (mib * 1_024.0 > now_kb).then(|| Intervention {
        cause: format!(
            "the {} needs more memory than work_mem ({now_kb:.0} kB), and {instead}",
            first.name(),
        ),
        change: Change::setting(
            "more memory for sorts and hashes; better for the role or the transaction that needs it than for all",
            "work_mem",
            format!("{mib:.0}MB"),
        ),
        action: Action::OnExecution,
        risk: "every sort and hash of every session may take work_mem: count sessions before it is set for all"
            .to_owned(),
    })
}
