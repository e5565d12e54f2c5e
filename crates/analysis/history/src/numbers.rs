//! Numbers of a run.

use compare::RunStats;
use run::RunReader;
use sql::Fingerprint;

/// Maximum number of statements of a run that are kept: those that took the most time.
const STATEMENTS_MAX: usize = 200;

/// Numbers of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunNumbers {
    /// Id of the run.
    pub run: String,
    /// Wall-clock time of its start, in microseconds since 1970.
    pub started_us: i64,
    /// Label from the user, such as a commit; may be empty.
    pub label: String,
    /// Name of the workload.
    pub workload: String,
    /// Id of the workload.
    pub workload_id: String,
    /// Speed of the replay, as given.
    pub speed: String,
    /// Version of the server.
    pub server_version: String,
    /// All statements together, then single ones, the most time-consuming first.
    pub statements: Vec<StatementNumbers>,
}

/// Numbers of one statement's executions in a run, or of all. Times are service times, in nanoseconds; what
/// the server counted is per execution.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatementNumbers {
    /// Fingerprint; `None` for all statements together.
    pub fingerprint: Option<Fingerprint>,
    /// Normal form; empty for all statements together.
    pub sql: String,
    /// Number of executions that succeeded.
    pub done: u64,
    /// Number of executions that failed.
    pub failed: u64,
    /// Mean; `None` if nothing succeeded.
    pub mean_ns: Option<f64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// Execution time on the server; `None` without statement statistics, as the next ones.
    pub exec_ns: Option<f64>,
    /// Shared blocks, found in memory or read.
    pub shared_blocks: Option<f64>,
    /// Blocks of temporary files.
    pub temp_blocks: Option<f64>,
    /// Records of WAL.
    pub wal_records: Option<f64>,
}

impl RunNumbers {
    /// Collects the numbers of a run.
    pub fn new(reader: &RunReader, stats: &RunStats, label: &str) -> Self {
        let info = reader.info();
        let mut statements: Vec<StatementNumbers> = stats
            .numbers()
            .map(|numbers| {
                let work = numbers.work;
                StatementNumbers {
                    fingerprint: numbers.fingerprint,
                    sql: numbers.sql.to_owned(),
                    done: numbers.done,
                    failed: numbers.failed,
                    mean_ns: numbers.latency.map(|latency| latency.mean_ns),
                    p50_ns: numbers.latency.map(|latency| latency.p50_ns),
                    p99_ns: numbers.latency.map(|latency| latency.p99_ns),
                    exec_ns: work.map(|work| work.exec_ns),
                    shared_blocks: work.map(|work| work.shared_blocks),
                    temp_blocks: work.map(|work| work.temp_blocks),
                    wal_records: work.and_then(|work| work.wal_records),
                }
            })
            .collect();
        let total_ns = |one: &StatementNumbers| one.mean_ns.unwrap_or(0.0) * one.done as f64;
        statements.sort_by(|one, other| {
            let is_all = |one: &StatementNumbers| one.fingerprint.is_none();
            let order = is_all(other).cmp(&is_all(one));
            let by_time = total_ns(other).total_cmp(&total_ns(one));
            order
                .then(by_time)
                .then(one.fingerprint.cmp(&other.fingerprint))
        });
        statements.truncate(STATEMENTS_MAX + 1);
        let speed = info.options.get("speed");
        RunNumbers {
            run: reader.id().to_owned(),
            started_us: info.started_wall_us,
            label: label.to_owned(),
            workload: info.workload.name.clone(),
            workload_id: info.workload.id.clone(),
            speed: speed.map_or("1", String::as_str).to_owned(),
            server_version: info.target.server_version.clone(),
            statements,
        }
    }
}
