//! Components of response time before and after.

use compare::Comparison;
use time_breakdown::time_model::PartsChange;

use crate::text::units::{added, duration_change, duration_ns};
use crate::text::{processor_text, time_text};

/// Maximum number of parts.
const ROWS_MAX: usize = 20;

pub(super) struct Time {
    pub(super) note: String,
    pub(super) parts: Parts,
    /// The server's processor time, if known.
    pub(super) processor: Option<(String, Parts)>,
}

pub(super) struct Parts {
    pub(super) rows: Vec<TimeRow>,
    pub(super) more: usize,
}

pub(super) struct TimeRow {
    pub(super) name: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) added: String,
    pub(super) basis: &'static str,
}

pub(super) fn time(view: &Comparison) -> Option<Time> {
    let time = view.time.as_ref()?;
    let processor = time.processor.as_ref().map(|processor| {
        let note = format!(
            "Processor time of the server's processes: {}. Its parts, those that changed most first.",
            duration_change(Some(processor.before_ns), Some(processor.after_ns))
        );
        (note, parts(processor, processor_text::category))
    });
    let response = &time.response;
    Some(Time {
        note: format!(
            "Response time (due → done) of all statements of a run: {}. Its parts, those that changed most first; lag is a consequence of what others took.",
            duration_change(Some(response.before_ns), Some(response.after_ns))
        ),
        parts: parts(response, time_text::category),
        processor,
    })
}

fn parts<C>(change: &PartsChange<C>, category: fn(&C) -> String) -> Parts {
    let rows = change.parts.iter().take(ROWS_MAX).map(|part| TimeRow {
        name: category(&part.category),
        before: duration_ns(part.before_ns),
        after: duration_ns(part.after_ns),
        added: added(part.after_ns - part.before_ns),
        basis: part.basis.name(),
    });
    Parts {
        rows: rows.collect(),
        more: change.parts.len().saturating_sub(ROWS_MAX),
    }
}
