//! Replays a workload against a server: each session on its own connection, each statement at its time. The result
//! is a run.
//!
//! ```text
//! workload ─► dispatcher (reads ahead, encodes) ─► workers (each owns its sessions) ─► recorder ─► run
//!                                                     │    ▲
//!                                                     ▼    │
//!                                                  connectors (open and authenticate)
//! ```
//!
//! The caller calls [`replay`] with [`Options`] and gets progress through an [`Observer`]. A statement waits only for
//! the previous statement of its session, so a slow statement delays its own session only.
//!
//! The crate prints nothing and uses no async runtime. Reading logs and judging results are left to other crates.

mod backends;
mod captured_deadlocks;
mod captured_identifiers;
mod captured_transactions;
mod commit_order;
mod common_start;
mod connect;
mod connection_events;
mod connection_limits;
mod connector;
mod counters;
mod deadlock_breaker;
mod demand;
mod dependencies;
mod dispatcher;
mod dry_run;
mod due_counter;
mod encode;
mod engine;
mod error;
mod event_follower;
mod event_id;
mod event_stream;
mod followed_values;
mod generated;
mod idle_wait;
mod in_flight;
mod inbox;
mod inference;
mod job;
mod live_stats;
mod liveness;
mod load_source;
mod login;
mod meeting;
mod metrics;
mod options;
mod pacing;
mod paused_clock;
mod pipeline;
mod portals;
mod progress;
mod queue;
mod read_only_catalogue;
mod read_only_filter;
mod read_only_guard;
mod read_only_role;
mod record;
mod result_columns;
mod resume;
mod row_sample;
mod sampled_executions;
mod series_follower;
mod server_state;
mod session;
mod shard;
mod shard_division;
mod skip_prediction;
mod source_server_check;
mod spill;
mod stall_detector;
mod startup_options;
mod statement_cache;
mod statement_order;
mod stream;
mod target_clock;
mod target_databases;
#[cfg(test)]
mod test_events;
mod user_types;
mod worker;

use event_loop as epoll;

pub use ::connect::{
    AuthMethod, ChannelBindingMode, Host, KeepAlive, PasswordFile, PasswordFileProblem,
    SecurityOptions, Server, SessionAttributes, SslMode, Target, TargetError, TrustedRoots,
};
pub use backends::Backends;
pub use connect::ConnectError;
pub use connection_events::{ConnectionEvent, Counter};
pub use connection_limits::connections_needed;
pub use counters::Snapshot;
pub use demand::{Amount, Demand, Peaks, demand};
pub use dry_run::{DryRun, dry_run};
pub use engine::{check_target, extent, replay};
pub use error::ReplayError;
pub use event_stream::{COPY_SESSION_OFFSET, Scale};
pub use live_stats::{LatencyHistogram, LatencyHistograms, StatementTotals, TopStatements};
pub use load_source::{ClientEvents, LoadSource};
pub use login::{Login, LoginMap, is_from_wire};
pub use meeting::{Meeting, WorkerMeeting};
pub use metrics::{BOUNDS_NS, Histogram, Metrics, MetricsReading};
pub use options::{IoMethod, Options, ReadOnly, ResultChecksums, SendOrder};
pub use progress::{Observer, WorkloadPass};
pub use read_only_catalogue::names_with_outside_effects;
pub use resume::PreviousRun;
pub use sampled_executions::SampledExecutions;
pub use series_follower::FollowOptions;
pub use shard::ShardSelection;
pub use shard_division::{SHARD_BALANCE_MAX, ShardSize, select_shard, shard_sizes};
pub use source_server_check::find_source_server;
pub use startup_options::StartupOptions;
pub use target_clock::TargetClock;
