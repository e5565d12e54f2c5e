//! Keeps statements that reach outside of their transaction from being executed: a rollback does not undo that.

use std::collections::HashSet;

use observe::Example;
use replay::{Target, names_with_outside_effects};
use sql::{StatementClass, UnrestrictedNames, UsedNames, classify};

use super::statement_trial::TrialConnection;
use crate::environment::quote_identifier;

/// Functions of triggers: table, language, whether it is trusted, body.
const TRIGGERS_SQL: &str = "SELECT c.relname, l.lanname, l.lanpltrusted::text, p.prosrc \
     FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid \
     JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid JOIN pg_catalog.pg_language l ON l.oid = p.prolang \
     WHERE NOT t.tgisinternal";
/// Rules other than those of views: table, language, whether it is trusted, statement.
const RULES_SQL: &str = "SELECT c.relname, 'sql', 'true', pg_catalog.pg_get_ruledef(r.oid) \
     FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE r.ev_type <> '1' AND n.nspname NOT IN ('pg_catalog', 'information_schema')";
/// Tables with partitions or children: parent and child.
const CHILDREN_SQL: &str = "SELECT p.relname, c.relname FROM pg_catalog.pg_inherits i \
     JOIN pg_catalog.pg_class p ON p.oid = i.inhparent JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid \
     WHERE p.relkind IN ('r', 'p', 'f')";
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
        // Tables, and what a write to them uses.
        let mut followers: Vec<(String, UsedNames)> = Vec::new();
        let mut all = connection.query(TRIGGERS_SQL)?;
        all.extend(connection.query(RULES_SQL)?);
        for row in all {
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
            } else {
                followers.push((text(0), UsedNames::of(&body)));
            }
        }
        for row in connection.query(CHILDREN_SQL)? {
            let text = |column: usize| row.get(column).cloned().flatten().unwrap_or_default();
            let child = quote_identifier(&text(1));
            followers.push((text(0), UsedNames::of(&child)));
        }
        add_followers(&mut tables, followers);
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
            format!("a trigger or rule of {table} may reach outside of its transaction, which a rollback does not undo")
        })
    }
}

/// Adds the tables whose triggers, rules or children use a table that reaches outside, as long as there are more.
fn add_followers(tables: &mut HashSet<String>, mut followers: Vec<(String, UsedNames)>) {
    loop {
        let uses = |used: &UsedNames| tables.iter().any(|one| used.mention(&one.to_lowercase()));
        let (found, rest): (Vec<_>, Vec<_>) =
            followers.into_iter().partition(|(_, used)| uses(used));
        if found.is_empty() {
            return;
        }
        tables.extend(found.into_iter().map(|(table, _)| table));
        followers = rest;
    }
}
