//! A case of the lab: what was published, and what was measured here.

use schemars::JsonSchema;
use serde::Serialize;

/// `rehearse lab NAME --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CaseView {
    /// `rehearse/lab/1`
    pub schema: &'static str,
    /// The case's name.
    pub name: String,
    /// What it shows, in a line.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// `small` or `full`.
    pub scale: &'static str,
    /// The server's version.
    pub server_version: String,
    /// How many processors this machine has.
    pub processors: usize,
    /// What they had.
    pub had: String,
    /// What everyone believed.
    pub believed: String,
    /// What was done here, step by step.
    pub done: Vec<String>,
    /// What follows from what was measured.
    pub measured: Vec<String>,
    /// What cured it.
    pub cure: String,
    /// What had to be seen, and whether it was.
    pub checks: Vec<CaseCheckView>,
    /// The published numbers beside ours.
    pub numbers: Vec<CaseNumberView>,
    /// Pictures.
    pub charts: Vec<CaseChartView>,
    /// Flame graphs.
    pub flames: Vec<CaseFlameView>,
    /// What could not be looked at here, and why.
    pub unseen: Vec<String>,
    /// What was left, and what it is.
    pub files: Vec<CaseFileView>,
}

/// Something that had to be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseCheckView {
    /// What.
    pub what: String,
    /// Whether it was.
    pub holds: bool,
    /// The numbers, in words.
    pub measured: String,
}

/// A published number beside ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseNumberView {
    /// Of what.
    pub what: String,
    /// As published; `null` where it was not.
    pub published: Option<String>,
    /// As measured here.
    pub here: String,
    /// Why the two differ.
    pub why: String,
}

/// A picture: values over seconds, or over levels of something.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CaseChartView {
    /// What it shows.
    pub title: String,
    /// Of what the values are, with their unit.
    pub unit: String,
    /// What it says to those who do not see it.
    pub spoken: String,
    /// What lies across, where that is not time: its levels, one as far from the next as any other.
    pub across: Option<String>,
    /// Values are microseconds, and equal heights equal ratios.
    pub durations: bool,
    /// Lines, each with its name.
    pub lines: Vec<CaseLineView>,
}

/// A line of a picture.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CaseLineView {
    /// What it is.
    pub name: String,
    /// Seconds from the start, or the level, and the value there.
    pub points: Vec<(f64, f64)>,
}

/// A flame graph that was left as a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseFlameView {
    /// What it shows.
    pub title: String,
    /// The file's name in the folder.
    pub file: String,
    /// What is to be seen in it.
    pub spoken: String,
}

/// A file that was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseFileView {
    /// Its name in the folder.
    pub name: String,
    /// What it is.
    pub what: String,
}

impl CaseView {
    /// Whether all was seen that had to be.
    pub fn is_shown(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }
}
