//! What only the wire knows of an event, in the form of a workload.

use std::sync::Arc;

use workload::{CopyIn, Particulars, Unreplayable};

use super::exchange::Pending;

/// What there is to say of an event. Events that are alike in it share it.
pub(super) fn particulars(pending: &mut Pending, usual: &Arc<Particulars>) -> Arc<Particulars> {
    let copy = pending.copy.take().and_then(|copy| {
        if copy.cut {
            pending.unreplayable.get_or_insert(Unreplayable::TooLong);
            return None;
        }
        // The server ended it before the client did; or nobody knows what else came.
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
    let first_row = pending.first_row.take();
    let is_like = |other: &Particulars| {
        copy.is_none()
            && first_row.is_none()
            && pending.digest == other.result_digest
            && pending.awaited == other.awaited
            && pending.boundary == other.boundary
            && pending.rows_max == other.rows_max
            && *pending.parameter_types == *other.parameter_types
            && pending.result_formats == other.result_formats
            && other.copy.is_none()
            && other.first_row.is_none()
    };
    if is_like(usual) {
        return usual.clone();
    }
    if let Some(alike) = &pending.alike
        && is_like(alike)
    {
        return alike.clone();
    }
    Arc::new(Particulars {
        parameter_types: pending.parameter_types.to_vec(),
        result_formats: std::mem::take(&mut pending.result_formats),
        rows_max: pending.rows_max,
        copy,
        awaited: pending.awaited,
        boundary: pending.boundary,
        first_row,
        result_digest: pending.digest,
        settings: Vec::new(),
    })
}
