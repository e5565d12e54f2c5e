//! A part of a series that is being written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use workload::series::{CarriedCounts, PartAccount, RunningEvent};
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
    /// Events that ended after its time range. A log that is read again has them.
    pub(super) running: Vec<RunningEvent>,
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
            running: Vec::new(),
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
    ) -> Result<(), SinkError> {
        let is_late = !self.is_first && event.due_us < self.member.from_us;
        self.account.late_events += u64::from(is_late);
        let record = &mut session.record;
        record.end_us = record.end_us.max(event.due_us);
        record.statements += u64::from(event.kind.is_statement());
        record.end_seen |= ends_session(event);
        let written = EventRef {
            session: record.id,
            sequence: session.sequence,
            ..*event
        };
        session.sequence += 1;
        self.sink.event(&written)
    }

    /// Returns the account for the manifest.
    pub(super) fn take_account(&mut self) -> PartAccount {
        PartAccount {
            carried: std::mem::take(&mut self.carried).into_values().collect(),
            ..std::mem::take(&mut self.account)
        }
    }
}
