//! Diagnoses of a real server: several problems in separate schemas, a near miss for each, and a healthy load.

mod causes;
mod near_misses;
mod planted;
mod statistics;
mod troubles;
mod unexplained;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use sandbox::{Endpoint, Sandbox};
use serde_json::Value;

use crate::rehearse;
use troubles::{JOIN, troubles};

/// Traffic of sessions, as a server would have logged it.
#[derive(Default)]
struct Script {
    lines: Vec<(u32, u32, String)>,
}

impl Script {
    fn at(&mut self, ms: u32, session: u32, sql: &str) {
        self.lines
            .push((ms, session, format!("LOG:  statement: {sql}")));
    }

    fn prepared(&mut self, ms: u32, session: u32, name: &str, sql: &str, values: &[u32]) {
        let values: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(place, value)| format!("${} = '{value}'", place + 1))
            .collect();
        let line = format!("LOG:  execute {name}: {sql}");
        self.lines.push((ms, session, line));
        let line = format!("DETAIL:  parameters: {}", values.join(", "));
        self.lines.push((ms, session, line));
    }

    /// Writes the workload.
    fn workload(mut self, directory: &Path, name: &str) -> String {
        let sessions: BTreeSet<u32> = self.lines.iter().map(|(_, session, _)| *session).collect();
        let who = "LOG:  connection authorized: user=postgres database=postgres";
        let mut lines: Vec<(u32, u32, String)> = sessions
            .into_iter()
            .map(|session| (0, session, who.to_owned()))
            .collect();
        self.lines.sort_by_key(|(ms, ..)| *ms);
        lines.extend(
            self.lines
                .into_iter()
                .map(|(ms, session, line)| (ms + 10, session, line)),
        );
        let mut log = String::new();
        for (ms, session, line) in lines {
            let (s, ms) = (ms / 1_000, ms % 1_000);
            writeln!(
                log,
                "2026-03-01 09:00:{s:02}.{ms:03} UTC [{session}] {line}"
            )
            .unwrap();
        }
        let from = directory.join(format!("{name}.log")).display().to_string();
        std::fs::write(&from, log).unwrap();
        let workload = directory
            .join(format!("{name}.workload"))
            .display()
            .to_string();
        let made = rehearse(&[
            "capture", "log", &from, "--prefix", "%m [%p] ", "-o", &workload,
        ]);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        workload
    }
}

fn server() -> (Sandbox, Endpoint) {
    server_with(&[
        ("pg_stat_statements.track_planning", "on"),
        ("work_mem", "64kB"),
        ("deadlock_timeout", "100ms"),
        ("autovacuum", "off"),
        ("max_parallel_workers_per_gather", "0"),
    ])
}

/// Creates a server that counts statements, with these settings.
fn server_with(settings: &[(&str, &str)]) -> (Sandbox, Endpoint) {
    let counts = [("shared_preload_libraries", "pg_stat_statements")];
    test_support::server()
        .settings(&counts)
        .settings(settings)
        .start()
}

const SCHEMAS: &str = "
    CREATE EXTENSION pg_stat_statements;
    CREATE TABLE links (id int PRIMARY KEY, due timestamptz, queued_at timestamptz, seen timestamptz);
    INSERT INTO links SELECT i, now() - i * interval '1 s', NULL, now() - i * interval '1 min' FROM generate_series(1, 20000) i;
    CREATE TABLE few_links (LIKE links);
    INSERT INTO few_links SELECT * FROM links LIMIT 200;
    CREATE TABLE events (kind int, path text);
    CREATE TABLE few_events (kind int, path text);
    CREATE INDEX ON few_events (kind);
    CREATE TABLE notes (id int PRIMARY KEY, a int, b int, note text);
    INSERT INTO notes SELECT i, i % 100, i % 100, md5(i::text) FROM generate_series(1, 20000) i;
    CREATE INDEX notes_a ON notes (a);
    CREATE INDEX notes_a_again ON notes (a);
    CREATE TABLE jobs (id int, state int);
    INSERT INTO jobs SELECT i, 0 FROM generate_series(1, 2000) i;
    CREATE INDEX jobs_state ON jobs (state);
    CREATE TABLE quiet_jobs (id int, state int) WITH (fillfactor = 20);
    INSERT INTO quiet_jobs SELECT i, 0 FROM generate_series(1, 2000) i;
    CREATE INDEX quiet_jobs_id ON quiet_jobs (id);
    CREATE TABLE orders (id int PRIMARY KEY, customer int);
    CREATE TABLE items (id int PRIMARY KEY, order_id int);
    INSERT INTO orders SELECT i, i / 6 FROM generate_series(1, 600) i;
    INSERT INTO items SELECT i, i FROM generate_series(1, 600) i;
    CREATE INDEX ON items (order_id);
    CREATE TABLE accounts (id int PRIMARY KEY, balance int) WITH (fillfactor = 50);
    INSERT INTO accounts SELECT i, 0 FROM generate_series(1, 10000) i;
    CREATE TABLE history (account int, delta int);
    CREATE TABLE keys (id uuid PRIMARY KEY, v int);
    INSERT INTO keys SELECT md5(i::text)::uuid, i FROM generate_series(1, 60000) i;
    CREATE TABLE parts (at int, v int) PARTITION BY RANGE (at);
    ";

fn set_up(endpoint: &Endpoint) {
    let mut client = postgres::Client::connect(&endpoint.url("postgres"), postgres::NoTls).unwrap();
    client.batch_execute(SCHEMAS).unwrap();
    let mut more = String::new();
    for i in 0..40 {
        writeln!(
            more,
            "CREATE INDEX ON events (kind) WHERE kind = {i} AND path ~ '^/a{i}/.*b$';"
        )
        .unwrap();
    }
    for i in 0..24 {
        writeln!(
            more,
            "CREATE TABLE parts_{i} PARTITION OF parts FOR VALUES FROM ({i}) TO ({});",
            i + 1
        )
        .unwrap();
    }
    more.push_str("ANALYZE; CHECKPOINT;");
    client.batch_execute(&more).unwrap();
}

/// Creates bank transfers with prepared statements, each session on separate accounts.
fn healthy() -> Script {
    let mut script = Script::default();
    for session in 0..4 {
        for round in 0..150_u32 {
            let (ms, account) = (20 + round * 15, session * 2_000 + round + 1);
            script.at(ms, 200 + session, "BEGIN");
            let mut send = |name: &str, sql: &str, values: &[u32]| {
                script.prepared(ms + 1, 200 + session, name, sql, values);
            };
            send(
                "u",
                "UPDATE accounts SET balance = balance + $1 WHERE id = $2",
                &[1, account],
            );
            send(
                "s",
                "SELECT balance FROM accounts WHERE id = $1",
                &[account],
            );
            send(
                "i",
                "INSERT INTO history (account, delta) VALUES ($1, $2)",
                &[account, 1],
            );
            script.at(ms + 2, 200 + session, "COMMIT");
        }
    }
    script
}

fn replayed(
    directory: &Path,
    name: &str,
    script: Script,
    url: &str,
    queue: Option<&str>,
) -> String {
    let workload = script.workload(directory, name);
    let run = directory.join(format!("{name}.run")).display().to_string();
    let mut arguments = vec![
        "replay",
        &workload,
        "--target",
        url,
        "-o",
        &run,
        "--observe",
        "--explain",
    ];
    if let Some(queue) = queue {
        arguments.extend(["--custom-query", queue]);
    }
    let done = rehearse(&arguments);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    run
}

/// Returns the exit code and the diagnosis.
fn diagnosed(arguments: &[&str]) -> (Option<i32>, Value) {
    let mut all = vec!["diagnose", "--json"];
    all.extend(arguments);
    let output = rehearse(&all);
    let json = serde_json::from_slice(&output.stdout);
    (
        output.status.code(),
        json.unwrap_or_else(|_| panic!("{output:?}")),
    )
}

/// Returns whether a rule has a finding whose title or subject contains this text.
fn found(diagnosis: &Value, rule: &str, words: &str) -> bool {
    let all = diagnosis["findings"].as_array().unwrap();
    all.iter().any(|one| {
        let holds = |text: &Value| text.as_str().unwrap().contains(words);
        one["rule"] == rule && (holds(&one["title"]) || holds(&one["subject"]["name"]))
    })
}

#[test]
fn what_is_wrong_is_found_and_what_is_well_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = server();
    set_up(&endpoint);
    let url = endpoint.url("postgres");
    let queue = "SELECT count(*) AS stalled, 0 AS queued FROM links";
    let run = replayed(directory.path(), "troubles", troubles(), &url, Some(queue));
    let diagnosis = diagnose_troubles(&run);
    assert_troubles_are_found(&diagnosis, &endpoint);
    assert_sound_neighbours_are_not_found(&diagnosis);
    assert_suspects_are_judged(&diagnosis);
    assert_proposed_index_has_its_columns_in_order(&diagnosis);

    assert_healthy_load_has_nothing_above_a_note(directory.path(), &url);
    assert_observed_server_is_diagnosed(&url);
    assert_workload_alone_is_diagnosed(&directory.path().join("troubles.workload"));
}

/// Diagnoses the run with thresholds that do not depend on the speed of this machine, and for two suspects.
fn diagnose_troubles(run: &str) -> Value {
    let (code, diagnosis) = diagnosed(&[
        run,
        "--impact-of",
        "update few_links%",
        "--impact-of",
        "select pg_sleep%",
        "--threshold",
        "misestimate-call-ms=0",
        "--threshold",
        "transaction-idle-share=0.01",
        "--threshold",
        "lock-wait-share=0.0001",
        "--threshold",
        "old-snapshot-s=0.5",
        "--threshold",
        "hot-updates=500",
    ]);
    assert_eq!(code, Some(1), "{diagnosis:#}");
    diagnosis
}

fn assert_troubles_are_found(diagnosis: &Value, endpoint: &Endpoint) {
    for (rule, words) in [
        ("missing-index", "public.links"),
        ("claims", "few_links"),
        ("index-open-tax", "public.events"),
        ("regex-cache", "40 different"),
        ("indexes", "notes_a_again is the same as public.notes_a"),
        ("spills", "order by note"),
        ("misestimates", "from notes where a ="),
        ("hot-updates", "jobs_state has state"),
        ("n-plus-one", "from items where order_id"),
        ("planning-dominated", "join orders"),
        ("lock-waits", "update orders"),
        ("lock-waits", "1 deadlocks"),
        ("fast-path-locks", "past the fast path"),
        ("starved-queue", "stalled grows"),
        ("checkpoints", "checkpoints come"),
        ("transactions", "idle"),
        ("old-snapshots", "was open for"),
        ("sequential-scans", "public.links grows"),
        ("keys", "keys_pkey"),
    ] {
        // Version 18 has as many places on the fast path as locks can be.
        let is_newer = rule == "fast-path-locks" && !found(diagnosis, rule, words);
        assert!(
            found(diagnosis, rule, words) || is_newer && version(endpoint) >= 180_000,
            "{rule}: {words}: {diagnosis:#}"
        );
    }
}

/// Checks the tables next to those with problems.
fn assert_sound_neighbours_are_not_found(diagnosis: &Value) {
    for (rule, words) in [
        ("missing-index", "few_links"),
        ("index-open-tax", "few_events"),
        ("hot-updates", "quiet_jobs"),
        ("indexes", "quiet_jobs"),
        ("keys", "notes"),
    ] {
        assert!(
            !found(diagnosis, rule, words),
            "{rule}: {words}: {diagnosis:#}"
        );
    }
}

fn assert_suspects_are_judged(diagnosis: &Value) {
    let suspects = &diagnosis["suspects"];
    assert_eq!(suspects[0]["verdict"], "cleared", "{diagnosis:#}");
    assert_eq!(suspects[1]["verdict"], "could_matter", "{diagnosis:#}");
}

fn assert_proposed_index_has_its_columns_in_order(diagnosis: &Value) {
    let all = diagnosis["findings"].as_array().unwrap();
    let index = all.iter().find(|one| {
        one["rule"] == "missing-index" && one["title"].as_str().unwrap().contains("public.links")
    });
    assert_eq!(
        index.unwrap()["changes"][0]["form"]["sql"],
        "CREATE INDEX ON public.links (due, seen);"
    );
}

fn assert_healthy_load_has_nothing_above_a_note(directory: &Path, url: &str) {
    let run = replayed(directory, "healthy", healthy(), url, None);
    let (code, diagnosis) = diagnosed(&[&run]);
    let all = diagnosis["findings"].as_array().unwrap();
    let above: Vec<&Value> = all.iter().filter(|one| one["severity"] != "note").collect();
    assert!(above.is_empty() && code == Some(0), "{above:#?}");
}

fn assert_observed_server_is_diagnosed(url: &str) {
    let (code, diagnosis) = diagnosed(&["--target", url, "--duration", "1s"]);
    assert_eq!(code, Some(0), "{diagnosis:#}");
    assert!(
        found(&diagnosis, "indexes", "notes_a_again"),
        "{diagnosis:#}"
    );
}

/// Checks that claims are found without a replay, and that a rule which needs one gives the reason.
fn assert_workload_alone_is_diagnosed(workload: &Path) {
    let (_, diagnosis) = diagnosed(&[&workload.display().to_string()]);
    assert!(found(&diagnosis, "claims", "few_links"), "{diagnosis:#}");
    let blind = diagnosis["rules"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["rule"] == "missing-index");
    assert!(
        blind.unwrap()["reason"]
            .as_str()
            .unwrap()
            .contains("replay it")
    );
}

fn version(endpoint: &Endpoint) -> u32 {
    let mut client = postgres::Client::connect(&endpoint.url("postgres"), postgres::NoTls).unwrap();
    let row = client.query_one("SHOW server_version_num", &[]).unwrap();
    row.get::<_, String>(0).parse().unwrap()
}

#[test]
fn thresholds_are_listed_and_wrong_ones_refused() {
    let listed = rehearse(&["diagnose", "--thresholds"]);
    assert_eq!(listed.status.code(), Some(0));
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("cliff-calls-per-second") && listed.contains("ours"));
    for (arguments, words) in [
        (
            &["diagnose", "x.run", "--threshold", "nothing=1"][..],
            "--thresholds` lists",
        ),
        (
            &["diagnose", "x.run", "--threshold", "problem-share=much"],
            "sets no number",
        ),
        (&["diagnose", "/nonexistent.run"], "nonexistent"),
    ] {
        let refused = rehearse(arguments);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(words), "{said}");
    }
}
