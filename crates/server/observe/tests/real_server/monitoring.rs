//! Monitors real servers, and compares the observations with the load. Missing observations must be noted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clock::{Clock, SystemClock};
use observe::{Monitor, MonitorOptions, ProbeStatus};
use postgres::Client;
use run::{
    Activity, Blocking, Counter, ProbeNote, ProbeState, RunInfo, RunReader, RunStatus, RunWriter,
    SampleWindow, SampledStatement, StatementStatistics, TargetInfo, WorkloadRef,
};
use sql::{Fingerprint, Fingerprinter};

use super::{Server, login};

const WITH_STATEMENTS: [(&str, &str); 2] = [
    ("shared_preload_libraries", "pg_stat_statements"),
    ("pg_stat_statements.track_planning", "on"),
];

/// All observations of a monitored server.
struct Observations {
    statuses: Vec<ProbeStatus>,
    notes: Vec<ProbeNote>,
    statements: Vec<SampledStatement>,
    statistics: Vec<StatementStatistics>,
    windows: Vec<SampleWindow>,
    activity: Vec<Activity>,
    blocking: Vec<Blocking>,
    counters: Vec<Counter>,
    locks: usize,
}

/// Watches a server as this user while something is done.
fn watched(
    server: &Server,
    user: &str,
    options: &MonitorOptions,
    during: impl FnOnce(&Server),
) -> Observations {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let info = RunInfo {
        status: RunStatus::Complete,
        workload: WorkloadRef::default(),
        target: TargetInfo::default(),
        options: Default::default(),
        started_wall_us: 0,
        elapsed_ns: 0,
        span_due_ns: 0,
        span_sent_ns: 0,
        statements: 0,
        done: 0,
        failed: Default::default(),
        skipped: Default::default(),
        connections_failed: Default::default(),
        connections_lost: Default::default(),
        connections_reopened: 0,
        given_up: None,
        tool_stalls: Vec::new(),
        series_gaps: Vec::new(),
        machine: None,
    };
    let mut writer = RunWriter::create(&path, &info, std::iter::empty()).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let observed = writer.observed().unwrap();
    let target = server.target();
    let watch = Monitor::begin(&target, &[login(user)], options, &clock, observed);
    let statuses = watch.statuses().to_vec();
    let start_ns = clock.now_ns();
    watch.start(Arc::new(move || clock.now_ns() - start_ns));
    during(server);
    writer.take_observed(watch.end().unwrap()).unwrap();
    writer.finish(info, 0).unwrap();
    let reader = RunReader::open(&path).unwrap();
    fn all<R>(rows: Result<run::Stream<R>, run::ArchiveError>) -> Vec<R> {
        rows.unwrap().map(Result::unwrap).collect()
    }
    Observations {
        statuses,
        notes: reader.probes().unwrap(),
        statements: all(reader.observed_statements()),
        statistics: all(reader.statement_statistics()),
        windows: all(reader.sample_windows()),
        activity: all(reader.activity()),
        blocking: all(reader.blocking()),
        counters: all(reader.counters()),
        locks: reader.locks().unwrap().count(),
    }
}

impl Observations {
    fn off(&self, probe: &str) -> Option<&str> {
        let status = self.statuses.iter().find(|one| one.probe == probe).unwrap();
        status.off.as_deref()
    }

    fn noted(&self, state: ProbeState) -> Vec<&ProbeNote> {
        let notes = self.notes.iter();
        notes.filter(|note| note.state == state).collect()
    }

    /// Calls, plans, and plan and execution time of a statement.
    fn counted(&self, sql: &str) -> (u64, Option<u64>, u64) {
        let of = fingerprint(sql);
        let rows = self
            .statistics
            .iter()
            .filter(|row| row.fingerprint == Some(of));
        rows.fold((0, None, 0), |(calls, plans, ns), row| {
            let plans = match (plans, row.plans) {
                (before, None) => before,
                (before, Some(more)) => Some(before.unwrap_or(0) + more),
            };
            let took_ns = row.exec_ns + row.plan_ns.unwrap_or(0);
            (calls + row.calls, plans, ns + took_ns)
        })
    }

    /// By how much a counter grew.
    fn gained(&self, source: &str, object: &str, name: &str) -> Option<f64> {
        let of = |one: &&Counter| one.source == source && one.object == object && one.name == name;
        let mut values = self.counters.iter().filter(of).map(|one| one.value);
        let first = values.next()?;
        Some(values.next_back().unwrap_or(first) - first)
    }

    fn samples(&self) -> u64 {
        self.windows.iter().map(|window| window.samples).sum()
    }
}

fn fingerprint(sql: &str) -> Fingerprint {
    Fingerprinter::new().fingerprint(sql)
}

fn client(server: &Server, user: &str) -> Client {
    let url = server.endpoint.url("postgres");
    let mut config: postgres::Config = url.parse().unwrap();
    config.user(user);
    config.connect(postgres::NoTls).unwrap()
}

fn options() -> MonitorOptions {
    MonitorOptions {
        hz: 20,
        custom_query: Some("SELECT count(*) AS waiting, 'orders' AS queue FROM orders;".to_owned()),
        ..MonitorOptions::default()
    }
}

const WAITS: &str = "UPDATE orders SET note = 'waits' WHERE id = 1";
const SIMPLE: &str = "SELECT note FROM orders WHERE id = 7";
const PREPARED: &str = "SELECT customer FROM orders WHERE id = $1";
const LIST: &str = "SELECT note FROM orders WHERE id IN (1, 2, 3)";
const CALLS: u64 = 200;

/// Does what the tests expect to see; returns for how long a statement waited for a lock.
fn work(server: &Server, lock: Duration) -> Duration {
    let mut holder = client(server, "postgres");
    holder.batch_execute("BEGIN").unwrap();
    holder
        .batch_execute("UPDATE orders SET note = 'holds' WHERE id = 1")
        .unwrap();
    let mut waiter = client(server, "postgres");
    let begun = Instant::now();
    let waiting = std::thread::spawn(move || {
        waiter.batch_execute(WAITS).unwrap();
        begun.elapsed()
    });
    let mut busy = client(server, "postgres");
    let prepared = busy.prepare(PREPARED).unwrap();
    for id in 0..CALLS as i64 {
        busy.simple_query(&SIMPLE.replace('7', &id.to_string()))
            .unwrap();
        busy.query(&prepared, &[&id]).unwrap();
    }
    busy.simple_query(LIST).unwrap();
    std::thread::sleep(lock.saturating_sub(begun.elapsed()));
    holder.batch_execute("COMMIT").unwrap();
    let waited = waiting.join().unwrap();
    // What sessions did is counted when they have ended.
    drop((holder, busy));
    let mut clerk = server.client();
    let others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' \
         AND pid <> pg_backend_pid() AND application_name <> 'rehearse observe'";
    while clerk.query_one(others, &[]).unwrap().get::<_, i64>(0) > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    waited
}

/// Observations of a server during [`work`].
struct ObservedWork {
    major: u16,
    seen: Observations,
    /// Duration for which a statement waited for a lock.
    waited: Duration,
    /// Duration of all the work.
    took: Duration,
}

impl ObservedWork {
    fn of_server(major: u16) -> Self {
        let server = Server::with(major, &WITH_STATEMENTS);
        server
            .client()
            .batch_execute("CREATE EXTENSION pg_stat_statements")
            .unwrap();
        let mut waited = Duration::ZERO;
        let mut took = Duration::ZERO;
        let seen = watched(&server, "postgres", &options(), |server| {
            let begun = Instant::now();
            waited = work(server, Duration::from_secs(3));
            took = begun.elapsed();
        });
        ObservedWork {
            major,
            seen,
            waited,
            took,
        }
    }

    fn assert_all_probes_are_on(&self) {
        let statuses = &self.seen.statuses;
        assert!(statuses.iter().all(|one| one.off.is_none()), "{statuses:?}");
        assert_eq!(self.seen.noted(ProbeState::Off), Vec::<&ProbeNote>::new());
        assert_eq!(
            self.seen.noted(ProbeState::Unseen),
            Vec::<&ProbeNote>::new()
        );
    }

    /// Checks that the wait's share of the samples is its share of the time, within three standard errors
    /// of samples that come by chance. Ours come at even distances, and err less.
    fn assert_samples_match_the_wait(&self) {
        let waiting = fingerprint(WAITS);
        let met: u64 = self
            .seen
            .activity
            .iter()
            .filter(|one| one.fingerprint == Some(waiting))
            .filter(|one| one.wait_type.as_deref() == Some("Lock"))
            .map(|one| one.count)
            .sum();
        let samples = self.seen.samples();
        let expected = samples as f64 * self.waited.as_secs_f64() / self.took.as_secs_f64();
        let error = 3.0 * expected.sqrt() + 3.0;
        assert!(
            (met as f64 - expected).abs() <= error,
            "{met} samples of {samples}, and {expected} expected"
        );
        assert!(met > 10, "{met} of {samples}");
    }

    fn assert_blocking_names_the_holder(&self) {
        let waiting = fingerprint(WAITS);
        let blocked: Vec<&Blocking> = self
            .seen
            .blocking
            .iter()
            .filter(|one| one.blocked == Some(waiting))
            .collect();
        assert!(!blocked.is_empty());
        for one in &blocked {
            assert_eq!(one.blocker_state, "idle in transaction");
            let holds = "UPDATE orders SET note = 'holds' WHERE id = 1";
            assert_eq!(one.blocker, Some(fingerprint(holds)));
            assert_eq!(one.wait, "transactionid");
        }
        assert!(self.seen.locks > 0);
    }

    /// Checks that each text of a simple query is planned, and a prepared statement five times for its
    /// values and once for all.
    fn assert_calls_and_plans_are_counted(&self) {
        let (major, seen) = (self.major, &self.seen);
        let (calls, plans, took_ns) = seen.counted(SIMPLE);
        assert_eq!((calls, plans), (CALLS, Some(CALLS)), "PostgreSQL {major}");
        assert!(took_ns > 0);
        let (calls, plans, _) = seen.counted(PREPARED);
        assert_eq!(calls, CALLS);
        assert!((1..=7).contains(&plans.unwrap()), "{plans:?}");
        assert_eq!(seen.counted(LIST).0, 1, "PostgreSQL {major}");
    }

    fn assert_own_statements_are_left_out(&self) {
        for one in &self.seen.statements {
            assert!(!one.sql.contains("rehearse"), "{}", one.sql);
            assert!(!one.sql.contains("pg_stat_get_activity"), "{}", one.sql);
        }
        let ours = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks";
        assert_eq!(self.seen.counted(ours).0, 0);
    }

    fn assert_counters_grew_with_the_load(&self) {
        let (major, seen) = (self.major, &self.seen);
        assert!(
            seen.gained("pg_stat_database", "postgres", "xact_commit")
                .unwrap()
                >= 2.0 * CALLS as f64
        );
        let scans = seen.gained(
            "pg_stat_user_indexes",
            "public.orders_pkey on orders",
            "idx_scan",
        );
        assert!(scans.unwrap() >= 2.0 * CALLS as f64, "PostgreSQL {major}");
        // The sandbox is on this machine.
        assert!(seen.gained("server", "", "user_seconds").is_some());
        assert!(seen.gained("cpu", "", "idle").is_some());
    }

    fn assert_views_are_those_of_the_version(&self) {
        let major = self.major;
        for (view, since) in [
            ("pg_stat_bgwriter", 10),
            ("pg_stat_wal", 14),
            ("pg_stat_io", 16),
            ("pg_stat_checkpointer", 17),
        ] {
            let is_there = self.seen.counters.iter().any(|one| one.source == view);
            assert_eq!(is_there, major >= since, "{view} in PostgreSQL {major}");
        }
    }

    fn assert_custom_query_is_counted(&self) {
        let queue = self.seen.counters.iter().find(|one| one.source == "queue");
        let queue = queue.unwrap();
        assert_eq!(
            (&*queue.object, &*queue.name, queue.value),
            ("orders", "waiting", 5_000.0)
        );
    }

    fn assert_all_probes_ended_without_failure(&self) {
        let ended = self.seen.noted(ProbeState::Ended);
        assert_eq!(ended.len(), self.seen.statuses.len());
        assert!(
            ended.iter().all(|note| note.failures == Some(0)),
            "{ended:?}"
        );
    }
}

#[test]
fn observations_match_the_load() {
    for &major in test_support::versions(&[13, 18]) {
        let observed = ObservedWork::of_server(major);
        observed.assert_all_probes_are_on();
        observed.assert_samples_match_the_wait();
        observed.assert_blocking_names_the_holder();
        observed.assert_calls_and_plans_are_counted();
        observed.assert_own_statements_are_left_out();
        observed.assert_counters_grew_with_the_load();
        observed.assert_views_are_those_of_the_version();
        observed.assert_custom_query_is_counted();
        observed.assert_all_probes_ended_without_failure();
    }
}

#[test]
fn statements_within_others_that_count_twice_are_said() {
    let track = ("pg_stat_statements.track", "all");
    let server = Server::with(15, &[WITH_STATEMENTS[0], track]);
    let said = |change: &str| {
        server.client().batch_execute(change).unwrap();
        let seen = watched(&server, "postgres", &MonitorOptions::default(), |server| {
            work(server, Duration::from_millis(100));
        });
        let notes = seen.noted(ProbeState::Unseen);
        notes.iter().any(|note| note.text.contains("twice"))
    };
    // As PostgreSQL 13 has it.
    assert!(said("CREATE EXTENSION pg_stat_statements VERSION '1.8'"));
    assert!(!said("ALTER EXTENSION pg_stat_statements UPDATE"));
}

/// Statement that is compiled and planned with workers if its session wants both at any cost.
const COMPILED: &str = "SELECT sum(n * 2) FROM many WHERE n % 7 = 3";

#[test]
fn compilation_and_parallel_workers_are_counted_from_their_versions() {
    for &major in test_support::versions(&[13, 15, 18]) {
        let server = Server::with(major, &WITH_STATEMENTS[..1]);
        let mut client = server.client();
        client
            .batch_execute(
                "CREATE EXTENSION pg_stat_statements;
                 CREATE TABLE many AS SELECT generate_series(1, 100000) AS n; ANALYZE many",
            )
            .unwrap();
        let rows = client
            .query("SELECT pg_catalog.pg_jit_available()", &[])
            .unwrap();
        let can_compile: bool = rows[0].get(0);
        let seen = watched(&server, "postgres", &MonitorOptions::default(), |server| {
            let wanted = "SET jit = on; SET jit_above_cost = 0; SET parallel_setup_cost = 0;
                 SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
                 SET max_parallel_workers_per_gather = 2";
            let mut client = server.client();
            client.batch_execute(wanted).unwrap();
            client.query(COMPILED, &[]).unwrap();
        });
        let of = fingerprint(COMPILED);
        let row = seen
            .statistics
            .iter()
            .find(|row| row.fingerprint == Some(of));
        let row = row.unwrap_or_else(|| panic!("{major}: it was not counted"));
        let compiled = (row.jit_functions, row.jit_ns);
        match (major >= 15, can_compile) {
            (false, _) => assert_eq!(compiled, (None, None), "{major}"),
            (true, false) => assert_eq!(compiled, (Some(0), Some(0)), "{major}"),
            (true, true) => assert!(compiled > (Some(0), Some(0)), "{major}: {compiled:?}"),
        }
        let planned = (major >= 18).then_some(2);
        assert_eq!(row.workers_planned, planned, "{major}");
        assert_eq!(row.workers_launched, planned, "{major}");
    }
}

#[test]
fn hidden_data_of_a_role_is_noted() {
    // track_planning is off where nobody turns it on.
    let server = Server::with(15, &WITH_STATEMENTS[..1]);
    server
        .client()
        .batch_execute(
            "CREATE EXTENSION pg_stat_statements; CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher",
        )
        .unwrap();
    let options = MonitorOptions::default();
    let once = |user: &str| {
        watched(&server, user, &options, |server| {
            work(server, Duration::from_millis(500));
        })
    };
    let plain = once("nobody");
    let unseen = |seen: &Observations, probe: &str, remedy: &str| {
        let notes = seen.noted(ProbeState::Unseen);
        let note = notes
            .iter()
            .find(|note| note.probe == probe && note.remedy.as_deref() == Some(remedy));
        note.map(|note| note.count.unwrap_or(0))
    };
    let others = unseen(&plain, "activity", "GRANT pg_monitor TO nobody");
    assert!(others.unwrap() > 0);
    let hidden = unseen(&plain, "statements", "GRANT pg_read_all_stats TO nobody");
    assert!(hidden.unwrap() > 0);
    // How much it was is counted, and not which.
    assert_eq!(plain.counted(SIMPLE).0, 0);
    let calls: u64 = plain
        .statistics
        .iter()
        .filter(|row| row.fingerprint.is_none())
        .map(|row| row.calls)
        .sum();
    assert!(calls >= 2 * CALLS, "{calls}");
    assert!(plain.samples() > 0);
    assert!(
        !plain
            .activity
            .iter()
            .any(|one| one.fingerprint == Some(fingerprint(WAITS)))
    );

    for user in ["watcher", "postgres"] {
        let seen = once(user);
        let about: Vec<&str> = seen
            .noted(ProbeState::Unseen)
            .iter()
            .map(|note| note.text.as_str())
            .collect();
        assert_eq!(about.len(), 1, "{user}: {about:?}");
        assert!(about[0].contains("track_planning is off"), "{}", about[0]);
        // Nobody counted how often it was planned: that is not none.
        let (calls, plans, _) = seen.counted(SIMPLE);
        assert_eq!((calls, plans), (CALLS, None));
        // A role of no privileges cannot hide its questions; they are left out here.
        assert!(
            !seen
                .statements
                .iter()
                .any(|one| one.sql.contains("rehearse"))
        );
        let planning = seen
            .notes
            .iter()
            .find(|note| note.probe.ends_with("track_planning"));
        let planning = planning.unwrap();
        assert_eq!(planning.state, ProbeState::Changeable);
        let by = match user {
            "postgres" => "by this role, with SET or ALTER ROLE … SET",
            _ => "by who runs the server",
        };
        let by_system = "by this role, with ALTER SYSTEM";
        let remedy = planning.remedy.as_deref().unwrap();
        assert!([by, by_system].contains(&remedy), "{user}: {remedy}");
    }
}

#[test]
fn extension_that_a_role_may_not_use_is_named_with_the_grants() {
    let server = Server::with(15, &WITH_STATEMENTS[..1]);
    let setup =
        "CREATE SCHEMA \"of the DBA\"; CREATE EXTENSION pg_stat_statements SCHEMA \"of the DBA\"";
    server.client().batch_execute(setup).unwrap();
    let revoke =
        "REVOKE EXECUTE ON FUNCTION \"of the DBA\".pg_stat_statements(boolean) FROM public";
    server.client().batch_execute(revoke).unwrap();
    let once = || watched(&server, "nobody", &MonitorOptions::default(), |_| ());
    let seen = once();
    let off = seen.off("statements").unwrap();
    assert!(
        off.ends_with(r#"may not use its schema "of the DBA" or call its function"#),
        "{off}"
    );
    let notes = seen.noted(ProbeState::Off);
    let remedy = notes
        .iter()
        .find(|note| note.probe == "statements")
        .and_then(|note| note.remedy.clone());
    server.client().batch_execute(&remedy.unwrap()).unwrap();
    assert_eq!(once().off("statements"), None);
}

#[test]
fn a_probe_that_is_lost_comes_back_and_one_that_cannot_work_says_why() {
    let server = Server::start(15);
    let mut clerk = server.client();
    let seen = watched(
        &server,
        "postgres",
        &MonitorOptions {
            hz: 50,
            custom_query: Some("DELETE FROM orders".to_owned()),
            ..MonitorOptions::default()
        },
        |_| {
            std::thread::sleep(Duration::from_millis(500));
            let ended = clerk
                .query_one(
                    "SELECT count(*) FROM pg_stat_activity WHERE CASE WHEN application_name = 'rehearse observe' THEN pg_terminate_backend(pid) END",
                    &[],
                )
                .unwrap()
                .get::<_, i64>(0);
            assert!(ended >= 2);
            std::thread::sleep(Duration::from_secs(4));
        },
    );
    assert_eq!(
        seen.off("statements"),
        Some(
            "the extension pg_stat_statements is not loaded, and not created in the database postgres"
        )
    );
    let refused = seen.off("queue").unwrap();
    assert!(
        refused.starts_with("the server does not take the query: syntax error"),
        "{refused}"
    );
    assert_eq!(
        clerk
            .query_one("SELECT count(*) FROM orders", &[])
            .unwrap()
            .get::<_, i64>(0),
        5_000
    );
    assert_eq!(seen.off("activity"), None);
    let lost = seen.noted(ProbeState::Lost);
    let back = seen.noted(ProbeState::Back);
    assert!(lost.len() >= 2, "{:?}", seen.notes);
    assert_eq!(lost.len(), back.len());
    let back_ns = back.iter().map(|note| note.at_ns).max().unwrap();
    let later: u64 = seen
        .windows
        .iter()
        .filter(|window| window.at_ns > back_ns)
        .map(|window| window.samples)
        .sum();
    assert!(later > 0, "{:?}", seen.windows);
}
