//! Masked values in statistics.
//!
//! Each value gets the replacement that the workload's masking gives it, so that a masked constant equals the same most
//! common value. Lists that the planner searches by order (histograms, elements of arrays, ends of indexes) are sorted
//! again by the exported server, which has the types and collations. Shares, numbers of distinct values and correlations
//! stay.

use std::collections::HashMap;

use crate::array_text;
use crate::document::StatisticsSlot;
use crate::error::PlannerCopyError;
use crate::exporter::Exporter;
use crate::quoting::quote_literal;
use crate::range_text;
use crate::statistics_queries;

/// Replacement of values, with a key.
pub struct ValueMask<'a> {
    /// Fingerprint of the key.
    pub key: String,
    /// Returns the replacement of one value in text form. It never gets a list of values: a value that it keeps by a pattern
    /// would keep all others.
    pub replace: &'a dyn Fn(&str) -> String,
}

/// Number of lists that one query sorts.
const BATCH: usize = 50;

/// Empty name, which the server refuses, so that the values are removed.
const REFUSED: &str = "\"\"";

/// Kinds of slots (`pg_statistic.h`).
mod kind {
    pub(super) const MOST_COMMON: i16 = 1;
    pub(super) const HISTOGRAM: i16 = 2;
    pub(super) const CORRELATION: i16 = 3;
    pub(super) const ELEMENTS: i16 = 4;
    pub(super) const ELEMENT_COUNTS: i16 = 5;
    pub(super) const RANGE_LENGTHS: i16 = 6;
    pub(super) const RANGE_BOUNDS: i16 = 7;
}

/// Place of masked values in the export.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Column and slot.
    Slot(usize, usize),
    /// Smallest and largest value of a column.
    Ends(usize),
}

/// Query that orders the masked values of one place: two texts.
struct Ordering {
    place: Place,
    sql: String,
}

/// Facts about columns and types.
#[derive(Default)]
struct TypeFacts {
    /// `COLLATE` clause of a column, if it differs from that of the type; by schema, relation and number.
    collations: HashMap<(String, String, i16), String>,
    /// Columns of the type tsvector, whose elements have an order of their own.
    text_search: Vec<(String, String, i16)>,
    types: HashMap<String, TypeFact>,
}

/// Facts about the type of values.
struct TypeFact {
    /// Whether the values are labels of the schema.
    is_label: bool,
    /// Type to cast a text to; `None` if that would execute code of the database.
    base: Option<String>,
    /// Type of a range's bounds.
    subtype: Option<String>,
}

/// Masks all values of the export's statistics. Values for which the server refuses the replacement are left out, and
/// listed in the export.
pub(crate) fn mask_statistics(
    exporter: &mut Exporter<'_>,
    mask: &ValueMask<'_>,
) -> Result<(), PlannerCopyError> {
    let facts = read_facts(exporter)?;
    let mut orderings = Vec::new();
    let mut unknown = Vec::new();
    for at in 0..exporter.export.statistics.len() {
        let column = &exporter.export.statistics[at];
        let key = (
            column.schema.clone(),
            column.relation.clone(),
            column.number,
        );
        let collation = facts.collations.get(&key).map_or("", String::as_str);
        let is_text_search = facts.text_search.contains(&key);
        for (slot_at, slot) in column.slots.iter().enumerate() {
            let place = Place::Slot(at, slot_at);
            match slot_query(slot, &facts, mask, (collation, is_text_search)) {
                SlotQuery::Unchanged => {}
                SlotQuery::Unknown => unknown.push(place),
                SlotQuery::Order(sql) => orderings.push(Ordering { place, sql }),
            }
        }
        if let Some(sql) = ends_query(column, &facts, mask, collation) {
            let place = Place::Ends(at);
            orderings.push(Ordering { place, sql });
        }
    }
    let mut removed = unknown;
    for batch in orderings.chunks(BATCH) {
        removed.extend(order(exporter, batch)?);
    }
    remove(exporter, removed);
    // A masked value may fail the checks of its domain.
    for column in &mut exporter.export.statistics {
        for slot in &mut column.slots {
            let known = slot.value_type.as_ref().map(|name| facts.types.get(name));
            if let Some(TypeFact {
                is_label: false,
                base: Some(base),
                ..
            }) = known.flatten()
            {
                slot.value_type = Some(base.clone());
            }
        }
    }
    mask_combinations(exporter, mask)
}

fn read_facts(exporter: &mut Exporter<'_>) -> Result<TypeFacts, PlannerCopyError> {
    let mut facts = TypeFacts::default();
    for row in exporter.query("collations", &statistics_queries::column_orders())? {
        let [
            Some(schema),
            Some(relation),
            Some(number),
            collation,
            Some(is_text_search),
        ] = &row[..]
        else {
            continue;
        };
        let key = (
            schema.clone(),
            relation.clone(),
            number.parse().unwrap_or(0),
        );
        if is_text_search == "t" {
            facts.text_search.push(key.clone());
        }
        if let Some(collation) = collation {
            facts.collations.insert(key, collation.clone());
        }
    }
    let slots = exporter.export.statistics.iter().flat_map(|one| &one.slots);
    let mut names: Vec<&str> = slots
        .filter_map(|slot| slot.value_type.as_deref())
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(facts);
    }
    let sql = statistics_queries::value_types(&names);
    for row in exporter.query("types", &sql)? {
        if let [Some(name), Some(is_label), base, subtype] = &row[..] {
            let known = TypeFact {
                is_label: is_label == "t",
                base: base.clone(),
                subtype: subtype.clone(),
            };
            facts.types.insert(name.clone(), known);
        }
    }
    Ok(facts)
}

enum SlotQuery {
    /// It has no values of people.
    Unchanged,
    /// Its contents are unknown.
    Unknown,
    /// Query for the ordered values, and for the numbers if they move.
    Order(String),
}

fn slot_query(
    slot: &StatisticsSlot,
    facts: &TypeFacts,
    mask: &ValueMask<'_>,
    (collation, is_text_search): (&str, bool),
) -> SlotQuery {
    let order = match slot.kind {
        kind::CORRELATION | kind::ELEMENT_COUNTS => return SlotQuery::Unchanged,
        kind::MOST_COMMON..=kind::RANGE_BOUNDS => slot.kind,
        // Extensions write numbers, such as borders of areas, which are data.
        _ => return SlotQuery::Unknown,
    };
    let (Some(values), Some(value_type)) = (&slot.values, &slot.value_type) else {
        return SlotQuery::Unchanged;
    };
    let Some(known) = facts.types.get(value_type) else {
        return SlotQuery::Unknown;
    };
    if known.is_label {
        return SlotQuery::Unchanged;
    }
    let Some(value_type) = &known.base else {
        return SlotQuery::Unknown;
    };
    if order == kind::RANGE_BOUNDS {
        let bounds = known.subtype.as_ref().and_then(|subtype| {
            let bounds = range_text::bounds(values)?;
            Some(range_query(value_type, subtype, bounds, mask))
        });
        return bounds.map_or(SlotQuery::Unknown, SlotQuery::Order);
    }
    let key = match order {
        // The cast refuses a replacement that is no value of the type.
        kind::MOST_COMMON => format!("o, v::{value_type}"),
        // `compare_lexeme_textfreq` in `ts_selfuncs.c`.
        kind::ELEMENTS if is_text_search => {
            "octet_length(v), v COLLATE pg_catalog.\"C\"".to_owned()
        }
        kind::RANGE_LENGTHS => format!("v::{value_type}"),
        _ => format!("v::{value_type} {collation}"),
    };
    let numbers = match (&slot.numbers, order) {
        // One for each element; those after them are of the whole column.
        (Some(numbers), kind::ELEMENTS) => {
            let numbers = format!("({}::real[])", quote_literal(numbers));
            format!(
                "(array_agg({numbers}[o] ORDER BY {key}) || {numbers}[(count(*) + 1)::int:])::text"
            )
        }
        _ => "NULL::text".to_owned(),
    };
    let Some(masked) = masked_list(values, mask) else {
        return SlotQuery::Unknown;
    };
    SlotQuery::Order(format!(
        "array_agg(v ORDER BY {key})::text, {numbers} FROM unnest({masked}) WITH ORDINALITY AS t (v, o)"
    ))
}

/// Returns an expression for the replacements of the elements of an array in text form. Returns `None` for another text.
fn masked_list(values: &str, mask: &ValueMask<'_>) -> Option<String> {
    let masked = array_text::elements(values)?.into_iter();
    let masked: Vec<Option<String>> = masked
        .map(|value| value.map(|value| (mask.replace)(&value)))
        .collect();
    Some(list_literal(&masked))
}

/// Returns a list of texts as one constant. The server would keep each constant of a constructor `ARRAY[...]` separately.
fn list_literal(values: &[Option<String>]) -> String {
    format!("{}::text[]", quote_literal(&array_text::write(values)))
}

/// Returns the query for the bounds of ranges. Lower and upper bounds are two ascending lists (`compute_range_stats`).
fn range_query(
    value_type: &str,
    subtype: &str,
    bounds: Vec<range_text::Bounds>,
    mask: &ValueMask<'_>,
) -> String {
    let masked = |value: Option<String>| value.map(|value| (mask.replace)(&value));
    let list = |values: &[Option<String>], order: &str| {
        format!(
            "(SELECT array_agg(v::{subtype} ORDER BY v::{subtype} {order}) FROM unnest({}) v)",
            list_literal(values)
        )
    };
    let bounds = bounds.into_iter();
    let (lower, upper): (Vec<_>, Vec<_>) = bounds
        .map(|(lower, upper)| (masked(lower), masked(upper)))
        .unzip();
    format!(
        "array_agg(CASE WHEN l[i] > u[i] THEN {value_type}(u[i], l[i], '[]') ELSE {value_type}(l[i], u[i], '[]') END ORDER BY i)::text, \
         NULL::text FROM (SELECT {} AS l, {} AS u) AS bounds, generate_series(1, {}) AS i",
        list(&lower, "NULLS FIRST"),
        list(&upper, "NULLS LAST"),
        lower.len()
    )
}

/// Returns the query for the smallest and the largest value of a column: of its masked ends and its masked histogram.
fn ends_query(
    column: &crate::document::ColumnStatistics,
    facts: &TypeFacts,
    mask: &ValueMask<'_>,
    collation: &str,
) -> Option<String> {
    let (low, high) = column.range.as_ref()?;
    let mut slots = column.slots.iter();
    let histogram = slots.find(|slot| slot.kind == kind::HISTOGRAM)?;
    let (values, value_type) = (histogram.values.as_ref()?, histogram.value_type.as_ref()?);
    let known = facts.types.get(value_type)?;
    if known.is_label {
        return None;
    }
    let value_type = known.base.as_deref().unwrap_or(REFUSED);
    let [low, high] = [low, high].map(|end| quote_literal(&(mask.replace)(end)));
    let masked = masked_list(values, mask).unwrap_or_else(|| REFUSED.to_owned());
    let key = format!("v::{value_type} {collation}");
    Some(format!(
        "(array_agg(v ORDER BY {key}))[1], (array_agg(v ORDER BY {key} DESC))[1] \
         FROM unnest({masked} || ARRAY[{low}, {high}]::text[]) v"
    ))
}

/// Orders a batch of lists, and returns the places whose replacements the server refuses.
fn order(exporter: &mut Exporter<'_>, batch: &[Ordering]) -> Result<Vec<Place>, PlannerCopyError> {
    let queries: Vec<String> = (0..)
        .zip(batch)
        .map(|(at, one)| format!("(SELECT {at}, {})", one.sql))
        .collect();
    let Ok(rows) = exporter.attempt(&queries.join(" UNION ALL "))? else {
        if let [one] = batch {
            return Ok(vec![one.place]);
        }
        let mut refused = Vec::new();
        for one in batch.chunks(1) {
            refused.extend(order(exporter, one)?);
        }
        return Ok(refused);
    };
    for row in rows {
        let [Some(at), first, second] = &row[..] else {
            continue;
        };
        let Some(one) = at.parse().ok().and_then(|at: usize| batch.get(at)) else {
            continue;
        };
        match one.place {
            Place::Slot(column, slot) => {
                let slot = &mut exporter.export.statistics[column].slots[slot];
                slot.values.clone_from(first);
                if second.is_some() {
                    slot.numbers.clone_from(second);
                }
            }
            Place::Ends(column) => {
                exporter.export.statistics[column].range = first.clone().zip(second.clone());
            }
        }
    }
    Ok(Vec::new())
}

/// Removes values that are not masked.
fn remove(exporter: &mut Exporter<'_>, mut places: Vec<Place>) {
    // The last slot first, so that numbers of slots stay.
    places.sort_by_key(|place| match place {
        Place::Slot(_, slot) => std::cmp::Reverse(*slot),
        Place::Ends(_) => std::cmp::Reverse(0),
    });
    for place in places {
        let (column, part) = match place {
            Place::Slot(column, slot) => {
                let column = &mut exporter.export.statistics[column];
                let slot = column.slots.remove(slot);
                (column, format!("statistics of the kind {}", slot.kind))
            }
            Place::Ends(column) => {
                let column = &mut exporter.export.statistics[column];
                column.range = None;
                (column, "smallest and largest value".to_owned())
            }
        };
        let name = column.describe();
        exporter.not_exported(
            format!("{part} of {name}"),
            "a masked value is no value of the type, masking does not know this kind, or a cast to the type may execute code",
        );
    }
}

/// Masks the combinations of extended statistics.
fn mask_combinations(
    exporter: &mut Exporter<'_>,
    mask: &ValueMask<'_>,
) -> Result<(), PlannerCopyError> {
    if exporter.export.extended_statistics.is_empty() {
        return Ok(());
    }
    let mut labels: HashMap<(String, String), Vec<bool>> = HashMap::new();
    let rows = exporter.query(
        "types of extended statistics",
        &statistics_queries::extended_labels(),
    )?;
    for row in rows {
        if let [Some(schema), Some(name), Some(flags)] = &row[..] {
            let flags = serde_json::from_str(flags).unwrap_or_default();
            labels.insert((schema.clone(), name.clone()), flags);
        }
    }
    for one in &mut exporter.export.extended_statistics {
        let key = (one.schema.clone(), one.name.clone());
        let are_labels = labels.get(&key).map_or(&[][..], Vec::as_slice);
        for item in one.combinations.iter_mut().flatten() {
            for (dimension, value) in item.values.iter_mut().enumerate() {
                if are_labels.get(dimension) != Some(&true)
                    && let Some(text) = value
                {
                    *text = (mask.replace)(text);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::ColumnStatistics;

    /// Mask that keeps a text with `test` in it, as `--mask-keep '*test*'` does.
    fn replace(text: &str) -> String {
        match text.contains("test") {
            true => text.to_owned(),
            false => "masked".to_owned(),
        }
    }

    fn slot(kind: i16, values: &str) -> StatisticsSlot {
        StatisticsSlot {
            kind,
            operator: None,
            numbers: Some("{0.5,0.3}".to_owned()),
            values: Some(values.to_owned()),
            value_type: Some("text".to_owned()),
        }
    }

    fn facts() -> TypeFacts {
        let mut facts = TypeFacts::default();
        let text = TypeFact {
            is_label: false,
            base: Some("text".to_owned()),
            subtype: None,
        };
        facts.types.insert("text".to_owned(), text);
        facts
    }

    fn column(histogram: &str) -> ColumnStatistics {
        ColumnStatistics {
            schema: "s".to_owned(),
            relation: "t".to_owned(),
            column: Some("c".to_owned()),
            number: 1,
            inherited: false,
            null_fraction: 0.0,
            width: 8,
            distinct: -1.0,
            slots: vec![slot(kind::HISTOGRAM, histogram)],
            range: Some(("anna".to_owned(), "zoe".to_owned())),
        }
    }

    #[test]
    fn kept_element_of_a_list_keeps_no_other_element() {
        let mask = ValueMask {
            key: String::new(),
            replace: &replace,
        };
        let values = r#"{anna@example.com,"b \"x\"",tester@example.com}"#;
        for number in [kind::MOST_COMMON, kind::HISTOGRAM, kind::ELEMENTS] {
            let query = slot_query(&slot(number, values), &facts(), &mask, ("", false));
            let SlotQuery::Order(sql) = query else {
                panic!("the list of the kind {number} is not masked");
            };
            // One constant for all values.
            let expected = "unnest('{\"masked\",\"masked\",\"tester@example.com\"}'::text[])";
            assert!(sql.contains(expected), "{sql}");
        }
        let sql = ends_query(&column(values), &facts(), &mask, "").unwrap();
        assert!(!sql.contains("anna") && !sql.contains("zoe"), "{sql}");
    }

    #[test]
    fn list_that_cannot_be_read_is_removed_with_its_ends() {
        let mask = ValueMask {
            key: String::new(),
            replace: &replace,
        };
        let values = "{{anna},{tester}}";
        let list = slot(kind::HISTOGRAM, values);
        let query = slot_query(&list, &facts(), &mask, ("", false));
        assert!(matches!(query, SlotQuery::Unknown));
        let sql = ends_query(&column(values), &facts(), &mask, "").unwrap();
        assert!(sql.contains(&format!("unnest({REFUSED} ||")), "{sql}");
    }
}
