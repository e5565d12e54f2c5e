//! Generated values of a run that is resumed.

use std::collections::HashMap;

use run::{ArchiveError, GeneratedValue};

use crate::event_id::EventId;
use crate::generated::{ExpectedRows, ReplayedValues, VALUES_MAX, Value};

/// Values by execution and position in its result.
type Values = HashMap<(EventId, u64), Value>;

/// Last values that a run recorded: between one and two times [`VALUES_MAX`] of them, if it has as many.
#[derive(Debug, Default)]
pub(crate) struct RecordedValues {
    recent: Values,
    earlier: Values,
}

impl RecordedValues {
    /// Reads the values that a run recorded.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn load(
        rows: impl Iterator<Item = Result<GeneratedValue, ArchiveError>>,
    ) -> Result<Self, ArchiveError> {
        let mut values = RecordedValues::default();
        for row in rows {
            let row = row?;
            if values.recent.len() == VALUES_MAX {
                values.earlier = std::mem::take(&mut values.recent);
            }
            if let Some(value) = Value::of_generated(&row.value) {
                let key = ((row.session, row.sequence), row.position);
                values.recent.insert(key, value);
            }
        }
        Ok(values)
    }

    /// Sets the values of an execution that the run has. A value that was not recorded is the captured one.
    pub(crate) fn set_values(
        &mut self,
        execution: EventId,
        expected: &ExpectedRows,
        replayed: &ReplayedValues,
    ) {
        for (position, captured, number) in expected.positions() {
            let key = (execution, position as u64);
            let recorded = self.recent.remove(&key);
            let recorded = recorded.or_else(|| self.earlier.remove(&key));
            replayed.set(number, recorded.unwrap_or(captured));
        }
    }
}
