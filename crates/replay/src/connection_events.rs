//! Losses and recoveries of connections: counted, reported in the run's manifest, and queued for the observer.
//! They are rare, so a mutex is cheap enough.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use run::{LostConnection, RunInfo};
use workload::Sqlstate;

/// Most events that wait for the observer; further ones are only counted.
pub(crate) const QUEUED_EVENTS_MAX: usize = 1_024;

/// Event of a connection that a log should report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// A connection could not be opened, and its session does not begin.
    ConnectionRefused {
        /// The session's number in the run.
        session: u64,
        /// The code.
        sqlstate: Sqlstate,
        /// The target's message, or the system's.
        message: String,
    },
    /// A connection was lost.
    ConnectionLost {
        /// The code.
        sqlstate: Sqlstate,
    },
    /// A lost connection was opened again.
    ConnectionReopened {
        /// Statements that failed of those that bring the session to where it was.
        restore_errors: u64,
    },
    /// A connection could not be opened, and will be tried again.
    ConnectionRetried,
    /// A cancel request did not reach the target.
    CancelFailed,
    /// A note on the series that is followed, in whole sentences.
    SeriesNote(String),
    /// The replay gives the target up.
    GivenUp {
        /// Why, in words.
        reason: String,
    },
}

/// Queue of events for the observer's thread. Pushing never blocks.
#[derive(Debug)]
pub(crate) struct EventQueue {
    sender: Sender<ConnectionEvent>,
    receiver: Receiver<ConnectionEvent>,
    left_out: AtomicU64,
}

impl Default for EventQueue {
    fn default() -> Self {
        let (sender, receiver) = bounded(QUEUED_EVENTS_MAX);
        EventQueue {
            sender,
            receiver,
            left_out: AtomicU64::new(0),
        }
    }
}

impl EventQueue {
    pub(crate) fn push(&self, happening: ConnectionEvent) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(happening) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the events since the last call, and the number of events for which there was no room.
    pub(crate) fn take(&self) -> (Vec<ConnectionEvent>, u64) {
        (
            self.receiver.try_iter().collect(),
            self.left_out.swap(0, Ordering::Relaxed),
        )
    }
}

/// Counter with its name, without prefix and suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Name of the counter.
    pub name: &'static str,
    /// Description, as a sentence.
    pub help: &'static str,
    /// Current value.
    pub value: u64,
}

/// Counts and events of all threads.
#[derive(Debug, Default)]
pub(crate) struct ConnectionEvents {
    counts: Mutex<Counts>,
    /// Events that the observer has not fetched yet.
    pub(crate) queue: EventQueue,
}

#[derive(Debug, Default)]
struct Counts {
    lost: BTreeMap<Sqlstate, u64>,
    /// Lost connections that the recorder has not taken yet.
    newly_lost: Vec<LostConnection>,
    reopened: u64,
    retried: u64,
    restore_errors: u64,
    cancels_failed: u64,
    cancels_repeated: u64,
    transactions_aborted: u64,
    handed_over: u64,
    learned: u64,
    remapped: u64,
    values_unknown: u64,
    given_up: Option<String>,
}

impl ConnectionEvents {
    /// Counts a connection that was lost.
    pub(crate) fn lost(&self, connection: LostConnection) {
        let sqlstate = connection.sqlstate;
        let mut counts = self.counts();
        *counts.lost.entry(sqlstate).or_default() += 1;
        counts.newly_lost.push(connection);
        drop(counts);
        self.queue
            .push(ConnectionEvent::ConnectionLost { sqlstate });
    }

    /// Takes the connections that were lost since the last call.
    pub(crate) fn take_lost(&self) -> Vec<LostConnection> {
        std::mem::take(&mut self.counts().newly_lost)
    }

    /// Counts a lost connection that was opened again. `restore_errors` of the statements that restored its
    /// session state failed.
    pub(crate) fn reopened(&self, restore_errors: u64) {
        let mut counts = self.counts();
        counts.reopened += 1;
        counts.restore_errors += restore_errors;
        self.queue
            .push(ConnectionEvent::ConnectionReopened { restore_errors });
    }

    /// Counts failed statements of those that restored a session's state on the connection of another.
    pub(crate) fn restore_errors(&self, count: u64) {
        if count > 0 {
            self.counts().restore_errors += count;
        }
    }

    /// Counts a connection that could not be opened and will be retried.
    pub(crate) fn retried(&self) {
        self.counts().retried += 1;
        self.queue.push(ConnectionEvent::ConnectionRetried);
    }

    /// Counts a cancel request that did not reach the server.
    pub(crate) fn cancel_failed(&self) {
        self.counts().cancels_failed += 1;
        self.queue.push(ConnectionEvent::CancelFailed);
    }

    /// Counts a cancel request that was sent again, since its statement was still running.
    pub(crate) fn cancel_repeated(&self) {
        self.counts().cancels_repeated += 1;
    }

    /// Counts a transaction that was made to fail, since it had failed in the capture.
    pub(crate) fn transaction_aborted(&self) {
        self.counts().transactions_aborted += 1;
    }

    /// Counts a session that took over the connection of another.
    pub(crate) fn handed_over(&self) {
        self.counts().handed_over += 1;
    }

    /// Counts learned pairs of generated values.
    pub(crate) fn learned(&self, count: u64) {
        self.counts().learned += count;
    }

    /// Counts generated values that a statement uses and the server had not returned.
    pub(crate) fn values_unknown(&self, count: u64) {
        self.counts().values_unknown += count;
    }

    /// Counts values that were replaced by learned ones.
    pub(crate) fn remapped(&self, count: u64) {
        self.counts().remapped += count;
    }

    /// Records why the replay gave the target up.
    pub(crate) fn given_up(&self, reason: String) {
        self.queue.push(ConnectionEvent::GivenUp {
            reason: reason.clone(),
        });
        self.counts().given_up.get_or_insert(reason);
    }

    /// Returns the counts as metrics.
    pub(crate) fn counted(&self) -> Vec<Counter> {
        let counts = self.counts();
        [
            (
                "connections_reopened",
                "Lost connections that were opened again.",
                counts.reopened,
            ),
            (
                "connections_tried_again",
                "Connections that could not be opened and were tried again.",
                counts.retried,
            ),
            (
                "restore_errors",
                "Statements that failed of those that bring a reopened session to where it was.",
                counts.restore_errors,
            ),
            (
                "cancels_failed",
                "Cancel requests that did not reach the target.",
                counts.cancels_failed,
            ),
            (
                "cancels_repeated",
                "Cancel requests that were sent again, since what they were for went on.",
                counts.cancels_repeated,
            ),
            (
                "transactions_aborted",
                "Transactions that were made to fail, since they had failed in the capture.",
                counts.transactions_aborted,
            ),
            (
                "connections_handed_over",
                "Connections that another session took over.",
                counts.handed_over,
            ),
        ]
        .map(|(name, help, value)| Counter { name, help, value })
        .into()
    }

    /// Returns the number of lost connections by SQLSTATE.
    pub(crate) fn lost_by(&self) -> Vec<(String, u64)> {
        self.counts().lost_by().collect()
    }

    /// Writes the counts into a run's manifest.
    pub(crate) fn write_to(&self, info: &mut RunInfo) {
        let counts = self.counts();
        info.connections_lost = counts.lost_by().collect();
        info.connections_reopened = counts.reopened;
        info.given_up = counts.given_up.clone();
        let mut note = |name: &str, count: u64| {
            if count > 0 {
                info.options.insert(name.to_owned(), count.to_string());
            }
        };
        note("connections_tried_again", counts.retried);
        note("restore_errors", counts.restore_errors);
        note("connections_handed_over", counts.handed_over);
        note("cancels_failed", counts.cancels_failed);
        note("cancels_repeated", counts.cancels_repeated);
        note("transactions_aborted", counts.transactions_aborted);
        if info.options.contains_key("remap_generated") {
            // Zero is reported as well, since the option was given.
            let counts = [
                ("learnt", counts.learned),
                ("remapped", counts.remapped),
                ("generated_unknown", counts.values_unknown),
            ];
            for (name, count) in counts {
                info.options.insert(name.to_owned(), count.to_string());
            }
        }
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Counts {
    fn lost_by(&self) -> impl Iterator<Item = (String, u64)> {
        let named = |(sqlstate, count): (&Sqlstate, &u64)| (sqlstate.to_string(), *count);
        self.lost.iter().map(named)
    }
}
