//! A workload becomes a run: every session on a connection of its own, every statement at its time.
//!
//! ```text
//! workload ─► plan (reads ahead, encodes) ─► workers (each owns its sessions) ─► record ─► run
//!                                               │    ▲
//!                                               ▼    │
//!                                            connectors (open and authenticate)
//! ```
//!
//! Who drives: the program calls [`replay`] with typed [`Options`] and gets progress through an
//! [`Observer`]. Nothing is awaited but a session's own previous statement: a slow statement
//! delays its own session only.
//!
//! Deliberately absent: printing, async, reading logs, and any judgement of what happened.

mod backends;
mod breaker;
mod captured;
mod connect;
mod connector;
mod course;
mod due;
mod encode;
mod engine;
mod feed;
mod forecast;
mod guard;
mod incidents;
mod job;
mod ledger;
mod link;
mod login;
mod meter;
mod options;
mod order;
mod pace;
mod pipeline;
mod plan;
mod portals;
mod progress;
mod queue;
mod record;
mod remap;
mod resume;
mod server_state;
mod session;
mod spill;
mod stopped_clock;
mod texts;
mod timeline;
mod watch;
mod worker;

use event_loop as epoll;

pub use ::connect::{
    Binding, Host, KeepAlive, Method, PasswordFile, PasswordFileProblem, Roots, Security, Server,
    SessionAttributes, SslMode, Target, TargetError,
};
pub use backends::Backends;
pub use captured::captured_on;
pub use connect::ConnectError;
pub use course::{SESSIONS_OF_A_COPY, Scale};
pub use engine::{ReplayError, check_target, extent, replay};
pub use feed::{ClientEvents, Feed};
pub use forecast::{Forecast, forecast};
pub use ledger::{Costliest, LedgerTimes, StatementTotals, Times};
pub use login::{Login, LoginMap, is_from_wire};
pub use meter::{BOUNDS_NS, Counted, Happening, Histogram, Meter, Readings};
pub use options::{Options, SendOrder};
pub use progress::{Observer, Snapshot};
pub use resume::Earlier;
