//! Results of a shadow comparison.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

/// Options of a shadow comparison.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShadowOptions {
    /// Length of a window, in nanoseconds.
    pub window_ns: i64,
    /// Relative slowdown that is no difference: 0.2 is 20 %.
    pub tolerance: f64,
    /// Time that is no difference in addition, in nanoseconds: a captured duration may exclude the network.
    pub allowance_ns: u64,
    /// Time in which a statement's reference is measured, in nanoseconds: that of compared windows, from the first one in which
    /// the statement is executed. Without one, the reference is the captured time.
    pub baseline_ns: Option<i64>,
    /// Greatest probability of any false finding in the whole comparison.
    pub error_rate: f64,
}

impl Default for ShadowOptions {
    fn default() -> Self {
        ShadowOptions {
            window_ns: 10_000_000_000,
            tolerance: 0.2,
            allowance_ns: 1_000_000,
            baseline_ns: None,
            error_rate: 0.05,
        }
    }
}

/// Quantity of a statement that is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShadowMeasure {
    /// Time: the replayed median exceeds the reference.
    Slower,
    /// Errors: more executions fail only in the replay than only in the capture.
    Errors,
    /// Rows: more executions return or affect fewer rows than captured than more rows.
    FewerRows,
    /// Rows: the reverse.
    MoreRows,
}

impl ShadowMeasure {
    /// All measures.
    pub const ALL: [ShadowMeasure; 4] = [
        ShadowMeasure::Slower,
        ShadowMeasure::Errors,
        ShadowMeasure::FewerRows,
        ShadowMeasure::MoreRows,
    ];

    /// Returns its name in conditions, metrics and JSON.
    pub fn name(self) -> &'static str {
        match self {
            ShadowMeasure::Slower => "slower",
            ShadowMeasure::Errors => "errors",
            ShadowMeasure::FewerRows => "fewer_rows",
            ShadowMeasure::MoreRows => "more_rows",
        }
    }

    /// Returns the measure of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.name() == name)
    }
}

/// Verdict on one measure of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum ShadowVerdict {
    /// No difference is proven.
    None,
    /// A difference is proven, and was in most of the last windows.
    Present {
        /// Begin of the difference, in nanoseconds from the replay's start: an estimate.
        since_ns: i64,
        /// Time at which it was proven.
        found_ns: i64,
    },
    /// A difference is proven, and was not in most of the last windows.
    Past {
        /// Begin of the difference.
        since_ns: i64,
        /// Time at which it was proven.
        found_ns: i64,
        /// Time at which it was over.
        until_ns: i64,
    },
    /// A difference was proven, was over, and was in each of the last windows again. The return is no proof: no test began
    /// anew.
    Returned {
        /// Begin of the difference that was proven.
        since_ns: i64,
        /// Time at which it was proven.
        found_ns: i64,
        /// Time at which it had returned.
        returned_ns: i64,
    },
}

impl ShadowVerdict {
    /// Whether a difference is proven, at any time.
    pub fn is_finding(self) -> bool {
        self != ShadowVerdict::None
    }

    /// Whether a difference that was proven is present, without interruption or again.
    pub fn is_present(self) -> bool {
        matches!(
            self,
            ShadowVerdict::Present { .. } | ShadowVerdict::Returned { .. }
        )
    }

    /// Whether a change to this verdict is a proof, with the error rate of the comparison. That a difference is over, or has
    /// returned, is read from the last windows.
    pub fn is_proof(self) -> bool {
        matches!(self, ShadowVerdict::Present { .. })
    }
}

/// State of the test of one measure of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShadowTest {
    /// Measure.
    pub measure: ShadowMeasure,
    /// Verdict.
    #[serde(flatten)]
    pub verdict: ShadowVerdict,
    /// Number of windows that were tested.
    pub windows: u64,
    /// Number of these with the difference.
    pub windows_with_difference: u64,
    /// Evidence: the e-value, which is at least `threshold` with a small probability only if there is no difference.
    pub e_value: f64,
    /// E-value at which the difference is proven.
    pub threshold: f64,
}

/// Statement of a shadow comparison.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShadowStatement {
    /// Fingerprint.
    pub fingerprint: Fingerprint,
    /// Normalised text; empty if it is not known.
    pub sql: String,
    /// Number of executions in windows that were compared, with their times on both sides.
    pub calls: u64,
    /// Median captured duration in the last window with executions, in nanoseconds.
    pub captured_ns: u64,
    /// Median replayed service time in that window, in nanoseconds.
    pub replayed_ns: u64,
    /// Median of the windows' ratios, replayed to captured, of the last 30 windows at most.
    pub ratio: f64,
    /// Ratio of the baseline; `null` if none is asked for or it is still measured.
    pub reference: Option<f64>,
    /// Whether the baseline is still measured, so that times are not tested.
    pub in_baseline: bool,
    /// Number of executions that failed in the replay only.
    pub new_errors: u64,
    /// Number of executions that failed in the capture only.
    pub vanished_errors: u64,
    /// Number of executions with another number of rows.
    pub other_rows: u64,
    /// Tests that have had a window, in the order of measures.
    pub tests: Vec<ShadowTest>,
}

impl ShadowStatement {
    /// Whether any difference is proven.
    pub fn is_finding(&self) -> bool {
        self.tests.iter().any(|test| test.verdict.is_finding())
    }
}

/// Reason why a window is not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowExclusion {
    /// Connections were lost or refused.
    Outage,
    /// It follows an outage, after which caches are cold.
    Settling,
    /// The replay lagged: it skipped statements, or the tool was stopped or starved.
    Lag,
    /// Nothing was executed.
    Empty,
}

impl WindowExclusion {
    /// Returns the name in metrics and JSON.
    pub fn name(self) -> &'static str {
        match self {
            WindowExclusion::Outage => "outage",
            WindowExclusion::Settling => "settling",
            WindowExclusion::Lag => "lag",
            WindowExclusion::Empty => "empty",
        }
    }

    /// Returns the reason in words.
    pub fn explanation(self) -> &'static str {
        match self {
            WindowExclusion::Outage => "with lost or refused connections",
            WindowExclusion::Settling => "after these",
            WindowExclusion::Lag => "in which the replay lagged",
            WindowExclusion::Empty => "without statements",
        }
    }
}

/// Time range with outages of the candidate or skipped statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShadowGap {
    /// Begin, in nanoseconds from the replay's start.
    pub from_ns: i64,
    /// End.
    pub until_ns: i64,
    /// Number of statements that were not replayed.
    pub not_replayed: u64,
    /// Number of connections that were lost.
    pub connections_lost: u64,
}

/// Result of a shadow comparison so far.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShadowReport {
    /// Options.
    pub options: ShadowOptions,
    /// Time up to which executions were read, in nanoseconds from the replay's start.
    pub until_ns: i64,
    /// Number of windows that were compared.
    pub windows: u64,
    /// Numbers of windows that were not compared, by reason.
    pub windows_excluded: BTreeMap<WindowExclusion, u64>,
    /// Number of statements that were replayed.
    pub replayed: u64,
    /// Numbers of statements that were not replayed, by reason.
    pub not_replayed: BTreeMap<&'static str, u64>,
    /// Number of replayed statements without a captured duration, whose times are not compared.
    pub without_duration: u64,
    /// Number of replayed statements that are not compared, since they failed only because the replay was read-only: writes
    /// that the server refused, what the role of `--read-only-role` lacks the right for, and what failed after them.
    pub refused_read_only: u64,
    /// Number of replayed statements whose other number of rows is not compared, since they name a table that refused
    /// statements would have written.
    pub rows_after_refusals: u64,
    /// The last gaps, at most 100.
    pub gaps: Vec<ShadowGap>,
    /// Number of gaps.
    pub gap_count: u64,
    /// Number of connections that were lost outside of outages. They exclude no window.
    pub connections_lost: u64,
    /// Number of tests that have begun.
    pub tests: u64,
    /// Statements: those with findings first, then by their total replayed time.
    pub statements: Vec<ShadowStatement>,
}

impl ShadowReport {
    /// Returns the number of statements with a proven difference of this measure, at any time.
    pub fn findings(&self, measure: ShadowMeasure) -> usize {
        self.findings_of(&[measure])
    }

    /// Returns the number of statements with a proven difference of one of these measures, at any time.
    pub fn findings_of(&self, measures: &[ShadowMeasure]) -> usize {
        self.count(|test| measures.contains(&test.measure) && test.verdict.is_finding())
    }

    /// Returns the number of statements with a proven difference of this measure that is present, or has returned.
    pub fn present(&self, measure: ShadowMeasure) -> usize {
        self.count(|test| test.measure == measure && test.verdict.is_present())
    }

    /// Whether more windows with statements were excluded than compared, so that a difference may be hidden.
    pub fn is_mostly_excluded(&self) -> bool {
        let with_statements = self.windows_excluded.iter();
        let with_statements = with_statements.filter(|(why, _)| **why != WindowExclusion::Empty);
        with_statements.map(|(_, number)| number).sum::<u64>() > self.windows
    }

    fn count(&self, applies: impl Fn(&ShadowTest) -> bool) -> usize {
        let with = |statement: &&ShadowStatement| statement.tests.iter().any(&applies);
        self.statements.iter().filter(with).count()
    }
}

/// Change of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShadowChange {
    /// Time of the end of the window that changed it, in nanoseconds from the replay's start.
    pub at_ns: i64,
    /// Measure.
    pub measure: ShadowMeasure,
    /// Whether this change is a proof, with the error rate of the comparison. Otherwise it is read from the last windows.
    pub is_proof: bool,
    /// Verdict.
    #[serde(flatten)]
    pub verdict: ShadowVerdict,
    /// Statement.
    pub statement: ShadowStatement,
}
