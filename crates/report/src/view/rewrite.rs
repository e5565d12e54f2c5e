//! What became of every statement when a workload was rewritten.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use workload::{RewriteAccount, RewriteNote, WorkloadInfo};

/// A workload that was rewritten.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RewriteView {
    /// `rehearse/rewrite/1`.
    pub schema: &'static str,
    /// The workload that was rewritten.
    pub of: String,
    /// The workload that was made.
    pub workload: String,
    /// Statements in it.
    pub statements: u64,
    /// What was done, one after the other.
    pub rewritings: Vec<RewritingView>,
}

/// One rewriting: `statements` = `unchanged` + `reworded` + `moved` + `merged` + `dropped` + `cached` + `opened`.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RewritingView {
    /// As it was given.
    pub rewriting: String,
    /// Statements met.
    pub statements: u64,
    /// Statements that there are now: `unchanged` + `reworded` + `moved` + `batches` + `added`.
    pub made: u64,
    /// Sent as they were.
    pub unchanged: u64,
    /// Rows that became part of a batch.
    pub merged: u64,
    /// Batches that were made of them.
    pub batches: u64,
    /// Left out because they match.
    pub dropped: u64,
    /// Left out because a cache would have had the answer.
    pub cached: u64,
    /// Sent in another form: prepared, or no longer.
    pub reworded: u64,
    /// Sent as they were, by a connection of a pool.
    pub moved: u64,
    /// Left out because a pool's connections have these settings from their beginning.
    pub opened: u64,
    /// Sent by nobody before: settings of a pool's connections, and a ROLLBACK of what was left open.
    pub added: u64,
    /// What is unchanged and could be thought to be rewritten, by the reason why it was not.
    pub left_alone: BTreeMap<String, u64>,
    /// The same in sentences, with what it takes from comparing.
    pub sentences: Vec<String>,
}

impl RewriteView {
    /// Of what was made, and how.
    pub fn new(of: &str, workload: &str, info: &WorkloadInfo, notes: &[RewriteNote]) -> Self {
        RewriteView {
            schema: "rehearse/rewrite/1",
            of: of.to_owned(),
            workload: workload.to_owned(),
            statements: info.statements,
            rewritings: notes.iter().map(rewriting).collect(),
        }
    }
}

fn rewriting(note: &RewriteNote) -> RewritingView {
    let RewriteAccount {
        statements,
        unchanged,
        merged,
        batches,
        dropped,
        cached,
        reworded,
        moved,
        opened,
        added,
        ref left_alone,
    } = note.account;
    RewritingView {
        rewriting: note.rewriting.clone(),
        statements,
        made: note.account.made(),
        unchanged,
        merged,
        batches,
        dropped,
        cached,
        reworded,
        moved,
        opened,
        added,
        left_alone: left_alone.clone(),
        sentences: crate::text::rewrite_text::sentences(note),
    }
}
