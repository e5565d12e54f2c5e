//! A part of a series that is being written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use workload::series::{
    CarriedCounts, ClosedPart, HeldEvent, PartAccount, RunningEvent, RunningEvents, settled_us,
};
use workload::{Event, EventRef, SeriesMember, WorkloadWriter};

use super::carried::CarriedSession;
use super::events::ends_session;
use crate::mask::MaskSink;
use crate::sink::{EventSink, SinkError};

/// A part that is being written.
pub(super) struct OpenPart {
    pub(super) path: PathBuf,
    pub(super) member: SeriesMember,
    pub(super) sink: MaskSink<WorkloadWriter>,
    /// Account of the source when the part was opened.
    pub(super) account_before: Value,
    /// It is the first part of its capture, so an earlier event belongs to no other.
    is_first: bool,
    /// Number of events whose time is ahead of the clock of this machine.
    pub(super) events_ahead: u64,
    /// Events that ended near the end of what is delivered, or of its time range, or later. A log that is read again has them.
    running: RunningEvents,
    /// Such server events.
    running_server: RunningEvents,
    /// Time of the first end of an event; `i64::MAX` if there is none.
    pub(super) first_ended_us: i64,
    /// Events that ended before its time range, while an earlier part was open.
    pub(super) late: Vec<HeldEvent>,
    account: PartAccount,
    /// Preludes by the last part with an event of their session.
    carried: BTreeMap<u64, CarriedCounts>,
}

impl OpenPart {
    pub(super) fn new(
        path: PathBuf,
        member: SeriesMember,
        sink: MaskSink<WorkloadWriter>,
        is_first: bool,
    ) -> Self {
        OpenPart {
            path,
            member,
            sink,
            account_before: Value::Null,
            is_first,
            events_ahead: 0,
            running: RunningEvents::default(),
            running_server: RunningEvents::default(),
            first_ended_us: i64::MAX,
            late: Vec::new(),
            account: PartAccount::default(),
            carried: BTreeMap::new(),
        }
    }

    /// Notes the number of sessions that are open at the same time.
    pub(super) fn note_open_sessions(&mut self, count: usize) {
        self.account.sessions_at_once = self.account.sessions_at_once.max(count as u64);
    }

    /// Begins a session of an earlier part with its prelude, before its next event, which is due at `due_us`.
    pub(super) fn carry(
        &mut self,
        session: &mut CarriedSession,
        due_us: i64,
    ) -> Result<(), SinkError> {
        let due_us = due_us.min(self.member.from_us);
        let prelude = session.prelude();
        let counts = self.carried.entry(session.part).or_insert(CarriedCounts {
            last_part: session.part,
            ..CarriedCounts::default()
        });
        session.part = self.member.number;
        session.sequence = 0;
        // The prelude is counted by the parts that have its statements.
        let record = &mut session.record;
        (record.start_us, record.end_us, record.statements) = (due_us, due_us, 0);
        record.start_seen &= !prelude.is_cut;
        self.account.preludes_cut += u64::from(prelude.is_cut);
        for event in prelude.events {
            let event = Event {
                session: record.id,
                sequence: session.sequence,
                due_us,
                prelude: true,
                ..event
            };
            session.sequence += 1;
            counts.add(&event);
            self.sink.event(&event.borrowed())?;
        }
        Ok(())
    }

    /// Writes an event of a session that has begun in this part.
    pub(super) fn write(
        &mut self,
        session: &mut CarriedSession,
        event: &EventRef<'_>,
        (times, is_oldest): (RunningEvent, bool),
    ) -> Result<(), SinkError> {
        let is_late = !self.is_first && event.due_us < self.member.from_us;
        self.account.late_events += u64::from(is_late);
        let record = &mut session.record;
        record.end_us = record.end_us.max(event.due_us);
        record.statements += u64::from(event.kind.is_statement());
        record.end_seen |= ends_session(event);
        self.first_ended_us = self.first_ended_us.min(times.ended_us);
        if times.ended_us < self.member.from_us && !is_oldest {
            self.late.push(HeldEvent {
                part: self.member.number,
                sequence: session.sequence,
                ..HeldEvent::of_source(record.id, times)
            });
        }
        let written = EventRef {
            session: record.id,
            sequence: session.sequence,
            ..*event
        };
        session.sequence += 1;
        self.sink.event(&written)
    }

    /// Notes the times of an event, if they can be after what is complete when the part is. `delivered_us` is the time up to
    /// which the source has delivered everything.
    pub(super) fn note_running(&mut self, event: RunningEvent, delivered_us: i64) {
        self.running
            .advance(settled_us(self.member.to_us.min(delivered_us)));
        // Recovered events have no process.
        self.running.add(event.with_process(0));
    }

    /// Notes the time of a server event, as [`Self::note_running`] does.
    pub(super) fn note_running_server(&mut self, at_us: i64, delivered_us: i64) {
        self.running_server
            .advance(settled_us(self.member.to_us.min(delivered_us)));
        self.running_server
            .add(RunningEvent::new(at_us, None, None));
    }

    /// Returns the events that are not settled.
    pub(super) fn take_running(&mut self, settled_us: i64) -> ClosedPart {
        self.running.advance(settled_us);
        self.running_server.advance(settled_us);
        let server = std::mem::take(&mut self.running_server).finish();
        ClosedPart {
            running: std::mem::take(&mut self.running).finish(),
            running_server: server.iter().map(|event| event.due_us).collect(),
        }
    }

    /// Returns the account for the manifest.
    pub(super) fn take_account(&mut self) -> PartAccount {
        PartAccount {
            carried: std::mem::take(&mut self.carried).into_values().collect(),
            ..std::mem::take(&mut self.account)
        }
    }
}
