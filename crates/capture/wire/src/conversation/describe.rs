//! Converts the wire details of an event to the workload's form.

use std::collections::VecDeque;
use std::sync::Arc;

use workload::{CopyIn, Unreplayable, WireDetails};

use super::pending_requests::{PendingEvent, Preparation, Request};

/// Cache of recent wire details of all connections.
#[derive(Debug, Default)]
pub(super) struct DetailsCache {
    /// Details of nearly all statements that are not prepared.
    pub(super) common: Arc<WireDetails>,
    others: VecDeque<Arc<WireDetails>>,
}

/// Maximum number of cached details.
const CACHED_MAX: usize = 16;

/// Returns the wire details of an event. Events with equal details share them.
pub(super) fn describe_event(
    pending: &mut PendingEvent,
    before: &mut DetailsCache,
) -> Arc<WireDetails> {
    let copy = pending.copy.take().and_then(|copy| {
        let copy = *copy;
        if copy.cut {
            pending.unreplayable.get_or_insert(Unreplayable::TooLong);
            return None;
        }
        // The server ended the COPY before the client did, or the rest of the data is unknown.
        let failed = match (copy.ended, pending.sqlstate) {
            (true, _) => copy.failed,
            (false, Some(_)) => Some("it failed in the capture before its data ended".into()),
            (false, None) => {
                let reason = Unreplayable::CopyDataMissing;
                pending.unreplayable.get_or_insert(reason);
                return None;
            }
        };
        Some(CopyIn {
            data: copy.data.into(),
            failed,
        })
    });
    let first_rows = pending.first_rows.take().map(|row| *row);
    let statement = pending.request.statement();
    let types = statement.map_or(&[][..], |statement| &statement.types);
    let formats = pending.result_formats.as_deref().unwrap_or_default();
    let parsed = pending.preparation == Preparation::SameGroup;
    let is_like = |other: &WireDetails| {
        copy.is_none()
            && first_rows.is_none()
            && pending.digest == other.result_digest
            && pending.awaited == other.awaited
            && pending.boundary == other.boundary
            && pending.rows_max == other.rows_max
            && parsed == other.parsed
            && pending.messages == other.messages
            && are_same(types, &other.parameter_types)
            && are_same(formats, &other.result_formats)
            && other.copy.is_none()
            && other.first_rows.is_none()
    };
    if is_like(&before.common) {
        return before.common.clone();
    }
    if let Some(statement) = statement
        && let Some(alike) = &*statement.last_details.borrow()
        && is_like(alike)
    {
        return alike.clone();
    }
    let particulars = match before.others.iter().find(|other| is_like(other)) {
        Some(other) => other.clone(),
        None => {
            let new = Arc::new(WireDetails {
                parameter_types: types.to_vec(),
                parsed,
                messages: pending.messages,
                result_formats: formats.to_vec(),
                rows_max: pending.rows_max,
                copy,
                awaited: pending.awaited,
                boundary: pending.boundary,
                first_rows,
                result_digest: pending.digest,
                settings: Vec::new(),
            });
            if is_common(&new) && new.result_digest.is_none() {
                before.others.truncate(CACHED_MAX - 1);
                before.others.push_front(new.clone());
            }
            new
        }
    };
    if let Request::Execute { statement, .. } = &pending.request
        && is_common(&particulars)
    {
        statement.last_details.replace(Some(particulars.clone()));
    }
    particulars
}

/// Returns whether other events may have the same details.
fn is_common(particulars: &WireDetails) -> bool {
    particulars.copy.is_none() && particulars.first_rows.is_none()
}

/// Compares two slices. Two empty ones are handled first, since they have no valid address:
/// comparing those by masked loads (glibc with AVX-512) takes a hundred cycles.
fn are_same<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}
