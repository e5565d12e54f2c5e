//! Parts of a series that are recovered after a kill.

use std::path::Path;

use archive::{ArchiveError, DirectoryLock, SeriesMember};
use clock::utc_text;

use super::{RunningEvent, Series, SeriesInfo, is_live_traffic};

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

/// Notes in the description of a series up to which time the events of a part were recovered, and which of its events ended
/// later. The gap after the part begins there. The part may have been moved out of its series. A capture that continues the
/// series holds its lock, and learns what was recovered before.
///
/// # Errors
/// If the description cannot be written.
pub(crate) fn note_recovered(
    part: &Path,
    member: &SeriesMember,
    recovered: Option<(i64, Vec<RunningEvent>)>,
) -> Result<(), ArchiveError> {
    let Some((to_us, running)) = recovered else {
        return Ok(());
    };
    let directory = directory(part);
    let Ok(Some(_lock)) = DirectoryLock::try_exclusive(directory) else {
        return Ok(());
    };
    match SeriesInfo::read(directory) {
        Ok(mut info) if info.uuid == member.uuid => {
            note(&mut info, member, (to_us, running));
            info.write(directory)
        }
        _ => Ok(()),
    }
}

fn note(info: &mut SeriesInfo, member: &SeriesMember, recovered: (i64, Vec<RunningEvent>)) {
    let (to_us, running) = recovered;
    info.recovered_to_us = info.recovered_to_us.max(Some(to_us));
    info.note_running(running);
    let mut gaps = info.gaps.iter_mut();
    if let Some(gap) = gaps.find(|gap| member.number < gap.before_part) {
        gap.from_us = gap.from_us.max(to_us).min(gap.to_us);
    }
}
