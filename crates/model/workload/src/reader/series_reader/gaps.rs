//! Describes what a series lacks.

use archive::UnfinishedDirectory;
use clock::utc_text;

use super::SeriesReader;
use crate::series::{PossibleGap, SeriesGap, UnfinishedPart};

impl SeriesReader {
    /// Describes what is missing, each as a sentence.
    pub(in crate::reader) fn gaps(&self) -> Vec<String> {
        let path = self.path.display();
        let mut gaps = Vec::new();
        let (Some(first), Some(last)) = (self.parts.first(), self.parts.last()) else {
            return gaps;
        };
        let removed = &self.series.removed;
        if let Some(end_us) = removed.latest_end_us
            && removed.parts >= first.member.number.saturating_sub(1)
            && removed.parts > 0
        {
            gaps.push(format!(
                "{path}: {} parts before {} were removed by its retention",
                removed.parts,
                utc_text(end_us)
            ));
        }
        for gap in &self.series.gaps {
            let is_between =
                first.member.number < gap.before_part && gap.before_part <= last.member.number;
            if is_between || self.is_before_first(first.member.number, gap) {
                // A part that was recovered since then reaches into the gap.
                let before = self
                    .parts
                    .iter()
                    .filter(|part| part.member.number < gap.before_part);
                let ends_us = before.map(|part| part.shift_us + part.reader.info().span_us);
                let start_us = self.info.provenance.start_wall_us;
                let recorded_to_us = ends_us.max().map_or(i64::MIN, |end_us| start_us + end_us);
                let from_us = gap.from_us.max(recorded_to_us).min(gap.to_us);
                let (from, to) = (utc_text(from_us), utc_text(gap.to_us));
                let reason = &gap.reason;
                gaps.push(match gap.from_us < gap.to_us {
                    true => format!("{path}: nothing was captured from {from} to {to}: {reason}"),
                    // A log that was read again had no later event.
                    false => format!("{path}: sessions do not continue after {to}: {reason}"),
                });
            }
        }
        for gap in self.possible_gaps(first.member.from_us) {
            gaps.push(format!(
                "{path}: the log has nothing from {} to {}, between two of its files, so one may be missing",
                utc_text(gap.from_us),
                utc_text(gap.to_us)
            ));
        }
        for part in self
            .parts
            .iter()
            .filter(|part| part.reader.info().recovered)
        {
            gaps.push(format!(
                "{}: it was recovered after its capture was killed, and ends early",
                part.reader.path().display()
            ));
        }
        for part in self.killed_parts() {
            let part = part.path.display();
            gaps.push(format!(
                "{part}: its capture was killed, so it is not read; `rehearse recover {part}` keeps what is complete in it"
            ));
        }
        gaps.extend(self.missing_end());
        for foreign in &self.foreign {
            gaps.push(format!(
                "{}: it is no part of this series, so it is not read",
                foreign.display()
            ));
        }
        gaps
    }

    /// Whether a gap of the range is before the first part, of this number, and not among what the retention removed.
    fn is_before_first(&self, first: u64, gap: &SeriesGap) -> bool {
        let (from_us, _) = self.range_us;
        gap.before_part == first
            && gap.to_us > from_us
            && self.series.removed.parts.saturating_add(1) < first
    }

    /// Returns the possible gaps of the range that are in no gap, from this time on.
    fn possible_gaps(&self, first_us: i64) -> impl Iterator<Item = &PossibleGap> {
        let (from_us, to_us) = self.range_us;
        // A capture that was killed has noted it before the events after it.
        let recorded_to_us = self.series.recorded_to_us().unwrap_or(i64::MIN);
        let (from_us, to_us) = (from_us.max(first_us), to_us.min(recorded_to_us));
        let is_known = |possible: &PossibleGap| {
            let mut gaps = self.series.gaps.iter();
            gaps.any(|gap| gap.from_us <= possible.from_us && possible.to_us <= gap.to_us)
        };
        let possible = self.series.possible_gaps.iter();
        possible.filter(move |gap| gap.to_us > from_us && gap.from_us < to_us && !is_known(gap))
    }

    /// Returns the parts of the range that a killed capture has left.
    fn killed_parts(&self) -> impl Iterator<Item = &UnfinishedPart> {
        let (from_us, to_us) = self.range_us;
        self.unfinished.iter().filter(move |part| {
            let member = &part.member;
            let is_in_range = member.from_us < to_us && member.to_us > from_us;
            // One that is not there was completed since the directory was listed.
            is_in_range
                && !UnfinishedDirectory::at(part.path.clone()).being_written
                && part.path.exists()
        })
    }

    /// Reports that the range ends after what the series has.
    fn missing_end(&self) -> Option<String> {
        let (_, to_us) = self.range_us;
        let captured_us = self.series.recorded_to_us()?;
        if to_us == i64::MAX || to_us <= captured_us {
            return None;
        }
        Some(format!(
            "{}: it is complete up to {}, so what is read ends before {}",
            self.path.display(),
            utc_text(captured_us),
            utc_text(to_us)
        ))
    }
}
