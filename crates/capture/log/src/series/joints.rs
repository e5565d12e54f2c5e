//! Decides between which files of a log one may be missing.

use std::collections::{BTreeSet, HashMap};

use workload::series::PossibleGap;

use super::Gap;
use crate::rotation_name::{rotation_number, stem};

/// Minimum duration of a reported gap.
pub(super) const GAP_MIN_US: i64 = 60_000_000;

/// Maximum number of missing names listed for one series.
const MISSING_MAX: usize = 100;

/// Two files that follow each other, with a pause or without a file of a number between theirs.
#[derive(Debug)]
struct Joint {
    pause: Gap,
    lacks_number: bool,
}

/// Evidence of missing files.
#[derive(Debug, Default)]
pub(super) struct Joints {
    /// Those that may lack a file.
    joints: Vec<Joint>,
    /// Time spans of the files read so far, the shortest first.
    spans_us: Vec<i64>,
    /// Numbers of all files by the common part of their names.
    numbers: HashMap<String, BTreeSet<u32>>,
}

impl Joints {
    /// Notes a file, which may be empty, before any is read.
    pub(super) fn note_file(&mut self, name: &str) {
        let numbers = self.numbers.entry(stem(name)).or_default();
        numbers.extend(rotation_number(name));
    }

    /// Notes the time span of a file that was read.
    pub(super) fn note_span(&mut self, span_us: i64) {
        let at = self.spans_us.partition_point(|other| *other < span_us);
        self.spans_us.insert(at, span_us);
    }

    /// Notes that one file continues another.
    pub(super) fn join(&mut self, pause: Gap) {
        let lacks_number = self.lacks_number(&pause.before, &pause.after);
        if lacks_number || pause.to_us - pause.from_us > GAP_MIN_US {
            self.joints.push(Joint {
                pause,
                lacks_number,
            });
        }
    }

    /// Whether no file was given of a number between those of two files of one log.
    fn lacks_number(&self, before: &str, after: &str) -> bool {
        let stem_before = stem(before);
        let numbers = rotation_number(before).zip(rotation_number(after));
        let (Some((before, next)), Some(given)) = (numbers, self.numbers.get(&stem_before)) else {
            return false;
        };
        let mut between = before.min(next).saturating_add(1)..before.max(next);
        stem_before == stem(after) && between.any(|number| !given.contains(&number))
    }

    /// Returns the minimum duration of a gap, from the spans of the files read so far.
    fn least_us(&self) -> i64 {
        let typical_us = self.spans_us.get(self.spans_us.len() / 2);
        GAP_MIN_US.max(typical_us.map_or(0, |typical_us| typical_us / 2))
    }

    fn is_gap(joint: &Joint, least_us: i64) -> bool {
        joint.pause.to_us - joint.pause.from_us > least_us
    }

    /// Returns the pauses that are longer than is usual.
    pub(super) fn gaps(&self) -> Vec<Gap> {
        let least_us = self.least_us();
        let joints = self.joints.iter();
        let gaps = joints.filter(|joint| Self::is_gap(joint, least_us));
        gaps.map(|joint| joint.pause.clone()).collect()
    }

    /// Returns the times of these gaps, and of the files whose numbers are missing.
    pub(super) fn possible_gaps(&self) -> Vec<PossibleGap> {
        let least_us = self.least_us();
        let joints = self.joints.iter();
        let lacking = joints.filter(|joint| joint.lacks_number || Self::is_gap(joint, least_us));
        lacking
            .map(|joint| PossibleGap {
                from_us: joint.pause.from_us,
                to_us: joint.pause.to_us,
            })
            .collect()
    }

    /// Returns the names of a numbered series that were expected and not given.
    pub(super) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (stem, numbers) in &self.numbers {
            let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
                continue;
            };
            let absent = (*first..*last).filter(|number| !numbers.contains(number));
            let names = absent.map(|number| format!("{stem}.{number}"));
            missing.extend(names.take(MISSING_MAX));
        }
        missing.sort();
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_US: i64 = 60_000_000;

    /// Joints of files that cover these minutes.
    fn joints(files: &[(&str, i64, i64)], empty: &[&str]) -> Joints {
        let mut joints = Joints::default();
        let names = files.iter().map(|(name, ..)| name).chain(empty);
        names.for_each(|name| joints.note_file(name));
        let mut last: Option<&(&str, i64, i64)> = None;
        for file in files {
            let (name, from, to) = file;
            if let Some((before, _, ended)) = last {
                joints.join(Gap {
                    before: (*before).to_owned(),
                    after: (*name).to_owned(),
                    from_us: ended * MINUTE_US,
                    to_us: from * MINUTE_US,
                });
            }
            joints.note_span((to - from) * MINUTE_US);
            last = Some(file);
        }
        joints
    }

    fn minutes(joints: &Joints) -> Vec<(i64, i64)> {
        let gaps = joints.possible_gaps();
        let times = gaps
            .iter()
            .map(|gap| (gap.from_us / MINUTE_US, gap.to_us / MINUTE_US));
        times.collect()
    }

    #[test]
    fn pause_between_files_is_a_possible_gap_if_it_is_longer_than_half_a_file() {
        let files = [("1.log", 0, 10), ("2.log", 14, 24), ("4.log", 64, 74)];
        let joints = joints(&files, &[]);
        assert_eq!(minutes(&joints), [(24, 64)]);
        assert_eq!(joints.gaps().len(), 1);
    }

    #[test]
    fn missing_number_is_a_possible_gap_however_short_the_pause() {
        let files = [("a.log.4", 0, 10), ("a.log.2", 11, 20), ("a.log", 21, 30)];
        let lacking = joints(&files, &["a.log.1"]);
        assert_eq!(minutes(&lacking), [(10, 11)]);
        assert!(lacking.gaps().is_empty());
        assert_eq!(lacking.missing(), ["a.log.3"]);
        assert_eq!(minutes(&joints(&files, &["a.log.1", "a.log.3"])), []);
    }
}
