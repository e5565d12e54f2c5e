//! Share of stacks within `pg_stat_statements` itself: after execution, and with `track_planning` also after
//! planning. The published flame graphs show these two areas.

/// Its library, whose functions have no symbols.
const LIBRARY: &str = "[pg_stat_statements.so]";
/// Functions that it calls on behalf of the server. Time below these is not its own.
const SERVER_FUNCTIONS: [&str; 6] = [
    "standard_planner",
    "standard_ExecutorStart",
    "standard_ExecutorRun",
    "standard_ExecutorFinish",
    "standard_ExecutorEnd",
    "standard_ProcessUtility",
];
/// Functions in which it records planning.
const PLANNING: [&str; 4] = [
    "pg_plan_query",
    "pg_plan_queries",
    "planner",
    "pgss_planner",
];

/// Samples of clients' backends, by the activity of the extension.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExtensionSamples {
    /// All samples.
    pub all: u64,
    /// Samples of the extension's own work after planning.
    pub planning: u64,
    /// Samples of the extension's own work after execution, and elsewhere.
    pub execution: u64,
    /// Samples of these that wait for a spin lock.
    pub spinning: u64,
}

impl ExtensionSamples {
    /// Returns the share of samples in its work after planning.
    pub fn planning_share(&self) -> f64 {
        self.planning as f64 / self.all.max(1) as f64
    }

    /// Returns the share of samples in its other work.
    pub fn execution_share(&self) -> f64 {
        self.execution as f64 / self.all.max(1) as f64
    }

    /// Returns the share of samples that wait for a spin lock below the extension.
    pub fn spinning_share(&self) -> f64 {
        self.spinning as f64 / self.all.max(1) as f64
    }
}

/// Strips compiler suffixes from a function's name.
fn strip_suffixes(frame: &str) -> &str {
    match frame.starts_with('[') {
        true => frame,
        false => frame.split('.').next().unwrap_or(frame),
    }
}

/// Counts folded stacks: functions from the outermost to the innermost, joined by `;`, and the number of samples.
pub fn count_samples<'l>(folded: impl Iterator<Item = &'l str>) -> ExtensionSamples {
    let mut sums = ExtensionSamples::default();
    for line in folded {
        let Some((stack, samples)) = line.rsplit_once(' ') else {
            continue;
        };
        let samples: u64 = samples.parse().unwrap_or(0);
        sums.all += samples;
        let frames: Vec<&str> = stack.split(';').map(strip_suffixes).collect();
        let own = |frame: &&str| *frame == LIBRARY || frame.starts_with("pgss_");
        let Some(at) = frames.iter().rposition(own) else {
            continue;
        };
        let (before, frames_after) = frames.split_at(at);
        if frames_after
            .iter()
            .any(|frame| SERVER_FUNCTIONS.contains(frame))
        {
            continue;
        }
        let within = before.iter().chain([&frames[at]]);
        match within.into_iter().any(|frame| PLANNING.contains(frame)) {
            true => sums.planning += samples,
            false => sums.execution += samples,
        }
        if frames_after.contains(&"s_lock") {
            sums.spinning += samples;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_separates_both_areas_with_and_without_symbols() {
        let named = [
            "main;exec_simple_query;pg_plan_queries;pg_plan_query;pgss_planner;standard_planner.part.0 50",
            "main;exec_simple_query;pg_plan_queries;pg_plan_query;pgss_planner;pgss_store;s_lock 3",
            "main;exec_simple_query;PortalRun;pgss_ExecutorRun;standard_ExecutorRun;ExecScan 40",
            "main;exec_simple_query;PortalDrop;pgss_ExecutorEnd;pgss_store 4",
            "main;exec_simple_query;finish_xact_command 10",
        ];
        let sums = count_samples(named.into_iter());
        assert_eq!(
            sums,
            ExtensionSamples {
                all: 107,
                planning: 3,
                execution: 4,
                spinning: 3
            }
        );
        let unnamed = [
            "main;[postgres];pg_plan_queries;pg_plan_query;[pg_stat_statements.so];[pg_stat_statements.so];hash_search 2",
            "main;[postgres];pg_plan_queries;pg_plan_query;[pg_stat_statements.so];standard_planner;[postgres] 9",
            "main;[postgres];PortalDrop;[pg_stat_statements.so];[pg_stat_statements.so] 5",
        ];
        let sums = count_samples(unnamed.into_iter());
        assert_eq!((sums.planning, sums.execution, sums.spinning), (2, 5, 0));
    }
}
