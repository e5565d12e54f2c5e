//! What is in a workload.

mod over_time;
mod server;
mod statement;

use std::collections::{BTreeMap, HashSet};

use analyse::{Breakdown, Inspection, Totals};
use schemars::JsonSchema;
use serde::Serialize;

pub use over_time::OverTimeView;
pub use server::{CheckpointsView, LockWaitView, NotableView, ServerView, TableUpkeepView};
use statement::source;
pub use statement::{
    CallExampleView, CodeCountView, InspectStatementView, LiteralView, STRETCHES, StatementOrder,
};

use crate::sqlstate::condition_name;
use crate::view::latency::LatencyView;
use crate::view::run_summary::ReasonCountView;

/// What is in a workload.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct InspectView {
    /// `rehearse/inspect/1`.
    pub schema: &'static str,
    /// The workload's name, as the user gave it.
    pub workload: String,
    /// Its start, in microseconds since 1970-01-01 UTC.
    pub start_wall_us: i64,
    /// From its start to its last event, in microseconds.
    pub span_us: i64,
    /// It was recovered from an unfinished capture and ends early.
    pub recovered: bool,
    /// Sessions.
    pub sessions: u64,
    /// The most sessions open at one time.
    pub sessions_at_once: u64,
    /// Sessions that began before the capture.
    pub sessions_start_unseen: u64,
    /// Sessions whose end was not captured.
    pub sessions_end_unseen: u64,
    /// Statements.
    pub statements: u64,
    /// Of these, those that a slice put at its start because they lead to it.
    pub prelude: u64,
    /// Statements that may write, by their first word.
    pub writes: u64,
    /// Statements by database, the most first.
    pub databases: Vec<NameTotalsView>,
    /// Statements by role, the most first.
    pub users: Vec<NameTotalsView>,
    /// Statements by `application_name`, the most first.
    pub applications: Vec<NameTotalsView>,
    /// Statements by class, the most first.
    pub classes: Vec<NameCountView>,
    /// Statements by the way they were sent.
    pub kinds: Vec<NameCountView>,
    /// Statements over time.
    pub arrivals: ArrivalsView,
    /// Everything over time, finer.
    pub over_time: OverTimeView,
    /// Captured errors, by SQLSTATE.
    pub errors: BTreeMap<String, u64>,
    /// The same, the most frequent first, each with its first place.
    pub error_examples: Vec<CapturedErrorView>,
    /// What cannot be replayed as it was.
    pub unreplayable: Vec<ReasonCountView>,
    /// Statements with a captured duration.
    pub with_duration: u64,
    /// The captured server's own time for them, of all statements.
    pub captured: Option<LatencyView>,
    /// How many statements took how long, without empty ends.
    pub durations: Vec<DurationBinView>,
    /// What the server did.
    pub server: ServerView,
    /// How many different statements there are.
    pub fingerprints: u64,
    /// The order of `by_statement`: `total`, `calls`, `mean` or `max`.
    pub order: &'static str,
    /// Each statement, in that order; all of them, unless fewer were asked for.
    pub by_statement: Vec<InspectStatementView>,
}

/// A name and how many statements go with it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct NameCountView {
    /// The name; empty where the source does not know it.
    pub name: String,
    /// How many.
    pub statements: u64,
}

/// Statements over time.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ArrivalsView {
    /// What one count covers, in microseconds.
    pub width_us: i64,
    /// Statements in each stretch from the start.
    pub counts: Vec<u64>,
}

/// A database, role or application, and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct NameTotalsView {
    /// The name; empty where the source does not know it.
    pub name: String,
    /// Sessions.
    pub sessions: u64,
    /// Statements.
    pub statements: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// The captured server's own time for them, where known.
    pub total_us: u64,
}

/// How many statements took how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DurationBinView {
    /// At least this long.
    pub from_us: u64,
    /// Shorter than this; null for no end.
    pub to_us: Option<u64>,
    /// Statements.
    pub count: u64,
    /// Their time together.
    pub total_us: u64,
}

/// Captured failures with one code.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CapturedErrorView {
    /// The SQLSTATE; `?????` where the source did not show it.
    pub sqlstate: String,
    /// Its name; empty for rare ones.
    pub name: &'static str,
    /// How many.
    pub count: u64,
    /// The statement of the first; empty where unknown.
    pub fingerprint: String,
    /// The session of the first.
    pub session: u64,
    /// When the first was sent, from the workload's start.
    pub at_us: i64,
    /// The file of the first.
    pub source: String,
    /// The line of the first.
    pub line: u64,
}

impl InspectView {
    /// The view of an inspection. `workload` is the name to show.
    pub fn new(workload: &str, inspection: &Inspection, order: StatementOrder) -> Self {
        let classes = inspection.classes.iter();
        Self {
            schema: "rehearse/inspect/1",
            workload: workload.to_owned(),
            start_wall_us: inspection.start_wall_us,
            span_us: inspection.span_us,
            recovered: inspection.recovered,
            sessions: inspection.sessions.count,
            sessions_at_once: inspection.sessions.at_once,
            sessions_start_unseen: inspection.sessions.start_unseen,
            sessions_end_unseen: inspection.sessions.end_unseen,
            statements: inspection.statements,
            prelude: inspection.prelude,
            writes: classes
                .clone()
                .filter(|(class, _)| class.may_write())
                .map(|(_, count)| count)
                .sum(),
            databases: names(&inspection.databases),
            users: names(&inspection.users),
            applications: names(&inspection.applications),
            classes: classes
                .map(|(class, count)| counted(class.name(), *count))
                .collect(),
            kinds: by_count(
                inspection
                    .kinds
                    .iter()
                    .map(|(kind, count)| counted(kind, *count))
                    .collect(),
            ),
            arrivals: ArrivalsView {
                width_us: inspection.arrivals.width_us,
                counts: inspection.arrivals.counts.clone(),
            },
            over_time: OverTimeView::new(inspection),
            errors: inspection
                .errors
                .iter()
                .map(|(sqlstate, error)| (sqlstate.to_string(), error.count))
                .collect(),
            error_examples: error_examples(inspection),
            unreplayable: inspection
                .unreplayable
                .iter()
                .map(|(reason, count)| ReasonCountView {
                    reason: reason.name(),
                    explanation: reason.explanation(),
                    count: *count,
                })
                .collect(),
            with_duration: inspection.with_duration(),
            captured: inspection.captured.map(LatencyView::from),
            durations: inspection
                .durations
                .bins()
                .into_iter()
                .map(|(from_us, to_us, bin)| DurationBinView {
                    from_us,
                    to_us,
                    count: bin.count,
                    total_us: bin.time_us,
                })
                .collect(),
            server: ServerView::new(inspection),
            fingerprints: inspection.by_statement.len() as u64,
            order: order.name(),
            by_statement: statements(inspection, order),
        }
    }

    /// The first `most` statements in an order.
    pub(crate) fn top(&self, order: StatementOrder, most: usize) -> Vec<&InspectStatementView> {
        let mut all: Vec<&InspectStatementView> = self.by_statement.iter().collect();
        order.sort(&mut all);
        all.truncate(most);
        all
    }

    /// Keeps the statements that are among the first `most` in any order, for a shorter page.
    pub fn keep(&mut self, most: usize) {
        let kept: HashSet<String> = StatementOrder::ALL
            .into_iter()
            .flat_map(|order| self.top(order, most))
            .map(|one| one.fingerprint.clone())
            .collect();
        self.by_statement
            .retain(|one| kept.contains(&one.fingerprint));
    }
}

fn statements(inspection: &Inspection, order: StatementOrder) -> Vec<InspectStatementView> {
    let all_ns = inspection
        .captured
        .map_or(0.0, |captured| captured.total_ns);
    let views: Vec<InspectStatementView> = inspection
        .by_statement
        .iter()
        .map(|stats| InspectStatementView::new(stats, all_ns, &inspection.sources))
        .collect();
    let mut ordered: Vec<&InspectStatementView> = views.iter().collect();
    order.sort(&mut ordered);
    ordered.into_iter().cloned().collect()
}

fn error_examples(inspection: &Inspection) -> Vec<CapturedErrorView> {
    let mut errors: Vec<CapturedErrorView> = inspection
        .errors
        .iter()
        .map(|(code, error)| CapturedErrorView {
            sqlstate: code.to_string(),
            name: condition_name(code.as_str()),
            count: error.count,
            fingerprint: error
                .fingerprint
                .map_or_else(String::new, |of| of.to_string()),
            session: error.session,
            at_us: error.due_us,
            source: source(&inspection.sources, error.place.0),
            line: error.place.1,
        })
        .collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    errors
}

fn counted(name: &str, statements: u64) -> NameCountView {
    NameCountView {
        name: name.to_owned(),
        statements,
    }
}

fn by_count(mut counts: Vec<NameCountView>) -> Vec<NameCountView> {
    counts.sort_by_key(|count| std::cmp::Reverse(count.statements));
    counts
}

fn names(breakdown: &Breakdown) -> Vec<NameTotalsView> {
    let view = |name: &str, totals: Totals| NameTotalsView {
        name: name.to_owned(),
        sessions: totals.sessions,
        statements: totals.statements,
        errors: totals.errors,
        total_us: totals.time_us,
    };
    let mut names: Vec<NameTotalsView> = breakdown
        .descending()
        .into_iter()
        .map(|(name, totals)| view(&name, totals))
        .collect();
    if breakdown.others() != Totals::default() {
        names.push(view("(others)", breakdown.others()));
    }
    names
}
