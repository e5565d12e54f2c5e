//! Lets statements go before their turn (`--order commit`) where their waiting holds up what they wait
//! for: the server knows which of its processes wait for a lock, and for whose.
//!
//! A thread of its own, with a connection of its own that it has only while something waits for long.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::Clock;

use crate::connect::{Dialer, Questions};
use crate::login::Login;
use crate::order::Order;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What waits shorter than this needs no looking after.
const LONG_NS: i64 = 100_000_000;
/// Where the mark stands still for so long and no process of the server does anything, or none may be
/// seen, nobody can tell what the waiting is good for.
const STILL_NS: i64 = 5_000_000_000;

/// Each process that waits for a lock with those that hold it up; and how many are busy otherwise.
const QUESTION: &str = "SELECT CASE WHEN wait_event_type = 'Lock' \
     THEN array_to_string(pg_blocking_pids(pid), ',') END, \
     count(*) FILTER (WHERE state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock') \
     FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' GROUP BY 1";

/// What the breaker is made of.
pub(crate) struct Breaker<'a> {
    pub(crate) order: &'a Order,
    pub(crate) dialer: &'a Arc<Dialer>,
    pub(crate) login: Option<Login>,
    pub(crate) clock: &'a Arc<dyn Clock>,
    pub(crate) start_ns: i64,
    pub(crate) finished: &'a AtomicBool,
}

impl Breaker<'_> {
    /// Looks until the replay is over.
    pub(crate) fn watch(self) {
        let mut questions: Option<Questions<'_>> = None;
        let (mut mark, mut moved_ns) = (0, 0);
        while !self.finished.load(Ordering::Acquire) {
            std::thread::sleep(LOOK_EVERY);
            let now_ns = self.clock.now_ns() - self.start_ns;
            if self.order.mark() != mark {
                mark = self.order.mark();
                moved_ns = now_ns;
            }
            let mut waiting = self.order.waiting();
            waiting.retain(|(_, one)| now_ns - one.since_ns > LONG_NS);
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
                Some(open) => match open.ask(QUESTION) {
                    Ok(rows) => rows,
                    Err(_) => {
                        questions = None;
                        Vec::new()
                    }
                },
                None => Vec::new(),
            };
            let mut in_the_way: HashSet<i32> = HashSet::new();
            let mut busy = 0_u64;
            for row in &rows {
                let value = |place: usize| row.get(place).and_then(Option::as_deref).unwrap_or("");
                let holders = value(0).split(',');
                in_the_way.extend(holders.filter_map(|pid| pid.parse::<i32>().ok()));
                busy += value(1).parse().unwrap_or(0);
            }
            let mut freed = false;
            for (at, one) in &waiting {
                if one.process_id.is_some_and(|pid| in_the_way.contains(&pid)) {
                    self.order.let_go(*at);
                    freed = true;
                }
            }
            // What holds up whom has no process: a transaction that is prepared.
            if !freed && in_the_way.contains(&0) {
                freed = self.order.let_go_who_ends_prepared();
            }
            if !freed && busy == 0 && now_ns - moved_ns > STILL_NS {
                for (at, one) in &waiting {
                    if now_ns - one.since_ns > STILL_NS {
                        self.order.let_go(*at);
                    }
                }
            }
        }
    }
}
