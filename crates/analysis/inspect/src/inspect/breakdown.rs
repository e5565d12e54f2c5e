//! Statement counts by database, role or application. The names come from outside.

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// Maximum number of distinct names. Some clients put a unique number into each `application_name`,
/// which must not exhaust memory.
const NAMES_MAX: usize = 10_000;

/// Counts for one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Totals {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of statements.
    pub statements: u64,
    /// Number of statements that failed.
    pub errors: u64,
    /// The server's own execution time over statements with a captured duration, in microseconds.
    pub time_us: u64,
}

/// A name and its counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NameTotals {
    /// The name; empty if the source does not know it.
    pub name: String,
    /// Counts for this name.
    #[serde(flatten)]
    pub totals: Totals,
}

/// Totals by name. Names past the first 10,000 share one entry. It is serialised as the list of
/// [`Breakdown::names`].
#[derive(Debug, Clone, Default, PartialEq, JsonSchema)]
#[schemars(with = "Vec<NameTotals>")]
pub struct Breakdown {
    places: HashMap<Arc<str>, usize>,
    names: Vec<(Arc<str>, Totals)>,
    others: Totals,
}

impl Breakdown {
    /// Returns the index of a name's totals; past the limit, the index of the shared entry.
    pub(crate) fn index_of(&mut self, name: &Arc<str>) -> usize {
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

    /// Returns the totals at an index that [`Self::index_of`] returned.
    pub(crate) fn at(&mut self, place: usize) -> &mut Totals {
        match self.names.get_mut(place) {
            Some((_, totals)) => totals,
            None => &mut self.others,
        }
    }

    /// Returns the names by descending number of statements, ties by name, then `(others)` if the
    /// limit was exceeded.
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
            let place = breakdown.index_of(&Arc::from(format!("app-{number}")));
            breakdown.at(place).statements += 2;
        }
        let place = breakdown.index_of(&Arc::from("app-7"));
        breakdown.at(place).statements += 1;
        let names = breakdown.names();
        assert_eq!(names.len(), NAMES_MAX + 1);
        assert_eq!(names[0].name, "app-7");
        assert_eq!(names[0].totals.statements, 3);
        assert_eq!(names[NAMES_MAX].name, "(others)");
        assert_eq!(names[NAMES_MAX].totals.statements, 10);
    }
}
