//! JSON document on a lab case: published facts, and measurements.

use schemars::JsonSchema;
use serde::Serialize;

/// Lab case: `rehearse lab NAME --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct CaseReport {
    /// `rehearse/lab/1`
    pub schema: &'static str,
    /// Name of the case.
    pub name: &'static str,
    /// Summary of the case in one line.
    pub title: &'static str,
    /// Title of the publication.
    pub source: &'static str,
    /// `small` or `full`.
    pub scale: &'static str,
    /// Version of the server.
    pub server_version: String,
    /// Number of processors of this machine.
    pub processors: usize,
    /// The published system and its trouble.
    pub context: String,
    /// Cause that was generally suspected.
    pub hypothesis: String,
    /// Steps that were carried out, in order.
    pub done: Vec<String>,
    /// Measurements, in sentences.
    pub measured: Vec<String>,
    /// Cure.
    pub cure: String,
    /// Expected effects.
    pub checks: Vec<CaseCheck>,
    /// Published numbers with those measured here.
    pub numbers: Vec<CaseNumber>,
    /// Charts.
    pub charts: Vec<CaseChart>,
    /// Flame graphs.
    pub flames: Vec<CaseFlame>,
    /// Observations that were not possible here, with the reasons.
    pub unseen: Vec<String>,
    /// Files that were written.
    pub files: Vec<CaseFile>,
}

/// Expected effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseCheck {
    /// Description of the effect.
    pub what: String,
    /// Whether it was observed.
    pub holds: bool,
    /// Measured numbers, in words.
    pub measured: String,
}

/// Published number and the measured one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseNumber {
    /// Name of the number.
    pub what: String,
    /// The published number; `null` if there is none.
    pub published: Option<String>,
    /// Measured number.
    pub measured: String,
    /// Reason for the difference.
    pub why: String,
}

/// Chart of values over seconds, or over levels.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct CaseChart {
    /// Its title.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Alternative text.
    pub alt_text: String,
    /// Name of the levels on the x axis, at equal distances; `null` if the x axis is time.
    pub x_categories: Option<String>,
    /// Whether values are microseconds on a logarithmic axis.
    pub durations: bool,
    /// Lines of the chart.
    pub lines: Vec<CaseLine>,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CaseLine {
    /// Its name.
    pub name: String,
    /// Points: seconds from the start or the index of the level, and the value.
    pub points: Vec<(f64, f64)>,
}

/// Flame graph that was written to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseFlame {
    /// Its title.
    pub title: String,
    /// Name of the file in the directory.
    pub file: String,
    /// Alternative text.
    pub alt_text: String,
}

/// File that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseFile {
    /// Name in the directory.
    pub name: String,
    /// Description of its contents.
    pub what: String,
}

impl CaseReport {
    /// Whether every expected effect was observed.
    pub fn is_shown(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }
}
