//! Differences of extensions, relations, indexes and sizes.

use std::collections::{BTreeMap, BTreeSet};

use run::{ExtensionFact, Facts, IndexFact, RelationFact};
use schemars::JsonSchema;
use serde::Serialize;

use crate::side::Side;

/// Sizes and estimates that differ by more than this factor are reported.
pub const SIZE_FACTOR: f64 = 2.0;
/// Minimum difference of rows that is reported.
const ROWS_MIN: u64 = 1_000;
/// Minimum difference of sizes that is reported, in bytes.
const BYTES_MIN: u64 = 1 << 20;

/// Sides on which an object exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// On both sides, with differences.
    Differs,
    /// Only before.
    OnlyBefore,
    /// Only after.
    OnlyAfter,
}

impl Presence {
    /// Returns the presence in words.
    pub fn name(self) -> &'static str {
        match self {
            Presence::Differs => "differs",
            Presence::OnlyBefore => "only before",
            Presence::OnlyAfter => "only after",
        }
    }
}

/// Attribute that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Detail {
    /// Name of the attribute.
    pub what: String,
    /// Value before; `None` if there is none.
    pub before: Option<String>,
    /// Value after; `None` if there is none.
    pub after: Option<String>,
}

/// Table, extension or database that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ObjectDifference {
    /// Its database.
    pub database: String,
    /// Its name, including the schema if it has one.
    pub name: String,
    /// Sides on which it exists.
    pub presence: Presence,
    /// Attributes that differ, if it exists on both sides.
    pub details: Vec<Detail>,
}

/// Index that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexDifference {
    /// Its database.
    pub database: String,
    /// Its table, including the schema.
    pub table: String,
    /// Its name; the name before if there are two.
    pub name: String,
    /// Its name after, if the same index has another name there.
    pub renamed: Option<String>,
    /// Sides on which it exists.
    pub presence: Presence,
    /// `CREATE INDEX …` of the side that has it, or of the side before.
    pub definition: String,
    /// Attributes that differ, if it exists on both sides.
    pub details: Vec<Detail>,
}

/// Index that queries cannot use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InvalidIndex {
    /// The side.
    pub side: Side,
    /// Its database.
    pub database: String,
    /// Its table, including the schema.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Whether writes maintain it.
    pub ready: bool,
}

/// Table or index whose size or estimates differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeDifference {
    /// Its database.
    pub database: String,
    /// Its name, including the schema.
    pub name: String,
    /// Whether it is an index.
    pub index: bool,
    /// The planner's row estimate before; `null` for an index, and if the table was never analysed.
    pub rows_before: Option<u64>,
    /// The planner's row estimate after.
    pub rows_after: Option<u64>,
    /// Size before, in bytes; `null` if unknown.
    pub bytes_before: Option<u64>,
    /// Size after, in bytes.
    pub bytes_after: Option<u64>,
}

impl SizeDifference {
    /// Returns the greater of its two factors.
    pub fn factor(&self) -> f64 {
        factor(self.rows(), 1).max(factor(self.bytes(), 1))
    }

    fn rows(&self) -> [Option<u64>; 2] {
        [self.rows_before, self.rows_after]
    }

    fn bytes(&self) -> [Option<u64>; 2] {
        [self.bytes_before, self.bytes_after]
    }

    /// Whether statistics are missing on one side only.
    pub fn is_unanalysed(&self) -> bool {
        !self.index && self.rows_before.is_some() != self.rows_after.is_some()
    }
}

/// Returns the factor between two numbers; 1 if either is unknown or they differ by less than
/// `least`.
fn factor([one, other]: [Option<u64>; 2], least: u64) -> f64 {
    match (one, other) {
        (Some(one), Some(other)) if one.abs_diff(other) >= least => {
            let (one, other) = (one.max(1) as f64, other.max(1) as f64);
            (one / other).max(other / one)
        }
        _ => 1.0,
    }
}

/// Pair of corresponding databases.
pub(super) struct DatabasePair<'f> {
    pub(super) before: &'f Facts,
    pub(super) after: &'f Facts,
    pub(super) names: [&'f str; 2],
    pub(super) shown: &'f str,
}

impl<'f> DatabasePair<'f> {
    /// Whether each side knows all of these objects in this database, so that absent ones are
    /// missing.
    pub(super) fn complete(&self, about: &str) -> [bool; 2] {
        let complete = |facts: &Facts, name: &str| {
            let here = |of: &String| of == name;
            let mut notes = facts.notes.iter().filter(|note| note.about == about);
            // Notes of older runs do not name their database.
            !notes.any(|note| note.database.as_ref().is_none_or(here))
        };
        [
            complete(self.before, self.names[0]),
            complete(self.after, self.names[1]),
        ]
    }

    /// Returns the objects of both sides by key.
    pub(super) fn both<T, K: Ord>(
        &self,
        all: impl Fn(&'f Facts) -> &'f [T],
        database: impl Fn(&T) -> &str,
        key: impl Fn(&'f T) -> K,
    ) -> BTreeMap<K, [Option<&'f T>; 2]> {
        let mut both: BTreeMap<K, [Option<&'f T>; 2]> = BTreeMap::new();
        for (side, facts) in [self.before, self.after].into_iter().enumerate() {
            for one in all(facts) {
                if database(one) == self.names[side] {
                    both.entry(key(one)).or_default()[side] = Some(one);
                }
            }
        }
        both
    }

    pub(super) fn extensions(&self) -> Vec<ObjectDifference> {
        let complete = self.complete("extensions");
        let both = self.both::<ExtensionFact, _>(
            |facts| &facts.extensions,
            |one| &one.database,
            |one| one.name.clone(),
        );
        self.objects(both, complete, |one, other| {
            let mut details = Vec::new();
            differ(&mut details, "version", &one.version, &other.version);
            details
        })
    }

    pub(super) fn relations(&self) -> Vec<ObjectDifference> {
        let complete = self.complete("relations");
        self.objects(self.both_relations(), complete, relation)
    }

    pub(super) fn both_relations(&self) -> BTreeMap<String, [Option<&'f RelationFact>; 2]> {
        self.both::<RelationFact, _>(
            |facts| &facts.relations,
            |one| &one.database,
            |one| format!("{}.{}", one.schema, one.name),
        )
    }

    fn both_indexes(&self) -> BTreeMap<String, [Option<&'f IndexFact>; 2]> {
        self.both::<IndexFact, _>(
            |facts| &facts.indexes,
            |one| &one.database,
            |one| format!("{}.{}", one.schema, one.name),
        )
    }

    pub(super) fn objects<T>(
        &self,
        both: BTreeMap<String, [Option<&T>; 2]>,
        complete: [bool; 2],
        details: impl Fn(&T, &T) -> Vec<Detail>,
    ) -> Vec<ObjectDifference> {
        let found = both.into_iter().filter_map(|(name, sides)| {
            let (presence, details) = match sides {
                [Some(one), Some(other)] => (Presence::Differs, details(one, other)),
                [Some(_), None] if complete[1] => (Presence::OnlyBefore, Vec::new()),
                [None, Some(_)] if complete[0] => (Presence::OnlyAfter, Vec::new()),
                _ => return None,
            };
            (presence != Presence::Differs || !details.is_empty()).then(|| ObjectDifference {
                database: self.shown.to_owned(),
                name,
                presence,
                details,
            })
        });
        found.collect()
    }

    pub(super) fn indexes(&self) -> Vec<IndexDifference> {
        let complete = self.complete("indexes");
        let both = self.both_indexes();
        // Find objects that were renamed.
        let mut after_only: BTreeMap<String, Vec<&IndexFact>> = BTreeMap::new();
        for sides in both.values() {
            if let [None, Some(index)] = sides {
                after_only
                    .entry(without_name(&index.definition))
                    .or_default()
                    .push(index);
            }
        }
        let mut renamed = BTreeSet::new();
        let mut found = Vec::new();
        for sides in both.values() {
            let difference = match *sides {
                [Some(one), Some(other)] => {
                    let mut details = Vec::new();
                    differ(
                        &mut details,
                        "definition",
                        &one.definition,
                        &other.definition,
                    );
                    differ(
                        &mut details,
                        "primary key",
                        &one.key.is_primary(),
                        &other.key.is_primary(),
                    );
                    let tablespace = |index: &IndexFact| {
                        index
                            .tablespace
                            .clone()
                            .unwrap_or_else(|| "the default one".to_owned())
                    };
                    differ(
                        &mut details,
                        "tablespace",
                        &tablespace(one),
                        &tablespace(other),
                    );
                    if details.is_empty() {
                        continue;
                    }
                    self.index(one, Presence::Differs, details)
                }
                [Some(one), None] => {
                    let same = after_only.get_mut(&without_name(&one.definition));
                    match same.and_then(Vec::pop) {
                        Some(other) => {
                            renamed.insert(format!("{}.{}", other.schema, other.name));
                            let mut difference = self.index(one, Presence::Differs, Vec::new());
                            difference.renamed = Some(other.name.clone());
                            difference
                        }
                        None if complete[1] => self.index(one, Presence::OnlyBefore, Vec::new()),
                        None => continue,
                    }
                }
                _ => continue,
            };
            found.push(difference);
        }
        for (name, sides) in &both {
            if let [None, Some(other)] = *sides
                && complete[0]
                && !renamed.contains(name)
            {
                found.push(self.index(other, Presence::OnlyAfter, Vec::new()));
            }
        }
        found
    }

    fn index(
        &self,
        index: &IndexFact,
        presence: Presence,
        details: Vec<Detail>,
    ) -> IndexDifference {
        IndexDifference {
            database: self.shown.to_owned(),
            table: format!("{}.{}", index.schema, index.table),
            name: index.name.clone(),
            renamed: None,
            presence,
            definition: index.definition.clone(),
            details,
        }
    }

    pub(super) fn sizes(&self) -> Vec<SizeDifference> {
        let relations = self
            .both_relations()
            .into_iter()
            .filter_map(|(name, sides)| {
                let [Some(one), Some(other)] = sides else {
                    return None;
                };
                // Some relation kinds have no rows of their own to estimate.
                let (rows_before, rows_after) = match one.kind.as_str() {
                    "table" | "materialized view" => (one.rows, other.rows),
                    _ => (None, None),
                };
                Some(SizeDifference {
                    database: self.shown.to_owned(),
                    name,
                    index: false,
                    rows_before,
                    rows_after,
                    bytes_before: one.bytes,
                    bytes_after: other.bytes,
                })
            });
        let indexes = self.both_indexes().into_iter().filter_map(|(name, sides)| {
            let [Some(one), Some(other)] = sides else {
                return None;
            };
            Some(SizeDifference {
                database: self.shown.to_owned(),
                name,
                index: true,
                rows_before: None,
                rows_after: None,
                bytes_before: one.bytes,
                bytes_after: other.bytes,
            })
        });
        let notable = |one: &SizeDifference| {
            let some = one
                .bytes()
                .iter()
                .any(|bytes| bytes.is_none_or(|bytes| bytes > 0));
            factor(one.rows(), ROWS_MIN) > SIZE_FACTOR
                || factor(one.bytes(), BYTES_MIN) > SIZE_FACTOR
                || one.is_unanalysed() && some
        };
        relations.chain(indexes).filter(notable).collect()
    }
}

/// Returns the indexes of a side that queries cannot use.
pub(super) fn invalid(side: Side, facts: &Facts) -> Vec<InvalidIndex> {
    let invalid = facts.indexes.iter().filter(|index| !index.valid);
    invalid
        .map(|index| InvalidIndex {
            side,
            database: index.database.clone(),
            table: format!("{}.{}", index.schema, index.table),
            name: index.name.clone(),
            ready: index.ready,
        })
        .collect()
}

pub(super) fn differ<T: PartialEq + ToString>(
    details: &mut Vec<Detail>,
    what: &str,
    was: &T,
    is: &T,
) {
    if was != is {
        details.push(Detail {
            what: what.to_owned(),
            before: Some(was.to_string()),
            after: Some(is.to_string()),
        });
    }
}

fn relation(one: &RelationFact, other: &RelationFact) -> Vec<Detail> {
    let mut details = Vec::new();
    differ(&mut details, "kind", &one.kind, &other.kind);
    differ(
        &mut details,
        "persistence",
        &one.persistence,
        &other.persistence,
    );
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let part_of = |relation: &RelationFact| or_none(&relation.partition_of);
    differ(&mut details, "partition of", &part_of(one), &part_of(other));
    let key = |relation: &RelationFact| or_none(&relation.partition_key);
    differ(&mut details, "partitioned by", &key(one), &key(other));
    if let (Some(one), Some(other)) = (&one.partition_bound, &other.partition_bound) {
        differ(&mut details, "bounds", one, other);
    }
    let options = |relation: &RelationFact| match relation.options.is_empty() {
        true => "none".to_owned(),
        false => relation.options.join(", "),
    };
    differ(&mut details, "options", &options(one), &options(other));
    let sides = [one, other];
    column_details(
        &mut details,
        sides,
        |one| &one.columns,
        |name| format!("column {name}"),
    );
    let common = details.len();
    column_details(
        &mut details,
        sides,
        |one| &one.column_collations,
        |name| format!("{COLLATION_OF}{name}"),
    );
    column_details(
        &mut details,
        sides,
        |one| &one.column_statistics,
        |name| format!("statistics target of column {name}"),
    );
    // A column of one side only is named once.
    let added: Vec<Detail> = details.drain(common..).collect();
    let added = added.into_iter();
    details.extend(added.filter_map(|detail| {
        let or_default = |text: String| match text.is_empty() {
            true => "default".to_owned(),
            false => text,
        };
        Some(Detail {
            what: detail.what,
            before: Some(or_default(detail.before?)),
            after: Some(or_default(detail.after?)),
        })
    }));
    details
}

/// Beginning of the name of a detail on a column's collation.
pub(crate) const COLLATION_OF: &str = "collation of column ";

/// Adds the columns for which a list differs.
fn column_details(
    details: &mut Vec<Detail>,
    [one, other]: [&RelationFact; 2],
    list: fn(&RelationFact) -> &Vec<String>,
    what: impl Fn(&str) -> String,
) {
    let by_name = |relation: &RelationFact| -> BTreeMap<String, String> {
        let names = relation.column_names.iter().cloned();
        names.zip(list(relation).iter().cloned()).collect()
    };
    let (was, is) = (by_name(one), by_name(other));
    // A locked relation has no columns in the facts, and an older run lacks some lists.
    let known = !was.is_empty() && !is.is_empty();
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).filter(|_| known).collect();
    for name in names {
        if was.get(name) != is.get(name) {
            details.push(Detail {
                what: what(name),
                before: was.get(name).cloned(),
                after: is.get(name).cloned(),
            });
        }
    }
}

/// Returns an index definition without the index name: `CREATE UNIQUE INDEX … ON …`.
fn without_name(definition: &str) -> String {
    let Some((head, rest)) = definition.split_once(" INDEX ") else {
        return definition.to_owned();
    };
    let name_ends = match rest.strip_prefix('"') {
        // A quote within the name is doubled.
        Some(quoted) => {
            let mut ends = None;
            let mut characters = quoted.char_indices().peekable();
            while let Some((at, character)) = characters.next() {
                if character == '"' && characters.next_if(|(_, next)| *next == '"').is_none() {
                    ends = Some(at + 2);
                    break;
                }
            }
            ends
        }
        None => rest.find(' '),
    };
    let rest = name_ends.and_then(|end| rest.get(end..)).unwrap_or(rest);
    format!("{head} INDEX{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_compared_without_names() {
        for (one, other) in [
            (
                "CREATE INDEX a ON public.t USING btree (x)",
                "CREATE INDEX b_2 ON public.t USING btree (x)",
            ),
            (
                "CREATE UNIQUE INDEX \"a \"\" ON b\" ON public.t USING btree (x)",
                "CREATE UNIQUE INDEX c ON public.t USING btree (x)",
            ),
        ] {
            assert_eq!(without_name(one), without_name(other));
        }
        assert_ne!(
            without_name("CREATE INDEX a ON t USING btree (x)"),
            without_name("CREATE UNIQUE INDEX a ON t USING btree (x)")
        );
    }
}
