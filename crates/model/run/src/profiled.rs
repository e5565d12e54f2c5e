//! CPU profile of a server: stacks, their backends, and the statements that the backends executed. This
//! module has the data only; the crate `cpu-profile` records them.
//!
//! Times are nanoseconds from the replay's start. For a recording without a replay they count from its own
//! start.

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

/// Options and results of a profile, or the reason why there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProfileInfo {
    /// Reason why there is no profile; `None` if there is one.
    #[serde(rename = "disabled_reason")]
    pub off: Option<String>,
    /// Remedy that would make a profile possible.
    pub remedy: Option<String>,
    /// Sampled event (`cpu-clock`).
    pub event: String,
    /// Samples per second of CPU time.
    pub frequency_hz: u64,
    /// Method of unwinding stacks: `frame pointers` or `dwarf`.
    pub unwinding: String,
    /// Methods that were tried, with the completeness of their stacks, in words.
    pub trial: String,
    /// Scope of the recording: `all processors`, or `processes` if only these were permitted.
    pub scope: String,
    /// Whether time in the kernel is included.
    pub kernel: bool,
    /// Start of the period of the kernel's count.
    pub begun_ns: i64,
    /// End of the period of the kernel's count.
    pub ended_ns: i64,
    /// Number of samples of the server's processes.
    pub samples: u64,
    /// Number of these between [`Self::begun_ns`] and [`Self::ended_ns`].
    pub counted: u64,
    /// Number of samples with frames of programs whose stack reaches `main`.
    pub complete: u64,
    /// Number of samples with frames of programs.
    pub unwound: u64,
    /// Number of events that `perf` reports as lost.
    pub lost: u64,
    /// Number of samples beyond the maximum of a run.
    pub left_out: u64,
    /// Kernel's count of the CPU time of the server's processes in this period, including ended ones, in
    /// nanoseconds; `None` if it could not be read. Without [`Self::kernel`] it is the time in user mode
    /// only.
    pub cpu_ns: Option<u64>,
    /// The same time by the kernel's task counters (`task-clock`), which read the clock at each switch;
    /// `None` if not requested or not available. It includes time that the hypervisor took from a running
    /// process.
    pub task_clock_ns: Option<u64>,
    /// Whether samples and task counters are of the same processes, and no samples are known to be lost.
    pub same_as_counted: bool,
    /// Further notes.
    pub notes: Vec<String>,
}

impl ProfileInfo {
    /// Returns the CPU time that the counted samples represent at the sampling interval, in nanoseconds.
    pub fn sampled_ns(&self) -> f64 {
        self.counted as f64 * 1e9 / self.frequency_hz.max(1) as f64
    }
}

/// One stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stack {
    /// Number in this run.
    pub id: u64,
    /// Functions from the outermost to the innermost, joined by `;`. Kernel functions end in `_[k]`; a
    /// function without a name is `[file]`.
    pub frames: String,
    /// Number of its samples.
    pub samples: u64,
}

/// One sample. Samples are in time order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackSample {
    /// Time.
    pub at_ns: i64,
    /// Process id of the backend.
    pub pid: u64,
    /// Number of its [`Stack`].
    pub stack: u64,
}

/// A process of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfiledBackend {
    /// Process id.
    pub pid: u64,
    /// Kind (`client backend`, `checkpointer`), or `unknown` if it lived between two samples of the activity.
    pub kind: String,
    /// Role, if known.
    pub user: Option<String>,
    /// Database, if known.
    pub database: Option<String>,
    /// `application_name`, if known.
    pub application: Option<String>,
    /// Time since which it is known to exist.
    pub from_ns: i64,
    /// Number of its samples.
    pub samples: u64,
}

/// Assignment of a replay's session to a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionBackend {
    /// Start of the assignment.
    pub from_ns: i64,
    /// Number of the session, as in executions.
    pub session: u64,
    /// Process id of the backend.
    pub pid: u64,
}

/// Execution of a statement by a backend, in a recording without a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementSpan {
    /// Process id of the backend.
    pub pid: u64,
    /// Start time.
    pub from_ns: i64,
    /// End time, or the time of the last sample.
    pub until_ns: i64,
    /// Statement.
    pub fingerprint: Fingerprint,
}
