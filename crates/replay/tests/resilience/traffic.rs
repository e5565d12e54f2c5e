//! Synthetic traffic, as a workload that is replayed against a private server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, SystemClock};
use replay::{Observer, Options, Snapshot, Target};
use run::{Execution, Outcome, RunInfo, RunReader, SkipReason, StatementKind};
use sandbox::{Endpoint, Sandbox};
use workload::{
    Event, EventKind, NoRedaction, Provenance, Session, WorkloadReader, WorkloadWriter,
    WriterOptions,
};

const START_US: i64 = 1_700_000_000_000_000;

/// Starts a private server.
pub fn server(settings: &[(&str, &str)]) -> (Sandbox, Endpoint) {
    test_support::server()
        .password("traffic")
        .settings(settings)
        .start()
}

/// Observer that calls a function with each progress snapshot, about ten times a second.
struct Callback<F: FnMut(&Snapshot)> {
    call: F,
    stop_after: Duration,
    elapsed: Duration,
}

impl<F: FnMut(&Snapshot)> Observer for Callback<F> {
    fn on_progress(&mut self, snapshot: &Snapshot) {
        self.elapsed = elapsed(snapshot);
        (self.call)(snapshot);
    }

    fn should_stop(&mut self) -> bool {
        self.elapsed > self.stop_after
    }
}

/// Returns the time since the replay's start.
pub fn elapsed(snapshot: &Snapshot) -> Duration {
    Duration::from_nanos(snapshot.elapsed_ns.max(0) as u64)
}

/// Whether a replay has lasted for `since`, all `sessions` are connected, and two statements of each are
/// done. The latter takes longer on a slow machine.
pub fn are_at_work(sessions: u64, since: Duration, snapshot: &Snapshot) -> bool {
    elapsed(snapshot) > since && snapshot.sessions_open == sessions && snapshot.done >= 2 * sessions
}

/// Events of sessions, in time order.
pub struct Traffic {
    directory: tempfile::TempDir,
    server: String,
    events: Vec<Event>,
}

impl Traffic {
    pub fn new(server: &Endpoint) -> Self {
        Traffic {
            directory: tempfile::tempdir().unwrap(),
            server: server.url("postgres"),
            events: Vec::new(),
        }
    }

    /// Sends the traffic to another port, with TLS.
    pub fn with_tls_by(mut self, port: u16) -> Self {
        let (before, database) = self.server.rsplit_once('/').unwrap();
        let (host, _) = before.rsplit_once(':').unwrap();
        self.server = format!("{host}:{port}/{database}?sslmode=require");
        self
    }

    pub fn at(&mut self, due_ms: i64, session: u64, kind: EventKind) -> &mut Event {
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

    /// Returns the event that was added last.
    pub fn last(&mut self) -> &mut Event {
        self.events.last_mut().unwrap()
    }

    pub fn connect(&mut self, due_ms: i64, session: u64) {
        let kind = EventKind::Connect {
            database: "postgres".into(),
            user: "postgres".into(),
            application: "traffic".into(),
        };
        self.at(due_ms, session, kind);
    }

    pub fn simple(&mut self, due_ms: i64, session: u64, sql: &str) {
        self.at(due_ms, session, EventKind::Simple { sql: sql.into() });
    }

    pub fn execute(
        &mut self,
        due_ms: i64,
        session: u64,
        name: &str,
        sql: &str,
        value: &str,
    ) -> &mut Event {
        let kind = EventKind::Execute {
            statement: name.into(),
            portal: "".into(),
            sql: sql.into(),
            parameters: vec![Some(value.into())],
        };
        self.at(due_ms, session, kind)
    }

    pub fn disconnect(&mut self, due_ms: i64, session: u64) {
        self.at(due_ms, session, EventKind::Disconnect);
    }

    pub fn workload(&mut self) -> WorkloadReader {
        let path = self.path("traffic.workload");
        let _ = std::fs::remove_dir_all(&path);
        self.events.sort_by_key(|event| event.due_us);
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
                    application: "traffic".into(),
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
        WorkloadReader::open(&path).unwrap()
    }

    /// Replays, and calls `observe` with each snapshot. Checks that the run's rows and its manifest account
    /// for every statement, and that the statements of a session are in order.
    pub fn replay(
        &mut self,
        options: &Options,
        observe: impl FnMut(&Snapshot),
    ) -> (RunInfo, Vec<Execution>) {
        self.replay_as("traffic.run", options, Duration::MAX, observe)
    }

    /// Returns the path of a file in the test's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Replays into a run of this name, and stops after a while.
    pub fn replay_as(
        &mut self,
        run: &str,
        options: &Options,
        stop_after: Duration,
        call: impl FnMut(&Snapshot),
    ) -> (RunInfo, Vec<Execution>) {
        let reader = self.workload();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let target = Target::parse(&self.server, |_| None).unwrap();
        let target_info = replay::check_target(
            &reader,
            &options.target_with_settings(&target),
            &options.logins,
        )
        .unwrap();
        let run = self.path(run);
        let _ = std::fs::remove_dir_all(&run);
        let mut observer = Callback {
            call,
            stop_after,
            elapsed: Duration::ZERO,
        };
        let info = replay::replay(
            &reader,
            &target,
            target_info,
            options,
            &run,
            &clock,
            &mut observer,
        )
        .unwrap();
        let failed: u64 = info.failed.values().sum();
        let skipped: u64 = info.skipped.values().sum();
        assert_eq!(info.statements, info.done + failed + skipped, "{info:?}");
        assert_eq!(info.statements, reader.info().statements, "{info:?}");
        let executions = RunReader::open(&run).unwrap().executions().unwrap();
        let executions: Vec<Execution> = executions.collect::<Result<_, _>>().unwrap();
        let mut next = std::collections::HashMap::new();
        // A cancel is done while what it cancels still runs, and a stop drops what waits while what
        // is in flight may end.
        let in_order = |execution: &&Execution| {
            execution.kind != StatementKind::Cancel
                && execution.outcome != Outcome::Skipped(SkipReason::Stopped)
        };
        for execution in executions.iter().filter(in_order) {
            let next: &mut u64 = next.entry(execution.session).or_default();
            assert!(execution.sequence >= *next, "{execution:?}");
            *next = execution.sequence + 1;
        }
        (info, executions)
    }
}

/// Returns the executions of statements.
pub fn statements(executions: &[Execution]) -> Vec<&Execution> {
    let is_statement = |execution: &&Execution| execution.is_statement();
    executions.iter().filter(is_statement).collect()
}
