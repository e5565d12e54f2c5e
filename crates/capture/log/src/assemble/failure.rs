//! Attributes errors to statements.
//!
//! Policy:
//! - An error of the running statement belongs to it. Its STATEMENT shows that; if
//!   `log_min_error_statement` hides the STATEMENT, the running statement is assumed.
//! - An error after a finished execution that names no statement comes from a deferred constraint:
//!   it belongs to that execution, unless the execution was logged only because it was slow, since
//!   unlogged ones may have followed. If transactions are sampled, unlogged ones may have followed,
//!   too, so the error must come at once, unless the execution writes: checking its rows may take
//!   long. If a statement was only parsed, as far as the log says, the error must come at once in
//!   any case: the statement may have been prepared long before and not executed.
//! - Any other error with a STATEMENT is an event of its own: a syntax error, or any error if only
//!   durations are logged. It is `Execute` if its CONTEXT shows a portal or its text has `$n`. It
//!   is `Prepare` if it has `$n` and the error points into the text, which is typical of a failed
//!   parse. Otherwise it is `Simple`. So a failed parse of a text without parameters counts as
//!   `Simple`: the log does not distinguish them, and the target fails in the same way.
//! - `canceling statement due to user request` is also a `Cancel`, directly after the statement.

use sql::classify;
use workload::{KindRef, Outcome, Sqlstate};

use super::super::entry::Entry;
use super::super::parameters::{is_extended, list_in_context};
use super::super::reconcile::SkipReason;
use super::super::severity::Severity;
use super::super::statement::count_placeholders;
use super::Output;
use super::exchange::{Exchange, Protocol, SAME_MESSAGE_US, Sql, Stage};
use super::session::LiveSession;
use capture_sink::SinkError;

/// Message after `pg_cancel_backend` or a client's cancel request; time-outs have another one.
const CANCELED: &str = "canceling statement due to user request";

impl LiveSession {
    /// Handles an ERROR, FATAL or PANIC.
    pub(super) fn handle_failure(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
    ) -> Result<(), SinkError> {
        let sqlstate = entry.sqlstate.unwrap_or(Sqlstate::UNKNOWN);
        // Durations before a failure do not belong to the steps after it.
        self.skip_pending_durations(output);
        let fits = self
            .pending
            .as_ref()
            .is_some_and(|pending| belongs_to(pending, entry));
        if fits {
            let pending = self.pending.as_mut().expect("it fits");
            let pause_us = entry.wall_us - pending.seen_us;
            if pending.stage == Stage::Parsed && pause_us > SAME_MESSAGE_US {
                // Prepared before, and bound just now.
                pending.due_us = entry.wall_us;
            }
            pending.lines += entry.lines;
            pending.sqlstate = Some(sqlstate);
            if pending.protocol == Protocol::Extended {
                // Bind or execute failed: parsing had succeeded.
                pending.take_context_parameters(context_list(entry));
            }
            pending.stage = Stage::Done;
        } else if !entry.statement.is_empty() {
            self.open(output, entry, entry.wall_us)?;
            self.finish_pending(output)?;
            let exchange = self.emit_failure(output, entry, sqlstate)?;
            self.pending = Some(exchange);
        } else if entry.severity != Severity::Error {
            // The server ended an idle session: the line is part of its end.
            output.account.lines_in_events += entry.lines;
            return self.finish_pending(output);
        } else {
            output.account.tallies.statementless += 1;
            output.skip(SkipReason::ErrorOutsideStatement, entry);
            return Ok(());
        }
        if entry.message.starts_with(CANCELED) {
            self.finish_pending(output)?;
            self.emit(
                output,
                KindRef::Cancel,
                Outcome::default(),
                None,
                entry.wall_us,
                entry.place,
            )?;
        }
        Ok(())
    }

    fn emit_failure(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        sqlstate: Sqlstate,
    ) -> Result<Box<Exchange>, SinkError> {
        let sql = entry.statement;
        let empty = output.no_name.clone();
        let list = context_list(entry);
        let shows_portal = list.is_some() || is_extended(entry.context);
        let (protocol, stage) = if !shows_portal && count_placeholders(sql) == 0 {
            (Protocol::Simple, Stage::Done)
        } else if !shows_portal && entry.positioned {
            (Protocol::Extended, Stage::Parsed)
        } else {
            (Protocol::Extended, Stage::Done)
        };
        let known = match (protocol, stage) {
            (Protocol::Extended, Stage::Done) => {
                let name = self.name_of(sql).unwrap_or_else(|| empty.clone());
                Some(self.remember_statement(output, &name, sql)?)
            }
            _ => None,
        };
        let (statement, sql) = match &known {
            Some((statement, sql)) => (statement, Sql::Shared(sql)),
            None => (&empty, Sql::Own(sql)),
        };
        let portal = list_in_context(entry.context)
            .map_or_else(|| empty.clone(), |(portal, _)| portal.into());
        let mut exchange =
            output.exchange((protocol, stage), (statement, &portal, sql), entry, None);
        exchange.take_context_parameters(list);
        exchange.sqlstate = Some(sqlstate);
        if protocol == Protocol::Extended && stage == Stage::Done {
            self.use_parse(&mut exchange);
        }
        Ok(exchange)
    }
}

/// Returns whether an error belongs to the pending exchange.
fn belongs_to(pending: &Exchange, entry: &Entry<'_>) -> bool {
    if pending.sqlstate.is_some() {
        return false;
    }
    let named = !entry.statement.is_empty();
    let at_once = entry.wall_us - pending.seen_us <= SAME_MESSAGE_US;
    match pending.stage {
        Stage::Done => {
            !named
                && pending.protocol == Protocol::Extended
                && pending.in_full
                && entry.severity == Severity::Error
                && (at_once || classify(pending.sql()).may_write())
        }
        Stage::Parsed if !named && !at_once => false,
        // A failed bind precedes its execution's line: the running execution is the previous
        // one.
        Stage::Running if is_bind_error(entry.context) => false,
        _ if named => {
            pending.is_text(entry.statement)
                || entry.cut && pending.sql().starts_with(entry.statement)
        }
        // An error that ends an idle session names no statement either.
        _ => entry.severity == Severity::Error,
    }
}

/// Recognises `unnamed portal parameter $1 = 'x'`, `portal "p" parameter $2`: from version 14 on, a
/// value that a parameter's input function refused (`bind_param_error_callback` in the server's
/// postgres.c).
fn is_bind_error(context: &str) -> bool {
    context.lines().any(|line| {
        let portal = match line.strip_prefix("unnamed portal ") {
            Some(rest) => Some(rest),
            None => line
                .strip_prefix("portal \"")
                .and_then(|rest| rest.split_once("\" ").map(|(_, rest)| rest)),
        };
        portal.is_some_and(|rest| rest.starts_with("parameter $"))
    })
}

fn context_list<'a>(entry: &Entry<'a>) -> Option<&'a str> {
    match list_in_context(entry.context) {
        Some((_, list)) => Some(list),
        None => refused_value(entry),
    }
}

/// Returns the only parameter of a statement, as the error of its input function has it: `$1 =
/// 'x'`. It may be truncated (`log_parameter_max_length_on_error`); then it is unknown.
fn refused_value<'a>(entry: &Entry<'a>) -> Option<&'a str> {
    let line = entry.context.lines().find(|line| is_bind_error(line))?;
    let at = line.find("parameter $1 = ")? + "parameter ".len();
    let whole = !line.ends_with("...'") && count_placeholders(entry.statement) == 1;
    whole.then(|| &line[at..])
}
