//! A separate connection for the queries of probes. It reconnects when lost, limits and counts its queries,
//! and disables logging and tracking of its session as far as its role allows.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::Clock;
use connect::login::{Dialer, Login, LoginError, QueryConnection, Row};

/// Statement timeout at the server. Probe queries usually take milliseconds.
const STATEMENT_TIMEOUT: &str = "2s";
const LOCK_TIMEOUT: &str = "500ms";
/// Timeout at the client, for a server that does not respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum time between attempts to reconnect.
const RETRY_NS: i64 = 1_000_000_000;

/// Mark in every query of this program, which distinguishes it in the server's statistics.
pub(crate) const MARK: &str = "rehearse_probe";

/// Reason why a sample failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeError {
    /// The probe cannot work on this server.
    Unsupported { why: String, remedy: Option<String> },
    /// The server refused this query.
    Failed(String),
    /// The connection was lost.
    ConnectionLost(String),
}

impl ProbeError {
    pub(crate) fn unsupported(why: impl Into<String>, remedy: &str) -> Self {
        ProbeError::Unsupported {
            why: why.into(),
            remedy: (!remedy.is_empty()).then(|| remedy.to_owned()),
        }
    }
}

/// Server processes of our connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnProcesses(Arc<Mutex<BTreeSet<i32>>>);

impl OwnProcesses {
    pub(crate) fn has(&self, pid: i32) -> bool {
        self.lock().contains(&pid)
    }

    /// Returns them as an array literal.
    pub(crate) fn literal(&self) -> String {
        let pids: Vec<String> = self.lock().iter().map(i32::to_string).collect();
        format!("'{{{}}}'", pids.join(","))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Facts of the server that is connected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// `server_version_num`
    pub(crate) version: u32,
    pub(crate) pid: i32,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) is_superuser: bool,
    /// Port of our end of the connection; `None` over a unix socket.
    pub(crate) client_port: Option<u16>,
}

/// Connection that sends the queries of probes.
pub(crate) struct ProbeConnection<'a> {
    dialer: &'a Dialer,
    login: Login,
    clock: Arc<dyn Clock>,
    own: OwnProcesses,
    questions: Option<QueryConnection<'a>>,
    prepared: HashSet<String>,
    server: ServerInfo,
    retry_at_ns: i64,
    /// Number, total duration and failures of the queries.
    pub(crate) cost: Cost,
}

/// Cost of queries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) questions: u64,
    pub(crate) asked_ns: u64,
    pub(crate) failures: u64,
}

impl<'a> ProbeConnection<'a> {
    /// Creates the connection without opening it. `plain` leaves the search path to the role, for queries of
    /// the user.
    pub(crate) fn new(
        dialer: &'a Dialer,
        login: &Login,
        clock: &Arc<dyn Clock>,
        own: &OwnProcesses,
        plain: bool,
    ) -> Self {
        let mut settings = vec![
            ("statement_timeout", STATEMENT_TIMEOUT),
            ("lock_timeout", LOCK_TIMEOUT),
            ("default_transaction_read_only", "on"),
        ];
        if !plain {
            settings.push(("search_path", "pg_catalog"));
        }
        let settings = settings
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        ProbeConnection {
            dialer,
            login: Login {
                application: "rehearse observe".into(),
                settings: settings.collect(),
                ..login.clone()
            },
            clock: clock.clone(),
            own: own.clone(),
            questions: None,
            prepared: HashSet::new(),
            server: ServerInfo::default(),
            retry_at_ns: i64::MIN,
            cost: Cost::default(),
        }
    }

    pub(crate) fn server(&self) -> &ServerInfo {
        &self.server
    }

    pub(crate) fn own_processes(&self) -> &OwnProcesses {
        &self.own
    }

    pub(crate) fn is_open(&self) -> bool {
        self.questions.is_some()
    }

    /// Opens the connection if it is closed, unless the last attempt is too recent.
    ///
    /// # Errors
    /// [`ProbeError::Unsupported`] if another attempt would fail as well.
    pub(crate) fn open(&mut self) -> Result<(), ProbeError> {
        if self.is_open() {
            return Ok(());
        }
        let now_ns = self.clock.now_ns();
        if now_ns < self.retry_at_ns {
            return Err(ProbeError::ConnectionLost("it is not back yet".to_owned()));
        }
        self.retry_at_ns = now_ns.saturating_add(RETRY_NS);
        let questions = self
            .dialer
            .open_query_connection(&self.login)
            .map_err(|error| convert_login_error(&error))?;
        self.questions = Some(questions);
        self.prepared.clear();
        self.server = self.read_server_info()?;
        self.own.lock().insert(self.server.pid);
        self.disable_logging_and_tracking();
        Ok(())
    }

    fn read_server_info(&mut self) -> Result<ServerInfo, ProbeError> {
        let rows = self.query(
            "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('server_version_num'), \
             current_user, pg_catalog.current_database(), pg_catalog.current_setting('is_superuser'), \
             pg_catalog.inet_client_port(), pg_catalog.current_setting('statement_timeout')",
        )?;
        let row = rows.into_iter().next().unwrap_or_default();
        let at = |column: usize| row.get(column).cloned().flatten().unwrap_or_default();
        if at(6) != STATEMENT_TIMEOUT {
            self.close();
            return Err(ProbeError::unsupported(
                "something between here and the server does not pass on the settings that keep a probe from doing harm",
                "give the server's own address, not that of a pooler",
            ));
        }
        Ok(ServerInfo {
            pid: at(0).parse().unwrap_or(0),
            version: at(1).parse().unwrap_or(0),
            user: at(2),
            database: at(3),
            is_superuser: at(4) == "on",
            client_port: at(5).parse().ok(),
        })
    }

    /// Disables logging and tracking of this session, as far as the role is allowed to.
    fn disable_logging_and_tracking(&mut self) {
        let mut settings = vec!["jit = off", "max_parallel_workers_per_gather = 0"];
        if self.server.is_superuser {
            settings.extend([
                "log_statement = none",
                "log_min_duration_statement = -1",
                "log_duration = off",
                "log_min_error_statement = panic",
                "pg_stat_statements.track = none",
                "auto_explain.log_min_duration = -1",
            ]);
        }
        for setting in settings {
            // Without the permission the setting remains.
            let _ = self.query(&format!("SET {setting}"));
        }
    }

    /// Sends a simple query.
    ///
    /// # Errors
    /// If there is no result.
    pub(crate) fn query(&mut self, question: &str) -> Result<Vec<Row>, ProbeError> {
        let question = with_mark(question);
        self.answer(|questions| questions.query(&question))
    }

    /// Sends a query with the extended protocol, which accepts a single statement.
    ///
    /// # Errors
    /// If there is no result.
    pub(crate) fn query_one(&mut self, question: &str) -> Result<Vec<Row>, ProbeError> {
        self.answer(|questions| questions.query_with(question, &[], &[]))
    }

    /// Sends a query that is prepared once. `arguments` is the text in the parentheses of `EXECUTE`, `types`
    /// that in those of `PREPARE`; both may be empty.
    ///
    /// # Errors
    /// If there is no result.
    pub(crate) fn query_prepared(
        &mut self,
        name: &str,
        types: &str,
        arguments: &str,
        question: &str,
    ) -> Result<Vec<Row>, ProbeError> {
        if !self.prepared.contains(name) {
            let types = parenthesised(types);
            self.query(&format!("PREPARE {MARK}_{name}{types} AS {question}"))?;
            self.prepared.insert(name.to_owned());
        }
        let arguments = parenthesised(arguments);
        self.query(&format!("EXECUTE {MARK}_{name}{arguments}"))
    }

    fn answer(
        &mut self,
        ask: impl FnOnce(&mut QueryConnection<'a>) -> Result<Vec<Row>, LoginError>,
    ) -> Result<Vec<Row>, ProbeError> {
        let Some(questions) = &mut self.questions else {
            return Err(ProbeError::ConnectionLost(
                "there is no connection".to_owned(),
            ));
        };
        questions.limit(RESPONSE_TIMEOUT);
        let asked_ns = self.clock.now_ns();
        let answer = ask(questions);
        let is_over = questions.is_closed();
        self.cost.questions += 1;
        self.cost.asked_ns += (self.clock.now_ns() - asked_ns).max(0) as u64;
        self.cost.failures += u64::from(answer.is_err());
        if is_over {
            self.close();
        }
        answer.map_err(|error| match is_over {
            true => ProbeError::ConnectionLost(error.message),
            false => ProbeError::Failed(error.message),
        })
    }

    fn close(&mut self) {
        self.questions = None;
        self.own.lock().remove(&self.server.pid);
    }
}

impl Drop for ProbeConnection<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Inserts the mark after the first word. The server's statistics may drop a comment before it.
fn with_mark(question: &str) -> String {
    match question.split_once(' ') {
        Some((first, rest)) if !question.contains(MARK) => format!("{first} /* {MARK} */ {rest}"),
        _ => question.to_owned(),
    }
}

fn parenthesised(list: &str) -> String {
    match list {
        "" => String::new(),
        list => format!("({list})"),
    }
}

/// Converts a refused connection. Some refusals are permanent.
fn convert_login_error(error: &LoginError) -> ProbeError {
    let for_good = [&b"28"[..], b"3D", b"42", b"08P01", b"22023"];
    let why = error.message.clone();
    match for_good
        .iter()
        .any(|class| error.sqlstate.starts_with(class))
    {
        false => ProbeError::ConnectionLost(why),
        true if error.sqlstate == *b"08P01" => ProbeError::Unsupported {
            why,
            remedy: Some("give the server's own address, not that of a pooler".to_owned()),
        },
        true => ProbeError::Unsupported { why, remedy: None },
    }
}
