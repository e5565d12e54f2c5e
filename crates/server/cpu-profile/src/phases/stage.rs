//! Whether a stack lies within planning or execution as `pg_stat_statements` measures them, so that its
//! clocks and stacks can be set side by side.
//!
//! Its planning is the planner's call alone, without parsing, analysis and rewriting; its execution is the
//! executor's run and finish, without start and end, and utility statements (`pg_stat_statements.c`:
//! `pgss_planner`, `pgss_ExecutorEnd` with the run's instrumentation, `pgss_ProcessUtility`). Of calls within
//! calls the outermost counts: what a function plans is its caller's execution.

/// What the extension's clocks count a stack as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Planning.
    Planning,
    /// Execution.
    Execution,
    /// Neither: parsing, sending, committing.
    Neither,
}

impl Stage {
    /// Of a folded stack.
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
