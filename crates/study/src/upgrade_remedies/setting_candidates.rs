//! Candidates that change a setting: the value of the old server, in the form that is in force.

use super::candidates::{Candidate, SlowStatement, remedy};
use super::planning_state::{PlanningState, SettingScope, SettingState};
use super::result::{RegressionRemedy, RemedyKind};
use crate::environment::{quote_identifier, quote_literal};

/// Returns the statement that sets a value for sessions of a database, or of a role. A value of a role overrides that of the
/// database, and one of a role in a database both. Source: PostgreSQL's manual, `ALTER ROLE`.
pub(crate) fn setting_statement(
    (scope, role, database): (SettingScope, &str, &str),
    (name, value): (&str, &str),
) -> String {
    let (role, database) = (quote_identifier(role), quote_identifier(database));
    let sessions = match scope {
        SettingScope::Server | SettingScope::Database => format!("DATABASE {database}"),
        SettingScope::Role => format!("ROLE {role}"),
        SettingScope::RoleInDatabase => format!("ROLE {role} IN DATABASE {database}"),
    };
    format!("ALTER {sessions} SET {name} = {}", quote_literal(value))
}

fn setting(
    new: &PlanningState,
    kind: RemedyKind,
    (name, value, scope): (&str, &str, SettingScope),
    cause: String,
) -> Candidate {
    let statement = setting_statement((scope, &new.role, &new.database), (name, value));
    let is_of_role = scope >= SettingScope::Role;
    Candidate {
        remedy: RegressionRemedy {
            setting: Some((name.to_owned(), value.to_owned())),
            role: is_of_role.then(|| new.role.clone()),
            ..remedy(kind, cause, vec![statement])
        },
        trial: vec![format!("SET LOCAL {name} = {}", quote_literal(value))],
        acts_on_execution: true,
    }
}

/// Returns the settings of just-in-time compilation, if only the new server compiles.
pub(super) fn compilation(
    old: &PlanningState,
    new: &PlanningState,
    statement: &SlowStatement<'_>,
) -> Vec<Candidate> {
    if !statement.newly_compiled {
        return Vec::new();
    }
    let mut all: Vec<Candidate> = differing(old, new)
        .filter(|(before, _)| before.name.starts_with("jit"))
        .map(|(before, after)| old_value(new, before, after))
        .collect();
    let jit = new.settings.get("jit");
    let scope = jit.map(|one| one.scope).unwrap_or_default();
    all.push(setting(
        new,
        RemedyKind::Setting,
        ("jit", "off", scope),
        "Only the new server compiles the statement just in time.".to_owned(),
    ));
    all
}

/// Returns the settings whose value differs.
fn differing<'a>(
    old: &'a PlanningState,
    new: &'a PlanningState,
) -> impl Iterator<Item = (&'a SettingState, &'a SettingState)> {
    old.settings.values().filter_map(|before| {
        let after = new.settings.get(&before.name)?;
        (before.text != after.text && before.setting != after.setting).then_some((before, after))
    })
}

fn old_value(new: &PlanningState, before: &SettingState, after: &SettingState) -> Candidate {
    let origin = match (before.source.as_str(), after.source.as_str()) {
        ("default", "default") => "its default changed",
        _ if before.scope >= SettingScope::Role || after.scope >= SettingScope::Role => {
            "the settings of the role differ"
        }
        (_, "default") => "the new server has the default",
        _ => "the configurations differ",
    };
    // A value of the old server that only a role has is for that role, too.
    let scope = before.scope.max(after.scope);
    setting(
        new,
        RemedyKind::Setting,
        (&before.name, &before.text, scope),
        format!(
            "The setting {} is '{}' on the new server and '{}' on the old one ({origin}).",
            before.name, after.text, before.text
        ),
    )
}

/// Returns the old values of differing settings, those of the planner first.
pub(super) fn settings(old: &PlanningState, new: &PlanningState) -> Vec<Candidate> {
    let mut pairs: Vec<_> = differing(old, new).collect();
    let is_planner = |name: &str| {
        name.starts_with("enable_")
            || name.ends_with("_cost")
            || name.ends_with("_collapse_limit")
            || name.starts_with("geqo")
            || matches!(
                name,
                "effective_cache_size" | "plan_cache_mode" | "constraint_exclusion"
            )
            || name.starts_with("cpu_")
            || name == "default_statistics_target"
    };
    // Statistics are collected with another target only by the next ANALYZE.
    pairs.retain(|(before, _)| before.name != "default_statistics_target");
    pairs.sort_by_key(|(before, _)| !is_planner(&before.name));
    pairs
        .into_iter()
        .map(|(before, after)| old_value(new, before, after))
        .collect()
}

/// Returns the planner methods that only the new version has.
pub(super) fn new_methods(old: &PlanningState, new: &PlanningState) -> Vec<Candidate> {
    let added = new.settings.values().filter(|one| {
        one.name.starts_with("enable_")
            && one.vartype == "bool"
            && one.setting == "on"
            && !old.settings.contains_key(&one.name)
    });
    added
        .map(|one| {
            setting(
                new,
                RemedyKind::PlannerMethod,
                (&one.name, "off", one.scope),
                format!(
                    "The new version plans with {}, which the old version does not have.",
                    one.name
                ),
            )
        })
        .collect()
}
