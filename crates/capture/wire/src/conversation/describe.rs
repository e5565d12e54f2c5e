//! What only the wire knows of an event, in the form of a workload.

use std::collections::VecDeque;
use std::sync::Arc;

use workload::{CopyIn, Particulars, Unreplayable};

use super::exchange::{Asked, Pending};

/// How events were described lately, whatever their connection.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    /// That of nearly all that are no prepared statements.
    pub(super) usual: Arc<Particulars>,
    others: VecDeque<Arc<Particulars>>,
}

/// So many are remembered.
const REMEMBERED_MAX: usize = 16;

/// What there is to say of an event. Events that are alike in it share it.
pub(super) fn particulars(pending: &mut Pending, before: &mut Descriptions) -> Arc<Particulars> {
    let copy = pending.copy.take().and_then(|copy| {
        let copy = *copy;
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
    let first_row = pending.first_row.take().map(|row| *row);
    let statement = pending.asked.statement();
    let types = statement.map_or(&[][..], |statement| &statement.types);
    let formats = pending.result_formats.as_deref().unwrap_or_default();
    let is_like = |other: &Particulars| {
        copy.is_none()
            && first_row.is_none()
            && pending.digest == other.result_digest
            && pending.awaited == other.awaited
            && pending.boundary == other.boundary
            && pending.rows_max == other.rows_max
            && are_same(types, &other.parameter_types)
            && are_same(formats, &other.result_formats)
            && other.copy.is_none()
            && other.first_row.is_none()
    };
    if is_like(&before.usual) {
        return before.usual.clone();
    }
    if let Some(statement) = statement
        && let Some(alike) = &*statement.alike.borrow()
        && is_like(alike)
    {
        return alike.clone();
    }
    let particulars = match before.others.iter().find(|other| is_like(other)) {
        Some(other) => other.clone(),
        None => {
            let new = Arc::new(Particulars {
                parameter_types: types.to_vec(),
                result_formats: formats.to_vec(),
                rows_max: pending.rows_max,
                copy,
                awaited: pending.awaited,
                boundary: pending.boundary,
                first_row,
                result_digest: pending.digest,
                settings: Vec::new(),
            });
            if is_common(&new) && new.result_digest.is_none() {
                before.others.truncate(REMEMBERED_MAX - 1);
                before.others.push_front(new.clone());
            }
            new
        }
    };
    if let Asked::Execute { statement, .. } = &pending.asked
        && is_common(&particulars)
    {
        statement.alike.replace(Some(particulars.clone()));
    }
    particulars
}

/// Another event may be described so.
fn is_common(particulars: &Particulars) -> bool {
    particulars.copy.is_none() && particulars.first_row.is_none()
}

/// Nothing is nearly always compared to nothing, which lies nowhere: comparing that takes a hundred cycles where it
/// is done by masked loads (glibc with AVX-512).
fn are_same<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}
