//! Captured times of statements, with their spread.

use std::collections::{HashMap, HashSet};

use sql::Fingerprint;
use statistics::SampleMean;
use workload::{ArchiveError, WorkloadReader};

/// Reads the captured times, in microseconds, of all statements that did not fail, in one database. Sessions whose database is not
/// known count, too. If no session names the database, all were replayed in it under another name, and count.
///
/// # Errors
/// If the workload cannot be read.
pub(super) fn captured_times(
    workload: &WorkloadReader,
    database: &str,
) -> Result<HashMap<Fingerprint, SampleMean>, ArchiveError> {
    let others = other_sessions(workload, database)?;
    let mut sums: HashMap<Fingerprint, (u64, f64, f64)> = HashMap::new();
    for event in workload.events()? {
        let (event, fingerprint) = event?;
        if others.contains(&event.session) {
            continue;
        }
        let outcome = event.outcome;
        let (Some(fingerprint), Some(us), None) =
            (fingerprint, outcome.duration_us, outcome.sqlstate)
        else {
            continue;
        };
        let (calls, sum, square) = sums.entry(fingerprint).or_default();
        let us = us as f64;
        *calls += 1;
        *sum += us;
        *square += us * us;
    }
    let samples = sums.into_iter().filter_map(|(fingerprint, sums)| {
        let (calls, sum, square) = sums;
        Some((fingerprint, SampleMean::of_sums(calls, sum, Some(square))?))
    });
    Ok(samples.collect())
}

/// Returns the sessions of other databases; none if no session names this one.
fn other_sessions(workload: &WorkloadReader, database: &str) -> Result<HashSet<u64>, ArchiveError> {
    let mut others = HashSet::new();
    let mut is_named = false;
    for session in workload.sessions()? {
        let session = session?;
        match &*session.database {
            "" => {}
            name if name == database => is_named = true,
            _ => {
                others.insert(session.id);
            }
        }
    }
    if !is_named {
        others.clear();
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use transform::SecretRedactor;
    use workload::{Event, EventKind, Outcome, Provenance, Session, WorkloadWriter, WriterOptions};

    #[test]
    fn times_are_those_of_one_database_unless_no_session_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.workload");
        let event = |session: u64, sequence: u64, kind, duration_us: Option<u64>| Event {
            session,
            sequence,
            due_us: sequence as i64,
            kind,
            outcome: Outcome {
                duration_us,
                ..Outcome::default()
            },
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: None,
        };
        let options = WriterOptions::default();
        let mut writer = WorkloadWriter::create(&path, options, SecretRedactor::default()).unwrap();
        let sessions = [(0, "shop_a", 2_000), (1, "shop_b", 40_000), (2, "", 4_000)];
        for (session, database, _) in sessions {
            let session = Session {
                id: session,
                database: database.into(),
                user: "app".into(),
                application: "".into(),
                client: "".into(),
                start_us: 0,
                end_us: 1,
                start_seen: false,
                end_seen: false,
                statements: 1,
            };
            writer.session(session).unwrap();
        }
        for (session, _, us) in sessions {
            let kind = EventKind::Simple {
                sql: "SELECT 1".into(),
            };
            writer
                .event(&event(session, 1, kind, Some(us)).borrowed())
                .unwrap();
        }
        writer.finish(Provenance::default()).unwrap();
        let workload = WorkloadReader::open(&path).unwrap();
        for (database, count, mean) in [("shop_a", 2, 3_000.0), ("copy", 3, 46_000.0 / 3.0)] {
            let found = captured_times(&workload, database).unwrap();
            let all: Vec<(u64, f64)> = found.values().map(|one| (one.count, one.mean)).collect();
            assert_eq!(all, [(count, mean)], "{database}");
        }
    }
}
