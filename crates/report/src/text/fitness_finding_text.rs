//! Sentences on the deficiencies of a log for a replay.

use capture_log::Finding;

use crate::text::units::{count, counted, duration, percent};

/// Formats a share: `17 of 20 (85.0 %)`.
pub(super) fn share(part: u64, of: u64) -> String {
    format!(
        "{} of {} ({})",
        count(part),
        count(of),
        percent(part as f64, of as f64)
    )
}

/// Formats a count with a verb that agrees with it: `1 line is`, `2 lines are`.
fn agree(number: u64, noun: &str, [one, more]: [&str; 2]) -> String {
    let verb = if number == 1 { one } else { more };
    format!("{} {verb}", counted(number, noun))
}

/// Returns the meaning of a finding, without a full stop.
#[rustfmt::skip] // One line a finding.
pub(super) fn sentence(finding: &Finding) -> String {
    use Finding::*;
    let are = ["is", "are"];
    let lines_are = |lines| agree(lines, "line", are);
    match *finding {
        NoStatements => "The log holds no statement, so there is nothing to replay; statements were not logged while it was written".to_owned(),
        OnlyFailures { failed } => format!("The log holds only {}; those that succeeded were not logged, so that a replay would only fail", counted(failed, "failed statement")),
        DurationsWithoutStatement { lines } => format!("{} a duration and no statement (log_duration writes such), up to three for one statement; what was executed there is not known", agree(lines, "line", ["has", "have"])),
        SlowOnly { shortest_us, statements } => format!("None of {} took less than {}, so the log probably holds slow statements alone: a replay leaves the short ones out, and with them most of the load and often the BEGIN or SET that the others need", counted(statements, "timed statement"), duration(shortest_us as f64)),
        WritesOnly { statements } => format!("None of {} logged at their start reads, so log_statement is probably ddl or mod: a replay leaves all reads out", counted(statements, "statement")),
        Gaps { unmatched, boundaries } => format!("{} transaction beginnings and ends do not match, so statements are missing between them: a sample was logged, or some roles or databases log less", share(unmatched, boundaries)),
        ValuesMissing { statements, of } => format!("{} executions with parameters have no values, and a replay skips them", share(statements, of)),
        ValuesMissingOnFailure { statements } => format!("{} parameters without values, and a replay skips them", agree(statements, "failed statement", ["has", "have"])),
        ValuesCut { statements, of, values, of_values } => format!("{} values of parameters are cut, in {} executions; a replay skips these", share(values, of_values), share(statements, of)),
        StatementsCut { statements, of } => format!("Of {} statements the log holds only a part, since lines after them were lost, could not be read or are another message's; a replay skips these. Capture whole files of the server (of RDS, download them complete)", share(statements, of)),
        CopyData { statements } => format!("The data of {} is in no log, and a replay skips them: rows that they loaded are missing, unless the target has them already", counted(statements, "COPY … FROM STDIN command")),
        FastPath { lines } => format!("{} of fast-path function calls, whose arguments are in no log; a replay leaves them out", lines_are(lines)),
        Fetches { statements } => format!("{} left out: a replay fetches all rows of a portal at the first", agree(statements, "further fetch", are).replace("fetchs", "fetches")),
        Refused { statements } => format!("{} refused because their transaction had failed before, and no setting brings their parameters into a log; a replay skips them", agree(statements, "statement", ["was", "were"])),
        AuditGaps { statements, of } => format!("{} statements that pgAudit numbered are not in the log: pgaudit.log leaves out some classes, or pgaudit.log_catalog is off; a replay lacks them", share(statements, of)),
        BindFailed { statements } => format!("{} in Bind, and no setting brings all their parameters into a log; a replay skips them and rolls their transactions back", agree(statements, "statement", ["failed", "failed"])),
        RolledBack { statements } => format!("{} left out: an error in the same pipeline rolled them back", agree(statements, "statement", are)),
        FateUnknown { statements } => format!("{} left out: an error came directly after a statement that wrote, which it rolled back if both were in one transaction without a savepoint between; a log shows that only if it has all statements and the virtual transaction (csvlog, jsonlog, or %v in log_line_prefix)", agree(statements, "statement", are)),
        FateLost { statements } => format!("{} of pipelines that failed after more than 1,000 statements or 1 MiB: a replay sends and commits what was rolled back", agree(statements, "statement", are)),
        ErrorsWithoutStatement { errors } => format!("{} without a statement, so that what failed is not known and not replayed", agree(errors, "error", ["stands", "stand"])),
        Translated { lines } => format!("{} in another language and could not be read; their statements are missing", lines_are(lines)),
        OtherEncoding { lines } => format!("{} not in UTF-8 and could not be read; the statements of databases with another encoding are missing", lines_are(lines)),
        Interleaved { lines } => format!("{} torn from the message that they belong to, as where several processes write one file: parameters and statements may be missing", lines_are(lines)),
        RateLimited { lines } => format!("{} of the log daemon's say that it dropped messages; let the server write its own files, or lift the daemon's limit (RateLimitBurst=0 of systemd-journald, imuxsock's rate limit of rsyslog)", counted(lines, "line")),
        Ambiguous { lines } => format!("{} left out, since a user, database or application name in them contains text like the log's own, so that they can be read in two ways; csvlog and jsonlog keep names apart, and so does a log_line_prefix without %u, %d and %a", lines_are(lines)),
        Unreadable { lines, of } => format!("{} lines could not be read; if statements stand there, a replay lacks them", share(lines, of)),
        DurationsUnknown { statements, of } => format!("{} statements that succeeded have no duration: they are replayed, but cannot be compared with the capture", share(statements, of)),
        WholeSeconds => "Times have whole seconds: statements of different sessions within a second are replayed in an order and with pauses that are not theirs".to_owned(),
        NoBeginnings { sessions } => format!("None of its sessions ({}) begins in the log: each starts at its first statement, and what it had set or prepared before is not known", count(sessions)),
        BeganBefore { sessions, of } => format!("{} sessions began before the log: what they had set or prepared is not known; a longer log, or one from a restart of the clients on, has more of them whole", share(sessions, of)),
        NoEnds { sessions } => format!("None of its sessions ({}) ends in the log: a replay keeps each open until everything is done", count(sessions)),
        StillOpen { sessions, of } => format!("{} sessions have no end in the log: they were still open when it ended; a replay closes them when everything is done", share(sessions, of)),
        Nameless { sessions, of } => format!("{} sessions have neither role nor database: a replay connects them as the target's URL says, and no filter can choose them", share(sessions, of)),
        SessionsByProcess => "Sessions can be told apart by process number alone: two that had the same number one after the other may count as one".to_owned(),
        Uncoded { failures, of } => format!("{} failures have no error code: a comparison sees that they failed, but not whether a replay fails in the same way", share(failures, of)),
    }
}
