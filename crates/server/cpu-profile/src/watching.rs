//! Who the server's processes are, and what they carry out, by `pg_stat_activity`, a few times a second.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::Clock;
use connect::login::{Dialer, Login, LoginError, Questions};
use run::{ProfileWriter, ProfiledBackend, StatementSpan};
use sql::{Fingerprint, Fingerprinter, classify};
use workload::StatementText;

/// How often it looks where only the processes matter, and where their statements do.
const SLOWLY: Duration = Duration::from_millis(500);
const QUICKLY: Duration = Duration::from_millis(50);
/// The most processes, and different statements, that are kept.
const BACKENDS_MAX: usize = 100_000;
const STATEMENTS_MAX: usize = 50_000;
/// How our own connections call themselves.
const OWN: &str = "rehearse";

/// A connection for questions of ours, which neither the server's log nor its statistics count where the role may
/// say so: what is measured beside them is the load's alone.
///
/// # Errors
/// Where there is none.
pub fn quiet_questions<'d>(dialer: &'d Dialer, login: &Login) -> Result<Questions<'d>, LoginError> {
    let mut questions = dialer.questions(login)?;
    let rows = questions.ask("SELECT pg_catalog.current_setting('is_superuser')");
    let first = rows.ok().and_then(|rows| rows.into_iter().next());
    if first
        .and_then(|row| row.into_iter().next().flatten())
        .as_deref()
        == Some("on")
    {
        for setting in [
            "log_statement = none",
            "log_min_duration_statement = -1",
            "log_duration = off",
            "pg_stat_statements.track = none",
        ] {
            // One that is not there stays as it is.
            let _ = questions.ask(&format!("SET {setting}"));
        }
    }
    Ok(questions)
}

/// What was seen.
#[derive(Default)]
pub struct Seen {
    /// By number; the latest process of a number.
    pub backends: HashMap<u32, ProfiledBackend>,
    /// What went wrong.
    pub notes: Vec<String>,
}

/// A statement that a backend carries out, as far as it was seen.
#[derive(Clone, Copy)]
struct Current {
    /// The server's own time of its beginning, in microseconds of 1970.
    began_us: i64,
    from_ns: i64,
    until_ns: i64,
    fingerprint: Fingerprint,
    /// Seen to its end, or twice: what is seen once and is under way then is a beginning, in which
    /// planning is too much.
    fair: bool,
}

/// Looks at the server's processes until it is told to stop.
pub struct Watch {
    pub dialer: Arc<Dialer>,
    pub login: Login,
    pub clock: Arc<dyn Clock>,
    /// Statements matter.
    pub statements: bool,
    pub stop: Arc<AtomicBool>,
    pub seen: Arc<Mutex<Seen>>,
    pub writer: Arc<Mutex<ProfileWriter>>,
    /// From the clock's time to the run's.
    pub origin: Arc<crate::profiling::Origin>,
}

impl Watch {
    pub fn run(self) {
        let mut current: HashMap<u32, Current> = HashMap::new();
        let mut known: HashSet<Fingerprint> = HashSet::new();
        while !self.stop.load(Ordering::Relaxed) {
            match quiet_questions(&self.dialer, &self.login) {
                Ok(questions) => self.look(questions, &mut current, &mut known),
                Err(error) => self.note(format!(
                    "who the backends were was not asked for a while: {}",
                    error.message
                )),
            }
            std::thread::sleep(SLOWLY);
        }
        for (pid, one) in current {
            self.keep(pid, one);
        }
    }

    fn note(&self, note: String) {
        let mut seen = self.seen.lock().unwrap_or_else(|error| error.into_inner());
        if !seen.notes.contains(&note) && seen.notes.len() < 20 {
            seen.notes.push(note);
        }
    }

    fn look(
        &self,
        mut questions: Questions<'_>,
        current: &mut HashMap<u32, Current>,
        known: &mut HashSet<Fingerprint>,
    ) {
        let question = match self.statements {
            false => {
                "SELECT /* rehearse_probe */ pid, backend_type, usename, datname, application_name FROM pg_catalog.pg_stat_activity"
            }
            true => {
                "SELECT /* rehearse_probe */ pid, backend_type, usename, datname, application_name, state, (extract(epoch FROM query_start) * 1000000)::int8, (extract(epoch FROM state_change) * 1000000)::int8, (extract(epoch FROM clock_timestamp()) * 1000000)::int8, query FROM pg_catalog.pg_stat_activity WHERE pid <> pg_catalog.pg_backend_pid()"
            }
        };
        if let Ok(rows) = questions.ask("SELECT pg_catalog.pg_backend_pid()")
            && let Some(pid) = rows
                .first()
                .and_then(|row| row.first()?.as_ref()?.parse().ok())
        {
            let own = [None, None, None, Some(OWN.to_owned())];
            self.met(pid, own, self.clock.now_ns());
        }
        let mut fingerprinter = Fingerprinter::new();
        while !self.stop.load(Ordering::Relaxed) {
            questions.limit(Duration::from_secs(10));
            let rows = match questions.ask(question) {
                Ok(rows) => rows,
                Err(error) => {
                    self.note(format!(
                        "who the backends are was not answered: {}",
                        error.message
                    ));
                    return;
                }
            };
            let now_ns = self.clock.now_ns();
            for row in &rows {
                let text = |column: usize| row.get(column).cloned().flatten();
                let number = |column: usize| text(column).and_then(|text| text.parse::<i64>().ok());
                let Some(pid) = number(0).and_then(|pid| u32::try_from(pid).ok()) else {
                    continue;
                };
                self.met(pid, [text(1), text(2), text(3), text(4)], now_ns);
                if !self.statements {
                    continue;
                }
                let (Some(state), Some(began_us), Some(asked_us), Some(sql)) =
                    (text(5), number(6), number(8), text(9))
                else {
                    continue;
                };
                let is_active = state == "active";
                let ended_us = match is_active {
                    true => asked_us,
                    false => number(7).unwrap_or(asked_us),
                };
                let at = |us: i64| now_ns - (asked_us - us) * 1_000;
                match current.get_mut(&pid) {
                    Some(one) if one.began_us == began_us => {
                        one.until_ns = at(ended_us);
                        one.fair = true;
                        continue;
                    }
                    Some(one) => self.keep(pid, *one),
                    None => {}
                }
                if sql.is_empty() || sql == "<insufficient privilege>" {
                    current.remove(&pid);
                    continue;
                }
                let normal = fingerprinter.normalise(&sql).to_owned();
                let fingerprint = fingerprinter.fingerprint(&sql);
                if known.len() < STATEMENTS_MAX && known.insert(fingerprint) {
                    let text = StatementText {
                        fingerprint,
                        sql: normal,
                        class: classify(&sql),
                    };
                    let mut writer = self
                        .writer
                        .lock()
                        .unwrap_or_else(|error| error.into_inner());
                    if let Err(error) = writer.statement(&text) {
                        self.note(error.to_string());
                    }
                }
                let one = Current {
                    began_us,
                    from_ns: at(began_us),
                    until_ns: at(ended_us),
                    fingerprint,
                    fair: !is_active,
                };
                current.insert(pid, one);
            }
            std::thread::sleep(if self.statements { QUICKLY } else { SLOWLY });
        }
    }

    fn met(&self, pid: u32, [kind, user, database, application]: [Option<String>; 4], now_ns: i64) {
        let mut seen = self.seen.lock().unwrap_or_else(|error| error.into_inner());
        if seen.backends.len() >= BACKENDS_MAX && !seen.backends.contains_key(&pid) {
            return;
        }
        let is_own = application
            .as_deref()
            .is_some_and(|name| name.starts_with(OWN));
        let one = seen.backends.entry(pid).or_insert_with(|| ProfiledBackend {
            pid: u64::from(pid),
            from_ns: now_ns,
            ..ProfiledBackend::default()
        });
        one.kind = match (is_own, kind) {
            (true, _) => "own".to_owned(),
            (false, Some(kind)) => kind,
            (false, None) => std::mem::take(&mut one.kind),
        };
        (one.user, one.database, one.application) = (user, database, application);
    }

    fn keep(&self, pid: u32, one: Current) {
        if !one.fair {
            return;
        }
        let span = StatementSpan {
            pid: u64::from(pid),
            from_ns: self.origin.of_clock(one.from_ns),
            until_ns: self.origin.of_clock(one.until_ns),
            fingerprint: one.fingerprint,
        };
        let mut writer = self
            .writer
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        if let Err(error) = writer.span(&span) {
            self.note(error.to_string());
        }
    }
}
