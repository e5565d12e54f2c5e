//! Where the server's processor time went.

use std::collections::BTreeMap;

use analyse::time_model::{
    ProcessorModel, ProcessorOf, ProcessorPart, ProcessorRemark, ProcessorWhat,
};
use schemars::JsonSchema;
use serde::Serialize;
use workload::{Fingerprint, StatementText};

/// The statements that are shown one by one.
const STATEMENTS_MAX: usize = 200;

/// The processor time of the server's processes, split without a rest.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ProcessorView {
    /// All of it: the sum of the parts, in microseconds.
    pub cpu_us: f64,
    /// `tasks`: as the kernel's counters of tasks counted it for the server's processes; `kernel`: as its scheduler did; `stacks`:
    /// as stacks stand for it.
    pub counted_by: &'static str,
    /// Stacks that were met.
    pub samples: u64,
    /// What stacks stand for, in microseconds; 0 where none were taken.
    pub sampled_us: f64,
    /// The parts, the largest first.
    pub parts: Vec<ProcessorPartView>,
    /// Statements, the most first, at most 200; of clients' sessions.
    pub statements: Vec<ProcessorStatementView>,
    /// How many there are.
    pub statements_count: u64,
    /// Of clients' sessions, what belongs to no statement that is known, in microseconds: between statements,
    /// beginning and ending sessions, workers, other clients.
    pub unassigned_us: f64,
    /// What is to be known about it.
    pub remarks: Vec<ProcessorRemarkView>,
}

/// A statement's.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ProcessorStatementView {
    /// Its fingerprint.
    pub fingerprint: String,
    /// Its normalised SQL, where it is known.
    pub sql: Option<String>,
    /// The sum of the parts, in microseconds.
    pub cpu_us: f64,
    /// The parts, the largest first.
    pub parts: Vec<ProcessorPartView>,
}

/// A part of it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ProcessorPartView {
    /// `client` (clients' sessions), `server` (a process of the server's own), `own` (our questions) or
    /// `not_met` (counted, and not met by what splits the rest).
    pub what: &'static str,
    /// The phase of `client`, or the kind of `server`.
    pub of: Option<String>,
    /// How long, in microseconds.
    pub us: f64,
    /// Of the sum, from 0 to 1.
    pub share: f64,
    /// `measured`, `sampled`, or `inferred`.
    pub known: &'static str,
    /// The relative error of what was sampled, at 95 %: 0.1 is ± 10 %.
    pub error: Option<f64>,
}

/// What is to be known about it.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "remark", rename_all = "snake_case")]
#[allow(missing_docs)] // as in the analysis
pub enum ProcessorRemarkView {
    NotCounted,
    NoStacks,
    /// Stacks stood for this many times what the kernel counted, and were scaled down.
    MoreThanCounted {
        factor: f64,
    },
    /// Stacks stood for this many times what the kernel counted, and were scaled up.
    FewerThanCounted {
        factor: f64,
    },
}

/// Planning's share of planning and execution, by two witnesses that know nothing of each other.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct PlanningShareView {
    /// Of the times that `pg_stat_statements` measured, from 0 to 1; `null` where planning is not tracked.
    pub by_statistics: Option<f64>,
    /// Of the stacks within the calls that it measures, from 0 to 1; `null` where none were taken.
    pub by_stacks: Option<f64>,
    /// The half width of the latter's 95 % interval.
    pub by_stacks_error: Option<f64>,
}

impl PlanningShareView {
    /// Of times of planning and execution, and of stacks in both. Nothing where neither is known.
    pub fn new(measured: Option<(f64, f64)>, stacks: (u64, u64)) -> Option<Self> {
        let share = |(planning, execution): (f64, f64)| {
            let both = planning + execution;
            (both > 0.0).then(|| planning / both)
        };
        let by_statistics = measured.and_then(share);
        let by_stacks = share((stacks.0 as f64, stacks.1 as f64));
        let all = (stacks.0 + stacks.1) as f64;
        // A binomial share's; at none or all of few, that of one more.
        let error = |share: f64| {
            let likely = (share * all + 1.0) / (all + 2.0);
            1.96 * (likely * (1.0 - likely) / all).sqrt()
        };
        (by_statistics.is_some() || by_stacks.is_some()).then(|| Self {
            by_statistics,
            by_stacks,
            by_stacks_error: by_stacks.map(error),
        })
    }
}

impl ProcessorView {
    /// Of a model, with the statements' texts.
    pub fn new(model: &ProcessorModel, texts: &BTreeMap<Fingerprint, StatementText>) -> Self {
        let statement = |one: &ProcessorOf| {
            let fingerprint = one.fingerprint?;
            Some(ProcessorStatementView {
                fingerprint: fingerprint.to_string(),
                sql: texts.get(&fingerprint).map(|text| text.sql.clone()),
                cpu_us: one.ns / 1e3,
                parts: parts(one),
            })
        };
        let shown = model.statements.iter().take(STATEMENTS_MAX);
        Self {
            cpu_us: model.whole.ns / 1e3,
            counted_by: match (model.counted, model.by_tasks) {
                (true, true) => "tasks",
                (true, false) => "kernel",
                (false, _) => "stacks",
            },
            samples: model.samples,
            sampled_us: model.sampled_ns / 1e3,
            parts: parts(&model.whole),
            statements: shown.filter_map(statement).collect(),
            statements_count: model.statements.len() as u64,
            unassigned_us: model.unassigned.ns / 1e3,
            remarks: model
                .remarks
                .iter()
                .map(|remark| match *remark {
                    ProcessorRemark::NotCounted => ProcessorRemarkView::NotCounted,
                    ProcessorRemark::NoStacks => ProcessorRemarkView::NoStacks,
                    ProcessorRemark::MoreThanCounted { factor } => {
                        ProcessorRemarkView::MoreThanCounted { factor }
                    }
                    ProcessorRemark::FewerThanCounted { factor } => {
                        ProcessorRemarkView::FewerThanCounted { factor }
                    }
                })
                .collect(),
        }
    }
}

fn parts(of: &ProcessorOf) -> Vec<ProcessorPartView> {
    let view = |part: &ProcessorPart| {
        let (what, name) = match &part.what {
            ProcessorWhat::Client(phase) => ("client", phase.clone()),
            ProcessorWhat::Server(kind) => ("server", Some(kind.clone())),
            ProcessorWhat::Own => ("own", None),
            ProcessorWhat::NotMet => ("not_met", None),
        };
        ProcessorPartView {
            what,
            of: name,
            us: part.ns / 1e3,
            share: part.ns / of.ns,
            known: part.known.name(),
            error: part.known.error(),
        }
    };
    of.parts.iter().map(view).collect()
}
