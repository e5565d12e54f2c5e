//! Assigns a stack to planning or execution as `pg_stat_statements` measures them, so that its times and the
//! stacks can be compared.
//!
//! Its planning time is that of the planner's call alone, without parsing, analysis and rewriting. Its
//! execution time covers the executor's run and finish, without start and end, and utility statements
//! (`pg_stat_statements.c`: `pgss_planner`, `pgss_ExecutorEnd` with the run's instrumentation,
//! `pgss_ProcessUtility`). Of nested calls the outermost counts: planning within a function is execution of
//! its caller.

/// Stage of a statement by the extension's measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Planning.
    Planning,
    /// Execution.
    Execution,
    /// Neither of them: parsing, sending, committing.
    Neither,
}

impl Stage {
    /// Returns the stage of a folded stack.
    pub fn of(folded: &str) -> Stage {
        let known = |frame: &str| match super::plain(frame) {
            "standard_planner" => Some(Stage::Planning),
            "standard_ExecutorRun" | "standard_ExecutorFinish" | "standard_ProcessUtility" => {
                Some(Stage::Execution)
            }
            _ => None,
        };
        folded.split(';').find_map(known).unwrap_or(Stage::Neither)
    }
}
