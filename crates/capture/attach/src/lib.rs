//! Captures the traffic of a running server on its host, without a proxy, a setting or a restart.
//!
//! Two functions of a PostgreSQL server see all bytes of the protocol in clear text, with and without encryption:
//! `secure_read` and `secure_write` (`src/backend/libpq/be-secure.c`). The [`prober`] attaches small eBPF programs to
//! them, and writes [`record`]s of what they copied to a pipe. It is a process of its own, since it needs privileges.
//! The process that decodes the records needs none.

pub mod prober;
pub mod record;
pub mod server_process;
