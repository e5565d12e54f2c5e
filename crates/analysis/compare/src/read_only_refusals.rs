//! Failures that `replay --read-only` or `--read-only-role` causes. They are no difference between servers, and are not
//! compared.

use std::collections::{BTreeMap, HashMap, HashSet};

use run::{Execution, Outcome};
use sql::{Fingerprint, split_statements, statement_texts};
use workload::Sqlstate;

use crate::created_object::StatementEffects;
use crate::error_key::ErrorKey;
use crate::root_error::RootFinder;

/// SQLSTATE of a write in a read-only transaction (`read_only_sql_transaction`).
pub(crate) const REFUSED_WRITE: Sqlstate = Sqlstate(*b"25006");
/// SQLSTATE of a text with several statements in the extended protocol (`syntax_error`), in which a read-only replay sends
/// every text.
const SYNTAX_ERROR: Sqlstate = Sqlstate(*b"42601");
/// SQLSTATE of a right that the role lacks (`insufficient_privilege`).
const INSUFFICIENT_PRIVILEGE: Sqlstate = Sqlstate(*b"42501");
/// SQLSTATE of `currval` and `lastval` before a value was taken (`object_not_in_prerequisite_state`).
const NOT_READY: Sqlstate = Sqlstate(*b"55000");
/// Option of the manifest of a run that was replayed with `--read-only` or `--read-only-role`.
const OPTION: &str = "read_only";
/// Value of the option for `--read-only-role`.
const BY_ROLE: &str = "role";

/// Read-only mode of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ReadOnlyMode {
    #[default]
    Off,
    /// Every session has `default_transaction_read_only`.
    Sessions,
    /// Every session also has a role without rights to write.
    Role,
}

/// Finds failures that happened only because the replay was read-only: writes that the server refused, and what failed
/// after them. Executions of a session must come in order.
#[derive(Debug, Default)]
pub(crate) struct ReadOnlyRefusals {
    mode: ReadOnlyMode,
    /// Texts with several statements.
    several_statements: HashSet<Fingerprint>,
    /// Tables that statements write.
    written: HashMap<Fingerprint, Vec<String>>,
    /// Tables that lack rows which refused statements would have written.
    unwritten: HashSet<String>,
    /// Whether a statement names one of these, and their number when it was decided.
    reads_unwritten: HashMap<Fingerprint, (usize, bool)>,
}

impl ReadOnlyRefusals {
    /// Creates a finder for a run that was replayed with these options. It finds nothing if the run is not read-only.
    pub(crate) fn of(options: &BTreeMap<String, String>) -> Self {
        let mode = match options.get(OPTION).map(String::as_str) {
            None => ReadOnlyMode::Off,
            Some(BY_ROLE) => ReadOnlyMode::Role,
            Some(_) => ReadOnlyMode::Sessions,
        };
        Self {
            mode,
            ..Self::default()
        }
    }

    /// Sets the text of a statement, before its executions.
    pub(crate) fn set_text(&mut self, fingerprint: Fingerprint, sql: &str) {
        if self.mode == ReadOnlyMode::Off {
            return;
        }
        if statement_texts(sql).len() > 1 {
            self.several_statements.insert(fingerprint);
        }
        let written = StatementEffects::of(sql).written;
        if !written.is_empty() {
            self.written.insert(fingerprint, written);
        }
    }

    /// Notes that a statement was refused or withheld: the tables that it writes lack its rows.
    pub(crate) fn note_unwritten(&mut self, fingerprint: Fingerprint) {
        // Each statement is noted once.
        if let Some(written) = self.written.remove(&fingerprint) {
            self.unwritten.extend(written);
        }
    }

    /// Whether a statement names a table that lacks rows which refused statements would have written. So it may return other
    /// rows than captured.
    pub(crate) fn reads_unwritten(&mut self, fingerprint: Fingerprint, sql: &str) -> bool {
        let number = self.unwritten.len();
        let unwritten = &self.unwritten;
        let names_one = || {
            let statements = split_statements(sql);
            let words = statements.iter().flat_map(|statement| &statement.words);
            let mut names = words.filter_map(|word| word.name());
            names.any(|name| unwritten.contains(&name.to_lowercase()))
        };
        let known = self.reads_unwritten.entry(fingerprint).or_default();
        if known.0 < number && !known.1 {
            *known = (number, names_one());
        }
        known.1
    }

    /// Whether an execution failed only because the replay was read-only. `root` is the failure from which it follows
    /// ([`RootFinder`]).
    pub(crate) fn cause(&self, execution: &Execution, root: Option<ErrorKey>) -> bool {
        let (Outcome::Failed(code), Some(fingerprint)) = (execution.outcome, execution.fingerprint)
        else {
            return false;
        };
        if self.mode == ReadOnlyMode::Off || execution.captured.sqlstate == Some(code) {
            return false;
        }
        self.is_refusal(root.unwrap_or((fingerprint, code)))
            || code == NOT_READY && RootFinder::needs_value(execution)
    }

    /// Whether a read-only replay causes a failure with this code of this statement.
    pub(crate) fn is_refusal(&self, (fingerprint, code): ErrorKey) -> bool {
        let is_of_role = self.mode == ReadOnlyMode::Role && code == INSUFFICIENT_PRIVILEGE;
        let is_refused = code == REFUSED_WRITE
            || code == SYNTAX_ERROR && self.several_statements.contains(&fingerprint);
        self.mode != ReadOnlyMode::Off && (is_of_role || is_refused)
    }
}
