//! Records the events of a connection, and its state at the start of the recording.

use std::sync::Arc;

use protocol::backend::TransactionStatus;
use sql::SessionEffect;
use workload::{
    EventKind, EventRef, KindRef, Outcome, Parameters, REPORTED_PROCESS_ID, Session, WireDetails,
};

use super::connection::{Connection, Output, RecordingState};
use super::pending_requests::{EventRecording, PendingEvent, Request};
use capture_sink::{SessionStart, SinkError};

/// Codes of names that do not exist: of a prepared statement, of a cursor or portal.
const UNKNOWN_NAME: [&str; 2] = ["26000", "34000"];

impl Connection {
    /// Begins to record the connection, if everything is recorded and no request is in progress.
    pub(super) fn begin_recording(&mut self, out: &mut Output<'_>) -> Result<(), SinkError> {
        let idle = self.transaction == TransactionStatus::Idle
            && self.requests.is_empty()
            && self.ended_us.is_none();
        // A client may send requests, or even Terminate, before the server answers. At the
        // server's first message none of them is complete, so all belong to the recording.
        let at_its_beginning = std::mem::take(&mut self.just_ready);
        if self.recorded.is_some() || !self.ready || !(idle || at_its_beginning) {
            return Ok(());
        }
        let Some(recording) = out.recording.as_deref_mut() else {
            return Ok(());
        };
        let prelude = self.opened_us < recording.since_us;
        let start_us = self.opened_us.max(recording.since_us);
        self.recorded = Some(RecordingState {
            session: recording.next_session,
            sequence: 0,
            statements: 0,
            start_us,
            last_us: start_us,
        });
        out.sink.session_begins(SessionStart {
            id: recording.next_session,
            client: &self.client,
            start_seen: self.start_seen,
            process: 0,
        })?;
        recording.next_session += 1;
        out.account.sessions += 1;
        let (database, user) = (self.database.clone(), self.user.clone());
        let application = self.application.clone();
        let connect = KindRef::Connect {
            database: &database,
            user: &user,
            application: &application,
        };
        if let Some((process_id, _)) = &self.key
            && !self
                .settings
                .iter()
                .any(|(name, _)| **name == *REPORTED_PROCESS_ID)
        {
            let process_id = process_id.to_string();
            self.settings
                .push((REPORTED_PROCESS_ID.into(), process_id.into()));
        }
        let settings = (!self.settings.is_empty()).then(|| {
            Arc::new(WireDetails {
                settings: self.settings.clone(),
                ..WireDetails::default()
            })
        });
        self.emit_event(connect, start_us, prelude, settings.as_ref(), out)?;
        for kind in self.state.restoring_statements() {
            let usual = out.details_cache.common.clone();
            if let EventKind::Simple { sql } = &kind {
                let kind = KindRef::Simple { sql };
                self.emit_event(kind, start_us, true, Some(&usual), out)?;
            }
        }
        Ok(())
    }

    /// Emits an event without an answer.
    fn emit_event(
        &mut self,
        kind: KindRef<'_>,
        due_us: i64,
        prelude: bool,
        particulars: Option<&Arc<WireDetails>>,
        out: &mut Output<'_>,
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
            wire_details: particulars,
        };
        recorded.sequence += 1;
        recorded.last_us = event.due_us;
        recorded.statements += u64::from(kind.is_statement());
        out.account.events += 1;
        out.account.statements += u64::from(kind.is_statement());
        out.sink.event(&event)
    }

    /// Returns whether the next events are recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// Emits the answered events.
    pub(super) fn emit_answered(&mut self, out: &mut Output<'_>) -> Result<(), SinkError> {
        if self.just_ready {
            self.begin_recording(out)?;
        }
        while let Some((mut pending, begun_us)) = self.requests.take_complete() {
            self.emit(&mut pending, begun_us, out)?;
            self.buffers.recycle(pending.request);
        }
        match self.requests.is_empty() {
            true if self.ended_us.is_some() => self.emit_disconnect(out),
            true => self.begin_recording(out),
            false => Ok(()),
        }
    }

    /// Emits the requests in progress with their partial answers.
    pub(super) fn emit_in_progress(&mut self, out: &mut Output<'_>) -> Result<(), SinkError> {
        while let Some((mut pending, begun_us)) = self.requests.take_in_progress() {
            self.emit(&mut pending, begun_us, out)?;
        }
        Ok(())
    }

    fn emit(
        &mut self,
        pending: &mut PendingEvent,
        begun_us: i64,
        out: &mut Output<'_>,
    ) -> Result<(), SinkError> {
        self.record_state(pending);
        let is_statement = pending.request.sql().is_some();
        let recorded = match &mut self.recorded {
            Some(recorded) if pending.recording == EventRecording::Recorded => recorded,
            _ => {
                out.account.statements_unrecorded +=
                    u64::from(is_statement && pending.recording != EventRecording::Counted);
                return Ok(());
            }
        };
        // What never existed has no text to lose: its PREPARE or DECLARE failed, or there was none.
        let is_unknown = pending.unreplayable == Some(workload::Unreplayable::StatementUnknown);
        let code = pending.sqlstate.as_ref();
        let never_existed = code.is_some_and(|code| UNKNOWN_NAME.contains(&code.as_str()));
        out.account.statements_unknown += u64::from(is_unknown && !never_existed);
        out.account.too_long += u64::from(pending.copy.as_ref().is_some_and(|copy| copy.cut));
        if pending.done_us.is_none() {
            // The answer is incomplete.
            (pending.rows, pending.digest, pending.first_rows) = (None, None, None);
        }
        let particulars = super::describe::describe_event(pending, out.details_cache);
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
            kind: kind_of(&pending.request),
            outcome,
            unreplayable: pending.unreplayable,
            source: 0,
            line: pending.place,
            prelude: false,
            wire_details: Some(&particulars),
        };
        recorded.sequence += 1;
        recorded.last_us = event.due_us;
        recorded.statements += u64::from(is_statement);
        out.account.events += 1;
        out.account.statements += u64::from(is_statement);
        out.sink.event(&event)
    }

    /// Applies the effect of a statement to its session's state, for a recording that begins later.
    fn record_state(&mut self, pending: &PendingEvent) {
        let sql: Option<&str> = match &pending.request {
            Request::Simple { sql } => Some(sql),
            // Drivers also change settings by prepared statements; those have texts without
            // values.
            Request::Execute {
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

    pub(super) fn emit_disconnect(&mut self, out: &mut Output<'_>) -> Result<(), SinkError> {
        let Some(ended_us) = self.ended_us else {
            return Ok(());
        };
        if self.recorded.is_some() {
            self.emit_event(KindRef::Disconnect, ended_us, false, None, out)?;
            self.end_session(true, out)?;
        }
        Ok(())
    }

    fn end_session(&mut self, end_seen: bool, out: &mut Output<'_>) -> Result<(), SinkError> {
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

    /// Stops recording; the connection continues.
    pub(super) fn stop_recording(
        &mut self,
        at_us: i64,
        out: &mut Output<'_>,
    ) -> Result<(), SinkError> {
        // Requests in progress are recorded with their partial answers, and tracked further.
        let mut requests = std::mem::take(&mut self.requests);
        let mut result = Ok(());
        for (pending, begun_us) in requests.in_progress() {
            if result.is_ok() && pending.recording == EventRecording::Recorded {
                result = self.emit(pending, begun_us, out);
                pending.recording = EventRecording::Counted;
            }
        }
        self.requests = requests;
        result?;
        if let Some(recorded) = &mut self.recorded {
            recorded.last_us = recorded.last_us.max(at_us);
        }
        self.end_session(false, out)
    }
}

fn kind_of(request: &Request) -> KindRef<'_> {
    match request {
        Request::Simple { sql } => KindRef::Simple { sql },
        Request::Prepare { statement } => KindRef::Prepare {
            statement: &statement.name,
            sql: &statement.sql,
        },
        Request::Execute {
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
        Request::Fetch { statement, portal } => KindRef::Fetch {
            statement: (statement.as_ref()).map_or("", |statement| &statement.name),
            portal,
            sql: (statement.as_ref()).map_or("", |statement| &statement.sql),
        },
        Request::FunctionCall {
            function,
            sql,
            parameters,
        } => KindRef::FunctionCall {
            function,
            sql,
            parameters: parameters.borrowed(),
        },
        Request::Cancel => KindRef::Cancel,
    }
}
