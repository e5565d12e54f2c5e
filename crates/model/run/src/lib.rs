//! Runs: the results of a replay, stored as a directory.
//!
//! A run is a directory `NAME.run` with a manifest and Parquet tables:
//!
//! - `executions-*.parquet`: one [`Execution`] for every event of the workload that was in range, in the
//!   order in which they ended.
//! - `result-columns-*.parquet`: [`ResultColumns`] of each result, if they were requested.
//! - `generated-values-*.parquet`: [`GeneratedValue`]s, if the replay followed them.
//! - `statements.parquet`: every fingerprint with its normalised SQL.
//! - `settings`, `extensions`, `databases`, `relations`, `indexes` and `target-notes.parquet`: the [`Facts`]
//!   of its target, if they were collected.
//! - `plans.parquet`: a [`PlanFact`] for each statement whose plan was requested.
//! - `profile`, `stacks`, `stack-samples`, `profiled-backends`, `session-backends`, `statement-spans` and
//!   `profiled-statements`: a CPU profile of the server, if one was recorded ([`ProfileReader`]).
//! - `probes`, `seen-statements`, `statement-statistics`, `sample-windows`, `activity`, `blocking`, `locks`
//!   and `counters-*.parquet`: observations of the server during the replay, if it was monitored.
//!
//! A replay that was divided among several workers has a directory with [`SHARDS_FILE`] and a run for each worker. A
//! [`RunReader`] opens it as one run.
//!
//! Replay pushes executions into a [`RunWriter`], and the analysis reads them with a [`RunReader`]. The
//! replay itself and all statistics are left to other crates.

mod csv;
mod evidence;
mod execution;
mod execution_counts;
mod facts;
mod facts_table;
mod follower;
mod format;
mod generated_value;
mod lost_connection;
mod machine_load;
mod merge;
mod observed;
mod observed_table;
mod parts;
mod profiled;
mod profiled_table;
mod reader;
mod result_columns;
mod series_gap;
mod shards;
mod table;
mod tool_stall;
mod writer;

pub use archive::{ArchiveError, UnfinishedDirectory};
pub use evidence::{Artefact, Moment};
pub use execution::{Captured, Execution, Outcome, SkipReason, SourceLocation, StatementKind};
pub use execution_counts::ServiceTime;
pub use facts::{
    BuildFact, DatabaseFact, ExtensionFact, FactNote, Facts, FunctionFact, IndexFact, IndexKey,
    NoPlan, PlanFact, PlanOutcome, RelationFact, SettingFact, TriggerFact,
};
pub use follower::{FollowedResult, FollowedState, RunFollower};
pub use format::{
    FORMAT, KIND, PAIR_OPTION, PAIR_SEED_OPTION, PAIR_SIDE_OPTION, RunInfo, RunStatus, TargetInfo,
    WorkloadRef,
};
pub use generated_value::GeneratedValue;
pub use lost_connection::LostConnection;
pub use machine_load::MachineLoad;
pub use observed::{
    Activity, Blocking, Counter, LockCount, ProbeNote, ProbeState, STATISTICS_PROBE, SampleWindow,
    SampledStatement, StatementStatistics,
};
pub use observed_table::ObservedWriter;
pub use parts::{find_last_part, find_worker, next_part_path, read_shard_plan};
pub use profiled::{
    ProfileInfo, ProfiledBackend, SessionBackend, Stack, StackSample, StatementSpan,
};
pub use profiled_table::{ProfileReader, ProfileRows, ProfileWriter};
pub use reader::{RunReader, Stream};
pub use result_columns::ResultColumns;
pub use series_gap::SeriesGap;
pub use shards::{
    DIVISION_OPTION, INCOMPLETE_SHARDS_OPTION, NAMED_SESSIONS_MAX, PartState, SHARD_OPTION,
    SHARDS_FILE, SHARDS_FORMAT, Shard, ShardAccount, ShardDivision, ShardPlan, ShardState,
    WORKER_OPTION, part_path, resumed_part_path,
};
pub use tool_stall::{TOOL_STALL_NS_MIN, ToolStall, is_in_stall, merge_stalls};
pub use writer::{RunWriter, recover};
