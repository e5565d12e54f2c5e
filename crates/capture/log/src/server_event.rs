//! Parses the server's own log lines into [`ServerEvent`]s, for the messages of PostgreSQL 10 to
//! 18.
//!
//! It runs only for entries that are no client statement, so it need not be fast. Sources of the
//! message texts in PostgreSQL's tree: `fd.c` (temporary files), `proc.c` (lock waits; named
//! `storage/lmgr`), `deadlock.c`, `xlog.c` and `checkpointer.c` (checkpoints), `vacuumlazy.c` and
//! `analyze.c` (autovacuum), `standby.c` and `postgres.c` (recovery conflicts), `postmaster.c`
//! (crashes, startup and shutdown), `pgarch.c` (archiving).

use workload::{ServerEvent, ServerEventKind};

use super::entry::{Backend, Entry};
use super::severity::Severity;

use ServerEventKind as Kind;

/// Parses an entry as a server event; `None` if it is none.
pub(super) fn parse(entry: &Entry<'_>) -> Option<ServerEvent> {
    let mut event = event_of(entry);
    let known = match entry.severity {
        Severity::Log => {
            parse_session_message(&mut event, entry) || parse_server_message(&mut event, entry)
        }
        Severity::Warning | Severity::Notice => parse_archiving(&mut event, entry.message),
        Severity::Error | Severity::Fatal | Severity::Panic => parse_failure(&mut event, entry),
    };
    if known && !entry.statement.is_empty() {
        event.sql = Some(entry.statement.into());
    }
    known.then_some(event)
}

pub(super) fn event_of(entry: &Entry<'_>) -> ServerEvent {
    ServerEvent {
        at_us: entry.wall_us,
        pid: Some(entry.pid).filter(|pid| *pid != 0),
        source: entry.place.source,
        line: entry.place.line,
        ..ServerEvent::default()
    }
}

/// Parses a message of a client's backend, which has the running statement and possibly a position
/// in it.
fn parse_session_message(event: &mut ServerEvent, entry: &Entry<'_>) -> bool {
    let message = without_position(entry.message);
    if let Some(rest) = message.strip_prefix("temporary file: path \"") {
        let Some((path, size)) = rest.rsplit_once("\", size ") else {
            return false;
        };
        event.kind = Kind::TemporaryFile;
        event.subject = Some(path.into());
        event.bytes = size.parse().ok();
        return event.bytes.is_some();
    }
    if let Some(rest) = message.strip_prefix("process ") {
        return parse_lock_wait(event, rest, entry.detail).is_some();
    }
    // From 14 on, with log_recovery_conflict_waits.
    if let Some(rest) = message.strip_prefix("recovery still waiting after ") {
        event.kind = Kind::RecoveryConflict;
        return parse_recovery_conflict(event, rest).is_some();
    }
    if let Some(rest) = message.strip_prefix("recovery finished waiting after ") {
        event.kind = Kind::RecoveryConflict;
        return parse_recovery_conflict(event, rest).is_some();
    }
    false
}

/// Removes the position that stderr appends to a message: ` at character 22`.
pub(super) fn without_position(message: &str) -> &str {
    match message.rsplit_once(" at character ") {
        Some((before, place)) if place.bytes().all(|byte| byte.is_ascii_digit()) => before,
        _ => message,
    }
}

/// Parses `NUMBER still waiting for MODE on OBJECT after NUMBER ms` and the other lock messages.
fn parse_lock_wait(event: &mut ServerEvent, rest: &str, detail: &str) -> Option<()> {
    const WORDS: [(&str, Kind); 5] = [
        (" still waiting for ", Kind::LockWait),
        (" acquired ", Kind::LockAcquired),
        (" failed to acquire ", Kind::LockFailed),
        (" detected deadlock while waiting for ", Kind::LockFailed),
        (" avoided deadlock for ", Kind::LockWait),
    ];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (pid, rest) = rest.split_at(digits);
    let (words, kind) = WORDS
        .into_iter()
        .find(|(words, _)| rest.starts_with(words))?;
    let (what, waited) = rest[words.len()..].rsplit_once(" after ")?;
    // All names of modes end in "Lock". A function can log another text of this form, with values in it.
    let (mode, _) = what.split_once(" on ")?;
    if !mode.ends_with("Lock") {
        return None;
    }
    event.kind = kind;
    event.pid = pid.parse().ok().or(event.pid);
    event.duration_us = microseconds(waited.strip_suffix(" ms")?, 1_000.0);
    event.subject = Some(
        what.strip_suffix(" by rearranging queue order")
            .unwrap_or(what)
            .into(),
    );
    event.holders = detail
        .split_once(" holding the lock: ")
        .and_then(|(_, rest)| rest.split_once('.'))
        .map(|(holders, _)| holders.into());
    event.duration_us.map(|_| ())
}

/// Parses `NUMBER ms: recovery conflict on lock`.
fn parse_recovery_conflict(event: &mut ServerEvent, rest: &str) -> Option<()> {
    let (waited, what) = rest.split_once(" ms: ")?;
    event.duration_us = microseconds(waited, 1_000.0);
    event.subject = Some(
        what.strip_prefix("recovery conflict on ")
            .unwrap_or(what)
            .into(),
    );
    event.duration_us.map(|_| ())
}

/// Parses messages of the server's own processes. RAISE LOG in a statement can write the same text;
/// such a line has a statement or a context, or comes from a user's session.
fn parse_server_message(event: &mut ServerEvent, entry: &Entry<'_>) -> bool {
    let own = matches!(entry.backend, Backend::Background | Backend::Client)
        && entry.statement.is_empty()
        && entry.context.is_empty()
        && matches!(entry.who.names().user, "" | "[unknown]");
    own && (parse_checkpoint(event, entry.message)
        || parse_autovacuum(event, entry.message).is_some()
        || parse_archiving(event, entry.message)
        || parse_start_or_stop(event, entry.message))
}

fn parse_checkpoint(event: &mut ServerEvent, message: &str) -> bool {
    if let Some(rest) = message.strip_prefix("checkpoints are occurring too frequently (") {
        event.kind = Kind::CheckpointsTooFrequent;
        // `(1 second apart)`, `(16 seconds apart)`
        event.duration_us = leading_number(rest).map(|seconds| (seconds * 1e6) as u64);
        return true;
    }
    for (what, restart) in [("checkpoint ", false), ("restartpoint ", true)] {
        let Some(rest) = message.strip_prefix(what) else {
            continue;
        };
        if let Some(cause) = rest.strip_prefix("starting:") {
            event.kind = Kind::CheckpointStarting;
            let cause = cause.trim();
            event.subject = Some(match (restart, cause) {
                (true, "") => "restartpoint".into(),
                (true, cause) => format!("restartpoint {cause}").into(),
                (false, cause) => cause.into(),
            });
            return true;
        }
        // From 19 on with the cause: "checkpoint complete: fast force wait: wrote 3364 buffers (41.1%), …"
        let complete = rest.strip_prefix("complete:");
        if let Some((_, numbers)) = complete.and_then(|text| text.split_once(" wrote ")) {
            event.kind = Kind::Checkpoint;
            event.subject = restart.then(|| "restartpoint".into());
            event.buffers = leading_number(numbers).map(|number| number as u64);
            event.write_us = number_after(numbers, "; write=").map(seconds);
            event.sync_us = number_after(numbers, " sync=").map(seconds);
            event.duration_us = number_after(numbers, " total=").map(seconds);
            event.bytes = number_after(numbers, "; distance=").map(|kib| (kib * 1024.0) as u64);
            return true;
        }
    }
    false
}

fn parse_autovacuum(event: &mut ServerEvent, message: &str) -> Option<()> {
    if let Some(rest) = message.strip_prefix("skipping ") {
        let rest = rest
            .strip_prefix("vacuum of \"")
            .or_else(|| rest.strip_prefix("analyze of \""))?;
        let (table, why) = rest.split_once('"')?;
        event.kind = Kind::AutovacuumSkipped;
        event.subject = Some(table.into());
        return why.starts_with(" --- lock not available").then_some(());
    }
    let rest = message.strip_prefix("automatic ")?;
    let (what, rest) = rest.split_once(" of table \"")?;
    // The names are not quoted and may contain anything; the text after them is fixed.
    let (table, numbers) = rest
        .split_once("\": index scans: ")
        .or_else(|| rest.split_once("\" system usage: "))
        .or_else(|| rest.split_once("\"\n"))
        .or_else(|| Some((rest.strip_suffix('"')?, "")))?;
    event.kind = match what {
        "analyze" => Kind::Autoanalyze,
        "vacuum"
        | "aggressive vacuum"
        | "vacuum to prevent wraparound"
        | "aggressive vacuum to prevent wraparound" => Kind::Autovacuum,
        _ => return None,
    };
    event.subject = Some(table.into());
    event.duration_us = number_after(numbers, "elapsed: ").map(seconds);
    if event.kind == Kind::Autovacuum {
        let whole = |number: f64| number as u64;
        event.index_scans = leading_number(numbers).map(whole);
        if let Some((_, tuples)) = numbers.split_once("tuples: ") {
            let line = tuples.lines().next().unwrap_or_default();
            let mut parts = line.split(", ");
            event.tuples_removed = parts.next().and_then(leading_number).map(whole);
            event.tuples_remain = parts.next().and_then(leading_number).map(whole);
            event.tuples_dead = parts.next().and_then(leading_number).map(whole);
        }
    }
    Some(())
}

fn parse_archiving(event: &mut ServerEvent, message: &str) -> bool {
    let failed = message.starts_with("archive command ")
        || (message.starts_with("archiving write-ahead log file ")
            && message.contains(" failed too many times"));
    if failed {
        event.kind = Kind::ArchivingFailed;
        event.subject = Some(message.into());
    }
    failed
}

fn parse_start_or_stop(event: &mut ServerEvent, message: &str) -> bool {
    let is = |words: &[&str]| words.iter().any(|word| message.starts_with(word));
    event.kind = if message.contains(" was terminated by signal ")
        || (message.contains(" exited with exit code ")
            && is(&["server process", "client backend"]))
    {
        Kind::Crash
    } else if is(&[
        "all server processes terminated; reinitializing",
        "database system was not properly shut down",
        "database system was interrupted",
    ]) {
        Kind::Recovery
    } else if is(&["starting PostgreSQL "]) {
        Kind::Starting
    } else if is(&["database system is ready to accept "]) {
        Kind::Ready
    } else if is(&[
        "received smart shutdown request",
        "received fast shutdown request",
        "received immediate shutdown request",
    ]) {
        Kind::Stopping
    } else if message == "database system is shut down" {
        Kind::Stopped
    } else if is(&["received SIGHUP, reloading configuration files"]) {
        Kind::Reload
    } else {
        return false;
    };
    event.subject = Some(message.into());
    true
}

/// Parses errors that report the server's state. They are recognised by SQLSTATE, or by their text
/// if the log does not show it.
fn parse_failure(event: &mut ServerEvent, entry: &Entry<'_>) -> bool {
    let message = entry.message;
    let is = |words: &[&str]| words.iter().any(|word| message.starts_with(word));
    if message == "canceling autovacuum task" {
        event.kind = Kind::AutovacuumCancelled;
        event.subject = entry
            .context
            .lines()
            .find_map(|line| line.rsplit_once(" of table \""))
            .and_then(|(_, table)| table.strip_suffix('"'))
            .map(Into::into);
        return true;
    }
    if is(&[
        "canceling statement due to conflict with recovery",
        "terminating connection due to conflict with recovery",
    ]) {
        event.kind = Kind::RecoveryConflict;
        event.subject = entry.detail.lines().next().map(Into::into);
        return true;
    }
    event.kind = match entry.sqlstate.as_ref().map(|code| code.as_str()) {
        Some("40P01") => Kind::Deadlock,
        Some("53100") => Kind::DiskFull,
        Some("53200") => Kind::OutOfMemory,
        Some("53300") => Kind::TooManyConnections,
        Some(code) if code != "?????" => return false,
        _ if message == "deadlock detected" => Kind::Deadlock,
        _ if message == "out of memory" || message == "out of shared memory" => Kind::OutOfMemory,
        _ if message.ends_with(": No space left on device") => Kind::DiskFull,
        // "remaining connection slots are reserved for …" has had three endings.
        _ if is(&[
            "sorry, too many clients already",
            "remaining connection slots are reserved for ",
            "too many connections for ",
        ]) =>
        {
            Kind::TooManyConnections
        }
        _ => return false,
    };
    if event.kind != Kind::Deadlock {
        event.subject = Some(message.into());
    }
    true
}

fn seconds(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

/// Parses a number as microseconds; `unit_us` is the length of its unit.
fn microseconds(text: &str, unit_us: f64) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && number >= 0.0).then(|| (number * unit_us).round() as u64)
}

/// Parses the number at the start of a text.
fn leading_number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    text[..text.bytes().take_while(number).count()].parse().ok()
}

/// Parses the number after a key.
fn number_after(text: &str, key: &str) -> Option<f64> {
    text.split_once(key)
        .and_then(|(_, rest)| leading_number(rest))
}

#[cfg(test)]
pub(super) mod tests;
