//! States of parts, for a capture that is continued after a kill.

use workload::series::{HeldEvent, NO_SESSION, PartCheckpoint, RunningEvent, settled_us};
use workload::{ArchiveError, PendingCheckpoint};

use super::part::OpenPart;
use super::{LATE_US, NO_PART, SeriesRecorder};
use crate::sink::SinkError;

impl SeriesRecorder {
    /// Makes all events due by `up_to_us` (wall time) survive a kill.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn checkpoint(&mut self, up_to_us: i64) -> Result<(), SinkError> {
        if self.is_live_traffic {
            let mut parts = self.open.iter_mut();
            let written = parts.try_for_each(|part| part.sink.inner_mut().checkpoint(up_to_us));
            return written.map_err(SinkError::new);
        }
        let written = self.checkpoint_parts(up_to_us)?;
        if cfg!(test) {
            written.into_iter().for_each(PendingCheckpoint::wait);
        }
        Ok(())
    }

    /// Makes events survive a kill as [`Self::checkpoint`] does, with the state of each open part.
    fn checkpoint_parts(&mut self, up_to_us: i64) -> Result<Vec<PendingCheckpoint>, SinkError> {
        self.events_since_checkpoint = 0;
        self.write_gap(self.started_us).map_err(SinkError::new)?;
        let state = self.state(up_to_us);
        let written = self.open.iter_mut().map(|part| {
            let state = PartCheckpoint {
                has_events: part.first_ended_us <= state.to_us,
                ..state.clone()
            };
            part.sink.inner_mut().checkpoint_part(up_to_us, state)
        });
        written
            .collect::<Result<_, ArchiveError>>()
            .map_err(SinkError::new)
    }

    /// Returns the events that the source has not delivered, and those of earlier captures that no capture has.
    pub(super) fn held_events(&self) -> Vec<HeldEvent> {
        let held = self.held.iter().chain(&self.in_delivery);
        let held = held.map(|event| {
            let session = self.sessions.get(event.session);
            HeldEvent {
                session: match event.session {
                    NO_SESSION => NO_SESSION,
                    session => self.first_session + session,
                },
                part: session.map_or(NO_PART, |session| session.part),
                sequence: session.map_or(0, |session| session.sequence),
                ..*event
            }
        });
        let earlier = self.recorded.held().map(|event| {
            // The session of this capture has it. Others can have equal ones.
            match self.sessions.of_process(event.event.process) {
                Some((number, session)) => HeldEvent {
                    session: self.first_session + number,
                    part: session.part,
                    sequence: session.sequence,
                    ..event
                },
                None => event,
            }
        });
        held.chain(earlier).collect()
    }

    /// Returns the state of parts that have all their events up to this time on disk.
    pub(super) fn state(&mut self, up_to_us: i64) -> PartCheckpoint {
        self.checkpoints += 1;
        PartCheckpoint {
            order: self.checkpoints,
            to_us: self.held.limit(up_to_us.min(self.delivered_to_us)),
            held: self.held_events(),
            unended: self.unended_statements(),
            ..PartCheckpoint::default()
        }
    }

    /// Returns the last statements, without a duration, of the open sessions, and those of earlier captures that were not found
    /// again.
    pub(super) fn unended_statements(&self) -> Vec<RunningEvent> {
        let now = self.sessions.iter().filter_map(|session| session.unended);
        let now = now.chain(self.unended.iter().copied());
        now.chain(self.recorded.unended()).collect()
    }

    /// Writes all events of a part that gets no more, and its last state. Returns this state. The part has everything that had
    /// ended by `to_us` and that is in no earlier part.
    pub(super) fn close_part(
        &mut self,
        part: &mut OpenPart,
        to_us: i64,
    ) -> Result<PartCheckpoint, SinkError> {
        if self.is_live_traffic {
            return Ok(PartCheckpoint {
                to_us,
                ..PartCheckpoint::default()
            });
        }
        // What was delivered until now is in this part or in the open ones. Their states must not be older than its last one:
        // an event that was held then can be in this part.
        for written in self.checkpoint_parts(self.delivered_to_us.saturating_sub(LATE_US))? {
            written.wait();
        }
        let mut state = self.state(i64::MAX);
        // Parts that are not complete can get lost.
        let late = self.open.iter().flat_map(|open| &open.late);
        state.held.extend(late.copied());
        state.to_us = to_us;
        state.has_events = part.first_ended_us < i64::MAX;
        state.closed = Some(part.take_running(settled_us(to_us)));
        let writer = part.sink.inner_mut();
        let written = writer.checkpoint_part(i64::MAX, state.clone());
        // The states of later parts must not be known before this one.
        written.map_err(SinkError::new)?.wait();
        Ok(state)
    }
}
