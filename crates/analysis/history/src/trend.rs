//! Trends: the values of a measure over the runs of a history, and how the last one differs from the usual.

use compare::{TIME_FACTOR, WORK_FACTOR};
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use crate::numbers::{RunNumbers, StatementNumbers};

/// Difference of a counter from which a trend is notable, per execution. Smaller ones are those of pruning
/// and visibility maps.
const COUNT_MIN: f64 = 4.0;

/// Measure of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Mean service time, in nanoseconds.
    Service,
    /// Mean execution time on the server, in nanoseconds.
    Execution,
    /// Shared blocks.
    SharedBlocks,
    /// Blocks of temporary files.
    TemporaryBlocks,
    /// Records of WAL.
    WalRecords,
    /// Failures of the whole run.
    Failed,
}

impl Measure {
    /// All measures.
    pub const ALL: [Measure; 6] = [
        Measure::Service,
        Measure::Execution,
        Measure::SharedBlocks,
        Measure::TemporaryBlocks,
        Measure::WalRecords,
        Measure::Failed,
    ];

    /// Returns the value of a statement in a run, if it is known.
    pub fn of(self, numbers: &StatementNumbers) -> Option<f64> {
        match self {
            Measure::Service => numbers.mean_ns,
            Measure::Execution => numbers.exec_ns,
            Measure::SharedBlocks => numbers.shared_blocks,
            Measure::TemporaryBlocks => numbers.temp_blocks,
            Measure::WalRecords => numbers.wal_records,
            Measure::Failed => Some(numbers.failed as f64),
        }
    }

    /// Whether it is a time, in nanoseconds.
    pub fn is_time(self) -> bool {
        matches!(self, Measure::Service | Measure::Execution)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Service => "service time",
            Measure::Execution => "execution time",
            Measure::SharedBlocks => "blocks",
            Measure::TemporaryBlocks => "temporary blocks",
            Measure::WalRecords => "WAL records",
            Measure::Failed => "failures",
        }
    }

    fn is_notable(self, usual: f64, last: f64) -> bool {
        let (low, high) = (usual.min(last), usual.max(last));
        match self.is_time() {
            true => high >= TIME_FACTOR * low,
            false => high >= WORK_FACTOR * low && high - low >= COUNT_MIN,
        }
    }
}

/// Values of a measure of one statement, or of all.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Trend {
    /// Fingerprint; `null` for all statements together.
    pub fingerprint: Option<Fingerprint>,
    /// Normal form; empty for all statements together.
    pub sql: String,
    /// Measure.
    pub measure: Measure,
    /// Value in each run, the earliest first; `null` where it is not known.
    pub values: Vec<Option<f64>>,
    /// Median of the values before the last one; `null` if there is none.
    pub usual: Option<f64>,
    /// Value in the last run; `null` if it is not known.
    pub last: Option<f64>,
    /// Whether the last value differs from the usual by so much that a comparison of the two runs would judge
    /// it: a time by a factor of two, a counter by a factor of 1.5.
    pub is_notable: bool,
}

/// Finds the trends: the time of all statements, that of the statements that took the most time in the last
/// run, and whatever else of them is notable.
pub(crate) fn find_trends(runs: &[RunNumbers], statements_max: usize) -> Vec<Trend> {
    let Some(last) = runs.last() else {
        return Vec::new();
    };
    let mut trends = Vec::new();
    for statement in last.statements.iter().take(statements_max + 1) {
        let has_execution = statement.exec_ns.is_some();
        for measure in Measure::ALL {
            let is_shown = match measure {
                Measure::Service => statement.fingerprint.is_none() || !has_execution,
                Measure::Execution => has_execution,
                _ => false,
            };
            let trend = Trend::new(runs, statement, measure);
            if is_shown || trend.is_notable && !measure.is_time() {
                trends.push(trend);
            }
        }
    }
    trends
}

impl Trend {
    /// Collects a statement's values from all runs.
    pub(crate) fn new(runs: &[RunNumbers], statement: &StatementNumbers, measure: Measure) -> Self {
        let value = |run: &RunNumbers| {
            let same = |one: &&StatementNumbers| one.fingerprint == statement.fingerprint;
            run.statements
                .iter()
                .find(same)
                .and_then(|one| measure.of(one))
        };
        let values: Vec<Option<f64>> = runs.iter().map(value).collect();
        let (last, earlier) = match values.split_last() {
            Some((last, earlier)) => (*last, earlier),
            None => (None, &[][..]),
        };
        let usual = median(earlier.iter().copied().flatten().collect());
        let pair = usual.zip(last);
        Trend {
            fingerprint: statement.fingerprint,
            sql: statement.sql.clone(),
            measure,
            is_notable: pair.is_some_and(|(usual, last)| measure.is_notable(usual, last)),
            values,
            usual,
            last,
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values[low] + values[high]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: i64, exec_ns: f64, blocks: f64) -> RunNumbers {
        let all = StatementNumbers {
            done: 100,
            mean_ns: Some(1e6),
            ..StatementNumbers::default()
        };
        let one = StatementNumbers {
            fingerprint: Some(Fingerprint(7)),
            sql: "select $1".to_owned(),
            exec_ns: Some(exec_ns),
            shared_blocks: Some(blocks),
            ..all.clone()
        };
        RunNumbers {
            run: format!("run {number}"),
            started_us: number,
            label: String::new(),
            workload: "shop".to_owned(),
            workload_id: "1".to_owned(),
            speed: "1".to_owned(),
            server_version: "17.1".to_owned(),
            statements: vec![all, one],
        }
    }

    #[test]
    fn last_run_is_compared_with_the_median_of_those_before() {
        let runs = [
            run(1, 1e6, 4.0),
            run(2, 9e6, 4.0),
            run(3, 1.1e6, 4.0),
            run(4, 5e6, 400.0),
        ];
        let trends = find_trends(&runs, 10);
        let found: Vec<(Option<u64>, Measure, bool)> = trends
            .iter()
            .map(|trend| {
                (
                    trend.fingerprint.map(|one| one.0),
                    trend.measure,
                    trend.is_notable,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                (None, Measure::Service, false),
                (Some(7), Measure::Execution, true),
                (Some(7), Measure::SharedBlocks, true),
            ]
        );
        assert_eq!(trends[1].usual, Some(1.1e6));
        assert_eq!(trends[1].values.len(), 4);
    }

    #[test]
    fn single_run_and_small_counts_are_not_notable() {
        assert!(find_trends(&[], 10).is_empty());
        let trends = find_trends(&[run(1, 1e6, 1.0)], 10);
        assert_eq!((trends.len(), trends[1].usual), (2, None));
        let trends = find_trends(&[run(1, 1e6, 1.0), run(2, 1.9e6, 4.0)], 10);
        assert!(trends.iter().all(|trend| !trend.is_notable), "{trends:?}");
    }
}
