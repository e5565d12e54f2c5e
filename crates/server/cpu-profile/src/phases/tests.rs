//! Tests with stacks of real servers, their phases, and the attribution of samples to statements.

use std::collections::HashSet;

use run::StackSample;
use sql::Fingerprint;

use super::phase::Phase;
use super::phase::Phase::*;
use super::{PhaseAccount, Rules, Span, attribute};

/// PostgreSQL 18 with all symbols.
const V18: &str =
    "main;PostmasterMain;ServerLoop;postmaster_child_launch;BackendMain;PostgresMain;";
const V18_RUN: &str =
    "exec_simple_query;PortalRun;PortalRunMulti;ProcessQuery;standard_ExecutorRun;";
/// Debian's PostgreSQL 15, with exported symbols only.
const DEBIAN: &str = "main;PostmasterMain;[postgres];PostgresMain;";
const DEBIAN_RUN: &str =
    "[postgres];PortalRun;[postgres];[postgres];[pg_stat_statements.so];standard_ExecutorRun;";

#[track_caller]
fn are(begins: &[&str], expected: &[(Phase, &str)]) {
    let (rules, begins) = (Rules::new(), begins.concat());
    for (phase, rest) in expected {
        let stack = format!("{begins}{rest}");
        assert_eq!(rules.place(&stack).phase, *phase, "{stack}");
    }
}

#[test]
fn statements_of_a_build_with_all_symbols_are_placed() {
    are(
        &[V18],
        &[
            (
                Parse,
                "exec_simple_query;pg_parse_query;raw_parser;base_yyparse",
            ),
            (
                Parse,
                "exec_simple_query;pg_parse_query;raw_parser;base_yyparse;asm_exc_page_fault_[k];exc_page_fault_[k];handle_mm_fault_[k]",
            ),
            (
                Plan,
                "exec_simple_query;pg_plan_queries;pg_plan_query;planner;standard_planner;subquery_planner;grouping_planner;query_planner;add_base_rels_to_query;build_simple_rel;get_relation_info;index_open;relation_open;LockRelationOid;LockAcquireExtended;SetupLockInTable.isra.5;hash_search_with_hash_value",
            ),
            (
                Plan,
                "exec_simple_query;pg_plan_queries;pg_plan_query;planner;standard_planner;subquery_planner;grouping_planner;query_planner;build_simple_rel;get_relation_info;smgrnblocks;mdnblocks;llseek@GLIBC_2.2.5;entry_SYSCALL_64_after_hwframe_[k];ksys_lseek_[k]",
            ),
            (
                LockManager,
                "exec_simple_query;finish_xact_command;CommitTransactionCommand;CommitTransaction;ResourceOwnerReleaseInternal;ProcReleaseLocks;LockReleaseAll",
            ),
            (
                Statistics,
                "pgstat_report_stat;pgstat_relation_flush_cb;LWLockConditionalAcquire;LWLockAttemptLock;asm_exc_page_fault_[k]",
            ),
            (
                Backend,
                "proc_exit;proc_exit_prepare;shmem_exit;pgstat_shutdown_hook;pgstat_report_stat;pgstat_flush_backend",
            ),
            (
                Backend,
                "BaseInit;InitXLogInsert;MemoryContextAllocZero;asm_exc_page_fault_[k]",
            ),
        ],
    );
    are(
        &[V18, V18_RUN],
        &[
            (Executor, "ExecProcNodeFirst"),
            (
                OpenIndexes,
                "ExecModifyTable;ExecInsert;ExecOpenIndices;BuildIndexInfo",
            ),
            (
                OpenIndexes,
                "ExecModifyTable;ExecInsert;ExecOpenIndices;BuildIndexInfo;RelationGetIndexPredicate;copyObjectImpl",
            ),
            (
                OpenIndexes,
                "ExecModifyTable;ExecInsert;ExecOpenIndices;index_open;relation_open;RelationIdGetRelation;RelationBuildDesc;RelationInitIndexAccessInfo;RelationGetIndexAttOptions;get_attoptions;SearchCatCacheInternal;SearchCatCacheMiss;systable_beginscan;index_beginscan;btbeginscan;AllocSetAllocLarge;malloc;_int_malloc",
            ),
            (
                IndexPredicate,
                "ExecModifyTable;ExecInsert;ExecInsertIndexTuples;ExecPrepareQual;ExecInitQual;ExecCreateExprSetupSteps;ExecPushExprSetupSteps;ExprEvalPushStep;AllocSetAlloc",
            ),
            (
                IndexPredicate,
                "ExecModifyTable;ExecInsert;ExecInsertIndexTuples;ExecInterpExpr",
            ),
            (
                IndexPredicate,
                "ExecModifyTable;ExecInsert;ExecInsertIndexTuples;ExecInterpExpr;texteq;toast_raw_datum_size",
            ),
            (
                IndexInsertion,
                "ExecModifyTable;ExecInsert;ExecInsertIndexTuples",
            ),
            (
                Modify,
                "ExecModifyTable;ExecInsert;heapam_tuple_insert;heap_insert;RelationGetBufferForTuple;ReadBufferExtended;StartReadBuffer",
            ),
        ],
    );
}

#[test]
fn statements_of_a_build_with_exported_symbols_are_placed_by_their_neighbours() {
    are(
        &[DEBIAN],
        &[
            (
                Plan,
                "[postgres];pg_plan_queries;pg_plan_query;[pg_stat_statements.so];standard_planner;set_plan_references;[postgres];[postgres];expression_tree_mutator;lappend;palloc;[postgres]",
            ),
            (
                Backend,
                "InitPostgres;ApplySetting;systable_beginscan;index_open;relation_open;RelationIdGetRelation;[postgres];RelationInitIndexAccessInfo;MemoryContextAllocZero;[postgres]",
            ),
            (Protocol, "[postgres]"),
            (Unplaced, "[postgres];[postgres];[postgres]"),
        ],
    );
    are(
        &[DEBIAN, DEBIAN_RUN],
        &[
            (Unplaced, "[postgres];[postgres];[postgres]"),
            (
                OpenIndexes,
                "[postgres];[postgres];ExecOpenIndices;BuildIndexInfo;RelationGetIndexPredicate;[postgres];lappend;palloc;[postgres]",
            ),
            (
                IndexPredicate,
                "[postgres];[postgres];ExecInsertIndexTuples;ExecInterpExprStillValid;CheckExprStillValid",
            ),
            (
                IndexPredicate,
                "[postgres];[postgres];ExecInsertIndexTuples;ExecPrepareQual;ExecInitQual;[postgres];ExprEvalPushStep",
            ),
            (
                IndexPredicate,
                "[postgres];[postgres];ExecInsertIndexTuples;[postgres];textregexeq",
            ),
            (
                Modify,
                "[postgres];[postgres];[postgres];heap_insert;RelationGetBufferForTuple;[postgres];[postgres]",
            ),
        ],
    );
}

#[test]
fn processes_that_begin_and_end_have_frames_of_the_kernel_only() {
    are(
        &[],
        &[
            (
                Backend,
                "entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__x64_sys_exit_group_[k];do_group_exit_[k];do_exit_[k];exit_mmap_[k];kmem_cache_free_[k]",
            ),
            (
                Backend,
                "main;PostmasterMain;ServerLoop;postmaster_child_launch;fork_process;__libc_fork;_Fork;do_syscall_64_[k];kernel_clone_[k]",
            ),
            (
                Backend,
                "main;PostmasterMain;ServerLoop;postmaster_child_launch;BackendMain;BackendInitialize;pq_getbytes;pq_recvbuf;secure_read;WaitEventSetWait",
            ),
            (Unplaced, "asm_sysvec_apic_timer_interrupt_[k];schedule_[k]"),
            (Unplaced, ""),
            (Unplaced, "[other stacks]"),
        ],
    );
}

#[test]
fn spin_lock_has_the_function_that_took_it() {
    let rules = Rules::new();
    let stack = format!(
        "{V18}exec_simple_query;PortalRun;pgss_ExecutorEnd;pgss_store;s_lock;perform_spin_delay;pg_usleep"
    );
    let placed = rules.place(&stack);
    assert_eq!(
        (placed.phase, placed.holder),
        (SpinLock, Some("pgss_store"))
    );
    let mut account = PhaseAccount::default();
    account.add(placed, Some(Fingerprint(7)));
    account.add(rules.place(V18), None);
    assert_eq!(account.spin_locks(), [("pgss_store".to_owned(), 1)]);
    assert_eq!(account.all().total(), 2);
    assert_eq!(account.all().largest_first().len(), 2);
    assert_eq!(account.statements()[0].sums.samples(SpinLock), 1);
}

#[test]
fn each_function_means_one_phase() {
    let mut seen = HashSet::new();
    for (phase, names) in super::rules::RULES {
        for name in *names {
            assert!(
                seen.insert(name),
                "{name} is a rule twice, last as {phase:?}"
            );
        }
    }
}

fn sample(at_ns: i64, pid: u64) -> StackSample {
    StackSample {
        at_ns,
        pid,
        stack: 0,
    }
}

fn span(pid: u64, from_ns: i64, until_ns: i64, fingerprint: u64) -> Span {
    Span {
        pid,
        from_ns,
        until_ns,
        fingerprint: Fingerprint(fingerprint),
    }
}

/// Samples and spans as they were read; what each sample was given, in the order of time and backend.
fn attributed(samples: &[StackSample], spans: &[Span]) -> Vec<(i64, u64, Option<u64>)> {
    let pids: HashSet<u64> = spans.iter().map(|span| span.pid).collect();
    let mut given = Vec::new();
    attribute::<()>(
        samples.iter().copied().map(Ok),
        spans.iter().copied().map(Ok),
        &pids,
        |sample, statement| given.push((sample.at_ns, sample.pid, statement.map(|one| one.0))),
    )
    .unwrap();
    given.sort_unstable();
    given
}

#[test]
fn a_sample_is_of_the_statement_that_its_backend_carried_out() {
    // A long statement on 1, three short ones on 2 meanwhile; spans come by their ends.
    let spans = [
        span(2, 10, 20, 21),
        span(2, 30, 40, 22),
        span(1, 5, 100, 11),
        span(2, 110, 120, 23),
    ];
    let samples: Vec<StackSample> = [
        (1, 1),
        (2, 1),
        (10, 2),
        (15, 1),
        (15, 9),
        (25, 2),
        (35, 2),
        (40, 2),
        (41, 2),
        (99, 1),
        (101, 1),
        (115, 2),
        (130, 2),
    ]
    .map(|(at, pid)| sample(at, pid))
    .to_vec();
    let given = attributed(&samples, &spans);
    assert_eq!(given.len(), samples.len(), "none is lost");
    let known: Vec<(i64, u64, u64)> = given
        .into_iter()
        .filter_map(|(at, pid, statement)| Some((at, pid, statement?)))
        .collect();
    assert_eq!(
        known,
        [
            (10, 2, 21),
            (15, 1, 11),
            (35, 2, 22),
            (40, 2, 22),
            (99, 1, 11),
            (115, 2, 23)
        ]
    );
}

#[test]
fn of_statements_sent_ahead_the_first_to_end_counts() {
    let spans = [span(1, 0, 10, 1), span(1, 1, 20, 2), span(1, 2, 30, 3)];
    let samples: Vec<StackSample> = (0..35).step_by(5).map(|at| sample(at, 1)).collect();
    let given: Vec<Option<u64>> = attributed(&samples, &spans)
        .into_iter()
        .map(|(_, _, one)| one)
        .collect();
    assert_eq!(
        given,
        [
            Some(1),
            Some(1),
            Some(1),
            Some(2),
            Some(2),
            Some(3),
            Some(3)
        ]
    );
}

#[test]
fn stages_match_the_measurement_of_the_extension() {
    let stage = |frames: &str| super::Stage::of(&format!("{V18}{frames}"));
    use super::Stage::*;
    assert_eq!(
        stage("exec_simple_query;pg_parse_query;raw_parser"),
        Neither
    );
    assert_eq!(
        stage("exec_simple_query;pg_plan_queries;pgss_planner;standard_planner.part.0;ExecutorRun"),
        Planning
    );
    assert_eq!(
        stage("PortalRun;ExecutorStart;standard_ExecutorStart"),
        Neither
    );
    // What a function plans is its caller's execution.
    assert_eq!(
        stage("PortalRun;standard_ExecutorRun;plpgsql_exec_function;standard_planner"),
        Execution
    );
    assert_eq!(
        stage("PortalRunUtility;standard_ProcessUtility;DoCopy"),
        Execution
    );
    assert_eq!(stage("finish_xact_command;CommitTransaction"), Neither);
}
