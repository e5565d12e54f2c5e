//! What response times were made of, before and after.

use crate::text::amount::{added, duration, duration_change};
use crate::text::processor_text;
use crate::text::time_text::part_name;
use crate::view::compare::CompareView;

/// Parts that are shown.
const ROWS_MAX: usize = 20;

pub(super) struct Time {
    pub(super) note: String,
    pub(super) rows: Vec<TimeRow>,
    pub(super) more: usize,
    /// The same of the server's processor time, where it is known.
    pub(super) processor: Option<Processor>,
}

pub(super) struct Processor {
    pub(super) note: String,
    pub(super) rows: Vec<TimeRow>,
    pub(super) more: usize,
}

pub(super) struct TimeRow {
    pub(super) name: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) added: String,
    pub(super) known: &'static str,
}

pub(super) fn time(view: &CompareView) -> Option<Time> {
    let time = view.time.as_ref()?;
    let rows = time.parts.iter().take(ROWS_MAX).map(|part| TimeRow {
        name: part_name(part.what, part.of.as_deref()),
        before: duration(part.before_us),
        after: duration(part.after_us),
        added: added(part.after_us - part.before_us),
        known: part.known,
    });
    Some(Time {
        note: format!(
            "Response time (due → done) of all statements of a run: {}. Its parts, those that changed most first; lag is a consequence of what others took.",
            duration_change(Some(time.before_us), Some(time.after_us))
        ),
        rows: rows.collect(),
        more: time.parts.len().saturating_sub(ROWS_MAX),
        processor: time.processor.as_ref().map(|processor| {
            let rows = processor.parts.iter().take(ROWS_MAX).map(|part| TimeRow {
                name: processor_text::part_name(part.what, part.of.as_deref()),
                before: duration(part.before_us),
                after: duration(part.after_us),
                added: added(part.after_us - part.before_us),
                known: part.known,
            });
            Processor {
                note: format!(
                    "Processor time of the server's processes: {}. Its parts, those that changed most first.",
                    duration_change(Some(processor.before_us), Some(processor.after_us))
                ),
                rows: rows.collect(),
                more: processor.parts.len().saturating_sub(ROWS_MAX),
            }
        }),
    })
}
