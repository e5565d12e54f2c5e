//! Breaks deadlocks of `--order commit` and `--order dependencies`: a statement waits for an execution that waits for a
//! lock of the statement's own session.
//!
//! The server reports which processes wait for a lock, and which processes hold it. The breaker releases the
//! statements of the holders before their turn. It runs on its own thread, and has a connection only while a
//! statement waits for long.

use std::collections::HashMap;
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

/// One row for each active process, with the processes for whose locks it waits.
const BLOCKERS_SQL: &str = "SELECT pid, CASE WHEN wait_event_type = 'Lock' \
     THEN array_to_string(pg_blocking_pids(pid), ',') END FROM pg_stat_activity \
     WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND state = 'active'";

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
        for at in self.order.deadlocked(waiting, &activity.blocking) {
            self.order.release_early(at);
            released = true;
        }
        // A blocker without a process is a prepared transaction.
        let mut blockers = activity.blocking.values().flatten();
        if !released && blockers.any(|pid| *pid == 0) {
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
    /// Processes that wait for locks, each with those that hold them; 0 for a prepared transaction.
    blocking: HashMap<i32, Vec<i32>>,
    /// Number of backends that are active and do not wait for a lock.
    active: u64,
}

impl Activity {
    /// Parses the result of [`BLOCKERS_SQL`].
    fn parse(rows: &[Vec<Option<String>>]) -> Self {
        let mut activity = Activity {
            blocking: HashMap::new(),
            active: 0,
        };
        for row in rows {
            let value = |column: usize| row.get(column).and_then(Option::as_deref).unwrap_or("");
            let pids = value(1).split(',');
            let blockers: Vec<i32> = pids.filter_map(|pid| pid.parse().ok()).collect();
            match value(0).parse() {
                Ok(process_id) if !blockers.is_empty() => {
                    activity.blocking.insert(process_id, blockers);
                }
                _ => activity.active += 1,
            }
        }
        activity
    }
}
