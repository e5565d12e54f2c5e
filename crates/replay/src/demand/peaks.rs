//! Greatest amounts within a tenth of a second and within a second, and the longest wait for a tool of given speed.

/// Length of a slot, in nanoseconds.
const SLOT_NS: i64 = 100_000_000;
/// Slots of a second.
const SLOTS_PER_SECOND: usize = 10;

/// Number of statements and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Statements.
    pub statements: u64,
    /// Sessions that connect.
    pub connects: u64,
    /// Bytes that the tool sends.
    pub sent_bytes: u64,
    /// Bytes that the tool receives.
    pub received_bytes: u64,
}

impl Amount {
    fn with(self, other: Amount, of: fn(u64, u64) -> u64) -> Amount {
        Amount {
            statements: of(self.statements, other.statements),
            connects: of(self.connects, other.connects),
            sent_bytes: of(self.sent_bytes, other.sent_bytes),
            received_bytes: of(self.received_bytes, other.received_bytes),
        }
    }

    fn plus(self, other: Amount) -> Amount {
        self.with(other, u64::saturating_add)
    }

    fn max(self, other: Amount) -> Amount {
        self.with(other, u64::max)
    }
}

/// Sums and greatest amounts of events that are added in the order of time. Slots of a tenth of a second begin at multiples
/// of it; a second is any ten slots after one another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Peaks {
    /// Sum of all events.
    pub total: Amount,
    /// Greatest amounts of a slot. Each may be of another slot.
    pub tenth: Amount,
    /// Greatest amounts of a second. Each may be of another second.
    pub second: Amount,
    /// Longest time that a statement waits for a tool of the given capacity, in nanoseconds; 0 without one.
    pub longest_wait_ns: i64,
    /// Statements per second that the tool can send.
    capacity: Option<f64>,
    /// Statements that wait at the end of the last slot.
    backlog: f64,
    /// Number of the current slot, and its amounts.
    slot: i64,
    current: Amount,
    /// The slots before the current one, by number modulo their count.
    recent: [Amount; SLOTS_PER_SECOND],
}

impl Peaks {
    /// Creates empty sums for a tool that can send `capacity` statements per second.
    pub(crate) fn new(capacity: Option<f64>) -> Self {
        Peaks {
            capacity: capacity.filter(|capacity| *capacity > 0.0),
            ..Peaks::default()
        }
    }

    /// Adds an event. One that is earlier than the current slot counts for the current slot.
    pub(crate) fn add(&mut self, due_ns: i64, amount: Amount) {
        let slot = due_ns / SLOT_NS;
        if slot > self.slot {
            self.advance(slot);
        }
        self.current = self.current.plus(amount);
        self.total = self.total.plus(amount);
    }

    /// Ends the last slot.
    pub(crate) fn finish(&mut self) {
        self.advance(self.slot.saturating_add(1));
    }

    fn advance(&mut self, to_slot: i64) {
        self.end_slot();
        // After a second without events, all are empty.
        let empty = (to_slot - self.slot - 1).min(SLOTS_PER_SECOND as i64);
        for _ in 0..empty {
            self.slot += 1;
            self.end_slot();
        }
        if empty == SLOTS_PER_SECOND as i64 {
            self.recent = [Amount::default(); SLOTS_PER_SECOND];
            let silent = (to_slot - self.slot - 1) as f64;
            let sent = silent * self.capacity.unwrap_or(0.0) / SLOTS_PER_SECOND as f64;
            self.backlog = (self.backlog - sent).max(0.0);
        }
        self.slot = to_slot;
    }

    fn end_slot(&mut self) {
        let ended = std::mem::take(&mut self.current);
        self.tenth = self.tenth.max(ended);
        let index = self.slot.rem_euclid(SLOTS_PER_SECOND as i64) as usize;
        self.recent[index] = ended;
        let sum = self
            .recent
            .into_iter()
            .fold(Amount::default(), Amount::plus);
        self.second = self.second.max(sum);
        if let Some(capacity) = self.capacity {
            let sent = capacity / SLOTS_PER_SECOND as f64;
            self.backlog = (self.backlog + ended.statements as f64 - sent).max(0.0);
            let wait_ns = self.backlog / capacity * 1e9;
            self.longest_wait_ns = self.longest_wait_ns.max(wait_ns as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn statement() -> Amount {
        Amount {
            statements: 1,
            connects: 0,
            sent_bytes: 50,
            received_bytes: 20,
        }
    }

    fn peaks(mut due_ns: Vec<i64>, capacity: Option<f64>) -> Peaks {
        due_ns.sort_unstable();
        let mut peaks = Peaks::new(capacity);
        for due_ns in due_ns {
            peaks.add(due_ns, statement());
        }
        peaks.finish();
        peaks
    }

    /// Times within 20 seconds, most of them in bursts.
    fn times() -> impl Strategy<Value = Vec<i64>> {
        let burst = (0..20_000_000_000_i64, 1..40_usize, 1..50_000_000_i64);
        prop::collection::vec(burst, 0..12).prop_map(|bursts| {
            let of_one = |(from, count, step): (i64, usize, i64)| {
                (0..count as i64).map(move |index| from + index * step)
            };
            bursts.into_iter().flat_map(of_one).collect()
        })
    }

    #[test]
    fn backlog_of_a_burst_outlasts_a_shorter_silence() {
        let mut peaks = Peaks::new(Some(1_000.0));
        for burst_ns in [0, 2_000_000_000] {
            for _ in 0..10_000 {
                peaks.add(burst_ns, statement());
            }
        }
        peaks.finish();
        // 10,000 statements, less those of 2 s, and 10,000 again, less those of their slot.
        assert!((peaks.longest_wait_ns - 17_900_000_000).abs() <= 100_000_000);
    }

    proptest! {
        #[test]
        fn peaks_of_a_union_are_at_most_the_sum_and_at_least_each(a in times(), b in times()) {
            let both: Vec<i64> = a.iter().chain(&b).copied().collect();
            let (both, a, b) = (peaks(both, None), peaks(a, None), peaks(b, None));
            let of = |peaks: &Peaks| [peaks.total, peaks.tenth, peaks.second].map(|it| it.statements);
            for ((both, a), b) in of(&both).into_iter().zip(of(&a)).zip(of(&b)) {
                prop_assert!(both <= a + b);
                prop_assert!(both >= a.max(b));
            }
            prop_assert_eq!(both.total.statements, a.total.statements + b.total.statements);
        }

        #[test]
        fn peaks_are_at_least_the_mean_and_at_most_all(times in times()) {
            let peaks = peaks(times.clone(), None);
            let seconds = times.iter().max().map_or(1, |last| last / 1_000_000_000 + 1) as u64;
            let all = times.len() as u64;
            prop_assert_eq!(peaks.total.statements, all);
            prop_assert!(peaks.second.statements * seconds >= all);
            prop_assert!(peaks.tenth.statements * seconds * 10 >= all);
            prop_assert!(peaks.second.statements <= all.min(10 * peaks.tenth.statements));
        }

        #[test]
        fn a_tool_twice_as_fast_never_lets_statements_wait_longer(times in times()) {
            let slow = peaks(times.clone(), Some(50.0));
            let fast = peaks(times, Some(100.0));
            prop_assert!(fast.longest_wait_ns <= slow.longest_wait_ns);
        }
    }

    #[test]
    fn a_second_is_any_ten_slots_and_silence_separates() {
        let at = |tenths: &[i64]| tenths.iter().map(|tenth| tenth * SLOT_NS).collect();
        assert_eq!(peaks(at(&[5, 14]), None).second.statements, 2);
        assert_eq!(peaks(at(&[5, 15]), None).second.statements, 1);
        assert_eq!(peaks(at(&[5, 1_000_000_005]), None).second.statements, 1);
    }

    #[test]
    fn longest_wait_is_the_backlog_over_the_capacity() {
        // Thirty statements at once, of which one is sent in each slot: 29 are left after the first.
        let peaks = peaks(vec![0; 30], Some(10.0));
        assert_eq!(peaks.longest_wait_ns, 2_900_000_000);
        assert_eq!(peaks.total.sent_bytes, 1_500);
    }
}
