//! Causes, what slowed along with them, and the verdict, on synthetic runs with statement statistics.

mod made_up;

use compare::{
    CompareOptions, Comparison, Direction, InconclusiveReason, ObservationUnit, RunStats, Runs,
    StatementChange, StatementRole, Verdict, Warning, compare,
};
use made_up::{Chance, done, info, text};
use plans::statement_plans;
use run::{Execution, MachineLoad, PlanFact, PlanOutcome, RunInfo, StatementStatistics};
use sql::Fingerprint;
use workload::Literals;

/// Number of statements.
const STATEMENTS: u64 = 10;
/// Calls of a statement in a run.
const CALLS: u64 = 600;
/// The statement that the tests change.
const CHANGED: u64 = 4;

/// A run of one server on a machine.
#[derive(Clone, Copy)]
struct Server {
    seed: u64,
    /// Factor by which the machine slows all statements.
    load: f64,
    /// Factor of the changed statement's time.
    factor: f64,
    /// Blocks of an execution of it.
    blocks: u64,
    /// Whether the server counts the work of statements.
    has_statistics: bool,
    /// Whether it counts that of the changed statement only.
    counts_only_changed: bool,
    /// Table that the changed statement reads.
    changed_table: &'static str,
    /// Time that the client of each statement waits for its own processor, in nanoseconds on average.
    client_ns: f64,
    /// The same of the changed statement in addition.
    client_changed_ns: f64,
    /// Number of executions of the changed statement that the machine stalls for 20 ms.
    stalls: u64,
    /// Share of the machine that others use, if it was measured.
    others: Option<f64>,
    /// Share of the time in which the replay's control group is throttled.
    throttled: Option<f64>,
}

impl Default for Server {
    fn default() -> Self {
        Server {
            seed: 1,
            load: 1.0,
            factor: 1.0,
            blocks: 20,
            has_statistics: true,
            counts_only_changed: false,
            changed_table: "t",
            client_ns: 0.0,
            client_changed_ns: 0.0,
            stalls: 0,
            others: None,
            throttled: None,
        }
    }
}

impl Server {
    fn info(self) -> RunInfo {
        let machine = self.others.map(|others| MachineLoad {
            others: Some(others),
            throttled: self.throttled,
            waited: Some(0.9),
            ..MachineLoad::default()
        });
        RunInfo { machine, ..info() }
    }

    fn run(self) -> RunStats {
        self.run_as(self.info())
    }

    fn run_as(self, info: RunInfo) -> RunStats {
        let mut chance = Chance::new(self.seed);
        let mut executions: Vec<Execution> = Vec::new();
        let mut exec_ns = [0.0; STATEMENTS as usize];
        let mut exec_square_us2 = [0.0; STATEMENTS as usize];
        for number in 0..STATEMENTS * CALLS {
            let which = number % STATEMENTS;
            let factor = if which == CHANGED { self.factor } else { 1.0 };
            let stalled_ns = match which == CHANGED && number / STATEMENTS < self.stalls {
                true => 2e7,
                false => 0.0,
            };
            let service_ns =
                5e5 * (1 + which) as f64 * factor * self.load * chance.skewed() + stalled_ns;
            exec_ns[which as usize] += service_ns * 0.8;
            exec_square_us2[which as usize] += (service_ns * 0.8 / 1e3).powi(2);
            let own_ns = if which == CHANGED {
                self.client_changed_ns
            } else {
                0.0
            };
            // Long waits come in bursts: an exponential distribution of each stretch.
            let stretch = number / 500;
            let burst = -Chance::new(self.seed * 1_000 + stretch)
                .uniform()
                .max(1e-9)
                .ln();
            let waited_ns = self.client_ns * burst * chance.skewed() + own_ns * chance.skewed();
            let service_ns = service_ns + waited_ns;
            executions.push(done(which, number, number as i64 * 10_000_000, service_ns));
        }
        let table = |id| {
            if id == CHANGED {
                self.changed_table
            } else {
                "t"
            }
        };
        let sql = |id| format!("select {id} from {}", table(id));
        let texts = (0..STATEMENTS).map(|id| Ok(text(id, &sql(id))));
        let mut run = RunStats::collect::<()>(info, executions.into_iter().map(Ok), texts).unwrap();
        if self.has_statistics {
            let is_counted = |which: &u64| !self.counts_only_changed || *which == CHANGED;
            let rows = (0..STATEMENTS).filter(is_counted).map(|which| {
                let blocks = if which == CHANGED { self.blocks } else { 20 };
                Ok::<_, ()>(StatementStatistics {
                    fingerprint: Some(Fingerprint(which)),
                    calls: CALLS,
                    exec_ns: exec_ns[which as usize] as u64,
                    exec_square_us2: Some(exec_square_us2[which as usize] as u64),
                    shared_hit: blocks * CALLS,
                    ..StatementStatistics::default()
                })
            });
            run.add_statistics(rows).unwrap();
        }
        run
    }
}

fn compared(before: &[Server], after: &[Server]) -> Comparison {
    let runs = |side: &[Server]| side.iter().map(|server| server.run()).collect();
    let runs = Runs {
        before: runs(before),
        after: runs(after),
        noise: Vec::new(),
    };
    compare(runs, CompareOptions::default())
}

fn causes(comparison: &Comparison) -> Vec<u64> {
    let causes = comparison.causes(Direction::Slower);
    causes.map(|one| one.fingerprint.0).collect()
}

#[test]
fn statement_with_more_work_is_the_only_cause_and_others_slow_along() {
    let before = Server::default();
    let after = Server {
        seed: 2,
        load: 1.8,
        factor: 3.0,
        blocks: 900,
        ..before
    };
    let comparison = compared(&[before], &[after]);
    assert_eq!(causes(&comparison), [CHANGED]);
    let Verdict::Regression {
        causes: 1, along, ..
    } = comparison.verdict
    else {
        panic!("{:?}", comparison.verdict);
    };
    assert_eq!(along, STATEMENTS as usize - 1);
    let common = comparison.common.unwrap();
    assert_eq!(common.statements, STATEMENTS as usize - 1);
    assert!((1.7..1.9).contains(&common.factor()), "{common:?}");
}

#[test]
fn busy_machine_is_inconclusive_and_accuses_nobody() {
    let before = Server::default();
    let after = Server {
        seed: 2,
        load: 2.4,
        ..before
    };
    let comparison = compared(&[before], &[after]);
    assert_eq!(causes(&comparison), [] as [u64; 0]);
    let Verdict::Inconclusive { reason, .. } = comparison.verdict else {
        panic!("{:?}", comparison.verdict);
    };
    assert_eq!(reason, InconclusiveReason::RunAsAWhole);
    // The same of faster runs: nothing got faster independently.
    let back = compared(&[after], &[before]);
    assert_eq!(back.verdict, Verdict::NoRegression { faster: 0 });
}

#[test]
fn execution_time_beside_the_others_is_a_cause_without_more_work() {
    let before = Server::default();
    let slower = |factor, load| Server {
        seed: 2,
        load,
        factor,
        ..before
    };
    assert_eq!(causes(&compared(&[before], &[slower(2.5, 1.6)])), [CHANGED]);
    // The work is the same, and the time not far enough from that of the others.
    let little = compared(&[before], &[slower(1.4, 1.6)]);
    assert_eq!(causes(&little), [] as [u64; 0]);
}

#[test]
fn a_few_stalls_of_short_executions_are_no_cause() {
    // Executions of 50 µs, and a client that waits for its processor.
    let short = |seed, stalls| Server {
        seed,
        factor: 0.02,
        client_ns: 5e6,
        stalls,
        ..Server::default()
    };
    // The mean is four times as long, by ten executions.
    let single = compared(&[short(1, 0)], &[short(2, 10)]);
    assert_eq!(causes(&single), [] as [u64; 0]);
    // In one of four runs, even many executions do not show that the server is slower, nor that it may be.
    let runs = |first, stalls: [u64; 4]| -> Vec<Server> {
        (first..)
            .zip(stalls)
            .map(|(seed, one)| short(seed, one))
            .collect()
    };
    let repeated = compared(&runs(1, [0; 4]), &runs(5, [0, 80, 0, 0]));
    assert_eq!(causes(&repeated), [] as [u64; 0]);
    let mut statements = repeated.statements.iter();
    let changed = statements.find(|one| one.fingerprint.0 == CHANGED).unwrap();
    assert!(!changed.change.is_suspected(), "{:?}", changed.change);
    // In two of four they may be.
    let half = compared(&runs(1, [0; 4]), &runs(5, [0, 80, 80, 0]));
    assert_eq!(causes(&half), [] as [u64; 0]);
    let mut statements = half.statements.iter();
    let changed = statements.find(|one| one.fingerprint.0 == CHANGED).unwrap();
    assert!(changed.change.is_suspected(), "{:?}", changed.change);
    // One of each run is a stall of the machine.
    let each = compared(&runs(1, [0; 4]), &runs(5, [1, 2, 2, 1]));
    assert_eq!(causes(&each), [] as [u64; 0]);
    let mut statements = each.statements.iter();
    let changed = statements.find(|one| one.fingerprint.0 == CHANGED).unwrap();
    assert!(!changed.change.is_suspected(), "{:?}", changed.change);
    // Many in all of them show that the server stalls, not the machine.
    let always = compared(&runs(1, [0; 4]), &runs(5, [20; 4]));
    assert_eq!(causes(&always), [CHANGED]);
}

#[test]
fn execution_time_is_a_cause_if_clients_wait_for_their_processor() {
    // Clients wait for half a second; the statement takes 2.5 ms at the server, and then 10.
    let busy = |seed, factor| Server {
        seed,
        factor,
        client_ns: 5e8,
        ..Server::default()
    };
    let comparison = compared(&[busy(1, 1.0)], &[busy(2, 4.0)]);
    assert_eq!(causes(&comparison), [CHANGED]);
    let others = compared(&[busy(1, 1.0)], &[busy(2, 1.0)]);
    assert_eq!(causes(&others), [] as [u64; 0]);
    // Clients show nothing, and the server's times exclude a doubling.
    assert!(
        matches!(others.verdict, Verdict::NoRegression { .. }),
        "{:?}",
        others.verdict
    );
}

#[test]
fn statement_that_the_server_executes_faster_does_not_look_slower() {
    let before = Server::default();
    let after = Server {
        seed: 2,
        factor: 0.37,
        client_changed_ns: 2e7,
        ..before
    };
    let comparison = compared(&[before], &[after]);
    let mut statements = comparison.statements.iter();
    let changed = statements.find(|one| one.fingerprint.0 == CHANGED).unwrap();
    assert!(!changed.change.is_suspected(), "{:?}", changed.change);
    assert_eq!(causes(&comparison), [] as [u64; 0]);
}

#[test]
fn pairs_are_the_unit_if_the_replays_were_made_in_pairs() {
    let run = |seed: u64, pair: u32, side: &str, load: f64, factor: f64| {
        let server = Server {
            seed,
            load,
            factor,
            has_statistics: false,
            ..Server::default()
        };
        let mut info = server.info();
        for (name, value) in [
            (run::PAIR_OPTION, pair.to_string()),
            (run::PAIR_SIDE_OPTION, side.to_owned()),
            (run::PAIR_SEED_OPTION, "7".to_owned()),
        ] {
            info.options.insert(name.to_owned(), value);
        }
        server.run_as(info)
    };
    // The machine is busier from pair to pair, by half, and the order of the runs is mixed.
    let compare_all = |pairs: [u32; 4]| {
        let side = |first: u64, side: &str, factor: f64| -> Vec<RunStats> {
            let each = pairs.iter().zip(first..);
            each.map(|(pair, seed)| run(seed, *pair, side, 1.5_f64.powi(*pair as i32), factor))
                .collect()
        };
        let mut after = side(11, "after", 1.4);
        after.reverse();
        let runs = Runs {
            before: side(1, "before", 1.0),
            after,
            noise: Vec::new(),
        };
        compare(runs, CompareOptions::default())
    };
    let paired = compare_all([1, 2, 3, 4]);
    assert_eq!(paired.unit, ObservationUnit::Pair);
    assert_eq!(causes(&paired), [CHANGED]);
    // A pair that is there twice is none.
    let unpaired = compare_all([1, 2, 3, 3]);
    assert_eq!(unpaired.unit, ObservationUnit::Run);
    assert_eq!(causes(&unpaired), [] as [u64; 0]);
}

#[test]
fn without_statistics_a_difference_of_one_run_a_side_is_only_named() {
    let without = |server| Server {
        has_statistics: false,
        ..server
    };
    let before = without(Server::default());
    let after = |factor| Server {
        seed: 2,
        factor,
        ..before
    };
    let named = compared(&[before], &[after(2.0)]);
    assert_eq!(causes(&named), [] as [u64; 0]);
    let suspects = named
        .statements
        .iter()
        .filter(|one| one.change.is_suspected());
    let suspects: Vec<u64> = suspects.map(|one| one.fingerprint.0).collect();
    assert_eq!(suspects, [CHANGED]);
    assert_eq!(causes(&compared(&[before], &[after(5.0)])), [CHANGED]);
}

#[test]
fn more_runs_do_not_weaken_what_work_shows() {
    let before = |seed, load| Server {
        seed,
        load,
        ..Server::default()
    };
    let after = |seed, load| Server {
        factor: 100.0,
        blocks: 4_000,
        ..before(seed, load)
    };
    let one = compared(&[before(1, 1.0)], &[after(2, 1.0)]);
    let two = compared(
        &[before(1, 1.0), before(3, 2.5)],
        &[after(2, 1.0), after(4, 3.0)],
    );
    assert_eq!(causes(&one), [CHANGED]);
    assert_eq!(causes(&two), [CHANGED]);
}

#[test]
fn repeated_runs_prove_a_small_difference() {
    let before = |seed| Server {
        seed,
        has_statistics: false,
        ..Server::default()
    };
    let after = |seed| Server {
        factor: 1.4,
        ..before(seed)
    };
    let comparison = compared(
        &[before(1), before(2), before(3)],
        &[after(4), after(5), after(6)],
    );
    assert_eq!(causes(&comparison), [CHANGED]);
}

#[test]
fn other_plan_with_more_time_is_a_cause() {
    let before = Server::default();
    let after = Server {
        seed: 2,
        factor: 1.8,
        ..before
    };
    let mut comparison = compared(&[before], &[after]);
    assert_eq!(causes(&comparison), [] as [u64; 0]);
    let plan = |node: &str| PlanFact {
        fingerprint: Fingerprint(CHANGED),
        service_ns: 0,
        calls: 0,
        example: None,
        database: String::new(),
        user: String::new(),
        outcome: PlanOutcome::Planned(format!(
            r#"[{{"Plan": {{"Node Type": "{node}", "Relation Name": "t", "Alias": "t", "Startup Cost": 0, "Total Cost": 1, "Plan Rows": 1, "Plan Width": 4}}}}]"#
        )),
    };
    let (one, other) = (plan("Index Scan"), plan("Seq Scan"));
    comparison.set_plans(|statement| {
        let is_it = statement.fingerprint.0 == CHANGED;
        statement_plans(
            is_it.then_some(&one),
            is_it.then_some(&other),
            Literals::Hidden,
        )
    });
    assert_eq!(causes(&comparison), [CHANGED]);
    let changed = comparison.causes(Direction::Slower).next().unwrap();
    assert!(
        matches!(changed.change, StatementChange::Independent { relative, .. } if relative > 1.6)
    );
}

#[test]
fn busy_machine_accuses_nobody_if_only_one_statement_is_counted() {
    let before = Server {
        counts_only_changed: true,
        ..Server::default()
    };
    // It reads more, and takes no longer than the others.
    let after = Server {
        seed: 2,
        load: 2.4,
        blocks: 40,
        ..before
    };
    assert_eq!(causes(&compared(&[before], &[after])), [] as [u64; 0]);
}

#[test]
fn catalogue_query_that_slowed_is_listed_and_not_judged() {
    let before = Server {
        changed_table: "pg_catalog.pg_class",
        ..Server::default()
    };
    let after = Server {
        seed: 2,
        factor: 30.0,
        blocks: 900,
        ..before
    };
    let comparison = compared(&[before], &[after]);
    assert_eq!(causes(&comparison), [0; 0]);
    assert!(!comparison.has_regression(), "{:?}", comparison.verdict);
    let mut statements = comparison.statements.iter();
    let changed = statements.find(|one| one.fingerprint.0 == CHANGED).unwrap();
    assert_eq!(changed.role, StatementRole::Catalogue);
    assert_eq!(changed.change, StatementChange::None);
}

#[test]
fn busier_machine_leaves_a_slower_run_unproven_and_says_so() {
    let side = |seeds: [u64; 3], load: f64, others: Option<f64>| {
        seeds.map(|seed| Server {
            seed,
            load,
            others,
            ..Server::default()
        })
    };
    let before = side([1, 2, 3], 1.0, Some(0.05));
    // The server is slower, and the machine is as before.
    let slower = compared(&before, &side([4, 5, 6], 1.8, Some(0.08)));
    assert!(slower.has_regression(), "{:?}", slower.verdict);
    let busier = compared(&before, &side([4, 5, 6], 1.8, Some(0.6)));
    let Verdict::Inconclusive { reason, .. } = busier.verdict else {
        panic!("{:?}", busier.verdict);
    };
    assert_eq!(reason, InconclusiveReason::MachineBusier);
    let warned = busier.warnings.iter();
    let warned = warned.filter(|one| matches!(one, Warning::MachineBusy { .. }));
    assert_eq!(warned.count(), 3);
    // The server's own use of its processors may be what the limit throttles.
    let throttled = side([4, 5, 6], 1.8, Some(0.05)).map(|server| Server {
        throttled: Some(0.6),
        ..server
    });
    let throttled = compared(&before, &throttled);
    assert!(throttled.has_regression(), "{:?}", throttled.verdict);
    // Without a measurement on one side nothing is known.
    let unknown = compared(
        &side([1, 2, 3], 1.0, None),
        &side([4, 5, 6], 1.8, Some(0.6)),
    );
    assert!(unknown.has_regression(), "{:?}", unknown.verdict);
}

#[test]
fn whole_run_is_no_regression_if_clients_waited_on_a_busy_machine_and_execution_times_are_equal() {
    let side = |seeds: [u64; 3], client_ns: f64, others: f64| {
        seeds.map(|seed| Server {
            seed,
            client_ns,
            others: Some(others),
            ..Server::default()
        })
    };
    let judged = |others| {
        let before = side([1, 2, 3], 1e4, others);
        compared(&before, &side([4, 5, 6], 6e6, others)).verdict
    };
    // On a machine of its own, the clients' times are the server's, or the network's.
    assert!(
        matches!(
            judged(0.05),
            Verdict::Regression {
                causes: 0,
                overall: true,
                ..
            }
        ),
        "{:?}",
        judged(0.05)
    );
    let reason = InconclusiveReason::RunAsAWhole;
    assert!(
        matches!(judged(0.6), Verdict::Inconclusive { reason: found, .. } if found == reason),
        "{:?}",
        judged(0.6)
    );
}
