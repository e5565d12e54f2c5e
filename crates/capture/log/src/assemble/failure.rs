//! Attributes errors to statements.
//!
//! Policy:
//! - An error of the running statement belongs to it. Its STATEMENT shows that; if
//!   `log_min_error_statement` hides the STATEMENT, the running statement is assumed.
//! - An error at the Sync after a finished execution names no statement: a deferred constraint, a
//!   serialization failure. It belongs to that execution if its code or CONTEXT is of that kind
//!   ([`may_fail_at_sync`]) and no transaction block is open. It does not if the execution was logged
//!   only because it was slow, since unlogged ones may have followed. If transactions are sampled,
//!   unlogged ones may have followed, too, so the error must come at once, unless the execution
//!   writes: checking its rows may take long. If a statement was only parsed, as far as the log says,
//!   the error must come at once in any case: the statement may have been prepared long before and
//!   not executed.
//! - Any other error with a STATEMENT is an event of its own: a syntax error, or any error if only
//!   durations are logged. [`super::error_phase`] says which message failed.
//! - Any other error without a STATEMENT is an event, too, since it ended its transaction: a Bind of
//!   an unknown name is an `Execute`, an Execute of an unknown portal a `Fetch`. Of others, such as
//!   fast-path calls, the text is missing.
//! - `canceling statement due to user request` is also a `Cancel`, directly after the statement.

use sql::classify;
use workload::{KindRef, Outcome, Sqlstate, Unreplayable};

use super::super::entry::Entry;
use super::super::parameters::{is_extended, list_in_context, refused_value};
use super::super::quality_counters::TransactionState;
use super::super::reconcile::SkipReason;
use super::super::severity::Severity;
use super::super::statement::count_placeholders;
use super::Output;
use super::error_phase::{ErrorPhase, UnknownName, implied_code, unknown_name};
use super::exchange::{Exchange, LogLines, Protocol, SAME_MESSAGE_US, Sql, Stage, ValueSource};
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
        let implied = || implied_code(entry.message);
        let sqlstate = entry.sqlstate.or_else(implied).unwrap_or(Sqlstate::UNKNOWN);
        output.names_statements |= !entry.statement.is_empty();
        if let Some(cursors) = &mut self.cursors {
            cursors.fail();
        }
        // Durations before a failure do not belong to the steps after it.
        self.skip_pending_durations(output);
        let fits = self
            .pending
            .as_ref()
            .is_some_and(|pending| self.belongs_to(output, pending, entry));
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
                match ErrorPhase::of(entry) {
                    ErrorPhase::Bind => pending.take_refused_value(entry),
                    ErrorPhase::Messages if pending.stage != Stage::Running => {
                        pending.lose_values();
                    }
                    _ => (),
                }
            }
            pending.transaction = pending.transaction.max(entry.transaction);
            pending.stage = Stage::Done;
        } else if !entry.statement.is_empty() {
            self.open(output, entry, entry.wall_us)?;
            self.finish_pending(output)?;
            let exchange = self.emit_failure(output, entry, sqlstate)?;
            self.pending = Some(exchange);
        } else if entry.severity != Severity::Error {
            // The server ended an idle session: the line is part of its end.
            output.account.lines_in_events += entry.lines;
            self.finish_pending(output)?;
            return self.abort_pipeline(output, entry);
        } else if self.is_open() {
            self.finish_pending(output)?;
            self.pending = Some(emit_nameless(output, entry, sqlstate));
        } else {
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

    /// Makes the exchange of an error that names a statement of which nothing else is logged.
    fn emit_failure(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        sqlstate: Sqlstate,
    ) -> Result<Box<Exchange>, SinkError> {
        let sql = entry.statement;
        let empty = output.no_name.clone();
        let phase = ErrorPhase::of(entry);
        let (protocol, stage) = match phase {
            ErrorPhase::Simple => (Protocol::Simple, Stage::Done),
            ErrorPhase::Parse(_) => (Protocol::Extended, Stage::Parsed),
            ErrorPhase::Bind | ErrorPhase::Messages | ErrorPhase::Execute => {
                (Protocol::Extended, Stage::Done)
            }
        };
        let known = match (protocol, stage) {
            (Protocol::Extended, Stage::Done) => {
                let name = self.name_of(sql).unwrap_or_else(|| empty.clone());
                Some(self.remember_statement(output, &name, sql)?)
            }
            _ => None,
        };
        let taken = match phase {
            ErrorPhase::Parse(name) => name.into(),
            _ => empty.clone(),
        };
        let (statement, sql) = match &known {
            Some((statement, sql)) => (statement, Sql::Shared(sql)),
            None => (&taken, Sql::Own(sql)),
        };
        let portal = list_in_context(entry.context)
            .map_or_else(|| empty.clone(), |(portal, _)| portal.into());
        let mut exchange =
            output.exchange((protocol, stage), (statement, &portal, sql), entry, None);
        exchange.logged = LogLines::ErrorOnly;
        exchange.sqlstate = Some(sqlstate);
        exchange.take_context_parameters(context_list(entry));
        match phase {
            ErrorPhase::Bind => exchange.take_refused_value(entry),
            ErrorPhase::Messages => exchange.lose_values(),
            ErrorPhase::Simple | ErrorPhase::Parse(_) | ErrorPhase::Execute => (),
        }
        if protocol == Protocol::Extended && stage == Stage::Done {
            self.use_parse(&mut exchange);
        }
        Ok(exchange)
    }

    /// Returns whether an error belongs to the pending exchange.
    fn belongs_to(&self, output: &Output<'_>, pending: &Exchange, entry: &Entry<'_>) -> bool {
        if pending.sqlstate.is_some() {
            return false;
        }
        let named = !entry.statement.is_empty();
        let at_once = entry.wall_us - pending.seen_us <= SAME_MESSAGE_US;
        let at_sync = || {
            pending.protocol == Protocol::Extended
                && entry.severity == Severity::Error
                && self.transaction != TransactionState::Open
                && (pending.transaction == 0 || pending.transaction == entry.transaction)
                && may_fail_at_sync(entry)
        };
        match pending.stage {
            Stage::Done => {
                !named
                    && pending.in_full
                    && at_sync()
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
            // The server would have named the statement that it runs.
            Stage::Running if output.names_statements => at_sync(),
            _ if output.names_statements => false,
            // An error that ends an idle session names no statement either.
            _ => {
                entry.severity == Severity::Error
                    && unknown_name(entry.message).is_none_or(|name| name.is_in(pending))
            }
        }
    }
}

impl Exchange {
    /// Takes the value that a parameter's input function refused. It is the only one in the log, so
    /// it must be the only parameter.
    fn take_refused_value(&mut self, entry: &Entry<'_>) {
        if self.value_source != ValueSource::None {
            return;
        }
        match (refused_value(entry.context), count_placeholders(self.sql())) {
            (Some(list), 1) => self.take_context_parameters(Some(list)),
            // log_parameter_max_length_on_error hides the value.
            (None, 1) => (),
            _ => self.lose_values(),
        }
    }

    /// Marks a statement whose values the server could not read.
    fn lose_values(&mut self) {
        if self.value_source == ValueSource::None {
            self.unreplayable = Some(Unreplayable::BindFailed);
        }
    }
}

/// Makes the exchange of an error that names no statement.
fn emit_nameless(output: &mut Output<'_>, entry: &Entry<'_>, sqlstate: Sqlstate) -> Box<Exchange> {
    let no_name = output.no_name.clone();
    let (kind, statement, portal, reason) = match unknown_name(entry.message) {
        Some(UnknownName::Statement(name)) => (
            (Protocol::Extended, Stage::Done),
            name.into(),
            no_name,
            Unreplayable::StatementUnknown,
        ),
        Some(UnknownName::Portal(name)) => (
            (Protocol::Fetch, Stage::Done),
            no_name,
            name.into(),
            Unreplayable::StatementUnknown,
        ),
        None => (
            (Protocol::Simple, Stage::Done),
            no_name.clone(),
            no_name,
            Unreplayable::TextMissing,
        ),
    };
    let mut exchange = output.exchange(kind, (&statement, &portal, Sql::Own("")), entry, None);
    exchange.logged = LogLines::ErrorOnly;
    exchange.sqlstate = Some(sqlstate);
    exchange.unreplayable = Some(reason);
    exchange
}

/// Returns whether an error may come from the end of an implicit transaction: from a deferred
/// constraint or its trigger, whose CONTEXT names a function; from serializable isolation; from a
/// cancel meanwhile. Errors about the names and messages of the next statement are of other kinds.
fn may_fail_at_sync(entry: &Entry<'_>) -> bool {
    if !entry.context.is_empty() {
        return !is_extended(entry.context);
    }
    match entry.sqlstate {
        Some(code) => ["23", "40", "53", "57"].contains(&&code.as_str()[..2]),
        None => [
            "violates ",
            "could not serialize access",
            "deadlock detected",
            "canceling statement",
        ]
        .iter()
        .any(|words| entry.message.contains(words)),
    }
}

/// Recognises `unnamed portal parameter $1 = 'x'`, `portal "p" parameter $2`: from version 14 on, a
/// value that a parameter's input function refused (`bind_param_error_callback` in the server's
/// postgres.c).
pub(super) fn is_bind_error(context: &str) -> bool {
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
