//! Keeps statements that reach outside of their transaction from being executed: a rollback does not undo that.

use std::collections::HashSet;

use observe::Example;
use replay::{Target, names_with_outside_effects};
use sql::{StatementClass, UnrestrictedNames, UsedNames, classify};

use super::statement_trial::TrialConnection;

/// Functions of triggers: table, language, whether it is trusted, body.
const TRIGGERS_SQL: &str = "SELECT c.relname, l.lanname, l.lanpltrusted::text, p.prosrc \
     FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid \
     JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid JOIN pg_catalog.pg_language l ON l.oid = p.prolang \
     WHERE NOT t.tgisinternal";
/// Words in the body of a function that may reach outside in a statement that it assembles.
const REACHING_WORDS: [&str; 5] = ["copy", "dblink", "http", "lo_export", "program"];

/// Names and tables of a database whose use reaches outside of a transaction.
pub(super) struct OutsideEffects {
    names: UnrestrictedNames,
    /// Tables with triggers that reach outside.
    tables: HashSet<String>,
}

impl OutsideEffects {
    /// Asks the catalogue.
    ///
    /// # Errors
    /// If the server refuses.
    pub(super) fn read(
        target: &Target,
        connection: &mut TrialConnection<'_>,
    ) -> Result<Self, String> {
        let names = names_with_outside_effects(target, connection.login());
        let names = names.map_err(|error| error.to_string())?;
        let mut tables = HashSet::new();
        for row in connection.query(TRIGGERS_SQL)? {
            let text = |column: usize| row.get(column).cloned().flatten().unwrap_or_default();
            let (language, body) = (text(1), text(3));
            let is_read = matches!(&*language, "sql" | "plpgsql");
            let folded = body.to_lowercase();
            // Code in C belongs to the server or to an extension, as its own triggers do.
            let reaches = match is_read {
                true => {
                    names.are_in(&UsedNames::of(&body))
                        || REACHING_WORDS.iter().any(|word| folded.contains(word))
                }
                false => {
                    !matches!(&*text(2), "true" | "t") && language != "internal" && language != "c"
                }
            };
            if reaches {
                tables.insert(text(0));
            }
        }
        Ok(OutsideEffects { names, tables })
    }

    /// Returns the reason why a statement must not be executed.
    pub(super) fn refusal(&self, example: &Example) -> Option<String> {
        let used = UsedNames::of(&example.sql);
        if self.names.are_in(&used) {
            return Some(
                "it uses something that may reach outside of its transaction, which a rollback does not undo".to_owned(),
            );
        }
        let class = classify(&example.sql);
        // Rows of other tables may follow by foreign keys.
        let cascades = matches!(class, StatementClass::Update | StatementClass::Delete);
        let table = self
            .tables
            .iter()
            .find(|table| cascades || used.mention(&table.to_lowercase()))?;
        class.may_write().then(|| {
            format!("a trigger of {table} may reach outside of its transaction, which a rollback does not undo")
        })
    }
}
