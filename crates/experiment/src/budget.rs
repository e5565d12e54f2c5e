//! How long an experiment may take.

use std::time::Duration;

/// How long an experiment may take, all that comes with it included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    /// `None`: as long as it takes.
    pub within: Option<Duration>,
}

impl Budget {
    /// Whether another trial may begin: there is time for one that takes as long as the longest one
    /// so far. The first one always may, since nobody knows how long it takes.
    pub fn allows_another(&self, spent: Duration, longest: Option<Duration>) -> bool {
        match (self.within, longest) {
            (Some(within), Some(longest)) => spent.saturating_add(longest) <= within,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_begins_where_it_can_also_end() {
        let seconds = Duration::from_secs;
        let budget = Budget {
            within: Some(seconds(60)),
        };
        assert!(budget.allows_another(seconds(40), Some(seconds(20))));
        assert!(!budget.allows_another(seconds(41), Some(seconds(20))));
        assert!(budget.allows_another(seconds(0), None));
        assert!(Budget::default().allows_another(seconds(1_000_000), Some(seconds(9))));
    }
}
