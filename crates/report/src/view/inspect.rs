//! What is in a workload.

use std::collections::BTreeMap;

use analyse::{Inspection, StatementStats, Tally};
use serde::Serialize;

use crate::view::latency::LatencyView;
use crate::view::run_summary::ReasonCountView;

/// What is in a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    pub databases: Vec<NameCountView>,
    /// Statements by role, the most first.
    pub users: Vec<NameCountView>,
    /// Statements by `application_name`, the most first.
    pub applications: Vec<NameCountView>,
    /// Statements by class, the most first.
    pub classes: Vec<NameCountView>,
    /// Statements by the way they were sent.
    pub kinds: Vec<NameCountView>,
    /// Statements over time.
    pub arrivals: ArrivalsView,
    /// Captured errors, by SQLSTATE.
    pub errors: BTreeMap<String, u64>,
    /// What cannot be replayed as it was.
    pub unreplayable: Vec<ReasonCountView>,
    /// Statements with a captured duration.
    pub with_duration: u64,
    /// The captured server's own time for them, of all statements.
    pub captured: Option<LatencyView>,
    /// Each statement, by its total captured time, then by calls, the most first.
    pub by_statement: Vec<InspectStatementView>,
}

/// A name and how many statements go with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NameCountView {
    /// The name; empty where the source does not know it.
    pub name: String,
    /// How many.
    pub statements: u64,
}

/// Statements over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArrivalsView {
    /// What one count covers, in microseconds.
    pub width_us: i64,
    /// Statements in each stretch from the start.
    pub counts: Vec<u64>,
}

/// One statement of a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InspectStatementView {
    /// 16 hexadecimal digits.
    pub fingerprint: String,
    /// Normalised SQL; empty where unknown.
    pub sql: String,
    /// Its class; empty where unknown.
    pub class: &'static str,
    /// How often it was sent.
    pub calls: u64,
    /// How often it failed.
    pub errors: u64,
    /// The captured server's own time.
    pub captured: Option<LatencyView>,
}

impl InspectView {
    /// The view of an inspection. `workload` is the name to show.
    pub fn new(workload: &str, inspection: &Inspection) -> Self {
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
            errors: inspection
                .errors
                .iter()
                .map(|(sqlstate, count)| (sqlstate.to_string(), *count))
                .collect(),
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
            by_statement: inspection.by_statement.iter().map(statement).collect(),
        }
    }
}

fn statement(stats: &StatementStats) -> InspectStatementView {
    InspectStatementView {
        fingerprint: stats.fingerprint.to_string(),
        sql: stats.sql.clone().unwrap_or_default(),
        class: stats.class.map_or("", |class| class.name()),
        calls: stats.calls,
        errors: stats.errors,
        captured: stats.captured.map(LatencyView::from),
    }
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

fn names(tally: &Tally) -> Vec<NameCountView> {
    let mut names: Vec<NameCountView> = tally
        .descending()
        .into_iter()
        .map(|(name, count)| counted(&name, count))
        .collect();
    if tally.others() > 0 {
        names.push(counted("(others)", tally.others()));
    }
    names
}
