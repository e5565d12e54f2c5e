//! A connection of our own for the questions of probes: opened again when it is lost, limited in time,
//! counted, and as quiet at the server as its role allows.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::Clock;
use connect::login::{Dialer, Login, LoginError, Questions, Row};

/// The server ends what takes longer; ours are done in milliseconds.
const STATEMENT_TIMEOUT: &str = "2s";
const LOCK_TIMEOUT: &str = "500ms";
/// Beyond the server's own limit, for one that says nothing.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How long to wait before a lost connection is tried again.
const RETRY_NS: i64 = 1_000_000_000;

/// What is in every text of ours, so that the server's statistics tell them from others.
pub(crate) const MARK: &str = "rehearse_probe";

/// Why a probe saw nothing this time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unable {
    /// It cannot work here.
    Never { why: String, remedy: Option<String> },
    /// The server refused this question.
    Failed(String),
    /// The connection was lost.
    Gone(String),
}

impl Unable {
    pub(crate) fn never(why: impl Into<String>, remedy: &str) -> Self {
        Unable::Never {
            why: why.into(),
            remedy: (!remedy.is_empty()).then(|| remedy.to_owned()),
        }
    }
}

/// The server's processes at the other ends of our connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnProcesses(Arc<Mutex<BTreeSet<i32>>>);

impl OwnProcesses {
    pub(crate) fn has(&self, pid: i32) -> bool {
        self.lock().contains(&pid)
    }

    /// As a literal of an array.
    pub(crate) fn literal(&self) -> String {
        let pids: Vec<String> = self.lock().iter().map(i32::to_string).collect();
        format!("'{{{}}}'", pids.join(","))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of the server at the other end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// `server_version_num`
    pub(crate) version: u32,
    pub(crate) pid: i32,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) is_superuser: bool,
    /// The port of our end; `None` over a unix socket.
    pub(crate) client_port: Option<u16>,
}

/// Asks.
pub(crate) struct Asker<'a> {
    dialer: &'a Dialer,
    login: Login,
    clock: Arc<dyn Clock>,
    own: OwnProcesses,
    questions: Option<Questions<'a>>,
    prepared: HashSet<String>,
    known: Known,
    retry_at_ns: i64,
    /// How many questions were asked, how long they took, and how many failed.
    pub(crate) cost: Cost,
}

/// What questions cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) questions: u64,
    pub(crate) asked_ns: u64,
    pub(crate) failures: u64,
}

impl<'a> Asker<'a> {
    /// Does not connect yet. `plain` leaves the search path to the role, for questions that are not ours.
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
        Asker {
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
            known: Known::default(),
            retry_at_ns: i64::MIN,
            cost: Cost::default(),
        }
    }

    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    pub(crate) fn own(&self) -> &OwnProcesses {
        &self.own
    }

    pub(crate) fn is_open(&self) -> bool {
        self.questions.is_some()
    }

    /// Opens the connection if it is not, and if the last attempt was some time ago.
    ///
    /// # Errors
    /// [`Unable::Never`] where another attempt would end the same.
    pub(crate) fn open(&mut self) -> Result<(), Unable> {
        if self.is_open() {
            return Ok(());
        }
        let now_ns = self.clock.now_ns();
        if now_ns < self.retry_at_ns {
            return Err(Unable::Gone("it is not back yet".to_owned()));
        }
        self.retry_at_ns = now_ns.saturating_add(RETRY_NS);
        let questions = self
            .dialer
            .questions(&self.login)
            .map_err(|error| refused(&error))?;
        self.questions = Some(questions);
        self.prepared.clear();
        self.known = self.introduce()?;
        self.own.lock().insert(self.known.pid);
        self.be_quiet();
        Ok(())
    }

    fn introduce(&mut self) -> Result<Known, Unable> {
        let rows = self.ask(
            "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('server_version_num'), \
             current_user, pg_catalog.current_database(), pg_catalog.current_setting('is_superuser'), \
             pg_catalog.inet_client_port(), pg_catalog.current_setting('statement_timeout')",
        )?;
        let row = rows.into_iter().next().unwrap_or_default();
        let at = |column: usize| row.get(column).cloned().flatten().unwrap_or_default();
        if at(6) != STATEMENT_TIMEOUT {
            self.close();
            return Err(Unable::never(
                "something between here and the server does not pass on the settings that keep a probe from doing harm",
                "give the server's own address, not that of a pooler",
            ));
        }
        Ok(Known {
            pid: at(0).parse().unwrap_or(0),
            version: at(1).parse().unwrap_or(0),
            user: at(2),
            database: at(3),
            is_superuser: at(4) == "on",
            client_port: at(5).parse().ok(),
        })
    }

    /// Neither the server's log nor its statistics need to know of our questions, where we may say so.
    fn be_quiet(&mut self) {
        let mut settings = vec!["jit = off", "max_parallel_workers_per_gather = 0"];
        if self.known.is_superuser {
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
            // A role that may not leaves it as it is.
            let _ = self.ask(&format!("SET {setting}"));
        }
    }

    /// Asks with a simple query.
    ///
    /// # Errors
    /// Where there is no answer.
    pub(crate) fn ask(&mut self, question: &str) -> Result<Vec<Row>, Unable> {
        let question = marked(question);
        self.answer(|questions| questions.ask(&question))
    }

    /// Asks with the extended protocol, which takes a single statement.
    ///
    /// # Errors
    /// Where there is no answer.
    pub(crate) fn ask_one(&mut self, question: &str) -> Result<Vec<Row>, Unable> {
        self.answer(|questions| questions.ask_with(question, &[], &[]))
    }

    /// Asks what is asked often: planned once. `arguments` are what stands between the parentheses of
    /// `EXECUTE`, `types` between those of `PREPARE`; empty for none.
    ///
    /// # Errors
    /// Where there is no answer.
    pub(crate) fn ask_again(
        &mut self,
        name: &str,
        types: &str,
        arguments: &str,
        question: &str,
    ) -> Result<Vec<Row>, Unable> {
        if !self.prepared.contains(name) {
            let types = parenthesised(types);
            self.ask(&format!("PREPARE {MARK}_{name}{types} AS {question}"))?;
            self.prepared.insert(name.to_owned());
        }
        let arguments = parenthesised(arguments);
        self.ask(&format!("EXECUTE {MARK}_{name}{arguments}"))
    }

    fn answer(
        &mut self,
        ask: impl FnOnce(&mut Questions<'a>) -> Result<Vec<Row>, LoginError>,
    ) -> Result<Vec<Row>, Unable> {
        let Some(questions) = &mut self.questions else {
            return Err(Unable::Gone("there is no connection".to_owned()));
        };
        questions.limit(ANSWER_TIME);
        let asked_ns = self.clock.now_ns();
        let answer = ask(questions);
        let is_over = questions.is_over();
        self.cost.questions += 1;
        self.cost.asked_ns += (self.clock.now_ns() - asked_ns).max(0) as u64;
        self.cost.failures += u64::from(answer.is_err());
        if is_over {
            self.close();
        }
        answer.map_err(|error| match is_over {
            true => Unable::Gone(error.message),
            false => Unable::Failed(error.message),
        })
    }

    fn close(&mut self) {
        self.questions = None;
        self.own.lock().remove(&self.known.pid);
    }
}

impl Drop for Asker<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

/// With the mark behind its first word: what stands in front of that, the server's statistics may drop.
fn marked(question: &str) -> String {
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

/// Whether a refused connection is refused for good.
fn refused(error: &LoginError) -> Unable {
    let for_good = [&b"28"[..], b"3D", b"42", b"08P01", b"22023"];
    let why = error.message.clone();
    match for_good
        .iter()
        .any(|class| error.sqlstate.starts_with(class))
    {
        false => Unable::Gone(why),
        true if error.sqlstate == *b"08P01" => Unable::Never {
            why,
            remedy: Some("give the server's own address, not that of a pooler".to_owned()),
        },
        true => Unable::Never { why, remedy: None },
    }
}
