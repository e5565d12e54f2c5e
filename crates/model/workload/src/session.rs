//! Sessions: connections of clients, from start to end.

use std::sync::Arc;

/// One connection of a client. Times are microseconds from the workload's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Number in this workload, from 0, in the order of first appearance. In a slice, sessions keep their
    /// number in the sliced workload.
    pub id: u64,
    /// The database; empty if the source does not know it.
    pub database: Arc<str>,
    /// The role; empty if the source does not know it.
    pub user: Arc<str>,
    /// `application_name`; empty if unknown or unset.
    pub application: Arc<str>,
    /// The client's address (with port if known), or `[local]`; empty if unknown.
    pub client: Arc<str>,
    /// Time of its first event.
    pub start_us: i64,
    /// Time of its last event.
    pub end_us: i64,
    /// The source shows its start. If not, its earlier settings, prepared statements and open transaction are
    /// unknown.
    pub start_seen: bool,
    /// The source shows its end.
    pub end_seen: bool,
    /// Number of its statements in this workload.
    pub statements: u64,
}
