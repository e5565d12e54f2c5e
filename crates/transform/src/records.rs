//! The records of sessions, found while their events are read.

use std::collections::HashMap;

use workload::Session;

/// The records of a workload's sessions, which come about in the order in which sessions ended,
/// read as far as they are needed and held as long as their session goes on.
pub struct SessionRecords<I> {
    records: I,
    ahead: HashMap<u64, Session>,
}

impl<I, E> SessionRecords<I>
where
    I: Iterator<Item = Result<Session, E>>,
{
    /// Of these records, in the order in which a workload has them.
    pub fn new(records: I) -> Self {
        SessionRecords {
            records,
            ahead: HashMap::new(),
        }
    }

    /// The record of a session that has ended at `now_us`. `goes_on` says which sessions may have
    /// more events; the records of others that began before now are not asked for any more.
    ///
    /// # Errors
    /// Where the records cannot be read on.
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
        // 1 and 2 began before and do not go on.
        assert!(records.ahead.is_empty());
        assert_eq!(records.take(3, 95, |_| false).unwrap().unwrap().id, 3);
        assert_eq!(records.take(9, 99, |_| false), Ok(None));
    }
}
