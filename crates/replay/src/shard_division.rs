//! Division of sessions among the workers of a replay.
//!
//! Sessions are assigned by a hash of their number. If statements wait for those of other sessions, or use values that
//! other sessions generated, whole groups of connected sessions are assigned, since workers do not know each other's
//! progress.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use run::{NAMED_SESSIONS_MAX, ShardDivision};
use sql::SessionEffect;
use workload::{ArchiveError, EventKind, WorkloadReader};

use crate::connect::Dialer;
use crate::error::ReplayError;
use crate::event_follower::EventFollower;
use crate::event_stream::{COPY_SESSION_OFFSET, EventStream};
use crate::followed_values::FollowedValues;
use crate::options::{Options, SendOrder};
use crate::progress::Observer;
use crate::shard::ShardSelection;
use crate::statement_cache::TextCache;
use connect::Target;

/// Largest share of statements that a shard may have, relative to the mean of all shards. Otherwise the slowest worker is
/// the limit.
pub const SHARD_BALANCE_MAX: f64 = 1.25;

/// Size of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardSize {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of statements.
    pub statements: u64,
    /// Numbers of its first sessions, at most [`NAMED_SESSIONS_MAX`].
    pub first_sessions: Vec<u64>,
}

/// Divides the sessions of a workload among `count` workers, and selects those of worker `number` (from 0). All workers
/// with the same workload, target and options find the same division.
///
/// # Errors
/// If the workload cannot be read, or the order of statements does not allow the division.
pub fn select_shard(
    number: u64,
    count: u64,
    reader: &WorkloadReader,
    (target, options): (&Target, &Options),
    observer: &mut dyn Observer,
) -> Result<ShardSelection, ReplayError> {
    let by_session = ShardSelection {
        number,
        count,
        division: ShardDivision::Sessions,
        groups: Arc::default(),
    };
    let order = match options.order {
        SendOrder::Commit => Some("commit"),
        SendOrder::Global => Some("global"),
        SendOrder::Session | SendOrder::Dependencies => None,
    };
    if let Some(order) = order {
        return Err(ReplayError::Shards(format!(
            "with --order {order}, statements wait for those of all other sessions, of which a worker has only its own; give --order session or dependencies"
        )));
    }
    if !options.follows_values() || count == 1 {
        return Ok(by_session);
    }
    let groups = SessionGroups::of(reader, target, options, observer)?;
    let (division, groups) = groups.divide(count, options.order)?;
    Ok(ShardSelection {
        division,
        groups: Arc::new(groups),
        ..by_session
    })
}

/// Returns the sizes of all shards.
///
/// # Errors
/// If the workload cannot be read.
pub fn shard_sizes(
    shard: &ShardSelection,
    reader: &WorkloadReader,
    options: &Options,
) -> Result<Vec<ShardSize>, ArchiveError> {
    let statements = session_statements(reader, options)?;
    let mut sizes = vec![ShardSize::default(); shard.count as usize];
    for (session, statements) in statements {
        let size = &mut sizes[shard.shard_of(session) as usize];
        size.sessions += 1;
        size.statements += statements;
        if size.first_sessions.len() < NAMED_SESSIONS_MAX {
            size.first_sessions.push(session);
        }
    }
    Ok(sizes)
}

/// Returns the number of statements of each session of a replay.
///
/// # Errors
/// If the workload cannot be read.
fn session_statements(
    reader: &WorkloadReader,
    options: &Options,
) -> Result<BTreeMap<u64, u64>, ArchiveError> {
    let mut found = BTreeMap::new();
    let shape = options.shape();
    let copies = shape.scale.copies();
    let mut counted = 0;
    for session in reader.sessions()? {
        let session = session?;
        counted += session.statements;
        for copy in 0..copies * shape.rounds {
            if shape.scale.keeps(copy % copies, session.id) {
                let id = session.id + copy * COPY_SESSION_OFFSET;
                found.insert(id, session.statements);
            }
        }
    }
    if counted == reader.info().statements {
        return Ok(found);
    }
    // Not every source counts statements by session.
    found.values_mut().for_each(|statements| *statements = 0);
    let mut events = EventStream::new(shape, reader.info().span_us, || reader.events());
    while let Some(step) = events.next()? {
        let statements = found.entry(step.event.session).or_default();
        *statements += u64::from(step.event.kind.is_statement());
    }
    Ok(found)
}

/// Groups of sessions that depend on each other.
struct SessionGroups {
    /// Session that leads to the first one of the group, as in a union-find structure.
    parents: HashMap<u64, u64>,
    statements: BTreeMap<u64, u64>,
}

impl SessionGroups {
    /// Finds the groups with the passes over the workload that a replay makes.
    ///
    /// # Errors
    /// If the workload cannot be read, or the target names a file that cannot be used.
    fn of(
        reader: &WorkloadReader,
        target: &Target,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Self, ReplayError> {
        let target = &options.target_with_settings(target);
        let dialer = Dialer::new(target)?;
        let values = FollowedValues::load_if_followed(reader, &dialer, target, options, observer)?;
        let waits = options.order == SendOrder::Dependencies;
        let mut follower = EventFollower::new(values.as_ref(), waits);
        let mut effects = TextCache::default();
        let mut groups = SessionGroups {
            parents: HashMap::new(),
            statements: session_statements(reader, options)?,
        };
        let shape = options.shape();
        let mut events = EventStream::new(shape, reader.info().span_us, || reader.events());
        while let Some(step) = events.next()? {
            let mut event = step.event;
            let (places, tracked) = follower.track_values(&mut event, step.fingerprint);
            for source in &tracked.sources {
                groups.join(event.session, source.session);
            }
            let Some(tracker) = &mut follower.dependencies else {
                continue;
            };
            let effect = match &event.kind {
                EventKind::Simple { sql } => SessionEffect::of(sql),
                kind => match kind.sql() {
                    Some(sql) => *effects.get(sql, SessionEffect::of),
                    None => SessionEffect::default(),
                },
            };
            let found = tracker.track(&event, places.as_deref(), effect, &tracked.sources);
            for (session, _) in found {
                groups.join(event.session, session);
            }
        }
        Ok(groups)
    }

    fn first_of(&mut self, session: u64) -> u64 {
        let mut first = session;
        while let Some(&next) = self.parents.get(&first) {
            first = next;
        }
        let mut at = session;
        while at != first {
            at = self.parents.insert(at, first).unwrap_or(first);
        }
        first
    }

    fn join(&mut self, one: u64, other: u64) {
        let (one, other) = (self.first_of(one), self.first_of(other));
        if one != other {
            self.parents.insert(one.max(other), one.min(other));
        }
    }

    /// Assigns whole groups, the largest first, each to the shard with the fewest statements.
    ///
    /// # Errors
    /// If a shard would have many more statements than the others.
    fn divide(
        mut self,
        count: u64,
        order: SendOrder,
    ) -> Result<(ShardDivision, HashMap<u64, u64>), ReplayError> {
        let sessions: Vec<(u64, u64)> = (self.statements.iter())
            .map(|(session, statements)| (*session, *statements))
            .collect();
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        for (session, statements) in &sessions {
            *sums.entry(self.first_of(*session)).or_default() += statements;
        }
        let mut by_size: Vec<(u64, u64)> = sums.iter().map(|(first, sum)| (*sum, *first)).collect();
        by_size.sort_by_key(|(sum, first)| (u64::MAX - sum, *first));
        let mut loads = vec![0_u64; count as usize];
        let mut shards: HashMap<u64, u64> = HashMap::new();
        for (sum, first) in &by_size {
            let least = (0..loads.len()).min_by_key(|at| loads[*at]).unwrap_or(0);
            loads[least] += sum;
            shards.insert(*first, least as u64);
        }
        let total: u64 = loads.iter().sum();
        let largest = by_size.first().map_or(0, |(sum, _)| *sum);
        let most = loads.iter().copied().max().unwrap_or(0);
        if most as f64 > SHARD_BALANCE_MAX * total as f64 / count as f64 {
            return Err(ReplayError::Shards(refusal(order, largest, total, count)));
        }
        let division = ShardDivision::Dependencies {
            groups: by_size.len() as u64,
            largest_group_statements: largest,
        };
        let shard_of = |(session, _): &(u64, u64)| (*session, shards[&self.first_of(*session)]);
        Ok((division, sessions.iter().map(shard_of).collect()))
    }
}

/// Describes why groups cannot be divided, and the remedies.
fn refusal(order: SendOrder, largest: u64, total: u64, count: u64) -> String {
    let percent = 100.0 * largest as f64 / total.max(1) as f64;
    let (relation, option) = match order {
        SendOrder::Dependencies => (
            "depend on each other",
            "--order session, which ignores dependencies",
        ),
        _ => (
            "use values that others of them generated",
            "a replay without --remap-generated, in which these values stay as captured",
        ),
    };
    let possible = (SHARD_BALANCE_MAX * total as f64 / largest.max(1) as f64) as u64;
    let fewer = match possible.min(count - 1) {
        0 | 1 => "replay it with one worker, without --shard".to_owned(),
        fewer => format!("give at most {fewer} shards"),
    };
    format!(
        "sessions that {relation} must be with one worker, and the largest group of them has {percent:.0} % of the statements, which {count} shards cannot balance; {fewer}, or give {option}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(statements: &[u64], joined: &[(u64, u64)]) -> SessionGroups {
        let mut groups = SessionGroups {
            parents: HashMap::new(),
            statements: (0..).zip(statements.iter().copied()).collect(),
        };
        for (one, other) in joined {
            groups.join(*one, *other);
        }
        groups
    }

    #[test]
    fn connected_sessions_are_in_one_shard_and_shards_balance() {
        let joined = [(3, 1), (5, 3), (4, 0)];
        let divided = groups(&[40, 10, 30, 20, 10, 10, 30, 50], &joined);
        let (division, shards) = divided.divide(4, SendOrder::Dependencies).unwrap();
        assert_eq!(shards[&1], shards[&3]);
        assert_eq!(shards[&1], shards[&5]);
        assert_eq!(shards[&0], shards[&4]);
        let mut loads = [0; 4];
        for (session, statements) in [40, 10, 30, 20, 10, 10, 30, 50].iter().enumerate() {
            loads[shards[&(session as u64)] as usize] += statements;
        }
        loads.sort_unstable();
        assert_eq!(loads, [40, 50, 50, 60]);
        assert_eq!(
            division,
            ShardDivision::Dependencies {
                groups: 5,
                largest_group_statements: 50
            }
        );
    }

    #[test]
    fn group_that_is_too_large_is_refused_with_the_number_of_shards_that_is_possible() {
        let joined = [(0, 1), (1, 2)];
        let refused = groups(&[10, 20, 30, 40, 20], &joined).divide(4, SendOrder::Dependencies);
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("has 50 % of the statements"), "{message}");
        assert!(message.contains("at most 2 shards"), "{message}");
        let all = [(0, 1), (1, 2), (2, 3), (3, 4)];
        let refused = groups(&[10, 20, 30, 40, 20], &all).divide(2, SendOrder::Session);
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("one worker, without --shard"), "{message}");
        assert!(message.contains("without --remap-generated"), "{message}");
    }
}
