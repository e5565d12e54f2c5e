//! Metrics of captures: of the proxy, of probes, and of logs that are followed.

use capture_attach::AttachStatus;
use capture_log::Progress;
use capture_proxy::ProxyStatus;
use capture_recorder::CaptureStatus;
use capture_sink::series::SeriesStatus;
use telemetry::{MetricFamily, MetricSample, MetricValues, Unit};

const CONNECTIONS: Unit = Unit::Count("connection");
const SESSIONS: Unit = Unit::Count("session");
const STATEMENTS: Unit = Unit::Count("statement");

/// Returns the metrics of a proxy.
pub fn proxy_families(status: &ProxyStatus) -> Vec<MetricFamily> {
    let bytes = [status.client_bytes, status.server_bytes];
    let families = vec![
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
            bytes_by_sender(bytes),
        ),
    ];
    [
        families,
        recorder_families(&status.capture, status.lost_bytes),
    ]
    .concat()
}

/// Returns the metrics of a capture by probes.
pub fn attach_families(status: &AttachStatus) -> Vec<MetricFamily> {
    let counters = &status.counters;
    let families = vec![
        MetricFamily::gauge(
            "attach_server_attached",
            Unit::None,
            "1 while the probes are attached to a running server.",
            f64::from(u8::from(counters.postmaster.is_some())),
        ),
        MetricFamily::gauge(
            "attach_sessions_open",
            SESSIONS,
            "Open sessions that have sent something since the attach.",
            counters.sessions as f64,
        ),
        MetricFamily::new(
            "attach_copied",
            Unit::Bytes,
            "Bytes that the probes copied, recorded or not, by their sender.",
            bytes_by_sender(counters.bytes),
        ),
    ];
    [
        families,
        recorder_families(&status.capture, status.lost_bytes),
    ]
    .concat()
}

/// Returns the samples of bytes from clients, and from servers.
fn bytes_by_sender([client, server]: [u64; 2]) -> MetricValues {
    let sample = |(sender, bytes): (&str, u64)| MetricSample {
        labels: vec![("sender", sender.to_owned())],
        value: bytes as f64,
    };
    MetricValues::Counter([("client", client), ("server", server)].map(sample).into())
}

/// Returns the metrics of the recordings of live traffic.
fn recorder_families(capture: &CaptureStatus, lost_bytes: u64) -> Vec<MetricFamily> {
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
        MetricFamily::counter(
            "capture_lost",
            Unit::Bytes,
            "Bytes whose copies were dropped, since recording did not keep up.",
            lost_bytes,
        ),
        MetricFamily::counter(
            "capture_sessions",
            SESSIONS,
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
