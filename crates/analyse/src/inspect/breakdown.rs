//! Statements by database, role or application: names that come from outside.

use std::collections::HashMap;
use std::sync::Arc;

/// The most names that are told apart. More than anyone reads; some clients put a number of
/// their own into each `application_name`, which must not fill the memory.
const NAMES_MAX: usize = 10_000;

/// What was counted under one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sessions.
    pub sessions: u64,
    /// Statements.
    pub statements: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// The server's own time for those with a captured duration, in microseconds.
    pub time_us: u64,
}

/// Totals by name; names past the first 10,000 are counted together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Breakdown {
    places: HashMap<Arc<str>, usize>,
    names: Vec<(Arc<str>, Totals)>,
    others: Totals,
}

impl Breakdown {
    /// Where a name's totals are; past the limit, where those of all others are.
    pub(crate) fn place(&mut self, name: &Arc<str>) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        if self.names.len() >= NAMES_MAX {
            return NAMES_MAX;
        }
        let place = self.names.len();
        self.names.push((name.clone(), Totals::default()));
        self.places.insert(name.clone(), place);
        place
    }

    /// The totals at a place that [`Self::place`] gave.
    pub(crate) fn at(&mut self, place: usize) -> &mut Totals {
        match self.names.get_mut(place) {
            Some((_, totals)) => totals,
            None => &mut self.others,
        }
    }

    /// The names with their totals, the most statements first, ties by name.
    pub fn descending(&self) -> Vec<(Arc<str>, Totals)> {
        let mut all = self.names.clone();
        all.sort_by(|a, b| {
            b.1.statements
                .cmp(&a.1.statements)
                .then_with(|| a.0.cmp(&b.0))
        });
        all
    }

    /// What was counted for names past the limit.
    pub fn others(&self) -> Totals {
        self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_past_the_limit_are_counted_together() {
        let mut breakdown = Breakdown::default();
        for number in 0..NAMES_MAX + 5 {
            let place = breakdown.place(&Arc::from(format!("app-{number}")));
            breakdown.at(place).statements += 2;
        }
        let place = breakdown.place(&Arc::from("app-7"));
        breakdown.at(place).statements += 1;
        assert_eq!(breakdown.descending().len(), NAMES_MAX);
        assert_eq!(breakdown.descending()[0].0, Arc::from("app-7"));
        assert_eq!(breakdown.descending()[0].1.statements, 3);
        assert_eq!(breakdown.others().statements, 10);
    }
}
