//! Transactions that servers rolled back: a driver sends them message by message, and a replay of each
//! server's log leaves the same rows as the server has.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use protocol::frontend::{Execute, Query, Sync, bind, parse, startup};
use protocol::{Format, PROTOCOL_3_0, backend::tag, next_frame};
use sandbox::{Endpoint, Stop};
use test_support::{connect, server};

const SCHEMA: &str = "CREATE TABLE t (id int PRIMARY KEY, note text);
    CREATE TABLE c (id int REFERENCES t DEFERRABLE INITIALLY DEFERRED);
    INSERT INTO t VALUES (0, 'taken')";

const LOGGING: [(&str, &str); 9] = [
    ("logging_collector", "on"),
    ("log_destination", "stderr,csvlog"),
    ("log_line_prefix", "%m [%p] %c %l %v %e %q%u@%d %a "),
    ("log_connections", "on"),
    ("log_disconnections", "on"),
    ("log_directory", "log"),
    ("log_filename", "postgresql.log"),
    ("log_rotation_size", "0"),
    ("log_parameter_max_length_on_error", "-1"),
];

/// Client that sends messages of its choice, with a comment before each statement.
struct Client {
    stream: UnixStream,
    comment: &'static str,
}

/// Messages up to an answer.
struct Messages {
    bytes: Vec<u8>,
    comment: &'static str,
}

impl Messages {
    fn new(comment: &'static str) -> Self {
        let bytes = Vec::new();
        Messages { bytes, comment }
    }

    fn parse(mut self, name: &str, sql: &str) -> Self {
        let sql = format!("{}{sql}", self.comment);
        parse::encode(name.as_bytes(), sql.as_bytes(), [], &mut self.bytes).unwrap();
        self
    }

    fn bind(mut self, name: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| Some(value.as_bytes()));
        let text: [Format; 0] = [];
        bind::encode(b"", name.as_bytes(), text, values, text, &mut self.bytes).unwrap();
        self
    }

    fn execute(mut self, portal: &str) -> Self {
        let message = Execute {
            portal: portal.as_bytes(),
            rows_max: 0,
        };
        message.encode(&mut self.bytes).unwrap();
        self
    }

    /// Adds Bind and Execute of the prepared INSERT.
    fn insert(self, id: &str) -> Self {
        self.bind("insert", &[id]).execute("")
    }
}

impl Client {
    fn connect(endpoint: &Endpoint, application: &str, comment: &'static str) -> Self {
        let sockets = endpoint.socket_dir.as_deref().unwrap();
        let socket = sockets.join(format!(".s.PGSQL.{}", endpoint.port));
        let mut stream = UnixStream::connect(socket).unwrap();
        let parameters: [(&[u8], &[u8]); 3] = [
            (b"user", endpoint.user.as_bytes()),
            (b"database", b"postgres"),
            (b"application_name", application.as_bytes()),
        ];
        let mut out = Vec::new();
        startup::encode(PROTOCOL_3_0, parameters, &mut out).unwrap();
        stream.write_all(&out).unwrap();
        let mut client = Client { stream, comment };
        client.read();
        let insert = "INSERT INTO t VALUES ($1, 'prepared')";
        client.sync(client.messages().parse("insert", insert));
        client
    }

    fn messages(&self) -> Messages {
        Messages::new(self.comment)
    }

    /// Sends messages and Sync.
    fn sync(&mut self, mut messages: Messages) {
        Sync.encode(&mut messages.bytes);
        self.stream.write_all(&messages.bytes).unwrap();
        self.read();
    }

    fn query(&mut self, sql: &str) {
        let mut out = Vec::new();
        let sql = format!("{}{sql}", self.comment);
        let sql = sql.as_bytes();
        Query { sql }.encode(&mut out).unwrap();
        self.stream.write_all(&out).unwrap();
        self.read();
    }

    /// Reads up to ReadyForQuery.
    fn read(&mut self) {
        let (mut unread, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            while let Some(frame) = next_frame(&unread, 1 << 20).unwrap() {
                if frame.tag == tag::READY_FOR_QUERY {
                    return;
                }
                let bytes = 1 + 4 + frame.body.len();
                unread.drain(..bytes);
            }
            let read = self.stream.read(&mut buffer).unwrap();
            assert!(read > 0, "the server closed the connection");
            unread.extend_from_slice(&buffer[..read]);
        }
    }
}

/// Sends messages within a transaction block that the client then wants to commit.
fn in_block(client: &mut Client, id: u32, messages: Messages, refused: bool) {
    client.query("BEGIN");
    client.query(&format!("INSERT INTO t VALUES ({id}, 'block')"));
    client.sync(messages);
    if refused {
        client.query(&format!("INSERT INTO t VALUES ({}, 'refused')", id + 1));
        let insert = format!("INSERT INTO t VALUES ({}, 'refused')", id + 2);
        client.sync(
            (client.messages())
                .parse("", &insert)
                .bind("", &[])
                .execute(""),
        );
    }
    client.query("COMMIT");
}

fn drive(endpoint: &Endpoint, comment: &'static str) {
    let messages = || Messages::new(comment);
    let mut blocks = Client::connect(endpoint, "blocks", comment);
    let failing: [fn(Messages) -> Messages; 7] = [
        |sent| sent.bind("insert", &["12x"]).execute(""),
        |sent| sent.bind("insert", &["1", "2"]).execute(""),
        |sent| sent.bind("nosuch", &["1"]).execute(""),
        |sent| sent.execute("nosuch"),
        |sent| sent.parse("insert", "INSERT INTO t VALUES (900, 'taken name')"),
        |sent| sent.parse("", "INSERT INTO nosuch VALUES (1)"),
        |sent| sent.parse("", "INSERT INTO t VALUES (901, ''); SELECT 1"),
    ];
    for (n, add) in (0..).zip(failing) {
        in_block(&mut blocks, 100 + n * 20, add(messages()), false);
        in_block(&mut blocks, 110 + n * 20, add(messages()), true);
        // Outside of a block, after something that is committed.
        blocks.sync(messages().insert(&(400 + n).to_string()));
        blocks.sync(add(messages()));
    }
    let mut pipelines = Client::connect(endpoint, "pipelines", comment);
    for (n, add) in (0..).zip(failing) {
        let id = |more: u32| (500 + n * 10 + more).to_string();
        pipelines.sync(messages().insert(&id(0)));
        pipelines.sync(add(messages().insert(&id(1)).insert(&id(2))));
        pipelines.sync(messages().insert(&id(3)).insert(&id(4)));
    }
    // The failed statement fails only because of those before it, or at Sync.
    pipelines.sync(messages().insert("600").insert("600").insert("601"));
    let child = "INSERT INTO c VALUES ($1)";
    pipelines.sync(
        messages()
            .parse("child", child)
            .bind("child", &["0"])
            .execute(""),
    );
    pipelines.sync(messages().insert("602").bind("child", &["999"]).execute(""));
    pipelines.sync(messages().insert("603").bind("child", &["603"]).execute(""));
    // Several commands in one text, and back to a savepoint.
    pipelines.query("INSERT INTO t VALUES (610, ''); INSERT INTO t VALUES (0, 'again')");
    pipelines.query("BEGIN; INSERT INTO t VALUES (611, '')");
    pipelines.query("SAVEPOINT s");
    pipelines.sync(messages().bind("insert", &["x"]).execute(""));
    pipelines.query("ROLLBACK TO s");
    pipelines.query("COMMIT");
}

fn rows(endpoint: &Endpoint) -> Vec<String> {
    let sql = "SELECT t::text FROM t UNION ALL SELECT 'child ' || id FROM c ORDER BY 1";
    let rows = connect(endpoint).query(sql, &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn rehearse(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(code == Some(0), "{arguments:?}: {code:?} {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn replay_leaves_the_same_rows(major: u16, logging: (&str, &str), comment: &'static str) {
    let directory = tempfile::tempdir().unwrap();
    let (mut captured, endpoint) = server().major(major).settings(&LOGGING).start();
    connect(&endpoint).batch_execute(SCHEMA).unwrap();
    let (name, value) = logging;
    let sql = format!("ALTER SYSTEM SET {name} = '{value}'");
    let mut admin = connect(&endpoint);
    admin.batch_execute(&sql).unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    drive(&endpoint, comment);
    let expected = rows(&endpoint);
    drop(admin);
    captured.stop(Stop::Fast).unwrap();
    let (_target, target) = server().major(major).start();
    for log in ["postgresql.log", "postgresql.csv"] {
        connect(&target)
            .batch_execute(&format!("DROP TABLE IF EXISTS c, t; {SCHEMA}"))
            .unwrap();
        let log = captured.data_dir().join("log").join(log);
        let path = |name: &str| {
            let format = log.extension().unwrap().to_str().unwrap();
            let path = directory.path().join(format!("{format}.{name}"));
            path.to_str().unwrap().to_owned()
        };
        let (workload, run) = (path("workload"), path("run"));
        capture(&log, &workload);
        let url = target.url("postgres");
        let replay = ["replay", &workload, "--target", &url, "-o", &run];
        rehearse(&[&replay[..], &["--speed", "max"]].concat());
        let found = rows(&target);
        assert_eq!(found, expected, "{major} {logging:?} {comment:?} {log:?}");
    }
}

fn capture(log: &Path, workload: &str) {
    let log = log.to_str().unwrap();
    let filter = ["--application", "blocks", "--application", "pipelines"];
    let arguments = ["capture", "log", log, "-o", workload];
    rehearse(&[&arguments[..], &filter].concat());
}

#[test]
fn what_15_rolled_back_is_not_committed_by_a_replay() {
    replay_leaves_the_same_rows(15, ("log_min_duration_statement", "0"), "");
    replay_leaves_the_same_rows(15, ("log_statement", "all"), "");
}

#[test]
fn what_18_rolled_back_is_not_committed_by_a_replay() {
    replay_leaves_the_same_rows(18, ("log_min_duration_statement", "0"), "");
    replay_leaves_the_same_rows(18, ("log_statement", "all"), "");
}

#[test]
fn what_was_rolled_back_is_not_committed_if_statements_begin_with_comments() {
    let comment = "/* page */ ";
    replay_leaves_the_same_rows(15, ("log_min_duration_statement", "0"), comment);
    replay_leaves_the_same_rows(15, ("log_statement", "all"), "-- page\n");
}
