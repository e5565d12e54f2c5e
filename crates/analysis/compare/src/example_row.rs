//! One row that differs between two runs.

use std::borrow::Cow;
use std::collections::HashMap;

use protocol::backend::DataRow;
use run::ResultColumns;
use schemars::JsonSchema;
use serde::Serialize;
use workload::{Literals, binary_value_text, hex_digits};

use crate::differing_columns::{column_name, column_type};
use crate::differing_executions::ExecutionPlace;

/// Greatest relative difference of two numbers that rounding explains: 15 significant digits are kept by every
/// conversion of a double-precision number (`DBL_DIG`), 6 by one of single precision (`FLT_DIG`).
const ROUNDING: [f64; 2] = [1e-14, 1e-5];
/// Maximum number of columns in an example.
const COLUMNS_MAX: usize = 10;
/// Maximum number of characters of a value in an example.
const VALUE_CHARS_MAX: usize = 200;

/// A row of an execution in both runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RowExample {
    /// Execution that returned it.
    #[serde(flatten)]
    pub place: ExecutionPlace,
    /// Its differing columns, without ignored ones.
    pub columns: Vec<ValueChange>,
}

/// A value that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ValueChange {
    /// Name of the column.
    pub column: String,
    /// Name of its type, or its OID; `null` if it is not known.
    pub r#type: Option<String>,
    /// How the values differ.
    pub difference: ValueDifference,
    /// Value before; `null` if it is NULL, or not shown.
    pub before: Option<String>,
    /// Value after; `null` if it is NULL, or not shown.
    pub after: Option<String>,
}

/// How two values differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ValueDifference {
    /// NULL before only.
    NullBefore,
    /// NULL after only.
    NullAfter,
    /// Numbers that differ by no more than rounding explains.
    Rounding,
    /// Other numbers.
    Number,
    /// The letters are the same in another case.
    Case,
    /// Only white space differs.
    WhiteSpace,
    /// Other texts.
    Text {
        /// Characters before.
        before: usize,
        /// Characters after.
        after: usize,
    },
}

/// Finds a row that differs in some of the `differing` columns and in no other: among the kept rows of which the other
/// run has no equal one, the pair that differs in the fewest columns.
pub(crate) fn find_example(
    place: ExecutionPlace,
    before: &ResultColumns,
    after: &ResultColumns,
    differing: &[usize],
    literals: Literals,
) -> Option<RowExample> {
    let [one, other] =
        [(before, after), (after, before)].map(|(side, other)| unmatched(side, other));
    let pairs = one
        .iter()
        .flat_map(|one| other.iter().map(move |other| (one, other)));
    let pairs = pairs.filter_map(|(one, other)| {
        let columns = one.iter().zip(other).enumerate();
        let columns = columns.filter(|(_, (one, other))| one != other);
        let columns: Vec<usize> = columns.map(|(at, _)| at).collect();
        let kept: Vec<usize> = columns
            .iter()
            .copied()
            .filter(|at| differing.contains(at))
            .collect();
        (!kept.is_empty()).then_some((columns.len(), kept, one, other))
    });
    let (_, kept, one, other) = pairs.min_by_key(|(columns, ..)| *columns)?;
    let change = |at: usize| {
        let [one_text, other_text] =
            [(before, one), (after, other)].map(|(side, row)| value_text(side, at, row[at]));
        let difference = difference(one_text.as_deref(), other_text.as_deref());
        let shown = |text: Option<Cow<'_, str>>| match literals {
            Literals::Shown => text.map(|text| text.chars().take(VALUE_CHARS_MAX).collect()),
            Literals::Hidden => None,
        };
        ValueChange {
            column: column_name(before, after, at),
            r#type: column_type(before, at),
            difference,
            before: shown(one_text),
            after: shown(other_text),
        }
    };
    let columns = kept.into_iter().take(COLUMNS_MAX).map(change).collect();
    Some(RowExample { place, columns })
}

type RowValues<'r> = Vec<Option<&'r [u8]>>;

/// Returns the kept rows of which the other run has no equal one.
fn unmatched<'r>(side: &'r ResultColumns, other: &ResultColumns) -> Vec<RowValues<'r>> {
    let mut equal: HashMap<&[u8], usize> = HashMap::new();
    for row in &other.kept_rows {
        *equal.entry(row).or_default() += 1;
    }
    let rows = side
        .kept_rows
        .iter()
        .filter(|row| match equal.get_mut(&***row) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        });
    let values = rows.filter_map(|row| Some(DataRow::decode(row).ok()?.columns.iter().collect()));
    let is_complete = |values: &RowValues<'_>| values.len() == side.digests.len();
    values.filter(is_complete).collect()
}

fn value_text<'v>(
    columns: &ResultColumns,
    at: usize,
    value: Option<&'v [u8]>,
) -> Option<Cow<'v, str>> {
    let value = value?;
    if columns.formats.get(at) == Some(&1) {
        let text = binary_value_text(columns.types[at], value);
        return Some(
            text.unwrap_or_else(|| format!("\\x{}", hex_digits(value)))
                .into(),
        );
    }
    Some(match std::str::from_utf8(value) {
        Ok(text) => text.into(),
        Err(_) => format!("\\x{}", hex_digits(value)).into(),
    })
}

fn difference(before: Option<&str>, after: Option<&str>) -> ValueDifference {
    let (before, after) = match (before, after) {
        (None, _) => return ValueDifference::NullBefore,
        (_, None) => return ValueDifference::NullAfter,
        (Some(before), Some(after)) => (before, after),
    };
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let numbers = before.parse::<f64>().ok().zip(after.parse::<f64>().ok());
    match numbers {
        Some((one, other)) if is_rounding(before, after, one, other) => ValueDifference::Rounding,
        Some(_) => ValueDifference::Number,
        None if squeezed(before) == squeezed(after) => ValueDifference::WhiteSpace,
        None if before.to_lowercase() == after.to_lowercase() => ValueDifference::Case,
        None => ValueDifference::Text {
            before: before.chars().count(),
            after: after.chars().count(),
        },
    }
}

/// Whether two numbers differ by rounding: as much as the shorter one's digits allow.
fn is_rounding(before: &str, after: &str, one: f64, other: f64) -> bool {
    let is_fraction = |text: &str| text.contains(['.', 'e', 'E']);
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).count();
    let limit = match digits(before).min(digits(after)) {
        15.. => ROUNDING[0],
        6.. => ROUNDING[1],
        _ => 0.0,
    };
    (is_fraction(before) || is_fraction(after))
        && (one - other).abs() <= limit * one.abs().max(other.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[Option<&str>]) -> Box<[u8]> {
        let mut row = (values.len() as u16).to_be_bytes().to_vec();
        for value in values {
            let length = value.map_or(-1, |value| value.len() as i32);
            row.extend(length.to_be_bytes());
            row.extend(value.unwrap_or_default().as_bytes());
        }
        row.into()
    }

    fn columns(rows: &[&[Option<&str>]]) -> ResultColumns {
        ResultColumns {
            digests: vec![0; 2],
            names: vec!["id".into(), "name".into()],
            types: vec![23, 25],
            formats: vec![0, 0],
            kept_rows: rows.iter().map(|values| row(values)).collect(),
            ..ResultColumns::default()
        }
    }

    const PLACE: ExecutionPlace = ExecutionPlace {
        session: 1,
        sequence: 2,
    };

    #[test]
    fn example_is_the_pair_of_rows_with_the_fewest_differing_columns() {
        let before = columns(&[
            &[Some("1"), Some("ann")],
            &[Some("2"), Some("bob")],
            &[Some("3"), Some("cid")],
        ]);
        let after = columns(&[
            &[Some("3"), Some("CID")],
            &[Some("2"), None],
            &[Some("1"), Some("ann")],
        ]);
        let shown = find_example(PLACE, &before, &after, &[1], Literals::Shown).unwrap();
        let [change] = &shown.columns[..] else {
            panic!("{shown:?}")
        };
        assert_eq!(
            (&*change.column, change.r#type.as_deref()),
            ("name", Some("text"))
        );
        assert_eq!(change.difference, ValueDifference::NullAfter);
        assert_eq!(
            (change.before.as_deref(), change.after.as_deref()),
            (Some("bob"), None)
        );
        let hidden = find_example(PLACE, &before, &after, &[1], Literals::Hidden).unwrap();
        assert_eq!(hidden.columns[0].before, None);
        assert_eq!(hidden.columns[0].difference, ValueDifference::NullAfter);
    }

    #[test]
    fn rows_that_differ_in_ignored_columns_only_are_no_example() {
        let before = columns(&[&[Some("1"), Some("ann")]]);
        let after = columns(&[&[Some("1"), Some("bob")]]);
        assert_eq!(
            find_example(PLACE, &before, &after, &[0], Literals::Shown),
            None
        );
    }

    #[test]
    fn difference_names_how_values_differ() {
        for (before, after, expected) in [
            ("1.23456", "1.23457", ValueDifference::Rounding),
            ("0.1", "0.2", ValueDifference::Number),
            ("1000000", "1000001", ValueDifference::Number),
            ("a b", "a  b", ValueDifference::WhiteSpace),
            ("ab", "AB", ValueDifference::Case),
            (
                "ab",
                "xyz",
                ValueDifference::Text {
                    before: 2,
                    after: 3,
                },
            ),
        ] {
            assert_eq!(
                difference(Some(before), Some(after)),
                expected,
                "{before} {after}"
            );
        }
        assert_eq!(difference(None, Some("1")), ValueDifference::NullBefore);
    }
}
