//! Statements by database, role or application: names that come from outside.

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// The most names that are told apart. More than anyone reads; some clients put a number of
/// their own into each `application_name`, which must not fill the memory.
const NAMES_MAX: usize = 10_000;

/// Counts of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
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

/// A name and its counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NameTotals {
    /// The name; empty if the source does not know it.
    pub name: String,
    /// Its counts.
    #[serde(flatten)]
    pub totals: Totals,
}

/// Totals by name; names past the first 10,000 are counted together. It is written as the list of
/// [`Breakdown::names`].
#[derive(Debug, Clone, Default, PartialEq, JsonSchema)]
#[schemars(with = "Vec<NameTotals>")]
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

    /// Lists the names, the most statements first, ties by name; then `(others)`, if there were too many.
    pub fn names(&self) -> Vec<NameTotals> {
        let names = self.names.iter().map(|(name, totals)| NameTotals {
            name: name.to_string(),
            totals: *totals,
        });
        let mut all: Vec<NameTotals> = names.collect();
        all.sort_by(|a, b| {
            let by_name = || a.name.cmp(&b.name);
            (b.totals.statements.cmp(&a.totals.statements)).then_with(by_name)
        });
        if self.others != Totals::default() {
            all.push(NameTotals {
                name: "(others)".to_owned(),
                totals: self.others,
            });
        }
        all
    }
}

impl Serialize for Breakdown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
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
        let names = breakdown.names();
        assert_eq!(names.len(), NAMES_MAX + 1);
        assert_eq!(names[0].name, "app-7");
        assert_eq!(names[0].totals.statements, 3);
        assert_eq!(names[NAMES_MAX].name, "(others)");
        assert_eq!(names[NAMES_MAX].totals.statements, 10);
    }
}
