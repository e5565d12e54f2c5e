//! Summarises a workload.

mod breakdown;
mod clients;
mod contexts;
mod durations;
mod lock_waits;
mod messages;
mod over_time;
mod server;
mod server_counters;
mod statement;
mod statement_order;
mod temporary_files;

use std::collections::{BTreeMap, HashMap, HashSet};

use run::SourceLocation;
use schemars::JsonSchema;
use serde::Serialize;
use sql::{Fingerprint, StatementClass};
use workload::{
    Event, EventKind, ServerEvent, Session, Sqlstate, StartingPoint, StatementText,
    UnrepeatableFinder, UnrepeatableStatement, Unreplayable, WorkloadInfo,
};

use contexts::ContextCounter;
use server_counters::ServerCounters;
use statement::StatementCounter;
use statistics::Arrivals;
use statistics::Histogram;
use statistics::LatencySummary;
use workload::Literals;

pub use breakdown::{Breakdown, NameTotals, Totals};
pub use clients::{HostTotals, ProtocolSteps, SessionLengths};
pub use contexts::{ContextBreakdown, ContextExample, ContextStats};
pub use durations::{DURATION_BOUNDS_US, DurationBin, Durations};
pub use lock_waits::{LOCK_EXAMPLES_MAX, LockExample, LockMode, LockWaits, LockedObject};
pub use messages::{
    MESSAGE_EXAMPLES_MAX, MESSAGE_PATTERNS_MAX, MessageExample, MessagePattern, ServerMessages,
};
pub use over_time::{OverTime, TIME_BUCKETS_MAX, TimeBucket};
pub use server::{Checkpoints, LongestWait, NOTABLE_MAX, Notable, ServerActivity, TableUpkeep};
pub use statement::{
    CallExample, CodeCount, Literal, STATEMENT_STRETCHES, StatementStats, Stretch,
};
pub use statement_order::StatementOrder;
pub use temporary_files::{TEMPORARY_FILE_STATEMENTS_MAX, TemporaryFiles};

/// Summary of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Inspection {
    /// Name of the workload, as the user gave it.
    pub workload: String,
    /// Start time, in microseconds since 1970-01-01 UTC.
    pub start_wall_us: i64,
    /// Time from the start to the last event, in microseconds.
    pub span_us: i64,
    /// Whether it was recovered from an unfinished capture and so ends early.
    pub recovered: bool,
    /// Names of the sources that it was read from.
    pub sources: Vec<String>,
    /// State of the server at the start of the capture; `null` if it was not noted.
    pub starting_point: Option<StartingPoint>,
    /// Counts of sessions.
    pub sessions: SessionCounts,
    /// Lengths of sessions: as the server logged them, or of those with a known beginning and end.
    pub session_lengths: SessionLengths,
    /// Sessions and statements by client host. Past the first 10,000 hosts, the others share `(others)`.
    pub hosts: Vec<HostTotals>,
    /// Number of statements.
    pub statements: u64,
    /// Number of these that precede a slice's start and restore its session state.
    pub prelude: u64,
    /// Statements by database.
    pub databases: Breakdown,
    /// Statements by role.
    pub users: Breakdown,
    /// Statements by `application_name`.
    pub applications: Breakdown,
    /// Statements by the context that comments name (route, controller, action, application, job), for each of
    /// these that occurs.
    pub contexts: Vec<ContextBreakdown>,
    /// Statements by class.
    pub classes: BTreeMap<StatementClass, u64>,
    /// Events by kind, for kinds that are statements: `simple`, `execute` …
    pub kinds: BTreeMap<&'static str, u64>,
    /// Parse, Bind and Execute messages, of a log that has their durations.
    pub protocol_steps: Option<ProtocolSteps>,
    /// Statements over time.
    pub arrivals: Arrivals,
    /// All activity over time.
    pub over_time: OverTime,
    /// Captured errors of statements.
    pub errors: BTreeMap<Sqlstate, ErrorCount>,
    /// Events that cannot be replayed as captured, by reason.
    pub unreplayable: BTreeMap<Unreplayable, u64>,
    /// The server's own execution time, over all statements with a captured duration.
    pub captured: Option<LatencySummary>,
    /// Histogram of captured durations.
    pub durations: Durations,
    /// Number of different statements.
    pub fingerprints: u64,
    /// Order of `by_statement`.
    pub order: StatementOrder,
    /// Statistics of each fingerprint, limited to the requested number.
    pub by_statement: Vec<StatementStats>,
    /// Statements whose conditions depend on the time, on chance or on the server, the most frequent first.
    pub unrepeatable: Vec<UnrepeatableStatement>,
    /// Messages of the server of severity WARNING and more.
    pub messages: ServerMessages,
    /// Waits for locks by object and mode, the longest total first.
    pub lock_waits: Vec<LockWaits>,
    /// Temporary files by statement, the largest total first.
    pub temporary_files: Vec<TemporaryFiles>,
    /// Activity of the server.
    pub server: ServerActivity,
}

/// Counts of a workload's sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionCounts {
    /// Number of sessions.
    pub count: u64,
    /// Maximum number of sessions open at one time; see [`TimeBucket::open_max`].
    pub at_once: u64,
    /// Sessions whose beginning is not in the source.
    pub start_unseen: u64,
    /// Sessions whose end is not in the source.
    pub end_unseen: u64,
}

/// Failures with one SQLSTATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorCount {
    /// Number of failures.
    pub count: u64,
    /// Statement of the first failure.
    pub fingerprint: Option<Fingerprint>,
    /// Session of the first failure.
    pub session: u64,
    /// Time at which the first failed statement was sent, in microseconds from the workload's
    /// start.
    pub due_us: i64,
    /// Position of the first failure in the source; line 0 means unknown.
    pub place: SourceLocation,
}

/// Indexes of the totals for a session's database, user and application.
type NameIndexes = [usize; 3];

impl Inspection {
    /// Summarises a workload from its manifest, server events, sessions, events and statement
    /// texts. With [`Literals::Shown`], examples keep the statements as sent, including the user's
    /// data.
    ///
    /// # Errors
    /// If any iterator fails; the first error is returned.
    pub fn collect<E>(
        info: &WorkloadInfo,
        server_events: impl IntoIterator<Item = Result<(ServerEvent, Option<Fingerprint>), E>>,
        sessions: impl IntoIterator<Item = Result<Session, E>>,
        events: impl IntoIterator<Item = Result<(Event, Option<Fingerprint>), E>>,
        texts: impl IntoIterator<Item = Result<StatementText, E>>,
        literals: Literals,
    ) -> Result<Self, E> {
        let mut inspection = Self::empty(info);
        let mut counted: HashMap<Option<Fingerprint>, StatementCounter> = HashMap::new();
        let mut server = ServerCounters::new(literals);
        for event in server_events {
            let (event, fingerprint) = event?;
            server.add(&event, fingerprint);
            inspection.over_time.add_server_event(&event);
            if fingerprint.is_some() {
                counted.entry(fingerprint).or_default().server(&event);
            }
        }
        for session in sessions {
            let session = session?;
            server.clients.add_session(&session);
            inspection.session(&session);
        }
        server.finish(&mut inspection);
        let mut captured = Histogram::new();
        let mut contexts = ContextCounter::default();
        let mut names: HashMap<u64, NameIndexes> = HashMap::new();
        let mut unrepeatable = UnrepeatableFinder::default();
        for event in events {
            let (event, fingerprint) = event?;
            unrepeatable.add(&event, fingerprint);
            inspection.event(&event, fingerprint, &mut names);
            if !event.kind.is_statement() {
                continue;
            }
            inspection.prelude += u64::from(event.prelude);
            contexts.add(&event);
            if let Some(duration_us) = event.outcome.duration_us {
                captured.record(duration_us.saturating_mul(1_000));
            }
            let place = stretch(event.due_us, info.span_us);
            let statement = counted.entry(fingerprint).or_default();
            statement.call(&event, place, literals);
        }
        inspection.over_time.finish();
        inspection.contexts = contexts.breakdowns();
        let moments = inspection.over_time.moments.iter();
        inspection.sessions.at_once = moments.map(|one| one.open_max).max().unwrap_or(0);
        inspection.captured = captured.latency_summary();
        let mut known: HashMap<Fingerprint, StatementText> = HashMap::new();
        for text in texts {
            let text = text?;
            known.insert(text.fingerprint, text);
        }
        inspection.unrepeatable = unrepeatable.finish(known.values().map(Ok))?;
        inspection.statements_of(counted, known);
        Ok(inspection)
    }

    fn empty(info: &WorkloadInfo) -> Self {
        Self {
            workload: String::new(),
            start_wall_us: info.provenance.start_wall_us,
            span_us: info.span_us,
            recovered: info.recovered,
            sources: info
                .provenance
                .sources
                .iter()
                .map(|source| source.name.clone())
                .collect(),
            starting_point: info.provenance.starting_point.clone(),
            sessions: SessionCounts::default(),
            session_lengths: SessionLengths::default(),
            hosts: Vec::new(),
            statements: 0,
            prelude: 0,
            databases: Breakdown::default(),
            users: Breakdown::default(),
            applications: Breakdown::default(),
            contexts: Vec::new(),
            classes: BTreeMap::new(),
            kinds: BTreeMap::new(),
            protocol_steps: ProtocolSteps::of(info),
            arrivals: Arrivals::new(info.span_us),
            over_time: OverTime::new(
                info.server_from_us.min(0),
                info.server_to_us.max(info.span_us),
            ),
            errors: BTreeMap::new(),
            unreplayable: BTreeMap::new(),
            captured: None,
            durations: Durations::default(),
            fingerprints: 0,
            order: StatementOrder::default(),
            by_statement: Vec::new(),
            unrepeatable: Vec::new(),
            messages: ServerMessages::default(),
            lock_waits: Vec::new(),
            temporary_files: Vec::new(),
            server: ServerActivity::default(),
        }
    }

    fn session(&mut self, session: &Session) {
        self.sessions.count += 1;
        self.sessions.start_unseen += u64::from(!session.start_seen);
        self.sessions.end_unseen += u64::from(!session.end_seen);
        if !session.end_seen {
            self.over_time.add_last_seen(session.end_us);
        }
    }

    fn event(
        &mut self,
        event: &Event,
        fingerprint: Option<Fingerprint>,
        names: &mut HashMap<u64, NameIndexes>,
    ) {
        if let Some(reason) = event.unreplayable {
            *self.unreplayable.entry(reason).or_default() += 1;
        }
        match &event.kind {
            EventKind::Connect {
                database,
                user,
                application,
            } => {
                let places = [
                    self.databases.index_of(database),
                    self.users.index_of(user),
                    self.applications.index_of(application),
                ];
                names.insert(event.session, places);
                self.over_time.add_opened(event.due_us);
                for totals in self.totals(Some(places)) {
                    totals.sessions += 1;
                }
            }
            EventKind::Disconnect => {
                names.remove(&event.session);
                self.over_time.add_closed(event.due_us);
            }
            EventKind::Cancel => (),
            kind => {
                *self.kinds.entry(kind.name()).or_default() += 1;
                self.count_statement(event, fingerprint, names.get(&event.session).copied());
            }
        }
    }

    fn count_statement(
        &mut self,
        event: &Event,
        fingerprint: Option<Fingerprint>,
        of: Option<NameIndexes>,
    ) {
        let sqlstate = event.outcome.sqlstate;
        let time_us = event.outcome.duration_us.unwrap_or(0);
        self.statements += 1;
        self.arrivals.add(event.due_us);
        let moment = self.over_time.at(event.due_us);
        moment.statements += 1;
        moment.time_us += time_us;
        if let Some(sqlstate) = sqlstate {
            *moment.errors.entry(sqlstate).or_default() += 1;
            let first = ErrorCount {
                count: 0,
                fingerprint,
                session: event.session,
                due_us: event.due_us,
                place: SourceLocation {
                    source: event.source,
                    line: event.line,
                },
            };
            self.errors.entry(sqlstate).or_insert(first).count += 1;
        }
        if let Some(duration_us) = event.outcome.duration_us {
            self.durations.add(duration_us);
        }
        for totals in self.totals(of) {
            totals.statements += 1;
            totals.errors += u64::from(sqlstate.is_some());
            totals.time_us += time_us;
        }
    }

    fn totals(&mut self, of: Option<NameIndexes>) -> impl Iterator<Item = &mut Totals> {
        // A capture writes a Connect for each session; a session without one has no names.
        let [database, user, application] = of.unwrap_or_else(|| {
            let empty = std::sync::Arc::from("");
            [
                self.databases.index_of(&empty),
                self.users.index_of(&empty),
                self.applications.index_of(&empty),
            ]
        });
        [
            self.databases.at(database),
            self.users.at(user),
            self.applications.at(application),
        ]
        .into_iter()
    }

    fn statements_of(
        &mut self,
        counted: HashMap<Option<Fingerprint>, StatementCounter>,
        mut texts: HashMap<Fingerprint, StatementText>,
    ) {
        for (fingerprint, counted) in counted {
            let text = fingerprint.and_then(|fingerprint| texts.remove(&fingerprint));
            let class = text.as_ref().map(|text| text.class);
            // The server's log lines may name a statement that was never logged as a call.
            if counted.calls > 0 {
                *self
                    .classes
                    .entry(class.unwrap_or(StatementClass::Other))
                    .or_default() += counted.calls;
            }
            if let Some(fingerprint) = fingerprint {
                self.by_statement.push(counted.stats(fingerprint, text));
            }
        }
        self.fingerprints = self.by_statement.len() as u64;
        self.by_statement.sort_by(|a, b| {
            b.total_ns()
                .total_cmp(&a.total_ns())
                .then(b.calls.cmp(&a.calls))
                .then(a.fingerprint.cmp(&b.fingerprint))
        });
    }

    /// Sorts the statements by an order; the sort is stable.
    pub fn sort(&mut self, order: StatementOrder) {
        self.order = order;
        self.by_statement
            .sort_by(|a, b| order.key(b).total_cmp(&order.key(a)));
    }

    /// Returns the first `most` statements by an order.
    pub fn top(&self, order: StatementOrder, most: usize) -> Vec<&StatementStats> {
        let mut all: Vec<&StatementStats> = self.by_statement.iter().collect();
        all.sort_by(|a, b| order.key(b).total_cmp(&order.key(a)));
        all.truncate(most);
        all
    }

    /// Keeps the statements that are among the first `most` by any order, and those that an error, a message, a
    /// lock wait or temporary files refer to.
    pub fn keep(&mut self, most: usize) {
        let kept: HashSet<Fingerprint> = StatementOrder::ALL
            .into_iter()
            .flat_map(|order| self.top(order, most))
            .map(|one| one.fingerprint)
            .chain(self.mentioned())
            .collect();
        self.by_statement
            .retain(|one| kept.contains(&one.fingerprint));
    }

    fn mentioned(&self) -> impl Iterator<Item = Fingerprint> {
        let errors = self.errors.values().map(|error| error.fingerprint);
        let patterns = self.messages.patterns.iter();
        let messages = patterns
            .flat_map(|one| &one.examples)
            .map(|one| one.fingerprint);
        let waits = self.lock_waits.iter();
        let waits = waits
            .flat_map(|one| &one.examples)
            .map(|one| one.fingerprint);
        let files = self.temporary_files.iter().map(|one| one.fingerprint);
        let notable = self.server.notable.iter().map(|one| one.fingerprint);
        let all = errors
            .chain(messages)
            .chain(waits)
            .chain(files)
            .chain(notable);
        all.flatten()
    }

    /// Returns the statistics of a statement, if it is kept.
    pub fn statement_of(&self, fingerprint: Option<Fingerprint>) -> Option<&StatementStats> {
        let fingerprint = fingerprint?;
        let mut statements = self.by_statement.iter();
        statements.find(|one| one.fingerprint == fingerprint)
    }

    /// Counts the statements with a captured duration.
    pub fn with_duration(&self) -> u64 {
        self.captured.map_or(0, |latency| latency.count)
    }

    /// Counts the statements that may write, judged by their first word.
    pub fn writes(&self) -> u64 {
        let classes = self.classes.iter();
        let writes = classes.filter(|(class, _)| class.may_write());
        writes.map(|(_, count)| count).sum()
    }

    /// Returns the captured errors, the most frequent first.
    pub fn errors_by_count(&self) -> Vec<(Sqlstate, &ErrorCount)> {
        let mut errors: Vec<_> = self.errors.iter().map(|(code, one)| (*code, one)).collect();
        errors.sort_by_key(|(_, error)| std::cmp::Reverse(error.count));
        errors
    }

    /// Returns the name of the source of a place; empty if unknown.
    pub fn source(&self, place: SourceLocation) -> &str {
        let name = self.sources.get(place.source as usize);
        name.map_or("", String::as_str)
    }
}

/// Returns the index of the statement stretch that contains a time.
fn stretch(due_us: i64, span_us: i64) -> u8 {
    let of = STATEMENT_STRETCHES as i128;
    let at = i128::from(due_us.max(0)) * of / (i128::from(span_us.max(0)) + 1);
    at.min(of - 1) as u8
}
