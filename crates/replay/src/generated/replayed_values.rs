//! Values that the replay's server generated, shared by all workers.

use std::collections::VecDeque;
use std::sync::{PoisonError, RwLock};

use super::value::Value;

/// Number of a generated value, in the order of the workload.
pub(crate) type ValueNumber = u64;

/// Most values that are kept; older ones are forgotten first. One takes 40 bytes.
pub(crate) const VALUES_MAX: usize = 1 << 20;

/// Values by their numbers.
#[derive(Debug, Default)]
pub(crate) struct ReplayedValues(RwLock<Table>);

#[derive(Debug, Default)]
struct Table {
    first: ValueNumber,
    values: VecDeque<Option<Value>>,
}

impl ReplayedValues {
    /// Sets a value.
    pub(crate) fn set(&self, number: ValueNumber, value: Value) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let table = &mut *table;
        let Some(at) = number.checked_sub(table.first) else {
            return;
        };
        let mut at = at as usize;
        if at >= table.values.len() {
            table.values.resize(at + 1, None);
        }
        while table.values.len() > VALUES_MAX {
            table.values.pop_front();
            table.first += 1;
            at -= 1;
        }
        table.values[at] = Some(value);
    }

    /// Returns a value; `None` if its statement has not returned it, or if it was forgotten.
    pub(crate) fn get(&self, number: ValueNumber) -> Option<Value> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let at = number.checked_sub(table.first)?;
        *table.values.get(at as usize)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_values_are_forgotten_first() {
        let values = ReplayedValues::default();
        values.set(3, Value::Integer(30));
        values.set(1, Value::Integer(10));
        assert_eq!(values.get(3), Some(Value::Integer(30)));
        assert_eq!(values.get(1), Some(Value::Integer(10)));
        assert_eq!((values.get(2), values.get(4)), (None, None));
        values.set(VALUES_MAX as u64 + 1, Value::Integer(1));
        assert_eq!(
            (values.get(1), values.get(3)),
            (None, Some(Value::Integer(30)))
        );
        values.set(1, Value::Integer(11));
        assert_eq!(values.get(1), None);
    }
}
