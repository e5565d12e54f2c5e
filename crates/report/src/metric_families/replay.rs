//! Metrics of a replay.

use replay::{BOUNDS_NS, Histogram, MetricsReading};
use telemetry::{HistogramReading, MetricFamily, MetricSample, MetricValues, Unit};

const NS_IN_SECOND: f64 = 1e9;
const STATEMENTS: Unit = Unit::Count("statement");
const CONNECTIONS: Unit = Unit::Count("connection");
const JOBS: Unit = Unit::Count("job");

/// Returns the metrics of a replay; before it starts, only that it does not run.
pub fn replay_families(readings: Option<&MetricsReading>) -> Vec<MetricFamily> {
    let running = readings.is_some_and(|readings| readings.running);
    let mut families = vec![MetricFamily::gauge(
        "replay_running",
        Unit::None,
        "1 while a replay runs.",
        f64::from(u8::from(running)),
    )];
    if let Some(readings) = readings {
        families.extend(progress(readings));
        families.extend(queues(readings));
        families.extend(counters(readings));
        families.extend(histograms(readings));
    }
    families
}

/// Returns the metric of the target's sessions by wait, as the live view has them.
pub fn target_wait_families(waits: &[(String, f64)]) -> Vec<MetricFamily> {
    if waits.is_empty() {
        return Vec::new();
    }
    let sample = |(wait, sessions): &(String, f64)| MetricSample {
        labels: vec![("wait", wait.clone())],
        value: *sessions,
    };
    let values = MetricValues::Gauge(waits.iter().map(sample).collect());
    vec![MetricFamily::new(
        "target_sessions",
        Unit::Count("session"),
        "Active sessions of the target, as the mean of the last samples, by what they wait for.",
        values,
    )]
}

fn progress(readings: &MetricsReading) -> [MetricFamily; 4] {
    let seconds = |ns: i64| ns as f64 / NS_IN_SECOND;
    let over = readings.done + readings.failed + readings.skipped;
    [
        MetricFamily::gauge(
            "workload_statements",
            STATEMENTS,
            "Statements to replay, copies among them; without those of a run that this one resumes.",
            readings.statements as f64,
        ),
        MetricFamily::gauge(
            "elapsed",
            Unit::Seconds,
            "Time since the replay's start.",
            seconds(readings.elapsed_ns),
        ),
        MetricFamily::gauge(
            "planned",
            Unit::Seconds,
            "Due time of what was read ahead last, from the start: where the replay is in the workload is the lesser of this and the elapsed time.",
            seconds(readings.dispatched_ns),
        ),
        MetricFamily::gauge(
            "progress",
            Unit::Ratio,
            "Statements that are over, as a share of all: 0 to 1.",
            match readings.statements {
                0 => 0.0,
                statements => over as f64 / statements as f64,
            },
        ),
    ]
}

fn queues(readings: &MetricsReading) -> [MetricFamily; 6] {
    [
        MetricFamily::gauge(
            "sessions_open",
            CONNECTIONS,
            "Connections that are open.",
            readings.sessions_open as f64,
        ),
        MetricFamily::gauge(
            "sessions_connecting",
            CONNECTIONS,
            "Connections that are being opened.",
            readings.sessions_connecting as f64,
        ),
        MetricFamily::gauge(
            "sessions_waiting",
            STATEMENTS,
            "Statements in flight, whose sessions wait for the server.",
            readings.sessions_waiting as f64,
        ),
        MetricFamily::gauge(
            "jobs_waiting",
            JOBS,
            "Jobs given to workers and not done: read ahead, queued after a slow statement, or in flight.",
            readings.jobs_waiting as f64,
        ),
        MetricFamily::gauge(
            "jobs_spilled",
            JOBS,
            "Of the waiting jobs, those on disk.",
            readings.jobs_spilled as f64,
        ),
        MetricFamily::gauge(
            "recorder_backlog",
            Unit::Count("record"),
            "What was done and is not yet written to the run.",
            readings.recorder_backlog as f64,
        ),
    ]
}

fn counters(readings: &MetricsReading) -> Vec<MetricFamily> {
    let outcomes = [
        ("done", readings.done),
        ("failed", readings.failed),
        ("skipped", readings.skipped),
    ];
    let outcome = |(outcome, count): (&str, u64)| MetricSample {
        labels: vec![("outcome", outcome.to_owned())],
        value: count as f64,
    };
    let reason = |(reason, count): &(String, u64)| MetricSample {
        labels: vec![("reason", reason.clone())],
        value: *count as f64,
    };
    let mut families = vec![
        MetricFamily::new(
            "statements",
            STATEMENTS,
            "Statements that are over, by outcome.",
            MetricValues::Counter(outcomes.map(outcome).into()),
        ),
        MetricFamily::new(
            "statement_failures",
            STATEMENTS,
            "Statements that failed, by SQLSTATE and its class.",
            by_sqlstate(&readings.failed_by),
        ),
        MetricFamily::new(
            "connections_failed",
            CONNECTIONS,
            "Sessions whose connection could not be opened, by SQLSTATE and its class.",
            by_sqlstate(&readings.connections_failed),
        ),
        MetricFamily::new(
            "connections_lost",
            CONNECTIONS,
            "Connections that were lost, by SQLSTATE and its class.",
            by_sqlstate(&readings.connections_lost),
        ),
        MetricFamily::new(
            "statements_skipped",
            STATEMENTS,
            "Statements that were never sent, by reason.",
            MetricValues::Counter(readings.skipped_by.iter().map(reason).collect()),
        ),
    ];
    if let Some(due) = readings.due {
        let help = "Statements that are due so far; none at full speed.";
        families.push(MetricFamily::counter(
            "statements_due",
            STATEMENTS,
            help,
            due,
        ));
    }
    families.extend(readings.counters.iter().map(|counted| {
        let unit = match counted.name {
            "bytes_received" => Unit::Bytes,
            "rows_received" => Unit::Count("row"),
            name if name.starts_with("statements") => STATEMENTS,
            name if name.starts_with("connection") => CONNECTIONS,
            _ => Unit::Count("event"),
        };
        MetricFamily::counter(counted.name, unit, counted.help, counted.value)
    }));
    families
}

fn by_sqlstate(counts: &[(String, u64)]) -> MetricValues {
    let sample = |(sqlstate, count): &(String, u64)| {
        let class = match sqlstate.len() {
            5 if sqlstate != "other" => &sqlstate[..2],
            _ => sqlstate,
        };
        MetricSample {
            labels: vec![("class", class.to_owned()), ("sqlstate", sqlstate.clone())],
            value: *count as f64,
        }
    };
    MetricValues::Counter(counts.iter().map(sample).collect())
}

fn histograms(readings: &MetricsReading) -> [MetricFamily; 5] {
    [
        (
            "tool_lag",
            "Lag of sent statements that is the tool's own doing.",
            &readings.tool_lag,
        ),
        (
            "session_lag",
            "Lag of sent statements because their session's previous one was not done: the server's doing.",
            &readings.session_lag,
        ),
        (
            "service",
            "Sent to done, of answered statements.",
            &readings.service,
        ),
        (
            "response",
            "Due to done, of answered statements.",
            &readings.response,
        ),
        (
            "connect",
            "How long sessions took to connect, tries that failed among it.",
            &readings.connect,
        ),
    ]
    .map(|(stem, help, histogram)| {
        MetricFamily::new(stem, Unit::Seconds, help, distribution(histogram))
    })
}

fn distribution(histogram: &Histogram) -> MetricValues {
    MetricValues::Histogram(HistogramReading {
        bounds: BOUNDS_NS
            .iter()
            .map(|&ns| ns as f64 / NS_IN_SECOND)
            .collect(),
        cells: histogram.cells.to_vec(),
        sum: histogram.sum_ns as f64 / NS_IN_SECOND,
    })
}
