//! Work of statements, and how much time it usually takes.

use plans::{Plan, TimePart};

use super::evidence::{Evidence, StatementEvidence};
use super::measured_account::MeasuredExecution;
use super::threshold::{Thresholds, UNEXPLAINED_BLOCKS, UNEXPLAINED_CALL_MS};

/// Time that a row may take, in nanoseconds: twice the 4.9 µs of the most expensive of eight kinds of reading that were
/// measured on a busy machine (docs/benchmarks/diagnosis.md). A row that is inserted with three indexes and a reference took
/// 29 µs there, so long inserts may need an explanation.
const ROW_NS: f64 = 10_000.0;
/// Time that a block may take that is not in the server's buffers, in nanoseconds. Random reads from a virtual disk took 84 to
/// 318 µs, 157 µs in the median (the same place).
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

/// Whether a statement's executions on a private copy need no more than its rows, although it seems to need more in the traffic, and reads
/// as many blocks there. Unless it waits in the traffic, its time is then that of a busy machine.
pub fn is_fast_alone(
    thresholds: &Thresholds,
    one: &StatementEvidence,
    executions: &[MeasuredExecution],
    parts: &TimePart,
) -> bool {
    let most = |of: fn(&MeasuredExecution) -> f64| executions.iter().map(of).fold(0.0, f64::max);
    let usual = Work::of(one);
    let (usual_blocks, read) = usual.blocks.unwrap_or_default();
    let blocks = most(|execution| execution.blocks);
    let alone = Work {
        ns: most(|execution| execution.ms) * 1e6,
        // What the planner expected of aggregates may have been wrong.
        rows: usual.rows.map(|rows| rows.max(aggregated_rows_of(parts))),
        blocks: Some((blocks, read)),
    };
    let samples: u64 = one.waits.iter().map(|wait| wait.samples).sum();
    let running: u64 = {
        let all = one.waits.iter().filter(|wait| wait.kind.is_none());
        all.map(|wait| wait.samples).sum()
    };
    let is_reproduced = usual_blocks <= SMALL_BLOCKS as f64 || usual_blocks <= 2.0 * blocks;
    !executions.is_empty()
        && is_reproduced
        && running * 2 >= samples
        && !alone.is_excessive(thresholds, thresholds.of(&UNEXPLAINED_CALL_MS) * 1e6)
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
    // Depth of the last node that gathers the rows of parallel processes, and what the planner divides them by.
    let mut gather = (usize::MAX, 1.0);
    plan.root.each(&mut |node, depth| {
        if depth <= gather.0 {
            gather = (usize::MAX, 1.0);
        }
        if node.workers.is_some() {
            gather = (depth, node.parallel_divisor());
        }
        if matches!(
            node.kind.as_str(),
            "Aggregate" | "Group" | "WindowAgg" | "Unique"
        ) {
            let below = node.children.iter().map(|child| child.rows);
            rows = rows.max(below.sum::<f64>() * gather.1);
        }
    });
    rows
}

/// Returns the rows that aggregates were given.
fn aggregated_rows_of(parts: &TimePart) -> f64 {
    let all = parts.all().into_iter();
    let aggregates = all.filter(|part| {
        let kinds = [
            "Aggregate",
            "HashAggregate",
            "GroupAggregate",
            "Group",
            "WindowAgg",
            "Unique",
        ];
        kinds.iter().any(|kind| part.name.ends_with(kind))
    });
    let rows = aggregates.map(|part| {
        part.children
            .iter()
            .filter_map(|child| child.rows)
            .sum::<f64>()
    });
    rows.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured_account::PlanningMode;
    use crate::synthetic::{EvidenceBuilder, statement};
    use plans::PartKind;
    use time_breakdown::observed::Wait;

    #[test]
    fn statement_that_reads_as_much_alone_and_does_not_wait_is_fast_alone() {
        let with = |blocks: u64, waits: u64| {
            let mut made = statement(1, "select a from b where id = $1")
                .took(100, 1.0)
                .with_rows(100)
                .with_counted(|counted| counted.shared_hit = 100 * blocks);
            made.waits = [(None, 10), (Some("LWLock".to_owned()), waits)]
                .map(|(kind, samples)| Wait {
                    wait: kind.clone(),
                    kind,
                    samples,
                })
                .to_vec();
            made
        };
        let execution = |ms: f64| MeasuredExecution {
            session: 1,
            sequence: 1,
            captured_ms: None,
            mode: PlanningMode::Custom,
            ms,
            blocks: 4.0,
        };
        let part = |name: &str, rows: f64, children: Vec<TimePart>| TimePart {
            kind: PartKind::Node,
            name: name.to_owned(),
            own_ms: 1.0,
            rows: Some(rows),
            estimated_rows: None,
            loops: None,
            blocks: None,
            children,
        };
        let thresholds = Thresholds::default();
        let is_fast = |one: &StatementEvidence, ms: f64| {
            is_fast_alone(
                &thresholds,
                one,
                &[execution(0.01), execution(ms)],
                &part("statement", 0.0, vec![]),
            )
        };
        assert!(is_fast(&with(4, 0), 0.02));
        assert!(!is_fast(&with(4, 0), 8.0));
        // What it reads in the traffic is not on the copy.
        assert!(!is_fast(&with(400, 0), 0.02));
        assert!(!is_fast(&with(4, 30), 0.02));
        // An aggregate of many rows may take longer.
        let aggregate = part(
            "Aggregate",
            1.0,
            vec![part("Seq Scan on b", 10_000.0, vec![])],
        );
        assert!(is_fast_alone(
            &thresholds,
            &with(4, 0),
            &[execution(8.0)],
            &aggregate
        ));
        assert!(!is_fast_alone(&thresholds, &with(4, 0), &[], &aggregate));
    }

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
