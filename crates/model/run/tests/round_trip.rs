//! Round trip of a run, and the sums of its counts.

#[path = "round_trip/evidence.rs"]
mod evidence;
#[path = "round_trip/lost_connections.rs"]
mod lost_connections;
#[path = "round_trip/observed.rs"]
mod observed;
#[path = "round_trip/profiled.rs"]
mod profiled;

use std::collections::BTreeMap;

use std::path::Path;

use proptest::prelude::*;
use run::{
    BuildFact, Captured, DatabaseFact, Execution, ExtensionFact, FactNote, Facts, FunctionFact,
    IndexFact, IndexKey, NoPlan, Outcome, PlanFact, PlanOutcome, RelationFact, RunInfo, RunReader,
    RunStatus, RunWriter, SettingFact, SkipReason, SourceLocation, StatementKind, TargetInfo,
    TriggerFact, WorkloadRef,
};
use sql::{Fingerprint, StatementClass};
use workload::{
    ContextId, ContextText, Sqlstate, StatementContext, StatementText, TraceParent, Unreplayable,
};

fn info() -> RunInfo {
    RunInfo::observation(TargetInfo::default(), BTreeMap::new(), 0)
}

fn statement() -> StatementText {
    StatementText {
        fingerprint: Fingerprint(u64::MAX),
        sql: "select $1".to_owned(),
        class: StatementClass::Select,
    }
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let skips = [
        SkipReason::NoConnection,
        SkipReason::Stopped,
        SkipReason::CancelNotReplayed,
        SkipReason::NothingToCancel,
        SkipReason::TransactionLost,
        SkipReason::ConnectionShared,
        SkipReason::PipelineAborted,
    ]
    .into_iter()
    .chain(Unreplayable::ALL.map(SkipReason::Unreplayable))
    .collect::<Vec<_>>();
    prop_oneof![
        Just(Outcome::Done),
        prop::sample::select(vec![*b"42P01", *b"?????", *b"08006"])
            .prop_map(|code| Outcome::Failed(Sqlstate(code))),
        prop::sample::select(skips).prop_map(Outcome::Skipped),
    ]
}

fn executions() -> impl Strategy<Value = Execution> {
    let times = (
        any::<i64>(),
        any::<Option<i64>>(),
        any::<Option<i64>>(),
        any::<Option<i64>>(),
    );
    let numbers = (
        any::<u64>(),
        any::<u64>(),
        any::<Option<u64>>(),
        any::<u64>(),
        any::<u64>(),
    );
    let captured = (any::<Option<u64>>(), any::<Option<u64>>(), any::<bool>());
    let kind = prop::sample::select(StatementKind::ALL.to_vec());
    let message = prop::option::of(".{0,20}");
    (
        numbers,
        times,
        captured,
        kind,
        outcomes(),
        message,
        any::<u64>(),
    )
        .prop_map(
            |(
                (session, sequence, fingerprint, rows, bytes),
                (due_ns, sent_ns, first_byte_ns, done_ns),
                (duration_us, captured_rows, captured_failed),
                kind,
                outcome,
                message,
                session_lag_ns,
            )| Execution {
                session,
                sequence,
                fingerprint: fingerprint.map(Fingerprint),
                kind,
                outcome,
                due_ns,
                sent_ns,
                first_byte_ns,
                done_ns,
                session_lag_ns,
                stalled_ns: session_lag_ns % 3,
                rows,
                bytes,
                digest: duration_us.map(|us| us ^ rows),
                message,
                captured: Captured {
                    duration_us,
                    rows: captured_rows,
                    sqlstate: captured_failed.then_some(Sqlstate(*b"23505")),
                    digest: captured_rows,
                    context: captured_rows.map(ContextId),
                    trace: duration_us.map(|us| TraceParent {
                        trace_id: u128::from(us) << 64 | 1,
                        span_id: us | 1,
                        flags: us as u8,
                    }),
                    location: SourceLocation::of(session as u32, sequence),
                },
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn executions_come_back_as_they_were_and_the_counts_add_up(
        executions in prop::collection::vec(executions(), 0..200),
        unreached in 0u64..5,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.run");
        let statements = std::iter::once(Ok(statement()));
        let mut writer = RunWriter::create(&path, &info(), statements).unwrap();
        for execution in &executions {
            writer.execution(execution).unwrap();
        }
        let told = writer.finish(info(), unreached).unwrap();
        let reader = RunReader::open(&path).unwrap();
        reader.verify().unwrap();
        prop_assert_eq!(reader.info(), &told);
        let back: Vec<Execution> = reader.executions().unwrap().collect::<Result<_, _>>().unwrap();
        // The place is kept of what one may want to find again.
        let kept: Vec<Execution> = executions
            .iter()
            .map(|execution| {
                let mut kept = execution.clone();
                kept.captured.location = kept.captured.location.filter(|_| execution.differs_from_capture());
                kept
            })
            .collect();
        prop_assert_eq!(&back, &kept);
        let texts: Vec<_> = reader.statements().unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(texts, vec![statement()]);
        let written = executions.iter().filter(|execution| execution.is_statement()).count() as u64;
        prop_assert_eq!(told.statements, written + unreached);
        let failed: u64 = told.failed.values().sum();
        let skipped: u64 = told.skipped.values().sum();
        prop_assert_eq!(told.statements, told.done + failed + skipped);
    }
}

#[test]
fn a_run_of_format_1_is_of_a_log_and_knows_no_places() {
    let before = r#"{"name": "a.workload", "id": "1", "statements": 3}"#;
    let read: WorkloadRef = serde_json::from_str(before).unwrap();
    assert!(read.failures_named);
    assert_eq!(read.sources, Vec::<String>::new());
}

#[test]
fn execution_differs_from_capture_by_failure_or_row_count() {
    let as_captured = |outcome, rows, sqlstate| {
        let execution = Execution {
            session: 1,
            sequence: 1,
            fingerprint: None,
            kind: StatementKind::Simple,
            outcome,
            due_ns: 0,
            sent_ns: None,
            first_byte_ns: None,
            done_ns: None,
            session_lag_ns: 0,
            stalled_ns: 0,
            rows: 5,
            bytes: 0,
            digest: None,
            message: None,
            captured: Captured {
                rows,
                sqlstate,
                digest: None,
                ..Captured::default()
            },
        };
        !execution.differs_from_capture()
    };
    let unique = Sqlstate(*b"23505");
    assert!(as_captured(Outcome::Done, None, None));
    assert!(as_captured(Outcome::Done, Some(5), None));
    assert!(!as_captured(Outcome::Done, Some(4), None));
    assert!(!as_captured(Outcome::Done, None, Some(unique)));
    assert!(!as_captured(Outcome::Failed(unique), None, Some(unique)));
    assert!(as_captured(
        Outcome::Skipped(SkipReason::Stopped),
        Some(4),
        None
    ));
}

#[test]
fn a_killed_replay_is_recovered_up_to_its_last_flush() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let statements = std::iter::once(Ok(statement()));
    let mut writer = RunWriter::create(&path, &info(), statements).unwrap();
    let context = ContextText {
        id: ContextId(7),
        context: StatementContext::from_values(["/x", "", "", "", "mail"].map(Into::into)),
    };
    let contexts = std::iter::once(Ok(context.clone()));
    writer.contexts(contexts).unwrap();
    let execution = |sequence| Execution {
        session: 1,
        sequence,
        fingerprint: Some(Fingerprint(u64::MAX)),
        kind: StatementKind::Simple,
        outcome: Outcome::Done,
        due_ns: 0,
        sent_ns: Some(1),
        first_byte_ns: Some(2),
        done_ns: Some(3),
        session_lag_ns: 0,
        stalled_ns: 0,
        rows: 1,
        bytes: 10,
        digest: None,
        message: None,
        captured: Captured::default(),
    };
    for sequence in 0..100 {
        writer.execution(&execution(sequence)).unwrap();
    }
    writer.flush().unwrap();
    for sequence in 100..150 {
        writer.execution(&execution(sequence)).unwrap();
    }
    // A kill: nothing is closed, nothing dropped.
    std::mem::forget(writer);
    unlocked(&directory.path().join("a.run.partial"));
    let error = RunReader::open(&path).unwrap_err().to_string();
    assert!(error.contains("rehearse recover"), "{error}");
    let partial = directory.path().join("a.run.partial");
    let (recovered, told) = run::recover(&partial).unwrap();
    assert_eq!(recovered, path);
    assert_eq!((told.status, told.statements), (RunStatus::Recovered, 100));
    let reader = RunReader::open(&path).unwrap();
    reader.verify().unwrap();
    assert_eq!(reader.executions().unwrap().count(), 100);
    let contexts: Vec<_> = reader.contexts().unwrap().map(Result::unwrap).collect();
    assert_eq!(contexts, [context]);
    assert_eq!(reader.statements().unwrap().count(), 1);
    assert!(run::recover(&partial).is_err());
}

#[test]
fn a_replay_of_days_that_is_made_safe_often_has_several_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let mut writer = RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
    let execution = |sequence| Execution {
        session: 1,
        sequence,
        fingerprint: None,
        kind: StatementKind::Simple,
        outcome: Outcome::Done,
        due_ns: 0,
        sent_ns: None,
        first_byte_ns: None,
        done_ns: None,
        session_lag_ns: 0,
        stalled_ns: 0,
        rows: 5,
        bytes: 0,
        digest: None,
        message: None,
        captured: Captured::default(),
    };
    for sequence in 0..300 {
        writer.execution(&execution(sequence)).unwrap();
        writer.flush().unwrap();
    }
    drop(writer);
    let partial = directory.path().join("a.run.partial");
    let (path, told) = run::recover(&partial).unwrap();
    assert_eq!(told.statements, 300);
    let is_part = |entry: &std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        name.starts_with("executions-") && name.ends_with(".parquet")
    };
    let files = std::fs::read_dir(&path).unwrap().map(Result::unwrap);
    assert_eq!(files.filter(is_part).count(), 3);
    let reader = RunReader::open(&path).unwrap();
    reader.verify().unwrap();
    let back = reader.executions().unwrap().map(Result::unwrap);
    assert!(back.map(|back| back.sequence).eq(0..300));
}

/// Puts a copy in its place: what a killed process has locked is locked no more.
fn unlocked(partial: &Path) {
    let copy = partial.with_extension("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(partial).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    std::fs::remove_dir_all(partial).unwrap();
    std::fs::rename(&copy, partial).unwrap();
}

fn facts() -> Facts {
    Facts {
        settings: vec![
            SettingFact {
                name: "work_mem".to_owned(),
                value: Some("4096".to_owned()),
                unit: Some("kB".to_owned()),
                category: "Resource Usage / Memory".to_owned(),
                source: "default".to_owned(),
                boot_value: Some("4096".to_owned()),
                pending_restart: true,
            },
            SettingFact {
                name: "primary_conninfo".to_owned(),
                ..SettingFact::default()
            },
        ],
        extensions: vec![ExtensionFact {
            database: "shop".to_owned(),
            name: "plpgsql".to_owned(),
            version: "1.0".to_owned(),
        }],
        databases: vec![DatabaseFact {
            name: "shop".to_owned(),
            encoding: "UTF8".to_owned(),
            collate: "C".to_owned(),
            ctype: "C".to_owned(),
            provider: Some("icu".to_owned()),
            locale: Some("en-US".to_owned()),
            collation_version: Some("153.80".to_owned()),
            collation_version_now: Some("153.112".to_owned()),
            bytes: Some(7),
        }],
        relations: vec![RelationFact {
            database: "shop".to_owned(),
            schema: "public".to_owned(),
            name: "orders".to_owned(),
            kind: "table".to_owned(),
            persistence: "permanent".to_owned(),
            rows: Some(3),
            bytes: None,
            partition_of: Some("public.all".to_owned()),
            partition_key: Some("RANGE (id)".to_owned()),
            options: vec!["fillfactor=70".to_owned()],
            column_names: vec!["id".to_owned(), "v".to_owned()],
            columns: vec!["bigint not null".to_owned(), "text".to_owned()],
            column_collations: vec![String::new(), "\"C\"".to_owned()],
            column_statistics: vec!["500".to_owned(), String::new()],
            partition_bound: Some("FOR VALUES FROM (1) TO (9)".to_owned()),
            has_statistics: Some(false),
            analysed_ago_s: Some(60),
            changed_since_analyze: Some(5),
        }],
        functions: vec![FunctionFact {
            database: "shop".to_owned(),
            schema: "public".to_owned(),
            name: "price_of".to_owned(),
            arguments: "integer".to_owned(),
            definition: "function returns integer language sql stable".to_owned(),
            source_hash: "0123456789abcdef".to_owned(),
        }],
        triggers: vec![TriggerFact {
            database: "shop".to_owned(),
            schema: "public".to_owned(),
            table: "orders".to_owned(),
            name: "tag".to_owned(),
            definition: "CREATE TRIGGER tag …".to_owned(),
            state: "disabled".to_owned(),
        }],
        build: vec![BuildFact {
            name: "jit_available".to_owned(),
            value: "on".to_owned(),
        }],
        indexes: vec![IndexFact {
            database: "shop".to_owned(),
            schema: "public".to_owned(),
            table: "orders".to_owned(),
            name: "orders_pkey".to_owned(),
            definition: "CREATE UNIQUE INDEX orders_pkey ON public.orders USING btree (id)"
                .to_owned(),
            bytes: Some(8192),
            valid: true,
            ready: false,
            key: IndexKey::Unique,
            tablespace: Some("fast".to_owned()),
        }],
        notes: vec![FactNote {
            about: "relations".to_owned(),
            text: "the smallest are left out".to_owned(),
            count: Some(12),
            database: Some("shop".to_owned()),
        }],
    }
}

fn plans() -> Vec<PlanFact> {
    let plan = |fingerprint, outcome| PlanFact {
        fingerprint: sql::Fingerprint(fingerprint),
        service_ns: 1_000,
        calls: 3,
        example: (fingerprint % 2 == 1).then_some((7, fingerprint)),
        database: "shop".to_owned(),
        user: "app".to_owned(),
        outcome,
    };
    let refused = PlanOutcome::Refused {
        sqlstate: Sqlstate(*b"42P01"),
        message: "relation \"gone\" does not exist".to_owned(),
    };
    let mut plans = vec![
        plan(1, PlanOutcome::Planned("[{}]".to_owned())),
        plan(2, refused),
    ];
    plans.extend(NoPlan::ALL.map(|reason| plan(3, PlanOutcome::Unasked(reason))));
    plans
}

#[test]
fn facts_are_read_back_and_survive_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let begin = |name: &str| {
        let path = directory.path().join(name);
        let mut writer =
            RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
        writer.facts(&facts()).unwrap();
        (path, writer)
    };
    let (path, mut writer) = begin("a.run");
    writer.plans(&plans()).unwrap();
    writer.finish(info(), 0).unwrap();
    let reader = RunReader::open(&path).unwrap();
    reader.verify().unwrap();
    assert_eq!(reader.facts().unwrap(), Some(facts()));
    assert_eq!(reader.plans().unwrap(), Some(plans()));

    let (_, writer) = begin("b.run");
    drop(writer);
    let (path, _) = run::recover(&directory.path().join("b.run.partial")).unwrap();
    let reader = RunReader::open(&path).unwrap();
    reader.verify().unwrap();
    assert_eq!(reader.facts().unwrap(), Some(facts()));
    assert_eq!(reader.plans().unwrap(), None);
}

#[test]
fn a_run_that_was_not_asked_for_facts_has_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let writer = RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
    writer.finish(info(), 0).unwrap();
    let reader = RunReader::open(&path).unwrap();
    assert_eq!(
        (reader.facts().unwrap(), reader.plans().unwrap()),
        (None, None)
    );
}

#[test]
fn the_costliest_are_those_with_most_service_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let mut writer = RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
    let execution = |sequence, fingerprint, took_ns: i64, outcome| Execution {
        session: 1,
        sequence,
        fingerprint: Some(sql::Fingerprint(fingerprint)),
        kind: StatementKind::Simple,
        outcome,
        due_ns: 0,
        sent_ns: Some(10),
        first_byte_ns: None,
        done_ns: Some(10 + took_ns),
        session_lag_ns: 0,
        stalled_ns: 0,
        rows: 5,
        bytes: 0,
        digest: None,
        message: None,
        captured: Captured::default(),
    };
    writer
        .execution(&execution(0, 1, 900, Outcome::Done))
        .unwrap();
    assert!(
        writer.most_expensive_statements(9).is_empty(),
        "nobody asked"
    );
    writer.sum_up_service_times();
    let failed = Outcome::Failed(Sqlstate(*b"22012"));
    for (sequence, (fingerprint, took_ns, outcome)) in [
        (1, 5, Outcome::Done),
        (2, 40, Outcome::Done),
        (1, 50, Outcome::Done),
        (3, 9_000, failed),
        (4, 1, Outcome::Done),
    ]
    .into_iter()
    .enumerate()
    {
        let one = execution(1 + sequence as u64, fingerprint, took_ns, outcome);
        writer.execution(&one).unwrap();
    }
    let found = writer.most_expensive_statements(2);
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.fingerprint.0, one.service_ns, one.calls))
        .collect();
    assert_eq!(found, [(1, 55, 2), (2, 40, 1)]);
}
