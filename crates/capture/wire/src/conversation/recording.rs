//! What of a connection is recorded: its events, and what it brings along when the recording begins.

use std::sync::Arc;

use protocol::backend::TransactionStatus;
use sql::SessionEffect;
use workload::{EventKind, EventRef, KindRef, Outcome, Parameters, Particulars, Session};

use super::connection::{Connection, Out};
use super::exchange::{Asked, Pending};
use capture_sink::SinkError;

/// How a connection's recording stands.
#[derive(Debug)]
pub(super) struct Recorded {
    session: u64,
    sequence: u64,
    statements: u64,
    start_us: i64,
    pub(super) last_us: i64,
}

impl Connection {
    /// Begins to record it, if everything is recorded and nothing is under way.
    pub(super) fn begin_recording(&mut self, out: &mut Out<'_>) -> Result<(), SinkError> {
        let idle = self.transaction == TransactionStatus::Idle
            && self.exchange.is_empty()
            && self.ended_us.is_none();
        // A client need not wait for the server before it asks, or even takes its leave: at the
        // server's first word nothing is done yet, and all of that belongs to the recording.
        let at_its_beginning = std::mem::take(&mut self.ready_first);
        if self.recorded.is_some() || !self.ready || !(idle || at_its_beginning) {
            return Ok(());
        }
        let Some(recording) = out.recording.as_deref_mut() else {
            return Ok(());
        };
        let prelude = self.opened_us < recording.since_us;
        let start_us = self.opened_us.max(recording.since_us);
        self.recorded = Some(Recorded {
            session: recording.next_session,
            sequence: 0,
            statements: 0,
            start_us,
            last_us: start_us,
        });
        recording.next_session += 1;
        out.account.sessions += 1;
        let (database, user) = (self.database.clone(), self.user.clone());
        let application = self.application.clone();
        let connect = KindRef::Connect {
            database: &database,
            user: &user,
            application: &application,
        };
        let settings = (!self.settings.is_empty()).then(|| {
            Arc::new(Particulars {
                settings: self.settings.clone(),
                ..Particulars::default()
            })
        });
        self.event(connect, start_us, prelude, settings.as_ref(), out)?;
        for kind in self.state.restoring_statements() {
            let usual = out.descriptions.usual.clone();
            if let EventKind::Simple { sql } = &kind {
                let kind = KindRef::Simple { sql };
                self.event(kind, start_us, true, Some(&usual), out)?;
            }
        }
        Ok(())
    }

    /// Hands out an event that has no answer of its own.
    fn event(
        &mut self,
        kind: KindRef<'_>,
        due_us: i64,
        prelude: bool,
        particulars: Option<&Arc<Particulars>>,
        out: &mut Out<'_>,
    ) -> Result<(), SinkError> {
        let Some(recorded) = &mut self.recorded else {
            return Ok(());
        };
        let event = EventRef {
            session: recorded.session,
            sequence: recorded.sequence,
            due_us: due_us.max(recorded.last_us),
            kind,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude,
            particulars,
        };
        recorded.sequence += 1;
        recorded.last_us = event.due_us;
        recorded.statements += u64::from(kind.is_statement());
        out.account.events += 1;
        out.account.statements += u64::from(kind.is_statement());
        out.sink.event(&event)
    }

    /// Whether what comes next is recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// Hands out what is answered.
    pub(super) fn leave(&mut self, out: &mut Out<'_>) -> Result<(), SinkError> {
        if self.ready_first {
            self.begin_recording(out)?;
        }
        while let Some((mut pending, begun_us)) = self.exchange.leaving() {
            self.hand_out(&mut pending, begun_us, out)?;
            self.spare.take(pending.asked);
        }
        match self.exchange.is_empty() {
            true if self.ended_us.is_some() => self.disconnect(out),
            true => self.begin_recording(out),
            false => Ok(()),
        }
    }

    /// Hands out what is under way with what is known of it.
    pub(super) fn give_up(&mut self, out: &mut Out<'_>) -> Result<(), SinkError> {
        while let Some((mut pending, begun_us)) = self.exchange.give_up() {
            self.hand_out(&mut pending, begun_us, out)?;
        }
        Ok(())
    }

    fn hand_out(
        &mut self,
        pending: &mut Pending,
        begun_us: i64,
        out: &mut Out<'_>,
    ) -> Result<(), SinkError> {
        self.record_state(pending);
        let is_statement = pending.asked.sql().is_some();
        let recorded = match &mut self.recorded {
            Some(recorded) if pending.recorded => recorded,
            _ => {
                out.account.statements_unrecorded += u64::from(is_statement && !pending.counted);
                return Ok(());
            }
        };
        if pending.unreplayable == Some(workload::Unreplayable::StatementUnknown) {
            out.account.statements_unknown += 1;
        }
        out.account.too_long += u64::from(pending.copy.as_ref().is_some_and(|copy| copy.cut));
        if pending.done_us.is_none() {
            // What was seen of its answer is not all of it.
            (pending.rows, pending.digest, pending.first_row) = (None, None, None);
        }
        let particulars = super::describe::particulars(pending, out.descriptions);
        let outcome = Outcome {
            duration_us: pending
                .done_us
                .map(|done_us| (done_us - begun_us).max(0) as u64),
            rows: pending.rows,
            bytes: (pending.bytes > 0).then_some(pending.bytes),
            sqlstate: pending.sqlstate,
        };
        let event = EventRef {
            session: recorded.session,
            sequence: recorded.sequence,
            due_us: pending.due_us.max(recorded.last_us),
            kind: kind_of(&pending.asked),
            outcome,
            unreplayable: pending.unreplayable,
            source: 0,
            line: pending.place,
            prelude: false,
            particulars: Some(&particulars),
        };
        recorded.sequence += 1;
        recorded.last_us = event.due_us;
        recorded.statements += u64::from(is_statement);
        out.account.events += 1;
        out.account.statements += u64::from(is_statement);
        out.sink.event(&event)
    }

    /// Records the effect of a statement on its session, for a recording that begins later.
    fn record_state(&mut self, pending: &Pending) {
        let sql: Option<&str> = match &pending.asked {
            Asked::Simple { sql } => Some(sql),
            // Drivers set things with messages, too; those have texts without values.
            Asked::Execute {
                statement,
                parameters,
                ..
            } if parameters.is_empty() => Some(&statement.sql),
            _ => None,
        };
        if let Some(sql) = sql
            && SessionEffect::of(sql).changes_state
        {
            let in_transaction = self.transaction != TransactionStatus::Idle;
            let kind = EventKind::Simple { sql: sql.into() };
            self.state.record(kind, pending.sqlstate, in_transaction);
        }
        if self.transaction == TransactionStatus::Idle {
            self.state.idle();
        }
    }

    pub(super) fn disconnect(&mut self, out: &mut Out<'_>) -> Result<(), SinkError> {
        let Some(ended_us) = self.ended_us else {
            return Ok(());
        };
        if self.recorded.is_some() {
            self.event(KindRef::Disconnect, ended_us, false, None, out)?;
            self.end_session(true, out)?;
        }
        Ok(())
    }

    fn end_session(&mut self, end_seen: bool, out: &mut Out<'_>) -> Result<(), SinkError> {
        let Some(recorded) = self.recorded.take() else {
            return Ok(());
        };
        out.sink.session(Session {
            id: recorded.session,
            database: self.database.clone(),
            user: self.user.clone(),
            application: self.application.clone(),
            client: (*self.client).into(),
            start_us: recorded.start_us,
            end_us: recorded.last_us,
            start_seen: self.start_seen,
            end_seen,
            statements: recorded.statements,
        })
    }

    /// The recording ends; the connection goes on.
    pub(super) fn stop(&mut self, at_us: i64, out: &mut Out<'_>) -> Result<(), SinkError> {
        // What is under way is recorded as far as it went, and followed further.
        let mut exchange = std::mem::take(&mut self.exchange);
        let mut result = Ok(());
        for (pending, begun_us) in exchange.under_way() {
            if result.is_ok() && pending.recorded {
                result = self.hand_out(pending, begun_us, out);
                pending.recorded = false;
                pending.counted = true;
            }
        }
        self.exchange = exchange;
        result?;
        if let Some(recorded) = &mut self.recorded {
            recorded.last_us = recorded.last_us.max(at_us);
        }
        self.end_session(false, out)
    }
}

fn kind_of(asked: &Asked) -> KindRef<'_> {
    match asked {
        Asked::Simple { sql } => KindRef::Simple { sql },
        Asked::Prepare { statement } => KindRef::Prepare {
            statement: &statement.name,
            sql: &statement.sql,
        },
        Asked::Execute {
            statement,
            portal,
            parameters,
        } => KindRef::Execute {
            statement: &statement.name,
            portal,
            sql: &statement.sql,
            parameters: match parameters.is_empty() {
                true => Parameters::NONE,
                false => parameters.borrowed(),
            },
        },
        Asked::Fetch { statement, portal } => KindRef::Fetch {
            statement: (statement.as_ref()).map_or("", |statement| &statement.name),
            portal,
            sql: (statement.as_ref()).map_or("", |statement| &statement.sql),
        },
        Asked::Cancel => KindRef::Cancel,
    }
}
