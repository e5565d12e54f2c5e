//! Effect of a text on the state and on the transaction of its session.

use super::effects::{Effect, may_have_effects, read_effects};
use super::statement_splitter::split_statements;

/// Effect of a text, which may hold several statements, on its session and transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SessionEffect {
    /// It may change state that the session keeps across transactions.
    pub changes_state: bool,
    /// It leaves a transaction open that was not open before.
    pub begins_transaction: bool,
    /// It ends the transaction that was open before.
    pub ends_transaction: bool,
}

impl SessionEffect {
    /// Reads the effect from the words of a text.
    pub fn of(sql: &str) -> Self {
        let mut effect = SessionEffect::default();
        if !may_have_effects(sql) {
            return effect;
        }
        let statements = split_statements(sql);
        for one in statements.iter().flat_map(|one| read_effects(one, &[])) {
            match one {
                Effect::Begin => effect.begins_transaction = true,
                Effect::Commit { chain: true } | Effect::Rollback { chain: true } => {
                    // As COMMIT and BEGIN.
                    effect.ends_transaction |= !effect.begins_transaction;
                    effect.begins_transaction = true;
                }
                Effect::Commit { chain: false } | Effect::Rollback { chain: false } => {
                    // BEGIN … COMMIT in one text leaves the earlier transaction as it was.
                    effect.ends_transaction = !std::mem::take(&mut effect.begins_transaction);
                }
                Effect::Local => {}
                _ => effect.changes_state = true,
            }
        }
        effect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(
        changes_state: bool,
        begins_transaction: bool,
        ends_transaction: bool,
    ) -> SessionEffect {
        SessionEffect {
            changes_state,
            begins_transaction,
            ends_transaction,
        }
    }

    #[test]
    fn session_effect_is_read_from_the_words_of_a_text() {
        let none = SessionEffect::default();
        for (sql, expected) in [
            ("select 1", none),
            ("UPDATE t SET a = 1", none),
            ("BEGIN", effect(false, true, false)),
            ("start transaction read only", effect(false, true, false)),
            ("COMMIT", effect(false, false, true)),
            ("end;", effect(false, false, true)),
            ("rollback", effect(false, false, true)),
            ("rollback to savepoint a", effect(true, false, false)),
            ("commit and chain", effect(false, true, true)),
            ("begin; rollback and chain", effect(false, true, false)),
            ("commit prepared 'x'", none),
            ("prepare transaction 'x'", effect(false, false, true)),
            ("begin; update t set a = 1; commit", none),
            ("commit; begin", effect(false, true, true)),
            ("begin; set a.b = 1", effect(true, true, false)),
            ("set search_path = x", effect(true, false, false)),
            ("set local search_path = x", none),
            (
                "select set_config('a.b', '1', false)",
                effect(true, false, false),
            ),
            ("prepare p as select 1", effect(true, false, false)),
        ] {
            assert_eq!(SessionEffect::of(sql), expected, "{sql}");
        }
    }
}
