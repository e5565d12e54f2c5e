//! Parts of a series that are recovered after a kill.

use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::{ArchiveError, DirectoryLock, SeriesMember};
use clock::utc_text;

use super::{
    HeldEvent, PartCheckpoint, RunningEvent, RunningEvents, Series, SeriesInfo, SeriesState,
    UnfinishedPart, is_live_traffic, settled_us,
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
    /// State up to which all parts that the kill has left are on disk; `None` if one of them does not state it.
    checkpoint: Option<PartCheckpoint>,
    /// Number of this part, if it was complete; `None` if it is recovered.
    noted_part: Option<u64>,
    /// Parts that the same kill has left, with their own state.
    others: Vec<PathBuf>,
    last_due_us: Option<i64>,
    running: RunningEvents,
    /// Events that the capture had not delivered at the checkpoint, with those that it delivered later.
    held: Vec<HeldEvent>,
}

impl RecoveredPart {
    /// Begins the recovery of the workload at `partial`, if it is a part of a series.
    pub(crate) fn begin(partial: &Path, member: Option<&SeriesMember>) -> Option<Self> {
        let member = member?;
        let directory = directory(partial);
        let series = Series::open(directory).ok();
        let series = series.filter(|series| series.info.uuid == member.uuid);
        let others = series.as_ref().map_or(Vec::new(), |series| {
            let is_of_same_capture = |other: &&UnfinishedPart| {
                let (one, other) = (member.number, other.member.number);
                let (first, last) = (one.min(other), one.max(other));
                let mut gaps = series.info.gaps.iter();
                first < last && !gaps.any(|gap| first < gap.before_part && gap.before_part <= last)
            };
            let others = series.unfinished.iter().filter(is_of_same_capture);
            others.map(|other| other.path.clone()).collect()
        });
        let all = std::iter::once(partial).chain(others.iter().map(PathBuf::as_path));
        let checkpoints: Option<Vec<PartCheckpoint>> = all.map(PartCheckpoint::read).collect();
        let checkpoint = checkpoints
            .unwrap_or_default()
            .into_iter()
            .min_by_key(|one| one.to_us);
        let info = series.as_ref().map(|series| &series.info);
        let recorded_to_us = info.and_then(SeriesInfo::recorded_to_us);
        let recorded_to_us = recorded_to_us.max(checkpoint.as_ref().map(|one| one.to_us));
        // The capture noted what it held in one of both places, and in the series last if its time is later.
        let captured_to_us = info.and_then(|info| info.captured_to_us);
        let held = match &checkpoint {
            Some(one) if Some(one.to_us) > captured_to_us => Some(&one.held),
            _ => info.map(|info| &info.held),
        };
        Some(RecoveredPart {
            directory: directory.to_owned(),
            member: member.clone(),
            others,
            noted_part: None,
            last_due_us: None,
            running: RunningEvents::since(recorded_to_us.map_or(i64::MIN, settled_us)),
            held: held.cloned().unwrap_or_default(),
            checkpoint,
        })
    }

    /// Adds an event with its wall time, unless it is of a prelude.
    pub(crate) fn add(&mut self, event: &Event) {
        if event.prelude {
            return;
        }
        self.last_due_us = self.last_due_us.max(Some(event.due_us));
        let number = self.member.number;
        let mut held = self.held.iter();
        if let Some(index) = held.position(|held| held.can_be(number, event)) {
            self.held.swap_remove(index);
        }
        let times = RunningEvent::new(event.due_us, event.outcome.duration_us, None);
        self.running.add(times);
    }

    /// Returns the time of the last event, in microseconds since 1970-01-01 UTC.
    pub(crate) fn last_due_us(&self) -> Option<i64> {
        self.last_due_us
    }

    /// Notes in the description of the series up to which time its events were recovered, and what the capture that is
    /// continued must know. The gap after the part begins there. The part may have been moved out of its series.
    ///
    /// # Errors
    /// If the description cannot be written, or the series is being captured or recovered.
    pub(crate) fn note(self) -> Result<(), ArchiveError> {
        let Some(last_due_us) = self.last_due_us else {
            return Ok(());
        };
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
        let recovered_to_us = match &self.checkpoint {
            _ if is_live => Some(last_due_us),
            Some(checkpoint) => Some(checkpoint.to_us),
            None => None,
        };
        let held = self.held;
        if let Some(to_us) = recovered_to_us {
            // The other parts must not be taken for more than all of them have.
            for other in &self.others {
                let held = held.clone();
                PartCheckpoint { to_us, held }.write(other)?;
            }
        }
        info.recovered_to_us = info.recovered_to_us.max(recovered_to_us);
        info.held = held;
        if !is_live {
            info.running.extend(self.running.finish());
            info.forget_settled();
        }
        match self.noted_part {
            Some(number) => info.noted_part = info.noted_part.max(number),
            None => info.noted_recoveries.push(self.member.number),
        }
        let noted_part = info.noted_part;
        info.noted_recoveries.retain(|number| *number > noted_part);
        let mut gaps = info.gaps.iter_mut();
        if let Some(gap) = gaps.find(|gap| self.member.number < gap.before_part) {
            let to_us = recovered_to_us.unwrap_or(last_due_us);
            gap.from_us = gap.from_us.max(to_us).min(gap.to_us);
        }
        info.write(&directory)
    }
}

/// Notes in the description of a series the events of parts that were complete when the capture was killed, and that it
/// had not noted. A capture that is continued must know them. To be called without the lock of the series.
///
/// # Errors
/// If such a part cannot be read, or the description cannot be written.
pub fn note_complete_parts(directory: &Path) -> Result<(), ArchiveError> {
    let Series { info, parts, .. } = Series::open(directory)?;
    if info.state == SeriesState::Complete {
        return Ok(());
    }
    for part in parts {
        let number = part.member.number;
        if number <= info.noted_part || info.noted_recoveries.contains(&number) {
            continue;
        }
        let reader = WorkloadReader::open(&part.path)?;
        let start_wall_us = reader.info().provenance.start_wall_us;
        let Some(mut found) = RecoveredPart::begin(&part.path, Some(&part.member)) else {
            continue;
        };
        for item in reader.events()? {
            let (mut event, _) = item?;
            event.due_us += start_wall_us;
            found.add(&event);
        }
        found.noted_part = Some(number);
        found.note()?;
    }
    Ok(())
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
