//! Private PostgreSQL servers for the demo, the tests, the lab and the user: finds or fetches the programs,
//! and starts, snapshots, restores and stops servers.
//!
//! ```no_run
//! # fn main() -> sandbox::Result<()> {
//! use sandbox::{Options, Dirs, Sandbox, ServerRequirements};
//!
//! let places = Dirs::from_environment()?;
//! let server = sandbox::find(&ServerRequirements::major(17), &places, &mut |_| ())?;
//! let mut sandbox = Sandbox::create(&server, Options::default(), &places)?;
//! let url = sandbox.start()?.url("postgres");
//! // … connect, load …
//! sandbox.snapshot("loaded")?;
//! // … change …
//! sandbox.restore("loaded")?;
//! # Ok(())
//! # }
//! ```
//!
//! It touches only servers that it started, and deletes only directories that it created. It prints nothing
//! and uses no other crate of the workspace.
//!
//! A sandbox gives other users of the machine no rights. Its socket is in a directory that they cannot enter,
//! and TCP, if requested, needs a random password. PostgreSQL refuses to run as root, so root's sandboxes run
//! as a system user that owns nothing else. [`Dirs`] are chosen so that it can access them.

mod dirs;
mod disk_sync;
mod endpoint;
mod error;
mod fetch;
mod installation;
mod marker;
mod named;
mod password;
mod ports;
mod postmaster;
mod privileges;
mod sandbox;
mod server;
mod server_clock;
mod settings;
mod snapshot;
mod watchdog;

pub use crate::sandbox::{
    CHECKSUMS_BY_DEFAULT_MAJOR, Options, PgUpgradeCheck, Sandbox, Stop, check_upgrade_programs,
};
pub use dirs::Dirs;
pub use endpoint::Endpoint;
pub use error::{Error, Result};
pub use fetch::{MIRROR, Progress, fetch_from};
pub use installation::{
    Installation, Origin, ServerRequirements, Source, find, installed, server_major,
};
pub use named::{NamedSandbox, down, find_named, list, open, reap, up};
pub use password::Password;
pub use ports::Port;
pub use privileges::{group_of_user, server_uid, user_and_group};
pub use server_clock::ServerClock;
pub use snapshot::CopyStats;
