//! Observation of a target during a replay and without one, through the command line.

use serde_json::Value;

use super::{BY_CUSTOMER, rehearse, replay, server, succeeds, workload};

pub(super) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Checks the view against its schema.
pub(super) fn holds_to_schema(of: &str, view: &Value) {
    let schema = json(&succeeds(&["schema", of]));
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("of.json", schema).unwrap();
    let compiled = compiler.compile("of.json", &mut schemas).unwrap();
    if let Err(error) = schemas.validate(view, compiled) {
        panic!("{error:#}");
    }
}

fn probe<'v>(view: &'v Value, name: &str) -> &'v Value {
    let mut all = view["probes"].as_array().unwrap().iter();
    all.find(|probe| probe["probe"] == name).unwrap()
}

#[test]
fn a_target_is_watched_beside_a_replay_and_without_one() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (_sandbox, endpoint) = server(15);
    workload(directory);
    let url = endpoint.url("postgres");

    let watched = replay(
        directory,
        &endpoint,
        "watched.run",
        &[
            "--observe",
            "--sample-rate",
            "50",
            "--custom-query",
            "SELECT count(*) AS n FROM parts",
        ],
    );
    let view = json(&succeeds(&["show", &watched, "--json"]));
    holds_to_schema("show", &view);
    let observed = &view["observed"];
    assert_eq!(probe(observed, "activity")["disabled_reason"], Value::Null);
    let why = probe(observed, "statements")["disabled_reason"]
        .as_str()
        .unwrap();
    assert!(
        why.starts_with("the extension pg_stat_statements is not loaded"),
        "{why}"
    );
    assert!(observed["samples"].as_u64().unwrap() > 0);
    assert_eq!(observed["queue"][0]["last"], 3_000.0);
    // An index was read, and the counters say so.
    let scans = observed["counters"].as_array().unwrap().iter().any(|one| {
        one["object"] == "public.orders_customer on orders"
            && one["name"] == "idx_scan"
            && one["delta"].as_f64().unwrap() >= 1.0
    });
    assert!(scans, "{BY_CUSTOMER}: {}", observed["counters"]);
    let text = succeeds(&["show", &watched]);
    assert!(text.contains("service time (sent → done)"), "{text}");
    let (_, text) = text.split_once("watched for").unwrap();
    assert!(text.lines().count() <= 40, "{text}");
    assert!(
        text.contains("statements: the extension pg_stat_statements is not loaded"),
        "{text}"
    );

    let plain = replay(directory, &endpoint, "plain.run", &[]);
    let view = json(&succeeds(&["show", &plain, "--json"]));
    assert_eq!(view["observed"], Value::Null);

    let run = directory.join("alone.run").display().to_string();
    let mut alone = vec!["observe", "--target", &url, "--duration", "2s", "-o", &run];
    alone.extend([
        "--json",
        "--custom-query",
        "SELECT count(*) AS n FROM parts",
    ]);
    alone.extend(["--custom-query-every", "20ms"]);
    let view = json(&succeeds(&alone));
    holds_to_schema("observe", &view);
    // Once a second would be three at most.
    assert!(view["queue"][0]["values"].as_u64().unwrap() > 3, "{view}");
    assert_eq!(json(&succeeds(&["show", &run, "--json"])), view);
    let refused = rehearse(&["compare", &run, &plain]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("replayed nothing"), "{why}");
}

#[test]
fn what_cannot_be_watched_is_said_before_anything_is_done() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("a.run").display().to_string();
    let nobody = "postgres://127.0.0.1:1/postgres";
    let refused = rehearse(&[
        "observe",
        "--target",
        nobody,
        "--duration",
        "1s",
        "-o",
        &run,
    ]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("cannot observe 127.0.0.1:1"), "{why}");
    assert!(!directory.path().join("a.run.partial").exists());

    workload(directory.path());
    let from = directory.path().join("a.workload").display().to_string();
    let refused = rehearse(&[
        "replay",
        &from,
        "--target",
        nobody,
        "-o",
        &run,
        "--custom-query",
        "SELECT 1",
    ]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("give --observe with it"), "{why}");

    let asked = ["observe", "--target", nobody, "--custom-query-every"];
    for (more, says) in [
        (
            &["1ms", "--custom-query", "SELECT 1"][..],
            "give 10ms or more",
        ),
        (
            &["often", "--custom-query", "SELECT 1"],
            "'often' is no duration",
        ),
        (&["1s"], "--custom-query <SQL>"),
    ] {
        let refused = rehearse(&[&asked, more].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let why = String::from_utf8(refused.stderr).unwrap();
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn a_server_that_goes_meanwhile_is_told_and_what_was_seen_of_it_stays() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("a.run").display().to_string();
    let (mut private, endpoint) = server(15);
    let url = endpoint.url("postgres");
    let observing = std::thread::spawn({
        let run = run.clone();
        move || rehearse(&["observe", "--target", &url, "--duration", "4s", "-o", &run])
    });
    let partial = directory.path().join("a.run.partial");
    while !partial.exists() && !observing.is_finished() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_secs(1));
    private.stop(sandbox::Stop::Immediate).unwrap();
    let output = observing.join().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("does not answer any more"), "{told}");
    let view = json(&succeeds(&["show", &run, "--json"]));
    holds_to_schema("observe", &view);
    assert!(view["elapsed_ns"].as_f64().unwrap() >= 4e9, "{view}");
}
