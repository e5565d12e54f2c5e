//! Makes [`ServerEvent`]s of messages (WARNING and more severe) and of the ends of sessions.
//!
//! A message that a function raised has arbitrary text. It is recognised by its CONTEXT, since `RAISE` may use
//! any SQLSTATE and a log may show none. Sources of the texts in PostgreSQL's tree: `pl_exec.c`
//! (`plpgsql_exec_error_callback`), `pltcl.c` (`throw_tcl_error`), `plperl.c` and `plpy_main.c` (the error
//! callbacks), `postgres.c` (`log_disconnections`).

use workload::{MessageSeverity, ServerEvent, ServerEventKind, Sqlstate};

use super::entry::Entry;
use super::server_event::{event_of, without_position};
use super::severity::Severity;

/// Maximum length of a message, in bytes. It is not shown longer than a line.
const MESSAGE_BYTES_MAX: usize = 1_000;

/// Default codes of `RAISE EXCEPTION` and of a failed `ASSERT` (documentation, appendix A).
const RAISED: Sqlstate = Sqlstate(*b"P0001");
const ASSERTED: Sqlstate = Sqlstate(*b"P0004");

/// Makes an event of an entry of severity WARNING or more; `None` for another. `implied` is the SQLSTATE that
/// its text implies.
pub(super) fn message_event(entry: &Entry<'_>, implied: Option<Sqlstate>) -> Option<ServerEvent> {
    let severity = match entry.severity {
        Severity::Warning => MessageSeverity::Warning,
        Severity::Error => MessageSeverity::Error,
        Severity::Fatal => MessageSeverity::Fatal,
        Severity::Panic => MessageSeverity::Panic,
        Severity::Log | Severity::Notice => return None,
    };
    let raised = raising_function(entry.context);
    let by_statement = raised.and_then(|function| {
        [(" at RAISE", RAISED), (" at ASSERT", ASSERTED)]
            .into_iter()
            .find_map(|(end, code)| function.ends_with(end).then_some(code))
    });
    // The default of RAISE WARNING is 01000, which is no failure.
    let by_statement = by_statement.filter(|_| severity != MessageSeverity::Warning);
    let message = without_position(entry.message);
    let message = message.lines().next().unwrap_or_default();
    let statement = entry.statement;
    Some(ServerEvent {
        kind: ServerEventKind::Message,
        subject: raised.map(|function| beginning(function).into()),
        sql: (!statement.is_empty()).then(|| statement.into()),
        severity: Some(severity),
        sqlstate: entry.sqlstate.or(implied).or(by_statement),
        message: Some(beginning(message).into()),
        ..event_of(entry)
    })
}

/// Makes an event of the line `disconnection: session time: 0:00:05.123 …`.
pub(super) fn session_end_event(entry: &Entry<'_>) -> Option<ServerEvent> {
    let rest = entry
        .message
        .strip_prefix("disconnection: session time: ")?;
    let (time, _) = rest.split_once(' ')?;
    let mut parts = time.splitn(3, ':');
    let mut whole = || parts.next()?.parse::<u64>().ok();
    let (hours, minutes) = (whole()?, whole()?);
    let seconds: f64 = parts.next()?.parse().ok()?;
    let is_time = minutes < 60 && (0.0..61.0).contains(&seconds);
    let minutes_us = minutes.checked_mul(60_000_000)?;
    let whole_us = hours.checked_mul(3_600_000_000)?.checked_add(minutes_us)?;
    let duration_us = whole_us.checked_add((seconds * 1e6).round() as u64)?;
    is_time.then_some(ServerEvent {
        kind: ServerEventKind::SessionEnd,
        duration_us: Some(duration_us),
        ..event_of(entry)
    })
}

/// Returns the line of a CONTEXT that names the function whose own message it is, such as
/// `PL/pgSQL function f(integer) line 3 at RAISE`.
///
/// An error of the server in PL/pgSQL has another ending (`at assignment`) or names the statement first.
/// Functions of other languages pass on errors and raise their own in one form, so theirs count as raised.
fn raising_function(context: &str) -> Option<&str> {
    let first = context.lines().next()?;
    if first.starts_with("PL/pgSQL function ") {
        let raised = first.ends_with(" at RAISE") || first.ends_with(" at ASSERT");
        return raised.then_some(first);
    }
    if first.starts_with("SQL statement ") || first.starts_with("SQL function ") {
        return None;
    }
    // The lines before may quote the message: a stack trace of Tcl or Python.
    context.lines().find_map(|line| {
        let named = line.strip_prefix("in ").unwrap_or(line);
        let (language, rest) = named.strip_prefix("PL/")?.split_once(' ')?;
        let is_function = ["function ", "anonymous code block", "procedure "]
            .iter()
            .any(|words| rest.starts_with(words));
        (language != "pgSQL" && is_function && !rest.contains(", line ")).then_some(named)
    })
}

fn beginning(text: &str) -> &str {
    let mut end = text.len().min(MESSAGE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::super::server_event::tests::entry;
    use super::*;

    #[test]
    fn messages_have_severity_code_and_the_function_that_raised_them() {
        let at_raise =
            "PL/pgSQL function f(integer) line 3 at RAISE\nSQL statement \"select f(1)\"";
        let at_assert = "PL/pgSQL function f(integer) line 3 at ASSERT";
        let tcl = "no Jane\n    while executing\n\"elog ERROR x\"\nin PL/Tcl function \"f\"";
        let python = "Traceback (most recent call last):\n  PL/Python function \"f\", line 2, in <module>\nPL/Python function \"f\"";
        for (severity, context, code, function) in [
            (Severity::Error, "", None, None),
            (
                Severity::Error,
                at_raise,
                Some("P0001"),
                at_raise.lines().next(),
            ),
            (Severity::Warning, at_raise, None, at_raise.lines().next()),
            (Severity::Error, at_assert, Some("P0004"), Some(at_assert)),
            (
                Severity::Error,
                "PL/pgSQL function f() line 3 at assignment",
                None,
                None,
            ),
            (
                Severity::Error,
                "SQL statement \"x\"\nPL/Perl function \"f\"",
                None,
                None,
            ),
            (Severity::Fatal, tcl, None, Some("PL/Tcl function \"f\"")),
            (
                Severity::Error,
                python,
                None,
                Some("PL/Python function \"f\""),
            ),
            (
                Severity::Error,
                "PL/Perl function \"f\"",
                None,
                Some("PL/Perl function \"f\""),
            ),
        ] {
            let mut entry = entry(severity, "no Jane\nDoe");
            entry.context = context;
            entry.statement = "select f(1)";
            let event = message_event(&entry, None).unwrap();
            assert_eq!(event.message.as_deref(), Some("no Jane"));
            assert_eq!(event.sql.as_deref(), Some("select f(1)"));
            assert_eq!(
                event.sqlstate.as_ref().map(Sqlstate::as_str),
                code,
                "{context}"
            );
            assert_eq!(event.subject.as_deref(), function, "{context}");
        }
        assert_eq!(message_event(&entry(Severity::Log, "x"), None), None);
        assert_eq!(message_event(&entry(Severity::Notice, "x"), None), None);
    }

    #[test]
    fn code_of_the_log_comes_before_an_implied_one() {
        let mut entry = entry(Severity::Error, "x");
        let implied = Some(Sqlstate(*b"26000"));
        assert_eq!(message_event(&entry, implied).unwrap().sqlstate, implied);
        entry.sqlstate = Some(Sqlstate(*b"42601"));
        assert_eq!(
            message_event(&entry, implied).unwrap().sqlstate,
            entry.sqlstate
        );
    }

    #[test]
    fn session_end_has_the_logged_time() {
        for (time, duration_us) in [
            ("0:00:00.005", Some(5_000)),
            ("27:03:59.999", Some(97_439_999_000)),
            ("0:61:00.000", None),
            ("-1:00:00.000", None),
            ("99999999999999999:00:00.000", None),
            ("0:99999999999999999:00.000", None),
            ("", None),
        ] {
            let message = format!("disconnection: session time: {time} user=app database=shop");
            let event = session_end_event(&entry(Severity::Log, &message));
            assert_eq!(
                event.and_then(|event| event.duration_us),
                duration_us,
                "{time}"
            );
        }
    }
}
