//! Pace, copies and safety, against a real PostgreSQL.

mod read_only;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clock::{Clock, Factor, Speed, SystemClock};
use postgres::{Client, NoTls};
use replay::{COPY_SESSION_OFFSET, Observer, Options, ReadOnly, Scale, Snapshot, Target};
use run::{Execution, Outcome, RunInfo, RunReader, SkipReason, StatementKind};
use sandbox::{Endpoint, Sandbox};
use workload::{
    Boundary, Event, EventKind, NoRedaction, Provenance, Session, Sqlstate, WireDetails,
    WorkloadReader, WorkloadWriter, WriterOptions,
};

const START_US: i64 = 1_700_000_000_000_000;

/// One server for most tests of this file; its watchdog ends it when the tests have ended.
fn server() -> &'static Endpoint {
    static SERVER: OnceLock<(Sandbox, Endpoint)> = OnceLock::new();
    &SERVER
        .get_or_init(|| test_support::server().password("pace").start())
        .1
}

fn database(name: &str) -> Client {
    database_on(server(), name)
}

fn database_on(server: &Endpoint, name: &str) -> Client {
    let mut admin = Client::connect(&server.url("postgres"), NoTls).unwrap();
    admin
        .batch_execute(&format!("CREATE DATABASE {name}"))
        .unwrap();
    Client::connect(&server.url(name), NoTls).unwrap()
}

struct Unwatched;
impl Observer for Unwatched {
    fn on_progress(&mut self, _: &Snapshot) {}
    fn should_stop(&mut self) -> bool {
        false
    }
}

struct Script {
    directory: tempfile::TempDir,
    server: String,
    database: String,
    events: Vec<Event>,
}

impl Script {
    fn new(database: &str) -> Self {
        Script {
            directory: tempfile::tempdir().unwrap(),
            server: server().url("postgres"),
            database: database.to_owned(),
            events: Vec::new(),
        }
    }

    fn at(&mut self, due_ms: i64, session: u64, kind: EventKind) -> &mut Event {
        let before = self.events.iter().filter(|event| event.session == session);
        let sequence = before.count() as u64;
        self.events.push(Event {
            session,
            sequence,
            due_us: START_US + due_ms * 1_000,
            kind,
            outcome: workload::Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: None,
        });
        self.events.last_mut().unwrap()
    }

    fn connect(&mut self, due_ms: i64, session: u64) -> &mut Event {
        let database = self.database.as_str().into();
        let kind = EventKind::Connect {
            database,
            user: "postgres".into(),
            application: "".into(),
        };
        self.at(due_ms, session, kind)
    }

    fn particulars(awaited: bool, boundary: Boundary) -> Arc<WireDetails> {
        Arc::new(WireDetails {
            awaited,
            boundary,
            ..WireDetails::default()
        })
    }

    /// Adds a statement in the extended protocol, as part of a pipeline.
    fn piece(&mut self, session: u64, sql: &str, awaited: bool, boundary: Boundary) {
        let kind = EventKind::Execute {
            statement: "".into(),
            portal: "".into(),
            sql: sql.into(),
            parameters: vec![],
        };
        self.at(1, session, kind).wire_details = Some(Script::particulars(awaited, boundary));
    }

    fn simple(&mut self, due_ms: i64, session: u64, sql: &str) -> &mut Event {
        self.at(due_ms, session, EventKind::Simple { sql: sql.into() })
    }

    fn replay(&self, options: &Options) -> (RunInfo, Vec<Execution>) {
        let path = self.directory.path().join("pace.workload");
        if !path.exists() {
            let mut writer =
                WorkloadWriter::create(&path, WriterOptions::default(), NoRedaction).unwrap();
            for event in &self.events {
                writer.event(&event.borrowed()).unwrap();
            }
            for event in &self.events {
                if let EventKind::Connect { database, user, .. } = &event.kind {
                    let of_session = |other: &&Event| other.session == event.session;
                    let session = Session {
                        id: event.session,
                        database: database.clone(),
                        user: user.clone(),
                        application: "".into(),
                        client: "".into(),
                        start_us: event.due_us,
                        end_us: self.events.iter().rfind(of_session).unwrap().due_us,
                        start_seen: true,
                        end_seen: true,
                        statements: 0,
                    };
                    writer.session(session).unwrap();
                }
            }
            writer.finish(Provenance::default()).unwrap();
        }
        let reader = WorkloadReader::open(&path).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let target = Target::parse(&self.server, |_| None).unwrap();
        let forecast = replay::dry_run(&reader, &target, options).unwrap();
        let target_info = replay::check_target(
            &reader,
            &options.target_with_settings(&target),
            &options.logins,
        )
        .unwrap();
        let run = self.directory.path().join("pace.run");
        let _ = std::fs::remove_dir_all(&run);
        let mut watcher = Unwatched;
        let info = replay::replay(
            &reader,
            &target,
            target_info,
            options,
            &run,
            &clock,
            &mut watcher,
        )
        .unwrap();
        // The dry run matches the replay, and the counts add up.
        let failed: u64 = info.failed.values().sum();
        let skipped: u64 = info.skipped.values().sum();
        assert_eq!(info.statements, info.done + failed + skipped);
        assert_eq!(info.statements, forecast.statements);
        assert_eq!(info.workload.statements, forecast.statements);
        assert_eq!(skipped, forecast.skipped.values().sum::<u64>());
        let executions = RunReader::open(&run).unwrap().executions().unwrap();
        (info, executions.collect::<Result<_, _>>().unwrap())
    }
}

fn statements(executions: &[Execution]) -> Vec<&Execution> {
    let is_statement = |execution: &&Execution| execution.is_statement();
    executions.iter().filter(is_statement).collect()
}

const MS: i64 = 1_000_000;

#[test]
fn closed_loop_waits_for_the_answer_and_the_think_time() {
    let _client = database("closed_loop");
    let mut script = Script::new("closed_loop");
    script.connect(0, 1);
    // 100 ms in the capture, 400 ms here; then 200 ms of thought.
    script
        .simple(10, 1, "SELECT pg_sleep(0.4)")
        .outcome
        .duration_us = Some(100_000);
    script.simple(310, 1, "SELECT 2").outcome.duration_us = Some(0);
    script.simple(20_310, 1, "SELECT 3");
    script.at(20_310, 1, EventKind::Disconnect);
    let closed = |think: &str| Options {
        think_time: Some(think.parse().unwrap()),
        ..Options::default()
    };
    let (info, executions) = script.replay(&closed("0.01"));
    assert_eq!(info.options["think_time"], "0.01");
    let rows = statements(&executions);
    assert_eq!(rows[1].due_ns - rows[0].done_ns.unwrap(), 2 * MS);
    assert_eq!(rows[2].due_ns - rows[1].done_ns.unwrap(), 200 * MS);
    for row in &rows {
        assert!(row.sent_ns.unwrap() >= row.due_ns && row.session_lag_ns == 0);
    }
    // Dropped: 20 s of thought are gone.
    let (_, executions) = script.replay(&closed("0"));
    let rows = statements(&executions);
    assert_eq!(rows[2].due_ns, rows[1].done_ns.unwrap());
    assert!(info.elapsed_ns < 10_000 * MS);
}

#[test]
fn closed_loop_skipped_statement_takes_its_captured_time() {
    let _client = database("closed_skips");
    let mut script = Script::new("closed_skips");
    script.connect(0, 1);
    script.simple(0, 1, "SELECT 1");
    let skipped = script.simple(50, 1, "COPY t FROM STDIN");
    skipped.outcome.duration_us = Some(100_000);
    skipped.unreplayable = Some(workload::Unreplayable::CopyDataMissing);
    script.simple(200, 1, "SELECT 2");
    script.at(200, 1, EventKind::Disconnect);
    let (_, executions) = script.replay(&Options {
        think_time: Some(Factor::ONE),
        ..Options::default()
    });
    let rows = statements(&executions);
    assert_eq!(rows[2].due_ns - rows[0].done_ns.unwrap(), 200 * MS);
}

#[test]
fn idle_time_is_cut_and_reported() {
    let _client = database("idle_skip");
    let mut script = Script::new("idle_skip");
    script.connect(0, 1);
    script.simple(0, 1, "SELECT 1");
    script.simple(3_600_000, 1, "SELECT 2");
    script.at(3_600_000, 1, EventKind::Disconnect);
    let (info, executions) = script.replay(&Options {
        idle_max: Some(Duration::from_millis(200)),
        ..Options::default()
    });
    let rows = statements(&executions);
    assert_eq!(rows[1].due_ns - rows[0].due_ns, 200 * MS);
    // An hour, less 200 ms.
    assert_eq!(info.options["idle_skipped"], "59 min 59 s");
}

#[test]
fn rounds_and_copies_are_sessions_of_their_own_and_rounds_do_not_overlap() {
    let mut client = database("copies");
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE n (a int)")
        .unwrap();
    for options in [
        Options {
            speed: Speed::Max,
            ..Options::default()
        },
        Options {
            speed: "4".parse().unwrap(),
            think_time: Some(Factor::ZERO),
            ..Options::default()
        },
    ] {
        client.batch_execute("TRUNCATE t, n").unwrap();
        let mut script = Script::new("copies");
        for session in 0..4 {
            script.connect(session, session as u64);
        }
        for session in 0..4u64 {
            script.simple(10, session, &format!("INSERT INTO t VALUES ({session})"));
            // The transaction is left open: the next round must not wait for it for ever.
            script.simple(20, session, "BEGIN; LOCK TABLE n IN SHARE MODE");
        }
        let options = Options {
            repeat: 3,
            scale: Scale {
                factor: "2".parse().unwrap(),
                shift: Duration::from_millis(5),
            },
            ..options
        };
        let (info, executions) = script.replay(&options);
        assert_eq!(info.statements, 8 * 6);
        assert_eq!(
            (
                info.options["repeat"].as_str(),
                info.options["scale"].as_str()
            ),
            ("3", "2")
        );
        assert_eq!(info.failed["23505"], 4 * 5, "each key is new once");
        let mut copies = vec![0; 6];
        let mut spans = vec![(i64::MAX, 0); 3];
        for row in statements(&executions) {
            assert!(row.session % COPY_SESSION_OFFSET < 4);
            let copy = (row.session / COPY_SESSION_OFFSET) as usize;
            copies[copy] += 1;
            let span = &mut spans[copy / 2];
            span.0 = span.0.min(row.sent_ns.unwrap());
            span.1 = span.1.max(row.done_ns.unwrap());
        }
        assert_eq!(copies, [8; 6]);
        assert!(
            spans[0].1 <= spans[1].0 && spans[1].1 <= spans[2].0,
            "{spans:?}"
        );
        // Each session's statements are in order.
        for copy in 0..6 {
            for session in 0..4 {
                let id = copy * COPY_SESSION_OFFSET + session;
                let of: Vec<u64> = executions
                    .iter()
                    .filter(|execution| execution.session == id && execution.is_statement())
                    .map(|execution| execution.sequence)
                    .collect();
                assert_eq!(of, [1, 2]);
            }
        }
    }
}

#[test]
fn statement_timeout_ends_longer_statements() {
    let _client = database("time_limit");
    let mut script = Script::new("time_limit");
    script.connect(0, 1);
    script.simple(1, 1, "SELECT pg_sleep(20)");
    script.simple(2, 1, "SHOW statement_timeout");
    script.at(3, 1, EventKind::Disconnect);
    let (info, executions) = script.replay(&Options {
        statement_timeout: Some(Duration::from_millis(150)),
        ..Options::default()
    });
    let rows = statements(&executions);
    assert_eq!(rows[0].outcome, Outcome::Failed(Sqlstate(*b"57014")));
    assert_eq!(rows[1].outcome, Outcome::Done);
    assert_eq!(info.options["statement_timeout"], "150 ms");
    assert!(
        executions
            .iter()
            .any(|row| row.kind == StatementKind::Disconnect)
    );
}

#[test]
fn captured_process_ids_never_end_an_innocent_session() {
    let mut client = database("process_ids");
    let innocent: i32 = (client.query_one("SELECT pg_backend_pid()", &[]).unwrap()).get(0);
    let mut script = Script::new("process_ids");
    script.connect(0, 1);
    for function in ["pg_cancel_backend", "pg_terminate_backend"] {
        script.simple(1, 1, &format!("SELECT {function}({innocent})"));
        let sql = format!("SELECT {function}($1)");
        let kind = EventKind::Execute {
            statement: "".into(),
            portal: "".into(),
            sql: sql.into(),
            parameters: vec![Some(innocent.to_string().as_str().into())],
        };
        script.at(1, 1, kind);
    }
    let kind = EventKind::FunctionCall {
        function: "2096".into(),
        sql: "\"function 2096\"($1)".into(),
        parameters: vec![Some(innocent.to_string().as_str().into())],
    };
    script.at(2, 1, kind);
    script.simple(3, 1, "SET TRANSACTION SNAPSHOT '00000003-0000001B-1'");
    script.simple(3, 1, "SELECT pg_cancel_backend(pg_backend_pid())");
    script.at(4, 1, EventKind::Disconnect);
    let (info, executions) = script.replay(&Options::default());
    assert_eq!(info.skipped[SkipReason::ProcessUnknown.name()], 5);
    assert_eq!(info.skipped[SkipReason::SnapshotUnknown.name()], 1);
    let own = statements(&executions).last().unwrap().outcome;
    assert!(!matches!(own, Outcome::Skipped(_)), "{own:?}");
    client.simple_query("SELECT 1").unwrap();
}
