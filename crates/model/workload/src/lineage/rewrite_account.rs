//! What became of every statement.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of every statement that was met: `statements` = `unchanged` + `reworded` + `moved` +
/// `merged` + `dropped` + `cached` + `opened`. What there is instead is `unchanged` + `reworded` +
/// `moved` + `batches` + `added`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RewriteAccount {
    /// Statements met.
    pub statements: u64,
    /// Sent as they were.
    pub unchanged: u64,
    /// Rows that became part of a batch.
    pub merged: u64,
    /// Batches that were made of them; each is a statement.
    pub batches: u64,
    /// Left out because they match.
    pub dropped: u64,
    /// Left out because a cache would have had the answer.
    pub cached: u64,
    /// Sent in another form: prepared, or no longer.
    #[serde(default)]
    pub reworded: u64,
    /// Sent as they were, by a connection of a pool.
    #[serde(default)]
    pub moved: u64,
    /// Left out because a pool's connections have these settings from their beginning.
    #[serde(default)]
    pub opened: u64,
    /// Sent by nobody before: the settings of a pool's connections, and a ROLLBACK of what was left open.
    #[serde(default)]
    pub added: u64,
    /// Of those that are unchanged, such as could have been thought to be rewritten, by the reason why
    /// they were not.
    #[serde(default)]
    pub left_alone: BTreeMap<String, u64>,
}

impl RewriteAccount {
    /// Statements that there are now.
    pub fn made(&self) -> u64 {
        self.unchanged + self.reworded + self.moved + self.batches + self.added
    }

    /// Statements that are not as they were.
    pub fn touched(&self) -> u64 {
        self.reworded + self.moved + self.merged + self.dropped + self.cached + self.opened
    }

    /// Whether every statement is accounted for. It must be; the caller may assert it.
    pub fn adds_up(&self) -> bool {
        self.statements == self.unchanged + self.touched()
    }
}
