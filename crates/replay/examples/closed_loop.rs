//! Measures client CPU per statement, to be compared with pgbench in the same mode.
//!
//! ```text
//! pgbench -i -s 10 URL
//! cargo run --release -p replay --example closed_loop -- URL simple|extended|prepared SESSIONS STATEMENTS [WORKLOAD]
//! pgbench -n -S -M simple|extended|prepared -c SESSIONS -t … URL     # /usr/bin/time for its CPU
//! ```
//!
//! Creates a workload of the statement of `pgbench -S` and replays it at full speed. It prints statements per
//! second and this process's CPU time per statement: dispatching, encoding, sending, reading and recording.
//! If WORKLOAD is given, the first call creates and keeps it, and later calls replay it. Then `perf stat` can
//! measure the whole process without the creation of the workload.

use std::path::Path;
use std::sync::Arc;

use clock::{Clock, Speed, SystemClock};
use replay::{Observer, Options, Snapshot, Target, check_target};
use workload::{
    Event, EventKind, NoRedaction, Outcome, Provenance, Session, WorkloadReader, WorkloadWriter,
    WriterOptions,
};

struct Unwatched;
impl Observer for Unwatched {
    fn on_progress(&mut self, _: &Snapshot) {}
    fn should_stop(&mut self) -> bool {
        false
    }
}

fn cpu_us() -> i64 {
    // SAFETY: the structure is plain and filled in by the call.
    let usage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
    us(usage.ru_utime) + us(usage.ru_stime)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, mode, sessions, statements, kept @ ..] = arguments.as_slice() else {
        return Err(
            "give URL, simple|extended|prepared, SESSIONS, STATEMENTS, and a WORKLOAD to keep"
                .into(),
        );
    };
    let (sessions, statements): (u64, u64) = (sessions.parse()?, statements.parse()?);
    let target = Target::parse(url, |name| std::env::var(name).ok())?;
    let directory = tempfile::tempdir()?;
    let path = match kept.first() {
        Some(kept) => kept.into(),
        None => directory.path().join("closed_loop.workload"),
    };
    if !path.exists() {
        make(&path, &target, mode, sessions, statements)?;
        if !kept.is_empty() {
            return Ok(());
        }
    }
    let reader = WorkloadReader::open(&path)?;
    let options = Options {
        speed: Speed::Max,
        ..Options::default()
    };
    let info = check_target(&reader, &target, &options.logins)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let before_us = cpu_us();
    let run = replay::replay(
        &reader,
        &target,
        info,
        &options,
        &directory.path().join("closed_loop.run"),
        &clock,
        &mut Unwatched,
    )?;
    let cpu = (cpu_us() - before_us) as f64 / run.statements as f64;
    let rate = run.done as f64 / (run.elapsed_ns as f64 / 1e9);
    println!(
        "{mode}, {sessions} sessions: {} done of {}, {rate:.0} statements/s, {cpu:.2} µs of CPU each",
        run.done, run.statements
    );
    Ok(())
}

/// `pgbench -S`'s statements, turn by turn of the sessions.
fn make(
    path: &Path,
    target: &Target,
    mode: &str,
    sessions: u64,
    statements: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut writer = WorkloadWriter::create(path, WriterOptions::default(), NoRedaction)?;
    let mut event = |session, sequence, due_us, kind| {
        let event = Event {
            session,
            sequence,
            due_us,
            kind,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: None,
        };
        writer.event(&event.borrowed())
    };
    let database: Arc<str> = target.database.as_deref().unwrap_or("postgres").into();
    let user: Arc<str> = target.user.as_deref().unwrap_or("postgres").into();
    for session in 0..sessions {
        let kind = EventKind::Connect {
            database: database.clone(),
            user: user.clone(),
            application: "".into(),
        };
        event(session, 0, 0, kind)?;
    }
    let sql: Arc<str> = "SELECT abalance FROM pgbench_accounts WHERE aid = $1;".into();
    let name: Arc<str> = if mode == "prepared" { "P_0" } else { "" }.into();
    for n in 0..statements {
        let account = (n * 7_919 % 100_000 + 1).to_string();
        let kind = match mode {
            "simple" => EventKind::Simple {
                sql: sql.replace("$1", &account).into(),
            },
            _ => EventKind::Execute {
                statement: name.clone(),
                portal: "".into(),
                sql: sql.clone(),
                parameters: vec![Some(account.into())],
            },
        };
        event(n % sessions, n / sessions + 1, 1 + n as i64, kind)?;
    }
    for id in 0..sessions {
        writer.session(Session {
            id,
            database: database.clone(),
            user: user.clone(),
            application: "".into(),
            client: "".into(),
            start_us: 0,
            end_us: statements as i64,
            start_seen: true,
            end_seen: false,
            statements: statements / sessions,
        })?;
    }
    writer.finish(Provenance::default())?;
    Ok(())
}
