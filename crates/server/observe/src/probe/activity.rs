//! Samples of what the server's processes do and wait for (`pg_stat_activity`), counted by second.
//!
//! It asks the function beneath the view, whose columns have the same names in all versions from 10 on:
//! the view joins roles and databases to it, which costs more than the rest. Idle sessions, processes
//! that wait for work and our own are left out. A sample sees each process at its own moment.
//!
//! A process that waits for nothing is on a processor, or wants one, or waits for something that no wait
//! event is for (PostgreSQL documentation, 28.2.3).

use std::collections::HashMap;

use run::{Activity, Blocking, ProbeNote, ProbeState, SampleWindow};
use sql::Fingerprint;

use crate::asker::{Asker, Unable};
use crate::ledger::Ledger;
use crate::probe::{Moment, Probe, at, maybe, number};

/// What the server shows instead of a text to a role that may not see it.
const HIDDEN: &str = "<insufficient privilege>";
/// Samples are counted by stretches of this length.
const WINDOW_NS: i64 = 1_000_000_000;
/// Who blocks whom is asked at most so often: the answer locks the server's table of locks.
const BLOCKING_EVERY_NS: i64 = 1_000_000_000;
/// Of so many that wait.
const BLOCKED_MAX: usize = 64;
/// A multi-byte character is not cut in two.
const CHARACTER_BYTES: usize = 4;
/// Sampling takes at most this part of a processor's time at the server.
const SHARE: i64 = 50;
const REMEMBERED: usize = 16;
/// So few samples say nothing of what one takes: the first may have waited for a processor, and none would follow for seconds.
const TELLING: usize = 4;

/// Samples what processes do.
pub(crate) struct ActivityProbe {
    every_ns: i64,
    question: &'static str,
    query_bytes: usize,
    databases: HashMap<String, String>,
    window: Option<SampleWindow>,
    counts: HashMap<Activity, u64>,
    blocking_at_ns: i64,
    /// The end of the last window.
    covered_ns: Option<i64>,
    /// What a question takes that does nothing.
    round_trip_ns: i64,
    /// What the last samples took.
    took_ns: [i64; REMEMBERED],
    samples: usize,
}

impl ActivityProbe {
    /// So many samples a second.
    pub(crate) fn new(hz: u32) -> Self {
        ActivityProbe {
            every_ns: 1_000_000_000 / i64::from(hz.max(1)),
            question: "",
            query_bytes: 1024,
            databases: HashMap::new(),
            window: None,
            counts: HashMap::new(),
            blocking_at_ns: i64::MIN,
            covered_ns: None,
            round_trip_ns: 0,
            took_ns: [0; REMEMBERED],
            samples: 0,
        }
    }

    fn close_window(&mut self, ledger: &Ledger) {
        let Some(window) = self.window.take() else {
            return;
        };
        self.covered_ns = Some(window.until_ns);
        let mut activity: Vec<Activity> = self
            .counts
            .drain()
            .map(|(what, count)| Activity {
                at_ns: window.at_ns,
                count,
                ..what
            })
            .collect();
        activity.sort();
        ledger.window(window, activity);
    }

    /// The window of this moment, after those before it are written.
    fn window_at(&mut self, now_ns: i64, ledger: &Ledger) -> &mut SampleWindow {
        let begin_ns = now_ns.div_euclid(WINDOW_NS) * WINDOW_NS;
        if self
            .window
            .is_some_and(|window| window.until_ns <= now_ns || now_ns < window.at_ns)
        {
            self.close_window(ledger);
        }
        let every_ns = self.every_ns();
        let at_ns = match self.covered_ns {
            // The first window begins with its first sample.
            None => now_ns,
            // Where samples are rarer than windows, one stands for the time since the one before.
            Some(covered_ns) if now_ns - covered_ns <= 2 * every_ns.max(WINDOW_NS) => covered_ns,
            Some(_) => begin_ns,
        };
        self.window.get_or_insert(SampleWindow {
            at_ns,
            until_ns: begin_ns + WINDOW_NS,
            samples: 0,
            missed: 0,
        })
    }

    fn database(&mut self, asker: &mut Asker<'_>, oid: Option<&str>) -> Option<String> {
        let oid = oid.filter(|oid| *oid != "0")?;
        if !self.databases.contains_key(oid) {
            let rows = asker.ask("SELECT oid, datname FROM pg_catalog.pg_database");
            for row in rows.unwrap_or_default() {
                self.databases
                    .insert(at(&row, 0).to_owned(), at(&row, 1).to_owned());
            }
            // One that is gone is not asked for again.
            self.databases
                .entry(oid.to_owned())
                .or_insert_with(|| oid.to_owned());
        }
        self.databases.get(oid).cloned()
    }

    fn ask_who_blocks(
        &mut self,
        asker: &mut Asker<'_>,
        ledger: &Ledger,
        seen: &HashMap<i32, Seen>,
    ) -> Result<(), Unable> {
        let waiting: Vec<String> = seen
            .iter()
            .filter(|(_, one)| one.waits_for_lock)
            .take(BLOCKED_MAX)
            .map(|(pid, _)| pid.to_string())
            .collect();
        let due = ledger
            .clock_ns()
            .saturating_sub(BLOCKING_EVERY_NS.saturating_add(self.blocking_at_ns))
            >= 0;
        if waiting.is_empty() || !due {
            return Ok(());
        }
        self.blocking_at_ns = ledger.clock_ns();
        let rows = asker.ask_again(
            "blocking",
            "int[]",
            &format!("'{{{}}}'", waiting.join(",")),
            "SELECT w.pid, b.pid FROM pg_catalog.unnest($1) w (pid), \
             pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid)) b (pid)",
        )?;
        let at_ns = ledger.now_ns();
        let mut pairs: HashMap<Blocking, u64> = HashMap::new();
        for row in &rows {
            let blocked = number(row, 0).and_then(|pid: i32| seen.get(&pid));
            let blocker = number::<i32>(row, 1);
            let by = blocker.and_then(|pid| seen.get(&pid));
            let pair = Blocking {
                at_ns,
                blocked: blocked.and_then(|one| one.fingerprint),
                blocker: by.and_then(|one| one.fingerprint),
                blocker_state: match (by, blocker) {
                    (Some(by), _) => by.state.clone(),
                    (None, Some(0)) => "prepared transaction".to_owned(),
                    (None, _) => "not seen".to_owned(),
                },
                wait: blocked.map_or_else(String::new, |one| one.wait.clone()),
                count: 0,
            };
            *pairs.entry(pair).or_default() += 1;
        }
        let mut rows: Vec<Blocking> = pairs
            .into_iter()
            .map(|(pair, count)| Blocking { count, ..pair })
            .collect();
        rows.sort();
        ledger.blocking(&rows);
        Ok(())
    }
}

/// A process in a sample.
struct Seen {
    fingerprint: Option<Fingerprint>,
    state: String,
    wait: String,
    waits_for_lock: bool,
}

impl Probe for ActivityProbe {
    fn name(&self) -> &'static str {
        "activity"
    }

    /// Rarer than asked for where the server takes long for a sample, beyond the way there.
    fn every_ns(&self) -> i64 {
        if self.samples < TELLING {
            return self.every_ns;
        }
        let known = &self.took_ns[..self.samples.min(REMEMBERED)];
        let least_ns = known.iter().min().copied().unwrap_or(0);
        let work_ns = (least_ns - self.round_trip_ns).max(0);
        self.every_ns.max(work_ns * SHARE)
    }

    fn begin(&mut self, asker: &mut Asker<'_>, ledger: &Ledger) -> Result<(), Unable> {
        let rows = asker.ask(
            "SELECT pg_catalog.current_setting('track_activities'), s.setting \
             FROM pg_catalog.pg_settings s WHERE s.name = 'track_activity_query_size'",
        )?;
        let row = rows.first().cloned().unwrap_or_default();
        if at(&row, 0) == "off" {
            return Err(Unable::never(
                "track_activities is off",
                "SET track_activities = on",
            ));
        }
        self.query_bytes = number(&row, 1).unwrap_or(1024);
        self.question = match asker.known().version {
            140_000.. => {
                "SELECT a.pid, a.datid, a.state, a.wait_event_type, a.wait_event, a.backend_type, \
                 a.query, a.query_id FROM pg_catalog.pg_stat_get_activity(NULL) a \
                 WHERE a.state IS DISTINCT FROM 'idle' \
                 AND a.wait_event_type IS DISTINCT FROM 'Activity' \
                 AND (a.query IS DISTINCT FROM '<insufficient privilege>' OR a.datid IS NOT NULL)"
            }
            _ => {
                "SELECT a.pid, a.datid, a.state, a.wait_event_type, a.wait_event, a.backend_type, \
                 a.query, NULL FROM pg_catalog.pg_stat_get_activity(NULL) a \
                 WHERE a.state IS DISTINCT FROM 'idle' \
                 AND a.wait_event_type IS DISTINCT FROM 'Activity' \
                 AND (a.query IS DISTINCT FROM '<insufficient privilege>' OR a.datid IS NOT NULL)"
            }
        };
        let mut least_ns = i64::MAX;
        for _ in 0..3 {
            let before_ns = ledger.clock_ns();
            asker.ask("")?;
            least_ns = least_ns.min(ledger.clock_ns() - before_ns);
        }
        self.round_trip_ns = least_ns;
        // That the role may ask at all, and how much it does not see.
        asker.ask_again("activity", "", "", self.question)?;
        let hidden = asker.ask(&format!(
            "SELECT count(*) FROM pg_catalog.pg_stat_get_activity(NULL) a WHERE a.query = '{HIDDEN}'"
        ))?;
        let hidden = hidden.first().and_then(|row| number::<u64>(row, 0));
        let may_see = asker
            .ask("SELECT pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')")?;
        if may_see.first().is_some_and(|row| at(row, 0) == "f") && !asker.known().is_superuser {
            ledger.full_note(ProbeNote {
                probe: self.name().to_owned(),
                state: ProbeState::Unseen,
                text: "what the sessions of other roles do and wait for".to_owned(),
                remedy: Some(format!("GRANT pg_monitor TO {}", asker.known().user)),
                count: hidden,
                ..ProbeNote::default()
            });
        }
        Ok(())
    }

    fn look(
        &mut self,
        asker: &mut Asker<'_>,
        ledger: &Ledger,
        moment: Moment,
    ) -> Result<(), Unable> {
        if moment.last {
            // The load is over: nothing of it is left to see.
            return Ok(());
        }
        let before_ns = ledger.clock_ns();
        let rows = asker.ask_again("activity", "", "", self.question)?;
        self.took_ns[self.samples % REMEMBERED] = ledger.clock_ns() - before_ns;
        self.samples += 1;
        let window = self.window_at(ledger.now_ns(), ledger);
        window.samples += 1;
        window.missed += moment.missed;
        let mut seen = HashMap::new();
        for row in &rows {
            let pid = number(row, 0).unwrap_or(0);
            if asker.own().has(pid) {
                continue;
            }
            // Of another role's session only that it is there, idle or not.
            let is_hidden = maybe(row, 6) == Some(HIDDEN);
            let query = maybe(row, 6).filter(|query| !query.is_empty() && !is_hidden);
            let fingerprint = query.map(|query| {
                let cut = query.len() + CHARACTER_BYTES >= self.query_bytes;
                ledger.fingerprint(query, cut)
            });
            let (state, wait) = (maybe(row, 2), maybe(row, 4));
            let one = Activity {
                at_ns: 0,
                fingerprint,
                query_id: number(row, 7).filter(|id| *id != 0),
                database: self.database(asker, maybe(row, 1)),
                backend: maybe(row, 5).unwrap_or("unknown").to_owned(),
                // Processes of the server's own have none.
                state: match is_hidden {
                    true => "hidden".to_owned(),
                    false => state.unwrap_or("active").to_owned(),
                },
                wait_type: maybe(row, 3).map(str::to_owned),
                wait: wait.map(str::to_owned),
                count: 0,
            };
            let process = Seen {
                fingerprint,
                state: one.state.clone(),
                wait: wait.unwrap_or_default().to_owned(),
                waits_for_lock: maybe(row, 3) == Some("Lock"),
            };
            seen.insert(pid, process);
            *self.counts.entry(one).or_default() += 1;
        }
        self.ask_who_blocks(asker, ledger, &seen)
    }

    fn leave(&mut self, ledger: &Ledger) {
        // The last window ends where the watch does.
        let now_ns = ledger.now_ns();
        if let Some(window) = &mut self.window {
            window.until_ns = window.until_ns.min(now_ns).max(window.at_ns + 1);
        }
        self.close_window(ledger);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_rarer_where_all_of_them_take_long_and_not_for_the_first() {
        const SLOW_NS: i64 = 30_000_000;
        let mut probe = ActivityProbe::new(20);
        assert_eq!(probe.every_ns(), 50_000_000);
        let mut took = |ns: i64| {
            probe.took_ns[probe.samples % REMEMBERED] = ns;
            probe.samples += 1;
            probe.every_ns()
        };
        assert_eq!(
            [(); TELLING - 1].map(|()| took(SLOW_NS)),
            [50_000_000; TELLING - 1]
        );
        assert_eq!(took(SLOW_NS), SLOW_NS * SHARE);
        // One that was quick says what they take.
        assert_eq!(took(1_000), 50_000_000);
    }
}
