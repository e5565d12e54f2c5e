//! The queries of the dashboard, asked of a real Prometheus that scrapes a replay.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{PATIENCE, Running, workload};

/// Switch of this test, which needs Debian's `prometheus`.
const SWITCH: &str = "REHEARSE_TEST_PROMETHEUS";
/// Statements of a session, 50 ms apart.
const ROUNDS: u32 = 1_200;
/// Sessions of the workload that the role of the replay cannot open.
const CONNECTION_LIMIT: u32 = 4;

/// Running Prometheus, which is killed at the end.
struct Prometheus {
    child: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts it on a free port. It scrapes `target` twice a second, as the job `rehearse`.
    fn start(directory: &Path, target: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let configuration = directory.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 500ms}}\n\
             scrape_configs:\n\
             - job_name: rehearse\n  static_configs: [{{targets: ['{target}']}}]\n"
        );
        std::fs::write(&configuration, text).unwrap();
        let log = std::fs::File::create(directory.join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{SWITCH} is set, and prometheus: {error}"));
        Prometheus { child, address }
    }

    /// Returns the data of an answer; `None` while it cannot be reached.
    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        // Version 1.0 has no chunks.
        write!(
            stream,
            "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n",
            self.address
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let answer: Value = serde_json::from_str(body).ok()?;
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        Some(answer["data"].clone())
    }

    /// Whether a query has at least one value.
    fn has_values(&self, query: &str) -> bool {
        let data = self.ask(&format!("/api/v1/query?query={}", url_encoded(query)));
        data.is_some_and(|data| data["result"].as_array().is_some_and(|all| !all.is_empty()))
    }

    /// Whether `label_values(selector, label)`, as Grafana asks it, has at least one value.
    fn has_label_values(&self, definition: &str) -> bool {
        let inner = definition.strip_prefix("label_values(").unwrap();
        let (selector, label) = inner.strip_suffix(')').unwrap().rsplit_once(", ").unwrap();
        let path = format!(
            "/api/v1/label/{label}/values?match[]={}",
            url_encoded(selector)
        );
        let data = self.ask(&path);
        data.is_some_and(|data| data.as_array().is_some_and(|all| !all.is_empty()))
    }
}

fn url_encoded(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    encoded.collect()
}

/// Replaces the dashboard's variables by what Grafana makes of them.
fn substituted(query: &str, instance: &str) -> String {
    let query = query
        .replace("$job", "rehearse")
        .replace("$instance", instance);
    let query = query.replace("$__rate_interval", "10s");
    assert!(!query.contains('$'), "unknown variable: {query}");
    query
}

/// A query of the dashboard, or the definition of a variable.
enum Question {
    Query(String),
    Variable(String),
}

fn questions(instance: &str) -> Vec<Question> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboards/grafana-replay.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let text = |value: &Value| substituted(value.as_str().unwrap(), instance);
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let queries = targets.map(|target| Question::Query(text(&target["expr"])));
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let definitions = variables.filter(|one| one["type"] == "query");
    let definitions = definitions.map(|one| Question::Variable(text(&one["definition"])));
    queries.chain(definitions).collect()
}

#[test]
fn each_query_of_the_dashboard_has_values_in_prometheus() {
    if !test_support::is_set(SWITCH) {
        test_support::report_skipped(&format!("needs prometheus and {SWITCH}=1"));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = test_support::server().start();
    let url = endpoint.url("postgres");
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    // Some sessions find no place, and their statements are skipped.
    let role = format!("CREATE ROLE few LOGIN CONNECTION LIMIT {CONNECTION_LIMIT}");
    client.batch_execute(&role).unwrap();
    client
        .batch_execute("GRANT ALL ON DATABASE postgres TO few")
        .unwrap();
    let workload = workload(directory.path(), ROUNDS);
    let run = directory.path().join("a.run").display().to_string();
    let mut running = Running::start(&[
        "replay",
        &workload,
        "--target",
        &url,
        "-o",
        &run,
        "--as-user",
        "few",
        "--retry-for",
        "0s",
        "--metrics",
        "0",
    ]);
    let instance = running.address();
    let prometheus = Prometheus::start(directory.path(), &instance);
    let mut open = questions(&instance);
    assert!(open.len() > 50, "{}", open.len());
    let since = Instant::now();
    while !open.is_empty() {
        let names = || {
            let names = open.iter().map(|one| match one {
                Question::Query(text) | Question::Variable(text) => text.as_str(),
            });
            names.collect::<Vec<_>>()
        };
        assert!(since.elapsed() < PATIENCE, "without values: {:#?}", names());
        std::thread::sleep(Duration::from_millis(500));
        // Connections that are lost and reopened.
        let ended =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'few' LIMIT 1";
        client.batch_execute(ended).unwrap();
        open.retain(|one| match one {
            Question::Query(query) => !prometheus.has_values(query),
            Question::Variable(definition) => !prometheus.has_label_values(definition),
        });
    }
    running.signal();
    drop(prometheus);
    let (_, said) = running.end();
    assert!(
        !said.iter().any(|line| line.contains("panicked")),
        "{said:#?}"
    );
}
