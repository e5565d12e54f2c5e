//! Where stacks lie within `pg_stat_statements` itself: behind execution, and with `track_planning` behind planning
//! as well. These are the two areas of the published flame graphs.

/// Its library, where functions have no names.
const LIBRARY: &str = "[pg_stat_statements.so]";
/// What it calls in the server's place: below these it is not at work itself.
const BEYOND: [&str; 6] = [
    "standard_planner",
    "standard_ExecutorStart",
    "standard_ExecutorRun",
    "standard_ExecutorFinish",
    "standard_ExecutorEnd",
    "standard_ProcessUtility",
];
/// Functions within which it counts planning.
const PLANNING: [&str; 4] = [
    "pg_plan_query",
    "pg_plan_queries",
    "planner",
    "pgss_planner",
];

/// Samples of clients' backends, by what the extension did in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// All samples.
    pub all: u64,
    /// At work behind planning.
    pub planning: u64,
    /// At work behind execution, and elsewhere.
    pub execution: u64,
    /// Of these, waiting for a spin lock.
    pub spinning: u64,
}

impl Statistics {
    /// The share of planning's area.
    pub fn planning_share(&self) -> f64 {
        self.planning as f64 / self.all.max(1) as f64
    }

    /// The share of the other.
    pub fn execution_share(&self) -> f64 {
        self.execution as f64 / self.all.max(1) as f64
    }

    /// The share of waiting for a spin lock below the extension.
    pub fn spinning_share(&self) -> f64 {
        self.spinning as f64 / self.all.max(1) as f64
    }
}

/// A function's name without what compilers add.
fn plain(frame: &str) -> &str {
    match frame.starts_with('[') {
        true => frame,
        false => frame.split('.').next().unwrap_or(frame),
    }
}

/// Of folded stacks: functions from the outermost to the innermost, joined by `;`, and the number of samples.
pub fn statistics<'l>(folded: impl Iterator<Item = &'l str>) -> Statistics {
    let mut sums = Statistics::default();
    for line in folded {
        let Some((stack, samples)) = line.rsplit_once(' ') else {
            continue;
        };
        let samples: u64 = samples.parse().unwrap_or(0);
        sums.all += samples;
        let frames: Vec<&str> = stack.split(';').map(plain).collect();
        let own = |frame: &&str| *frame == LIBRARY || frame.starts_with("pgss_");
        let Some(at) = frames.iter().rposition(own) else {
            continue;
        };
        let (before, behind) = frames.split_at(at);
        if behind.iter().any(|frame| BEYOND.contains(frame)) {
            continue;
        }
        let within = before.iter().chain([&frames[at]]);
        match within.into_iter().any(|frame| PLANNING.contains(frame)) {
            true => sums.planning += samples,
            false => sums.execution += samples,
        }
        if behind.contains(&"s_lock") {
            sums.spinning += samples;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_areas_are_told_apart_with_and_without_names() {
        let named = [
            "main;exec_simple_query;pg_plan_queries;pg_plan_query;pgss_planner;standard_planner.part.0 50",
            "main;exec_simple_query;pg_plan_queries;pg_plan_query;pgss_planner;pgss_store;s_lock 3",
            "main;exec_simple_query;PortalRun;pgss_ExecutorRun;standard_ExecutorRun;ExecScan 40",
            "main;exec_simple_query;PortalDrop;pgss_ExecutorEnd;pgss_store 4",
            "main;exec_simple_query;finish_xact_command 10",
        ];
        let sums = statistics(named.into_iter());
        assert_eq!(
            sums,
            Statistics {
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
        let sums = statistics(unnamed.into_iter());
        assert_eq!((sums.planning, sums.execution, sums.spinning), (2, 5, 0));
    }
}
