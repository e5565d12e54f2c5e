//! Errors: which statement failed.
//!
//! Policy:
//! - An error of what is running belongs to it. Its STATEMENT says so; where
//!   `log_min_error_statement` hides that, what is running is taken.
//! - An error behind a finished execution that names no statement is a deferred constraint's: it
//!   belongs to that execution, unless only its slowness was logged: then those that are not logged
//!   may have come after it. Where transactions are sampled they may have too, so it has to follow
//!   at once, unless the execution was one that writes: checking what it wrote may take long.
//!   Of a statement that was only parsed, so far as the log says, it has to follow at once in any
//!   case: what was prepared long before need not be what was executed.
//! - Any other error with a STATEMENT is an event of its own: a syntax error, or anything where only
//!   durations are logged. It is `Execute` where its CONTEXT shows a portal or its text has `$n`;
//!   but `Prepare` where it has `$n` and the error points into the text, which is what a failed parse
//!   does; else `Simple`. So a failed parse of a text without parameters counts as `Simple`: the log
//!   does not tell, and the target fails in the same way.
//! - `canceling statement due to user request` is also a `Cancel`, right behind the statement.

use sql::classify;
use workload::{KindRef, Outcome, Sqlstate};

use super::super::entry::Entry;
use super::super::parameters::{is_extended, list_in_context};
use super::super::reconcile::SkipReason;
use super::super::severity::Severity;
use super::super::statement::placeholders;
use super::Output;
use super::exchange::{Exchange, Protocol, SAME_MESSAGE_US, Sql, Stage};
use super::session::Live;
use capture_sink::SinkError;

/// What `pg_cancel_backend` and a client's cancel request lead to; time-outs say another thing.
const CANCELED: &str = "canceling statement due to user request";

impl Live {
    /// Takes an ERROR, FATAL or PANIC.
    pub(super) fn failed(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
    ) -> Result<(), SinkError> {
        let sqlstate = entry.sqlstate.unwrap_or(Sqlstate::UNKNOWN);
        // What came before a failure is not of what follows it.
        self.drop_loose(output);
        let fits = self
            .pending
            .as_ref()
            .is_some_and(|pending| belongs(pending, entry));
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
            self.displace(output)?;
            let exchange = self.failed_alone(output, entry, sqlstate)?;
            self.pending = Some(exchange);
        } else if entry.severity != Severity::Error {
            // The server ended an idle session: its going.
            output.account.lines_in_events += entry.lines;
            return self.displace(output);
        } else {
            output.account.tallies.statementless += 1;
            output.skip(SkipReason::ErrorOutsideStatement, entry);
            return Ok(());
        }
        if entry.message.starts_with(CANCELED) {
            self.displace(output)?;
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

    fn failed_alone(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        sqlstate: Sqlstate,
    ) -> Result<Box<Exchange>, SinkError> {
        let sql = entry.statement;
        let empty = output.no_name.clone();
        let list = context_list(entry);
        let shows_portal = list.is_some() || is_extended(entry.context);
        let (protocol, stage) = if !shows_portal && placeholders(sql) == 0 {
            (Protocol::Simple, Stage::Done)
        } else if !shows_portal && entry.positioned {
            (Protocol::Extended, Stage::Parsed)
        } else {
            (Protocol::Extended, Stage::Done)
        };
        let known = match (protocol, stage) {
            (Protocol::Extended, Stage::Done) => {
                let name = self.name_of(sql).unwrap_or_else(|| empty.clone());
                Some(self.learn(output, &name, sql)?)
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

/// Whether an error is of what is pending.
fn belongs(pending: &Exchange, entry: &Entry<'_>) -> bool {
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
        // A bind fails before its execution's line is written: what runs is the one before.
        Stage::Running if is_of_bind(entry.context) => false,
        _ if named => pending.is_text(entry.statement),
        // An idle session that the server ends names no statement either.
        _ => entry.severity == Severity::Error,
    }
}

/// `unnamed portal parameter $1 = 'x'`, `portal "p" parameter $2`: from version 14 on, what a
/// parameter's input function refused (`bind_param_error_callback` in the server's postgres.c).
fn is_of_bind(context: &str) -> bool {
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
    list_in_context(entry.context).map(|(_, list)| list)
}
