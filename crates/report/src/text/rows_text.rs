//! Text on rows that differ between two sides.

use compare::{CountBound, RowsChange, RowsComparison, RowsReason, ValueChange, ValueDifference};

use crate::text::units::{count, counted};

/// Maximum number of differing columns that are named.
const COLUMNS_MAX: usize = 6;

/// Counts what differs: `other values in 6 of 168 executions (at least 6 rows)`.
pub(crate) fn rows_change_text(change: &RowsChange) -> String {
    let differing = &change.differing;
    let least = match differing.bound {
        CountBound::Exact => "",
        CountBound::AtLeast => "at least ",
    };
    let of = |differing: u64| {
        let executions = counted(change.compared, "execution");
        format!("{least}{} of {executions}", count(differing))
    };
    let rows = counted(differing.other_values, "row");
    match (differing.other_counts, differing.other_values) {
        (0, values) => format!("other values in {} (at least {rows})", of(values)),
        (counts, values) => {
            let rows_after = counted(change.after, "row");
            let also = match values {
                0 => String::new(),
                values => format!(
                    ", other values in {least}{} (at least {rows})",
                    count(values)
                ),
            };
            format!(
                "other numbers of rows in {}: {} → {rows_after} in all{also}",
                of(counts),
                count(change.before)
            )
        }
    }
}

/// Names the statements whose rows were not compared.
pub(crate) fn uncompared_rows_text(rows: &RowsComparison) -> Option<String> {
    let patterns: Vec<String> = rows.ignored.iter().map(|one| format!("'{one}'")).collect();
    let ignored = (!patterns.is_empty()).then(|| {
        format!(
            "Rows of statements that match {} were not compared (--ignore-rows).",
            patterns.join(" or ")
        )
    });
    let columns = ignored_columns_text(rows);
    let incomplete = (rows.incomplete > 0).then(|| {
        format!(
            "Some executions of {} could not be compared, and no other rows were found in the rest.",
            counted(rows.incomplete as u64, "statement")
        )
    });
    let texts: Vec<String> = [ignored, columns, incomplete]
        .into_iter()
        .flatten()
        .collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// Names the ignored columns, and what could not be ignored.
fn ignored_columns_text(rows: &RowsComparison) -> Option<String> {
    if rows.ignored_columns.is_empty() {
        return None;
    }
    let names = |differs: bool| {
        let columns = rows.ignored_columns.iter();
        let columns = columns.filter(|one| one.differs == differs);
        let names: Vec<String> = columns.map(|one| format!("'{}'", one.column)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let ignored = names(true).map(|names| {
        let executions = counted(rows.ignored_executions, "execution");
        format!("Values of {names} were not compared (--ignore-columns); nothing else differs in {executions}.")
    });
    let equal =
        names(false).map(|names| format!("--ignore-columns {names}: no such column differs."));
    let without: u64 = rows
        .changes
        .iter()
        .map(|change| change.without_columns)
        .sum();
    let without = (without > 0).then(|| {
        format!(
            "{} cannot be ignored by columns, since a run has no checksums of them: replay with --checksum-results columns.",
            counted(without, "differing execution")
        )
    });
    let texts: Vec<String> = [ignored, equal, without].into_iter().flatten().collect();
    Some(texts.join(" "))
}

/// Names the differing columns, with an example: `price (int4) in 6; in session 3, event 17: price 30 → 31`.
pub(crate) fn rows_columns_text(change: &RowsChange) -> Option<String> {
    if change.columns.is_empty() {
        return None;
    }
    let named = change.columns.iter().take(COLUMNS_MAX).map(|one| {
        let r#type = one.r#type.as_ref().map(|name| format!(" ({name})"));
        format!(
            "{}{} in {}",
            one.column,
            r#type.unwrap_or_default(),
            count(one.executions)
        )
    });
    let mut text = format!(
        "columns that differ: {}",
        named.collect::<Vec<_>>().join(", ")
    );
    if change.columns.len() > COLUMNS_MAX {
        text += &format!(" and {} more", change.columns.len() - COLUMNS_MAX);
    }
    if let Some(example) = &change.example {
        let values: Vec<String> = example.columns.iter().map(value_text).collect();
        text += &format!(
            "; a row in session {}, event {}: {}",
            example.place.session,
            example.place.sequence,
            values.join(", ")
        );
    }
    Some(text)
}

fn value_text(change: &ValueChange) -> String {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "NULL".to_owned());
    let difference = match change.difference {
        ValueDifference::NullBefore => "NULL before only".to_owned(),
        ValueDifference::NullAfter => "NULL after only".to_owned(),
        ValueDifference::Rounding => "a number rounded differently".to_owned(),
        ValueDifference::Number => "another number".to_owned(),
        ValueDifference::Case => "other case".to_owned(),
        ValueDifference::WhiteSpace => "other white space".to_owned(),
        ValueDifference::Text { before, after } => {
            format!("another text of {before} → {after} characters")
        }
    };
    match change.before.is_some() || change.after.is_some() {
        true => format!(
            "{} {} → {}",
            change.column,
            value(&change.before),
            value(&change.after)
        ),
        false => format!("{}: {difference}", change.column),
    }
}

/// Returns the place of the first execution that differs, and the known reasons.
pub(crate) fn rows_reason_text(change: &RowsChange) -> String {
    let mut parts = Vec::new();
    if let Some(first) = change.differing.first {
        parts.push(format!(
            "first in session {}, event {}",
            first.session, first.sequence
        ));
    }
    if change.unsteady {
        parts.push("differs between runs of one side too".to_owned());
    }
    let reasons: Vec<String> = change.reasons.iter().map(reason).collect();
    parts.push(match reasons.is_empty() {
        false => format!("may be because {}", reasons.join("; or ")),
        true if change.unsteady => {
            "by chance, or because sessions interleaved differently".to_owned()
        }
        true => "nothing known explains it: probably really wrong".to_owned(),
    });
    parts.join("; ")
}

fn reason(reason: &RowsReason) -> String {
    match reason {
        RowsReason::FunctionDiffers { function } => {
            format!("the function {function} has another source on the two targets")
        }
        RowsReason::Collation { of } => format!("the collation of {of} differs"),
        RowsReason::FloatOutput => {
            "the servers print floating-point numbers with different precision".to_owned()
        }
        RowsReason::Setting { name } => format!("the setting {name} differs"),
        RowsReason::Volatile { name } => {
            format!("the value of {name} depends on the moment, on chance or on the server")
        }
        RowsReason::FloatSum => {
            "the sum of floating-point numbers depends on the order of rows".to_owned()
        }
        RowsReason::AggregateOrder { function } => {
            format!("{function} depends on the order of rows, and has none")
        }
        RowsReason::LimitWithoutOrder => "it has a LIMIT and no ORDER BY".to_owned(),
        RowsReason::Ties => {
            "its ORDER BY with a LIMIT leaves the choice among rows with equal keys open".to_owned()
        }
        RowsReason::Generated => "RETURNING may have values that the server generates".to_owned(),
        RowsReason::ConcurrentWrites { table } => format!(
            "the workload writes to {table}, and its sessions interleave differently in each replay"
        ),
    }
}

#[cfg(test)]
mod tests {
    use compare::{DifferingExecutions, ExecutionPlace};
    use sql::Fingerprint;

    use super::*;

    fn change(differing: DifferingExecutions) -> RowsChange {
        RowsChange {
            fingerprint: Fingerprint(1),
            sql: None,
            compared: 168,
            before: 160,
            after: 158,
            differing,
            columns: Vec::new(),
            without_columns: 0,
            example: None,
            reasons: Vec::new(),
            only_values: differing.other_counts == 0,
            unsteady: false,
        }
    }

    #[test]
    fn differing_executions_and_the_least_number_of_rows_are_printed() {
        let values = DifferingExecutions {
            other_values: 6,
            bound: CountBound::Exact,
            ..DifferingExecutions::default()
        };
        let text = rows_change_text(&change(values));
        assert_eq!(
            text,
            "other values in 6 of 168 executions (at least 6 rows)"
        );
        let both = DifferingExecutions {
            other_counts: 1,
            other_values: 1,
            bound: CountBound::AtLeast,
            first: None,
        };
        assert_eq!(
            rows_change_text(&change(both)),
            "other numbers of rows in at least 1 of 168 executions: 160 → 158 rows in all, \
             other values in at least 1 (at least 1 row)"
        );
    }

    #[test]
    fn place_and_reasons_are_printed() {
        let mut change = change(DifferingExecutions {
            first: Some(ExecutionPlace {
                session: 3,
                sequence: 17,
            }),
            ..DifferingExecutions::default()
        });
        assert_eq!(
            rows_reason_text(&change),
            "first in session 3, event 17; nothing known explains it: probably really wrong"
        );
        change.reasons = vec![RowsReason::LimitWithoutOrder, RowsReason::FloatOutput];
        assert_eq!(
            rows_reason_text(&change),
            "first in session 3, event 17; may be because it has a LIMIT and no ORDER BY; or the \
             servers print floating-point numbers with different precision"
        );
    }
}
