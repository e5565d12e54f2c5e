//! State that a statement leaves in its connection, which a pool cannot share.

use super::insert::Reason;
use sql::{Effect, SqlStatement, read_call_effects, read_effects, split_statements};
use workload::Parameter;

/// Returns whether all statements of a text are SETs for the session.
pub(super) fn is_only_set(sql: &str) -> bool {
    let statements = split_statements(sql);
    let sets = |statement: &SqlStatement<'_>| {
        let effects = read_effects(statement, &[]);
        statement.words.first().is_some_and(|word| word.is("set"))
            && matches!(effects[..], [Effect::Set(_) | Effect::Reset(_)])
    };
    !statements.is_empty() && statements.iter().all(sets)
}

/// Returns why a session must keep its connection after a statement that leaves state there.
pub(super) fn reason_to_keep(sql: &str, parameters: &[Option<Parameter>]) -> Option<Reason> {
    let values: Vec<Option<&str>> = (parameters.iter())
        .map(|value| value.as_ref()?.readable())
        .collect();
    let statements = split_statements(sql);
    let effects = statements.iter().flat_map(|statement| {
        let effects = read_effects(statement, &values).into_iter();
        effects.chain(read_call_effects(statement, &values))
    });
    let reasons = effects.filter_map(|effect| match effect {
        Effect::Set(_) | Effect::Reset(_) | Effect::ResetAll => {
            Some("its session changes settings")
        }
        Effect::Listen(_) => Some("its session listens"),
        Effect::Prepare(_) => Some("its session prepares in SQL"),
        Effect::HoldCursor(_) => Some("its session holds a cursor"),
        Effect::Temporary { .. } => Some("its session has temporary tables"),
        Effect::Lock(_) => Some("its session takes advisory locks"),
        _ => None,
    });
    reasons.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_that_leaves_state_in_its_connection_keeps_it() {
        let settings = Some("its session changes settings");
        let locks = Some("its session takes advisory locks");
        let value = |text: &str| Some(Parameter::from(text));
        for (sql, parameters, expected) in [
            ("select 1", &[][..], None),
            ("set a.b = 1", &[], settings),
            ("set local a.b = 1", &[], None),
            ("select set_config('a.b', 'x', false)", &[], settings),
            (
                "select set_config($1, $2, $3)",
                &[value("a.b"), value("x"), value("true")],
                None,
            ),
            (
                "update t set a = set_config('a.b', 'x', false)",
                &[],
                settings,
            ),
            ("select pg_try_advisory_lock_shared(1)", &[], locks),
            ("insert into t select pg_advisory_lock(1)", &[], locks),
            ("select pg_advisory_xact_lock(1)", &[], None),
            ("select 1; listen news", &[], Some("its session listens")),
            (
                "declare c cursor with hold for select 1",
                &[],
                Some("its session holds a cursor"),
            ),
            ("declare c cursor without hold for select 1", &[], None),
            (
                "create temp table t (a int)",
                &[],
                Some("its session has temporary tables"),
            ),
            ("create temp table t (a int) on commit drop", &[], None),
            (
                "prepare p as select 1",
                &[],
                Some("its session prepares in SQL"),
            ),
            ("prepare transaction 'x'", &[], None),
        ] {
            assert_eq!(reason_to_keep(sql, parameters), expected, "{sql}");
        }
    }
}
