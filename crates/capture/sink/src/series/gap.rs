//! Gap between the captures of a series, and possible gaps between the files of a log.
//!
//! Nothing proves that a source covers the time between two captures: a file of a log can be missing. So the gap lasts until
//! the end of the first event that the series gets from the source.

use workload::ArchiveError;
use workload::series::{PossibleGap, SeriesGap, SeriesInfo};

use super::SeriesRecorder;
use super::finisher::FinisherTask;

/// Gap before a capture that continues a series. All times are in microseconds since 1970-01-01 UTC.
#[derive(Debug)]
pub(super) struct CaptureGap {
    /// Time up to which earlier captures have everything.
    recorded_to_us: i64,
    /// Start: the latest end of an event that the series has and the source has, too.
    from_us: i64,
    /// End; `None` while the source has no later event.
    to_us: Option<i64>,
    /// First end of an event that the series gets from this capture.
    first_new_us: Option<i64>,
    reason: String,
    /// Number of the first part of this capture, once the gap is noted.
    before_part: Option<u64>,
    /// Whether `series.json` has these times.
    is_written: bool,
    /// Whether it has an end that the source proves.
    has_written_end: bool,
}

impl CaptureGap {
    /// Describes the gap after what earlier captures have.
    pub(super) fn new(recorded_to_us: i64, reason: &str) -> Self {
        CaptureGap {
            recorded_to_us,
            from_us: recorded_to_us,
            to_us: None,
            first_new_us: None,
            reason: reason.to_owned(),
            before_part: None,
            is_written: false,
            has_written_end: false,
        }
    }

    /// Notes that the series has an event of the source up to this time.
    pub(super) fn begin_after(&mut self, ended_us: i64) {
        if ended_us > self.from_us {
            self.from_us = ended_us;
            self.to_us = self.to_us.filter(|to_us| *to_us > ended_us);
            self.is_written = false;
        }
    }

    /// Notes that the source has this time.
    pub(super) fn end_by(&mut self, ended_us: i64) {
        if ended_us > self.from_us && self.to_us.is_none_or(|to_us| ended_us < to_us) {
            self.to_us = Some(ended_us);
            self.is_written = false;
        }
    }

    /// Notes that the series gets an event that ended at this time. One that ended before what earlier captures have was held
    /// by them, and tells nothing of a gap.
    pub(super) fn note_new(&mut self, ended_us: i64) {
        if ended_us <= self.recorded_to_us {
            return;
        }
        self.end_by(ended_us);
        if self.first_new_us.is_none_or(|first_us| ended_us < first_us) {
            self.first_new_us = Some(ended_us);
            self.is_written = false;
        }
    }

    /// Returns the entry of `series.json`, if the gap is noted. `unknown_to_us` is the end if none is known.
    fn entry(&self, unknown_to_us: i64) -> Option<SeriesGap> {
        Some(SeriesGap {
            from_us: self.from_us,
            to_us: self.to_us.unwrap_or(unknown_to_us).max(self.from_us),
            before_part: self.before_part?,
            reason: self.reason.clone(),
        })
    }
}

/// Times for which a file of the source may be missing.
#[derive(Debug, Default)]
pub(super) struct PossibleGaps {
    /// Those of earlier captures.
    earlier: Vec<PossibleGap>,
    /// Those that this capture adds.
    added: Vec<PossibleGap>,
}

impl PossibleGaps {
    /// Returns those of a series that is continued.
    pub(super) fn of(info: &SeriesInfo) -> Self {
        PossibleGaps {
            earlier: info.possible_gaps.clone(),
            added: Vec::new(),
        }
    }
}

impl SeriesRecorder {
    /// Notes the possible gaps, as [`EventSink::note_possible_gaps`](crate::EventSink::note_possible_gaps), before a later time
    /// counts as captured. Of those that are earlier, the series can have events that this source lacks.
    pub(super) fn store_possible_gaps(&mut self, gaps: &[PossibleGap]) -> Result<(), ArchiveError> {
        let recorded_to_us = self.recorded.to_us();
        let added = gaps.iter().filter_map(|gap| gap.since(recorded_to_us));
        let added: Vec<PossibleGap> = added.collect();
        if added == self.possible_gaps.added {
            return Ok(());
        }
        let mut all = self.possible_gaps.earlier.clone();
        all.extend(&added);
        self.possible_gaps.added = added;
        self.finisher.change(|info| info.set_possible_gaps(all))
    }

    /// Notes the gap before the first part of a capture, of this number. It must be known when the part is, and before a later
    /// time counts as captured.
    pub(super) fn note_gap(&mut self, before_part: u64) -> Result<(), ArchiveError> {
        let Some(gap) = &mut self.gap else {
            return Ok(());
        };
        let is_first = gap.before_part.is_none();
        gap.before_part.get_or_insert(before_part);
        self.write_gap(self.started_us)?;
        match is_first {
            // Waits until it is on disk.
            true => self.finisher.change(|_| {}),
            false => Ok(()),
        }
    }

    /// Notes an event of the source that the series gets. The first one ends the gap, also after it was noted.
    pub(super) fn note_new(&mut self, ended_us: i64) -> Result<(), ArchiveError> {
        let Some(gap) = &mut self.gap else {
            return Ok(());
        };
        gap.note_new(ended_us);
        match gap.to_us.is_some() && !gap.has_written_end {
            true => self.write_gap(self.started_us),
            // An earlier end is written with the next state.
            false => Ok(()),
        }
    }

    /// Writes the gap, if it has changed since it was noted. `unknown_to_us` is its end if the source has no later event.
    pub(super) fn write_gap(&mut self, unknown_to_us: i64) -> Result<(), ArchiveError> {
        let Some(gap) = self.gap.as_mut().filter(|gap| !gap.is_written) else {
            return Ok(());
        };
        let Some(entry) = gap.entry(unknown_to_us) else {
            return Ok(());
        };
        gap.is_written = true;
        gap.has_written_end |= gap.to_us.is_some();
        let (recorded_to_us, first_new_us) = (gap.recorded_to_us, gap.first_new_us);
        let change = FinisherTask::Change(Box::new(move |info| {
            // That of a capture which was killed before the part existed is replaced, and so is an earlier state.
            info.gaps.retain(|other| {
                other.before_part != entry.before_part || other.from_us < recorded_to_us
            });
            // An idle capture that was killed has noted a gap up to its start. All others ended before the new event.
            for other in &mut info.gaps {
                if let Some(new_us) = first_new_us
                    && other.from_us < new_us
                {
                    other.to_us = other.to_us.min(new_us);
                }
            }
            info.gaps.push(entry);
        }));
        self.finisher.send(change)
    }

    /// Writes the gap at the end of a source. Without a later event, the next capture has the same gap, and only sessions end.
    pub(super) fn end_gap(&mut self) -> Result<(), ArchiveError> {
        if let Some(gap) = self.gap.as_mut().filter(|gap| gap.to_us.is_none()) {
            gap.is_written = false;
        }
        self.write_gap(i64::MIN)
    }
}
