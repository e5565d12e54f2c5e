//! Tells errors of the change from errors of a copy of another moment.
//!
//! A key that exists already, or a row that is missing, shows that the targets hold different rows, or sequences that
//! lag: one was restored from another moment, or written to by an earlier replay. It can also come from a constraint
//! that the change adds. The facts about the targets decide if they name the constraint.

use schemars::JsonSchema;
use serde::Serialize;
use workload::Sqlstate;

use crate::error_count::depends_on_rows;
use crate::targets::{Presence, TargetsComparison};

/// Origin of a new or more frequent error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorOrigin {
    /// Nothing is known about it.
    #[default]
    Unknown,
    /// Both targets have the constraint, and equal relations and code: their rows or sequences are of different moments.
    OtherMoment,
    /// Rows or sequences of another moment, or a constraint or function that the change brought.
    OtherMomentOrConstraint,
    /// Only the target after has the constraint.
    NewConstraint,
}

impl ErrorOrigin {
    /// Returns the origin in words; `None` if it is unknown.
    pub fn explanation(self) -> Option<&'static str> {
        match self {
            ErrorOrigin::Unknown => None,
            ErrorOrigin::OtherMoment => Some(
                "both targets have this constraint: their rows or sequence values are of different moments",
            ),
            ErrorOrigin::OtherMomentOrConstraint => Some(
                "rows or sequence values of another moment, or a constraint or function that only one target has",
            ),
            ErrorOrigin::NewConstraint => Some("only the target after has this constraint"),
        }
    }
}

/// Finds the origin of an error that is new or more frequent.
pub(crate) fn origin(
    sqlstate: Sqlstate,
    message: Option<&str>,
    targets: Option<&TargetsComparison>,
) -> ErrorOrigin {
    if !depends_on_rows(sqlstate) {
        return ErrorOrigin::Unknown;
    }
    let constraint = message.and_then(quoted_name);
    // Only indexes are among the facts.
    let is_index = ["23505", "23P01"].contains(&sqlstate.as_str());
    let known = targets.filter(|targets| is_index && knows_indexes(targets));
    if let (Some(constraint), Some(targets)) = (constraint, known) {
        let named = |name: &String| name == constraint;
        let mut differing = targets.indexes.iter();
        let difference =
            differing.find(|one| named(&one.name) || one.renamed.as_ref().is_some_and(named));
        let is_repeated = targets.repeated_index_names.contains(constraint);
        return match difference.map(|one| one.presence) {
            None if writes_alike(targets) => ErrorOrigin::OtherMoment,
            Some(Presence::OnlyAfter) if !is_repeated => ErrorOrigin::NewConstraint,
            _ => ErrorOrigin::OtherMomentOrConstraint,
        };
    }
    ErrorOrigin::OtherMomentOrConstraint
}

/// Whether the indexes of both targets are known, so that one that does not differ is on both.
fn knows_indexes(targets: &TargetsComparison) -> bool {
    !has_note(targets, &["indexes", "target"])
}

/// Whether the same statement writes the same rows on both targets: other defaults, identity columns, functions or
/// triggers may write others.
fn writes_alike(targets: &TargetsComparison) -> bool {
    targets.relations.is_empty()
        && targets.functions.is_empty()
        && targets.triggers.is_empty()
        && !has_note(targets, &["relations"])
}

fn has_note(targets: &TargetsComparison, about: &[&str]) -> bool {
    let mut notes = targets.notes.iter();
    notes.any(|one| about.contains(&&*one.note.about))
}

/// Returns the first name in quotes of a message, in any of the languages of the server.
fn quoted_name(message: &str) -> Option<&str> {
    const QUOTES: [char; 8] = ['"', '«', '»', '„', '“', '”', '\u{300c}', '\u{300d}'];
    let mut parts = message.split(QUOTES);
    parts.next()?;
    parts.next().map(str::trim).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraint_is_named_in_any_language() {
        for message in [
            "duplicate key value violates unique constraint \"orders_pkey\"",
            "doppelter Schlüsselwert verletzt Unique-Constraint »orders_pkey«",
            "la valeur d'une clé dupliquée rompt la contrainte unique « orders_pkey »",
        ] {
            assert_eq!(quoted_name(message), Some("orders_pkey"), "{message}");
        }
        assert_eq!(quoted_name("it failed with 23505"), None);
    }
}
