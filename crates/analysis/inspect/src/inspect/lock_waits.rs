//! Waits for locks (`log_lock_waits`) by locked object and mode.
//!
//! A wait is one `still waiting for` of a process and the `acquired` or failure that follows it. If the log has
//! no end of it (the statement was cancelled, or the log ends), its time is the one of its last line.

use std::collections::{BTreeMap, HashMap};

use run::SourceLocation;
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::{Literals, ServerEvent, ServerEventKind, without_advisory_key};

/// Maximum number of examples of each object and mode.
pub const LOCK_EXAMPLES_MAX: usize = 2;

macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum $type {
            $($(#[$of])* $variant,)*
            /// None that this version knows.
            Other,
        }

        impl $type {
            const ALL: &[$type] = &[$($type::$variant,)*];

            /// Name, as the server writes it.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                    $type::Other => "other",
                }
            }
        }
    };
}

names! {
    /// Lock mode (PostgreSQL documentation, 13.3).
    #[allow(missing_docs)]
    LockMode {
        AccessShare = "AccessShareLock",
        RowShare = "RowShareLock",
        RowExclusive = "RowExclusiveLock",
        ShareUpdateExclusive = "ShareUpdateExclusiveLock",
        Share = "ShareLock",
        ShareRowExclusive = "ShareRowExclusiveLock",
        Exclusive = "ExclusiveLock",
        AccessExclusive = "AccessExclusiveLock",
    }
}

names! {
    /// Kind of a locked object (`DescribeLockTag` in the server's `lmgr.c`).
    #[allow(missing_docs)]
    LockedObject {
        Relation = "relation",
        Extension = "extension of relation",
        FrozenIds = "pg_database.datfrozenxid",
        Page = "page",
        Tuple = "tuple",
        Transaction = "transaction",
        VirtualTransaction = "virtual transaction",
        SpeculativeToken = "speculative token",
        Object = "object",
        UserLock = "user lock",
        AdvisoryLock = "advisory lock",
        RemoteTransaction = "remote transaction",
    }
}

/// Waits for locks of one object kind and mode.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LockWaits {
    /// Kind of the object.
    pub object: LockedObject,
    /// Requested mode.
    pub mode: LockMode,
    /// Number of waits longer than `deadlock_timeout`.
    pub waits: u64,
    /// Waits that ended with the lock.
    pub acquired: u64,
    /// Waits that ended without it: in a deadlock.
    pub failed: u64,
    /// Total time waited, in microseconds. Of a wait whose end the log does not show, the time until its last line.
    pub waited_us: u64,
    /// Longest wait.
    pub longest_us: u64,
    /// Longest waits, at most [`LOCK_EXAMPLES_MAX`].
    pub examples: Vec<LockExample>,
}

/// One wait for a lock.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LockExample {
    /// Time waited, in microseconds.
    pub waited_us: u64,
    /// Time of its first line, in microseconds from the workload's start.
    pub at_us: i64,
    /// Session that waited.
    pub session: Option<u64>,
    /// Mode and object, as the server wrote them. The key of an advisory lock is left out unless literals were
    /// requested.
    pub subject: String,
    /// Processes that held the lock, separated by commas.
    pub holders: Option<String>,
    /// The statement that waited.
    pub fingerprint: Option<Fingerprint>,
    /// Position of its first line.
    pub place: SourceLocation,
}

/// Counts lock waits.
#[derive(Debug, Default)]
pub(super) struct LockWaitCounter {
    by_kind: BTreeMap<(LockedObject, LockMode), LockWaits>,
    /// Waits without an end, by process.
    open: HashMap<u32, LockExample>,
}

impl LockWaitCounter {
    /// Adds an event; events of other kinds are ignored.
    pub(super) fn add(&mut self, event: &ServerEvent, fingerprint: Option<Fingerprint>) {
        let is_wait = event.kind == ServerEventKind::LockWait;
        let is_end = matches!(
            event.kind,
            ServerEventKind::LockAcquired | ServerEventKind::LockFailed
        );
        if !is_wait && !is_end {
            return;
        }
        let pid = event.pid.unwrap_or(0);
        let waited_us = event.duration_us.unwrap_or(0);
        let subject = event.subject.as_deref().unwrap_or_default();
        let known = self.open.remove(&pid);
        let (same, other) = match known {
            Some(known) if known.subject == subject && !begins_later(event, &known) => {
                (Some(known), None)
            }
            other => (None, other),
        };
        if let Some(unended) = other {
            self.settle(unended, None);
        }
        let mut wait = same.unwrap_or_else(|| LockExample {
            waited_us,
            at_us: event.at_us,
            session: event.session,
            subject: subject.to_owned(),
            holders: event.holders.as_deref().map(str::to_owned),
            fingerprint,
            place: SourceLocation {
                source: event.source,
                line: event.line,
            },
        });
        wait.waited_us = wait.waited_us.max(waited_us);
        wait.fingerprint = wait.fingerprint.or(fingerprint);
        match is_end {
            true => self.settle(wait, Some(event.kind)),
            false => {
                self.open.insert(pid, wait);
            }
        }
    }

    fn settle(&mut self, wait: LockExample, end: Option<ServerEventKind>) {
        let kind = kind_of(&wait.subject);
        let waits = self.by_kind.entry(kind).or_insert_with(|| LockWaits {
            object: kind.0,
            mode: kind.1,
            waits: 0,
            acquired: 0,
            failed: 0,
            waited_us: 0,
            longest_us: 0,
            examples: Vec::new(),
        });
        waits.waits += 1;
        waits.acquired += u64::from(end == Some(ServerEventKind::LockAcquired));
        waits.failed += u64::from(end == Some(ServerEventKind::LockFailed));
        waits.waited_us = waits.waited_us.saturating_add(wait.waited_us);
        waits.longest_us = waits.longest_us.max(wait.waited_us);
        waits.examples.push(wait);
        waits.keep_longest();
    }

    /// Returns the waits by descending total time.
    pub(super) fn finish(mut self, literals: Literals) -> Vec<LockWaits> {
        let mut unended: Vec<(u32, LockExample)> = self.open.drain().collect();
        unended.sort_by_key(|(pid, wait)| (wait.at_us, wait.place.line, *pid));
        for (_, wait) in unended {
            self.settle(wait, None);
        }
        let mut all: Vec<LockWaits> = self.by_kind.into_values().collect();
        for example in all.iter_mut().flat_map(|waits| &mut waits.examples) {
            hide_key(&mut example.subject, literals);
        }
        all.sort_by_key(|waits| std::cmp::Reverse(waits.waited_us));
        all
    }
}

impl LockWaits {
    fn keep_longest(&mut self) {
        // The sort is stable: of equal waits, the first comes first.
        (self.examples).sort_by_key(|example| std::cmp::Reverse(example.waited_us));
        self.examples.truncate(LOCK_EXAMPLES_MAX);
    }
}

/// Removes the key of an advisory lock, unless literals were requested.
pub(super) fn hide_key(subject: &mut String, literals: Literals) {
    if literals == Literals::Hidden
        && let Some(lock) = without_advisory_key(subject)
    {
        *subject = lock.to_owned();
    }
}

/// Returns whether an event is of another wait than the known one, since it began after that one's first line. A
/// statement that `lock_timeout` cancelled and that is sent again waits for the same lock.
fn begins_later(event: &ServerEvent, known: &LockExample) -> bool {
    let waited_us = event.duration_us.unwrap_or(0);
    event.at_us.saturating_sub_unsigned(waited_us) > known.at_us
}

/// Reads `ShareLock on transaction 4711`.
fn kind_of(subject: &str) -> (LockedObject, LockMode) {
    let (mode, object) = subject.split_once(" on ").unwrap_or((subject, ""));
    let modes = LockMode::ALL.iter().copied();
    let objects = LockedObject::ALL.iter().copied();
    (
        objects
            .filter(|one| object.starts_with(one.name()))
            .max_by_key(|one| one.name().len())
            .unwrap_or(LockedObject::Other),
        { modes }
            .find(|one| one.name() == mode)
            .unwrap_or(LockMode::Other),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: ServerEventKind, pid: u32, waited_us: u64, subject: &str) -> ServerEvent {
        ServerEvent {
            kind,
            pid: Some(pid),
            duration_us: Some(waited_us),
            subject: Some(subject.into()),
            ..ServerEvent::default()
        }
    }

    #[test]
    fn waits_are_counted_once_by_object_and_mode() {
        use ServerEventKind::{LockAcquired, LockFailed, LockWait};
        const ROW: &str = "ShareLock on transaction 5";
        const TABLE: &str = "AccessExclusiveLock on relation 16 of database 5";
        let mut counter = LockWaitCounter::default();
        for (kind, pid, waited_us, subject) in [
            (LockWait, 1, 1_000, ROW),
            (LockWait, 2, 1_100, TABLE),
            // Repeated, and ended.
            (LockWait, 1, 2_000, ROW),
            (LockAcquired, 1, 5_000, ROW),
            // Cancelled, then another wait, which fails.
            (LockWait, 2, 1_200, ROW),
            (LockFailed, 2, 1_300, ROW),
            // Without its beginning.
            (LockAcquired, 3, 7_000, ROW),
            (LockWait, 4, 1_001, "FutureLock on thing 1"),
        ] {
            counter.add(&event(kind, pid, waited_us, subject), None);
        }
        let all = counter.finish(Literals::Hidden);
        let numbers: Vec<_> = all
            .iter()
            .map(|one| {
                (
                    one.object,
                    one.waits,
                    one.acquired,
                    one.failed,
                    one.waited_us,
                )
            })
            .collect();
        assert_eq!(
            numbers,
            [
                (LockedObject::Transaction, 3, 2, 1, 13_300),
                (LockedObject::Relation, 1, 0, 0, 1_100),
                (LockedObject::Other, 1, 0, 0, 1_001),
            ]
        );
        assert_eq!(all[0].mode, LockMode::Share);
        assert_eq!(all[2].mode, LockMode::Other);
        let longest: Vec<u64> = all[0].examples.iter().map(|one| one.waited_us).collect();
        assert_eq!(longest, [7_000, 5_000]);
    }

    #[test]
    fn wait_that_is_cancelled_and_tried_again_counts_twice() {
        use ServerEventKind::{LockAcquired, LockWait};
        const TABLE: &str = "AccessExclusiveLock on relation 16 of database 5";
        let mut counter = LockWaitCounter::default();
        for (at_us, kind, waited_us) in [
            (1_000_000, LockWait, 1_000_000),
            (1_500_000, LockWait, 1_500_000),
            // Cancelled after two seconds, and tried again.
            (3_100_000, LockWait, 1_000_000),
            (3_300_000, LockAcquired, 1_200_000),
        ] {
            let event = ServerEvent {
                at_us,
                ..event(kind, 1, waited_us, TABLE)
            };
            counter.add(&event, None);
        }
        let all = counter.finish(Literals::Hidden);
        assert_eq!(all.len(), 1);
        let table = &all[0];
        assert_eq!(
            (table.waits, table.acquired, table.waited_us),
            (2, 1, 2_700_000)
        );
    }

    #[test]
    fn key_of_an_advisory_lock_is_shown_only_if_literals_are() {
        let subject = |literals| {
            let mut counter = LockWaitCounter::default();
            for (pid, key) in [(1, 42), (2, 43)] {
                let lock = format!("ExclusiveLock on advisory lock [5,0,{key},1]");
                counter.add(&event(ServerEventKind::LockWait, pid, 1_000, &lock), None);
            }
            let waits = counter.finish(literals).remove(0);
            assert_eq!((waits.object, waits.waits), (LockedObject::AdvisoryLock, 2));
            waits.examples[0].subject.clone()
        };
        assert_eq!(subject(Literals::Hidden), "ExclusiveLock on advisory lock");
        assert_eq!(
            subject(Literals::Shown),
            "ExclusiveLock on advisory lock [5,0,42,1]"
        );
    }

    #[test]
    fn locked_objects_are_read_from_their_descriptions() {
        for (subject, object, mode) in [
            (
                "ExclusiveLock on extension of relation 1 of database 2",
                LockedObject::Extension,
                LockMode::Exclusive,
            ),
            (
                "ExclusiveLock on advisory lock [5,0,42,1]",
                LockedObject::AdvisoryLock,
                LockMode::Exclusive,
            ),
            (
                "ExclusiveLock on tuple (0,1) of relation 1 of database 2",
                LockedObject::Tuple,
                LockMode::Exclusive,
            ),
            ("", LockedObject::Other, LockMode::Other),
        ] {
            assert_eq!(kind_of(subject), (object, mode), "{subject}");
        }
    }
}
