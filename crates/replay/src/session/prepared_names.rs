//! Named prepared statements of a session's connection.

use std::collections::HashMap;

use crate::job::NamedStatement;

/// State of a statement's name at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameState {
    Free,
    /// The name stands for this SQL.
    Prepared,
    /// The name stands for other SQL, or its state is unknown. It must be closed first, which is no error if it is
    /// free.
    Occupied,
}

/// Names of the statements that were prepared by protocol messages.
#[derive(Debug, Default)]
pub(super) struct PreparedNames {
    sql_by_name: HashMap<u64, u64>,
    /// Whether a `DEALLOCATE name` has removed one of them; its tag has no name.
    uncertain: bool,
}

impl PreparedNames {
    pub(super) fn state(&self, named: NamedStatement) -> NameState {
        if self.uncertain {
            return NameState::Occupied;
        }
        match self.sql_by_name.get(&named.name) {
            None => NameState::Free,
            Some(&sql) if sql == named.sql => NameState::Prepared,
            Some(_) => NameState::Occupied,
        }
    }

    pub(super) fn insert(&mut self, named: NamedStatement) {
        self.sql_by_name.insert(named.name, named.sql);
    }

    pub(super) fn remove(&mut self, named: NamedStatement) {
        self.sql_by_name.remove(&named.name);
    }

    /// Takes the tag of a completed command, which may have deallocated statements.
    pub(super) fn command_complete(&mut self, command_tag: &[u8]) {
        match command_tag {
            b"DEALLOCATE ALL" | b"DISCARD ALL" => {
                self.sql_by_name.clear();
                self.uncertain = false;
            }
            b"DEALLOCATE" if !self.sql_by_name.is_empty() => self.uncertain = true,
            _ => {}
        }
    }
}
