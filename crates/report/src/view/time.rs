//! Where the time of a run went.

use std::collections::BTreeMap;

use analyse::time_model::{Known, Part, TimeModel, TimeOf, TimeRemark, What};
use schemars::JsonSchema;
use serde::Serialize;
use workload::{Fingerprint, StatementText};

use crate::view::processor::{PlanningShareView, ProcessorView};

/// The statements that are shown one by one.
const STATEMENTS_MAX: usize = 200;

/// The response times of all statements (due → done), split without a rest.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct TimeView {
    /// All statements together.
    pub whole: TimeOfView,
    /// Those with the longest service time, at most 200.
    pub statements: Vec<TimeOfView>,
    /// How many there are.
    pub statements_count: u64,
    /// Time of backends with statements that are none of the run's, in microseconds.
    pub others_us: f64,
    /// Time of backends that hid what they did, in microseconds.
    pub hidden_us: f64,
    /// What is to be known about it.
    pub remarks: Vec<TimeRemarkView>,
    /// Planning's share of planning and execution; `null` where nobody looked.
    pub planning: Option<PlanningShareView>,
    /// The second account: the server's processor time, split likewise; `null` where neither stacks were taken
    /// nor the kernel asked.
    pub processor: Option<ProcessorView>,
}

/// The time of one statement, or of all.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct TimeOfView {
    /// The statement; `null` for all.
    pub fingerprint: Option<String>,
    /// Its normalised SQL; `null` for all.
    pub sql: Option<String>,
    /// How often it was sent.
    pub calls: u64,
    /// The sum of the parts, in microseconds.
    pub response_us: f64,
    /// Sent → done: the sum of the parts that are no lag, in microseconds.
    pub service_us: f64,
    /// The parts.
    pub parts: Vec<TimePartView>,
}

/// A part of it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct TimePartView {
    /// `tool_lag`, `session_lag`, `way` (sent, and not found in the server), `planning`,
    /// `processor`, `wait`, `execution` (nobody looked into it) or `unlooked`.
    pub what: &'static str,
    /// The phase of `processor`, or the wait (`Lock transactionid`).
    pub of: Option<String>,
    /// How long, in microseconds.
    pub us: f64,
    /// Of the response time, from 0 to 1.
    pub share: f64,
    /// `measured`, `sampled`, or `inferred` from what the others leave.
    pub known: &'static str,
    /// The relative error of what was sampled, at 95 %: 0.1 is ± 10 %.
    pub error: Option<f64>,
}

/// What is to be known about it.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "remark", rename_all = "snake_case")]
#[allow(missing_docs)] // as in the analysis
pub enum TimeRemarkView {
    NotSampled,
    PlanningUnknown,
    /// Samples found this many times what clients saw, and were scaled down.
    MoreThanSeen {
        factor: f64,
    },
    /// Of the service time: nobody sampled the server meanwhile.
    Unwatched {
        share: f64,
    },
    /// Of the samples that were due.
    SamplesMissed {
        share: f64,
    },
    /// The server counted this many times the run's calls.
    OthersCalls {
        factor: f64,
    },
}

impl TimeView {
    /// Of a model, with the statements' texts.
    pub fn new(model: &TimeModel, texts: &BTreeMap<Fingerprint, StatementText>) -> Self {
        let shown = model.statements.iter().take(STATEMENTS_MAX);
        Self {
            whole: TimeOfView::new(&model.whole, texts),
            statements: shown.map(|one| TimeOfView::new(one, texts)).collect(),
            statements_count: model.statements.len() as u64,
            others_us: model.others_ns / 1e3,
            hidden_us: model.hidden_ns / 1e3,
            remarks: model.remarks.iter().map(TimeRemarkView::from).collect(),
            planning: None,
            processor: None,
        }
    }
}

impl TimeOfView {
    fn new(time: &TimeOf, texts: &BTreeMap<Fingerprint, StatementText>) -> Self {
        let text = time.fingerprint.and_then(|one| texts.get(&one));
        Self {
            fingerprint: time.fingerprint.map(|one| one.to_string()),
            sql: text.map(|text| text.sql.clone()),
            calls: time.calls,
            response_us: time.response_ns / 1e3,
            service_us: time.service_ns / 1e3,
            parts: time
                .parts
                .iter()
                .map(|part| TimePartView::new(part, time.response_ns))
                .collect(),
        }
    }
}

impl TimePartView {
    fn new(part: &Part, whole_ns: f64) -> Self {
        let (what, of) = match &part.what {
            What::ToolLag => ("tool_lag", None),
            What::SessionLag => ("session_lag", None),
            What::Way => ("way", None),
            What::Planning => ("planning", None),
            What::Processor(phase) => ("processor", phase.clone()),
            What::Wait { kind, event } => ("wait", Some(format!("{kind} {event}"))),
            What::Execution => ("execution", None),
            What::Unlooked => ("unlooked", None),
        };
        Self {
            what,
            of,
            us: part.ns / 1e3,
            share: if whole_ns > 0.0 {
                part.ns / whole_ns
            } else {
                0.0
            },
            known: part.known.name(),
            error: Known::error(part.known),
        }
    }
}

impl From<&TimeRemark> for TimeRemarkView {
    fn from(remark: &TimeRemark) -> Self {
        match *remark {
            TimeRemark::NotSampled => TimeRemarkView::NotSampled,
            TimeRemark::PlanningUnknown => TimeRemarkView::PlanningUnknown,
            TimeRemark::MoreThanSeen { factor } => TimeRemarkView::MoreThanSeen { factor },
            TimeRemark::Unwatched { share } => TimeRemarkView::Unwatched { share },
            TimeRemark::SamplesMissed { share } => TimeRemarkView::SamplesMissed { share },
            TimeRemark::OthersCalls { factor } => TimeRemarkView::OthersCalls { factor },
        }
    }
}
