//! Prometheus' text format, version 0.0.4.
//!
//! Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>. Names have units:
//! seconds and bytes, never milliseconds. No library is used, since the counters are arrays of
//! the workers, which a library's registry could not hold.

use std::fmt::Write as _;

use replay::{BOUNDS_NS, Histogram, MetricsReading};

use cpu_profile::own_process::OwnProcess;

const NS_IN_SECOND: f64 = 1e9;
/// Prefix of all metrics except those of the process.
const PREFIX: &str = "rehearse_";

/// Renders all metrics. Without readings, before a replay, only those of the program.
pub fn render_text(readings: Option<&MetricsReading>, process: Option<&OwnProcess>) -> String {
    let mut page = Page::default();
    let version = env!("CARGO_PKG_VERSION");
    page.head("build_info", "gauge", "The program's version; always 1.");
    page.sample("build_info", &[("version", version)], 1.0);
    let running = readings.is_some_and(|readings| readings.running);
    page.one(
        "replay_running",
        "gauge",
        "1 while a replay runs.",
        f64::from(u8::from(running)),
    );
    if let Some(readings) = readings {
        replay(&mut page, readings);
    }
    if let Some(process) = process {
        of_process(&mut page, process);
    }
    page.text
}

fn replay(page: &mut Page, readings: &MetricsReading) {
    gauges(page, readings);
    counters(page, readings);
    histograms(page, readings);
}

fn gauges(page: &mut Page, readings: &MetricsReading) {
    let seconds = |ns: i64| ns as f64 / NS_IN_SECOND;
    let over = readings.done + readings.failed + readings.skipped;
    for (name, help, value) in [
        (
            "workload_statements",
            "Statements to replay, copies among them; without those of a run that this one resumes.",
            readings.statements as f64,
        ),
        (
            "elapsed_seconds",
            "Time since the replay's start.",
            seconds(readings.elapsed_ns),
        ),
        (
            "planned_seconds",
            "Due time of what was read ahead last, from the start: where the replay is in the workload is the lesser of this and the elapsed time.",
            seconds(readings.dispatched_ns),
        ),
        (
            "progress_ratio",
            "Statements that are over, as a share of all: 0 to 1.",
            match readings.statements {
                0 => 0.0,
                statements => over as f64 / statements as f64,
            },
        ),
        (
            "sessions_open",
            "Connections that are open.",
            readings.sessions_open as f64,
        ),
        (
            "sessions_connecting",
            "Connections that are being opened.",
            readings.sessions_connecting as f64,
        ),
        (
            "sessions_waiting",
            "Statements in flight, whose sessions wait for the server.",
            readings.sessions_waiting as f64,
        ),
        (
            "jobs_waiting",
            "Jobs given to workers and not done: read ahead, queued after a slow statement, or in flight.",
            readings.jobs_waiting as f64,
        ),
        (
            "jobs_spilled",
            "Of the waiting jobs, those on disk.",
            readings.jobs_spilled as f64,
        ),
        (
            "recorder_backlog",
            "What was done and is not yet written to the run.",
            readings.recorder_backlog as f64,
        ),
    ] {
        page.one(name, "gauge", help, value);
    }
}

fn counters(page: &mut Page, readings: &MetricsReading) {
    let name = "statements_total";
    page.head(name, "counter", "Statements that are over, by outcome.");
    for (outcome, count) in [
        ("done", readings.done),
        ("failed", readings.failed),
        ("skipped", readings.skipped),
    ] {
        page.sample(name, &[("outcome", outcome)], count as f64);
    }
    for (name, help, by) in [
        (
            "statement_failures_total",
            "Statements that failed, by SQLSTATE and its class.",
            &readings.failed_by,
        ),
        (
            "connections_failed_total",
            "Sessions whose connection could not be opened, by SQLSTATE and its class.",
            &readings.connections_failed,
        ),
        (
            "connections_lost_total",
            "Connections that were lost, by SQLSTATE and its class.",
            &readings.connections_lost,
        ),
    ] {
        page.head(name, "counter", help);
        for (sqlstate, count) in by {
            let class = match sqlstate.len() {
                5 if sqlstate != "other" => &sqlstate[..2],
                _ => sqlstate,
            };
            page.sample(
                name,
                &[("class", class), ("sqlstate", sqlstate)],
                *count as f64,
            );
        }
    }
    let name = "statements_skipped_total";
    page.head(
        name,
        "counter",
        "Statements that were never sent, by reason.",
    );
    for (reason, count) in &readings.skipped_by {
        page.sample(name, &[("reason", reason)], *count as f64);
    }
    for counted in &readings.counters {
        let name = format!("{}_total", counted.name);
        page.one(&name, "counter", counted.help, counted.value as f64);
    }
}

fn histograms(page: &mut Page, readings: &MetricsReading) {
    for (name, help, histogram) in [
        (
            "tool_lag_seconds",
            "Lag of sent statements that is the tool's own doing.",
            &readings.tool_lag,
        ),
        (
            "session_lag_seconds",
            "Lag of sent statements because their session's previous one was not done: the server's doing.",
            &readings.session_lag,
        ),
        (
            "service_seconds",
            "Sent to done, of answered statements.",
            &readings.service,
        ),
        (
            "response_seconds",
            "Due to done, of answered statements.",
            &readings.response,
        ),
        (
            "connect_seconds",
            "How long sessions took to connect, tries that failed among it.",
            &readings.connect,
        ),
    ] {
        page.histogram(name, help, histogram);
    }
}

fn of_process(page: &mut Page, process: &OwnProcess) {
    for (name, kind, help, value) in [
        (
            "process_cpu_seconds_total",
            "counter",
            "User and system time of the program, in seconds.",
            process.cpu_seconds,
        ),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Memory in RAM.",
            process.resident_bytes as f64,
        ),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Address space.",
            process.virtual_bytes as f64,
        ),
        (
            "process_start_time_seconds",
            "gauge",
            "When the program was started, since 1970.",
            process.start_seconds,
        ),
        (
            "process_open_fds",
            "gauge",
            "Open descriptors, sockets among them.",
            process.open_fds as f64,
        ),
        (
            "process_max_fds",
            "gauge",
            "The most descriptors that the system allows.",
            process.max_fds as f64,
        ),
        (
            "process_threads",
            "gauge",
            "Threads of the program.",
            process.threads as f64,
        ),
    ] {
        page.text_head(name, kind, help);
        let _ = writeln!(page.text, "{name} {value}");
    }
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn text_head(&mut self, full_name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(
            self.text,
            "# HELP {full_name} {help}\n# TYPE {full_name} {kind}"
        );
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.text_head(&format!("{PREFIX}{name}"), kind, help);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.text, "{PREFIX}{name}");
        for (place, (label, value)) in labels.iter().enumerate() {
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let open = if place == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{open}{label}=\"{value}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.sample(name, &[], value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut count = 0;
        for (cell, bound_ns) in histogram.cells.iter().zip(BOUNDS_NS) {
            count += cell;
            let bound = (bound_ns as f64 / NS_IN_SECOND).to_string();
            self.sample(&bucket, &[("le", &bound)], count as f64);
        }
        self.sample(&bucket, &[("le", "+Inf")], histogram.count() as f64);
        let sum = histogram.sum_ns as f64 / NS_IN_SECOND;
        self.sample(&format!("{name}_sum"), &[], sum);
        self.sample(&format!("{name}_count"), &[], histogram.count() as f64);
    }
}
