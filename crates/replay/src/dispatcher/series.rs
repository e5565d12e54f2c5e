//! Dispatches the events of a series that is still being written, at a fixed delay after their captured times.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use run::SkipReason;
use workload::{ArchiveError, Event, EventKind};

use super::job_builder::JobBuilder;
use super::{BATCH_JOBS_MAX, DispatchSummary, Dispatcher, ReadAheadLimit};
use crate::connection_events::ConnectionEvent;
use crate::job::Action;
use crate::series_follower::{FollowOptions, SeriesFollower, SeriesStep};

/// Interval of looks for a new part.
const PART_INTERVAL: Duration = Duration::from_millis(200);
/// Time before the start of a part is due at which the part is opened and locked.
const OPEN_AHEAD_US: i64 = 3_000_000;
/// Maximum number of notes on the series in the manifest of the run.
const NOTES_MAX: u64 = 200;
/// Interval of checks for a stop while there is no part.
const STOP_STEP: Duration = Duration::from_millis(50);

impl Dispatcher<'_> {
    /// Dispatches a series until its end, the end of the duration, or a stop.
    ///
    /// # Errors
    /// If a part cannot be read.
    pub(super) fn dispatch_series(
        &self,
        follow: &FollowOptions,
    ) -> Result<DispatchSummary, ArchiveError> {
        let mut batches = self.empty_batches();
        let mut summary = DispatchSummary::default();
        let mut builder = JobBuilder::new(self)?;
        let mut limit = ReadAheadLimit::new();
        let mut series = SeriesFollower::new(follow, self.reader, self.new_texts.clone())?;
        let mut withheld = WithheldSessions::default();
        let mut notes = SeriesNotes::default();
        let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let end_ns = follow.duration.map_or(i64::MAX, nanoseconds);
        let elapsed_ns = self.clock.now_ns() - self.start_ns;
        let start_wall_us = self.clock.wall_us() - elapsed_ns / 1_000;
        let origin_us = start_wall_us - nanoseconds(follow.delay) / 1_000;
        loop {
            let elapsed_us = (self.clock.now_ns() - self.start_ns) / 1_000;
            let open_to_us = origin_us.saturating_add(elapsed_us + OPEN_AHEAD_US);
            let (event, fingerprint) = match series.next(open_to_us)? {
                SeriesStep::Event(event, fingerprint) => (*event, fingerprint),
                SeriesStep::Note(note) => {
                    notes.add(&note);
                    self.events.queue.push(ConnectionEvent::SeriesNote(note));
                    continue;
                }
                SeriesStep::Gap(gap) => {
                    let note = gap.sentence();
                    notes.add(&note);
                    self.new_texts.add_gap(gap);
                    self.events.queue.push(ConnectionEvent::SeriesNote(note));
                    continue;
                }
                SeriesStep::End => break,
                SeriesStep::Wait => {
                    self.send_all(&mut batches);
                    if !self.wait_for_part(end_ns) {
                        break;
                    }
                    continue;
                }
            };
            let due_ns = event.due_us.saturating_sub(origin_us).saturating_mul(1_000);
            if due_ns >= end_ns {
                break;
            }
            let connects = matches!(event.kind, EventKind::Connect { .. });
            if !self.wait_for_room(due_ns, connects, &mut batches, &mut limit) {
                break;
            }
            if connects {
                self.counters.sessions_live.fetch_add(1, Ordering::Relaxed);
            }
            if event.kind.is_statement() {
                summary.statements += 1;
                self.counters.due.add(due_ns);
            }
            let is_withheld = self.options.read_only.is_on() && withheld.has(&event, &series);
            let worker = self.worker_of(event.session);
            let mut job = builder.build(event, fingerprint, due_ns);
            if is_withheld && !matches!(job.action, Action::Disconnect) {
                job.action = Action::Skip(SkipReason::ReadOnly);
            }
            let planned_ns = &self.counters.planned_ns;
            planned_ns.fetch_max(due_ns, Ordering::Relaxed);
            batches[worker].push(job);
            if batches[worker].len() >= BATCH_JOBS_MAX {
                self.send(worker, &mut batches[worker]);
            }
        }
        self.send_all(&mut batches);
        summary.manifest_notes.extend(builder.notes());
        if let Some(text) = notes.finish() {
            summary
                .manifest_notes
                .insert("series_notes".to_owned(), text);
        }
        Ok(summary)
    }

    /// Waits before the next look for a part; false after a stop, or when the duration is over.
    fn wait_for_part(&self, end_ns: i64) -> bool {
        let mut waited = Duration::ZERO;
        while waited < PART_INTERVAL {
            if self.is_stopped() || self.clock.now_ns() - self.start_ns >= end_ns {
                return false;
            }
            std::thread::sleep(STOP_STEP);
            waited += STOP_STEP;
        }
        true
    }
}

/// Notes on a series for the manifest of the run. A replay may have no end, so only the first are kept.
#[derive(Default)]
struct SeriesNotes {
    text: String,
    kept: u64,
    left_out: u64,
}

impl SeriesNotes {
    fn add(&mut self, note: &str) {
        if self.kept == NOTES_MAX {
            self.left_out += 1;
            return;
        }
        self.kept += 1;
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(note);
    }

    /// Returns the notes, with the number of those that were left out.
    fn finish(mut self) -> Option<String> {
        if self.left_out > 0 {
            self.text
                .push_str(&format!(" {} more such notes were printed.", self.left_out));
        }
        (self.kept > 0).then_some(self.text)
    }
}

/// Sessions of a read-only replay that are not sent: those of databases that the first part has not, whose functions were
/// not checked.
#[derive(Default)]
struct WithheldSessions(HashSet<u64>);

impl WithheldSessions {
    /// Whether an event belongs to such a session.
    fn has(&mut self, event: &Event, series: &SeriesFollower<'_>) -> bool {
        match &event.kind {
            EventKind::Connect { database, .. } if !series.has_database(database) => {
                self.0.insert(event.session);
                true
            }
            EventKind::Disconnect => self.0.remove(&event.session),
            _ => self.0.contains(&event.session),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_notes_beyond_the_limit_are_counted() {
        let mut notes = SeriesNotes::default();
        assert_eq!(SeriesNotes::default().finish(), None);
        for _ in 0..NOTES_MAX + 3 {
            notes.add("Gap.");
        }
        let text = notes.finish().unwrap();
        assert_eq!(text.matches("Gap.").count() as u64, NOTES_MAX);
        assert!(text.ends_with("Gap. 3 more such notes were printed."));
    }
}
