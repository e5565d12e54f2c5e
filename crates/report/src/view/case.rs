//! JSON document on a case of the lab: what was published, and what was measured here.

use schemars::JsonSchema;
use serde::Serialize;

/// A case of the lab: `rehearse lab NAME --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct CaseReport {
    /// `rehearse/lab/1`
    pub schema: &'static str,
    /// Name of the case.
    pub name: &'static str,
    /// One line on what it shows.
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
    /// The cause that everyone suspected.
    pub hypothesis: String,
    /// Steps that were done here, in order.
    pub done: Vec<String>,
    /// What was measured, in sentences.
    pub measured: Vec<String>,
    /// What cured it.
    pub cure: String,
    /// Effects that had to be seen.
    pub checks: Vec<CaseCheck>,
    /// Published numbers with those measured here.
    pub numbers: Vec<CaseNumber>,
    /// Charts.
    pub charts: Vec<CaseChart>,
    /// Flame graphs.
    pub flames: Vec<CaseFlame>,
    /// What could not be looked at here, with the reasons.
    pub unseen: Vec<String>,
    /// Files that were left.
    pub files: Vec<CaseFile>,
}

/// An effect that had to be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseCheck {
    /// The effect.
    pub what: String,
    /// Whether it was seen.
    pub holds: bool,
    /// The numbers, in words.
    pub measured: String,
}

/// A published number and the one measured here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseNumber {
    /// Name of the number.
    pub what: String,
    /// The published number; `null` if there is none.
    pub published: Option<String>,
    /// The number measured here.
    pub measured: String,
    /// The reason why the two differ.
    pub why: String,
}

/// A chart: values over seconds, or over levels of something.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CaseChart {
    /// Its title.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Text for those who do not see it.
    pub alt_text: String,
    /// Name of the levels on the x axis, at equal distances; `null` if the x axis is time.
    pub x_categories: Option<String>,
    /// Values are microseconds, on a logarithmic axis.
    pub durations: bool,
    /// Its lines.
    pub lines: Vec<CaseLine>,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CaseLine {
    /// Its name.
    pub name: String,
    /// Seconds from the start, or the level, and the value.
    pub points: Vec<(f64, f64)>,
}

/// A flame graph that was left as a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseFlame {
    /// Its title.
    pub title: String,
    /// Name of the file in the folder.
    pub file: String,
    /// Text for those who do not see it.
    pub alt_text: String,
}

/// A file that was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseFile {
    /// Its name in the folder.
    pub name: String,
    /// Its contents.
    pub what: String,
}

impl CaseReport {
    /// Returns whether every effect was seen that had to be.
    pub fn is_shown(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }
}
