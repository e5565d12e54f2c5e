//! Text on the conditions of `--fail-on`.

use compare::condition::{ConditionOutcome, Kind, MeasuredQuantity};

use crate::text::line::{cut, one_line, statement_name};
use crate::text::style::{TextStyle, Tone};
use crate::text::units::{added, count, counted, duration_ns, percent, rate, ratio};

/// Maximum number of statements for each condition.
const STATEMENTS_MAX: usize = 3;

/// Returns a line for each condition, followed by the statements for which it holds.
pub(crate) fn lines(conditions: &[ConditionOutcome], style: TextStyle) -> Vec<String> {
    if conditions.is_empty() {
        return Vec::new();
    }
    let title = style.paint(Tone::Heading, "Conditions (--fail-on)");
    let mut lines = vec![String::new(), title];
    for condition in conditions {
        let (head, tail) = outcome(condition);
        let width = style.columns().saturating_sub(head.chars().count() + 4);
        let text = format!("{head}  {}", one_line(&condition.condition, width.max(20)));
        lines.push(match condition.holds {
            true => style.paint(Tone::Bad, &text),
            false => text,
        });
        let measured = measured(&condition.measured);
        for said in [measured, tail].into_iter().filter(|said| !said.is_empty()) {
            lines.push(cut(&format!("    {said}"), style.columns()));
        }
        for statement in condition.statements.iter().take(STATEMENTS_MAX) {
            let name = statement_name(statement.sql.as_deref(), statement.fingerprint);
            let text = match self::measured(&statement.measured).as_str() {
                "" => name.into_owned(),
                measured => format!("{measured}: {name}"),
            };
            lines.push(format!("    {}", one_line(&text, style.columns() - 4)));
        }
        let rest = condition.statements.len().saturating_sub(STATEMENTS_MAX);
        if rest > 0 {
            lines.push(format!(
                "    and {}",
                counted(rest as u64, "more statement")
            ));
        }
    }
    lines
}

/// Returns whether the condition holds, and the part that is unknown.
pub(crate) fn outcome(condition: &ConditionOutcome) -> (String, String) {
    let head = match (condition.holds, condition.statements.len()) {
        (true, 0) => "HOLDS".to_owned(),
        (true, statements) => format!("HOLDS for {}", counted(statements as u64, "statement")),
        (false, _) => "does not hold".to_owned(),
    };
    let tail = match (condition.unknown, condition.statements_checked) {
        (0, Some(0)) => "there is no statement to ask".to_owned(),
        (0, _) => String::new(),
        (_, None) => "the data is too noisy, or not enough".to_owned(),
        (unknown, Some(asked)) => format!(
            "{} of {} could not be judged: too noisy, or not enough data",
            count(unknown as u64),
            counted(asked as u64, "statement")
        ),
    };
    (head, tail)
}

/// Formats measured quantities: `p99 1.34x, calls 4,211`.
pub(crate) fn measured(quantities: &[MeasuredQuantity]) -> String {
    let one = |one: &MeasuredQuantity| {
        let value = match (one.value, one.unit) {
            (None, _) => "not known".to_owned(),
            (Some(value), Kind::Ratio) => format!("{}x", ratio(value)),
            (Some(ns), Kind::Time) if one.quantity.ends_with("added") => added(ns),
            (Some(ns), Kind::Time) => duration_ns(ns),
            (Some(value), Kind::Share) => percent(value, 1.0),
            (Some(value), Kind::Count) if value.fract() == 0.0 => count(value as u64),
            (Some(value), Kind::Count) => rate(value),
        };
        format!("{} {value}", one.quantity)
    };
    quantities.iter().map(one).collect::<Vec<_>>().join(", ")
}
