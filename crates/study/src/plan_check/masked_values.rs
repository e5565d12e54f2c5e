//! Refusals of values that a masking replaced: the server accepts only labels of an enumeration.

use planner_copy::{PlannerExport, SchemaObject};

use super::result::CheckedStatement;

/// Beginning of the server's message, before the name of the type. Source: `enum_in` in `enum.c`.
const MESSAGE: &str = "invalid input value for enum ";
/// Labels in a reason, in bytes at most.
const LABELS_MAX: usize = 300;

/// Returns the cause of a refusal and what to do, if the workload is masked and a value is no label of its enumeration.
pub(super) fn cause(statement: &CheckedStatement, export: &PlannerExport) -> Option<String> {
    let pairs = statement.plans.iter();
    let mut sides = pairs.flat_map(|pair| [&pair.plans.before, &pair.plans.after]);
    let name = sides.find_map(enumeration)?;
    let labels = match labels(export, name) {
        Some(labels) => format!(" (labels: {labels})"),
        None => String::new(),
    };
    Some(format!(
        "the workload is masked, and a masked value is no label of the enumeration {name}{labels}; mask the captured workload \
         again with --mask-keep for each label, and give the same to `rehearse plans export --mask`"
    ))
}

/// Returns the enumeration that a refusal names.
fn enumeration(side: &plans::PlanSide) -> Option<&str> {
    let plans::PlanSide::Refused { sqlstate, message } = side else {
        return None;
    };
    let rest = message.split_once(MESSAGE)?.1;
    (sqlstate.0 == *b"22P02").then(|| rest.split(": ").next().unwrap_or(rest))
}

/// Returns the labels as they are in the schema. The server qualifies a name that is not in the search path.
fn labels(export: &PlannerExport, name: &str) -> Option<String> {
    let is_named = |known: &str| known == name || known.ends_with(&format!(".{name}"));
    let is_enumeration = |one: &&SchemaObject| one.kind == "type" && is_named(&one.name);
    let sql = &export.objects.iter().find(is_enumeration)?.sql;
    let labels = sql.split_once(" AS ENUM (")?.1.trim_end_matches(')');
    Some(
        match labels.char_indices().find(|(at, _)| *at >= LABELS_MAX) {
            Some((end, _)) => format!("{}…", &labels[..end]),
            None => labels.to_owned(),
        },
    )
}
