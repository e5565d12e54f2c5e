//! Samples of a profile, for files that other programs read.

use std::collections::BTreeMap;

use sql::Fingerprint;
use time_breakdown::waiting::{SampledTime, WaitKey, Waiting};
use workload::StatementText;

use super::waits::wait_frames;
use crate::text::line::one_line;

/// Maximum number of characters of a statement in a label.
const STATEMENT_MAX: usize = 300;

/// Samples of a run with their stacks.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportedProfile {
    /// Name.
    pub name: String,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Start of the recording, in microseconds since 1970-01-01 UTC; 0 if it is unknown.
    pub started_wall_us: i64,
    /// Duration of the recording, in nanoseconds.
    pub duration_ns: i64,
    /// Quantity of the samples.
    pub quantity: SampledQuantity,
    /// Time between two samples, in nanoseconds.
    pub period_ns: i64,
    /// Samples, grouped by stack and statement.
    pub stacks: Vec<ExportedStack>,
}

/// Quantity that samples measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampledQuantity {
    /// CPU time.
    Processor,
    /// Time of waiting.
    Wait,
}

/// Samples with one stack and one statement.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportedStack {
    /// Frames, the outermost first.
    pub frames: Vec<String>,
    /// Fingerprint and text of the statement; `None` if it is unknown.
    pub statement: Option<ExportedStatement>,
    /// Number of samples.
    pub samples: u64,
    /// Their time, in nanoseconds.
    pub ns: f64,
}

/// Statement of samples.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExportedStatement {
    /// Fingerprint.
    pub fingerprint: Fingerprint,
    /// Normalised text; empty if it is unknown.
    pub sql: String,
}

impl ExportedStatement {
    /// Creates a statement with its text on one line.
    pub fn new(fingerprint: Fingerprint, sql: Option<&str>) -> Self {
        ExportedStatement {
            fingerprint,
            sql: one_line(sql.unwrap_or_default(), STATEMENT_MAX),
        }
    }
}

impl ExportedStack {
    /// Splits a folded stack, whose frames are joined by `;`.
    pub fn of_folded(
        folded: &str,
        statement: Option<ExportedStatement>,
        (samples, ns): (u64, f64),
    ) -> Self {
        ExportedStack {
            frames: folded.split(';').map(str::to_owned).collect(),
            statement,
            samples,
            ns,
        }
    }
}

/// Returns waits as stacks of type, event and statement.
pub fn exported_waits(
    waiting: &Waiting,
    texts: &BTreeMap<Fingerprint, StatementText>,
) -> Vec<ExportedStack> {
    let stack = |(place, sampled): (&WaitKey, &SampledTime)| {
        let (frames, statement) = wait_frames(place, texts);
        let statement = statement.map(|fingerprint| {
            let text = texts.get(&fingerprint).map(|text| text.sql.as_str());
            ExportedStatement::new(fingerprint, text)
        });
        ExportedStack {
            frames: frames.to_vec(),
            statement,
            samples: sampled.samples,
            ns: sampled.ns,
        }
    };
    waiting.places.iter().map(stack).collect()
}
