//! Metrics of captures: of the proxy, and of logs that are followed.

use capture_log::Progress;
use capture_proxy::ProxyStatus;
use capture_sink::series::SeriesStatus;
use telemetry::{MetricFamily, MetricSample, MetricValues, Unit};

const CONNECTIONS: Unit = Unit::Count("connection");
const STATEMENTS: Unit = Unit::Count("statement");

/// Returns the metrics of a proxy.
pub fn proxy_families(status: &ProxyStatus) -> Vec<MetricFamily> {
    let capture = &status.capture;
    let mut recorded = [0_u64; 3];
    let current = capture
        .recording
        .as_ref()
        .map(|recording| &recording.account);
    let finished = capture.finished.iter().map(|one| &one.account.conversation);
    for account in finished.chain(current) {
        recorded[0] += account.sessions;
        recorded[1] += account.statements;
        recorded[2] += account.events;
    }
    let directions = [
        ("client", status.client_bytes),
        ("server", status.server_bytes),
    ];
    let direction = |(sender, bytes): (&str, u64)| MetricSample {
        labels: vec![("sender", sender.to_owned())],
        value: bytes as f64,
    };
    let is_recording = capture.recording.is_some();
    let series = capture.series.as_ref();
    let series = series
        .map(|watch| series_families(&watch.status()))
        .unwrap_or_default();
    let families = vec![
        MetricFamily::gauge(
            "capture_recording",
            Unit::None,
            "1 while the traffic is recorded.",
            f64::from(u8::from(is_recording)),
        ),
        MetricFamily::gauge(
            "proxy_connections_open",
            CONNECTIONS,
            "Open connections, including those that have not logged in yet.",
            status.connections as f64,
        ),
        MetricFamily::counter(
            "proxy_connections_accepted",
            CONNECTIONS,
            "Connections accepted since the start.",
            status.accepted,
        ),
        MetricFamily::counter(
            "proxy_connections_refused",
            CONNECTIONS,
            "Accepted connections that could not be connected to the server.",
            status.refused,
        ),
        MetricFamily::new(
            "proxy_forwarded",
            Unit::Bytes,
            "Bytes that were forwarded, recorded or not, by their sender.",
            MetricValues::Counter(directions.map(direction).into()),
        ),
        MetricFamily::counter(
            "capture_lost",
            Unit::Bytes,
            "Bytes whose copies were dropped, since recording did not keep up.",
            status.lost_bytes,
        ),
        MetricFamily::counter(
            "capture_sessions",
            Unit::Count("session"),
            "Recorded sessions.",
            recorded[0],
        ),
        MetricFamily::counter(
            "capture_statements",
            STATEMENTS,
            "Recorded statements.",
            recorded[1],
        ),
        MetricFamily::counter(
            "capture_events",
            Unit::Count("event"),
            "Recorded events: statements, connects, disconnects and cancels.",
            recorded[2],
        ),
    ];
    [families, series].concat()
}

/// Returns the metrics of a series that is being captured.
pub fn series_families(status: &SeriesStatus) -> Vec<MetricFamily> {
    let parts = Unit::Count("part");
    let mut families = vec![
        MetricFamily::counter(
            "capture_series_parts_written",
            parts,
            "Completed parts of the series.",
            status.parts_written,
        ),
        MetricFamily::counter(
            "capture_series_parts_removed",
            parts,
            "Parts that the retention has removed.",
            status.parts_removed,
        ),
        MetricFamily::counter(
            "capture_series_removals_failed",
            Unit::None,
            "Times that a part stayed beyond the limits of the retention, since it was read or could not be removed.",
            status.removals_failed,
        ),
        MetricFamily::gauge(
            "capture_series_parts",
            parts,
            "Complete parts of the series.",
            status.parts_kept as f64,
        ),
        MetricFamily::gauge(
            "capture_series_size",
            Unit::Bytes,
            "Size of the complete parts.",
            status.bytes_kept as f64,
        ),
        MetricFamily::counter(
            "capture_series_late_events",
            Unit::Count("event"),
            "Events that ended after the part of their time was complete.",
            status.late_events,
        ),
        MetricFamily::gauge(
            "capture_series_carried_state",
            Unit::Bytes,
            "Memory of the statements that restore the state of open sessions.",
            status.carried_bytes as f64,
        ),
    ];
    if let Some(captured_to_us) = status.captured_to_us {
        families.push(MetricFamily::gauge(
            "capture_series_captured_to",
            Unit::Seconds,
            "Time up to which complete parts have everything that had ended, since 1970-01-01 UTC.",
            captured_to_us as f64 / 1e6,
        ));
    }
    families
}

/// Returns the metrics of a capture of logs.
pub fn log_families(progress: &Progress) -> Vec<MetricFamily> {
    vec![
        MetricFamily::counter(
            "capture_log_read",
            Unit::Bytes,
            "Bytes of the log that were read, before decompression.",
            progress.read_bytes,
        ),
        MetricFamily::counter(
            "capture_events",
            Unit::Count("event"),
            "Recorded events: statements, connects, disconnects and cancels.",
            progress.events,
        ),
    ]
}
