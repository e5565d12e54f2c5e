//! Table of routes, controllers, actions, applications or jobs on the page of a comparison.

use compare::ContextsComparison;

use super::CHANGES_MAX;
use crate::text::compare_text::{context_cells, slow_trace};

/// The table.
pub(super) struct Contexts {
    pub(super) key: &'static str,
    pub(super) rows: Vec<ContextRow>,
    /// Number of values that are not in the table.
    pub(super) more: usize,
}

/// Row of one value.
pub(super) struct ContextRow {
    /// Finding, ratio, added time, calls, median, 99th percentile, value.
    pub(super) cells: [String; 7],
    /// Id of the trace of a slow execution; empty if none has one.
    pub(super) trace: String,
}

/// Returns the table of the first values.
pub(super) fn contexts(view: &ContextsComparison) -> Contexts {
    let row = |value| ContextRow {
        cells: context_cells(value),
        trace: slow_trace(value).map_or_else(String::new, |(trace_id, _)| trace_id),
    };
    Contexts {
        key: view.key.name(),
        rows: view.values.iter().take(CHANGES_MAX).map(row).collect(),
        more: view.values.len().saturating_sub(CHANGES_MAX),
    }
}
