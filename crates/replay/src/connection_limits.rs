//! Number of connections that a replay needs, and limits of the process.

use workload::{ArchiveError, WorkloadReader};

use crate::error::ReplayError;
use crate::options::Options;
use crate::shard::ShardSelection;
use crate::shard_division::shard_sizes;

/// Least address space that a replay needs. Stacks and arenas of its threads reserve most of it, and use little memory.
const ADDRESS_SPACE_BYTES_MIN: u64 = 2 << 30;

/// Returns the number of sessions that were open at once in the capture, with those of copies.
pub(crate) fn sessions_at_once(reader: &WorkloadReader, options: &Options) -> u64 {
    match &options.load_source {
        None => reader.info().sessions_at_once * options.scale.copies().max(1),
        Some(source) => source.clients().into(),
    }
}

/// Returns the number of connections that a replay opens at once, with those of all workers among which it is divided.
pub fn connections_needed(reader: &WorkloadReader, options: &Options) -> u64 {
    let sessions = sessions_at_once(reader, options);
    let shards = options.shard.as_ref().map_or(1, ShardSelection::count);
    options.connections_max.map_or(sessions, |max| {
        sessions.min(u64::from(max).saturating_mul(shards))
    })
}

/// Returns the most connections that this process opens at once.
fn own_connections(reader: &WorkloadReader, options: &Options) -> Result<u64, ArchiveError> {
    let mut connections = sessions_at_once(reader, options);
    if let Some(shard) = &options.shard {
        let sizes = shard_sizes(shard, reader, options)?;
        connections = connections.min(sizes[shard.number() as usize].sessions);
    }
    let most = options.connections_max.map_or(u64::MAX, u64::from);
    Ok(connections.min(most))
}

/// Raises the limit of open files, and checks that the process's limits allow the replay.
///
/// # Errors
/// If a limit is too low; the error has the value that is needed.
pub(crate) fn check_limits(reader: &WorkloadReader, options: &Options) -> Result<(), ReplayError> {
    let connections = own_connections(reader, options)?;
    if let Some(room) = event_loop::raise_fd_limit(connections)? {
        return Err(ReplayError::TooManySessions {
            connections,
            files: connections + event_loop::OTHER_FILES,
            room,
        });
    }
    match event_loop::address_space_limit()? {
        Some(bytes) if bytes < ADDRESS_SPACE_BYTES_MIN => Err(ReplayError::AddressSpace {
            mib: bytes >> 20,
            needed_mib: ADDRESS_SPACE_BYTES_MIN >> 20,
        }),
        _ => Ok(()),
    }
}
