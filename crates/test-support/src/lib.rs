//! Servers, builders and fixtures that tests share. A development dependency only.
//!
//! The tiers of the tests are always there. Each other part needs a feature, so that the tests of a crate build no more than they use:
//!
//! - `server`: private servers from cached template clusters, and programs that capture.
//! - `tls`: servers with TLS.

#[cfg(feature = "server")]
mod attach;
#[cfg(feature = "server")]
mod proxy;
#[cfg(feature = "server")]
mod server;
mod tier;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "server")]
pub use attach::CaptureAttach;
#[cfg(feature = "server")]
pub use proxy::CaptureProxy;
#[cfg(feature = "server")]
pub use server::{ServerBuilder, connect, server};
pub use tier::{
    cases, is_full_tier, is_set, report_skipped, skip_in_fast_tier, skip_unless_set, versions,
};
