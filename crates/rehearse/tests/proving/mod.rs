//! Proofs through the command line, in a sandbox: one that is killed and resumed, a change that
//! fails, and batched inserts.

mod pairing;
mod rewriting;
mod upgrade_clones;
mod upgrade_remedies;
mod upgrading;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use postgres::{Client, NoTls};
use sandbox::Dirs;
use serde_json::Value;
use tempfile::TempDir;

use super::webhook_receiver::Receiver;
use super::{PATIENCE, command, rehearse, trials};

/// Sandbox with a name, removed at the end.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) url: String,
}

impl Named {
    /// Creates a sandbox. `what` is unique for each test.
    pub(super) fn up(what: &str) -> Self {
        Self::keep(what, test_support::server())
    }

    /// Creates a sandbox with a setting.
    pub(super) fn up_with(what: &str, name: &str, value: &str) -> Self {
        Self::keep(what, test_support::server().settings(&[(name, value)]))
    }

    fn keep(what: &str, server: test_support::ServerBuilder) -> Self {
        let places = Dirs::from_environment().unwrap();
        let name = format!("{what}-{}", std::process::id());
        let (made, endpoint) = server.start();
        let url = endpoint.url("postgres");
        made.keep(&name, &places).unwrap();
        Named { name, url }
    }

    /// Queries one number from the server.
    pub(super) fn ask(&self, question: &str) -> i64 {
        let places = Dirs::from_environment().unwrap();
        let named = sandbox::list(&places);
        let this = named.iter().find(|one| one.name == self.name).unwrap();
        let url = this.endpoint.url("postgres");
        let mut client = Client::connect(&url, NoTls).unwrap();
        client.query_one(question, &[]).unwrap().get(0)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if let Ok(places) = Dirs::from_environment() {
            let _ = sandbox::down(&self.name, &places);
        }
    }
}

const ITEMS: &str = "CREATE TABLE items (id int, owner int, pad text); \
    INSERT INTO items SELECT i, i % 500, repeat('x', 40) FROM generate_series(1, 100000) i; \
    CREATE TABLE events (id bigserial PRIMARY KEY, kind int, body text); \
    ANALYZE";

/// Captures a log with the prefix `%m [%p] `. Returns the path of the workload.
pub(super) fn captured(at: &dyn Fn(&str) -> String, log: &str) -> String {
    std::fs::write(at("a.log"), log).unwrap();
    let made = rehearse(&[
        "capture",
        "log",
        &at("a.log"),
        "--prefix",
        "%m [%p] ",
        "-o",
        &at("a.workload"),
    ]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    at("a.workload")
}

/// Creates 60 reads that need an index, and 40 inserts, within a third of a second.
fn workload(at: &dyn Fn(&str) -> String) -> String {
    let log: String = (0..100)
        .map(|line| {
            let statement = match line % 5 {
                0 | 3 => {
                    format!("INSERT INTO events (kind, body) VALUES ({line}, 'body of {line}')")
                }
                _ => format!("SELECT count(*) FROM items WHERE owner = {line}"),
            };
            format!(
                "2026-03-01 09:00:00.{:03} UTC [{}] LOG:  statement: {statement}\n",
                line * 3,
                100 + line % 4
            )
        })
        .collect();
    captured(at, &log)
}

fn validated(output: &Output) -> Value {
    validated_as("prove", output)
}

/// Returns the printed JSON after validating it with its schema.
pub(super) fn validated_as(name: &str, output: &Output) -> Value {
    let view: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let schema: Value = serde_json::from_slice(&rehearse(&["schema", name]).stdout).unwrap();
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("proof.json", schema).unwrap();
    let compiled = compiler.compile("proof.json", &mut schemas).unwrap();
    if let Err(error) = schemas.validate(&view, compiled) {
        panic!("{error:#}");
    }
    view
}

/// Sandbox with tables, a workload for it, and a directory for files.
struct Fixture {
    directory: TempDir,
    sandbox: Named,
    workload: String,
}

impl Fixture {
    fn new(sandbox: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sandbox = Named::up(sandbox);
        Client::connect(&sandbox.url, NoTls)
            .unwrap()
            .batch_execute(ITEMS)
            .unwrap();
        let workload = workload(&|name| directory.path().join(name).display().to_string());
        Fixture {
            directory,
            sandbox,
            workload,
        }
    }

    /// Returns the path of a file in the directory.
    fn at(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, content: &str) -> String {
        let path = self.at(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

#[test]
fn a_change_is_proved_and_the_sandbox_left_as_it_was() {
    let fixture = Fixture::new("proving");
    let batched = batch_inserts(&fixture);
    assert_dropping_nothing_is_reported(&fixture);
    assert_replay_inserts_every_row(&fixture, &batched);

    assert_failing_change_is_refused(&fixture);
    let change = fixture.write("fix.sql", "CREATE INDEX items_owner ON items (owner);\n");
    assert_workload_of_another_database_is_refused(&fixture, &change);

    let proof = Proof {
        path: fixture.at("a.proof"),
        change,
        fixture: &fixture,
    };
    let trials_before = kill_after_two_trials(&proof);
    assert_resuming_with_other_options_is_refused(&proof);
    let receiver = Receiver::start(&["200 OK"]);
    let done = proof
        .command("30m", &["--resume", "--json"])
        .env("REHEARSE_NOTIFY_URL", &receiver.origin)
        .output()
        .unwrap();
    let view = validated(&done);
    assert_only_missing_trials_were_run(&proof, &trials_before);
    assert_change_won(&view);
    assert_exit_code_tells_whether_something_is_worse(&done, &view);
    assert_blocks_are_complete_and_nothing_failed(&view);
    assert_index_is_new(&view);
    assert_files_are_complete(&proof);
    assert_proof_is_shown_without_a_server(&proof, done.status.code());
    assert_verdict_was_posted_once(&receiver, &view);
    assert_sandbox_is_as_before(&fixture.sandbox);
    assert_a_command_makes_the_change(&proof);
}

/// Checks a change by a command, as migration tools have one.
fn assert_a_command_makes_the_change(proof: &Proof<'_>) {
    let prove = |command: &str, name: &str| {
        let path = proof.fixture.at(name);
        let mut given = vec!["prove", &proof.fixture.workload, "--sandbox"];
        given.extend([&*proof.fixture.sandbox.name, "--change-command", command]);
        given.extend(["--goal", "cpu", "--blocks", "2", "--noise-runs", "1"]);
        given.extend(["--seed", "3", "--json", "-o", &path]);
        rehearse(&given)
    };
    let refused = prove("echo out of order >&2; exit 3", "refused.proof");
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        text.contains("--change-command failed") && text.contains("out of order"),
        "{text}"
    );
    if Command::new("psql").arg("--version").output().is_err() {
        return test_support::report_skipped("psql is not installed");
    }
    let command = format!("psql -qX -v ON_ERROR_STOP=1 -f {}", proof.change);
    assert_index_is_new(&validated(&prove(&command, "command.proof")));
}

/// Rewrites the workload: drops the reads and merges the inserts. Returns the new workload.
fn batch_inserts(fixture: &Fixture) -> String {
    let rewritten = fixture.at("b.workload");
    let done = rehearse(&[
        "rewrite",
        &fixture.workload,
        "-o",
        &rewritten,
        "--batch-inserts",
        "8",
        "--drop",
        "from items*where owner",
        "--json",
    ]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let account: Value = serde_json::from_slice(&done.stdout).unwrap();
    let batching = &account["rewritings"][1]["account"];
    assert_eq!(
        account["rewritings"][0]["account"]["dropped"], 60,
        "{account}"
    );
    assert_eq!(batching["merged"], 40, "{account}");
    assert_eq!(batching["unchanged"], 0, "{account}");
    assert_eq!(account["statements"], batching["batches"], "{account}");
    rewritten
}

fn assert_dropping_nothing_is_reported(fixture: &Fixture) {
    let nothing = rehearse(&[
        "rewrite",
        &fixture.workload,
        "-o",
        &fixture.at("nothing.workload"),
        "--drop",
        "nobody sends this",
    ]);
    assert_eq!(nothing.status.code(), Some(0), "{nothing:?}");
    let said = String::from_utf8_lossy(&nothing.stdout);
    assert!(said.contains("No statement holds this text"), "{said}");
}

/// Replays the batched inserts: fewer statements, and every row.
fn assert_replay_inserts_every_row(fixture: &Fixture, batched: &str) {
    let sandbox = &fixture.sandbox;
    let replayed = rehearse(&[
        "replay",
        batched,
        "--target",
        &sandbox.url,
        "-o",
        &fixture.at("b.run"),
        "--speed",
        "max",
    ]);
    assert_eq!(replayed.status.code(), Some(0), "{replayed:?}");
    assert_eq!(sandbox.ask("SELECT count(*) FROM events"), 40);
    assert_eq!(sandbox.ask("SELECT count(DISTINCT kind) FROM events"), 40);
}

/// Checks that a change that fails stops before any replay.
fn assert_failing_change_is_refused(fixture: &Fixture) {
    let (change, proof) = (
        fixture.write("bad.sql", "SELECT 1; CREATE INDEX ON items (nosuch)"),
        fixture.at("bad.proof"),
    );
    let refused = rehearse(&[
        "prove",
        &fixture.workload,
        "--sandbox",
        &fixture.sandbox.name,
        "--change",
        &change,
        "-o",
        &proof,
    ]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("fails at its statement 2")
            && said.contains("in the database postgres: ")
            && said.contains("\"nosuch\" does not exist"),
        "{said}"
    );
    assert!(!Path::new(&proof).exists());
}

/// Checks that a change belongs in the database of the workload's statements.
fn assert_workload_of_another_database_is_refused(fixture: &Fixture, change: &str) {
    let log = fixture.write(
        "elsewhere.log",
        "2026-03-01 09:00:00.000 UTC [7] LOG:  connection authorized: user=postgres database=elsewhere\n\
         2026-03-01 09:00:01.000 UTC [7] LOG:  statement: SELECT 1\n",
    );
    let (elsewhere, proof) = (
        fixture.at("elsewhere.workload"),
        fixture.at("elsewhere.proof"),
    );
    let prefix = "%m [%p] ";
    let captured = rehearse(&["capture", "log", &log, "--prefix", prefix, "-o", &elsewhere]);
    assert_eq!(captured.status.code(), Some(0), "{captured:?}");
    let refused = rehearse(&[
        "prove",
        &elsewhere,
        "--sandbox",
        &fixture.sandbox.name,
        "--change",
        change,
        "-o",
        &proof,
    ]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("to the database elsewhere of ") && said.contains("--as-database NAME"),
        "{said}"
    );
    assert!(!Path::new(&proof).exists());
}

/// Proof of a new index, in two blocks and one noise run: nine trials.
struct Proof<'a> {
    fixture: &'a Fixture,
    change: String,
    path: String,
}

impl Proof<'_> {
    fn command(&self, time_budget: &str, more: &[&str]) -> Command {
        let given = [
            "prove",
            &self.fixture.workload,
            "--sandbox",
            &self.fixture.sandbox.name,
            "--change",
            &self.change,
            "--goal",
            "cpu",
            "--blocks",
            "2",
            "--noise-runs",
            "1",
            "--time-budget",
            time_budget,
            "--seed",
            "3",
            "-o",
            &self.path,
        ];
        command(&[&given[..], more].concat())
    }

    fn trials(&self) -> BTreeMap<String, String> {
        trials(Path::new(&self.path))
    }
}

/// Kills a proof once it has two trials. Returns its trials.
fn kill_after_two_trials(proof: &Proof<'_>) -> BTreeMap<String, String> {
    let mut child = proof
        .command("30m", &[])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while proof.trials().len() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it is over too early");
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let trials = proof.trials();
    assert!(trials.len() < 9);
    trials
}

fn assert_resuming_with_other_options_is_refused(proof: &Proof<'_>) {
    let refused = proof.command("29m", &["--resume"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("other options (--time-budget)"), "{said}");
}

fn assert_only_missing_trials_were_run(proof: &Proof<'_>, before: &BTreeMap<String, String>) {
    let after = proof.trials();
    assert_eq!(after.len(), 9);
    for (file, text) in before {
        assert_eq!(&after[file], text, "{file} was done again");
    }
}

fn assert_change_won(view: &Value) {
    let side = &view["sides"][0];
    assert_eq!(side["verdict"], "won", "{view:#}");
    assert_eq!(
        (&view["ended"], &side["blocks"]),
        (&"clear".into(), &2.into())
    );
    assert_eq!(side["errors"], Value::Array(Vec::new()), "{view:#}");
    let faster = side["faster"].as_array().unwrap();
    assert!(
        faster
            .iter()
            .any(|one| one["sql"].as_str().unwrap().contains("from items")),
        "{side:#}"
    );
}

/// Checks the exit code against the verdict.
///
/// On a busy machine inserts may wait longer for its disk in some runs than in others, and be called slower: then
/// the exit code has to say so.
fn assert_exit_code_tells_whether_something_is_worse(done: &Output, view: &Value) {
    let side = &view["sides"][0];
    let is_worse = side["worse"].as_bool().unwrap();
    let slower = side["slower"].as_array().unwrap();
    assert!(slower.is_empty() || is_worse, "{view:#}");
    let code = i32::from(is_worse);
    assert_eq!(done.status.code(), Some(code), "{view:#}");
}

fn assert_blocks_are_complete_and_nothing_failed(view: &Value) {
    let runs = view["runs"].as_array().unwrap();
    let of_blocks: Vec<u64> = runs[1..]
        .iter()
        .map(|run| run["place"]["side"].as_u64().unwrap())
        .collect();
    for block in of_blocks.chunks(4) {
        assert_eq!(block.iter().filter(|side| **side == 0).count(), 2);
        assert_eq!(block.iter().filter(|side| **side == 1).count(), 2);
    }
    assert!(
        runs.iter()
            .all(|run| run["numbers"]["failed"] == serde_json::json!({}))
    );
}

fn assert_index_is_new(view: &Value) {
    let side = &view["sides"][0];
    let index = &side["sizes"][0];
    assert_eq!(index["name"], "items_owner", "{side:#}");
    assert_eq!(
        (&index["before_bytes"], &index["is_index"]),
        (&Value::Null, &true.into())
    );
}

fn assert_files_are_complete(proof: &Proof<'_>) {
    for file in [
        "proof.json",
        "report.html",
        "compare-1.html",
        "runs/0009.run",
    ] {
        assert!(Path::new(&proof.path).join(file).exists(), "{file}");
    }
    let page = std::fs::read_to_string(Path::new(&proof.path).join("report.html")).unwrap();
    crate::assert_page_fits("proof", &page);
}

/// Checks the message; showing the proof again posts nothing.
fn assert_verdict_was_posted_once(receiver: &Receiver, view: &Value) {
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    let message = requests[0].json();
    assert_eq!(message["command"], "prove", "{message:#}");
    assert_eq!(message["verdicts"][0]["verdict"], "won");
    assert_eq!(message["verdicts"][0]["change"], view["sides"][0]["name"]);
    let findings = message["findings"].as_array().unwrap();
    let is_read = |one: &&Value| one["statement"].as_str().unwrap().contains("from items");
    let faster = findings.iter().find(is_read).unwrap();
    assert!(faster["factor"].as_f64().unwrap() < 1.0, "{message:#}");
}

fn assert_proof_is_shown_without_a_server(proof: &Proof<'_>, code: Option<i32>) {
    let shown = command(&["prove", &proof.path])
        .env("REHEARSE_NOTIFY_URL", "http://127.0.0.1:1")
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&shown.stderr).contains("posted"));
    assert_eq!(shown.status.code(), code, "{shown:?}");
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        text.contains("WON  ") && text.lines().count() <= 40,
        "{text}"
    );
}

/// Checks that the sandbox has the rows of the batches and no index.
fn assert_sandbox_is_as_before(sandbox: &Named) {
    assert_eq!(sandbox.ask("SELECT count(*) FROM events"), 40);
    assert_eq!(
        sandbox.ask("SELECT count(*) FROM pg_class WHERE relname = 'items_owner'"),
        0
    );
}

#[test]
fn what_makes_no_sense_of_a_proof_is_said_in_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let workload = workload(&at);
    let (output, psql) = (at("a.proof"), at("psql.sql"));
    std::fs::write(&psql, "\\i other.sql\n").unwrap();
    let refused = |arguments: &[&str], sentence: &str| {
        let said = rehearse(&[&["prove", &workload, "-o", &output], arguments].concat());
        assert_eq!(said.status.code(), Some(2), "{said:?}");
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(text.contains(sentence), "{text}");
    };
    let target = "postgres://nobody@127.0.0.1:1/nothing";
    refused(&[], "nothing says what is changed");
    refused(&["--set", "work_mem"], "is no setting");
    refused(&["--set", "jit=off"], "nothing says where");
    refused(&["--set", "jit=off", "--set", "jit=off"], "is given twice");
    refused(&["--rewrite", "batch=2"], "is no rewriting");
    refused(&["--goal", "speed", "--set", "jit=off"], "is no goal");
    refused(&["--change", &psql], "a command of psql");
    refused(
        &["--set", "jit=off", "--target", target],
        "nothing says how the target's data are restored",
    );
    assert!(!Path::new(&output).exists());
}
