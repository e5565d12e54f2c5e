//! Export over OTLP, by the program's command line: to a collector that decodes it, and to collectors that fail.

mod collector;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value as Any};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use sandbox::{Endpoint, Sandbox};
use serde_json::Value;
use test_support::{CaptureProxy, connect, server};

use collector::{Answer, Collector};

/// Time after which a waiting test fails. It is not an expected duration.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of requests of the workload: each has one statement that is traced.
const REQUESTS: u64 = 40;
/// A literal that no span may show.
const LITERAL: u64 = 987_654;

/// Writes a log whose statements have traces: a sampled one, one that the application did not sample, and an invalid
/// one for each request. The sampled statement of each tenth request fails.
fn workload(directory: &Path) -> String {
    let mut log = String::from(
        "2026-03-01 09:00:00.000 UTC [7] LOG:  connection authorized: user=postgres database=postgres\n",
    );
    for request in 0..REQUESTS {
        let comment = |trace: &str| format!("/*route='%2Fa',traceparent='{trace}'*/");
        let divisor = u64::from(request % 10 != 0);
        let sampled = comment(&format!("00-{}-00f067aa0ba902b7-01", trace_id(request)));
        let unsampled = comment("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
        let invalid = comment("00-0-0-01");
        for (sql, comment) in [
            (
                format!("SELECT {LITERAL} / {divisor} FROM pg_class LIMIT 2"),
                sampled,
            ),
            ("SELECT 1".to_owned(), unsampled),
            ("SELECT 2".to_owned(), invalid),
        ] {
            log.push_str(&format!(
                "2026-03-01 09:00:00.{:03} UTC [7] LOG:  duration: 0.100 ms  statement: {sql} {comment}\n",
                10 + request
            ));
        }
    }
    let from = directory.join("a.log");
    std::fs::write(&from, log).unwrap();
    let workload = directory.join("a.workload").display().to_string();
    let from = from.display().to_string();
    let made = rehearse(
        &[
            "capture", "log", &from, "--prefix", "%m [%p] ", "-o", &workload,
        ],
        &[],
    );
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    workload
}

/// Returns the id of a request's trace. No two requests have the same one.
fn trace_id(request: u64) -> String {
    format!("4bf92f3577b34da6{:016x}", request + 1)
}

fn program(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(arguments);
    for (name, _) in std::env::vars() {
        if name.starts_with("OTEL_") || name.to_ascii_lowercase().ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied());
    command
}

fn rehearse(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    program(arguments, variables).output().unwrap()
}

/// A replay of the workload on a server of its own.
struct Replay {
    directory: tempfile::TempDir,
    endpoint: Endpoint,
    _server: Sandbox,
    workload: String,
}

impl Replay {
    fn prepare() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (server, endpoint) = server().tcp().start();
        let workload = workload(directory.path());
        Replay {
            directory,
            endpoint,
            _server: server,
            workload,
        }
    }

    fn run(&self) -> PathBuf {
        self.directory.path().join("a.run")
    }

    fn replay(&self, options: &[&str], variables: &[(&str, &str)]) -> Output {
        let url = self.endpoint.url("postgres");
        let run = self.run().display().to_string();
        let _ = std::fs::remove_dir_all(self.run());
        let given = ["replay", &self.workload, "--target", &url, "-o", &run];
        rehearse(&[&given, options].concat(), variables)
    }

    /// Returns the options in the run's manifest.
    fn manifest_options(&self) -> Value {
        let manifest = std::fs::read(self.run().join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        manifest["body"]["options"].clone()
    }
}

#[track_caller]
fn stderr(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref()?.value.as_ref()? {
        Any::StringValue(text) => Some(text.clone()),
        Any::IntValue(number) => Some(number.to_string()),
        Any::DoubleValue(number) => Some(number.to_string()),
        _ => None,
    };
    let pairs = attributes.iter();
    pairs
        .filter_map(|one| Some((one.key.as_str(), text(one)?)))
        .collect()
}

/// Returns the values of a gauge or a counter by the values of its labels.
fn values(metric: &Metric) -> BTreeMap<String, f64> {
    let points = match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => &gauge.data_points,
        Data::Sum(sum) => {
            assert!(
                sum.is_monotonic && sum.aggregation_temporality == 2,
                "{metric:?}"
            );
            &sum.data_points
        }
        other => panic!("{other:?}"),
    };
    let pairs = points.iter().map(|point| {
        assert!(
            0 < point.start_time_unix_nano && point.start_time_unix_nano <= point.time_unix_nano
        );
        let labels: Vec<String> = texts(&point.attributes).into_values().collect();
        match point.value {
            Some(number_data_point::Value::AsDouble(value)) => (labels.join(","), value),
            _ => panic!("{point:?}"),
        }
    });
    pairs.collect()
}

#[test]
fn replay_exports_metrics_and_spans_that_agree_with_the_run() {
    let replay = Replay::prepare();
    let collector = Collector::start(Answer::Accept);
    let endpoint = format!("{}/base/", collector.endpoint());
    let output = replay.replay(
        &["--otlp", &endpoint],
        &[
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=sword%2Cfish"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team=storage"),
        ],
    );
    let said = stderr(&output, 0);
    assert!(
        !said.contains("incomplete") && !said.contains("sword"),
        "{said}"
    );
    let requests = collector.requests();
    for request in &requests {
        assert!(request.path.starts_with("/base/v1/"), "{}", request.path);
        assert_eq!(request.headers["api-key"], "sword,fish");
        assert_eq!(request.headers["content-type"], "application/x-protobuf");
        let resource = texts(&request.resource);
        assert_eq!(resource["service.name"], "rehearse");
        assert_eq!(resource["team"], "storage");
        assert_eq!(resource["rehearse.run"], replay.run().display().to_string());
        assert_eq!(resource["service.instance.id"].len(), 36);
    }

    let last = requests
        .iter()
        .rev()
        .find(|request| !request.metrics.is_empty())
        .unwrap();
    let metric = |name: &str| {
        let found = last.metrics.iter().find(|metric| metric.name == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let failed = REQUESTS as f64 / 10.0;
    let statements = metric("rehearse.statements");
    assert_eq!(statements.unit, "{statement}");
    let outcomes = [
        ("done", 3.0 * REQUESTS as f64 - failed),
        ("failed", failed),
        ("skipped", 0.0),
    ];
    assert_eq!(
        values(statements),
        outcomes
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    );
    assert_eq!(values(metric("rehearse.replay_running"))[""], 0.0);
    assert_eq!(metric("rehearse.bytes_received").unit, "By");
    let Some(Data::Histogram(service)) = &metric("rehearse.service").data else {
        panic!("no histogram");
    };
    let point = &service.data_points[0];
    assert_eq!(point.count, 3 * REQUESTS);
    assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);

    let spans: Vec<&Span> = requests.iter().flat_map(|request| &request.spans).collect();
    assert_eq!(spans.len() as u64, REQUESTS);
    assert_spans_follow_the_conventions(&spans, replay.endpoint.port);
    let traces: BTreeSet<String> = spans
        .iter()
        .map(|span| hex(&span.links[0].trace_id))
        .collect();
    assert_eq!(traces, (0..REQUESTS).map(trace_id).collect());
    let failures = spans
        .iter()
        .filter(|span| span.status.as_ref().is_some_and(|one| one.code == 2));
    assert_eq!(failures.count() as f64, failed);

    let options = replay.manifest_options();
    assert_eq!(options["invalid_traceparents"], REQUESTS.to_string());
    let summary = options["otlp"].as_str().unwrap();
    assert!(summary.contains(&format!("{REQUESTS} spans)")), "{summary}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn assert_spans_follow_the_conventions(spans: &[&Span], port: u16) {
    let ids: BTreeSet<&[u8]> = spans.iter().map(|span| span.span_id.as_slice()).collect();
    assert_eq!(ids.len(), spans.len());
    for span in spans {
        assert_eq!(
            (span.trace_id.len(), span.span_id.len(), span.kind),
            (16, 8, 3),
            "{span:?}"
        );
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        assert_eq!(span.name, "SELECT pg_class");
        assert_eq!(span.links.len(), 1);
        let link = &span.links[0];
        assert_eq!(hex(&link.span_id), "00f067aa0ba902b7");
        assert_ne!(link.trace_id, span.trace_id);
        let attributes = texts(&span.attributes);
        assert_eq!(attributes["db.system.name"], "postgresql");
        assert_eq!(attributes["db.operation.name"], "SELECT");
        assert_eq!(
            attributes["db.query.text"],
            "select $1 / $2 from pg_class limit $3"
        );
        assert_eq!(attributes["server.port"], port.to_string());
        assert_eq!(
            attributes["rehearse.captured.trace_id"],
            hex(&link.trace_id)
        );
        assert_eq!(attributes["rehearse.captured.duration"], "0.0001");
        match span.status.as_ref() {
            Some(status) => {
                assert_eq!((status.code, status.message.as_str()), (2, "22012"));
                assert_eq!(attributes["db.response.status_code"], "22012");
            }
            None => assert_eq!(attributes["db.response.returned_rows"], "2"),
        }
        assert!(
            !format!("{span:?}").contains(&LITERAL.to_string()),
            "{span:?}"
        );
    }
}

#[test]
fn share_of_traces_without_any_leaves_the_metrics_and_variable_is_an_endpoint() {
    let replay = Replay::prepare();
    let collector = Collector::start(Answer::Accept);
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())];
    stderr(&replay.replay(&["--otlp-span-ratio", "0"], &variables), 0);
    let requests = collector.requests();
    assert!(requests.iter().all(|request| request.spans.is_empty()));
    assert!(requests.iter().any(|request| !request.metrics.is_empty()));
    let disabled = [variables[0], ("OTEL_SDK_DISABLED", "true")];
    stderr(&replay.replay(&[], &disabled), 0);
    assert_eq!(collector.requests().len(), requests.len());
}

/// Returns the sentence on an incomplete export, which is there once, and in the summary.
fn complaint(replay: &Replay, endpoint: &str, variables: &[(&str, &str)]) -> String {
    let output = replay.replay(&["--otlp", endpoint], variables);
    let said = stderr(&output, 0);
    let complaints: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("over OTLP"))
        .collect();
    assert_eq!(complaints.len(), 1, "{said}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("were lost"), "{shown}");
    let summary = replay.manifest_options()["otlp"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        summary.contains("(0 readings of the metrics, 0 spans; "),
        "{summary}"
    );
    complaints[0].to_owned()
}

#[test]
fn collectors_that_fail_are_reported_once_and_the_run_is_complete() {
    let replay = Replay::prepare();
    let unused = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let text = complaint(&replay, &format!("http://user:swordfish@{unused}"), &[]);
    assert!(
        text.contains(&format!("to http://{unused} is incomplete")),
        "{text}"
    );
    assert!(
        text.contains("1 of 1 readings of the metrics and 40 of 40 spans were lost"),
        "{text}"
    );
    assert!(
        text.contains("there was no answer (Connection refused"),
        "{text}"
    );

    let refusing = Collector::start(Answer::Refuse("401 Unauthorized", "no key\x1b[31m"));
    let text = complaint(&replay, refusing.endpoint(), &[]);
    assert!(text.contains("it answered 401 (no key [31m)"), "{text}");
    // What will never be accepted is sent once.
    assert_eq!(refusing.requests().len(), 2);

    let busy = Collector::start(Answer::Refuse("503 Service Unavailable", ""));
    let text = complaint(&replay, busy.endpoint(), &[]);
    assert!(text.contains("it answered 503;"), "{text}");

    let silent = Collector::start(Answer::Silence);
    let variables = [("OTEL_EXPORTER_OTLP_TIMEOUT", "300")];
    let text = complaint(&replay, silent.endpoint(), &variables);
    assert!(
        text.contains("there was no answer (it did not answer in time)"),
        "{text}"
    );

    let elsewhere = Collector::start(Answer::Refuse("302 Found", ""));
    let text = complaint(&replay, elsewhere.endpoint(), &[]);
    assert!(text.contains("it answered 302;"), "{text}");
}

#[test]
fn collector_that_rejects_a_part_is_reported_with_its_message() {
    let replay = Replay::prepare();
    let collector = Collector::start(Answer::RejectSpans(7, "attribute limit"));
    let said = stderr(&replay.replay(&["--otlp", collector.endpoint()], &[]), 0);
    let expected = "7 of 40 spans were lost, and the last failure was that it rejected a part (attribute limit)";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn invalid_export_is_refused_before_anything_is_sent() {
    let replay = Replay::prepare();
    let said = |options: &[&str], variables: &[(&str, &str)]| {
        let said = stderr(&replay.replay(options, variables), 2);
        assert!(!replay.run().exists());
        said
    };
    let text = said(&["--otlp", "collector:4318"], &[]);
    assert!(text.contains("such as http://localhost:4318"), "{text}");
    let grpc = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let text = said(&["--otlp", "http://localhost:4317"], &grpc);
    assert!(text.contains("only http/protobuf is supported"), "{text}");
    let text = said(&["--otlp", "http://localhost:4318", "--dry-run"], &[]);
    assert!(
        text.contains("--otlp has no effect with --dry-run"),
        "{text}"
    );
    let text = said(
        &["--otlp", "http://localhost:4318", "--otlp-span-ratio", "2"],
        &[],
    );
    assert!(text.contains("a number from 0 to 1"), "{text}");
}

#[test]
fn proxy_exports_what_it_recorded_and_forwarded() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, endpoint) = server().tcp().start();
    let collector = Collector::start(Answer::Accept);
    let workload = directory.path().join("a.workload");
    let options = ["--otlp", collector.endpoint()];
    let proxy = CaptureProxy::start(
        env!("CARGO_BIN_EXE_rehearse"),
        &endpoint,
        &workload,
        &options,
    );
    let mut client = connect(&proxy.endpoint);
    for _ in 0..25 {
        client.simple_query("SELECT 1").unwrap();
    }
    drop(client);
    proxy.interrupt();
    let last = collector.requests().pop().unwrap();
    let value = |name: &str| {
        let found = last.metrics.iter().find(|metric| metric.name == name);
        values(found.unwrap_or_else(|| panic!("no {name}")))
    };
    assert_eq!(value("rehearse.capture_statements")[""], 25.0);
    assert_eq!(value("rehearse.capture_sessions")[""], 1.0);
    assert_eq!(value("rehearse.proxy_connections_accepted")[""], 1.0);
    assert_eq!(value("rehearse.proxy_connections_open")[""], 0.0);
    assert_eq!(value("rehearse.capture_lost")[""], 0.0);
    let forwarded = value("rehearse.proxy_forwarded");
    assert!(
        forwarded["client"] > 25.0 * 13.0 && forwarded["server"] > 25.0 * 13.0,
        "{forwarded:?}"
    );
}

#[test]
fn followed_log_exports_while_it_is_followed_and_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let collector = Collector::start(Answer::Accept);
    let log = directory.path().join("a.log");
    let line = |n: u64| format!("2026-03-01 09:00:00.{n:03} UTC [7] LOG:  statement: SELECT {n}\n");
    std::fs::write(&log, line(0)).unwrap();
    let path = log.display().to_string();
    let workload = directory.path().join("a.workload").display().to_string();
    let arguments = [
        "capture",
        "log",
        &path,
        "--follow",
        "--from-start",
        "--prefix",
        "%m [%p] ",
        "-o",
        &workload,
        "--otlp",
        collector.endpoint(),
    ];
    let interval = [("OTEL_METRIC_EXPORT_INTERVAL", "100")];
    let mut command = program(&arguments, &interval);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while collector.requests().len() < 2 {
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    for n in 1..10 {
        file.write_all(line(n).as_bytes()).unwrap();
    }
    let bytes = std::fs::metadata(&log).unwrap().len() as f64;
    let read = || {
        let last = collector.requests().pop().unwrap();
        let value = |name: &str| {
            let found = last.metrics.iter().find(|metric| metric.name == name);
            values(found.unwrap_or_else(|| panic!("no {name}")))[""]
        };
        (
            value("rehearse.capture_log_read"),
            value("rehearse.capture_events"),
        )
    };
    while read().0 < bytes {
        assert!(since.elapsed() < PATIENCE, "{:?}", read());
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert!(child.wait().unwrap().success());
    // Ten statements, and the beginning and the end of their session.
    assert!(read().1 >= 10.0, "{:?}", read());
}
