//! Writes events, sessions and server events into the open parts.

use clock::utc_text;
use workload::series::{HeldEvent, NO_SESSION, PossibleGap, RunningEvent};
use workload::{EventRef, KindRef, ServerEvent, Session};

use super::carried::CARRIED_BYTES_MAX;
use super::part::OpenPart;
use super::recorded::{HeldEvents, RecordedEvent};
use super::{AHEAD_US_MAX, LATE_US, NO_PART, SeriesError, SeriesRecorder};
use crate::sink::{EventSink, SessionStart, SinkError};

impl SeriesRecorder {
    /// Reports the events that were left out, since earlier captures have them.
    pub(super) fn note_left_out(&self) {
        let Some(to_us) = self.recorded.to_us().filter(|_| self.left_out > 0) else {
            return;
        };
        (self.on_note)(&format!(
            "left out {} events that ended by {}, since the series has them",
            self.left_out,
            utc_text(to_us)
        ));
        if self.recorded.in_gaps() > 0 {
            (self.on_note)(&format!(
                "{} of these events ended in a gap of the series, so it may not have them; a gap is not filled, so capture the log into a new series if you need them",
                self.recorded.in_gaps()
            ));
        }
    }

    /// Whether the source has the end of an event at its time. A connection that it lacks is assumed when the first statement of
    /// its session was sent, which can be long before the source begins.
    fn has_end(&self, event: &EventRef<'_>) -> bool {
        let is_connect = matches!(event.kind, KindRef::Connect { .. });
        !is_connect || self.sessions.is_start_seen(event.session)
    }

    /// Leaves out an event that an earlier capture has, but follows the state of its session.
    fn leave_out(&mut self, event: &EventRef<'_>, times: RunningEvent) {
        self.left_out += 1;
        if self.has_end(event) {
            self.recorded.note_left_out(times);
        }
        if self.sessions.get_mut(event.session).is_none() {
            let in_series = self.first_session + event.session;
            self.sessions.begin(event, in_series, NO_PART);
        }
        self.sessions.note_unended(event, times);
        self.sessions.follow(event, CARRIED_BYTES_MAX);
    }

    /// Makes sure that the session of an event has begun in the part of this index. Returns the index.
    fn enter_part(&mut self, event: &EventRef<'_>, index: usize) -> Result<usize, SinkError> {
        let number = self.open[index].member.number;
        let Some(session) = self.sessions.get_mut(event.session) else {
            let in_series = self.first_session + event.session;
            self.sessions.begin(event, in_series, number);
            self.open[index].note_open_sessions(self.sessions.len());
            return Ok(index);
        };
        if session.part >= number {
            // Within a session time does not go back, so it is this part, unless the source breaks that rule.
            let is_it = |part: &OpenPart| part.member.number == session.part;
            return Ok(self.open.iter().position(is_it).unwrap_or(index));
        }
        if let Some(last) = (self.open.iter_mut()).find(|part| part.member.number == session.part) {
            last.sink.session(session.record.clone())?;
        }
        self.open[index].carry(session, event.due_us)?;
        Ok(index)
    }
}

impl EventSink for SeriesRecorder {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        let sql = event.kind.sql().filter(|_| !self.is_live_traffic);
        let times = RunningEvent::new(event.due_us, event.outcome.duration_us, sql)
            .with_process(self.sessions.process(event.session));
        let is_dated = !self.is_live_traffic && self.ahead_us(times.ended_us) <= AHEAD_US_MAX;
        if is_dated {
            self.recorded.note_read(times);
        }
        self.held.deliver(event.session, times);
        match self.recorded.take(times) {
            RecordedEvent::Nothing if is_dated && self.has_end(event) => {
                self.note_new(times.ended_us).map_err(SinkError::new)?;
            }
            RecordedEvent::Nothing => {}
            RecordedEvent::Settled => {
                self.leave_out(event, times);
                return Ok(());
            }
            RecordedEvent::Noted { ended_us } => {
                if let Some(gap) = self.gap.as_mut().filter(|_| is_dated) {
                    gap.begin_after(ended_us);
                    gap.end_by(times.ended_us);
                }
                self.leave_out(event, times);
                return Ok(());
            }
        }
        let (at_us, is_ahead) = self.part_time(event.due_us);
        // A part that is opened for the event does not have it, so its first state has it as held.
        self.in_delivery = Some(HeldEvent::of_source(event.session, times));
        let index = self.part_for(at_us).map_err(SinkError::new)?;
        self.in_delivery = None;
        let index = self.enter_part(event, index)?;
        let is_oldest = index == 0;
        let part = &mut self.open[index];
        part.events_ahead += u64::from(is_ahead);
        if !self.is_live_traffic {
            part.note_running(times, self.held.limit(self.delivered_to_us));
        }
        if let Some(session) = self.sessions.get_mut(event.session) {
            part.write(session, event, (times, is_oldest))?;
            self.sessions.note_unended(event, times);
            let dropped = self.sessions.follow(event, CARRIED_BYTES_MAX);
            if dropped > 0 {
                self.publish();
            }
        }
        let due_us = event.due_us;
        let (first_us, last_us) = self.span_us.unwrap_or((due_us, due_us));
        self.span_us = Some((first_us.min(due_us), last_us.max(due_us)));
        self.note_reported(times.ended_us);
        self.events_since_checkpoint += 1;
        if self.events_since_checkpoint >= self.checkpoint_events && !self.is_live_traffic {
            self.checkpoint(self.delivered_to_us.saturating_sub(LATE_US))?;
        }
        let oldest = self.open.front();
        let is_over = |part: &OpenPart| part.member.to_us + self.wait_us <= self.delivered_to_us;
        match self.open.len() > 1 && oldest.is_some_and(is_over) {
            true => self.advance(self.delivered_to_us),
            false => Ok(()),
        }
    }

    fn session_begins(&mut self, start: SessionStart<'_>) -> Result<(), SinkError> {
        self.sessions.expect(start);
        Ok(())
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        let Some(ended) = self.sessions.end(session.id) else {
            return Ok(());
        };
        if !session.end_seen {
            // The source has ended before its last statement did.
            self.unended.extend(ended.unended);
        }
        let is_its = |part: &&mut OpenPart| part.member.number == ended.part;
        let Some(part) = self.open.iter_mut().find(is_its) else {
            // The last part with an event of it is complete, and has a record of it.
            return Ok(());
        };
        let record = ended.record;
        part.sink.session(Session {
            id: record.id,
            start_us: record.start_us,
            end_us: record.end_us.max(session.end_us),
            start_seen: session.start_seen && record.start_seen,
            statements: record.statements,
            ..session
        })
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        if self.recorded.take_server(event.at_us) {
            self.left_out += 1;
            let times = RunningEvent::new(event.at_us, None, None);
            self.recorded.note_left_out(times);
            return Ok(());
        }
        let (at_us, is_ahead) = self.part_time(event.at_us);
        if let Some(gap) = (self.gap.as_mut()).filter(|_| !is_ahead && !self.is_live_traffic) {
            // After a kill, server events before the gap are read again, so they end no earlier one.
            gap.end_by(event.at_us);
        }
        let index = self.part_for(at_us).map_err(SinkError::new)?;
        let session = event.session.map(|session| session + self.first_session);
        let event = ServerEvent { session, ..event };
        let part = &mut self.open[index];
        part.events_ahead += u64::from(is_ahead);
        if !self.is_live_traffic {
            part.note_running_server(event.at_us, self.held.limit(self.delivered_to_us));
        }
        let reported_us = event.at_us;
        part.sink.server_event(event)?;
        self.note_reported(reported_us);
        Ok(())
    }

    fn note_possible_gaps(&mut self, gaps: &[PossibleGap]) -> Result<(), SinkError> {
        self.store_possible_gaps(gaps).map_err(SinkError::new)
    }

    /// Such a series is not continued: the time up to which it has everything differs between the servers.
    fn note_several_servers(&mut self) -> Result<(), SinkError> {
        if std::mem::replace(&mut self.has_several_servers, true) {
            return Ok(());
        }
        let is_continued = self.recorded.to_us().is_some();
        if is_continued && self.span_us.is_none() {
            let refused = SeriesError::OtherServers(self.path.clone());
            return Err(SinkError::new(refused));
        }
        // A kill can follow at once, and the parts can have events of the second server then.
        let change = self.finisher.change(|info| info.has_several_servers = true);
        change.map_err(SinkError::new)?;
        match is_continued {
            // Events of this server that ended before that time would be left out.
            true => Err(SinkError::new(SeriesError::SeveralServers(
                self.path.clone(),
            ))),
            false => Ok(()),
        }
    }

    fn needs_held(&self) -> bool {
        !self.is_live_traffic
    }

    fn held(&mut self, held: &mut dyn Iterator<Item = HeldEvent>) {
        let (recorded, sessions) = (&self.recorded, &self.sessions);
        let held = held.map(|held| HeldEvent {
            event: match held.session {
                // Its source knows the process.
                NO_SESSION => held.event,
                session => held.event.with_process(sessions.process(session)),
            },
            ..held
        });
        let held = held.filter(|held| !recorded.knows(held.event));
        self.held = HeldEvents::at(self.delivered_to_us, held);
        // A source that reads more has no later end for a statement of a session that has ended.
        self.unended.clear();
    }
}

/// Whether an event ends its session.
pub(super) fn ends_session(event: &EventRef<'_>) -> bool {
    matches!(event.kind, KindRef::Disconnect)
}
