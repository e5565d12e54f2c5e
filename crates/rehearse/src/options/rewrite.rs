//! Options of `rehearse rewrite`: transformations of a workload.

use std::path::PathBuf;

use clap::Args;
use transform::Rewrite;

use crate::options::encrypting::EncryptArgs;

/// Options of `rehearse rewrite`.
#[derive(Debug, Args)]
pub struct RewriteWorkload {
    /// Rewrite this workload.
    #[arg(value_name = "NAME.workload")]
    pub workload: PathBuf,
    /// Write the new workload to this directory.
    #[arg(short, long, value_name = "NAME.workload")]
    pub output: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
    /// Transformations, applied one after another.
    #[command(flatten)]
    pub how: RewriteArgs,
    /// Encryption of the workload.
    #[command(flatten)]
    pub encryption: EncryptArgs,
}

/// Transformations of a workload.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Transformations")]
pub struct RewriteArgs {
    /// Combine single-row inserts of the same form, up to this many rows. Options: how long the
    /// first may wait, and COPY instead of INSERT: 50,window=200ms,copy [default window: 1s].
    #[arg(long, value_name = "ROWS", value_parser = |text: &str| given("batch-inserts", text))]
    pub batch_inserts: Vec<Rewrite>,
    /// Remove statements whose normalised text contains this text; `*` matches any text.
    /// Repeatable.
    #[arg(long, value_name = "TEXT", value_parser = |text: &str| given("drop", text))]
    pub drop: Vec<Rewrite>,
    /// Remove a read if the same text with the same values was sent at most this long before:
    /// 100ms.
    #[arg(long, value_name = "TIME", value_parser = |text: &str| given("cache", text))]
    pub cache: Vec<Rewrite>,
    /// Send statements that a session repeats as prepared statements; with --prepare=5, from the
    /// fifth execution on, as drivers do.
    #[arg(long, value_name = "TIMES", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = |text: &str| given("prepare", text))]
    pub prepare: Option<Rewrite>,
    /// Send prepared statements as simple queries, with their values in the text.
    #[arg(long, conflicts_with = "prepare")]
    pub unprepare: bool,
    /// Simulate transaction pooling over this many connections. With 20,sticky, a session takes
    /// its previous connection again if that is free.
    #[arg(long, value_name = "CONNECTIONS", value_parser = |text: &str| given("pool", text))]
    pub pool: Option<Rewrite>,
}

fn given(name: &str, value: &str) -> Result<Rewrite, String> {
    match value {
        "" => name.parse(),
        value => format!("{name}={value}").parse(),
    }
}

impl RewriteArgs {
    /// Returns the transformations in the order in which they are applied: removals, batches,
    /// the protocol, and last the connections.
    pub fn all(&self) -> Vec<Rewrite> {
        let left_out = [&self.drop, &self.cache, &self.batch_inserts];
        let mut all: Vec<Rewrite> = left_out.into_iter().flatten().cloned().collect();
        all.extend(self.prepare.clone());
        all.extend(self.unprepare.then_some(Rewrite::Unprepare));
        all.extend(self.pool.clone());
        all
    }
}
