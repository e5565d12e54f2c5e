//! Records a series: workloads that follow each other in time, each with the state of the sessions that continue.
//!
//! An event goes to the part in whose time range it was sent. A part is completed some seconds after its range, when the
//! events that were in progress at its end have mostly ended; then the next part is already open. An event that ends even
//! later goes to the oldest open part, with its true time. So no event is lost or recorded twice.

mod account;
mod carried;
mod checkpoint;
mod events;
mod finisher;
mod gap;
mod part;
mod recorded;
mod retention;
mod start;
mod status;
mod ticking;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use clock::{Clock, SystemClock};
use serde_json::Value;
use transform::SecretRedactor;
use transform::mask::Masker;
use workload::series::{HeldEvent, RunningEvent, is_live_traffic, part_name};
use workload::{
    ArchiveError, Provenance, Recipient, SeriesMember, StartingPoint, WorkloadWriter, WriterOptions,
};

use crate::mask::MaskSink;
use crate::sink::{EventSink, SinkError};
use account::{PartRange, account_of_part, has_rest};
pub use carried::CARRIED_BYTES_MAX;
use carried::CarriedSessions;
use finisher::{FinishedPart, Finisher, FinisherState, FinisherTask, mark_complete};
use gap::{CaptureGap, PossibleGaps};
use part::OpenPart;
use recorded::{HeldEvents, RecordedEvents};
use start::start_series;
pub use start::{SeriesError, SeriesOptions};
pub use status::{SeriesStatus, SeriesWatch};
pub use ticking::SeriesSink;

/// Receives a sentence for the user.
pub type OnNote = Arc<dyn Fn(&str) + Send + Sync>;

/// Approximate memory for sorting the events of one part, in bytes. At most four parts are open or being completed.
const SORT_BYTES: usize = 24 << 20;

/// Number of the last part of a session that has no event in a part of this capture. Parts are numbered from 1.
const NO_PART: u64 = 0;

/// Largest difference of a time stamp of another machine to the clock of this one, in microseconds. A later event is in the
/// part of the time at which it arrives.
const AHEAD_US_MAX: i64 = 60_000_000;

/// Number of events after which those of a source that is read again survive a kill. A capture that is continued must know
/// all later ones that are on disk.
const CHECKPOINT_EVENTS: u64 = 50_000;

/// Largest delay of most events, in microseconds.
const LATE_US: i64 = 1_000_000;

/// A series that is being recorded. It is an [`EventSink`] for the events of one source.
pub struct SeriesRecorder {
    path: PathBuf,
    uuid: String,
    roll_us: i64,
    wait_us: i64,
    is_live: bool,
    /// Whether the times of events are of this machine's clock.
    is_live_traffic: bool,
    recipients: Vec<Recipient>,
    /// Has the state of all sessions, which the maskers of the parts share.
    masker: Option<Masker>,
    starting_point: Option<StartingPoint>,
    provenance: Provenance,
    /// Account of the source so far, and as far as it is in completed parts.
    account: Value,
    accounted: Value,
    /// Added to the session numbers of the source.
    first_session: u64,
    sessions: CarriedSessions,
    /// Open parts, the oldest first.
    open: VecDeque<OpenPart>,
    next_number: u64,
    /// Start of the newest part of an earlier capture.
    earlier_from_us: Option<i64>,
    /// End of the time range of the last part.
    last_to_us: Option<i64>,
    /// Gap before the first part of this capture.
    gap: Option<CaptureGap>,
    possible_gaps: PossibleGaps,
    /// Time of this machine at which this capture began.
    started_us: i64,
    /// Events that earlier captures have. A log that is read again has them, too.
    recorded: RecordedEvents,
    /// Events that the source has not delivered.
    held: HeldEvents,
    /// The event that the source delivers, until its part is open.
    in_delivery: Option<HeldEvent>,
    /// Last statements, without a duration, of sessions whose end was not seen.
    unended: Vec<RunningEvent>,
    /// Number of events that were left out, since an earlier capture has them.
    left_out: u64,
    has_several_servers: bool,
    /// Number of checkpoints of the parts.
    checkpoints: u64,
    /// Number of events after the last one, and number after which the next one is due.
    events_since_checkpoint: u64,
    checkpoint_events: u64,
    /// Latest time that an event or its end has, at most that of this machine's clock.
    reported_to_us: Option<i64>,
    /// Clock of this machine.
    wall_us: fn() -> i64,
    /// Its time when an event was last compared with it.
    known_wall_us: i64,
    /// Time from the end of the last event to its arrival, in microseconds.
    lag_us: i64,
    on_note: OnNote,
    /// Time up to which the source has delivered what had ended.
    delivered_to_us: i64,
    /// Times at which the first and the last event were sent.
    span_us: Option<(i64, i64)>,
    /// End of the time range up to which everything is complete, if nothing is open.
    announced_us: i64,
    finisher: Finisher,
    watch: SeriesWatch,
}

impl SeriesRecorder {
    /// Creates a series, or continues one.
    ///
    /// # Errors
    /// If it exists and is not to be continued, is being captured, or cannot be written.
    pub fn create(options: SeriesOptions) -> Result<Self, SeriesError> {
        let started = start_series(&options)?;
        let watch = options.watch;
        watch.lock().series = options.path.display().to_string();
        let first_session = started.first_session();
        let info = started.info;
        let is_live_traffic = is_live_traffic(&options.provenance.source_kind);
        let recorder = SeriesRecorder {
            uuid: info.uuid.clone(),
            roll_us: info.roll_us,
            wait_us: info.wait_us,
            is_live: options.is_live,
            is_live_traffic,
            recipients: options.recipients,
            masker: options.mask.map(Masker::new),
            starting_point: options.starting_point,
            provenance: options.provenance,
            account: Value::Null,
            accounted: Value::Null,
            first_session,
            sessions: CarriedSessions::default(),
            open: VecDeque::new(),
            next_number: started.next_number,
            earlier_from_us: started.newest_from_us,
            last_to_us: None,
            gap: started.gap,
            possible_gaps: PossibleGaps::of(&info),
            started_us: wall_us(),
            recorded: match is_live_traffic {
                true => RecordedEvents::default(),
                false => RecordedEvents::of(&info),
            },
            held: HeldEvents::default(),
            in_delivery: None,
            unended: Vec::new(),
            left_out: 0,
            has_several_servers: info.has_several_servers,
            checkpoints: 0,
            events_since_checkpoint: 0,
            checkpoint_events: CHECKPOINT_EVENTS,
            reported_to_us: None,
            wall_us,
            known_wall_us: i64::MIN,
            lag_us: 0,
            on_note: options.on_note.clone(),
            delivered_to_us: i64::MIN,
            span_us: None,
            announced_us: i64::MIN,
            finisher: Finisher::start(FinisherState {
                path: options.path.clone(),
                info,
                watch: watch.clone(),
                on_note: options.on_note,
                parts: Default::default(),
                lock: started.lock,
                #[cfg(test)]
                gate: tests::repeated::gate(),
            })?,
            watch,
            path: options.path,
        };
        Ok(recorder)
    }

    /// Returns a handle for reading the status.
    pub fn watch(&self) -> SeriesWatch {
        self.watch.clone()
    }

    /// Returns the path of the series.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Updates the provenance for parts that are completed from now on. Its account is that of everything so far; each
    /// part has the difference.
    pub fn note_provenance(&mut self, mut provenance: Provenance) {
        self.account = std::mem::take(&mut provenance.reconciliation);
        self.provenance = provenance;
    }

    /// Notes that everything that had ended by `to_us` (wall time) was delivered, and completes the parts that this allows.
    ///
    /// # Errors
    /// If a part cannot be written.
    pub fn advance(&mut self, to_us: i64) -> Result<(), SinkError> {
        self.delivered_to_us = self.delivered_to_us.max(to_us);
        while let Some(oldest) = self.open.front()
            && oldest.member.to_us.saturating_add(self.wait_us) <= self.delivered_to_us
        {
            self.complete_oldest(false).map_err(SinkError::new)?;
        }
        let complete_us = self.floor(self.delivered_to_us.saturating_sub(self.wait_us));
        if self.open.is_empty() && complete_us > self.announced_us {
            self.announced_us = complete_us;
            let to_us = self.started_us;
            self.gap.iter_mut().for_each(|gap| gap.end_by(to_us));
            self.note_gap(self.next_number).map_err(SinkError::new)?;
            let task = FinisherTask::Advance {
                to_us: self.held.limit(complete_us),
                held: self.held_events(),
            };
            self.finisher.send(task).map_err(SinkError::new)?;
        }
        self.publish();
        Ok(())
    }

    fn publish(&self) {
        let newest = self.open.back();
        let mut status = self.watch.lock();
        status.part = newest.map(|part| part_name(part.member.from_us));
        status.first_event_us = self.span_us.map(|(first_us, _)| first_us);
        status.last_event_us = self.span_us.map(|(_, last_us)| last_us);
        status.repeated_events = self.left_out;
        status.repeated_in_gaps = self.recorded.in_gaps();
        status.open_sessions = self.sessions.len() as u64;
        status.carried_bytes = self.sessions.held_bytes() as u64;
    }

    /// Completes all parts and the series. The provenance is that of the whole capture.
    ///
    /// # Errors
    /// If a part cannot be written.
    pub fn finish(mut self, provenance: Provenance) -> Result<SeriesStatus, SinkError> {
        self.close_parts(provenance)?;
        self.publish();
        self.note_left_out();
        self.recorded.forget_missed();
        self.end_gap().map_err(SinkError::new)?;
        let is_live_traffic = self.is_live_traffic;
        let (held, unended) = (self.held_events(), self.unended_statements());
        let complete = FinisherTask::Change(Box::new(move |info| {
            if !is_live_traffic {
                (info.held, info.unended) = (held, unended);
            }
            mark_complete(info);
        }));
        let finished = self.finisher.send(complete);
        finished
            .and_then(|()| self.finisher.join())
            .map_err(SinkError::new)?;
        Ok(self.watch.status())
    }

    /// Closes all parts, since the source has ended.
    fn close_parts(&mut self, provenance: Provenance) -> Result<(), SinkError> {
        self.note_provenance(provenance);
        // The source has ended, so it holds nothing.
        self.held = HeldEvents::default();
        if let Value::Object(account) = &mut self.account
            && self.left_out > 0
        {
            // The account has them, the parts do not.
            account.insert("repeated_events".to_owned(), self.left_out.into());
        }
        if self.has_unwritten() && has_rest(&self.account, &self.accounted) {
            // A part without events has what was counted or lost after the last event.
            let at_us = match self.delivered_to_us {
                i64::MIN => (self.wall_us)(),
                delivered_us => delivered_us,
            };
            self.open_part(at_us).map_err(SinkError::new)?;
        }
        while !self.open.is_empty() {
            self.complete_oldest(true).map_err(SinkError::new)?;
        }
        Ok(())
    }

    /// Whether nothing is open, and the source had more than what the series has of an earlier capture.
    fn has_unwritten(&self) -> bool {
        let is_repeated = self.left_out > 0 && self.last_to_us.is_none();
        self.open.is_empty() && !is_repeated
    }

    /// Returns how far a time stamp is ahead of this machine's clock, in microseconds; at most 0 if it is not, or if it is of
    /// this clock.
    fn ahead_us(&mut self, us: i64) -> i64 {
        if self.is_live_traffic {
            return 0;
        }
        if us > self.known_wall_us {
            self.known_wall_us = (self.wall_us)();
        }
        us.saturating_sub(self.known_wall_us)
    }

    /// Whether the source delivers events soon after they happen, not those of a log of the past.
    fn is_current(&self) -> bool {
        self.is_live && self.lag_us <= AHEAD_US_MAX
    }

    /// Returns the time by which an event is in a part, and whether its time stamp is ahead of the clock. Such an event is in
    /// the part of the time at which it arrives.
    fn part_time(&mut self, due_us: i64) -> (i64, bool) {
        if self.ahead_us(due_us) <= AHEAD_US_MAX {
            return (due_us, false);
        }
        match self.is_current() || self.delivered_to_us == i64::MIN {
            true => (self.known_wall_us, true),
            false => (self.delivered_to_us, true),
        }
    }

    /// Notes that the source has delivered an event that ended at this time. A time stamp ahead of the clock does not mean that
    /// earlier ones were delivered.
    fn note_reported(&mut self, ended_us: i64) {
        let ahead_us = self.ahead_us(ended_us);
        if ahead_us > AHEAD_US_MAX && !self.is_current() {
            return;
        }
        let ended_us = ended_us - ahead_us.max(0);
        if self.is_live {
            self.lag_us = self.known_wall_us.saturating_sub(ended_us);
        }
        self.reported_to_us = self.reported_to_us.max(Some(ended_us));
        self.delivered_to_us = self.delivered_to_us.max(ended_us);
    }

    /// Returns the last multiple of the duration of a part.
    fn floor(&self, us: i64) -> i64 {
        us.div_euclid(self.roll_us).saturating_mul(self.roll_us)
    }

    /// Returns the index of the open part for an event of this time. Opens a part if necessary.
    fn part_for(&mut self, due_us: i64) -> Result<usize, ArchiveError> {
        let is_after = |part: &OpenPart| part.member.to_us <= due_us;
        if self.open.back().is_none_or(is_after) {
            self.open_part(due_us)?;
        }
        let has_begun = |part: &OpenPart| part.member.from_us <= due_us;
        Ok(self.open.iter().rposition(has_begun).unwrap_or(0))
    }

    fn open_part(&mut self, due_us: i64) -> Result<(), ArchiveError> {
        let second_us = due_us.div_euclid(1_000_000) * 1_000_000;
        let from_us = match (self.last_to_us, self.earlier_from_us) {
            (Some(to_us), _) => self.floor(due_us).max(to_us),
            (None, Some(earlier_us)) => second_us.max(earlier_us + 1_000_000),
            (None, None) => second_us,
        };
        let member = SeriesMember {
            uuid: self.uuid.clone(),
            number: self.next_number,
            from_us,
            to_us: self.floor(from_us) + self.roll_us,
        };
        if self.is_live_traffic {
            self.gap.iter_mut().for_each(|gap| gap.end_by(from_us));
        }
        self.note_gap(member.number)?;
        let path = self.path.join(part_name(from_us));
        let options = WriterOptions {
            memory_bytes: SORT_BYTES,
            // Its state counts the events of all parts that are open, so none of them may be removed.
            keep_unfinished: true,
        };
        // Nothing of the part had ended before it begins.
        let state = match self.is_live_traffic {
            true => None,
            false => Some(self.state(from_us)),
        };
        let mut writer = WorkloadWriter::create_part(
            &path,
            options,
            &self.recipients,
            (member.clone(), state),
            SecretRedactor::default(),
        )?;
        writer.note_servers(self.provenance.servers.clone())?;
        if let Some(point) = self.starting_point.take().filter(|_| member.number == 1) {
            writer.note_starting_point(point)?;
        }
        self.next_number += 1;
        let is_first = self.last_to_us.is_none();
        self.last_to_us = Some(member.to_us);
        let masker = self.masker.as_ref().map(Masker::for_another_output);
        let mut part = OpenPart::new(path, member, MaskSink::new(writer, masker), is_first);
        part.account_before = self.account.clone();
        part.note_open_sessions(self.sessions.len());
        self.open.push_back(part);
        Ok(())
    }

    /// Completes the oldest open part. `is_finished` if the source has ended.
    fn complete_oldest(&mut self, is_finished: bool) -> Result<(), SinkError> {
        let Some(mut part) = self.open.pop_front() else {
            return Ok(());
        };
        self.write_gap(self.started_us).map_err(SinkError::new)?;
        for session in self.sessions.iter() {
            if session.part == part.member.number {
                part.sink.session(session.record.clone())?;
            }
        }
        let account = match self.open.front() {
            Some(next) => next.account_before.clone(),
            None => self.account.clone(),
        };
        let mut provenance = self.provenance.clone();
        provenance.start_wall_us = part.member.from_us;
        let range = PartRange {
            from_us: part.member.from_us,
            to_us: part.member.to_us,
            is_last: is_finished && self.open.is_empty(),
        };
        (provenance.reconciliation, self.accounted) =
            account_of_part(&account, &self.accounted, range);
        self.watch.lock().events_ahead += part.events_ahead;
        if part.events_ahead > 0 {
            (self.on_note)(&format!(
                "{}: {} events have times that are more than a minute ahead of this machine's clock; check the clock of the server",
                part.path.display(),
                part.events_ahead
            ));
        }
        let note = part.take_account();
        part.sink.inner_mut().note_part(note);
        let delivered_us = self.delivered_to_us;
        let to_us = match range.is_last && delivered_us > part.member.to_us {
            // Nothing that was delivered is missing.
            true => delivered_us,
            // A stopped source has delivered less than the whole time range.
            false => part.member.to_us.min(delivered_us),
        };
        let to_us = self.held.limit(to_us);
        let state = self.close_part(&mut part, to_us)?;
        let finished = FinishedPart {
            number: part.member.number,
            state,
            path: part.path,
            sink: part.sink,
            provenance,
        };
        self.announced_us = self.announced_us.max(part.member.to_us);
        let task = FinisherTask::Part(Box::new(finished));
        self.finisher.send(task).map_err(SinkError::new)
    }
}

/// Returns the time of this machine, in microseconds since 1970-01-01 UTC.
fn wall_us() -> i64 {
    // A clock that was started earlier would not follow a change of the time.
    SystemClock::start().wall_us()
}

#[cfg(test)]
mod tests;
