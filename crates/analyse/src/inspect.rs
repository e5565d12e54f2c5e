//! What is in a workload.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use workload::{
    Event, EventKind, Fingerprint, Session, Sqlstate, StatementClass, StatementText, Unreplayable,
    WorkloadInfo,
};

use crate::arrivals::Arrivals;
use crate::histogram::Histogram;
use crate::landmarks::Landmarks;
use crate::tally::Tally;

/// What is in a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// When it starts, in microseconds since 1970-01-01 UTC.
    pub start_wall_us: i64,
    /// From its start to its last event, in microseconds.
    pub span_us: i64,
    /// It was recovered from an unfinished capture and ends early.
    pub recovered: bool,
    /// Its sessions.
    pub sessions: SessionCounts,
    /// Statements in it.
    pub statements: u64,
    /// Of these, those that were done before a slice's start and lead to it.
    pub prelude: u64,
    /// Statements by database.
    pub databases: Tally,
    /// Statements by role.
    pub users: Tally,
    /// Statements by `application_name`.
    pub applications: Tally,
    /// Statements by class, the most first, without those that do not occur.
    pub classes: Vec<(StatementClass, u64)>,
    /// Events of each kind that is a statement: `simple`, `execute` …
    pub kinds: BTreeMap<&'static str, u64>,
    /// Statements over time.
    pub arrivals: Arrivals,
    /// Captured errors of statements.
    pub errors: BTreeMap<Sqlstate, u64>,
    /// Events that cannot be replayed as they were, by reason.
    pub unreplayable: BTreeMap<Unreplayable, u64>,
    /// The server's own time for all statements with a captured duration.
    pub captured: Option<Landmarks>,
    /// Each fingerprint, by its total captured time, then by calls, the most first.
    pub by_statement: Vec<StatementStats>,
}

/// A workload's sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// All.
    pub count: u64,
    /// The most that were open at one time.
    pub at_once: u64,
    /// Those whose beginning the source does not show.
    pub start_unseen: u64,
    /// Those whose end the source does not show.
    pub end_unseen: u64,
}

/// One statement of a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementStats {
    /// Which.
    pub fingerprint: Fingerprint,
    /// Its normalised SQL, where the workload has it.
    pub sql: Option<String>,
    /// Its class, where the workload has it.
    pub class: Option<StatementClass>,
    /// How often it was sent.
    pub calls: u64,
    /// How often it failed.
    pub errors: u64,
    /// The server's own time for the calls with a captured duration.
    pub captured: Option<Landmarks>,
}

impl StatementStats {
    /// Its total captured time, in nanoseconds; 0 where none is known.
    pub fn total_ns(&self) -> f64 {
        self.captured.map_or(0.0, |landmarks| landmarks.total_ns)
    }
}

#[derive(Default)]
struct Counted {
    calls: u64,
    errors: u64,
    captured: Histogram,
}

impl Inspection {
    /// Reads a workload: its manifest's part, events, sessions and statements' texts. The first
    /// error of any iterator is handed back.
    pub fn collect<E>(
        info: &WorkloadInfo,
        events: impl IntoIterator<Item = Result<(Event, Option<Fingerprint>), E>>,
        sessions: impl IntoIterator<Item = Result<Session, E>>,
        texts: impl IntoIterator<Item = Result<StatementText, E>>,
    ) -> Result<Self, E> {
        let mut inspection = Self::empty(info);
        let mut counted: HashMap<Option<Fingerprint>, Counted> = HashMap::new();
        let mut captured = Histogram::new();
        for event in events {
            let (event, fingerprint) = event?;
            if let Some(reason) = event.unreplayable {
                *inspection.unreplayable.entry(reason).or_default() += 1;
            }
            if !event.kind.is_statement() {
                continue;
            }
            inspection.count(&event.kind, event.due_us);
            inspection.prelude += u64::from(event.prelude);
            let statement = counted.entry(fingerprint).or_default();
            statement.calls += 1;
            if let Some(sqlstate) = event.outcome.sqlstate {
                *inspection.errors.entry(sqlstate).or_default() += 1;
                statement.errors += 1;
            }
            if let Some(duration_us) = event.outcome.duration_us {
                let duration_ns = duration_us.saturating_mul(1_000);
                statement.captured.record(duration_ns);
                captured.record(duration_ns);
            }
        }
        inspection.captured = captured.landmarks();
        for session in sessions {
            inspection.session(&session?);
        }
        let mut known: HashMap<Fingerprint, StatementText> = HashMap::new();
        for text in texts {
            let text = text?;
            known.insert(text.fingerprint, text);
        }
        inspection.statements_of(counted, known);
        Ok(inspection)
    }

    fn empty(info: &WorkloadInfo) -> Self {
        Self {
            start_wall_us: info.provenance.start_wall_us,
            span_us: info.span_us,
            recovered: info.recovered,
            sessions: SessionCounts {
                at_once: info.sessions_at_once,
                ..SessionCounts::default()
            },
            statements: 0,
            prelude: 0,
            databases: Tally::default(),
            users: Tally::default(),
            applications: Tally::default(),
            classes: Vec::new(),
            kinds: BTreeMap::new(),
            arrivals: Arrivals::new(info.span_us),
            errors: BTreeMap::new(),
            unreplayable: BTreeMap::new(),
            captured: None,
            by_statement: Vec::new(),
        }
    }

    fn count(&mut self, kind: &EventKind, due_us: i64) {
        self.statements += 1;
        *self.kinds.entry(kind.name()).or_default() += 1;
        self.arrivals.add(due_us);
    }

    fn session(&mut self, session: &Session) {
        self.sessions.count += 1;
        self.sessions.start_unseen += u64::from(!session.start_seen);
        self.sessions.end_unseen += u64::from(!session.end_seen);
        for (tally, name) in [
            (&mut self.databases, &session.database),
            (&mut self.users, &session.user),
            (&mut self.applications, &session.application),
        ] {
            let name: &Arc<str> = name;
            tally.add(name, session.statements);
        }
    }

    fn statements_of(
        &mut self,
        counted: HashMap<Option<Fingerprint>, Counted>,
        mut texts: HashMap<Fingerprint, StatementText>,
    ) {
        let mut classes: HashMap<StatementClass, u64> = HashMap::new();
        for (fingerprint, counted) in counted {
            let text = fingerprint.and_then(|fingerprint| texts.remove(&fingerprint));
            let class = text.as_ref().map(|text| text.class);
            *classes
                .entry(class.unwrap_or(StatementClass::Other))
                .or_default() += counted.calls;
            if let Some(fingerprint) = fingerprint {
                self.by_statement.push(StatementStats {
                    fingerprint,
                    class,
                    sql: text.map(|text| text.sql),
                    calls: counted.calls,
                    errors: counted.errors,
                    captured: counted.captured.landmarks(),
                });
            }
        }
        self.classes = StatementClass::ALL
            .into_iter()
            .filter_map(|class| Some((class, *classes.get(&class)?)))
            .collect();
        self.classes
            .sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        self.by_statement.sort_by(|a, b| {
            b.total_ns()
                .total_cmp(&a.total_ns())
                .then(b.calls.cmp(&a.calls))
                .then(a.fingerprint.cmp(&b.fingerprint))
        });
    }

    /// Statements with a captured duration.
    pub fn with_duration(&self) -> u64 {
        self.captured.map_or(0, |landmarks| landmarks.count)
    }
}
