//! Options for the facts and plans that are collected from a target.

use std::path::PathBuf;

use clap::Args;

use study::PlanTargets;

/// Facts and plans of a replay's target.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Facts and plans")]
pub struct FactsArgs {
    /// Do not collect settings, extensions, relations and indexes before the first statement,
    /// nor evidence for `export-evidence`.
    #[arg(long)]
    pub no_facts: bool,
    /// Collect the plans of this many statements at the end, those with the most service time
    /// [default: 500]. EXPLAIN does not execute them. The run keeps the plans, with the values
    /// of one example of each.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "500",
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub explain: Option<u32>,
}

/// Plans that a comparison collects.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Plans")]
pub struct ExplainArgs {
    /// Collect the plans of up to 500 statements from both targets now, slower and faster ones
    /// first. EXPLAIN does not execute them. Values are those of each statement's first
    /// execution in the workload.
    #[arg(long, requires_all = ["before_target", "after_target", "workload"])]
    pub explain: bool,
    /// Collect plans before the change from this server, as --target of a replay.
    #[arg(long, value_name = "URL", requires = "explain")]
    pub before_target: Option<String>,
    /// Collect plans after the change from this server.
    #[arg(long, value_name = "URL", requires = "explain")]
    pub after_target: Option<String>,
    /// Read values from this workload, which both runs replayed.
    #[arg(long, value_name = "NAME.workload", requires = "explain")]
    pub workload: Option<PathBuf>,
}

impl ExplainArgs {
    /// Returns the servers to collect plans from, if all are given.
    pub fn targets(&self) -> Option<PlanTargets> {
        Some(PlanTargets {
            before: self.before_target.clone()?,
            after: self.after_target.clone()?,
            workload: self.workload.clone()?,
        })
    }
}
