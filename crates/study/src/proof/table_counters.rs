//! The server's counters of tables and indexes: blocks that were read, and updates that were HOT; and of temporary files.

use std::time::Duration;

use connect::login::QueryConnection;

/// Counters since the statistics were reset, of the user's tables in one database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TableCounters {
    /// Blocks of tables and indexes that were read, from shared buffers or not (`pg_statio_user_tables`).
    pub(super) blocks: u64,
    /// Rows that were updated (`n_tup_upd`).
    pub(super) updates: u64,
    /// HOT updates among them (`n_tup_hot_upd`).
    pub(super) hot: u64,
    /// Bytes of temporary files of the database (`pg_stat_database`).
    pub(super) temporary_bytes: u64,
}

/// Limit of readings. A backend reports its counts when it ends, possibly after its client was answered, so they are
/// read until they stay the same.
const READINGS_MAX: u32 = 12;
/// Time between two readings. Up to PostgreSQL 14 the statistics are written into a file twice a second
/// (`PGSTAT_STAT_INTERVAL` of `pgstat.c`).
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_OF_FILES: Duration = Duration::from_millis(700);

const QUESTION: &str = "SELECT \
    coalesce((SELECT sum(coalesce(heap_blks_read, 0) + coalesce(heap_blks_hit, 0) + coalesce(idx_blks_read, 0) \
      + coalesce(idx_blks_hit, 0) + coalesce(toast_blks_read, 0) + coalesce(toast_blks_hit, 0)) \
      FROM pg_catalog.pg_statio_user_tables), 0), \
    coalesce(sum(n_tup_upd), 0), coalesce(sum(n_tup_hot_upd), 0), \
    pg_catalog.current_setting('server_version_num')::int >= 150000, \
    coalesce((SELECT temp_bytes FROM pg_catalog.pg_stat_database WHERE datname = pg_catalog.current_database()), 0) \
    FROM pg_catalog.pg_stat_user_tables";

/// Reads the counters until they stay the same.
///
/// # Errors
/// With the reason.
pub(super) fn read_settled(questions: &mut QueryConnection<'_>) -> Result<TableCounters, String> {
    let (mut last, in_memory) = read(questions)?;
    for _ in 1..READINGS_MAX {
        std::thread::sleep(match in_memory {
            true => PAUSE,
            false => PAUSE_OF_FILES,
        });
        let (now, _) = read(questions)?;
        if now == last {
            break;
        }
        last = now;
    }
    Ok(last)
}

fn read(questions: &mut QueryConnection<'_>) -> Result<(TableCounters, bool), String> {
    let rows = questions
        .query(QUESTION)
        .map_err(|error| error.to_string())?;
    let row = rows.first().ok_or("the server gave no answer")?;
    let number = |column: usize| -> Option<u64> { row.get(column)?.as_deref()?.parse().ok() };
    let counters = TableCounters {
        blocks: number(0).ok_or("the server counts no blocks")?,
        updates: number(1).ok_or("the server counts no updates")?,
        hot: number(2).ok_or("the server counts no updates")?,
        temporary_bytes: number(4).ok_or("the server counts no temporary files")?,
    };
    let in_memory = row
        .get(3)
        .is_some_and(|value| value.as_deref() == Some("t"));
    Ok((counters, in_memory))
}
