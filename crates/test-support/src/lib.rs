//! Servers, builders and fixtures that tests share. A development dependency only.
//!
//! Each part needs a feature, so that the tests of a crate build no more than they use:
//!
//! - `server`: private servers from cached template clusters.

#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
pub use server::{ServerBuilder, connect, server};
