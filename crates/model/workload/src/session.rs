//! One client's connection, from its start to its end.

use std::sync::Arc;

/// One client's connection. Times are microseconds from the workload's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Number in this workload, from 0, in the order of first sight. In a slice those that were
    /// kept have the number that they have in the whole.
    pub id: u64,
    /// The database; empty where the source does not know it.
    pub database: Arc<str>,
    /// The role; empty where the source does not know it.
    pub user: Arc<str>,
    /// `application_name`; empty where unknown or unset.
    pub application: Arc<str>,
    /// The client's address (with port where known), or `[local]`; empty where unknown.
    pub client: Arc<str>,
    /// When it was first seen.
    pub start_us: i64,
    /// When it was last seen.
    pub end_us: i64,
    /// The source shows its beginning. If not, its earlier settings, prepared statements and
    /// open transaction are unknown.
    pub start_seen: bool,
    /// The source shows its end.
    pub end_seen: bool,
    /// How many statements it has in this workload.
    pub statements: u64,
}
