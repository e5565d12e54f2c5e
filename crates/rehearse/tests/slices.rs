//! Slices of logs and of workloads: the program's files and messages. A slice of real traffic
//! behaves on a real server as the whole did.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use postgres::{Client, SimpleQueryMessage};
use sandbox::{Endpoint, Stop};
use test_support::{connect, server};
use workload::{Event, WorkloadReader};

fn rehearse(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .env_remove("PGHOST")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the program, which must succeed, and returns its standard output.
fn done(arguments: &[&str]) -> String {
    let output = rehearse(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    text(&output.stdout)
}

fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&done(arguments)).unwrap()
}

/// Returns the error message of a command that must be refused.
fn refused(arguments: &[&str]) -> String {
    let output = rehearse(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    said
}

fn events(path: &Path) -> Vec<Event> {
    let reader = WorkloadReader::open(path).unwrap();
    let events = reader.events().unwrap();
    events.map(|item| item.unwrap().0).collect()
}

fn texts(path: &Path) -> Vec<String> {
    let of = |event: &Event| {
        let mark = if event.prelude { "* " } else { "" };
        let sql = event.kind.sql().map_or(event.kind.name(), |sql| sql);
        format!("{mark}{} {sql}", event.session)
    };
    events(path).iter().map(of).collect()
}

/// Directory with a log of three sessions: one in a transaction in the middle, one idle, and one
/// of another user.
struct Room {
    directory: tempfile::TempDir,
}

const LOG: &str = "\
2026-03-01 09:30:00.000 UTC [7] LOG:  connection authorized: user=app database=shop application_name=web
2026-03-01 09:30:01.000 UTC [7] LOG:  statement: SET search_path = north
2026-03-01 09:30:02.000 UTC [8] LOG:  connection authorized: user=app database=shop application_name=web
2026-03-01 09:30:03.000 UTC [9] LOG:  connection authorized: user=report database=shop application_name=cron
2026-03-01 09:30:04.000 UTC [9] LOG:  statement: SELECT count(*) FROM orders
2026-03-01 09:30:10.000 UTC [7] LOG:  statement: BEGIN
2026-03-01 09:30:11.000 UTC [7] LOG:  statement: UPDATE orders SET paid = true WHERE id = 7
2026-03-01 09:30:20.000 UTC [7] LOG:  statement: INSERT INTO events VALUES (7)
2026-03-01 09:30:21.000 UTC [9] LOG:  statement: SELECT sum(total) FROM orders
2026-03-01 09:30:22.000 UTC [7] LOG:  statement: COMMIT
2026-03-01 09:30:30.000 UTC [7] LOG:  disconnection: session time: 0:00:30.000 user=app database=shop host=[local]
2026-03-01 09:30:31.000 UTC [9] LOG:  disconnection: session time: 0:00:28.000 user=report database=shop host=[local]
";

impl Room {
    fn new() -> Self {
        let room = Room {
            directory: tempfile::tempdir().unwrap(),
        };
        std::fs::write(room.path("a.log"), LOG).unwrap();
        let workload = room.text("a.workload");
        done(&["capture", "log", &room.text("a.log"), "-o", &workload]);
        room
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Slices the workload with these options, and returns the report.
    fn slice(&self, name: &str, options: &[&str]) -> serde_json::Value {
        let (whole, part) = (self.text("a.workload"), self.text(name));
        let mut arguments = vec!["slice", &whole, "-o", &part, "--json"];
        arguments.extend(options);
        json(&arguments)
    }

    /// Returns the error message of a slice that must be refused and leave no files.
    fn refused(&self, options: &[&str]) -> String {
        let (whole, part) = (self.text("a.workload"), self.text("none.workload"));
        let mut arguments = vec!["slice", &whole, "-o", &part];
        arguments.extend(options);
        let said = refused(&arguments);
        let left = std::fs::read_dir(self.directory.path()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert!(
            left.iter()
                .all(|name| !name.to_string_lossy().starts_with("none")),
            "{left:?}"
        );
        said
    }
}

#[test]
fn a_slice_begins_where_its_sessions_were() {
    let room = Room::new();
    let account = room.slice(
        "b.workload",
        &["--from", "2026-03-01 10:30:15 CET", "--to", "+21500ms"],
    );
    assert_eq!(
        texts(&room.path("b.workload")),
        [
            "* 0 connect",
            "* 0 SET search_path = north",
            "* 0 BEGIN",
            "* 0 UPDATE orders SET paid = true WHERE id = 7",
            "* 2 connect",
            "0 INSERT INTO events VALUES (7)",
            "2 SELECT sum(total) FROM orders",
        ]
    );
    for (name, count) in [
        ("events", 12),
        ("kept", 2),
        ("prelude", 5),
        ("sessions", 3),
        ("sessions_kept", 2),
        ("transactions_resumed", 1),
        ("transactions_open", 1),
    ] {
        assert_eq!(account[name], count, "{name}: {account:#}");
    }
    assert_eq!(account["left_out"]["before"], 2);
    assert_eq!(account["left_out"]["after"], 3);

    let inspection = json(&["inspect", "--json", "--verify", &room.text("b.workload")]);
    assert_eq!(inspection["prelude"], 3);
    assert_eq!(inspection["start_wall_us"], 1_772_357_415_000_000_i64);
    let shown = done(&["inspect", &room.text("b.workload")]);
    assert!(
        shown.contains("3 done before this slice and put at its start"),
        "{shown}"
    );

    let reader = WorkloadReader::open(&room.path("b.workload")).unwrap();
    let note = &reader.info().provenance.slices[0];
    assert!(note.workload.ends_with("a.workload"), "{note:?}");
    assert_eq!(note.options["from"], ["2026-03-01 09:30:15 UTC"]);
    let sessions: Vec<_> = reader.sessions().unwrap().map(Result::unwrap).collect();
    assert_eq!(sessions.len(), 2);
    assert!(
        sessions
            .iter()
            .all(|session| session.start_seen && !session.end_seen)
    );

    // A slice can be sliced again; the report lists both.
    let (b, c) = (room.text("b.workload"), room.text("c.workload"));
    let said = done(&["slice", &b, "-o", &c, "--filter-user", "app"]);
    assert!(
        said.contains("4 statements of 1 session over 5.00 s"),
        "{said}"
    );
    assert!(
        said.contains("1 transaction is left open at its end"),
        "{said}"
    );
    let reader = WorkloadReader::open(&room.path("c.workload")).unwrap();
    assert_eq!(reader.info().provenance.slices.len(), 2);
    assert_eq!(
        texts(&room.path("c.workload"))
            .iter()
            .filter(|text| text.starts_with('*'))
            .count(),
        4
    );
}

#[test]
fn a_capture_keeps_the_same_slice() {
    let room = Room::new();
    for (number, options) in [
        vec!["--from", "+15s"],
        vec!["--to", "2026-03-01T09:30:21Z", "--not-user", "rep*"],
        vec!["--kind", "select,transaction"],
        vec!["--statement", "update ORDERS*where", "--application", "web"],
        vec!["--kind", "write", "--not-statement", "insert into events"],
    ]
    .iter()
    .enumerate()
    {
        let (of_log, of_workload) = (format!("l{number}.workload"), format!("w{number}.workload"));
        let account = room.slice(&of_workload, options);
        let (log, out) = (room.text("a.log"), room.text(&of_log));
        let mut arguments = vec!["capture", "log", &log, "-o", &out, "--json"];
        arguments.extend(options);
        let captured = json(&arguments);
        assert_eq!(
            events(&room.path(&of_log)),
            events(&room.path(&of_workload)),
            "{options:?}"
        );
        assert_eq!(captured["lines_in_events"], 12);
        assert_eq!(captured["sessions"], account["sessions_kept"]);
        for name in ["events", "kept", "prelude", "left_out"] {
            assert_eq!(captured["slice"][name], account[name], "{options:?} {name}");
        }
        let check = ["capture", "log", &log, "--dry-run", "--json"];
        let checked = json(&[&check[..], &options[..]].concat());
        assert_eq!(checked["slice"]["kept"], account["kept"]);
        assert_eq!(checked["statements"], captured["statements"]);
    }
    assert_eq!(
        texts(&room.path("w3.workload")),
        [
            "0 connect",
            "0 SET search_path = north",
            "0 BEGIN",
            "0 UPDATE orders SET paid = true WHERE id = 7",
            "0 COMMIT",
            "0 disconnect"
        ]
    );
    let said = done(&[
        "capture",
        "log",
        &room.text("a.log"),
        "--dry-run",
        "--filter-user",
        "report",
    ]);
    assert!(said.contains("2 statements of 1 session"), "{said}");
    assert!(said.contains("of other users"), "{said}");
}

#[test]
fn what_cannot_be_sliced_is_said_in_a_sentence() {
    let room = Room::new();
    for (options, sentence) in [
        (
            &[][..],
            "rehearse: nothing says which part to keep; give --from, --from-dump, --to,",
        ),
        (
            &["--from", "yesterday"],
            "'yesterday' is no time: give one such as '2026-03-01 09:30' (UTC)",
        ),
        (
            &["--from", "+9s", "--to", "+9s"],
            "rehearse: --from (9.00 s from the start) is not before --to (9.00 s from the start)",
        ),
        (
            &["--from", "+9s", "--to", "2026-03-01 09:30:01"],
            "rehearse: --from 2026-03-01 09:30:09 UTC is not before --to 2026-03-01 09:30:01 UTC",
        ),
        (
            &["--from", "+1h"],
            "rehearse: the slice would be empty: no statement is due from 2026-03-01 10:30:00 UTC; there are events from 2026-03-01 09:30:00 UTC to 2026-03-01 09:30:31 UTC",
        ),
        (
            &["--filter-database", "shopp"],
            "no session is of the database asked for; the databases that are there are 'shop'",
        ),
        (
            &["--filter-user", "x", "--application", "y"],
            "the users that are there are 'app', 'report'",
        ),
        (
            &["--kind", "copy"],
            "rehearse: the slice would be empty: none of the 7 statements is of the kinds asked for;",
        ),
        (
            &["--kind", "reads"],
            "'reads' is no kind; give one of read, write, select,",
        ),
        (
            &["--statement", "from nowhere"],
            "none of the 7 statements is one that the patterns ask for",
        ),
        (
            &["--statement", "**"],
            "rehearse: --statement '**' would match every statement;",
        ),
    ] {
        let said = room.refused(options);
        assert!(said.contains(sentence), "{options:?}: {said}");
    }
    let whole = room.text("a.workload");
    let said = refused(&["slice", &whole, "-o", "b", "--filter-user", "app"]);
    assert!(said.contains("give -o b.workload"), "{said}");
    let said = refused(&["slice", &whole, "-o", &whole, "--filter-user", "app"]);
    assert!(said.contains("is there already"), "{said}");
    let said = refused(&[
        "slice",
        &room.text("no.workload"),
        "-o",
        &room.text("c.workload"),
        "--filter-user",
        "a",
    ]);
    assert!(said.contains("no.workload"), "{said}");
    let (log, out) = (room.text("a.log"), room.text("none.workload"));
    let said = refused(&[
        "capture",
        "log",
        &log,
        "-o",
        &out,
        "--filter-user",
        "nobody",
    ]);
    assert!(
        said.contains("the users that are there are 'app', 'report'"),
        "{said}"
    );
    assert!(!room.path("none.workload").exists() && !room.path("none.workload.partial").exists());
}

const SCHEMA: &str = "\
CREATE SCHEMA north; CREATE SCHEMA south; CREATE ROLE helper;
CREATE TABLE north.entry (n int PRIMARY KEY, note text);
CREATE TABLE south.entry (n int PRIMARY KEY, note text);
GRANT ALL ON SCHEMA north, south TO helper; GRANT ALL ON ALL TABLES IN SCHEMA north, south TO helper;";

/// Returns all rows of both tables.
fn rows(endpoint: &Endpoint) -> Vec<String> {
    let query = "SELECT 'north.entry', n, note FROM north.entry
                 UNION ALL SELECT 'south.entry', n, note FROM south.entry ORDER BY 1, 2";
    let answer = connect(endpoint).simple_query(query).unwrap();
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(format!(
            "INSERT INTO {} VALUES ({}, '{}')",
            row.get(0)?,
            row.get(1)?,
            row.get(2)?
        )),
        _ => None,
    };
    answer.iter().filter_map(row).collect()
}

/// Runs three sessions, the first of them in a transaction in the middle. Returns the rows that
/// were committed then, and at the end.
fn drive(endpoint: &Endpoint) -> (Vec<String>, Vec<String>) {
    let (mut one, mut two, mut three) = (connect(endpoint), connect(endpoint), connect(endpoint));
    let say = |client: &mut Client, sql: &str| client.batch_execute(sql).unwrap();
    say(&mut one, "SET search_path = south");
    say(
        &mut one,
        "SET search_path = north; SET application_name = 'it''s; one'",
    );
    say(
        &mut one,
        "PREPARE enter (int, text) AS INSERT INTO entry VALUES ($1, $2)",
    );
    let by_message = one.prepare("INSERT INTO entry VALUES ($1, $2)").unwrap();
    one.execute(&by_message, &[&1, &"before"]).unwrap();
    say(&mut one, "BEGIN");
    one.execute(&by_message, &[&2, &"open"]).unwrap();
    say(
        &mut one,
        "SAVEPOINT s; INSERT INTO entry VALUES (3, 'undone')",
    );
    say(&mut one, "ROLLBACK TO s");
    say(&mut one, "SET LOCAL work_mem = '123kB'");

    say(&mut two, "BEGIN; SET search_path = north; ROLLBACK");
    say(
        &mut two,
        "BEGIN; SET search_path = south; SET ROLE helper; COMMIT",
    );
    say(&mut two, "CREATE TEMP TABLE basket (n int)");
    say(&mut two, "SELECT set_config('my.name', 'two', false)");
    say(
        &mut two,
        "DECLARE numbers CURSOR WITH HOLD FOR SELECT 40 + g FROM generate_series(1, 2) g",
    );
    say(&mut two, "SELECT pg_advisory_lock(4711)");

    say(&mut three, "SET search_path = south");
    say(&mut three, "DISCARD ALL");

    std::thread::sleep(Duration::from_millis(20));
    let middle = rows(endpoint);
    say(&mut connect(endpoint), "SELECT 'the middle'");
    std::thread::sleep(Duration::from_millis(20));

    say(&mut one, "EXECUTE enter (4, current_setting('work_mem'))");
    one.execute(&by_message, &[&5, &"after"]).unwrap();
    one.batch_execute("EXECUTE enter (4, 'twice')").unwrap_err();
    say(&mut one, "ROLLBACK TO SAVEPOINT s");
    one.execute(&by_message, &[&6, &"in the end"]).unwrap();
    say(
        &mut one,
        "INSERT INTO entry SELECT 7, current_setting('application_name')",
    );
    say(&mut one, "COMMIT");
    say(
        &mut one,
        "INSERT INTO entry SELECT 8, 'more than default: ' || (current_setting('work_mem') <> '123kB')",
    );
    say(
        &mut two,
        "INSERT INTO entry SELECT 1, current_user || ' ' || current_setting('my.name')",
    );
    say(&mut two, "INSERT INTO basket VALUES (9)");
    say(&mut two, "INSERT INTO entry SELECT n, 'basket' FROM basket");
    say(&mut two, "FETCH ALL FROM numbers");
    say(
        &mut two,
        "INSERT INTO entry SELECT 2, 'locked: ' || pg_advisory_unlock(4711)",
    );
    three.batch_execute("SELECT * FROM entry").unwrap_err();
    say(
        &mut three,
        "INSERT INTO south.entry SELECT 3, current_setting('search_path')",
    );
    for client in [one, two, three] {
        client.close().unwrap();
    }
    (middle, rows(endpoint))
}

/// Replays against a fresh server with these rows. Returns the run's failures and the final
/// rows.
fn replay(workload: &str, run: &str, before: &[String]) -> (serde_json::Value, Vec<String>) {
    let mut target = server().major(15).create();
    let endpoint = target.start().unwrap();
    let mut client = connect(&endpoint);
    client.batch_execute(SCHEMA).unwrap();
    client.batch_execute(&before.join(";")).unwrap();
    let url = endpoint.url("postgres");
    let summary = json(&["replay", workload, "--target", &url, "-o", run, "--json"]);
    let after = rows(&endpoint);
    (summary, after)
}

#[test]
fn a_slice_from_the_middle_does_what_the_whole_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let mut source = server().major(15).create();
    let endpoint = source.start().unwrap();
    connect(&endpoint).batch_execute(SCHEMA).unwrap();
    source.stop(Stop::Fast).unwrap();
    let logging = [
        ("logging_collector", "on"),
        ("log_destination", "csvlog"),
        ("log_min_duration_statement", "0"),
        ("log_connections", "on"),
        ("log_disconnections", "on"),
        ("log_directory", "log"),
        ("log_filename", "postgresql.log"),
    ];
    let logging = logging.map(|(name, value)| (name.to_owned(), value.to_owned()));
    source.set(logging.into()).unwrap();
    let endpoint = source.start().unwrap();
    let (middle, end) = drive(&endpoint);
    source.stop(Stop::Fast).unwrap();
    let log = source.data_dir().join("log/postgresql.csv");
    let (whole, part) = (path("whole.workload"), path("part.workload"));
    done(&["capture", "log", &log.display().to_string(), "-o", &whole]);

    let all = events(Path::new(&whole));
    let cut = all.iter().find(|event| {
        event
            .kind
            .sql()
            .is_some_and(|sql| sql.contains("'the middle'"))
    });
    let from = format!("+{}us", cut.unwrap().due_us + 1);
    let account = json(&["slice", &whole, "-o", &part, "--from", &from, "--json"]);
    assert_eq!(account["transactions_resumed"], 1, "{account:#}");
    assert_eq!(account["temporary_objects"], 1, "{account:#}");
    assert_eq!(account["sessions_before"], 3, "{account:#}");
    let texts = texts(Path::new(&part));
    assert!(
        texts.iter().all(|text| !text.contains("DISCARD")),
        "{texts:#?}"
    );

    let (of_whole, rows_of_whole) = replay(&whole, &path("whole.run"), &[]);
    let (of_part, rows_of_part) = replay(&part, &path("part.run"), &middle);
    assert_eq!(rows_of_whole, end, "{of_whole:#}");
    assert_eq!(rows_of_part, end, "{of_part:#}\n{texts:#?}");
    assert!(
        middle.len() < end.len() && end.iter().any(|row| row.contains("helper two")),
        "{end:#?}"
    );
    // What fails is the same: the key that is there, and the table that is not in the path.
    assert_eq!(of_part["failed"], of_whole["failed"], "{of_part:#}");
    assert_eq!(
        of_part["failed"],
        serde_json::json!({"23505": 1, "42P01": 1})
    );
    assert_eq!(of_part["versus_capture"]["same"], 2, "{of_part:#}");
    assert_eq!(of_part["skipped"], serde_json::json!({}));
}
