//! What a replay asks its target beside the workload's statements.

use std::path::PathBuf;

use clap::Args;

use study::PlanTargets;

/// Facts and plans.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What the target is asked")]
pub struct AskingArgs {
    /// Do not ask the target for its settings, extensions, relations and indexes before the first
    /// statement, and do not gather evidence for a bundle.
    #[arg(long)]
    pub no_facts: bool,
    /// At the end, ask for the plans (EXPLAIN, which carries nothing out) of the statements that took
    /// the most service time, so many of them [default: 500]. The run keeps the plans, with the values
    /// of an example of each.
    #[arg(
        long,
        value_name = "STATEMENTS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "500",
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub explain: Option<u32>,
}

/// Plans that a comparison asks for itself.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Plans")]
pub struct ExplainArgs {
    /// Ask both targets now for the plans (EXPLAIN, which carries nothing out) of up to 500 statements,
    /// those first that got slower or faster, with the values of the workload's first execution of each.
    #[arg(long, requires_all = ["before_target", "after_target", "workload"])]
    pub explain: bool,
    /// The server before the change, as --target of a replay.
    #[arg(long, value_name = "URL", requires = "explain")]
    pub before_target: Option<String>,
    /// The server after the change.
    #[arg(long, value_name = "URL", requires = "explain")]
    pub after_target: Option<String>,
    /// The workload of the runs.
    #[arg(long, value_name = "NAME.workload", requires = "explain")]
    pub workload: Option<PathBuf>,
}

impl ExplainArgs {
    /// The servers to ask, if any.
    pub fn targets(&self) -> Option<PlanTargets> {
        Some(PlanTargets {
            before: self.before_target.clone()?,
            after: self.after_target.clone()?,
            workload: self.workload.clone()?,
        })
    }
}
