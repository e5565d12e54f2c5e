//! Finds the records of sessions while their events are read.

use std::collections::HashMap;

use workload::Session;

/// Records of a workload's sessions, which are stored in the order in which sessions ended. They
/// are read as far as needed and held until their session ends.
pub struct SessionRecords<I> {
    records: I,
    ahead: HashMap<u64, Session>,
}

impl<I, E> SessionRecords<I>
where
    I: Iterator<Item = Result<Session, E>>,
{
    /// Creates it from the records in the workload's order.
    pub fn new(records: I) -> Self {
        SessionRecords {
            records,
            ahead: HashMap::new(),
        }
    }

    /// Returns the record of a session that has ended at `now_us`. `goes_on` returns which sessions
    /// may have more events; records of other sessions that began before now are dropped.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn take(
        &mut self,
        id: u64,
        now_us: i64,
        goes_on: impl Fn(u64) -> bool,
    ) -> Result<Option<Session>, E> {
        if let Some(record) = self.ahead.remove(&id) {
            return Ok(Some(record));
        }
        for record in self.records.by_ref() {
            let record = record?;
            if record.id == id {
                return Ok(Some(record));
            }
            if goes_on(record.id) || record.start_us >= now_us {
                self.ahead.insert(record.id, record);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_in_any_order_and_those_of_the_past_are_let_go() {
        let record = |id, start_us| {
            Ok::<_, ()>(Session {
                id,
                database: "".into(),
                user: "".into(),
                application: "".into(),
                client: "".into(),
                start_us,
                end_us: 0,
                start_seen: true,
                end_seen: true,
                statements: 0,
            })
        };
        let all = [record(1, 0), record(2, 5), record(0, 0), record(3, 90)];
        let mut records = SessionRecords::new(all.into_iter());
        assert_eq!(records.take(0, 10, |id| id == 0).unwrap().unwrap().id, 0);
        // 1 and 2 began before and do not continue.
        assert!(records.ahead.is_empty());
        assert_eq!(records.take(3, 95, |_| false).unwrap().unwrap().id, 3);
        assert_eq!(records.take(9, 99, |_| false), Ok(None));
    }
}
