//! Report of a proof: a verdict for each change, other changes, and every run.

use std::collections::BTreeMap;

use compare::proof::{Effect, Goal, Verdict, WorkSupport};
use compare::{ErrorChange, StatementComparison, Warning};
use schemars::JsonSchema;
use serde::Serialize;
use statistics::Unit;

use super::{GoalNoise, ProofRecord};
use crate::screened_candidate::ScreenedCandidate;

/// Reason why a proof ended.
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
pub struct ProofReport {
    /// `rehearse/proof/2`.
    #[schemars(extend("const" = "rehearse/proof/2"))]
    pub schema: &'static str,
    /// Directory, as the user named it.
    pub name: String,
    /// Name of the workload.
    pub workload: String,
    /// Number of its statements.
    pub statements: u64,
    /// Location: a sandbox or an address.
    pub place: String,
    /// Start time, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// Seed of the order of runs.
    pub seed: u64,
    /// Goal: the number that was to improve.
    pub goal: Goal,
    /// Differences up to this share are ignored: 0.05 is from 1/1.05 to 1.05.
    pub margin: f64,
    /// Time budget, in seconds.
    pub within_s: f64,
    /// Time that its runs took, including restoring, in seconds.
    pub took_s: f64,
    /// Runs without changes before the first block.
    pub noise_runs: u32,
    /// Noise between these runs: the standard deviation of the goal's logarithm, so that 0.05 is
    /// about 5 %.
    pub noise: Option<f64>,
    /// Noise of every goal between these runs, the least first.
    pub goal_noise: Vec<GoalNoise>,
    /// Smallest change that all blocks together can show at this noise: the ratio less 1.
    pub shows: Option<f64>,
    /// Maximum number of blocks, fixed before the first; 0 if it was not fixed.
    pub blocks_planned: u32,
    /// Reason why it ended.
    pub ended: ProofEnd,
    /// Each change separately, and all of them combined.
    pub sides: Vec<ProofSideReport>,
    /// Every run, in order. `side` is 0 for the runs without changes, else an index into `sides`,
    /// from 1.
    pub runs: Vec<ProofRecord>,
    /// Candidate indexes that the planner evaluated before, if the changes are some of these
    /// (`rehearse indexes`), by descending expectation.
    pub candidates: Vec<ScreenedCandidate>,
    /// Options that apply to every run.
    pub options: BTreeMap<String, String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Change, or all changes combined.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProofSideReport {
    /// Name.
    pub name: String,
    /// Descriptions of the changes.
    pub changes: Vec<String>,
    /// Verdict on the goal.
    pub verdict: Verdict,
    /// The goal after / before, at the last interim analysis.
    pub effect: Option<Effect>,
    /// All interim analyses, in order.
    pub interim_analyses: Vec<InterimAnalysis>,
    /// Number of completed blocks; with the incomplete one in which the change was found to be harmful.
    pub blocks: u32,
    /// Whether it was so harmful that it had no further runs.
    pub is_harmful: bool,
    /// Numbers of whole runs, including the goal. Their intervals cover all blocks, for one look.
    pub numbers: Vec<ProofNumber>,
    /// Whether something got worse: a statement, an error, or the goal.
    pub worse: bool,
    /// Statements that got noticeably slower, by descending cost.
    pub slower: Vec<StatementComparison>,
    /// Statements that look noticeably slower, but for which chance could not be ruled out.
    pub suspected: Vec<StatementComparison>,
    /// Statements that got faster, by descending saving.
    pub faster: Vec<StatementComparison>,
    /// Number of other statements that are on both sides.
    pub others: u64,
    /// Number of statements on one side only, which cannot be compared.
    pub one_sided: u64,
    /// Errors that changed; regressions first.
    pub errors: Vec<ErrorChange>,
    /// Number of statements whose rows differ between the sides but not within one.
    pub other_rows: u64,
    /// Reasons to read the comparison of statements with care.
    pub warnings: Vec<Warning>,
    /// Tables and indexes that exist on one side only, or whose size after the runs differs by 10 %
    /// or more.
    pub sizes: Vec<SizeChange>,
    /// Effects of the workload's rewriting, and the comparisons that it prevents, in sentences.
    pub rewritten: Vec<String>,
    /// File of the full comparison, in the proof's directory.
    pub page: Option<String>,
}

/// Interim or final analysis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct InterimAnalysis {
    /// The effect on the goal.
    #[serde(flatten)]
    pub effect: Effect,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether counters of work support the effect.
    pub support: WorkSupport,
}

/// Direction in which a number changed beyond the margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Movement {
    /// It improved.
    Better,
    /// It got worse.
    Worse,
}

/// Number of whole runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProofNumber {
    /// `total`, `p50`, `p99`, `cpu`, `wal`, `throughput`, `reads` and `writes` (service times of
    /// read-only statements, and of those that write rows), `blocks` (of tables and indexes, from
    /// memory or not), `hot` (the share of HOT updates), `indexes` or `tables` (their sizes).
    pub name: &'static str,
    /// Name in words.
    pub label: &'static str,
    /// Unit of `before` and `after`.
    pub unit: Unit,
    /// Whether a greater number is better.
    pub more_is_better: bool,
    /// Geometric mean of the runs without the change; for shares the arithmetic mean.
    pub before: f64,
    /// The same with the change.
    pub after: f64,
    /// Ratio after / before; `null` for sizes, and for fewer than two blocks.
    pub effect: Option<Effect>,
    /// Direction, if the whole interval is beyond the margin.
    pub moved: Option<Movement>,
}

/// Size of a table or index after the last run of each side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeChange {
    /// Name, including the schema if it is not on the search path.
    pub name: String,
    /// Whether it is an index.
    pub is_index: bool,
    /// Bytes without the change; `null` if it did not exist.
    pub before_bytes: Option<u64>,
    /// Bytes with the change.
    pub after_bytes: Option<u64>,
}
