use workload::Sqlstate;

use super::super::entry::{SessionIdentity, SessionNames};
use super::*;
use crate::reconcile::Location;

pub(in super::super) fn entry(severity: Severity, message: &str) -> Entry<'_> {
    Entry {
        wall_us: 5,
        pid: 4_711,
        started: 0,
        line_number: 0,
        backend: Backend::Client,
        who: SessionIdentity::Named(SessionNames::default()),
        severity,
        sqlstate: None,
        message,
        detail: "",
        context: "",
        statement: "",
        transaction: 0,
        positioned: false,
        cut: false,
        place: Location { source: 1, line: 9 },
        lines: 1,
    }
}

fn of(user: &str) -> SessionIdentity<'_> {
    SessionIdentity::Named(SessionNames {
        user,
        ..SessionNames::default()
    })
}

#[track_caller]
fn logged(message: &str) -> ServerEvent {
    parse(&entry(Severity::Log, message)).unwrap_or_else(|| panic!("{message}"))
}

#[test]
fn temporary_files() {
    let mut of_a_session = entry(
        Severity::Log,
        "temporary file: path \"base/pgsql_tmp/pgsql_tmp21720.0.fileset/0.0\", size 1384448",
    );
    of_a_session.who = of("app");
    of_a_session.statement = "create index on big(id)";
    let event = parse(&of_a_session).unwrap();
    assert_eq!(event.kind, Kind::TemporaryFile);
    assert_eq!(event.bytes, Some(1_384_448));
    assert_eq!(
        event.subject.as_deref(),
        Some("base/pgsql_tmp/pgsql_tmp21720.0.fileset/0.0")
    );
    assert_eq!(event.sql.as_deref(), Some("create index on big(id)"));
    assert_eq!((event.source, event.line), (1, 9));
    assert_eq!(parse(&entry(Severity::Log, "temporary file: what?")), None);
}

#[test]
fn lock_waits() {
    for (message, kind, subject, us) in [
        (
            "process 21764 still waiting for ShareLock on transaction 769 after 100.066 ms",
            Kind::LockWait,
            "ShareLock on transaction 769",
            100_066,
        ),
        // stderr writes the position in the statement after it.
        (
            "process 8 still waiting for AccessShareLock on relation 16396 of database 16388 after 1000.085 ms at character 22",
            Kind::LockWait,
            "AccessShareLock on relation 16396 of database 16388",
            1_000_085,
        ),
        (
            "process 8 acquired AccessExclusiveLock on relation 16396 of database 16388 after 118.737 ms",
            Kind::LockAcquired,
            "AccessExclusiveLock on relation 16396 of database 16388",
            118_737,
        ),
        (
            "process 8 failed to acquire ExclusiveLock on advisory lock [16388,0,1,1] after 5.000 ms",
            Kind::LockFailed,
            "ExclusiveLock on advisory lock [16388,0,1,1]",
            5_000,
        ),
        (
            "process 8 detected deadlock while waiting for ShareLock on transaction 774 after 101.000 ms",
            Kind::LockFailed,
            "ShareLock on transaction 774",
            101_000,
        ),
        (
            "process 8 avoided deadlock for ShareLock on tuple (0,1) of relation 2 of database 3 by rearranging queue order after 1000.012 ms",
            Kind::LockWait,
            "ShareLock on tuple (0,1) of relation 2 of database 3",
            1_000_012,
        ),
    ] {
        let mut entry = entry(Severity::Log, message);
        entry.detail = "Processes holding the lock: 12, 34. Wait queue: 8.";
        let event = parse(&entry).unwrap();
        assert_eq!((event.kind, event.duration_us), (kind, Some(us)));
        assert_eq!(event.subject.as_deref(), Some(subject));
        assert_eq!(event.holders.as_deref(), Some("12, 34"));
        assert!(event.pid == Some(8) || event.pid == Some(21_764));
    }
    for raised in [
        "process 8 is bored",
        "process 8 acquired the ticket of Jane after 3.000 ms",
        "process 8 acquired Jane on call after 3.000 ms",
    ] {
        assert_eq!(parse(&entry(Severity::Log, raised)), None);
    }
}

/// 10 to 14, 15 to 17 (with LSNs), 18 (with SLRU buffers), 19 (with the cause), and a standby's.
#[test]
fn checkpoints() {
    for (message, restart) in [
        (
            "checkpoint complete: wrote 758 buffers (37.0%); 0 WAL file(s) added, 1 removed, 0 recycled; write=0.315 s, sync=0.839 s, total=1.188 s; sync files=314, longest=0.015 s, average=0.003 s; distance=20 kB, estimate=30 kB",
            false,
        ),
        (
            "checkpoint complete: wrote 758 buffers (37.0%); 0 WAL file(s) added, 1 removed, 0 recycled; write=0.315 s, sync=0.839 s, total=1.188 s; sync files=314, longest=0.015 s, average=0.003 s; distance=20 kB, estimate=30 kB; lsn=0/1, redo lsn=0/2",
            false,
        ),
        (
            "checkpoint complete: wrote 758 buffers (37.0%), wrote 1 SLRU buffers; 0 WAL file(s) added, 1 removed, 0 recycled; write=0.315 s, sync=0.839 s, total=1.188 s; sync files=314, longest=0.015 s, average=0.003 s; distance=20 kB, estimate=30 kB; lsn=0/1, redo lsn=0/2",
            false,
        ),
        (
            "checkpoint complete: fast force wait: wrote 758 buffers (37.0%), wrote 1 SLRU buffers; 0 WAL file(s) added, 1 removed, 0 recycled; write=0.315 s, sync=0.839 s, total=1.188 s; sync files=314, longest=0.015 s, average=0.003 s; distance=20 kB, estimate=30 kB; lsn=0/1, redo lsn=0/2",
            false,
        ),
        (
            "restartpoint complete: wrote 758 buffers (37.0%); 0 WAL file(s) added, 1 removed, 0 recycled; write=0.315 s, sync=0.839 s, total=1.188 s; sync files=314, longest=0.015 s, average=0.003 s; distance=20 kB, estimate=30 kB",
            true,
        ),
    ] {
        let event = logged(message);
        assert_eq!(event.kind, Kind::Checkpoint, "{message}");
        assert_eq!(event.subject.as_deref(), restart.then_some("restartpoint"));
        assert_eq!(event.buffers, Some(758));
        assert_eq!(event.write_us, Some(315_000));
        assert_eq!(event.sync_us, Some(839_000));
        assert_eq!(event.duration_us, Some(1_188_000));
        assert_eq!(event.bytes, Some(20 * 1024));
    }
    for (message, cause) in [
        ("checkpoint starting: time", "time"),
        (
            "checkpoint starting: immediate force wait flush-all",
            "immediate force wait flush-all",
        ),
        ("restartpoint starting: time", "restartpoint time"),
    ] {
        let event = logged(message);
        assert_eq!(event.kind, Kind::CheckpointStarting);
        assert_eq!(event.subject.as_deref(), Some(cause));
    }
    for message in [
        "checkpoints are occurring too frequently (1 second apart)",
        "checkpoints are occurring too frequently (1 seconds apart)",
    ] {
        let event = logged(message);
        assert_eq!(event.kind, Kind::CheckpointsTooFrequent);
        assert_eq!(event.duration_us, Some(1_000_000));
    }
}

#[test]
fn autovacuum_of_every_version() {
    let numbers = "index scans: 1\n\
        pages: 0 removed, 2590 remain, 2590 scanned (100.00% of total)\n\
        tuples: 7 removed, 150070 remain, 70 are dead but not yet removable, oldest xmin: 5\n\
        buffer usage: 3271 hits, 1952 misses, 1960 dirtied\n\
        system usage: CPU: user: 0.06 s, system: 0.08 s, elapsed: 9.17 s";
    for what in [
        "vacuum",
        "aggressive vacuum",
        "vacuum to prevent wraparound",
        "aggressive vacuum to prevent wraparound",
    ] {
        let message = format!("automatic {what} of table \"shop.public.a \"b\": {numbers}");
        let event = logged(&message);
        assert_eq!(event.kind, Kind::Autovacuum);
        assert_eq!(event.subject.as_deref(), Some("shop.public.a \"b"));
        assert_eq!(event.duration_us, Some(9_170_000));
        assert_eq!(event.index_scans, Some(1));
        assert_eq!(event.tuples_removed, Some(7));
        assert_eq!(event.tuples_remain, Some(150_070));
        assert_eq!(event.tuples_dead, Some(70));
    }
    for message in [
        // Up to 13.
        "automatic analyze of table \"shop.public.t\" system usage: CPU: user: 0.10 s, system: 0.00 s, elapsed: 0.25 s",
        // From 14 on.
        "automatic analyze of table \"shop.public.t\"\navg read rate: 1.000 MB/s, avg write rate: 0.000 MB/s\nbuffer usage: 1 hits, 2 misses, 0 dirtied\nsystem usage: CPU: user: 0.10 s, system: 0.00 s, elapsed: 0.25 s",
    ] {
        let event = logged(message);
        assert_eq!(event.kind, Kind::Autoanalyze);
        assert_eq!(event.subject.as_deref(), Some("shop.public.t"));
        assert_eq!(event.duration_us, Some(250_000));
        assert_eq!(event.tuples_removed, None);
    }
    let skipped = logged("skipping vacuum of \"t\" --- lock not available");
    assert_eq!(skipped.kind, Kind::AutovacuumSkipped);
    let mut cancelled = entry(Severity::Error, "canceling autovacuum task");
    // From 13 on the phase stands before it.
    cancelled.context = "while scanning block 7 of relation \"public.big\"\nautomatic vacuum of table \"shop.public.big\"";
    let cancelled = parse(&cancelled).unwrap();
    assert_eq!(cancelled.kind, Kind::AutovacuumCancelled);
    assert_eq!(cancelled.subject.as_deref(), Some("shop.public.big"));
}

#[test]
fn errors_are_told_by_code_or_by_words() {
    for (message, code, kind) in [
        ("deadlock detected", "40P01", Kind::Deadlock),
        ("out of shared memory", "53200", Kind::OutOfMemory),
        ("out of memory", "53200", Kind::OutOfMemory),
        (
            "sorry, too many clients already",
            "53300",
            Kind::TooManyConnections,
        ),
        (
            "remaining connection slots are reserved for roles with the SUPERUSER attribute",
            "53300",
            Kind::TooManyConnections,
        ),
        (
            "remaining connection slots are reserved for non-replication superuser connections",
            "53300",
            Kind::TooManyConnections,
        ),
        (
            "too many connections for role \"app\"",
            "53300",
            Kind::TooManyConnections,
        ),
        (
            "could not extend file \"base/1/2\": No space left on device",
            "53100",
            Kind::DiskFull,
        ),
        (
            "canceling statement due to conflict with recovery",
            "40001",
            Kind::RecoveryConflict,
        ),
        (
            "terminating connection due to conflict with recovery",
            "40001",
            Kind::RecoveryConflict,
        ),
    ] {
        let mut entry = entry(Severity::Error, message);
        assert_eq!(parse(&entry).unwrap().kind, kind, "{message}");
        entry.sqlstate = Sqlstate::parse(code);
        assert_eq!(parse(&entry).unwrap().kind, kind, "{message}");
    }
    let mut raised = entry(Severity::Error, "out of memory");
    raised.sqlstate = Sqlstate::parse("P0001");
    assert_eq!(parse(&raised), None);
    let usual = entry(Severity::Error, "relation \"x\" does not exist");
    assert_eq!(parse(&usual), None);
}

#[test]
fn coming_and_going_of_every_version() {
    for (message, kind) in [
        (
            "server process (PID 77) was terminated by signal 9: Killed",
            Kind::Crash,
        ),
        (
            "client backend (PID 77) was terminated by signal 11: Segmentation fault",
            Kind::Crash,
        ),
        (
            "autovacuum worker (PID 5) was terminated by signal 6: Aborted",
            Kind::Crash,
        ),
        (
            "server process (PID 77) exited with exit code 2",
            Kind::Crash,
        ),
        (
            "all server processes terminated; reinitializing",
            Kind::Recovery,
        ),
        (
            "database system was interrupted; last known up at 2026-11-21 07:21:05 UTC",
            Kind::Recovery,
        ),
        (
            "database system was not properly shut down; automatic recovery in progress",
            Kind::Recovery,
        ),
        (
            "starting PostgreSQL 18.6 on x86_64-pc-linux-gnu",
            Kind::Starting,
        ),
        (
            "database system is ready to accept connections",
            Kind::Ready,
        ),
        // Up to 13.
        (
            "database system is ready to accept read only connections",
            Kind::Ready,
        ),
        ("received fast shutdown request", Kind::Stopping),
        ("database system is shut down", Kind::Stopped),
        (
            "received SIGHUP, reloading configuration files",
            Kind::Reload,
        ),
        (
            "archive command failed with exit code 1",
            Kind::ArchivingFailed,
        ),
    ] {
        assert_eq!(logged(message).kind, kind, "{message}");
        // The same words of a statement's own RAISE.
        let mut forged = entry(Severity::Log, message);
        forged.context = "PL/pgSQL function inline_code_block line 1 at RAISE";
        assert_eq!(parse(&forged), None, "{message}");
        let mut of_a_user = entry(Severity::Log, message);
        of_a_user.who = of("app");
        assert_eq!(parse(&of_a_user), None, "{message}");
    }
    let warning = "archiving write-ahead log file \"000000010000000000000001\" failed too many times, will try again later";
    let event = parse(&entry(Severity::Notice, warning)).unwrap();
    assert_eq!(event.kind, Kind::ArchivingFailed);
    for nothing in [
        "redo starts at 0/100287B8",
        "listening on IPv4 address \"127.0.0.1\", port 5432",
        "database system was shut down at 2026-11-21 07:20:00 UTC",
    ] {
        assert_eq!(parse(&entry(Severity::Log, nothing)), None, "{nothing}");
    }
}

/// From 14 on, with log_recovery_conflict_waits.
#[test]
fn a_standby_that_waits() {
    for message in [
        "recovery still waiting after 1234.500 ms: recovery conflict on lock",
        "recovery finished waiting after 1234.500 ms: recovery conflict on lock",
    ] {
        let event = logged(message);
        assert_eq!(event.kind, Kind::RecoveryConflict);
        assert_eq!(event.subject.as_deref(), Some("lock"));
        assert_eq!(event.duration_us, Some(1_234_500));
    }
}
