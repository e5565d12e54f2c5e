//! Samples the server's processes, and the statements that they execute, from `pg_stat_activity` several
//! times per second.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::Clock;
use connect::login::{Dialer, Login, QueryConnection, Row};
use run::{ProfileWriter, ProfiledBackend, StatementSpan};
use sql::{Fingerprint, Fingerprinter, classify};
use workload::StatementText;

use crate::quiet_connection::quiet_connection;
use crate::run_origin::RunOrigin;

/// Sampling intervals for processes alone, and for statements.
const PROCESS_INTERVAL: Duration = Duration::from_millis(500);
const STATEMENT_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum numbers of processes and of distinct statements.
const BACKENDS_MAX: usize = 100_000;
const STATEMENTS_MAX: usize = 50_000;
/// Prefix of the application names of our own connections.
const OWN: &str = "rehearse";

/// Sampled processes.
#[derive(Default)]
pub struct SampledBackends {
    /// By process id; the latest process of each id.
    pub backends: HashMap<u32, ProfiledBackend>,
    /// Errors that occurred.
    pub notes: Vec<String>,
}

/// A statement that a backend executes, as far as it was sampled.
#[derive(Clone, Copy)]
struct CurrentStatement {
    /// Start time reported by the server, in microseconds since 1970.
    began_us: i64,
    from_ns: i64,
    until_ns: i64,
    fingerprint: Fingerprint,
    /// The statement was sampled at its end, or twice. A statement sampled once while active is excluded,
    /// since samples of its beginning overweight planning.
    is_complete: bool,
}

/// Statements of all backends.
#[derive(Default)]
struct Statements {
    /// Current statement by process id.
    current: HashMap<u32, CurrentStatement>,
    /// Statements whose texts were written.
    known: HashSet<Fingerprint>,
    fingerprinter: Fingerprinter,
}

fn text(row: &Row, column: usize) -> Option<String> {
    row.get(column).cloned().flatten()
}

fn number(row: &Row, column: usize) -> Option<i64> {
    text(row, column)?.parse().ok()
}

/// Samples the server's processes until it is stopped.
pub struct BackendSampler {
    pub dialer: Arc<Dialer>,
    pub login: Login,
    pub clock: Arc<dyn Clock>,
    /// Whether to sample statements.
    pub statements: bool,
    pub stop: Arc<AtomicBool>,
    pub sampled: Arc<Mutex<SampledBackends>>,
    pub writer: Arc<Mutex<ProfileWriter>>,
    /// Conversion from the clock's time to the run's time.
    pub origin: Arc<RunOrigin>,
}

impl BackendSampler {
    pub fn run(self) {
        let mut statements = Statements::default();
        while !self.stop.load(Ordering::Relaxed) {
            match quiet_connection(&self.dialer, &self.login) {
                Ok(questions) => self.sample(questions, &mut statements),
                Err(error) => self.note(format!(
                    "who the backends were was not asked for a while: {}",
                    error.message
                )),
            }
            std::thread::sleep(PROCESS_INTERVAL);
        }
        for (pid, one) in statements.current {
            self.write_span(pid, one);
        }
    }

    fn note(&self, note: String) {
        let mut seen = self
            .sampled
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        if !seen.notes.contains(&note) && seen.notes.len() < 20 {
            seen.notes.push(note);
        }
    }

    /// Samples over one connection, until it is lost or sampling is stopped.
    fn sample(&self, mut questions: QueryConnection<'_>, statements: &mut Statements) {
        let question = match self.statements {
            false => {
                "SELECT /* rehearse_probe */ pid, backend_type, usename, datname, application_name FROM pg_catalog.pg_stat_activity"
            }
            true => {
                "SELECT /* rehearse_probe */ pid, backend_type, usename, datname, application_name, state, (extract(epoch FROM query_start) * 1000000)::int8, (extract(epoch FROM state_change) * 1000000)::int8, (extract(epoch FROM clock_timestamp()) * 1000000)::int8, query FROM pg_catalog.pg_stat_activity WHERE pid <> pg_catalog.pg_backend_pid()"
            }
        };
        if let Ok(rows) = questions.query("SELECT pg_catalog.pg_backend_pid()")
            && let Some(pid) = rows
                .first()
                .and_then(|row| row.first()?.as_ref()?.parse().ok())
        {
            let own = [None, None, None, Some(OWN.to_owned())];
            self.add_backend(pid, own, self.clock.now_ns());
        }
        while !self.stop.load(Ordering::Relaxed) {
            questions.limit(Duration::from_secs(10));
            let rows = match questions.query(question) {
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
                let Some(pid) = number(row, 0).and_then(|pid| u32::try_from(pid).ok()) else {
                    continue;
                };
                self.add_backend(pid, [1, 2, 3, 4].map(|column| text(row, column)), now_ns);
                if self.statements {
                    self.add_statement(pid, row, now_ns, statements);
                }
            }
            std::thread::sleep(if self.statements {
                STATEMENT_INTERVAL
            } else {
                PROCESS_INTERVAL
            });
        }
    }

    /// Adds the statement of a backend, unless it was sampled before. Writes the span of the previous one.
    fn add_statement(&self, pid: u32, row: &Row, now_ns: i64, statements: &mut Statements) {
        let (Some(state), Some(began_us), Some(asked_us), Some(sql)) =
            (text(row, 5), number(row, 6), number(row, 8), text(row, 9))
        else {
            return;
        };
        let is_active = state == "active";
        let ended_us = match is_active {
            true => asked_us,
            false => number(row, 7).unwrap_or(asked_us),
        };
        let at = |us: i64| now_ns - (asked_us - us) * 1_000;
        match statements.current.get_mut(&pid) {
            Some(one) if one.began_us == began_us => {
                one.until_ns = at(ended_us);
                one.is_complete = true;
                return;
            }
            Some(one) => self.write_span(pid, *one),
            None => {}
        }
        if sql.is_empty() || sql == "<insufficient privilege>" {
            statements.current.remove(&pid);
            return;
        }
        let normal = statements.fingerprinter.normalise(&sql).to_owned();
        let fingerprint = statements.fingerprinter.fingerprint(&sql);
        if statements.known.len() < STATEMENTS_MAX && statements.known.insert(fingerprint) {
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
        let one = CurrentStatement {
            began_us,
            from_ns: at(began_us),
            until_ns: at(ended_us),
            fingerprint,
            is_complete: !is_active,
        };
        statements.current.insert(pid, one);
    }

    fn add_backend(
        &self,
        pid: u32,
        [kind, user, database, application]: [Option<String>; 4],
        now_ns: i64,
    ) {
        let mut seen = self
            .sampled
            .lock()
            .unwrap_or_else(|error| error.into_inner());
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

    fn write_span(&self, pid: u32, one: CurrentStatement) {
        if !one.is_complete {
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
