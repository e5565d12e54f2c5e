//! JSON document on a proof: a verdict for each change, what else moved, and every run.

use std::collections::BTreeMap;

use compare::proof::{Effect, Goal, Verdict};
use compare::{ErrorChange, StatementComparison, Warning};
use schemars::JsonSchema;
use serde::Serialize;
use statistics::Unit;
use study::proof::ProofRecord;

use crate::view::candidate::IndexCandidateView;

/// The way in which a proof ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProofEnd {
    /// Every verdict is clear.
    Clear,
    /// All blocks were done.
    AllBlocks,
    /// The time was over.
    TimeOver,
    /// It was stopped.
    Stopped,
}

/// A proof.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProofView {
    /// `rehearse/proof/2`.
    #[schemars(extend("const" = "rehearse/proof/2"))]
    pub schema: &'static str,
    /// The directory, as the user named it.
    pub name: String,
    /// The workload.
    pub workload: String,
    /// Its statements.
    pub statements: u64,
    /// Where: a sandbox or an address.
    pub place: String,
    /// When it was begun, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// What the order was made of.
    pub seed: u64,
    /// The number that was to get better.
    pub goal: Goal,
    /// Differences up to this share count as none: 0.05 is from 1/1.05 to 1.05.
    pub margin: f64,
    /// How long it was given, in seconds.
    pub within_s: f64,
    /// How long its runs took, with restoring, in seconds.
    pub took_s: f64,
    /// Runs of the unchanged before the first block.
    pub noise_runs: u32,
    /// By which these differ: the standard deviation of the goal's logarithm, so that 0.05 is about 5 %.
    pub noise: Option<f64>,
    /// With such noise, all blocks together can show differences from about this share on.
    pub shows: Option<f64>,
    /// The most blocks that were to be done, decided before the first; 0 where it did not come so far.
    pub blocks_planned: u32,
    /// The way in which it ended.
    pub ended: ProofEnd,
    /// Each change by itself, and all of them together.
    pub sides: Vec<ProofSideView>,
    /// Every run, in the order in which it was done. `side` is 0 for the unchanged, else a place in `sides`, from 1.
    pub runs: Vec<ProofRecord>,
    /// Indexes that the planner was asked of before, where the changes are some of these (`rehearse indexes`); what is
    /// expected the most of first.
    pub candidates: Vec<IndexCandidateView>,
    /// What shaped every run, by option.
    pub options: BTreeMap<String, String>,
    /// What has to be known to read all this.
    pub notes: Vec<String>,
}

/// A change, or all of them together.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProofSideView {
    /// What it is called.
    pub name: String,
    /// What is changed.
    pub changes: Vec<String>,
    /// Verdict on the goal.
    pub verdict: Verdict,
    /// The goal after / before, at the last interim analysis.
    pub effect: Option<Effect>,
    /// All interim analyses, in order.
    pub interim_analyses: Vec<InterimAnalysis>,
    /// Blocks that were done of it.
    pub blocks: u32,
    /// All that is measured of whole runs, the goal among them. Their intervals are of all blocks, for one look.
    pub numbers: Vec<ProofNumber>,
    /// Something got worse: a statement, an error, or the goal.
    pub worse: bool,
    /// Statements that got slower, noticeably; what costs most first.
    pub slower: Vec<StatementComparison>,
    /// Statements that look noticeably slower, where chance could not be ruled out.
    pub suspected: Vec<StatementComparison>,
    /// Statements that got faster; what saves most first.
    pub faster: Vec<StatementComparison>,
    /// Statements that were on both sides and are none of these.
    pub others: u64,
    /// Statements on one side only: there is nothing to compare them with.
    pub one_sided: u64,
    /// Errors that changed; those that got worse first.
    pub errors: Vec<ErrorChange>,
    /// Statements with other rows than before that do not differ by themselves.
    pub other_rows: u64,
    /// Reasons to read the comparison of statements with care.
    pub warnings: Vec<Warning>,
    /// Tables and indexes of which there was one side only, or whose size differs by a tenth and more behind the runs.
    pub sizes: Vec<SizeChange>,
    /// What the workload's rewriting did, and what it takes from comparing; sentences.
    pub rewritten: Vec<String>,
    /// The file with the whole comparison, in the proof's directory.
    pub page: Option<String>,
}

/// An analysis before all blocks were done, or of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct InterimAnalysis {
    /// The effect on the goal.
    #[serde(flatten)]
    pub effect: Effect,
    /// The verdict.
    pub verdict: Verdict,
}

/// Direction in which a number moved beyond the margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Movement {
    /// To the better.
    Better,
    /// To the worse.
    Worse,
}

/// A number of whole runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProofNumber {
    /// `total`, `p50`, `p99`, `cpu`, `wal`, `throughput`, `reads` and `writes` (service times of what only reads, and of
    /// what writes rows), `blocks` (of tables and indexes, read from memory or not), `hot` (the share of updates that
    /// left all indexes alone), `indexes` or `tables` (their sizes).
    pub name: &'static str,
    /// The name in words.
    pub label: &'static str,
    /// Unit of `before` and `after`.
    pub unit: Unit,
    /// A greater number is a better one.
    pub more_is_better: bool,
    /// Geometric mean of the runs without the change; of shares the mean.
    pub before: f64,
    /// The same with the change.
    pub after: f64,
    /// After / before; `null` of sizes, and of fewer than two blocks.
    pub effect: Option<Effect>,
    /// Direction, if the interval lies wholly beyond the margin.
    pub moved: Option<Movement>,
}

/// How large a table or index was behind the last run of each side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeChange {
    /// With its schema, where that is not on the search path.
    pub name: String,
    /// It is an index.
    pub is_index: bool,
    /// Without the change, in bytes; `null` where it was not there.
    pub before_bytes: Option<u64>,
    /// With it.
    pub after_bytes: Option<u64>,
}
