//! Breaks deadlocks of `--order commit` and `--order dependencies`: a statement waits for an execution that waits for a
//! lock of the statement's own session.
//!
//! The server reports which processes wait for a lock, and which processes hold it. The breaker releases the
//! statements of the holders before their turn. It runs on its own thread, and has a connection only while a
//! statement waits for long.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::Clock;

use crate::commit_order::WaitingStatement;
use crate::connect::{Dialer, QueryConnection};
use crate::login::Login;
use crate::statement_order::StatementOrder;

/// Interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Shorter waits are not checked.
const LONG_WAIT_NS: i64 = 100_000_000;
/// If no wait ends for this long and the server has no active process, or shows none, the statements
/// that wait for as long are released.
const STALL_NS: i64 = 5_000_000_000;

/// One row for each set of blocking processes, and one with the number of other active backends.
const BLOCKERS_SQL: &str = "SELECT CASE WHEN wait_event_type = 'Lock' \
     THEN array_to_string(pg_blocking_pids(pid), ',') END, \
     count(*) FILTER (WHERE state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock') \
     FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' GROUP BY 1";

/// Thread that releases statements whose waiting blocks what they wait for.
pub(crate) struct DeadlockBreaker<'a> {
    pub(crate) order: &'a StatementOrder,
    pub(crate) dialer: &'a Arc<Dialer>,
    pub(crate) login: Option<Login>,
    pub(crate) clock: &'a Arc<dyn Clock>,
    pub(crate) start_ns: i64,
    pub(crate) finished: &'a AtomicBool,
}

impl DeadlockBreaker<'_> {
    /// Checks until the replay is finished.
    pub(crate) fn run(self) {
        let mut questions: Option<QueryConnection<'_>> = None;
        let (mut progress, mut moved_ns) = (0, 0);
        while !self.finished.load(Ordering::Acquire) {
            std::thread::sleep(CHECK_INTERVAL);
            let now_ns = self.clock.now_ns() - self.start_ns;
            if self.order.progress() != progress {
                progress = self.order.progress();
                moved_ns = now_ns;
            }
            let mut waiting = self.order.waiting();
            waiting.retain(|(_, one)| now_ns - one.since_ns > LONG_WAIT_NS);
            if waiting.is_empty() {
                questions = None;
                continue;
            }
            if questions.is_none()
                && let Some(login) = &self.login
            {
                questions = self.dialer.questions(login).ok();
            }
            let rows = match &mut questions {
                Some(open) => match open.query(BLOCKERS_SQL) {
                    Ok(rows) => rows,
                    Err(_) => {
                        questions = None;
                        Vec::new()
                    }
                },
                None => Vec::new(),
            };
            let activity = Activity::parse(&rows);
            self.release(&waiting, &activity, now_ns, now_ns - moved_ns);
        }
    }

    /// Releases the statements of sessions that block others. `stalled_ns`: time since a commit has finished.
    fn release(
        &self,
        waiting: &[((usize, usize), WaitingStatement)],
        activity: &Activity,
        now_ns: i64,
        stalled_ns: i64,
    ) {
        let mut released = false;
        for (at, statement) in waiting {
            let process_id = statement.process_id;
            if process_id.is_some_and(|pid| activity.blockers.contains(&pid)) {
                self.order.release_early(*at);
                released = true;
            }
        }
        // A blocker without a process is a prepared transaction.
        if !released && activity.blockers.contains(&0) {
            released = self.order.release_prepared_end();
        }
        if !released && activity.active == 0 && stalled_ns > STALL_NS {
            for (at, statement) in waiting {
                if now_ns - statement.since_ns > STALL_NS {
                    self.order.release_early(*at);
                }
            }
        }
    }
}

/// Activity of the server's backends.
struct Activity {
    /// Processes that hold locks for which others wait; 0 for a prepared transaction.
    blockers: HashSet<i32>,
    /// Number of backends that are active and do not wait for a lock.
    active: u64,
}

impl Activity {
    /// Parses the result of [`BLOCKERS_SQL`].
    fn parse(rows: &[Vec<Option<String>>]) -> Self {
        let mut activity = Activity {
            blockers: HashSet::new(),
            active: 0,
        };
        for row in rows {
            let value = |column: usize| row.get(column).and_then(Option::as_deref).unwrap_or("");
            let pids = value(0).split(',');
            let blockers = pids.filter_map(|pid| pid.parse::<i32>().ok());
            activity.blockers.extend(blockers);
            activity.active += value(1).parse().unwrap_or(0);
        }
        activity
    }
}
