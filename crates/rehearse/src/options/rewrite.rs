//! `rehearse rewrite`: what clients would have done otherwise.

use std::path::PathBuf;

use clap::Args;
use transform::Rewriting;

use crate::options::encrypting::EncryptArgs;

/// `rehearse rewrite`
#[derive(Debug, Args)]
pub struct Rewrite {
    /// The workload.
    #[arg(value_name = "NAME.workload")]
    pub workload: PathBuf,
    /// The workload to make of it.
    #[arg(short, long, value_name = "NAME.workload")]
    pub output: PathBuf,
    /// Print the account as JSON.
    #[arg(long)]
    pub json: bool,
    /// How: several are done one after the other.
    #[command(flatten)]
    pub how: RewriteArgs,
    /// To whom it is encrypted.
    #[command(flatten)]
    pub encryption: EncryptArgs,
}

/// How a workload is rewritten.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "How")]
pub struct RewriteArgs {
    /// Put single-row inserts of one shape together, up to so many rows; perhaps with how long the first
    /// may wait, and as COPY and not as INSERT: 50,window=200ms,copy [default window: 1s].
    #[arg(long, value_name = "ROWS", value_parser = |text: &str| given("batch-inserts", text))]
    pub batch_inserts: Vec<Rewriting>,
    /// Leave out statements whose normalised text holds this; `*` stands for any text. Can be given again.
    #[arg(long, value_name = "TEXT", value_parser = |text: &str| given("drop", text))]
    pub drop: Vec<Rewriting>,
    /// Leave out a read that was sent so shortly before with the same text and values: 100ms.
    #[arg(long, value_name = "TIME", value_parser = |text: &str| given("cache", text))]
    pub cache: Vec<Rewriting>,
    /// Send what a session repeats as prepared statements; perhaps only from so many times on, as
    /// drivers do it: --prepare=5.
    #[arg(long, value_name = "TIMES", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = |text: &str| given("prepare", text))]
    pub prepare: Option<Rewriting>,
    /// Send prepared statements as simple ones, with their values in the text.
    #[arg(long, conflicts_with = "prepare")]
    pub unprepare: bool,
    /// Have sessions share so many connections, each for a transaction, one after the other; or, while it is
    /// free, the one it had: 20,sticky.
    #[arg(long, value_name = "CONNECTIONS", value_parser = |text: &str| given("pool", text))]
    pub pool: Option<Rewriting>,
}

fn given(name: &str, value: &str) -> Result<Rewriting, String> {
    match value {
        "" => name.parse(),
        value => format!("{name}={value}").parse(),
    }
}

impl RewriteArgs {
    /// In the order in which they are done: first what is not sent, then batches, then the form, and last the connections.
    pub fn all(&self) -> Vec<Rewriting> {
        let left_out = [&self.drop, &self.cache, &self.batch_inserts];
        let mut all: Vec<Rewriting> = left_out.into_iter().flatten().cloned().collect();
        all.extend(self.prepare.clone());
        all.extend(self.unprepare.then_some(Rewriting::Unprepare));
        all.extend(self.pool.clone());
        all
    }
}
