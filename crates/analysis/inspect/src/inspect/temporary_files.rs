//! Temporary files (`log_temp_files`) by the statement that made them.

use std::collections::HashMap;

use run::SourceLocation;
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::ServerEvent;

/// Maximum number of statements that are listed. The count of all files is among the kinds of the server's activity.
pub const TEMPORARY_FILE_STATEMENTS_MAX: usize = 100;

/// Temporary files of one statement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TemporaryFiles {
    /// The statement; `null` for all files whose statement is unknown.
    pub fingerprint: Option<Fingerprint>,
    /// Number of files.
    pub files: u64,
    /// Total size in bytes.
    pub bytes: u64,
    /// Size of the largest.
    pub largest_bytes: u64,
    /// Time at which the largest was removed, in microseconds from the workload's start.
    pub at_us: i64,
    /// Session of the largest.
    pub session: Option<u64>,
    /// Position of the largest in the source.
    pub place: SourceLocation,
}

/// Counts temporary files. Memory is bounded by the number of statements.
#[derive(Debug, Default)]
pub(super) struct TemporaryFileCounter(HashMap<Option<Fingerprint>, TemporaryFiles>);

impl TemporaryFileCounter {
    pub(super) fn add(&mut self, event: &ServerEvent, fingerprint: Option<Fingerprint>) {
        let bytes = event.bytes.unwrap_or(0);
        let one = TemporaryFiles {
            fingerprint,
            files: 1,
            bytes,
            largest_bytes: bytes,
            at_us: event.at_us,
            session: event.session,
            place: SourceLocation {
                source: event.source,
                line: event.line,
            },
        };
        self.merge(one);
    }

    fn merge(&mut self, other: TemporaryFiles) {
        match self.0.get_mut(&other.fingerprint) {
            None => {
                self.0.insert(other.fingerprint, other);
            }
            Some(known) => {
                let largest = match known.largest_bytes >= other.largest_bytes {
                    true => known.clone(),
                    false => other.clone(),
                };
                *known = TemporaryFiles {
                    files: known.files + other.files,
                    bytes: known.bytes.saturating_add(other.bytes),
                    ..largest
                };
            }
        }
    }

    /// Returns the statements by descending size, at most [`TEMPORARY_FILE_STATEMENTS_MAX`].
    pub(super) fn finish(self) -> Vec<TemporaryFiles> {
        let mut all: Vec<TemporaryFiles> = self.0.into_values().collect();
        all.sort_by_key(|one| (std::cmp::Reverse(one.bytes), one.fingerprint));
        all.truncate(TEMPORARY_FILE_STATEMENTS_MAX);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_summed_by_statement_with_the_largest_as_example() {
        let mut counter = TemporaryFileCounter::default();
        for (at_us, bytes, fingerprint) in [
            (1, 10, Some(7)),
            (2, 30, Some(7)),
            (3, 30, Some(7)),
            (4, 25, None),
        ] {
            let event = ServerEvent {
                at_us,
                bytes: Some(bytes),
                ..ServerEvent::default()
            };
            counter.add(&event, fingerprint.map(Fingerprint));
        }
        let all = counter.finish();
        let numbers: Vec<_> = { all.iter() }
            .map(|one| {
                (
                    one.fingerprint,
                    one.files,
                    one.bytes,
                    one.largest_bytes,
                    one.at_us,
                )
            })
            .collect();
        assert_eq!(
            numbers,
            [(Some(Fingerprint(7)), 3, 70, 30, 2), (None, 1, 25, 25, 4)]
        );
    }
}
