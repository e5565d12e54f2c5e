//! Tables whose statistics were forgotten on one side.

use run::RelationFact;
use schemars::JsonSchema;
use serde::Serialize;

use super::schema::DatabasePair;
use crate::side::Side;

/// Difference between the ages of the statistics of both sides from which the older ones are outdated: a week.
const AGE_DIFFERENCE_S: u64 = 7 * 24 * 3_600;
/// Share of a table's rows that must change before its statistics are outdated. Autovacuum analyses at a tenth.
const CHANGED_SHARE: f64 = 0.2;
/// Minimum number of changed rows for that.
const CHANGED_MIN: u64 = 1_000;

/// Table whose statistics one side lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatisticsGap {
    /// Side that lacks them.
    pub side: Side,
    /// Database.
    pub database: String,
    /// Table, including the schema.
    pub table: String,
    /// Kind of gap.
    #[serde(flatten)]
    pub kind: StatisticsGapKind,
}

/// Kind of gap in the statistics of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StatisticsGapKind {
    /// This side has none, and the other has some: the table was never analysed, or its statistics were not copied.
    Missing,
    /// This side's are much older, or more rows changed since.
    Outdated {
        /// Seconds between ANALYZE and the replay, if known.
        analysed_ago_s: Option<u64>,
        /// The same of the other side.
        analysed_ago_other_s: Option<u64>,
        /// Rows changed since ANALYZE, as the server estimates them.
        changed: Option<u64>,
    },
}

/// Knowledge of a table's statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatisticsState {
    Present,
    Absent,
    Unknown,
}

impl StatisticsState {
    fn of(relation: &RelationFact) -> Self {
        let can_have = ["table", "partitioned table", "materialized view"];
        if !can_have.contains(&relation.kind.as_str()) || relation.bytes == Some(0) {
            // ANALYZE of an empty table makes none.
            return StatisticsState::Unknown;
        }
        match relation.has_statistics {
            Some(true) => StatisticsState::Present,
            Some(false) => StatisticsState::Absent,
            None => StatisticsState::Unknown,
        }
    }
}

impl DatabasePair<'_> {
    /// Returns the tables whose statistics one side lacks, or has much older ones of.
    pub(super) fn statistics_gaps(&self) -> Vec<StatisticsGap> {
        let mut found = Vec::new();
        for (table, sides) in self.both_relations() {
            let [Some(before), Some(after)] = sides else {
                continue;
            };
            for (side, one, other) in [(Side::Before, before, after), (Side::After, after, before)]
            {
                if let Some(kind) = gap(one, other) {
                    found.push(StatisticsGap {
                        side,
                        database: self.shown.to_owned(),
                        table: table.clone(),
                        kind,
                    });
                }
            }
        }
        found
    }
}

/// Returns the gap in the statistics of `one`, compared with the other side.
fn gap(one: &RelationFact, other: &RelationFact) -> Option<StatisticsGapKind> {
    use StatisticsState::{Absent, Present};
    match (StatisticsState::of(one), StatisticsState::of(other)) {
        (Absent, Present) => return Some(StatisticsGapKind::Missing),
        (Present, Present) => {}
        _ => return None,
    }
    let ages = one.analysed_ago_s.zip(other.analysed_ago_s);
    // The statistics of a table that never changes do not age.
    let is_older = one.changed_since_analyze != Some(0)
        && ages.is_some_and(|(one, other)| one > other.saturating_add(AGE_DIFFERENCE_S));
    let has_changed = has_changed(one) && !has_changed(other);
    (is_older || has_changed).then_some(StatisticsGapKind::Outdated {
        analysed_ago_s: one.analysed_ago_s,
        analysed_ago_other_s: other.analysed_ago_s,
        changed: one.changed_since_analyze,
    })
}

fn has_changed(relation: &RelationFact) -> bool {
    let rows = relation.rows.unwrap_or(0) as f64;
    let changed = relation.changed_since_analyze.unwrap_or(0);
    changed >= CHANGED_MIN && changed as f64 > rows * CHANGED_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(has_statistics: Option<bool>, age_s: Option<u64>, changed: u64) -> RelationFact {
        RelationFact {
            kind: "table".to_owned(),
            rows: Some(10_000),
            bytes: Some(1 << 20),
            has_statistics,
            analysed_ago_s: age_s,
            changed_since_analyze: Some(changed),
            ..RelationFact::default()
        }
    }

    #[test]
    fn statistics_that_one_side_lacks_are_found() {
        let (present, absent) = (table(Some(true), Some(60), 0), table(Some(false), None, 0));
        assert_eq!(gap(&absent, &present), Some(StatisticsGapKind::Missing));
        assert_eq!(gap(&present, &absent), None);
        assert_eq!(gap(&absent, &absent), None);
        assert_eq!(gap(&table(None, None, 0), &present), None);
        let empty = RelationFact {
            bytes: Some(0),
            ..absent
        };
        assert_eq!(gap(&empty, &present), None);
    }

    #[test]
    fn much_older_statistics_are_outdated() {
        let week_s = 7 * 24 * 3_600;
        let fresh = table(Some(true), Some(60), 0);
        let outdated = |one: &RelationFact, other: &RelationFact| gap(one, other).is_some();
        assert!(outdated(&table(Some(true), Some(week_s + 61), 1), &fresh));
        assert!(!outdated(&table(Some(true), Some(week_s), 1), &fresh));
        assert!(!outdated(&fresh, &table(Some(true), Some(week_s + 61), 1)));
        assert!(!outdated(&table(Some(true), Some(week_s + 61), 0), &fresh));
        // After a crash the server has forgotten when it was.
        assert!(!outdated(&table(Some(true), None, 0), &fresh));
        assert!(outdated(&table(Some(true), Some(60), 3_000), &fresh));
        assert!(!outdated(&table(Some(true), Some(60), 1_500), &fresh));
    }
}
