//! Metrics of the program's process.

use cpu_profile::own_process::OwnProcess;
use telemetry::{MetricFamily, MetricSample, MetricScope, MetricValues, Unit};

/// Returns the metrics that every Prometheus client has of its process.
pub fn process_families(process: &OwnProcess) -> Vec<MetricFamily> {
    let cpu = MetricValues::Counter(vec![MetricSample {
        labels: Vec::new(),
        value: process.cpu_seconds,
    }]);
    vec![
        MetricFamily::new(
            "cpu",
            Unit::Seconds,
            "User and system time of the program, in seconds.",
            cpu,
        ),
        MetricFamily::gauge(
            "resident_memory",
            Unit::Bytes,
            "Memory in RAM.",
            process.resident_bytes as f64,
        ),
        MetricFamily::gauge(
            "virtual_memory",
            Unit::Bytes,
            "Address space.",
            process.virtual_bytes as f64,
        ),
        MetricFamily::gauge(
            "start_time",
            Unit::Seconds,
            "When the program was started, since 1970.",
            process.start_seconds,
        ),
        MetricFamily::gauge(
            "open_fds",
            Unit::Count("descriptor"),
            "Open descriptors, sockets among them.",
            process.open_fds as f64,
        ),
        MetricFamily::gauge(
            "max_fds",
            Unit::Count("descriptor"),
            "The most descriptors that the system allows.",
            process.max_fds as f64,
        ),
        MetricFamily::gauge(
            "threads",
            Unit::Count("thread"),
            "Threads of the program.",
            process.threads as f64,
        ),
    ]
    .into_iter()
    .map(|family| family.in_scope(MetricScope::Process))
    .collect()
}
