//! Locks by kind and mode, and whether they were taken on the fast path: without the shared table of
//! locks, for the three weakest modes on relations, in a few slots of each process (16 before version 18,
//! which makes as many as `max_locks_per_transaction`; `src/backend/storage/lmgr/README`).

use run::LockCount;

use crate::asker::{Asker, Unable};
use crate::ledger::Ledger;
use crate::probe::{Moment, Probe, at, number};

/// The second half sums over the modes that may go by the fast path, since they share its slots.
const QUESTION: &str = "WITH l AS (SELECT s.pid, s.locktype, s.mode, s.fastpath, s.granted, \
       pg_catalog.count(*) AS n FROM pg_catalog.pg_lock_status() s \
       WHERE s.pid IS NOT NULL AND NOT (s.pid = ANY ($1)) GROUP BY 1, 2, 3, 4, 5) \
     SELECT l.locktype, l.mode, l.fastpath, l.granted, pg_catalog.sum(l.n), pg_catalog.count(*), \
       pg_catalog.max(l.n) FROM l GROUP BY 1, 2, 3, 4 \
     UNION ALL SELECT 'relation', 'weak modes together', w.fastpath, true, pg_catalog.sum(w.n), \
       pg_catalog.count(*), pg_catalog.max(w.n) \
     FROM (SELECT l.pid, l.fastpath, pg_catalog.sum(l.n) AS n FROM l WHERE l.locktype = 'relation' \
       AND l.granted AND l.mode IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock') \
       GROUP BY 1, 2) w GROUP BY w.fastpath";

/// The name of the sum over the modes that may go by the fast path.
pub const WEAK_MODES: &str = "weak modes together";

/// Counts locks.
#[derive(Default)]
pub(crate) struct LocksProbe {
    took_ns: i64,
}

/// Looking may take this share of the time at most: the server holds all parts of its table of locks
/// while it copies them.
const SHARE: i64 = 100;

impl Probe for LocksProbe {
    fn name(&self) -> &'static str {
        "locks"
    }

    fn every_ns(&self) -> i64 {
        (self.took_ns * SHARE).max(1_000_000_000)
    }

    fn begin(&mut self, asker: &mut Asker<'_>, _: &Ledger) -> Result<(), Unable> {
        let own = asker.own().literal();
        asker
            .ask_again("locks", "int[]", &own, QUESTION)
            .map(|_| ())
    }

    fn look(
        &mut self,
        asker: &mut Asker<'_>,
        ledger: &Ledger,
        moment: Moment,
    ) -> Result<(), Unable> {
        if moment.last {
            return Ok(());
        }
        let own = asker.own().literal();
        let asked_ns = ledger.clock_ns();
        let answer = asker.ask_again("locks", "int[]", &own, QUESTION);
        // Also where the server ended it for taking too long.
        self.took_ns = ledger.clock_ns() - asked_ns;
        let rows = answer?;
        let at_ns = ledger.now_ns();
        let counts: Vec<LockCount> = rows
            .iter()
            .map(|row| LockCount {
                at_ns,
                kind: at(row, 0).to_owned(),
                mode: at(row, 1).to_owned(),
                fast_path: at(row, 2) == "t",
                granted: at(row, 3) == "t",
                locks: number(row, 4).unwrap_or(0),
                backends: number(row, 5).unwrap_or(0),
                most: number(row, 6).unwrap_or(0),
            })
            .collect();
        ledger.locks(&counts);
        Ok(())
    }
}
