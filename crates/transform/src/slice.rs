//! Cuts a slice out of a stream of events.

use std::collections::HashMap;

use super::filter::{Filter, StatementFilter};
use super::time_bound::TimeBound;
use sql::Effect;
use workload::session_state::{
    AnalyzedStatement, SessionStateTracker, analyze_statements, join_statements, with_statement,
};
use workload::{Event, EventKind, ExclusionReason, Session, SliceAccount};

mod error;

pub use error::SliceError;
use error::SourceSummary;

/// Definition of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slice {
    /// Start: events due from here on; all if absent.
    pub from: Option<TimeBound>,
    /// End: events due before here; all if absent.
    pub to: Option<TimeBound>,
    /// Sessions and statements to select.
    pub filter: Filter,
}

impl Slice {
    /// Returns whether the slice selects everything.
    pub fn is_everything(&self) -> bool {
        *self == Slice::default()
    }
}

/// Cuts a slice. All times are wall times, in microseconds since 1970-01-01 UTC.
#[derive(Debug)]
pub struct Slicer {
    slice: Slice,
    /// Start and end, once the start of the source is known that offsets are relative to.
    window: Option<(i64, i64)>,
    statement_filter: StatementFilter,
    sessions: HashMap<u64, SliceSession>,
    account: SliceAccount,
    summary: SourceSummary,
}

/// State of a session that may continue.
#[derive(Debug, Default)]
struct SliceSession {
    excluded: Option<ExclusionReason>,
    /// Some of its events are in the slice.
    kept: bool,
    connect: Option<Event>,
    state: SessionStateTracker,
    /// Numbers of events that were absorbed into the session state: from before the slice, and from
    /// within it.
    absorbed_before: u64,
    absorbed_within: u64,
    sequence: u64,
    statements: u64,
    last_us: i64,
    prelude_cut: bool,
    end: SessionEnd,
}

/// End of a session, as far as a slice is concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SessionEnd {
    /// The session may have more events in the slice.
    #[default]
    Open,
    /// The session has ended within the slice.
    Disconnected,
    /// The slice's end has passed.
    SliceEnded,
}

impl Slicer {
    /// Creates a slicer for a source that starts at `start_wall_us`, which offsets are relative to.
    /// If absent, they are relative to the first event.
    pub fn new(slice: Slice, start_wall_us: Option<i64>) -> Self {
        let mut slicer = Slicer {
            slice,
            window: None,
            statement_filter: StatementFilter::new(),
            sessions: HashMap::new(),
            account: SliceAccount::default(),
            summary: SourceSummary::default(),
        };
        if let Some(start_us) = start_wall_us {
            slicer.set_window(start_us);
        }
        slicer
    }

    fn set_window(&mut self, start_us: i64) -> (i64, i64) {
        self.account.from_us = self.slice.from.map(|moment| moment.wall_us(start_us));
        self.account.to_us = self.slice.to.map(|moment| moment.wall_us(start_us));
        let window = (
            self.account.from_us.unwrap_or(i64::MIN),
            self.account.to_us.unwrap_or(i64::MAX),
        );
        self.window = Some(window);
        window
    }

    /// Account of the events so far. Held events are not counted yet.
    pub fn account(&self) -> &SliceAccount {
        &self.account
    }

    /// Returns whether the source's session may have more events: it began and has not ended.
    pub fn is_live(&self, session: u64) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Handles the next event; `keep` receives the events of the slice. Sessions keep their
    /// numbers, and the events of each are renumbered.
    ///
    /// # Errors
    /// If `keep` fails.
    pub fn handle_event<E>(
        &mut self,
        event: Event,
        keep: &mut impl FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let (from_us, to_us) = match self.window {
            Some(window) => window,
            None => self.set_window(event.due_us),
        };
        self.account.events += 1;
        self.summary.add_time(event.due_us);
        let Slicer {
            slice,
            statement_filter,
            sessions,
            account,
            summary,
            ..
        } = self;
        let live = sessions.entry(event.session).or_default();
        if let EventKind::Connect {
            database,
            user,
            application,
        } = &event.kind
        {
            account.sessions += 1;
            live.excluded = slice
                .filter
                .check_session(database, user, application)
                .err();
            summary.add_session(database, user, application, live.excluded.is_none());
        }
        if let Some(reason) = live.excluded {
            account.exclude(reason, 1);
            return Ok(());
        }
        live.last_us = live.last_us.max(event.due_us);
        if event.due_us >= to_us {
            live.end_slice(account);
            account.exclude(ExclusionReason::After, 1);
            return Ok(());
        }
        let mut cut = EventCut {
            live,
            account,
            from_us,
            keep,
        };
        match event.kind.sql().cloned() {
            Some(sql) => {
                summary.statements += u64::from(event.due_us >= from_us);
                let decision = statement_filter.check(&slice.filter, &sql);
                cut.handle_statement(event, &sql, decision)
            }
            None => cut.handle_other(event, slice.filter.takes_all_statements()),
        }
    }

    /// Returns whether a server event belongs to the slice, and counts it: by its time, and for an
    /// event of a session also by that session.
    pub fn includes_server_event(&mut self, at_us: i64, session: Option<u64>) -> bool {
        // Offsets are relative to the first event; server events before it are before the slice.
        let (from_us, to_us) = match (self.window, self.slice.from, self.slice.to) {
            (Some(window), ..) => window,
            (None, None, None) => (i64::MIN, i64::MAX),
            (None, ..) => (i64::MAX, i64::MAX),
        };
        let excluded = session
            .and_then(|id| self.sessions.get(&id))
            .is_some_and(|live| live.excluded.is_some());
        let takes = (from_us..to_us).contains(&at_us) && !excluded;
        self.account.server_events += 1;
        self.account.server_events_left_out += u64::from(!takes);
        takes
    }

    /// Handles the record of a session without further events. Returns its record in the slice, if
    /// any of its events was kept.
    pub fn finish_session(&mut self, session: Session) -> Option<Session> {
        let mut live = self.sessions.remove(&session.id)?;
        let ends_in_transaction = live.state.in_taken_transaction() && live.end == SessionEnd::Open;
        let end_seen = live.end == SessionEnd::Disconnected;
        if ends_in_transaction {
            self.account.transactions_open += 1;
        }
        live.finish(&mut self.account);
        if !live.kept {
            return None;
        }
        let (from_us, to_us) = self.window.unwrap_or((i64::MIN, i64::MAX));
        Some(Session {
            start_us: session.start_us.max(from_us),
            end_us: match end_seen {
                true => session.end_us,
                false => session.end_us.min(to_us),
            },
            start_seen: session.start_seen && !live.prelude_cut,
            end_seen: session.end_seen && end_seen,
            statements: live.statements,
            ..session
        })
    }

    /// Lists the remaining sessions, whose records are still to be passed to [`Self::finish_session`].
    pub fn remaining_sessions(&self) -> Vec<u64> {
        let mut left: Vec<u64> = self.sessions.keys().copied().collect();
        left.sort_unstable();
        left
    }

    /// Finishes the slice; returns the account of every event.
    ///
    /// # Errors
    /// If the slice is empty; the error describes the available events.
    pub fn finish(mut self) -> Result<SliceAccount, SliceError> {
        for (_, mut live) in std::mem::take(&mut self.sessions) {
            live.finish(&mut self.account);
        }
        debug_assert!(self.account.adds_up(), "{:?}", self.account);
        if self.account.kept > 0 {
            return Ok(self.account);
        }
        Err(self.summary.empty_slice_error(&self.slice, &self.account))
    }
}

impl SliceSession {
    /// Ends the session's part of the slice; held events are no longer needed.
    fn finish(&mut self, account: &mut SliceAccount) {
        if self.kept {
            let empty = self.state.take_transaction().len() as u64;
            account.exclude(ExclusionReason::EmptyTransaction, empty);
        } else {
            account.exclude(ExclusionReason::Before, self.absorbed_before);
            account.exclude(ExclusionReason::NothingKept, self.absorbed_within);
            (self.absorbed_before, self.absorbed_within) = (0, 0);
        }
    }

    /// Handles the slice's end.
    fn end_slice(&mut self, account: &mut SliceAccount) {
        match self.end {
            SessionEnd::SliceEnded => return,
            SessionEnd::Disconnected => {}
            SessionEnd::Open => {
                self.end = SessionEnd::SliceEnded;
                if self.state.in_taken_transaction() {
                    account.transactions_open += 1;
                }
            }
        }
        self.finish(account);
        self.state = SessionStateTracker::default();
    }
}

/// Handles one event of one session.
struct EventCut<'a, K> {
    live: &'a mut SliceSession,
    account: &'a mut SliceAccount,
    from_us: i64,
    keep: &'a mut K,
}

impl<K, E> EventCut<'_, K>
where
    K: FnMut(Event) -> Result<(), E>,
{
    fn handle_statement(
        &mut self,
        event: Event,
        sql: &str,
        decision: Result<(), ExclusionReason>,
    ) -> Result<(), E> {
        let within = event.due_us >= self.from_us;
        let statements = analyze_statements(&event.kind, sql);
        if let EventKind::Execute { statement, .. } = &event.kind {
            self.live.state.forget_message_prepared(statement);
        }
        if decision.is_ok() && within {
            self.begin_session()?;
            self.keep_transaction()?;
            self.live.state.record(&event, &statements, |_| false);
            self.live.state.take_transaction();
            return self.keep_event(event, false);
        }
        let wanted = decision.is_ok();
        let state = &self.live.state;
        let changing: Vec<bool> = statements
            .iter()
            .map(|one| state.is_changed_by(&one.effects))
            .collect();
        let changes = changing.iter().any(|changes| *changes);
        if !self.live.kept {
            self.live
                .state
                .record(&event, &statements, |place| wanted || changing[place]);
            match decision {
                Err(reason) if within && !changes => self.account.exclude(reason, 1),
                _ if within => self.live.absorbed_within += 1,
                _ => self.live.absorbed_before += 1,
            }
            return Ok(());
        }
        let (Err(reason), true) = (decision, changes) else {
            // A statement without effect on the session can still fail its transaction: without
            // it the COMMIT that follows would commit work that was rolled back.
            if self.live.state.fails_transaction(&event) {
                let kept = self.live.state.in_taken_transaction();
                self.live.state.record(&event, &statements, |_| !kept);
                return match kept {
                    true => self.keep_event(event, true),
                    false => Ok(()),
                };
            }
            self.live.state.record(&event, &statements, |_| false);
            if let Err(reason) = decision {
                self.account.exclude(reason, 1);
            }
            return Ok(());
        };
        debug_assert!(within, "{reason:?}");
        self.handle_state_change(event, &statements, &changing)
    }

    /// Handles a statement outside of the filter that changes the state of a kept session.
    fn handle_state_change(
        &mut self,
        event: Event,
        statements: &[AnalyzedStatement<'_>],
        changing: &[bool],
    ) -> Result<(), E> {
        let several = statements.len() > 1;
        let cut = match several {
            false => event.clone(),
            true => {
                let parts = statements
                    .iter()
                    .zip(changing)
                    .filter(|(_, changes)| **changes);
                let parts = parts.map(|(one, _)| with_statement(&event, &one.statement));
                join_statements(parts.collect())
                    .pop()
                    .unwrap_or_else(|| event.clone())
            }
        };
        let lasting = statements.iter().any(|one| {
            self.live.state.is_changed_by(&one.effects)
                && !one.effects.iter().all(Effect::is_transaction_local)
        });
        let was_open = self.live.state.in_transaction();
        let may_wait = !several && !lasting && !self.live.state.retains_much();
        if may_wait && was_open && !self.live.state.in_taken_transaction() {
            let ends = matches!(
                statements[0].effects[..],
                [Effect::Commit { chain: false } | Effect::Rollback { chain: false }]
            );
            if ends {
                // The transaction contained neither selected statements nor lasting changes.
                let empty = self.live.state.take_transaction().len() as u64 + 1;
                self.account
                    .exclude(ExclusionReason::EmptyTransaction, empty);
                self.live.state.record(&event, statements, |_| false);
                return Ok(());
            }
            let chains = matches!(
                statements[0].effects[..],
                [Effect::Commit { .. } | Effect::Rollback { .. }]
            );
            if !chains {
                self.live.state.record(&event, statements, |_| true);
                return Ok(());
            }
        }
        let succeeded = event.outcome.sqlstate.is_none();
        if may_wait && !was_open && succeeded && statements[0].effects == [Effect::Begin] {
            self.live.state.record(&event, statements, |_| true);
            return Ok(());
        }
        self.keep_transaction()?;
        self.live.state.record(&event, statements, |_| false);
        self.live.state.take_transaction();
        self.keep_event(cut, true)
    }

    /// Handles connects, disconnects and cancels.
    fn handle_other(&mut self, event: Event, takes_all_statements: bool) -> Result<(), E> {
        let within = event.due_us >= self.from_us;
        match event.kind {
            EventKind::Connect { .. } => {
                if within && takes_all_statements {
                    self.live.kept = true;
                    self.account.sessions_kept += 1;
                    return self.keep_event(event, false);
                }
                self.live.connect = Some(event);
            }
            EventKind::Disconnect | EventKind::Cancel if self.live.kept => {
                if event.kind == EventKind::Disconnect {
                    self.live.end = SessionEnd::Disconnected;
                    let empty = self.live.state.take_transaction().len() as u64;
                    self.account
                        .exclude(ExclusionReason::EmptyTransaction, empty);
                }
                return self.keep_event(event, false);
            }
            _ => {}
        }
        match within {
            true => self.live.absorbed_within += 1,
            false => self.live.absorbed_before += 1,
        }
        Ok(())
    }

    /// Begins the session in the slice.
    fn begin_session(&mut self) -> Result<(), E> {
        if self.live.kept {
            return Ok(());
        }
        self.live.kept = true;
        self.account.sessions_kept += 1;
        let restoring = self.live.state.take_statements();
        let connect = self.live.connect.take();
        let was_there = connect
            .as_ref()
            .is_some_and(|event| event.due_us < self.from_us);
        self.account.sessions_before += u64::from(was_there);
        self.account.transactions_resumed += u64::from(
            restoring.in_transaction
                && restoring
                    .events
                    .last()
                    .is_some_and(|event| event.due_us < self.from_us),
        );
        self.account.temporary_objects += restoring.temporary_objects;
        self.account.preludes_cut += u64::from(restoring.is_truncated);
        self.live.prelude_cut = restoring.is_truncated;
        let (mut before, mut within) = (0, 0);
        for event in connect.into_iter().chain(restoring.events) {
            match event.due_us < self.from_us {
                true => {
                    before += 1;
                    self.account.prelude += 1;
                    let due_us = self.from_us;
                    self.emit(Event {
                        due_us,
                        prelude: true,
                        ..event
                    })?;
                }
                false => {
                    within += 1;
                    let for_state = event.kind.is_statement();
                    self.keep_event(event, for_state)?;
                }
            }
        }
        let live = &mut *self.live;
        self.account.exclude(
            ExclusionReason::Before,
            live.absorbed_before.saturating_sub(before),
        );
        self.account.exclude(
            ExclusionReason::Superseded,
            live.absorbed_within.saturating_sub(within),
        );
        (live.absorbed_before, live.absorbed_within) = (0, 0);
        Ok(())
    }

    /// Keeps the held events of the open transaction.
    fn keep_transaction(&mut self) -> Result<(), E> {
        for event in self.live.state.take_transaction() {
            self.keep_event(event, true)?;
        }
        Ok(())
    }

    fn keep_event(&mut self, event: Event, for_state: bool) -> Result<(), E> {
        self.account.kept += 1;
        self.account.kept_for_state += u64::from(for_state);
        self.emit(event)
    }

    fn emit(&mut self, event: Event) -> Result<(), E> {
        let live = &mut *self.live;
        live.statements += u64::from(event.kind.is_statement());
        let event = Event {
            sequence: live.sequence,
            ..event
        };
        live.sequence += 1;
        (self.keep)(event)
    }
}
