//! A model of a session on a server, for the statements of these tests.

use std::collections::BTreeMap;

use workload::Event;

/// State that a transaction restores when it is rolled back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Transactional {
    settings: BTreeMap<String, String>,
    has_temporary_table: bool,
}

/// State of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SessionModel {
    now: Transactional,
    is_prepared: bool,
    /// State at the beginning of the open transaction, and at its savepoints.
    saved: Vec<Transactional>,
    has_failed: bool,
}

impl SessionModel {
    /// Executes an event with the outcome that it had.
    pub(super) fn execute(&mut self, event: &Event) {
        let Some(sql) = event.kind.sql() else {
            return;
        };
        let fails = event.outcome.sqlstate.is_some();
        for statement in sql.split("; ") {
            self.execute_statement(statement, fails);
        }
    }

    fn execute_statement(&mut self, statement: &str, fails: bool) {
        let in_transaction = !self.saved.is_empty();
        let ends = matches!(statement, "commit" | "rollback");
        if fails && !ends {
            self.has_failed |= in_transaction;
            return;
        }
        match statement {
            "commit" | "rollback" if in_transaction => {
                if statement == "rollback" || self.has_failed || fails {
                    self.now = self.saved.swap_remove(0);
                }
                self.saved.clear();
                self.has_failed = false;
            }
            "rollback to s" if self.saved.len() > 1 => {
                self.now = self.saved.last().cloned().unwrap_or_default();
                self.has_failed = false;
            }
            _ if self.has_failed => {}
            "begin" if !in_transaction => self.saved.push(self.now.clone()),
            "savepoint s" if in_transaction => self.saved.push(self.now.clone()),
            "prepare p as select 1" => self.is_prepared = true,
            "deallocate p" => self.is_prepared = false,
            "create temp table x (a int)" => self.now.has_temporary_table = true,
            "reset work_mem" => drop(self.now.settings.remove("work_mem")),
            _ => {
                if let Some((name, value)) = statement
                    .strip_prefix("set ")
                    .and_then(|set| set.split_once(" = "))
                {
                    self.now.settings.insert(name.to_owned(), value.to_owned());
                }
            }
        }
    }
}
