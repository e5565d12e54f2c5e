//! What was recorded of a server's CPU while it worked: stacks, the backends that had them, and which
//! statement a backend carried out when. Plain data; who records is not known here.
//!
//! Times are nanoseconds from the replay's start, or of a recording without a replay from its own.

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

/// How a profile was taken, or why there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProfileInfo {
    /// Why there is no profile; `None` where there is one.
    #[serde(rename = "disabled_reason")]
    pub off: Option<String>,
    /// What would make one possible.
    pub remedy: Option<String>,
    /// The event that was sampled (`cpu-clock`).
    pub event: String,
    /// Samples a second of CPU time.
    pub frequency_hz: u64,
    /// How stacks were unwound: `frame pointers` or `dwarf`.
    pub unwinding: String,
    /// What was tried to find that out, and how complete the stacks were, in words.
    pub trial: String,
    /// What was watched: `all processors`, or `processes` where only these were allowed.
    pub scope: String,
    /// Whether the kernel's own time is in it.
    pub kernel: bool,
    /// Where the account of the kernel's count begins.
    pub begun_ns: i64,
    /// Where it ends.
    pub ended_ns: i64,
    /// Samples of the server's processes.
    pub samples: u64,
    /// Of these, samples between [`Self::begun_ns`] and [`Self::ended_ns`].
    pub counted: u64,
    /// Of all samples with frames of programs, those whose stack reaches `main`.
    pub complete: u64,
    /// Samples with frames of programs.
    pub unwound: u64,
    /// What `perf` says that it lost, in events.
    pub lost: u64,
    /// Samples that came past the most that a run keeps.
    pub left_out: u64,
    /// What the kernel counted for the server's processes between the two moments, those that ended
    /// among them, in nanoseconds; `None` where it could not be read. Without [`Self::kernel`], their time
    /// outside of the kernel only.
    pub cpu_ns: Option<u64>,
    /// The same by the kernel's counters of tasks (`task-clock`), which read the clock at each switch; `None` where they
    /// were not wanted, or not to be had. What the hypervisor took from a process that ran is in it.
    pub task_clock_ns: Option<u64>,
    /// Samples and counters of tasks are of the same processes, and no sample is known to be missing but those that
    /// were not taken.
    pub same_as_counted: bool,
    /// What else is to be known.
    pub notes: Vec<String>,
}

impl ProfileInfo {
    /// Returns the processor time that the counted samples stand for by themselves, in nanoseconds.
    pub fn sampled_ns(&self) -> f64 {
        self.counted as f64 * 1e9 / self.frequency_hz.max(1) as f64
    }
}

/// One stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stack {
    /// Its number in this run.
    pub id: u64,
    /// Its functions from the outermost to the innermost, joined by `;`. The kernel's end in `_[k]`; one
    /// without a name is `[file]`.
    pub frames: String,
    /// How many samples have it.
    pub samples: u64,
}

/// One sample, in the order of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackSample {
    /// When.
    pub at_ns: i64,
    /// The backend's process number.
    pub pid: u64,
    /// The number of its [`Stack`].
    pub stack: u64,
}

/// A process of the server that was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfiledBackend {
    /// Its number.
    pub pid: u64,
    /// What it is (`client backend`, `checkpointer`), or `unknown` where it came and went between two looks.
    pub kind: String,
    /// Its role, where that is known.
    pub user: Option<String>,
    /// Its database, where that is known.
    pub database: Option<String>,
    /// Its `application_name`, where that is known.
    pub application: Option<String>,
    /// Since when it is known to be there.
    pub from_ns: i64,
    /// Samples of it.
    pub samples: u64,
}

/// From this moment on, a session of the replay speaks with this backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionBackend {
    /// When.
    pub from_ns: i64,
    /// The session's number, as executions have it.
    pub session: u64,
    /// The backend's process number.
    pub pid: u64,
}

/// A backend carried this statement out, from here to there; of a recording without a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementSpan {
    /// The backend's process number.
    pub pid: u64,
    /// When it began.
    pub from_ns: i64,
    /// When it ended, or was last seen.
    pub until_ns: i64,
    /// Which statement.
    pub fingerprint: Fingerprint,
}
