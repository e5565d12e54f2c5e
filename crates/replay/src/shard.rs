//! Share of the sessions that one of several workers replays.

use std::collections::HashMap;
use std::sync::Arc;

use run::ShardDivision;

use crate::event_stream::mix;

/// Share of the sessions that a worker replays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardSelection {
    pub(crate) number: u64,
    pub(crate) count: u64,
    pub(crate) division: ShardDivision,
    /// Shards by session, of sessions that are in a group with others.
    pub(crate) groups: Arc<HashMap<u64, u64>>,
}

impl ShardSelection {
    /// Returns the number of the shard, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of shards.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the division.
    pub fn division(&self) -> ShardDivision {
        self.division
    }

    /// Returns the shard of a session.
    pub(crate) fn shard_of(&self, session: u64) -> u64 {
        let group = self.groups.get(&session);
        group.copied().unwrap_or_else(|| mix(session) % self.count)
    }

    /// Whether the worker replays a session.
    pub(crate) fn has(&self, session: u64) -> bool {
        self.shard_of(session) == self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_divides_sessions_evenly() {
        let shard = |number| ShardSelection {
            number,
            count: 8,
            division: ShardDivision::Sessions,
            groups: Arc::default(),
        };
        for number in 0..8 {
            let shard = shard(number);
            let sessions = (0..80_000).filter(|session| shard.has(*session)).count();
            assert!((9_600..10_400).contains(&sessions), "{number}: {sessions}");
        }
    }
}
