//! A client that names its routes and traces in comments, as sqlcommenter does: from its capture to the route that got
//! slower.

mod otlp;

use std::path::{Path, PathBuf};
use std::process::Command;

use postgres::types::Type;
use sandbox::{Endpoint, Sandbox, Stop};
use serde_json::Value;
use test_support::{CaptureProxy, connect, server};
use workload::WorkloadReader;

const LOGGING: [(&str, &str); 6] = [
    ("logging_collector", "on"),
    ("log_destination", "csvlog"),
    ("log_min_duration_statement", "0"),
    ("log_connections", "on"),
    ("log_directory", "log"),
    ("log_filename", "postgresql.log"),
];

const SCHEMA: &str = "
    CREATE TABLE product (id int PRIMARY KEY, name text);
    INSERT INTO product SELECT n, 'product ' || n FROM generate_series(1, 1000) n;
    CREATE TABLE orders (id int PRIMARY KEY, customer int, total int);
    INSERT INTO orders SELECT n, n % 5000, n FROM generate_series(1, 200000) n;
    CREATE INDEX orders_customer ON orders (customer);
    ANALYZE";

/// Number of requests of each route.
const REQUESTS: i32 = 150;

const SLOWED: &str = "/customers/<int>/orders";
const UNCHANGED: &str = "/products/<int>";

fn rehearse(arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    let output = command.args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    output.stdout
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_slice(&rehearse(&[arguments, &["--json"]].concat())).unwrap()
}

fn text(arguments: &[&str]) -> String {
    String::from_utf8(rehearse(arguments)).unwrap()
}

/// Returns the id of the trace of a request. No two requests have the same one.
fn trace_id(route: i32, request: i32) -> String {
    format!("{route:016x}{:016x}", request + 1)
}

/// Sends the statements of all requests, each with its own trace.
fn send_requests(endpoint: &Endpoint) {
    let mut client = connect(endpoint);
    for request in 0..REQUESTS {
        let comment = |route: i32, path: &str| {
            let trace = trace_id(route, request);
            format!(
                "/*application='shop',controller='it\\'s',route='{path}',\
                 traceparent='00-{trace}-00f067aa0ba902b7-01'*/"
            )
        };
        let orders = comment(1, "%2Fcustomers%2F%3Cint%3E%2Forders");
        let sql = format!("SELECT sum(total) FROM orders WHERE customer = $1 {orders}");
        (client.query_typed(&sql, &[(&request, Type::INT4)])).unwrap();
        let product = comment(2, "%2Fproducts%2F%3Cint%3E");
        let sql = format!("{product} SELECT name FROM product WHERE id = {request}");
        client.simple_query(&sql).unwrap();
        client.simple_query("SELECT 'no /*route=''x''*/'").unwrap();
    }
}

struct Captured {
    directory: tempfile::TempDir,
    endpoint: Endpoint,
    _server: Sandbox,
}

impl Captured {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Replays a workload on a server, and returns the path of the run.
    fn replay(&self, workload: &str, target: &Endpoint, options: &[&str], run: &str) -> String {
        let (workload, run) = (self.name(workload), self.name(run));
        let address = format!("127.0.0.1:{}", target.port);
        let given = ["replay", &workload, "--target", &target.url("postgres")];
        // It changes nothing.
        let allowed = ["--allow-captured-server", &address];
        rehearse(&[&given[..], &allowed, options, &["-o", &run]].concat());
        run
    }
}

/// Runs the client through a proxy, and captures its statements there and from the server's log.
fn capture() -> Captured {
    let directory = tempfile::tempdir().unwrap();
    let mut server = server().tcp().create();
    let endpoint = server.start().unwrap();
    connect(&endpoint).batch_execute(SCHEMA).unwrap();
    server.stop(Stop::Fast).unwrap();
    let logging = LOGGING.map(|(name, value)| (name.to_owned(), value.to_owned()));
    server.set(logging.into()).unwrap();
    let endpoint = server.start().unwrap();
    let program = env!("CARGO_BIN_EXE_rehearse");
    let wire = directory.path().join("wire.workload");
    let proxy = CaptureProxy::start(program, &endpoint, &wire, &[]);
    send_requests(&proxy.endpoint);
    proxy.interrupt();
    server.stop(Stop::Fast).unwrap();
    let csv = directory.path().join("postgresql.csv");
    std::fs::copy(server.data_dir().join("log/postgresql.csv"), &csv).unwrap();
    // Workers would take the processors from the other route.
    let alone = ("max_parallel_workers_per_gather".to_owned(), "0".to_owned());
    server.set(vec![alone]).unwrap();
    let captured = Captured {
        endpoint: server.start().unwrap(),
        directory,
        _server: server,
    };
    let log = captured.name("log.workload");
    rehearse(&[
        "capture",
        "log",
        &captured.name("postgresql.csv"),
        "-o",
        &log,
    ]);
    captured
}

/// Returns the texts of a workload that begin or end with a comment of the client.
fn commented_texts(workload: &Path) -> Vec<String> {
    let events = WorkloadReader::open(workload).unwrap().events().unwrap();
    let texts = events.filter_map(|event| Some(event.unwrap().0.kind.sql()?.to_string()));
    texts.filter(|text| text.contains("traceparent")).collect()
}

fn assert_contexts_are_counted(captured: &Captured, workload: &str) {
    let path = captured.name(workload);
    let inspected = json(&["inspect", &path]);
    let contexts = inspected["contexts"].as_array().unwrap();
    let routes = contexts.iter().find(|one| one["key"] == "route").unwrap();
    let values = routes["values"].as_array().unwrap();
    assert_eq!(values.len(), 2, "{routes:#}");
    for value in values {
        assert_eq!(value["calls"], REQUESTS, "{routes:#}");
        let route = 1 + i32::from(value["value"] == UNCHANGED);
        let traces: Vec<String> = (0..REQUESTS).map(|n| trace_id(route, n)).collect();
        let slowest = value["slowest"]["traceparent"].as_str().unwrap();
        assert!(traces.iter().any(|id| slowest.contains(id)), "{slowest}");
    }
    let shown = text(&["inspect", &path, "--by", "route"]);
    assert!(shown.contains("Statements by route"), "{shown}");
    assert!(shown.contains(SLOWED), "{shown}");
    // Traces make no statement another one.
    let statements = inspected["by_statement"].as_array().unwrap();
    let of_orders = |one: &&Value| one["sql"].as_str().unwrap().contains("from orders");
    let orders: Vec<_> = statements.iter().filter(of_orders).collect();
    assert_eq!(orders.len(), 1, "{orders:#?}");
}

fn assert_slice_keeps_one_route(captured: &Captured, workload: &str) {
    let slice = captured.name(&format!("of-{workload}"));
    let source = captured.name(workload);
    rehearse(&[
        "slice",
        &source,
        "--context",
        "route=/customers/*",
        "-o",
        &slice,
    ]);
    let texts = commented_texts(Path::new(&slice));
    assert_eq!(texts.len() as i32, REQUESTS);
    assert!(texts.iter().all(|text| text.contains("FROM orders")));
}

fn assert_masked_workload_has_no_context(captured: &Captured, workload: &str) {
    let masked = captured.name(&format!("masked-{workload}"));
    let source = captured.name(workload);
    let given = [
        "mask", "workload", &source, "--mask", "random", "-o", &masked,
    ];
    rehearse(&given);
    let inspected = json(&["inspect", &masked]);
    assert_eq!(inspected["contexts"], Value::Array(Vec::new()));
    let mut contexts = WorkloadReader::open(Path::new(&masked))
        .unwrap()
        .contexts()
        .unwrap();
    assert!(contexts.next().is_none());
    assert!(commented_texts(Path::new(&masked)).is_empty());
}

fn assert_slowed_route_is_named(before: &str, after: &str) {
    let compared = json(&["compare", before, after, "--by", "route"]);
    assert_eq!(compared["contexts"]["key"], "route");
    let values = compared["contexts"]["values"].as_array().unwrap();
    let of = |route: &str| values.iter().find(|one| one["value"] == route).unwrap();
    let slowed = of(SLOWED);
    assert_eq!(slowed["service"]["finding"], "slower", "{slowed:#}");
    assert_eq!(slowed["change"]["kind"], "independent", "{slowed:#}");
    let cause = slowed["statements"][0]["sql"].as_str().unwrap();
    assert!(cause.contains("from orders"), "{cause}");
    // On a busy machine the other route is slower, too.
    assert_eq!(values[0]["value"], SLOWED, "{values:#?}");
    assert_eq!(of(UNCHANGED)["calls_after"], REQUESTS);
    let trace = slowed["slowest_after"][0]["traceparent"].as_str().unwrap();
    let trace = trace.split('-').nth(1).unwrap();
    assert!((0..REQUESTS).any(|request| trace == trace_id(1, request)));
    let shown = text(&["compare", before, after, "--by", "route"]);
    let lines: Vec<&str> = shown.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.ends_with(SLOWED))
        .unwrap();
    assert!(lines[at].starts_with("slower"), "{shown}");
    assert!(lines[at + 1].contains("from orders"), "{shown}");
    assert!(lines[at + 2].contains(&format!("trace {trace}")), "{shown}");
    let page = Path::new(before)
        .with_extension("html")
        .display()
        .to_string();
    rehearse(&["compare", before, after, "--by", "route", "--html", &page]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains(trace) && page.contains("&#60;int&#62;"),
        "no trace"
    );
    assert_route_is_in_the_files(before, after, trace);
    let other = text(&["compare", before, after, "--by", "job"]);
    assert!(other.contains("names its job"), "{other}");
}

/// Checks the table, the comment and the report for CI.
fn assert_route_is_in_the_files(before: &str, after: &str, trace: &str) {
    let [table, comment, junit] = ["csv", "md", "xml"].map(|kind| format!("{before}.{kind}"));
    rehearse(&[
        "compare",
        before,
        after,
        "--by",
        "route",
        "--csv",
        &table,
        "--markdown",
        &comment,
        "--junit",
        &junit,
    ]);
    let mut reader = csv::Reader::from_path(&table).unwrap();
    let head = reader.headers().unwrap().clone();
    let at = |name: &str| head.iter().position(|one| one == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let routes = rows.iter().filter(|row| &row[at("scope")] == "route");
    let slowed = routes
        .clone()
        .find(|row| &row[at("value")] == SLOWED)
        .unwrap();
    assert_eq!(&slowed[at("change")], "independent");
    assert_eq!(routes.count(), 2);
    let statements = rows.iter().filter(|row| &row[at("scope")] == "statement");
    assert!(statements.count() > 0);
    let comment = std::fs::read_to_string(comment).unwrap();
    assert!(
        comment.contains("**By route**") && comment.contains(trace),
        "{comment}"
    );
    let junit = std::fs::read_to_string(junit).unwrap();
    assert!(
        junit.contains("<testcase classname=\"rehearse.contexts\" name=\"route ")
            && junit.contains(trace),
        "{junit}"
    );
}

/// Checks that a diagnosis names the route that sent the statement of its finding.
fn assert_diagnosis_names_the_route(run: &str) {
    let diagnosis = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(["diagnose", run])
        .output()
        .unwrap();
    let shown = String::from_utf8(diagnosis.stdout).unwrap();
    assert!(
        shown.contains(&format!("sent by route {SLOWED} (100 %)")),
        "{shown}"
    );
}

#[test]
fn route_that_lost_its_index_is_named_with_a_trace_of_the_client() {
    let captured = capture();
    for workload in ["wire.workload", "log.workload"] {
        assert_contexts_are_counted(&captured, workload);
        assert_slice_keeps_one_route(&captured, workload);
        assert_masked_workload_has_no_context(&captured, workload);
    }
    let server = &captured.endpoint;
    let replay_both = |run: &str| {
        ["wire", "log"].map(|from| {
            let workload = format!("{from}.workload");
            captured.replay(
                &workload,
                server,
                &["--explain"],
                &format!("{from}-{run}.run"),
            )
        })
    };
    let before = replay_both("before");
    let drop = "DROP INDEX orders_customer";
    connect(&captured.endpoint).batch_execute(drop).unwrap();
    let after = replay_both("after");
    for (before, after) in before.iter().zip(&after) {
        assert_slowed_route_is_named(before, after);
        assert_diagnosis_names_the_route(after);
    }
}

#[test]
fn comments_reach_the_target_as_the_client_sent_them() {
    let captured = capture();
    let program = env!("CARGO_BIN_EXE_rehearse");
    for from in ["wire", "log"] {
        let again = captured.path(&format!("{from}-again.workload"));
        let proxy = CaptureProxy::start(program, &captured.endpoint, &again, &[]);
        let workload = format!("{from}.workload");
        captured.replay(&workload, &proxy.endpoint, &[], &format!("{from}.run"));
        proxy.interrupt();
        let sent = commented_texts(&captured.path(&workload));
        assert_eq!(sent.len() as i32, 2 * REQUESTS);
        assert_eq!(commented_texts(&again), sent, "{from}");
    }
}
