//! Parts of a series that are recovered after a kill.

use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::{ArchiveError, DirectoryLock, SeriesMember};
use clock::utc_text;
use sql::secrets::REDACTED;

use super::{
    HeldEvent, PartCheckpoint, RUNNING_MAX, RunningEvent, RunningEvents, Series, SeriesInfo,
    SeriesPart, SeriesState, UnfinishedPart, is_live_traffic, settled_us,
};
use crate::event::Event;
use crate::reader::WorkloadReader;

/// Attempts to lock a series, since a reader locks it for a moment.
const LOCK_ATTEMPTS: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Largest difference of the start of a part to its first event, in microseconds.
const START_US: i64 = 1_000_000;

/// Returns the directory of the series of a part. The part may have been moved out of it.
fn directory(part: &Path) -> &Path {
    match part.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Refuses the recovery of a part whose events a later capture of the same log or packets has in its parts: they would be in
/// the series twice. `last_due_us` is the time of its last event, in microseconds since 1970-01-01 UTC.
///
/// # Errors
/// In this case.
pub(crate) fn refuse_captured_again(
    partial: &Path,
    member: &SeriesMember,
    last_due_us: i64,
) -> Result<(), ArchiveError> {
    let Ok(series) = Series::open(directory(partial)) else {
        return Ok(());
    };
    if series.info.uuid != member.uuid || is_live_traffic(&series.info.source_kind) {
        return Ok(());
    }
    // Parts of the same capture begin after the time range of this one.
    let last_due_us = last_due_us.min(member.to_us - 1);
    let complete = series.parts.iter().map(|part| &part.member);
    let mut members = complete.chain(series.unfinished.iter().map(|part| &part.member));
    let has_them = |other: &&SeriesMember| {
        other.number > member.number && other.from_us.saturating_add(START_US) <= last_due_us
    };
    match members.find(has_them) {
        None => Ok(()),
        Some(other) => Err(ArchiveError::WrongKind {
            path: partial.to_owned(),
            kind: "part to recover".to_owned(),
            reason: format!(
                "its events up to {} were captured again: the part from {} has them, and they would be in the series twice; remove it, or move it out of the series and recover it there",
                utc_text(last_due_us),
                utc_text(other.from_us)
            ),
        }),
    }
}

/// A part whose events are being recovered.
pub(crate) struct RecoveredPart {
    directory: PathBuf,
    member: SeriesMember,
    /// State that is on disk of all parts that the kill has left and that could get more events, or that of this part if it
    /// could not. Events that were delivered later are left out of `held`.
    state: PartCheckpoint,
    /// The other parts that could get more events.
    others: Vec<PathBuf>,
    last_due_us: Option<i64>,
    /// Whether its texts are those of the source, apart from redacted ones.
    has_texts: bool,
    running: RunningEvents,
}

impl RecoveredPart {
    /// Begins the recovery of the workload at `partial`, if it is a part of a series.
    pub(crate) fn begin(partial: &Path, member: Option<&SeriesMember>) -> Option<Self> {
        let member = member?;
        let directory = directory(partial);
        let series = Series::open(directory).ok();
        let series = series.filter(|series| series.info.uuid == member.uuid);
        let mut state = PartCheckpoint::read(partial).unwrap_or_default();
        let mut others = Vec::new();
        let is_open = state.closed.is_none();
        let left = series.iter().filter(|_| is_open).flat_map(|series| {
            let others = series.unfinished.iter();
            others.filter(|other| are_of_one_capture(&series.info, member.number, other))
        });
        for other in left {
            let its = PartCheckpoint::read(&other.path).unwrap_or_default();
            if its.closed.is_some() {
                continue;
            }
            others.push(other.path.clone());
            let to_us = state.to_us.min(its.to_us);
            // What was held at the older one can be in no part.
            let older = match its.order < state.order {
                true => its,
                false => state,
            };
            state = PartCheckpoint { to_us, ..older };
        }
        let has_texts = series.iter().any(|series| has_texts(&series.info));
        let recorded_to_us = series.and_then(|series| series.info.recorded_to_us());
        let recorded_to_us = recorded_to_us.max(state.known_to_us());
        Some(RecoveredPart {
            directory: directory.to_owned(),
            member: member.clone(),
            state,
            others,
            last_due_us: None,
            has_texts,
            running: RunningEvents::since(recorded_to_us.map_or(i64::MIN, settled_us)),
        })
    }

    /// Adds an event with its wall time, unless it is of a prelude.
    pub(crate) fn add(&mut self, event: &Event) {
        if event.prelude {
            return;
        }
        self.last_due_us = self.last_due_us.max(Some(event.due_us));
        if self.state.closed.is_some() {
            return;
        }
        let (number, held) = (self.member.number, &mut self.state.held);
        let times = recovered_event(event, self.has_texts);
        self.running.add(times);
        if let Some(found) = take_held(held, (number, event), times)
            && event.kind.is_statement()
            && event.outcome.duration_us.is_none()
        {
            // The source had ended before the statement did.
            self.state.unended.push(found.event);
        }
    }

    /// Returns the time of the last event, in microseconds since 1970-01-01 UTC.
    pub(crate) fn last_due_us(&self) -> Option<i64> {
        self.last_due_us
    }

    /// Notes in the other parts that the kill has left up to which time all of them are on disk. They must not be taken for
    /// more if this part is gone.
    ///
    /// # Errors
    /// If it cannot be written.
    fn limit_others(&self) -> Result<(), ArchiveError> {
        for other in &self.others {
            let its = PartCheckpoint::read(other).unwrap_or_default();
            let limited = PartCheckpoint {
                has_events: its.has_events,
                ..self.state.clone()
            };
            limited.write(other)?;
        }
        Ok(())
    }

    /// Notes in the description of the series up to which time its events were recovered, and what the capture that is
    /// continued must know. The gap after the part begins there. The part may have been moved out of its series.
    ///
    /// # Errors
    /// If the description cannot be written, or the series is being captured or recovered.
    pub(crate) fn note(mut self) -> Result<(), ArchiveError> {
        let directory = self.directory.clone();
        let is_live = match SeriesInfo::read(&directory) {
            Ok(info) if info.uuid == self.member.uuid => is_live_traffic(&info.source_kind),
            _ => return Ok(()),
        };
        let _lock = match lock_series(&directory) {
            // Nothing depends on it, since the traffic does not come again.
            Err(_) if is_live => return Ok(()),
            locked => locked?,
        };
        let mut info = SeriesInfo::read(&directory)?;
        let number = self.member.number;
        if info.noted_recoveries.contains(&number) {
            // A recovery was killed after its note. The part is as it was, so it has the same events.
            return Ok(());
        }
        let recovered_to_us = match is_live {
            true => self.last_due_us,
            false => self.state.known_to_us(),
        };
        info.recovered_to_us = info.recovered_to_us.max(recovered_to_us);
        if !is_live {
            self.limit_others()?;
            match self.state.closed.take() {
                Some(closed) => {
                    info.running.extend(closed.running);
                    info.note_closed(number, self.state);
                }
                None => {
                    info.running.extend(self.running.finish());
                    info.note_state(number, self.state);
                }
            }
            info.forget_settled();
        }
        info.noted_recoveries.push(number);
        info.forget_noted();
        let mut gaps = info.gaps.iter_mut();
        if let Some(gap) = gaps.find(|gap| number < gap.before_part)
            && let Some(to_us) = recovered_to_us.or(self.last_due_us)
        {
            gap.from_us = gap.from_us.max(to_us).min(gap.to_us);
        }
        info.write(&directory)
    }
}

/// Whether a text can be one from which a secret was removed: it has what replaces a literal or a comment.
fn may_be_redacted(sql: &str) -> bool {
    let has_empty_comment = || {
        sql.contains("/**/")
            || (sql.split("--").skip(1))
                .any(|rest| rest.is_empty() || rest.starts_with(['\n', '\r']))
    };
    sql.contains(REDACTED) || has_empty_comment()
}

/// Whether an unfinished part was left by the capture of the part of this number. Sessions do not continue over a gap.
fn are_of_one_capture(info: &SeriesInfo, number: u64, other: &UnfinishedPart) -> bool {
    let (first, last) = (
        number.min(other.member.number),
        number.max(other.member.number),
    );
    let mut gaps = info.gaps.iter();
    first < last && !gaps.any(|gap| first < gap.before_part && gap.before_part <= last)
}

/// Limits what a capture takes for recorded to what all parts of a kill have, before one of them is removed that cannot be
/// read.
///
/// # Errors
/// If it cannot be written.
pub fn limit_to_lost_part(part: &UnfinishedPart) -> Result<(), ArchiveError> {
    match RecoveredPart::begin(&part.path, Some(&part.member)) {
        Some(lost) => lost.limit_others(),
        None => Ok(()),
    }
}

/// Notes in the description of a series the parts that were complete when the capture was killed, and that it had not noted.
/// To be called with the lock of the series. An encrypted part needs its state, since no key is given.
///
/// # Errors
/// If neither the state nor the events of such a part can be read, it has too many events, or the description cannot be written.
pub fn note_complete_parts(directory: &Path) -> Result<(), ArchiveError> {
    let Series {
        mut info, parts, ..
    } = Series::open(directory)?;
    if info.state == SeriesState::Complete {
        return Ok(());
    }
    for part in parts {
        let number = part.member.number;
        if number <= info.noted_part
            || info.noted_recoveries.contains(&number)
            || info.captured_to_us >= Some(part.member.to_us)
        {
            continue;
        }
        let state = PartCheckpoint::read(&part.path);
        match state.filter(|state| state.closed.is_some()) {
            Some(state) => info.note_complete(number, state),
            None => note_events(&mut info, &part).map_err(|error| match error {
                ArchiveError::Damaged { .. } => error,
                ArchiveError::Locked { .. } => without_state(&part, "it is encrypted"),
                error => without_state(&part, error),
            })?,
        }
        info.write(directory)?;
        PartCheckpoint::remove(&part.path);
    }
    Ok(())
}

/// Describes a complete part whose state is missing, and whose events cannot be read, for this reason.
fn without_state(part: &SeriesPart, reason: impl std::fmt::Display) -> ArchiveError {
    ArchiveError::Damaged {
        path: part.path.clone(),
        reason: format!(
            "its checkpoint.json is missing, and its events cannot be read without it ({reason})"
        ),
    }
}

/// Notes all later events of a complete part whose state is not known, such as one that was recovered outside of the series.
fn note_events(info: &mut SeriesInfo, part: &SeriesPart) -> Result<(), ArchiveError> {
    let number = part.member.number;
    let reader = WorkloadReader::open(&part.path)?;
    let start_us = reader.info().provenance.start_wall_us;
    let has_texts = has_texts(info);
    let recorded_to_us = info.recorded_to_us();
    let mut running = RunningEvents::since(recorded_to_us.map_or(i64::MIN, settled_us));
    for item in reader.events()? {
        let (event, _) = item?;
        if event.prelude {
            continue;
        }
        let event = Event {
            due_us: event.due_us + start_us,
            ..event
        };
        let times = recovered_event(&event, has_texts);
        take_held(&mut info.held, (number, &event), times);
        running.add(times);
    }
    let mut server = Vec::new();
    for event in reader.server_events()? {
        server.push(event?.0.at_us + start_us);
    }
    add_running(info, running.finish(), server).map_err(|reason| ArchiveError::Damaged {
        path: part.path.clone(),
        reason,
    })?;
    info.noted_part = info.noted_part.max(number);
    info.forget_noted();
    info.forget_settled();
    Ok(())
}

/// Takes the event of a part of this number out of the held ones, if it can be one of them. `recovered` has its times.
fn take_held(
    held: &mut Vec<HeldEvent>,
    (number, event): (u64, &Event),
    recovered: RunningEvent,
) -> Option<HeldEvent> {
    let index = (held.iter()).position(|held| held.can_be(number, event, recovered))?;
    Some(held.swap_remove(index))
}

/// Adds the events of a complete part and the times of its server events. Returns a reason if they are too many: those that are
/// not noted would be recorded again.
fn add_running(
    info: &mut SeriesInfo,
    running: Vec<RunningEvent>,
    server: Vec<i64>,
) -> Result<(), String> {
    info.running.extend(running);
    info.running_server.extend(server);
    match info.running.len().max(info.running_server.len()) {
        0..=RUNNING_MAX => Ok(()),
        count => Err(format!(
            "its checkpoint.json is missing, and the {count} events that must be recognised without it are more than {RUNNING_MAX}"
        )),
    }
}

/// Whether the parts of a series have the texts of the source, apart from redacted ones.
fn has_texts(info: &SeriesInfo) -> bool {
    let protection = info.protection.as_ref();
    protection.is_some_and(|protection| protection.mask_key.is_none())
}

/// Describes an event of a part, with its wall time, as the source had it.
fn recovered_event(event: &Event, has_texts: bool) -> RunningEvent {
    let sql = event.kind.sql().map(|sql| &**sql);
    let text = sql.filter(|sql| has_texts && !may_be_redacted(sql));
    RunningEvent::new(event.due_us, event.outcome.duration_us, text)
}

/// Locks a series, which a reader or another recovery locks for a moment.
fn lock_series(directory: &Path) -> Result<DirectoryLock, ArchiveError> {
    for _ in 0..LOCK_ATTEMPTS {
        let locked = DirectoryLock::try_exclusive(directory);
        if let Some(lock) = locked.map_err(|error| ArchiveError::io("lock", directory, error))? {
            return Ok(lock);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(ArchiveError::WrongKind {
        path: directory.to_owned(),
        kind: "series to recover a part of".to_owned(),
        reason: "it is being captured or recovered, so it cannot be noted up to which time the part has its events; the part is left as it is; stop that capture, and recover the part then".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_part_without_a_state_are_refused_if_they_are_too_many_to_be_noted() {
        let with = |count: usize, server: usize| {
            let mut info = SeriesInfo::new("id".to_owned(), "log", 60_000_000, 0);
            info.running = vec![RunningEvent::new(1, None, None)];
            let running = vec![RunningEvent::new(2, None, None); count];
            add_running(&mut info, running, vec![3; server])
        };
        assert_eq!(with(RUNNING_MAX - 1, RUNNING_MAX), Ok(()));
        for (count, server) in [(RUNNING_MAX, 0), (0, RUNNING_MAX + 1)] {
            let reason = with(count, server).unwrap_err();
            assert!(reason.contains("200001 events"), "{reason}");
        }
    }
}
