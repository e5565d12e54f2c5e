//! End-to-end test on real servers: traffic of an independent client library on PostgreSQL 15,
//! its log, a workload, replays against 15 and 17, and the rows in the tables afterwards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use postgres::{Client, Statement};
use sandbox::{Endpoint, Stop};
use test_support::{connect, server};

/// Runs the program under test.
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

/// Runs the program, which must end with this exit code, and returns its standard output as
/// JSON.
fn json(arguments: &[&str], code: i32) -> serde_json::Value {
    let output = rehearse(arguments);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

const LOGGING: [(&str, &str); 10] = [
    ("logging_collector", "on"),
    ("log_destination", "stderr,csvlog,jsonlog"),
    ("log_line_prefix", "%m [%p] %c %v %e %q%u@%d/%a "),
    ("log_min_duration_statement", "0"),
    ("log_connections", "on"),
    ("log_disconnections", "on"),
    ("log_directory", "log"),
    ("log_filename", "postgresql.log"),
    ("log_rotation_size", "0"),
    ("log_parameter_max_length_on_error", "-1"),
];

/// Creates the same tables on every server.
fn load(endpoint: &Endpoint) {
    connect(endpoint)
        .batch_execute(
            "CREATE TABLE account (id int PRIMARY KEY, owner text, balance numeric(12,2), tags text[],
                 born timestamptz, paper jsonb, seal bytea, open bool);
             INSERT INTO account SELECT n, 'owner ' || n, n, '{}', NULL, NULL, NULL, true
                 FROM generate_series(1, 500) n;
             CREATE TABLE entry (session int, n int, note text, PRIMARY KEY (session, n))",
        )
        .unwrap();
}

/// Returns the contents of the tables as one checksum of all rows in order.
fn content(endpoint: &Endpoint) -> String {
    connect(endpoint)
        .query_one(
            "SELECT (SELECT md5(string_agg(a::text, '|' ORDER BY id)) FROM account a) || ' '
                 || (SELECT md5(string_agg(e::text, '|' ORDER BY session, n)) FROM entry e)",
            &[],
        )
        .unwrap()
        .get(0)
}

/// Numbers of statements that sessions sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sent {
    statements: u64,
    /// Number of those that failed.
    failed: u64,
    /// Number of those that failed because their transaction had failed before. The server refuses
    /// them before it reads their parameters, so that no setting can log these.
    refused: u64,
}

/// Runs one session. Sessions use separate rows, so that the order between them does not matter.
fn drive(endpoint: &Endpoint, session: i32) -> Sent {
    let mut client = connect(endpoint);
    let mut sent = Sent::default();
    let update = client
        .prepare(
            "UPDATE account SET owner = $1, balance = balance + $2::text::numeric, tags = $3,
                 born = $4::text::timestamptz, paper = $5::text::jsonb, seal = $6, open = $7
             WHERE id = $8",
        )
        .unwrap();
    let enter = client
        .prepare("INSERT INTO entry VALUES ($1, $2, $3)")
        .unwrap();
    let notes = [
        Some("it's"),
        None,
        Some("two\nlines\tand a tab"),
        Some("$2 = 'x', $3 = NULL"),
        Some("back\\slash ü€ \"quoted\""),
        Some(""),
    ];
    for n in 0..60 {
        let id = session * 60 + n % 50 + 1;
        let note = notes[n as usize % notes.len()];
        let tags = vec![note.map(str::to_owned), Some(format!("tag {n}")), None];
        let cents = format!("{n}.25");
        let seal: Option<&[u8]> = (n % 3 != 0).then_some(&[0, 39, 92, 255]);
        client
            .execute(
                &update,
                &[
                    &note,
                    &cents,
                    &tags,
                    &"2026-03-01 09:30:00.123456+02",
                    &r#"{"a": "it's", "b": [1, null]}"#,
                    &seal,
                    &(n % 2 == 0),
                    &id,
                ],
            )
            .unwrap();
        client.execute(&enter, &[&session, &n, &note]).unwrap();
        sent.statements += 2;
        further(&mut client, &enter, (session, n, id, note), &mut sent);
    }
    client.close().unwrap();
    sent
}

/// Sends what each sixth row has in addition: of session `session`, row `n`.
fn further(
    client: &mut Client,
    enter: &Statement,
    (session, n, id, note): (i32, i32, i32, Option<&str>),
    sent: &mut Sent,
) {
    match n % 6 {
        0 => {
            // Unnamed, prepared and executed at once.
            client
                .query_typed(
                    "SELECT owner FROM account WHERE id = $1",
                    &[(&id, postgres::types::Type::INT4)],
                )
                .unwrap();
            sent.statements += 1;
        }
        1 => {
            let sql = format!("SELECT 'it''s', E'a\\nb' FROM account WHERE id = {id}; SELECT 1");
            client.simple_query(&sql).unwrap();
            sent.statements += 1;
        }
        2 => {
            client
                .execute(enter, &[&session, &n, &"again"])
                .unwrap_err();
            sent.statements += 1;
            sent.failed += 1;
        }
        3 => {
            client
                .simple_query("SELECT frobnicate FROM account")
                .unwrap_err();
            sent.statements += 1;
            sent.failed += 1;
        }
        4 => {
            let mut transaction = client.transaction().unwrap();
            transaction
                .execute(enter, &[&session, &(1_000 + n), &note])
                .unwrap();
            transaction.simple_query("SELECT 1/0").unwrap_err();
            transaction
                .execute(enter, &[&session, &(2_000 + n), &note])
                .unwrap_err();
            transaction.rollback().unwrap();
            sent.statements += 5;
            sent.failed += 2;
            sent.refused += 1;
        }
        _ => {
            let mut transaction = client.transaction().unwrap();
            transaction
                .execute(enter, &[&session, &(3_000 + n), &note])
                .unwrap();
            transaction.commit().unwrap();
            sent.statements += 3;
        }
    }
}

struct Captured {
    directory: tempfile::TempDir,
    sent: Sent,
    content: String,
}

/// Runs the sessions on a server of version 15 with all three log formats, and copies the logs.
fn capture() -> Captured {
    let directory = tempfile::tempdir().unwrap();
    let mut server = server().major(15).create();
    let endpoint = server.start().unwrap();
    load(&endpoint);
    server.stop(Stop::Fast).unwrap();
    let logging = LOGGING.map(|(name, value)| (name.to_owned(), value.to_owned()));
    server.set(logging.into()).unwrap();
    let endpoint = server.start().unwrap();
    let mut sent = Sent::default();
    std::thread::scope(|scope| {
        let endpoint = &endpoint;
        let sessions: Vec<_> = (0..8)
            .map(|session| scope.spawn(move || drive(endpoint, session)))
            .collect();
        for session in sessions {
            let more = session.join().unwrap();
            sent.statements += more.statements;
            sent.failed += more.failed;
            sent.refused += more.refused;
        }
    });
    server.stop(Stop::Fast).unwrap();
    let logs = server.data_dir().join("log");
    for name in ["postgresql.log", "postgresql.csv", "postgresql.json"] {
        std::fs::copy(logs.join(name), directory.path().join(name)).unwrap();
    }
    server.set(Vec::new()).unwrap();
    let content = content(&server.start().unwrap());
    Captured {
        directory,
        sent,
        content,
    }
}

impl Captured {
    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

/// Returns the sessions of a workload, each with its events in order, without session numbers
/// and facts that only one format has.
///
/// The collector may write two lines of the same millisecond in a different order into each
/// file. The order between sessions, and so their numbers, therefore differ between formats. The
/// order within a session does not.
fn sessions(path: &Path) -> Vec<Vec<String>> {
    let mut sessions: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for item in workload::WorkloadReader::open(path)
        .unwrap()
        .events()
        .unwrap()
    {
        let (mut event, _) = item.unwrap();
        let session = std::mem::take(&mut event.session);
        (event.line, event.source) = (0, 0);
        sessions
            .entry(session)
            .or_default()
            .push(format!("{event:?}"));
    }
    let mut sessions: Vec<_> = sessions.into_values().collect();
    sessions.sort();
    sessions
}

#[test]
fn a_log_of_a_real_client_replays_with_the_same_rows_and_errors_on_15_and_17() {
    let captured = capture();

    // The same traffic in three formats gives the same events.
    let mut workloads: Vec<PathBuf> = Vec::new();
    for (log, name) in [
        ("postgresql.log", "stderr.workload"),
        ("postgresql.csv", "csv.workload"),
        ("postgresql.json", "json.workload"),
    ] {
        let account = json(
            &[
                "capture",
                "log",
                &captured.path(log),
                "-o",
                &captured.path(name),
                "--json",
            ],
            0,
        );
        assert_eq!(
            account["statements"], captured.sent.statements,
            "{log}: {account:#}"
        );
        workloads.push(captured.directory.path().join(name));
    }
    let of_stderr = sessions(&workloads[0]);
    for other in &workloads[1..] {
        let of_other = sessions(other);
        assert_eq!(of_stderr.len(), of_other.len(), "{}", other.display());
        for (one, another) in of_stderr.iter().zip(&of_other) {
            for (place, (one, another)) in one.iter().zip(another).enumerate() {
                assert_eq!(
                    one,
                    another,
                    "event {place} of a session of {}",
                    other.display()
                );
            }
            assert_eq!(one.len(), another.len(), "{}", other.display());
        }
    }

    for major in [15, 17] {
        let mut target = server().major(major).create();
        let endpoint = target.start().unwrap();
        load(&endpoint);
        let run = captured.path(&format!("{major}.run"));
        let summary = json(
            &[
                "replay",
                &captured.path("csv.workload"),
                "--target",
                &endpoint.url("postgres"),
                "-o",
                &run,
                "--speed",
                "max",
                "--json",
            ],
            0,
        );
        assert_eq!(
            summary["statements"], captured.sent.statements,
            "{major}: {summary:#}"
        );
        let failed: u64 = summary["failed"]
            .as_object()
            .unwrap()
            .values()
            .map(|count| count.as_u64().unwrap())
            .sum();
        let sent = captured.sent;
        assert_eq!(failed, sent.failed - sent.refused, "{major}: {summary:#}");
        assert_eq!(summary["versus_capture"]["same"], failed);
        let skipped = serde_json::json!({ "parameters_missing": sent.refused });
        assert_eq!(summary["skipped"], skipped);
        assert_eq!(content(&endpoint), captured.content, "the rows on {major}");
    }

    let compared = rehearse(&[
        "compare",
        &captured.path("15.run"),
        &captured.path("17.run"),
        "--fail-on",
        "new_errors > 0 or gone_errors > 0",
    ]);
    assert_eq!(
        compared.status.code(),
        Some(0),
        "{}",
        text(&compared.stdout)
    );
}

#[test]
fn a_full_disk_leaves_no_workload() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("a.log");
    let mut lines = String::new();
    for n in 0..40_000u64 {
        // Text that does not compress: a disk that is full is full soon.
        let noise = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        lines.push_str(&format!(
            "2026-03-01 09:00:{:02}.{:03} UTC [{}] LOG:  statement: SELECT '{noise:x}{:x}'\n",
            n / 1_000,
            n % 1_000,
            n % 20 + 100,
            noise.rotate_left(29) ^ n,
        ));
    }
    std::fs::write(&log, lines).unwrap();
    let workload = directory.path().join("a.workload");
    let capture = |blocks: &str| {
        Command::new("sh")
            .arg("-c")
            // A limit on the size of files is what a full disk is to a process, for any user.
            .arg(format!(
                "trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" capture log \"$1\" --prefix '%m [%p] ' -o \"$2\""
            ))
            .arg(env!("CARGO_BIN_EXE_rehearse"))
            .args([&log, &workload])
            .output()
            .unwrap()
    };
    let full = capture("100");
    assert_eq!(full.status.code(), Some(3), "{}", text(&full.stderr));
    let said = text(&full.stderr);
    assert!(said.contains("rehearse: cannot write"), "{said}");
    let left: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["a.log"]);
    let roomy = capture("unlimited");
    assert_eq!(roomy.status.code(), Some(0), "{}", text(&roomy.stderr));
    assert!(workload.is_dir());
}
