//! What is shown of a proof: a verdict for each change, what else moved, and every run.

use std::collections::BTreeMap;

use analyse::proof::{Effect, Verdict};
use analyse::{ErrorChange, StatementComparison, Warning};
use schemars::JsonSchema;
use serde::Serialize;

use crate::view::candidate::IndexCandidateView;

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
    /// Which number was to get better: `total`, `p50`, `p99`, `cpu`, `wal` or `throughput`.
    pub goal: String,
    /// The same in words.
    pub goal_words: &'static str,
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
    /// How it ended: `clear` (each verdict), `all_blocks`, `time_over` or `stopped`.
    #[schemars(extend("enum" = ["clear", "all_blocks", "time_over", "stopped"]))]
    pub ended: &'static str,
    /// Each change by itself, and all of them together.
    pub sides: Vec<ProofSideView>,
    /// Every run, in the order in which it was done.
    pub runs: Vec<ProofRunView>,
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
    /// `won`, `lost`, `same` or `not proven`, of the goal.
    #[schemars(extend("enum" = ["won", "lost", "same", "not proven"]))]
    pub verdict: &'static str,
    /// The goal, after / before, at the last look.
    pub effect: Option<ProofEffectView>,
    /// Each look at it, the first first.
    pub looks: Vec<ProofEffectView>,
    /// Blocks that were done of it.
    pub blocks: u32,
    /// All that is measured of whole runs, the goal among them. Their intervals are of all blocks, for one look.
    pub numbers: Vec<ProofNumberView>,
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
    pub sizes: Vec<ProofSizeView>,
    /// What the workload's rewriting did, and what it takes from comparing; sentences.
    pub rewritten: Vec<String>,
    /// The file with the whole comparison, in the proof's directory.
    pub page: Option<String>,
}

/// After divided by before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ProofEffectView {
    /// The geometric mean of the ratios.
    pub ratio: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
    /// The chance that the interval does not hold the truth.
    pub error: f64,
    /// Blocks that it rests on.
    pub blocks: u32,
    /// What it says of the goal; of other numbers `null`.
    pub verdict: Option<&'static str>,
}

impl ProofEffectView {
    /// Of an effect, with its verdict where it is one of the goal.
    pub fn new(effect: &Effect, verdict: Option<Verdict>) -> Self {
        ProofEffectView {
            ratio: effect.ratio,
            low: effect.low,
            high: effect.high,
            error: effect.error,
            blocks: effect.blocks,
            verdict: verdict.map(Verdict::name),
        }
    }
}

/// A number of whole runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProofNumberView {
    /// `total`, `p50`, `p99`, `cpu`, `wal`, `throughput`, `reads` and `writes` (service times of what only reads, and of
    /// what writes rows), `blocks` (of tables and indexes, read from memory or not), `hot` (the share of updates that
    /// left all indexes alone), `indexes` or `tables` (their sizes).
    pub name: String,
    /// In words.
    pub words: String,
    /// `us`, `bytes`, `per_s`, `count`, or `share` (from 0 to 1).
    #[schemars(extend("enum" = ["us", "bytes", "per_s", "count", "share"]))]
    pub unit: &'static str,
    /// A greater number is a better one.
    pub more_is_better: bool,
    /// A run's, without the change: the geometric mean; of shares the mean.
    pub before: f64,
    /// With it.
    pub after: f64,
    /// After / before; `null` of sizes, and of less than two blocks.
    pub effect: Option<ProofEffectView>,
    /// `better` or `worse` where the interval lies wholly beyond the margin.
    pub moved: Option<&'static str>,
}

/// How large a table or index was behind the last run of each side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProofSizeView {
    /// With its schema, where that is not on the search path.
    pub name: String,
    /// It is an index.
    pub is_index: bool,
    /// Without the change, in bytes; `null` where it was not there.
    pub before_bytes: Option<u64>,
    /// With it.
    pub after_bytes: Option<u64>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProofRunView {
    /// Its place in the order; its run is `runs/NNNN.run`.
    pub number: u32,
    /// The block, from 1; 0 before the first.
    pub block: u32,
    /// The change's name; empty for the unchanged.
    pub side: String,
    /// When it began, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// How long it took with restoring, in seconds.
    pub took_s: f64,
    /// How long the replay was, in seconds.
    pub elapsed_s: f64,
    /// The goal's number; `null` where it was not measured.
    pub value: Option<f64>,
    /// Statements that the server did.
    pub done: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Statements that were not sent.
    pub skipped: u64,
    /// Our own delay of statements: 99 % had no more, in microseconds.
    pub tool_lag_p99_us: f64,
    /// CPU time of the server's processes, in seconds.
    pub server_cpu_s: Option<f64>,
    /// WAL that was written.
    pub wal_bytes: Option<u64>,
}
