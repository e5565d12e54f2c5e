//! Captures the traffic of a running server on its host, without a proxy, a setting or a restart.
//!
//! Two functions of a PostgreSQL server see all bytes of the protocol in clear text, with and without encryption:
//! `secure_read` and `secure_write` (`src/backend/libpq/be-secure.c`). The [`prober`] attaches small eBPF programs to
//! them, and writes [`record`]s of what they copied to a pipe. It is a process of its own, since it needs privileges.
//! The process that decodes the records needs none.
//!
//! [`Attach`] reads the records, translates them into the traffic of connections, and passes that to the recorder, which
//! the proxy uses, too. [`drop_privileges`] is for its process.

mod activity;
mod attach_status;
mod attached_server;
mod capture;
#[cfg(target_os = "linux")]
mod privileges;
pub mod prober;
mod prober_process;
mod process_title;
mod reader;
pub mod record;
pub mod server_process;
mod session;
mod sessions;

pub use activity::{SessionWaits, session_waits};
pub use attach_status::{AttachCounters, AttachEvent, AttachStatus};
pub use attached_server::AttachedServer;
pub use capture::{Attach, AttachError, AttachOptions, AttachStatusReader};
#[cfg(target_os = "linux")]
pub use privileges::{UserIdentity, drop_privileges, is_root, limit_prober_privileges};
pub use prober_process::{AttachedProber, ProberProcess};
pub use sessions::{SessionIdentities, SessionIdentity, SessionKind};
