//! Samples the activity and waits of the server's processes (`pg_stat_activity`), counted per second.
//!
//! It calls the function that the view is based on, whose columns have the same names in all versions from 10
//! on. The view joins roles and databases to it, which costs more than the rest. Idle sessions, idle
//! background processes and our own sessions are omitted. Processes within one sample are read at slightly
//! different times.
//!
//! A process without a wait event runs on a processor, is ready to run, or waits for something that has no
//! wait event (PostgreSQL documentation, 28.2.3).

use std::collections::HashMap;

use run::{Activity, Blocking, ProbeNote, ProbeState, SampleWindow};
use sql::Fingerprint;

use crate::observation_log::ObservationLog;
use crate::probe::{Probe, SampleContext, column_number, column_text, optional_text};
use crate::probe_connection::{ProbeConnection, ProbeError};

/// Text that the server shows instead of a hidden one.
const HIDDEN: &str = "<insufficient privilege>";
/// Length of a window of samples.
const WINDOW_NS: i64 = 1_000_000_000;
/// Minimum interval of queries for blocking processes, which lock the server's lock table.
const BLOCKING_EVERY_NS: i64 = 1_000_000_000;
/// Maximum number of waiting processes per query.
const BLOCKED_MAX: usize = 64;
/// Maximum bytes of a character, which must not be split.
const CHARACTER_BYTES: usize = 4;
/// Fraction of a server processor that sampling may use: one over this.
const SHARE: i64 = 50;
const RECENT_SAMPLES: usize = 16;
/// Minimum number of samples that estimate the cost. The first one may have waited for a processor, and an
/// estimate from it would delay the next one by seconds.
const SAMPLES_MIN: usize = 4;

/// Samples the activity of processes.
pub(crate) struct ActivityProbe {
    every_ns: i64,
    question: &'static str,
    query_bytes: usize,
    databases: HashMap<String, String>,
    window: Option<SampleWindow>,
    counts: HashMap<Activity, u64>,
    blocking_at_ns: i64,
    /// End of the last window.
    covered_ns: Option<i64>,
    /// Round-trip time of an empty query.
    round_trip_ns: i64,
    /// Durations of the most recent samples.
    took_ns: [i64; RECENT_SAMPLES],
    samples: usize,
}

impl ActivityProbe {
    /// Creates a probe with this many samples per second.
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
            took_ns: [0; RECENT_SAMPLES],
            samples: 0,
        }
    }

    fn close_window(&mut self, log: &ObservationLog) {
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
        log.add_window(window, activity);
    }

    /// Returns the window of this time, after it has written the windows before.
    fn window_at(&mut self, now_ns: i64, log: &ObservationLog) -> &mut SampleWindow {
        let begin_ns = now_ns.div_euclid(WINDOW_NS) * WINDOW_NS;
        if self
            .window
            .is_some_and(|window| window.until_ns <= now_ns || now_ns < window.at_ns)
        {
            self.close_window(log);
        }
        let every_ns = self.interval_ns();
        let at_ns = match self.covered_ns {
            // The first window begins with its first sample.
            None => now_ns,
            // If samples are less frequent than windows, one represents the time since the one before.
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

    fn database(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        oid: Option<&str>,
    ) -> Option<String> {
        let oid = oid.filter(|oid| *oid != "0")?;
        if !self.databases.contains_key(oid) {
            let rows = connection.query("SELECT oid, datname FROM pg_catalog.pg_database");
            for row in rows.unwrap_or_default() {
                self.databases.insert(
                    column_text(&row, 0).to_owned(),
                    column_text(&row, 1).to_owned(),
                );
            }
            // A dropped database is not queried again.
            self.databases
                .entry(oid.to_owned())
                .or_insert_with(|| oid.to_owned());
        }
        self.databases.get(oid).cloned()
    }

    fn query_blocking(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        seen: &HashMap<i32, SampledProcess>,
    ) -> Result<(), ProbeError> {
        let waiting: Vec<String> = seen
            .iter()
            .filter(|(_, one)| one.waits_for_lock)
            .take(BLOCKED_MAX)
            .map(|(pid, _)| pid.to_string())
            .collect();
        let due = log
            .clock_ns()
            .saturating_sub(BLOCKING_EVERY_NS.saturating_add(self.blocking_at_ns))
            >= 0;
        if waiting.is_empty() || !due {
            return Ok(());
        }
        self.blocking_at_ns = log.clock_ns();
        let rows = connection.query_prepared(
            "blocking",
            "int[]",
            &format!("'{{{}}}'", waiting.join(",")),
            "SELECT w.pid, b.pid FROM pg_catalog.unnest($1) w (pid), \
             pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid)) b (pid)",
        )?;
        let at_ns = log.now_ns();
        let mut pairs: HashMap<Blocking, u64> = HashMap::new();
        for row in &rows {
            let blocked = column_number(row, 0).and_then(|pid: i32| seen.get(&pid));
            let blocker = column_number::<i32>(row, 1);
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
        log.add_blocking(&rows);
        Ok(())
    }
}

/// A process in a sample.
struct SampledProcess {
    fingerprint: Option<Fingerprint>,
    state: String,
    wait: String,
    waits_for_lock: bool,
}

impl Probe for ActivityProbe {
    fn name(&self) -> &'static str {
        "activity"
    }

    /// The requested interval, or a longer one if a sample takes the server long. The round-trip time does
    /// not count.
    fn interval_ns(&self) -> i64 {
        if self.samples < SAMPLES_MIN {
            return self.every_ns;
        }
        let known = &self.took_ns[..self.samples.min(RECENT_SAMPLES)];
        let least_ns = known.iter().min().copied().unwrap_or(0);
        let work_ns = (least_ns - self.round_trip_ns).max(0);
        self.every_ns.max(work_ns * SHARE)
    }

    fn begin(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
    ) -> Result<(), ProbeError> {
        let rows = connection.query(
            "SELECT pg_catalog.current_setting('track_activities'), s.setting \
             FROM pg_catalog.pg_settings s WHERE s.name = 'track_activity_query_size'",
        )?;
        let row = rows.first().cloned().unwrap_or_default();
        if column_text(&row, 0) == "off" {
            return Err(ProbeError::unsupported(
                "track_activities is off",
                "SET track_activities = on",
            ));
        }
        self.query_bytes = column_number(&row, 1).unwrap_or(1024);
        self.question = match connection.server().version {
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
            let before_ns = log.clock_ns();
            connection.query("")?;
            least_ns = least_ns.min(log.clock_ns() - before_ns);
        }
        self.round_trip_ns = least_ns;
        // Checks the permission to sample, and counts the hidden sessions.
        connection.query_prepared("activity", "", "", self.question)?;
        let hidden = connection.query(&format!(
            "SELECT count(*) FROM pg_catalog.pg_stat_get_activity(NULL) a WHERE a.query = '{HIDDEN}'"
        ))?;
        let hidden = hidden.first().and_then(|row| column_number::<u64>(row, 0));
        let may_see = connection
            .query("SELECT pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')")?;
        if may_see
            .first()
            .is_some_and(|row| column_text(row, 0) == "f")
            && !connection.server().is_superuser
        {
            log.add_note(ProbeNote {
                probe: self.name().to_owned(),
                state: ProbeState::Unseen,
                text: "what the sessions of other roles do and wait for".to_owned(),
                remedy: Some(format!("GRANT pg_monitor TO {}", connection.server().user)),
                count: hidden,
                ..ProbeNote::default()
            });
        }
        Ok(())
    }

    fn sample(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        context: SampleContext,
    ) -> Result<(), ProbeError> {
        if context.last {
            // The load is over, so there is no activity to sample.
            return Ok(());
        }
        let before_ns = log.clock_ns();
        let rows = connection.query_prepared("activity", "", "", self.question)?;
        self.took_ns[self.samples % RECENT_SAMPLES] = log.clock_ns() - before_ns;
        self.samples += 1;
        let window = self.window_at(log.now_ns(), log);
        window.samples += 1;
        window.missed += context.missed;
        let mut seen = HashMap::new();
        for row in &rows {
            let pid = column_number(row, 0).unwrap_or(0);
            if connection.own_processes().has(pid) {
                continue;
            }
            // A session of another role shows only whether it is idle.
            let is_hidden = optional_text(row, 6) == Some(HIDDEN);
            let query = optional_text(row, 6).filter(|query| !query.is_empty() && !is_hidden);
            let fingerprint = query.map(|query| {
                let cut = query.len() + CHARACTER_BYTES >= self.query_bytes;
                log.fingerprint(query, cut)
            });
            let (state, wait) = (optional_text(row, 2), optional_text(row, 4));
            let one = Activity {
                at_ns: 0,
                fingerprint,
                query_id: column_number(row, 7).filter(|id| *id != 0),
                database: self.database(connection, optional_text(row, 1)),
                backend: optional_text(row, 5).unwrap_or("unknown").to_owned(),
                // Background processes have no state.
                state: match is_hidden {
                    true => "hidden".to_owned(),
                    false => state.unwrap_or("active").to_owned(),
                },
                wait_type: optional_text(row, 3).map(str::to_owned),
                wait: wait.map(str::to_owned),
                count: 0,
            };
            let process = SampledProcess {
                fingerprint,
                state: one.state.clone(),
                wait: wait.unwrap_or_default().to_owned(),
                waits_for_lock: optional_text(row, 3) == Some("Lock"),
            };
            seen.insert(pid, process);
            *self.counts.entry(one).or_default() += 1;
        }
        self.query_blocking(connection, log, &seen)
    }

    fn flush(&mut self, log: &ObservationLog) {
        // The last window ends with the monitoring.
        let now_ns = log.now_ns();
        if let Some(window) = &mut self.window {
            window.until_ns = window.until_ns.min(now_ns).max(window.at_ns + 1);
        }
        self.close_window(log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_rarer_where_all_of_them_take_long_and_not_for_the_first() {
        const SLOW_NS: i64 = 30_000_000;
        let mut probe = ActivityProbe::new(20);
        assert_eq!(probe.interval_ns(), 50_000_000);
        let mut took = |ns: i64| {
            probe.took_ns[probe.samples % RECENT_SAMPLES] = ns;
            probe.samples += 1;
            probe.interval_ns()
        };
        assert_eq!(
            [(); SAMPLES_MIN - 1].map(|()| took(SLOW_NS)),
            [50_000_000; SAMPLES_MIN - 1]
        );
        assert_eq!(took(SLOW_NS), SLOW_NS * SHARE);
        // One fast sample disproves the slow ones.
        assert_eq!(took(1_000), 50_000_000);
    }
}
