//! Counts locks by kind and mode, and whether they use the fast path. The fast path bypasses the shared lock
//! table for the three weakest modes on relations, in a few slots per process: 16 before version 18, which
//! has `max_locks_per_transaction` slots (`src/backend/storage/lmgr/README`).

use run::LockCount;

use crate::observation_log::ObservationLog;
use crate::probe::{Probe, SampleContext, column_number, column_text};
use crate::probe_connection::{ProbeConnection, ProbeError};

/// Query of the lock counts. Its second half sums over the modes that are eligible for the fast path, since
/// they share its slots. Shared catalogues, such as `pg_database`, are never eligible.
const QUESTION: &str = "WITH s AS (SELECT s.pid, s.locktype, s.mode, s.fastpath, s.granted, \
       s.database = 0 AS is_shared, pg_catalog.count(*) AS n FROM pg_catalog.pg_lock_status() s \
       WHERE s.pid IS NOT NULL AND NOT (s.pid = ANY ($1)) GROUP BY 1, 2, 3, 4, 5, 6), \
     l AS (SELECT s.pid, s.locktype, s.mode, s.fastpath, s.granted, pg_catalog.sum(s.n) AS n \
       FROM s GROUP BY 1, 2, 3, 4, 5) \
     SELECT l.locktype, l.mode, l.fastpath, l.granted, pg_catalog.sum(l.n), pg_catalog.count(*), \
       pg_catalog.max(l.n) FROM l GROUP BY 1, 2, 3, 4 \
     UNION ALL SELECT 'relation', 'weak modes together', w.fastpath, true, pg_catalog.sum(w.n), \
       pg_catalog.count(*), pg_catalog.max(w.n) \
     FROM (SELECT s.pid, s.fastpath, pg_catalog.sum(s.n) AS n FROM s WHERE s.locktype = 'relation' \
       AND NOT s.is_shared AND s.granted AND s.mode IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock') \
       GROUP BY 1, 2) w GROUP BY w.fastpath";

/// Name of the sum over the modes that are eligible for the fast path.
pub const WEAK_MODES: &str = "weak modes together";

/// Counts locks.
#[derive(Default)]
pub(crate) struct LocksProbe {
    took_ns: i64,
}

/// Fraction of the time that a sample may take: one over this. The server holds all partitions of its lock
/// table while it copies them.
const SHARE: i64 = 100;

impl Probe for LocksProbe {
    fn name(&self) -> &'static str {
        "locks"
    }

    fn interval_ns(&self) -> i64 {
        (self.took_ns * SHARE).max(1_000_000_000)
    }

    fn begin(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        _: &ObservationLog,
    ) -> Result<(), ProbeError> {
        let own = connection.own_processes().literal();
        connection
            .query_prepared("locks", "int[]", &own, QUESTION)
            .map(|_| ())
    }

    fn sample(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        context: SampleContext,
    ) -> Result<(), ProbeError> {
        if context.last {
            return Ok(());
        }
        let own = connection.own_processes().literal();
        let asked_ns = log.clock_ns();
        let answer = connection.query_prepared("locks", "int[]", &own, QUESTION);
        // The time also counts if the server cancelled the query.
        self.took_ns = log.clock_ns() - asked_ns;
        let rows = answer?;
        let at_ns = log.now_ns();
        let counts: Vec<LockCount> = rows
            .iter()
            .map(|row| LockCount {
                at_ns,
                kind: column_text(row, 0).to_owned(),
                mode: column_text(row, 1).to_owned(),
                fast_path: column_text(row, 2) == "t",
                granted: column_text(row, 3) == "t",
                locks: column_number(row, 4).unwrap_or(0),
                backends: column_number(row, 5).unwrap_or(0),
                most: column_number(row, 6).unwrap_or(0),
            })
            .collect();
        log.add_locks(&counts);
        Ok(())
    }
}
