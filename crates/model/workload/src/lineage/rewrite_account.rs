//! Numbers of statements by the result of a rewriting.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Numbers of statements by the result of a rewriting: `statements` = `unchanged` + `reworded` + `moved` +
/// `merged` + `dropped` + `cached` + `opened`. The new workload has `unchanged` + `reworded` + `moved` +
/// `batches` + `added` statements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RewriteAccount {
    /// Number of statements before the rewriting.
    pub statements: u64,
    /// Sent unchanged.
    pub unchanged: u64,
    /// Merged into a batch.
    pub merged: u64,
    /// Batches that were made of merged statements. Each is one statement.
    pub batches: u64,
    /// Dropped because they match.
    pub dropped: u64,
    /// Dropped because a cache would have answered.
    pub cached: u64,
    /// Sent in another form: prepared, or no longer prepared.
    #[serde(default)]
    pub reworded: u64,
    /// Sent unchanged by a connection of a pool.
    #[serde(default)]
    pub moved: u64,
    /// Dropped because a pool's connections have these settings from their start.
    #[serde(default)]
    pub opened: u64,
    /// Added by the rewriting: the settings of a pool's connections, and a ROLLBACK for a transaction that
    /// was left open.
    #[serde(default)]
    pub added: u64,
    /// Unchanged statements that are similar to those rewritten, by the reason why they were not.
    #[serde(default)]
    pub left_alone: BTreeMap<String, u64>,
}

impl RewriteAccount {
    /// Returns the number of statements after the rewriting.
    pub fn statements_after(&self) -> u64 {
        self.unchanged + self.reworded + self.moved + self.batches + self.added
    }

    /// Returns the number of statements that were changed.
    pub fn statements_changed(&self) -> u64 {
        self.reworded + self.moved + self.merged + self.dropped + self.cached + self.opened
    }

    /// Whether every statement is accounted for. Callers may assert it.
    pub fn adds_up(&self) -> bool {
        self.statements == self.unchanged + self.statements_changed()
    }
}
