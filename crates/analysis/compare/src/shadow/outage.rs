//! Outages of the candidate: windows in which it was shut down or refused connections, or in which many sessions had none.
//!
//! Connections that break one by one are no outage, also if the server or an administrator ends them. A pooler closes idle
//! connections all the time, and windows that are excluded for it would hide regressions.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use run::{Execution, LostConnection, Outcome, StatementKind};
use sql::Fingerprint;
use workload::Sqlstate;

/// Inverse of the ratio of statements without a connection to executed ones, above which a window has an outage: a third of
/// all statements. A login may be refused to a few sessions only. The others are evidence.
const WITHOUT_CONNECTION_INVERSE: u64 = 2;
/// Inverse of the share of sessions that lost their connection, above which it is an outage.
const LOST_SHARE_INVERSE: u64 = 3;
/// Longest time between losses that count together, in nanoseconds. A server that is shut down ends all connections within it.
const LOSS_RANGE_NS: i64 = 10_000_000_000;
/// Inverse of the share of a statement's executions that broke their connection, above which they are errors of the statement.
/// A connection that breaks for another reason cuts off one of many executions.
const BREAKING_SHARE_INVERSE: u64 = 5;

/// SQLSTATEs of a server that has crashed or does not accept connections: `crash_shutdown`, `cannot_connect_now`.
const DOWN: [Sqlstate; 2] = [Sqlstate(*b"57P02"), Sqlstate(*b"57P03")];
/// SQLSTATE of a connection that a shutdown ends, or `pg_terminate_backend` (`admin_shutdown`).
const SHUTDOWN: Sqlstate = Sqlstate(*b"57P01");
/// SQLSTATE of a login that a limit refuses (`too_many_connections`).
const TOO_MANY: Sqlstate = Sqlstate(*b"53300");
/// SQLSTATEs of a timeout of the session: `idle_session_timeout`, `idle_in_transaction_session_timeout`,
/// `transaction_timeout`. They are no sign of an outage.
const TIMEOUTS: [Sqlstate; 3] = [
    Sqlstate(*b"57P05"),
    Sqlstate(*b"25P03"),
    Sqlstate(*b"25P04"),
];

/// Relation of a failure to its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionFailure {
    /// The connection has not failed, or failed so in the capture, too.
    None,
    /// The connection could not be opened.
    Refused,
    /// The connection broke during a statement.
    Broken,
}

/// Signs of an outage among the executions of a window.
#[derive(Debug, Default)]
pub(super) struct OutageSigns {
    /// Whether the server was down, or refused a connection.
    is_down: bool,
    /// Sessions that executed statements.
    sessions: HashSet<u64>,
    /// Sessions that a shutdown ended, of runs without a table of lost connections.
    shut_down: HashSet<u64>,
    /// Number of statements that were skipped because their session had no connection.
    pub(super) without_connection: u64,
}

impl OutageSigns {
    /// Adds an execution that was sent, and returns the failure of its connection.
    pub(super) fn add(&mut self, execution: &Execution, losses: &Losses) -> ConnectionFailure {
        self.sessions.insert(execution.session);
        let Outcome::Failed(code) = execution.outcome else {
            return ConnectionFailure::None;
        };
        let is_connect = execution.kind == StatementKind::Connect;
        let is_down = DOWN.contains(&code);
        if execution.captured.sqlstate == Some(code) {
            return ConnectionFailure::None;
        }
        self.is_down |= is_down || is_connect && code != TOO_MANY;
        if is_connect {
            return ConnectionFailure::Refused;
        }
        let is_lost = losses.contains(execution);
        if code == SHUTDOWN && !is_lost {
            self.shut_down.insert(execution.session);
        }
        // Other codes are errors of a statement if the session keeps its connection: 08P01 of a Bind message, 08006 of a
        // foreign server.
        match is_lost || is_down || code == SHUTDOWN {
            true => ConnectionFailure::Broken,
            false => ConnectionFailure::None,
        }
    }

    /// Whether these signs are an outage, in a window with this number of executions.
    pub(super) fn are_outage(&self, executions: u64) -> bool {
        let (shut_down, sessions) = (self.shut_down.len() as u64, self.sessions.len() as u64);
        let lacks_connections = self.without_connection * WITHOUT_CONNECTION_INVERSE > executions;
        self.is_down || lacks_connections || lost_many(shut_down, sessions, true)
    }
}

/// Whether more than a third of the sessions with a connection lost it. A single one is an outage only if it is the only one, and a
/// shutdown ended it.
fn lost_many(lost: u64, open: u64, is_shutdown: bool) -> bool {
    let is_single = lost == 1 && !(is_shutdown && open <= 1);
    lost * LOST_SHARE_INVERSE > open && lost > 0 && !is_single
}

/// Executions of a window that broke their connection.
#[derive(Debug, Default)]
pub(super) struct BrokenExecutions {
    /// By statement, the times at which they were due.
    due_ns: BTreeMap<Fingerprint, Vec<i64>>,
}

impl BrokenExecutions {
    pub(super) fn add(&mut self, fingerprint: Fingerprint, due_ns: i64) {
        self.due_ns.entry(fingerprint).or_default().push(due_ns);
    }

    /// Takes the statements that broke their connection repeatedly, with the number of times. `others` returns the number of a
    /// statement's other executions in the window.
    pub(super) fn take_errors(
        &mut self,
        others: impl Fn(Fingerprint) -> u64,
    ) -> Vec<(Fingerprint, u64)> {
        let errors = self.due_ns.extract_if(.., |fingerprint, due_ns| {
            let broken = due_ns.len() as u64;
            broken * BREAKING_SHARE_INVERSE > broken + others(*fingerprint)
        });
        errors
            .map(|(fingerprint, due_ns)| (fingerprint, due_ns.len() as u64))
            .collect()
    }

    /// Returns the times at which all others were due.
    pub(super) fn into_due_ns(self) -> impl Iterator<Item = i64> {
        self.due_ns.into_values().flatten()
    }
}

/// Lost connections of a range of time.
#[derive(Debug, Default)]
pub(super) struct LossesOfRange {
    /// Lost connections, in the order of time.
    pub(super) lost: Vec<LostConnection>,
    /// Time of the last loss with which there is an outage.
    pub(super) outage_ns: Option<i64>,
}

/// Lost connections of windows that have not ended, and those shortly before.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// By their time, and their number in the order of additions.
    pending: BTreeMap<(i64, u64), LostConnection>,
    added: u64,
    recent: RecentLosses,
}

impl Losses {
    pub(super) fn add(&mut self, lost: LostConnection) {
        self.pending.insert((lost.at_ns, self.added), lost);
        self.added += 1;
    }

    /// Whether an execution failed with a loss of its session's connection.
    fn contains(&self, execution: &Execution) -> bool {
        let Some(done_ns) = execution.done_ns else {
            return false;
        };
        let mut same_time = self.pending.range((done_ns, 0)..=(done_ns, u64::MAX));
        same_time.any(|(_, lost)| lost.session == execution.session)
    }

    /// Takes the connections that were lost before a time.
    pub(super) fn take_until(&mut self, until_ns: i64) -> LossesOfRange {
        let later = self.pending.split_off(&(until_ns, 0));
        let taken = std::mem::replace(&mut self.pending, later);
        let mut range = LossesOfRange::default();
        for lost in taken.into_values() {
            if self.recent.is_outage_with(lost) {
                range.outage_ns = Some(lost.at_ns);
            }
            range.lost.push(lost);
        }
        range
    }
}

/// Losses of the last [`LOSS_RANGE_NS`], without timeouts.
#[derive(Debug, Default)]
struct RecentLosses {
    lost: VecDeque<LostConnection>,
    /// Number of losses of each session.
    sessions: HashMap<u64, u64>,
    shutdowns: u64,
}

impl RecentLosses {
    /// Adds the next loss. Returns whether there is an outage with it.
    fn is_outage_with(&mut self, lost: LostConnection) -> bool {
        let from_ns = lost.at_ns.saturating_sub(LOSS_RANGE_NS);
        while let Some(old) = self.lost.pop_front_if(|old| old.at_ns <= from_ns) {
            self.shutdowns -= u64::from(old.sqlstate == SHUTDOWN);
            if let Some(count) = self.sessions.get_mut(&old.session) {
                *count -= 1;
                if *count == 0 {
                    self.sessions.remove(&old.session);
                }
            }
        }
        if TIMEOUTS.contains(&lost.sqlstate) {
            return false;
        }
        *self.sessions.entry(lost.session).or_default() += 1;
        self.shutdowns += u64::from(lost.sqlstate == SHUTDOWN);
        self.lost.push_back(lost);
        let first = self.lost.front().map_or(0, |first| first.connections_open);
        let open = first.max(lost.connections_open);
        let sessions = self.sessions.len() as u64;
        DOWN.contains(&lost.sqlstate) || lost_many(sessions, open, self.shutdowns > 0)
    }
}
