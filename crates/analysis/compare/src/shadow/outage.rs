//! Outages of the candidate: windows in which it was shut down or refused connections, or in which many sessions had none.
//!
//! A single connection that breaks is no outage. A pooler closes idle connections all the time, and windows that are
//! excluded for it would hide regressions.

use std::collections::{BTreeMap, HashSet};

use run::{ConnectionLosses, Execution, Outcome, StatementKind};
use workload::Sqlstate;

/// Inverse of the ratio of statements without a connection to executed ones, above which a window has an outage: a third of
/// all statements. A login may be refused to a few sessions only. The others are evidence.
const WITHOUT_CONNECTION_INVERSE: u64 = 2;
/// Inverse of the share of open connections that were lost, above which a window has an outage.
const LOST_SHARE_INVERSE: u64 = 3;

/// SQLSTATEs of a server that shuts down, has crashed, or does not accept connections: `admin_shutdown`, `crash_shutdown`,
/// `cannot_connect_now`.
const SHUTDOWN: [Sqlstate; 3] = [
    Sqlstate(*b"57P01"),
    Sqlstate(*b"57P02"),
    Sqlstate(*b"57P03"),
];
/// SQLSTATEs of one lost connection: `connection_does_not_exist`, `connection_failure`, `too_many_connections`. Other codes of
/// class 08 are errors of a statement: 08P01 of a Bind message, 08001 of a foreign server.
const LOST: [Sqlstate; 3] = [
    Sqlstate(*b"08003"),
    Sqlstate(*b"08006"),
    Sqlstate(*b"53300"),
];

/// Signs of an outage among the executions of a window.
#[derive(Debug, Default)]
pub(super) struct OutageSigns {
    /// Whether the server was shut down, or refused a connection.
    is_down: bool,
    /// Sessions that lost their connection during a statement.
    lost: HashSet<u64>,
    /// Number of statements that were skipped because their session had no connection.
    pub(super) without_connection: u64,
}

impl OutageSigns {
    /// Adds an execution. Returns whether it failed because of its connection, unless it failed so in the capture.
    pub(super) fn add_failure(&mut self, execution: &Execution) -> bool {
        let Outcome::Failed(code) = execution.outcome else {
            return false;
        };
        let (is_shutdown, is_lost) = (SHUTDOWN.contains(&code), LOST.contains(&code));
        if execution.captured.sqlstate == Some(code) || !is_shutdown && !is_lost {
            return false;
        }
        let is_refused = execution.kind == StatementKind::Connect && code != LOST[2];
        self.is_down |= is_shutdown || is_refused;
        if execution.is_statement() {
            self.lost.insert(execution.session);
        }
        true
    }

    /// Whether these signs are an outage, in a window with this number of executions and these losses of connections.
    pub(super) fn are_outage(&self, executions: u64, losses: &[LossesOfWindow]) -> bool {
        let is_down = losses.iter().any(|losses| losses.is_shutdown);
        let lost = losses.iter().map(|losses| losses.connections).sum::<u64>();
        let lost = lost.max(self.lost.len() as u64);
        let open = losses.iter().map(|losses| losses.connections_open).max();
        // Runs without a table of losses have no number of open connections.
        let lost_many = lost > 0 && lost * LOST_SHARE_INVERSE > open.unwrap_or(0);
        let lacks_connections = self.without_connection * WITHOUT_CONNECTION_INVERSE > executions;
        self.is_down || is_down || lost_many || lacks_connections
    }
}

/// Losses of connections within a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct LossesOfWindow {
    pub(super) from_ns: i64,
    pub(super) until_ns: i64,
    is_shutdown: bool,
    connections: u64,
    connections_open: u64,
    /// Number of connections of which no earlier window has had the losses.
    pub(super) new_connections: u64,
}

/// Losses of connections in windows that have not ended.
#[derive(Debug, Default)]
pub(super) struct PendingLosses {
    /// By their begin, and their number in the order of additions.
    losses: BTreeMap<(i64, u64), LossesOfWindow>,
    added: u64,
}

impl PendingLosses {
    /// Adds losses. Those of other codes are no sign of an outage: a timeout of idle sessions, for example.
    pub(super) fn add(&mut self, losses: ConnectionLosses) {
        let is_shutdown = SHUTDOWN.contains(&losses.sqlstate);
        if is_shutdown || LOST.contains(&losses.sqlstate) {
            self.insert(LossesOfWindow {
                from_ns: losses.from_ns,
                until_ns: losses.until_ns,
                is_shutdown,
                connections: losses.connections,
                connections_open: losses.connections_open,
                new_connections: losses.connections,
            });
        }
    }

    fn insert(&mut self, losses: LossesOfWindow) {
        self.losses.insert((losses.from_ns, self.added), losses);
        self.added += 1;
    }

    /// Takes the losses that began before a time, in the order of their begin. Those that last longer are returned the next
    /// time, too.
    pub(super) fn take_until(&mut self, until_ns: i64) -> Vec<LossesOfWindow> {
        let later = self.losses.split_off(&(until_ns, 0));
        let taken = std::mem::replace(&mut self.losses, later).into_values();
        let taken: Vec<_> = taken.collect();
        for losses in taken.iter().filter(|losses| losses.until_ns >= until_ns) {
            self.insert(LossesOfWindow {
                from_ns: until_ns,
                new_connections: 0,
                ..*losses
            });
        }
        taken
    }
}
