//! Work of statements, and how much time it usually takes.

use plans::Plan;

use super::evidence::{Evidence, StatementEvidence};
use super::threshold::{Thresholds, UNEXPLAINED_BLOCKS, UNEXPLAINED_CALL_MS};

/// Time that a row may take, in nanoseconds.
const ROW_NS: f64 = 10_000.0;
/// Time that a block may take that is not in the server's buffers, in nanoseconds.
const READ_NS: f64 = 200_000.0;
/// Blocks of a call up to which a statement's time shows how fast the machine is.
const SMALL_BLOCKS: u64 = 20;
/// Factor by which a statement may be slower than those of few blocks.
const TYPICAL_TIMES: f64 = 10.0;

/// Work of a statement in each call.
pub(super) struct Work {
    pub(super) ns: f64,
    /// Rows returned, written or aggregated; `None` if unknown.
    pub(super) rows: Option<f64>,
    /// Blocks from anywhere, and those that were not in the server's buffers.
    pub(super) blocks: Option<(f64, f64)>,
}

impl Work {
    pub(super) fn of(one: &StatementEvidence) -> Self {
        let counted = one.counted.filter(|counted| counted.calls > 0);
        let aggregated = one.plan.as_ref().map_or(0.0, aggregated_rows);
        // Clients wait for the flush of a commit, too, which is no work of the statement.
        let ns = match counted.filter(|_| one.class.may_write()) {
            Some(counted) => {
                let server_ns = counted.exec_ns + counted.plan_ns.unwrap_or(0);
                (server_ns as f64 / counted.calls as f64).min(one.ns_per_call())
            }
            None => one.ns_per_call(),
        };
        Work {
            ns,
            rows: one.rows_per_call().map(|rows| rows.max(aggregated)),
            blocks: counted.map(|counted| {
                let calls = counted.calls as f64;
                let read = counted.shared_read as f64 / calls;
                (counted.shared_hit as f64 / calls + read, read)
            }),
        }
    }

    /// Returns the time of each call beyond what its rows and its reads from outside of the server's buffers may take.
    /// `floor_ns` is what any call may take.
    pub(super) fn excess_ns(&self, floor_ns: f64) -> f64 {
        let rows = self.rows.unwrap_or(0.0).max(1.0);
        let (_, read) = self.blocks.unwrap_or_default();
        (self.ns - floor_ns - rows * ROW_NS - read * READ_NS).max(0.0)
    }

    /// Whether it takes more time, or reads more blocks, than its rows need.
    pub(super) fn is_excessive(&self, thresholds: &Thresholds, floor_ns: f64) -> bool {
        let rows = self.rows.unwrap_or(0.0).max(1.0);
        let (blocks, _) = self.blocks.unwrap_or_default();
        self.excess_ns(floor_ns) > 0.0 || blocks > rows * thresholds.of(&UNEXPLAINED_BLOCKS)
    }
}

/// Returns the time that any call of a statement may take, in nanoseconds: the threshold, or on a busy machine a
/// multiple of what other statements take that read few blocks. A quarter of their calls belongs to statements that take less.
pub(super) fn usual_call_ns(
    evidence: &Evidence,
    thresholds: &Thresholds,
    of: &StatementEvidence,
) -> f64 {
    let small = evidence.statements.iter().filter(|one| {
        one.is_work()
            && one.fingerprint != of.fingerprint
            && one.counted.is_some_and(|counted| {
                let blocks = counted.shared_hit + counted.shared_read;
                counted.calls > 0 && blocks <= counted.calls * SMALL_BLOCKS
            })
    });
    let mut small: Vec<(f64, u64)> = small.map(|one| (Work::of(one).ns, one.calls)).collect();
    small.sort_by(|a, b| a.0.total_cmp(&b.0));
    let calls: u64 = small.iter().map(|(_, calls)| calls).sum();
    let mut passed = 0;
    let typical = small.iter().find(|(_, calls_of)| {
        passed += calls_of;
        passed * 4 >= calls
    });
    let typical_ns = typical.map_or(0.0, |(ns, _)| *ns);
    (thresholds.of(&UNEXPLAINED_CALL_MS) * 1e6).max(typical_ns * TYPICAL_TIMES)
}

/// Returns the rows that a plan's aggregates are given, as estimated; an aggregate of many rows
/// reads many blocks for few rows.
fn aggregated_rows(plan: &Plan) -> f64 {
    let mut rows: f64 = 0.0;
    plan.root.each(&mut |node, _| {
        if matches!(
            node.kind.as_str(),
            "Aggregate" | "Group" | "WindowAgg" | "Unique"
        ) {
            let below = node.children.iter().map(|child| child.rows);
            rows = rows.max(below.sum());
        }
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement};

    #[test]
    fn busy_machine_makes_every_call_longer() {
        let with = |ms: f64| {
            let of = |id: u64, calls: u64, ms: f64| {
                statement(id, "select a from b where id = $1")
                    .took(calls, calls as f64 * ms / 1e3)
                    .with_rows(calls)
                    .with_counted(|counted| counted.shared_hit = calls * 3)
            };
            let made = EvidenceBuilder::new()
                .statement(of(1, 900, ms))
                .statement(of(2, 100, 8.0));
            let evidence = made.evidence();
            let thresholds = Thresholds::default();
            evidence
                .statements
                .iter()
                .map(|one| {
                    let floor_ns = usual_call_ns(&evidence, &thresholds, one);
                    Work::of(one).is_excessive(&thresholds, floor_ns)
                })
                .collect::<Vec<bool>>()
        };
        assert_eq!(with(0.2).iter().filter(|one| **one).count(), 1);
        assert_eq!(with(3.0), [false, false]);
    }
}
