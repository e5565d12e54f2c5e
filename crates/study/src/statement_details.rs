//! Details of one statement: its executions in a workload or a run, and the plans that a run recorded.

use std::collections::BTreeMap;

use inspect::{Inspection, StatementStats};
use plans::PlanSide;
use run::{Execution, Outcome, RunReader, StatementKind};
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use statistics::{Histogram, LatencySummary};
use workload::{Literals, Sqlstate, StatementText};

use crate::failure::Failure;

/// A statement in a workload.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkloadStatement {
    /// Executions of the workload, of all statements.
    pub executions: u64,
    /// Executions whose text the source does not have, so that they belong to no statement.
    pub executions_without_fingerprint: u64,
    /// The statement.
    pub statement: StatementStats,
}

/// A statement in a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunStatement {
    /// Executions of the run, of all statements.
    pub executions: u64,
    /// Executions that belong to no statement, since their text is not known.
    pub executions_without_fingerprint: u64,
    /// Fingerprint of the statement.
    pub fingerprint: Fingerprint,
    /// Normalised text; `null` if the run does not have it.
    pub sql: Option<String>,
    /// Executions of the statement. `done` + all failed + `skipped` = `calls`.
    pub calls: u64,
    /// Executions that succeeded.
    pub done: u64,
    /// Executions that failed, by error.
    pub failed: BTreeMap<Sqlstate, u64>,
    /// Executions that were never sent.
    pub skipped: u64,
    /// Executions that failed in the capture.
    pub failed_in_capture: u64,
    /// Rows returned or affected.
    pub rows: u64,
    /// Service time (sent → done) of the executions that succeeded.
    pub service: Option<LatencySummary>,
    /// Response time (due → done) of the executions that succeeded.
    pub response: Option<LatencySummary>,
}

/// The recorded plan of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RecordedPlan {
    /// Fingerprint of the statement.
    pub fingerprint: Fingerprint,
    /// Normalised text; `null` if the run does not have it.
    pub sql: Option<String>,
    /// Calls in the run.
    pub calls: u64,
    /// Total service time in the run, in nanoseconds.
    pub service_ns: u64,
    /// The plan, or the reason why there is none. Conditions have no values.
    pub plan: PlanSide,
}

/// Finds a statement in the summary of a workload.
///
/// # Errors
/// If the workload does not have it.
pub fn workload_statement(
    inspection: &Inspection,
    fingerprint: Fingerprint,
) -> Result<WorkloadStatement, Failure> {
    let all = &inspection.by_statement;
    let known: u64 = all.iter().map(|one| one.calls).sum();
    let found = all.iter().find(|one| one.fingerprint == fingerprint);
    Ok(WorkloadStatement {
        executions: inspection.statements,
        executions_without_fingerprint: inspection.statements.saturating_sub(known),
        statement: found.cloned().ok_or_else(|| unknown(fingerprint))?,
    })
}

/// Reads the executions of a statement in a run.
///
/// # Errors
/// If the run cannot be read, or does not have the statement.
pub fn run_statement(
    reader: &RunReader,
    fingerprint: Fingerprint,
) -> Result<RunStatement, Failure> {
    let mut counter = ExecutionCounter::new(fingerprint);
    for execution in reader.executions()? {
        counter.add(&execution?);
    }
    let sql = texts(reader)?.remove(&fingerprint);
    if counter.counted.calls == 0 && sql.is_none() {
        return Err(unknown(fingerprint));
    }
    Ok(counter.finish(sql))
}

/// Reads the plans that a run recorded, of all statements or of one, by descending service time. `None` if the run
/// recorded no plans.
///
/// # Errors
/// If the run cannot be read.
pub fn recorded_plans(
    reader: &RunReader,
    fingerprint: Option<Fingerprint>,
) -> Result<Option<Vec<RecordedPlan>>, Failure> {
    let Some(facts) = reader.plans()? else {
        return Ok(None);
    };
    let mut texts = texts(reader)?;
    let wanted = |found: Fingerprint| fingerprint.is_none_or(|wanted| wanted == found);
    let facts = facts.into_iter().filter(|fact| wanted(fact.fingerprint));
    let mut plans: Vec<RecordedPlan> = facts
        .map(|fact| RecordedPlan {
            fingerprint: fact.fingerprint,
            sql: texts.remove(&fact.fingerprint),
            calls: fact.calls,
            service_ns: fact.service_ns,
            plan: PlanSide::of(Some(&fact), Literals::Hidden),
        })
        .collect();
    plans.sort_by_key(|plan| std::cmp::Reverse(plan.service_ns));
    Ok(Some(plans))
}

fn texts(reader: &RunReader) -> Result<BTreeMap<Fingerprint, String>, Failure> {
    let mut texts = BTreeMap::new();
    for text in reader.statements()? {
        let StatementText {
            fingerprint, sql, ..
        } = text?;
        texts.insert(fingerprint, sql);
    }
    Ok(texts)
}

fn unknown(fingerprint: Fingerprint) -> Failure {
    Failure::usage(format!(
        "no statement has the fingerprint {fingerprint} here; inspect the artefact for the fingerprints of its statements"
    ))
}

/// Counts the executions of one statement.
struct ExecutionCounter {
    counted: RunStatement,
    service: Histogram,
    response: Histogram,
}

impl ExecutionCounter {
    fn new(fingerprint: Fingerprint) -> Self {
        ExecutionCounter {
            counted: RunStatement {
                executions: 0,
                executions_without_fingerprint: 0,
                fingerprint,
                sql: None,
                calls: 0,
                done: 0,
                failed: BTreeMap::new(),
                skipped: 0,
                failed_in_capture: 0,
                rows: 0,
                service: None,
                response: None,
            },
            service: Histogram::new(),
            response: Histogram::new(),
        }
    }

    fn add(&mut self, execution: &Execution) {
        use StatementKind::{Cancel, Connect, Disconnect};
        if matches!(execution.kind, Connect | Cancel | Disconnect) {
            return;
        }
        let counted = &mut self.counted;
        counted.executions += 1;
        let Some(fingerprint) = execution.fingerprint else {
            counted.executions_without_fingerprint += 1;
            return;
        };
        if fingerprint != counted.fingerprint {
            return;
        }
        counted.calls += 1;
        counted.rows += execution.rows;
        counted.failed_in_capture += u64::from(execution.captured.sqlstate.is_some());
        match execution.outcome {
            Outcome::Done => {
                counted.done += 1;
                let record = |histogram: &mut Histogram, time_ns: Option<i64>| {
                    if let Some(time_ns) = time_ns {
                        histogram.record(u64::try_from(time_ns).unwrap_or(0));
                    }
                };
                record(&mut self.service, execution.service_ns());
                record(&mut self.response, execution.response_ns());
            }
            Outcome::Failed(sqlstate) => *counted.failed.entry(sqlstate).or_default() += 1,
            Outcome::Skipped(_) => counted.skipped += 1,
        }
    }

    fn finish(self, sql: Option<String>) -> RunStatement {
        RunStatement {
            sql,
            service: self.service.latency_summary(),
            response: self.response.latency_summary(),
            ..self.counted
        }
    }
}
