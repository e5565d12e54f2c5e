//! Cuts a slice out of a stream of events.

use std::collections::HashMap;

use super::filter::{Filter, StatementJudge};
use super::moment::Moment;
use sql::Effect;
use workload::session_state::{
    AnalyzedStatement, SessionStateTracker, analyze_statements, join_statements, with_statement,
};
use workload::{Event, EventKind, LeftOut, Session, SliceAccount};

mod error;

use error::Met;
pub use error::SliceError;

/// What to cut out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slice {
    /// What is due from here on; all if not given.
    pub from: Option<Moment>,
    /// What is due before here; all if not given.
    pub to: Option<Moment>,
    /// Of which sessions and statements.
    pub filter: Filter,
}

impl Slice {
    /// It cuts nothing away.
    pub fn is_everything(&self) -> bool {
        *self == Slice::default()
    }
}

/// Cuts a slice. Times are wall time, in microseconds since 1970-01-01 UTC.
#[derive(Debug)]
pub struct Slicer {
    slice: Slice,
    /// From and to, once the start is known that offsets count from.
    window: Option<(i64, i64)>,
    judge: StatementJudge,
    sessions: HashMap<u64, Live>,
    account: SliceAccount,
    met: Met,
}

/// A session that may go on.
#[derive(Debug, Default)]
struct Live {
    excluded: Option<LeftOut>,
    /// Something of it is in the slice.
    kept: bool,
    connect: Option<Event>,
    state: SessionStateTracker,
    /// What was taken into the state: events from before the slice, and from within.
    absorbed_before: u64,
    absorbed_within: u64,
    sequence: u64,
    statements: u64,
    last_us: i64,
    prelude_cut: bool,
    end_seen: bool,
    /// The slice's end has come.
    over: bool,
}

impl Slicer {
    /// A slicer of a source that starts at `start_wall_us`, which offsets count from. Where it is
    /// not given, they count from the first event that comes.
    pub fn new(slice: Slice, start_wall_us: Option<i64>) -> Self {
        let mut slicer = Slicer {
            slice,
            window: None,
            judge: StatementJudge::new(),
            sessions: HashMap::new(),
            account: SliceAccount::default(),
            met: Met::default(),
        };
        if let Some(start_us) = start_wall_us {
            slicer.starts(start_us);
        }
        slicer
    }

    fn starts(&mut self, start_us: i64) -> (i64, i64) {
        self.account.from_us = self.slice.from.map(|moment| moment.wall_us(start_us));
        self.account.to_us = self.slice.to.map(|moment| moment.wall_us(start_us));
        let window = (
            self.account.from_us.unwrap_or(i64::MIN),
            self.account.to_us.unwrap_or(i64::MAX),
        );
        self.window = Some(window);
        window
    }

    /// What became of the events so far. Those that are held are in no count yet.
    pub fn account(&self) -> &SliceAccount {
        &self.account
    }

    /// Whether more of the source's session may come: it began and has not ended.
    pub fn is_live(&self, session: u64) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Takes the next event; `keep` gets what is in the slice: sessions with the
    /// numbers that they have, the events of each numbered anew.
    ///
    /// # Errors
    /// Those of `keep`.
    pub fn event<E>(
        &mut self,
        event: Event,
        keep: &mut impl FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let (from_us, to_us) = match self.window {
            Some(window) => window,
            None => self.starts(event.due_us),
        };
        self.account.events += 1;
        self.met.time(event.due_us);
        let Slicer {
            slice,
            judge,
            sessions,
            account,
            met,
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
            live.excluded = slice.filter.session(database, user, application).err();
            met.session(database, user, application, live.excluded.is_none());
        }
        if let Some(reason) = live.excluded {
            account.leave_out(reason, 1);
            return Ok(());
        }
        live.last_us = live.last_us.max(event.due_us);
        if event.due_us >= to_us {
            live.leave(account);
            account.leave_out(LeftOut::After, 1);
            return Ok(());
        }
        let mut cut = Cut {
            live,
            account,
            from_us,
            keep,
        };
        match event.kind.sql().cloned() {
            Some(sql) => {
                met.statements += u64::from(event.due_us >= from_us);
                let judged = judge.judge(&slice.filter, &sql);
                cut.statement(event, &sql, judged)
            }
            None => cut.other(event, slice.filter.takes_all_statements()),
        }
    }

    /// Whether something that the server did belongs to the slice: what it did of its own by its
    /// time, what a session of it says also by that session. It is counted.
    pub fn takes_server_event(&mut self, at_us: i64, session: Option<u64>) -> bool {
        // Offsets count from the first event; what the server did before is before the slice.
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

    /// Takes the record of a session whose events have all come; hands out that of the slice, if
    /// something of it was kept.
    pub fn session(&mut self, session: Session) -> Option<Session> {
        let mut live = self.sessions.remove(&session.id)?;
        let ends_in_transaction = live.state.in_taken_transaction() && !live.end_seen && !live.over;
        if ends_in_transaction {
            self.account.transactions_open += 1;
        }
        live.settle(&mut self.account);
        if !live.kept {
            return None;
        }
        let (from_us, to_us) = self.window.unwrap_or((i64::MIN, i64::MAX));
        Some(Session {
            start_us: session.start_us.max(from_us),
            end_us: match live.end_seen {
                true => session.end_us,
                false => session.end_us.min(to_us),
            },
            start_seen: session.start_seen && !live.prelude_cut,
            end_seen: session.end_seen && live.end_seen,
            statements: live.statements,
            ..session
        })
    }

    /// The sessions that are left, whose record is still to be given to [`Self::session`].
    pub fn left(&self) -> Vec<u64> {
        let mut left: Vec<u64> = self.sessions.keys().copied().collect();
        left.sort_unstable();
        left
    }

    /// Ends the slicing: what became of every event.
    ///
    /// # Errors
    /// Where nothing is in the slice, with what there would have been.
    pub fn finish(mut self) -> Result<SliceAccount, SliceError> {
        for (_, mut live) in std::mem::take(&mut self.sessions) {
            live.settle(&mut self.account);
        }
        debug_assert!(self.account.adds_up(), "{:?}", self.account);
        if self.account.kept > 0 {
            return Ok(self.account);
        }
        Err(self.met.nothing(&self.slice, &self.account))
    }
}

impl Live {
    /// The session's part of the slice is over; what is held is not needed any more.
    fn settle(&mut self, account: &mut SliceAccount) {
        if self.kept {
            let empty = self.state.take_transaction().len() as u64;
            account.leave_out(LeftOut::EmptyTransaction, empty);
        } else {
            account.leave_out(LeftOut::Before, self.absorbed_before);
            account.leave_out(LeftOut::NothingKept, self.absorbed_within);
            (self.absorbed_before, self.absorbed_within) = (0, 0);
        }
    }

    /// The slice's end has come.
    fn leave(&mut self, account: &mut SliceAccount) {
        if self.over {
            return;
        }
        self.over = true;
        if self.state.in_taken_transaction() && !self.end_seen {
            account.transactions_open += 1;
        }
        self.settle(account);
        self.state = SessionStateTracker::default();
    }
}

/// One event's way through the slicer.
struct Cut<'a, K> {
    live: &'a mut Live,
    account: &'a mut SliceAccount,
    from_us: i64,
    keep: &'a mut K,
}

impl<K, E> Cut<'_, K>
where
    K: FnMut(Event) -> Result<(), E>,
{
    fn statement(&mut self, event: Event, sql: &str, judged: Result<(), LeftOut>) -> Result<(), E> {
        let within = event.due_us >= self.from_us;
        let statements = analyze_statements(&event.kind, sql);
        if let EventKind::Execute { statement, .. } = &event.kind {
            self.live.state.forget_message_prepared(statement);
        }
        if judged.is_ok() && within {
            self.begin()?;
            self.keep_transaction()?;
            self.live.state.record(&event, &statements, |_| false);
            self.live.state.take_transaction();
            return self.kept(event, false);
        }
        let wanted = judged.is_ok();
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
            match judged {
                Err(reason) if within && !changes => self.account.leave_out(reason, 1),
                _ if within => self.live.absorbed_within += 1,
                _ => self.live.absorbed_before += 1,
            }
            return Ok(());
        }
        let (Err(reason), true) = (judged, changes) else {
            // What does nothing to the session can still fail its transaction: without it the
            // COMMIT behind would commit what was rolled back.
            if self.live.state.fails_transaction(&event) {
                let kept = self.live.state.in_taken_transaction();
                self.live.state.record(&event, &statements, |_| !kept);
                return match kept {
                    true => self.kept(event, true),
                    false => Ok(()),
                };
            }
            self.live.state.record(&event, &statements, |_| false);
            if let Err(reason) = judged {
                self.account.leave_out(reason, 1);
            }
            return Ok(());
        };
        debug_assert!(within, "{reason:?}");
        self.state_of_kept(event, &statements, &changing)
    }

    /// A statement that no filter asks for does something that a kept session holds.
    fn state_of_kept(
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
                && !one.effects.iter().all(Effect::is_of_transaction)
        });
        let was_open = self.live.state.in_transaction();
        let may_wait = !several && !lasting && !self.live.state.retains_much();
        if may_wait && was_open && !self.live.state.in_taken_transaction() {
            let ends = matches!(
                statements[0].effects[..],
                [Effect::Commit { chain: false } | Effect::Rollback { chain: false }]
            );
            if ends {
                // Nothing that was asked for, and nothing that lasts, stood in it.
                let empty = self.live.state.take_transaction().len() as u64 + 1;
                self.account.leave_out(LeftOut::EmptyTransaction, empty);
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
        self.kept(cut, true)
    }

    /// Connects, disconnects and cancels.
    fn other(&mut self, event: Event, takes_all_statements: bool) -> Result<(), E> {
        let within = event.due_us >= self.from_us;
        match event.kind {
            EventKind::Connect { .. } => {
                if within && takes_all_statements {
                    self.live.kept = true;
                    self.account.sessions_kept += 1;
                    return self.kept(event, false);
                }
                self.live.connect = Some(event);
            }
            EventKind::Disconnect | EventKind::Cancel if self.live.kept => {
                if event.kind == EventKind::Disconnect {
                    self.live.end_seen = true;
                    let empty = self.live.state.take_transaction().len() as u64;
                    self.account.leave_out(LeftOut::EmptyTransaction, empty);
                }
                return self.kept(event, false);
            }
            _ => {}
        }
        match within {
            true => self.live.absorbed_within += 1,
            false => self.live.absorbed_before += 1,
        }
        Ok(())
    }

    /// The session is in the slice from here on.
    fn begin(&mut self) -> Result<(), E> {
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
                    self.give(Event {
                        due_us,
                        prelude: true,
                        ..event
                    })?;
                }
                false => {
                    within += 1;
                    let for_state = event.kind.is_statement();
                    self.kept(event, for_state)?;
                }
            }
        }
        let live = &mut *self.live;
        self.account
            .leave_out(LeftOut::Before, live.absorbed_before.saturating_sub(before));
        self.account.leave_out(
            LeftOut::Superseded,
            live.absorbed_within.saturating_sub(within),
        );
        (live.absorbed_before, live.absorbed_within) = (0, 0);
        Ok(())
    }

    /// What was held of the open transaction is kept.
    fn keep_transaction(&mut self) -> Result<(), E> {
        for event in self.live.state.take_transaction() {
            self.kept(event, true)?;
        }
        Ok(())
    }

    fn kept(&mut self, event: Event, for_state: bool) -> Result<(), E> {
        self.account.kept += 1;
        self.account.kept_for_state += u64::from(for_state);
        self.give(event)
    }

    fn give(&mut self, event: Event) -> Result<(), E> {
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
