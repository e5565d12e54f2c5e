//! Summary of server events.

use std::collections::BTreeMap;

use run::SourceLocation;
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::{Literals, ServerEvent, ServerEventKind, message_pattern};

/// Maximum number of distinct tables; there can be many partitions.
const TABLES_MAX: usize = 10_000;
/// Maximum number of rare events that are listed one by one.
pub const NOTABLE_MAX: usize = 100;

/// Summary of server events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServerActivity {
    /// Number of events.
    pub count: u64,
    /// Events by kind; they add up to `count`.
    pub kinds: BTreeMap<ServerEventKind, u64>,
    /// Total bytes of temporary files.
    pub temporary_bytes: u64,
    /// Size of the largest temporary file.
    pub temporary_bytes_max: u64,
    /// Total time of ended lock waits, in microseconds.
    pub lock_waited_us: u64,
    /// Longest lock wait.
    pub lock_longest: Option<LongestWait>,
    /// Checkpoints.
    pub checkpoints: Checkpoints,
    /// Autovacuum by table, sorted by name. Tables past the first 10,000 share the name `…`.
    pub tables: BTreeMap<Box<str>, TableUpkeep>,
    /// Rare events, the first [`NOTABLE_MAX`].
    pub notable: Vec<Notable>,
}

/// Longest wait for a lock.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LongestWait {
    /// Duration in microseconds, as far as the log shows.
    pub waited_us: u64,
    /// Lock and its object. The key of an advisory lock is left out unless literals were requested.
    pub subject: String,
    /// Time of the log line, in microseconds from the workload's start.
    pub at_us: i64,
    /// Position in the source.
    pub place: SourceLocation,
}

/// Completed checkpoints and restartpoints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Checkpoints {
    /// Number of checkpoints by cause, such as `time` and `wal`.
    pub causes: BTreeMap<Box<str>, u64>,
    /// Total duration, in microseconds.
    pub total_us: u64,
    /// Time spent writing buffers.
    pub write_us: u64,
    /// Time spent syncing files.
    pub sync_us: u64,
    /// Duration of the longest.
    pub longest_us: u64,
    /// Buffers written.
    pub buffers: u64,
    /// WAL distance in bytes, summed.
    pub wal_bytes: u64,
}

/// Autovacuum activity on one table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TableUpkeep {
    /// Number of vacuums.
    pub vacuums: u64,
    /// Number of analyzes.
    pub analyzes: u64,
    /// Number of times that it was cancelled or skipped because of a lock.
    pub cancelled_for_lock: u64,
    /// Total time of vacuums and analyzes, in microseconds.
    pub time_us: u64,
    /// Dead row versions removed.
    pub tuples_removed: u64,
    /// Dead row versions that the last vacuum could not remove.
    pub tuples_dead: u64,
    /// Number of index scans.
    pub index_scans: u64,
}

/// Rare event.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Notable {
    /// Time in microseconds from the workload's start.
    pub at_us: i64,
    /// Kind of event.
    pub kind: ServerEventKind,
    /// Object of the event. A message of the server is shown as its pattern unless literals were requested.
    pub subject: String,
    /// Session, if there is one.
    pub session: Option<u64>,
    /// The statement that was running.
    pub fingerprint: Option<Fingerprint>,
    /// Position in the source.
    pub place: SourceLocation,
}

impl ServerActivity {
    /// Returns the number of events of a kind.
    pub fn of(&self, kind: ServerEventKind) -> u64 {
        self.kinds.get(&kind).copied().unwrap_or(0)
    }

    pub(super) fn add(
        &mut self,
        event: &ServerEvent,
        fingerprint: Option<Fingerprint>,
        literals: Literals,
    ) {
        use ServerEventKind as Kind;
        self.count += 1;
        *self.kinds.entry(event.kind).or_default() += 1;
        let duration_us = event.duration_us.unwrap_or(0);
        match event.kind {
            Kind::TemporaryFile => {
                let bytes = event.bytes.unwrap_or(0);
                self.temporary_bytes += bytes;
                self.temporary_bytes_max = self.temporary_bytes_max.max(bytes);
            }
            Kind::LockWait | Kind::LockAcquired | Kind::LockFailed => {
                if event.kind != Kind::LockWait {
                    self.lock_waited_us += duration_us;
                }
                let longest = self.lock_longest.as_ref();
                if longest.is_none_or(|longest| longest.waited_us < duration_us) {
                    self.lock_longest = Some(LongestWait {
                        waited_us: duration_us,
                        subject: subject(event),
                        at_us: event.at_us,
                        place: SourceLocation {
                            source: event.source,
                            line: event.line,
                        },
                    });
                }
            }
            Kind::CheckpointStarting => {
                let cause = event.subject.clone().unwrap_or_default();
                *self.checkpoints.causes.entry(cause).or_default() += 1;
            }
            Kind::Checkpoint => {
                let checkpoints = &mut self.checkpoints;
                checkpoints.total_us += duration_us;
                checkpoints.write_us += event.write_us.unwrap_or(0);
                checkpoints.sync_us += event.sync_us.unwrap_or(0);
                checkpoints.longest_us = checkpoints.longest_us.max(duration_us);
                checkpoints.buffers += event.buffers.unwrap_or(0);
                checkpoints.wal_bytes += event.bytes.unwrap_or(0);
            }
            Kind::Autovacuum
            | Kind::Autoanalyze
            | Kind::AutovacuumCancelled
            | Kind::AutovacuumSkipped => self.upkeep(event, duration_us),
            Kind::CheckpointsTooFrequent | Kind::Reload => (),
            _ => self.note(event, fingerprint, literals),
        }
    }

    fn upkeep(&mut self, event: &ServerEvent, duration_us: u64) {
        let name = event.subject.as_deref().unwrap_or_default();
        let name = match self.tables.len() >= TABLES_MAX && !self.tables.contains_key(name) {
            true => "…",
            false => name,
        };
        let table = self.tables.entry(name.into()).or_default();
        table.time_us += duration_us;
        table.tuples_removed += event.tuples_removed.unwrap_or(0);
        table.index_scans += event.index_scans.unwrap_or(0);
        match event.kind {
            ServerEventKind::Autovacuum => {
                table.vacuums += 1;
                table.tuples_dead = event.tuples_dead.unwrap_or(0);
            }
            ServerEventKind::Autoanalyze => table.analyzes += 1,
            _ => table.cancelled_for_lock += 1,
        }
    }

    fn note(&mut self, event: &ServerEvent, fingerprint: Option<Fingerprint>, literals: Literals) {
        let hides = literals == Literals::Hidden && event.kind.may_hold_values();
        if self.notable.len() < NOTABLE_MAX {
            self.notable.push(Notable {
                at_us: event.at_us,
                kind: event.kind,
                subject: match hides {
                    true => message_pattern(&subject(event)),
                    false => subject(event),
                },
                session: event.session,
                fingerprint,
                place: SourceLocation {
                    source: event.source,
                    line: event.line,
                },
            });
        }
    }
}

fn subject(event: &ServerEvent) -> String {
    event.subject.as_deref().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "no credit for 'Jane Doe' of 4711";

    fn noted(kind: ServerEventKind, literals: Literals) -> String {
        let mut activity = ServerActivity::default();
        let event = ServerEvent {
            kind,
            subject: Some(MESSAGE.into()),
            ..ServerEvent::default()
        };
        activity.add(&event, None, literals);
        activity.notable.remove(0).subject
    }

    #[test]
    fn message_that_a_function_can_write_is_shown_as_a_pattern_unless_literals_are_shown() {
        let kinds = ServerEventKind::ALL.iter().copied();
        let kinds: Vec<_> = kinds.filter(|kind| kind.may_hold_values()).collect();
        assert!(!kinds.is_empty());
        for kind in kinds {
            let hidden = noted(kind, Literals::Hidden);
            assert_eq!(hidden, "no credit for '…' of #", "{kind:?}");
            assert_eq!(noted(kind, Literals::Shown), MESSAGE, "{kind:?}");
        }
    }
}
