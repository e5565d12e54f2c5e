//! A private PostgreSQL server, for the demo, the tests, the lab and the user: found or fetched,
//! started, snapshot, restored, stopped.
//!
//! ```no_run
//! # fn main() -> sandbox::Result<()> {
//! use sandbox::{Options, Places, Sandbox, Wanted};
//!
//! let places = Places::from_environment()?;
//! let server = sandbox::find(&Wanted::major(17), &places, &mut |_| ())?;
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
//! A server that was not started here is never touched, and only directories that were made here
//! are ever deleted. Nothing is printed, and no other crate of the workspace is used.
//!
//! Since PostgreSQL refuses to run as root, root's sandboxes run as `postgres`, or else `nobody`;
//! and [`Places`] are chosen so that those can reach them.

mod endpoint;
mod error;
mod fetch;
mod installation;
mod marker;
mod named;
mod places;
mod ports;
mod postmaster;
mod privileges;
mod sandbox;
mod server;
mod settings;
mod snapshot;
mod watchdog;

pub use crate::sandbox::{Options, Sandbox, Stop};
pub use endpoint::Endpoint;
pub use error::{Error, Result};
pub use fetch::{MIRROR, Progress, fetch_from};
pub use installation::{Installation, Source, Wanted, find, installed, server_major};
pub use named::{Named, down, list, open, reap, up};
pub use places::Places;
pub use ports::Port;
pub use server::Auth;
pub use snapshot::Copied;
