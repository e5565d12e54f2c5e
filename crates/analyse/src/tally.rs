//! Counts by name, for names that come from outside.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The most names that are told apart. More than anyone reads; some clients put a number of
/// their own into each `application_name`, which must not fill the memory.
const NAMES_MAX: usize = 10_000;

/// Counts by name; names past the first 10,000 are counted together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    counts: BTreeMap<Arc<str>, u64>,
    others: u64,
}

impl Tally {
    /// Adds to a name's count.
    pub fn add(&mut self, name: &Arc<str>, count: u64) {
        if let Some(known) = self.counts.get_mut(name) {
            *known += count;
        } else if self.counts.len() < NAMES_MAX {
            self.counts.insert(Arc::clone(name), count);
        } else {
            self.others += count;
        }
    }

    /// The names with their counts, the greatest first, ties by name.
    pub fn descending(&self) -> Vec<(Arc<str>, u64)> {
        let mut all: Vec<(Arc<str>, u64)> = self
            .counts
            .iter()
            .map(|(name, count)| (Arc::clone(name), *count))
            .collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all
    }

    /// What was counted for names past the limit.
    pub fn others(&self) -> u64 {
        self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_past_the_limit_are_counted_together() {
        let mut tally = Tally::default();
        for number in 0..NAMES_MAX + 5 {
            tally.add(&Arc::from(format!("app-{number}")), 2);
        }
        tally.add(&Arc::from("app-7"), 1);
        assert_eq!(tally.descending().len(), NAMES_MAX);
        assert_eq!(tally.descending()[0], (Arc::from("app-7"), 3));
        assert_eq!(tally.others(), 10);
    }
}
