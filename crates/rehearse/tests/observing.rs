//! Observability of a replay: its metrics during the run and at the end, its log, and refused
//! requests.

mod dashboard;
mod diagnosing;
mod hostile_http;
mod live;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time after which a waiting test fails. It is not an expected duration.
const PATIENCE: Duration = Duration::from_secs(60);

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(arguments);
    for variable in ["PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE"] {
        command.env_remove(variable);
    }
    command
}

fn rehearse(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Creates six sessions that each send `rounds` statements 50 ms apart: reads, with a failure in
/// each tenth.
fn workload(directory: &Path, rounds: u32) -> String {
    let mut log = String::new();
    for round in 0..=rounds {
        for session in 0..6 {
            let what = match round {
                0 => "connection authorized: user=postgres database=postgres".to_owned(),
                round if round % 10 == 5 => "statement: SELECT 1/0".to_owned(),
                round => format!("statement: SELECT {round} FROM generate_series(1, 3)"),
            };
            let (time, pid) = (round * 50 + session, 100 + session);
            writeln!(
                log,
                "2026-03-01 09:{:02}:{:02}.{:03} UTC [{pid}] LOG:  {what}",
                time / 60_000,
                time / 1_000 % 60,
                time % 1_000
            )
            .unwrap();
        }
    }
    let from = directory.join("a.log").display().to_string();
    std::fs::write(&from, log).unwrap();
    let workload = directory.join("a.workload").display().to_string();
    let made = rehearse(&[
        "capture", "log", &from, "--prefix", "%m [%p] ", "-o", &workload,
    ]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    workload
}

/// Running replay and its messages.
struct Running {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    said: Vec<String>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = command(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Running {
            child,
            stderr,
            said: Vec::new(),
        }
    }

    /// Reads lines up to one that contains this text.
    fn until(&mut self, what: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.stderr.read_line(&mut line).unwrap();
            assert!(read > 0, "it never said '{what}': {:#?}", self.said);
            self.said.push(line.trim_end().to_owned());
            if line.contains(what) {
                return line;
            }
        }
    }

    /// Returns the address of the metrics.
    fn address(&mut self) -> String {
        let line = self.until("http://");
        let rest = line.split("http://").nth(1).unwrap();
        rest.split('/').next().unwrap().to_owned()
    }

    fn signal(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Returns the exit code and all messages.
    fn end(mut self) -> (Option<i32>, Vec<String>) {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        self.said.extend(rest.lines().map(str::to_owned));
        (self.child.wait().unwrap().code(), self.said)
    }
}

/// Returns status, headers and body.
fn get(address: &str, path: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

/// Contents of a metrics page: types by family, and values by name with labels.
#[derive(Debug, Default)]
struct Metrics {
    kinds: BTreeMap<String, String>,
    values: BTreeMap<String, f64>,
}

impl Metrics {
    fn scrape(address: &str) -> Self {
        let (status, head, body) = get(address, "/metrics");
        assert_eq!(status, 200);
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        Metrics::parse(&body)
    }

    /// Parses strictly: each family has HELP and TYPE once, before its samples; labels are
    /// quoted; no sample occurs twice; buckets never decrease, and the last equals the count.
    fn parse(text: &str) -> Self {
        let mut metrics = Metrics::default();
        let mut helped = BTreeSet::new();
        let mut family = String::new();
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(!help.is_empty() && is_name(name), "{line}");
                assert!(helped.insert(name.to_owned()), "twice: {line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert!(helped.contains(name), "no HELP: {line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                let before = metrics.kinds.insert(name.to_owned(), kind.to_owned());
                assert!(before.is_none(), "twice: {line}");
                family = name.to_owned();
            } else {
                metrics.sample(line, &family);
            }
        }
        for (name, _) in metrics
            .kinds
            .iter()
            .filter(|(_, kind)| *kind == "histogram")
        {
            metrics.check_histogram(name);
        }
        metrics
    }

    fn sample(&mut self, line: &str, family: &str) {
        let (id, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = match id.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect(line)),
            None => (id, ""),
        };
        assert!(is_name(name), "{line}");
        let kind = &self.kinds[family];
        let suffixes: &[&str] = match kind.as_str() {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let of_family = |suffix: &&str| format!("{family}{suffix}") == name;
        assert!(suffixes.iter().any(of_family), "not of {family}: {line}");
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once("=\"").expect(line);
            assert!(is_name(label) && value.ends_with('"'), "{line}");
            assert_eq!(value.matches('"').count(), 1, "{line}");
        }
        let before = self
            .values
            .insert(id.to_owned(), value.parse().expect(line));
        assert!(before.is_none(), "twice: {line}");
    }

    fn check_histogram(&self, name: &str) {
        let start = format!("{name}_bucket{{le=\"");
        let mut buckets: Vec<(f64, f64)> = self
            .values
            .iter()
            .filter_map(|(id, &count)| {
                let bound = id.strip_prefix(&start)?.strip_suffix("\"}")?;
                Some((bound.parse().unwrap_or(f64::INFINITY), count))
            })
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(buckets.len(), 23, "{name}");
        assert_eq!((buckets[0].0, buckets[21].0), (1e-5, 100.0));
        assert!(
            buckets.is_sorted_by(|a, b| a.1 <= b.1),
            "{name}: {buckets:?}"
        );
        assert_eq!(
            buckets[22],
            (f64::INFINITY, self.value(&format!("{name}_count")))
        );
    }

    #[track_caller]
    fn value(&self, id: &str) -> f64 {
        *self.values.get(id).unwrap_or_else(|| panic!("no {id}"))
    }

    /// Returns the sum over all labels.
    fn sum(&self, name: &str) -> f64 {
        let start = format!("{name}{{");
        let of_name = |id: &&String| id.starts_with(&start);
        let ids = self.values.keys().filter(of_name);
        ids.map(|id| self.values[id]).sum()
    }
}

fn is_name(text: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(first) && text.chars().all(|c| first(c) || c.is_ascii_digit())
}

/// Returns the names of metrics that the dashboard queries.
fn dashboard_names() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboards/grafana-replay.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut names = BTreeSet::new();
    let mut take = |query: &str| {
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let of_ours = |word: &&str| word.starts_with("rehearse_") || word.starts_with("process_");
        names.extend(query.split(word).filter(of_ours).map(str::to_owned));
    };
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        // Without thresholds a single number turns red from 80.
        let is_number = panel["type"] != "timeseries";
        let thresholds = &panel["fieldConfig"]["defaults"]["thresholds"]["steps"];
        assert_eq!(thresholds.is_array(), is_number, "{}", panel["title"]);
        // Asked for over a range, a replay that is gone would still run.
        let is_present = ["Running", "Version", "Up for"].map(Value::from);
        let is_present = is_present.contains(&panel["title"]);
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            take(query);
            assert_eq!(target["datasource"]["uid"], "${datasource}");
            assert_eq!(target["instant"], is_present, "{query}");
            let of_ours = r#"{job=~"$job",instance=~"$instance"}"#;
            let of_ours_too = r#"",job=~"$job",instance=~"$instance"}"#;
            assert!(
                query.contains(of_ours) || query.contains(of_ours_too),
                "{query}"
            );
            // A series whose first value is its count has no rate until it changes again.
            let appears_late = [
                "failures_total",
                "skipped_total",
                "failed_total",
                "lost_total",
            ];
            if appears_late.iter().any(|name| query.contains(name)) {
                assert!(!query.contains("rate("), "{query}");
            }
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        // With it, "All" would be every process that this Prometheus knows.
        assert_eq!(variable.get("allValue"), None);
        take(variable["definition"].as_str().unwrap_or_default());
    }
    names
}

#[test]
fn metrics_can_be_scraped_while_it_runs_and_add_up_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = test_support::server().start();
    let workload = workload(directory.path(), 60);
    let run = directory.path().join("a.run").display().to_string();
    let url = endpoint.url("postgres");
    let mut running = Running::start(&[
        "replay",
        &workload,
        "--target",
        &url,
        "-o",
        &run,
        "--metrics",
        "0",
        "--metrics-linger",
        "50s",
    ]);
    let address = running.address();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert_eq!(get(&address, "/healthz").0, 200);
    assert_eq!(get(&address, "/elsewhere").0, 404);

    let since = Instant::now();
    let mut seen_under_way = false;
    let last = loop {
        let metrics = Metrics::scrape(&address);
        let is_running = metrics.value("rehearse_replay_running") == 1.0;
        if is_running {
            let done = metrics.value("rehearse_statements_total{outcome=\"done\"}");
            let ratio = metrics.value("rehearse_progress_ratio");
            seen_under_way |= done > 0.0
                && ratio < 1.0
                && metrics.value("rehearse_sessions_open") == 6.0
                && metrics.value("rehearse_planned_seconds") > 0.0;
        } else if metrics.values.contains_key("rehearse_progress_ratio") {
            break metrics;
        }
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(seen_under_way);

    assert_eq!(last.value("rehearse_workload_statements"), 360.0);
    assert_eq!(last.sum("rehearse_statements_total"), 360.0);
    assert_eq!(last.value("rehearse_progress_ratio"), 1.0);
    let failed = "rehearse_statement_failures_total{class=\"22\",sqlstate=\"22012\"}";
    assert_eq!(last.value(failed), 36.0);
    assert_eq!(
        last.value("rehearse_statements_total{outcome=\"failed\"}"),
        36.0
    );
    assert_eq!(last.sum("rehearse_statements_skipped_total"), 0.0);
    assert_eq!(last.value("rehearse_statements_sent_total"), 360.0);
    for name in ["tool_lag", "session_lag", "service", "response"] {
        let count = last.value(&format!("rehearse_{name}_seconds_count"));
        assert_eq!(count, 360.0, "{name}");
    }
    assert_eq!(last.value("rehearse_connect_seconds_count"), 6.0);
    assert!(last.value("rehearse_service_seconds_sum") > 0.0);
    assert_eq!(last.value("rehearse_rows_received_total"), 3.0 * 324.0);
    assert!(last.value("rehearse_bytes_received_total") > 360.0 * 10.0);
    for name in [
        "sessions_open",
        "sessions_connecting",
        "sessions_waiting",
        "jobs_waiting",
        "jobs_spilled",
        "recorder_backlog",
    ] {
        assert_eq!(last.value(&format!("rehearse_{name}")), 0.0, "{name}");
    }
    assert!(last.value("rehearse_elapsed_seconds") > 2.9);
    assert!(last.value("process_resident_memory_bytes") > 1e6);

    // The dashboard asks for nothing that is not there, and for all that is.
    let asked = dashboard_names();
    assert!(asked.len() > 25, "{asked:?}");
    let family = |name: &String| {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .filter(|base| last.kinds.contains_key(*base));
        base.unwrap_or(name).to_owned()
    };
    let asked: BTreeSet<String> = asked.iter().map(family).collect();
    let shown: BTreeSet<String> = last.kinds.keys().cloned().collect();
    assert_eq!(asked, shown);

    running.signal();
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said:#?}");
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
fn the_log_is_json_and_tells_of_ctrl_c_and_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = test_support::server().password("swordfish").start();
    let workload = workload(directory.path(), 1_000);
    let run = directory.path().join("a.run").display().to_string();
    let url = endpoint.url("postgres");
    let place = url.rsplit('@').next().unwrap();
    let mut running = Running::start(&[
        "replay",
        &workload,
        "--target",
        &url,
        "-o",
        &run,
        "--log-format",
        "json",
        "--metrics",
        "0",
    ]);
    let address = running.address();
    let since = Instant::now();
    while Metrics::scrape(&address)
        .values
        .get("rehearse_statements_total{outcome=\"done\"}")
        .is_none_or(|done| *done < 10.0)
    {
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let (_, _, body) = get(&address, "/metrics");
    assert!(!body.contains("swordfish"));
    running.signal();
    let (code, said) = running.end();
    assert_eq!(code, Some(1), "{said:#?}");
    let lines: Vec<Value> = said
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    for line in &lines {
        let time = line["time"].as_str().unwrap();
        assert_eq!(
            (time.len(), &time[10..11], &time[26..]),
            (27, "T", "Z"),
            "{time}"
        );
        assert!(
            ["info", "warn"].contains(&line["level"].as_str().unwrap()),
            "{line}"
        );
    }
    let find = |message: &str| {
        let found = lines.iter().find(|line| line["message"] == message);
        found.unwrap_or_else(|| panic!("no '{message}': {said:#?}"))
    };
    let started = find("replay started");
    assert_eq!(started["statements"], 6_000);
    assert!(
        place.starts_with(started["target"].as_str().unwrap()),
        "{started}"
    );
    assert_eq!(started["options"]["speed"], "1");
    assert_eq!(
        find("stopping in order, asked by a signal")["level"],
        "warn"
    );
    let ended = find("replay stopped before its end");
    let count = |name: &str| ended[name].as_u64().unwrap();
    assert_eq!(count("done") + count("failed") + count("skipped"), 6_000);
    assert!(count("done") >= 10 && count("skipped") > 0);
    assert!(!said.concat().contains("swordfish"), "{said:#?}");
}

#[test]
fn connections_that_are_refused_are_told_or_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = test_support::server().start();
    let url = endpoint.url("postgres");
    let workload = workload(directory.path(), 1);
    let run = directory.path().join("a.run").display().to_string();
    // Trying out takes one connection at a time; of the sixty sessions two find a place.
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    for statement in [
        "CREATE ROLE few LOGIN CONNECTION LIMIT 2",
        "GRANT ALL ON DATABASE postgres TO few",
    ] {
        client.batch_execute(statement).unwrap();
    }
    let output = rehearse(&[
        "replay",
        &workload,
        "--target",
        &url,
        "-o",
        &run,
        "--as-user",
        "few",
        "--copies",
        "10x",
        "--copy-delay",
        "1ms",
        "--log-level",
        "warn",
        "--retry-for",
        "0s",
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let lines = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    let refused = lines(" WARN  connection refused session=");
    assert!(refused > 0, "{said}");
    assert_eq!(lines("sqlstate=53300"), refused, "{said}");
    let left_out: usize = said
        .lines()
        .filter(|line| line.contains("left out count="))
        .map(|line| line.rsplit('=').next().unwrap().parse::<usize>().unwrap())
        .sum();
    let manifest = std::fs::read(Path::new(&run).join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let failed = manifest["body"]["connections_failed"]["53300"]
        .as_u64()
        .unwrap();
    assert_eq!((refused + left_out) as u64, failed, "{said}");
}

#[test]
fn an_address_that_cannot_be_had_is_refused_before_anything_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path(), 1);
    let run = directory.path().join("a.run").display().to_string();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let url = "postgres://postgres:swordfish@127.0.0.1:1/postgres";
    let replay = ["replay", &workload, "--target", url, "-o", &run];
    let said = |more: &[&str], code: i32| {
        let output = rehearse(&[&replay[..], more].concat());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("swordfish"), "{said}");
        said
    };
    let busy = said(&["--metrics", &address], 3);
    assert!(
        busy.contains(&format!("cannot serve metrics at {address}")),
        "{busy}"
    );
    let wrong = said(&["--metrics", "somewhere"], 2);
    assert!(wrong.contains("give a port such as 9187"), "{wrong}");
    said(&["--metrics-linger", "5s"], 2);
    // A failure is a line of the log, too.
    let json = said(&["--log-format", "json"], 3);
    let line: Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!(line["level"], "error");
    assert!(
        line["message"].as_str().unwrap().contains("127.0.0.1:1"),
        "{line}"
    );
    assert!(!Path::new(&run).exists());
}

#[test]
fn metrics_and_page_hostile_requests_do_not_disturb_the_replay() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = test_support::server().start();
    let workload = workload(directory.path(), 4_000);
    let run = directory.path().join("a.run").display().to_string();
    let url = endpoint.url("postgres");
    let mut running = Running::start(&[
        "replay",
        &workload,
        "--target",
        &url,
        "-o",
        &run,
        "--metrics",
        "0",
        "--ui",
    ]);
    let metrics = running.address();
    let page = running.until("can be watched at http://");
    let (page, path) = live::parts(page.split(" at ").last().unwrap());
    let done = || Metrics::scrape(&metrics).value("rehearse_statements_total{outcome=\"done\"}");
    hostile_http::assert_survived(&metrics, "/metrics");
    hostile_http::assert_survived(&page, &path);
    live::assert_many_viewers_are_served(&page, &path);
    let before = done();
    let since = Instant::now();
    while done() < before + 100.0 {
        assert!(since.elapsed() < PATIENCE, "the replay stands still");
        std::thread::sleep(Duration::from_millis(20));
    }
    running.signal();
    let (code, said) = running.end();
    assert_eq!(code, Some(1), "{said:#?}");
    assert!(
        !said.iter().any(|line| line.contains("panicked")),
        "{said:#?}"
    );
}
