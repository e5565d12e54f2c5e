//! Searches on two servers that differ in one thing for each database.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use replay::Target;
use transform::SecretRedactor;
use workload::{
    Event, EventKind, Outcome, Provenance, WorkloadReader, WorkloadWriter, WriterOptions,
};

use super::*;

/// Tables of both servers. `x`, `y` and `z` are equal, which only extended statistics show.
const TABLES: &str = "CREATE TABLE other (id int PRIMARY KEY, pad text);
    INSERT INTO other SELECT i, repeat('x', 100) FROM generate_series(1, 20000) i;
    CREATE TABLE facts (id int, kind int, x int, y int, z int, pad text);
    INSERT INTO facts SELECT i, (i % 200 = 0)::int, i % 10, i % 10, i % 10, repeat('x', 100) FROM generate_series(1, 20000) i;
    CREATE INDEX facts_kind ON facts (kind);
    CREATE TABLE parts (id int) PARTITION BY RANGE (id);
    CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9);
    CREATE INDEX parts_id ON parts (id);";
const MANY: &str = "SELECT count(o.pad) FROM facts f JOIN other o USING (id) WHERE f.kind = 0";
const EQUAL: &str = "SELECT count(o.pad) FROM facts f JOIN other o USING (id) WHERE f.x = 1 AND f.y = 1 AND f.z = 1";
const FEW: &str = "SELECT count(pad) FROM facts WHERE kind = 1";

/// Database with one difference: its name, the statements on the old and on the new server, the query, and its remedy.
const CASES: [(&str, &str, &str, &str, &[&str]); 8] = [
    ("equal", "ANALYZE", "ANALYZE", MANY, &[]),
    (
        "unanalyzed",
        "ANALYZE",
        "",
        MANY,
        &["ANALYZE public.facts", "ANALYZE public.other"],
    ),
    (
        "extended",
        "CREATE STATISTICS facts_s (mcv) ON x, y, z FROM facts; ANALYZE",
        "ANALYZE",
        EQUAL,
        &[
            "CREATE STATISTICS public.facts_s (mcv) ON x, y, z FROM public.facts",
            "ANALYZE public.facts",
        ],
    ),
    (
        "setting",
        "ANALYZE",
        "ANALYZE; ALTER DATABASE setting SET random_page_cost = 500",
        FEW,
        &["ALTER DATABASE \"setting\" SET random_page_cost = '4'"],
    ),
    (
        "of_role",
        "ANALYZE",
        "ANALYZE; ALTER ROLE postgres IN DATABASE of_role SET random_page_cost = 500",
        FEW,
        &["ALTER ROLE \"postgres\" IN DATABASE \"of_role\" SET random_page_cost = '4'"],
    ),
    (
        "invalid",
        "ANALYZE",
        "ANALYZE; UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'facts_kind'::regclass",
        FEW,
        &["REINDEX INDEX public.facts_kind"],
    ),
    (
        "missing",
        "ANALYZE",
        "ANALYZE; DROP INDEX facts_kind",
        FEW,
        &["CREATE INDEX facts_kind ON public.facts USING btree (kind)"],
    ),
    (
        "several",
        "CREATE INDEX facts_x ON facts (x); ANALYZE",
        "CREATE INDEX facts_x ON facts (x); DROP INDEX facts_kind; \
         UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'facts_x'::regclass",
        FEW,
        &[
            "CREATE INDEX facts_kind ON public.facts USING btree (kind)",
            "REINDEX INDEX public.facts_x",
            "ANALYZE public.facts",
        ],
    ),
];

/// Writes a workload of one execution.
fn workload(path: &Path, database: &str, sql: &str) -> WorkloadReader {
    workload_of(path, database, &[sql.to_owned()])
}

/// Writes a workload of executions. The first one was the fastest in the capture, the last one the slowest.
fn workload_of(path: &Path, database: &str, executions: &[String]) -> WorkloadReader {
    let event = |sequence: u64, kind| Event {
        session: 0,
        sequence,
        due_us: sequence as i64,
        kind,
        outcome: Outcome {
            duration_us: (sequence > 0).then_some(sequence),
            ..Outcome::default()
        },
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        wire_details: None,
    };
    let connect = EventKind::Connect {
        database: database.into(),
        user: "postgres".into(),
        application: "".into(),
    };
    let options = WriterOptions::default();
    let mut writer = WorkloadWriter::create(path, options, SecretRedactor::default()).unwrap();
    writer.event(&event(0, connect).borrowed()).unwrap();
    for (sql, sequence) in executions.iter().zip(1..) {
        let kind = EventKind::Simple {
            sql: sql.as_str().into(),
        };
        writer.event(&event(sequence, kind).borrowed()).unwrap();
    }
    writer.finish(Provenance::default()).unwrap();
    WorkloadReader::open(path).unwrap()
}

#[test]
fn search_finds_the_remedy_of_each_difference_and_leaves_nothing() {
    // Two servers with seven databases each take 20 seconds.
    if test_support::skip_unless_set("REHEARSE_TEST_UPGRADES", "20 seconds") {
        return;
    }
    let settings = [("autovacuum", "off"), ("jit", "off")];
    let server = || test_support::server().settings(&settings).start();
    let ((_old, old), (_new, new)) = (server(), server());
    let directory = tempfile::tempdir().unwrap();
    let execute = |url: &str, sql: &str| {
        let target = Target::parse(url, |_| None).unwrap();
        let script = crate::ChangeScript::new("test", sql).unwrap();
        script.apply(&target, &Interrupt::default()).unwrap();
        target
    };
    for (database, before, after, sql, remedy) in CASES {
        let targets = [(&old, before), (&new, after)].map(|(endpoint, change)| {
            execute(
                &endpoint.url("postgres"),
                &format!("CREATE DATABASE {database}"),
            );
            execute(&endpoint.url(database), &format!("{TABLES} {change}"))
        });
        let workload = workload(&directory.path().join(database), database, sql);
        let search = RemedySearch {
            old: &targets[0],
            new: &targets[1],
            logins: &LoginMap::default(),
            access: TrialAccess::Disposable,
            captured: database,
            slower: &HashMap::new(),
            limit: Duration::from_secs(120),
            literals: Literals::Shown,
            interrupt: &Interrupt::default(),
        };
        // The search twice: the trials of the first one changed nothing.
        let mut wanted = remedy;
        for _ in 0..2 {
            let found = search_remedies(&search, &workload, RemedySearchResult::default()).unwrap();
            assert_eq!(found.notes, Vec::<String>::new());
            assert_eq!(found.plans.len(), 1, "{database}");
            let coverage = found.coverage();
            assert_eq!((coverage.examined, coverage.planned), (1, 1));
            let remedies: Vec<_> = found.regressions.iter().map(|one| &one.remedy).collect();
            match (&found.regressions[..], wanted) {
                ([], []) => {}
                ([one], [_, ..]) => {
                    let chosen = one.remedy.as_ref().unwrap_or_else(|| panic!("{one:#?}"));
                    assert_eq!(chosen.statements, remedy, "{one:#?}");
                    assert_eq!(one.sign, RegressionSign::Work);
                    let blocks = [one.new_work, one.remedied_work].map(|work| work.unwrap().blocks);
                    assert!(blocks[1] < blocks[0] / 2.0, "{one:#?}");
                }
                _ => panic!("{database}: {remedies:#?}"),
            }
            let script = found.script();
            assert!(
                wanted
                    .iter()
                    .all(|one| script.iter().any(|known| known == one))
            );
            // What the server lacked is in place.
            if !found.missing.is_empty() {
                wanted = &[];
            }
        }
    }
}

/// Searches remedies for a workload whose only statement the replays showed as slower.
fn slower_statement(targets: &[Target; 2], workload: &WorkloadReader) -> UpgradeRegression {
    let texts = workload.statements().unwrap();
    let slower = texts.map(|text| (text.unwrap().fingerprint, RegressionSign::Slower));
    let search = RemedySearch {
        old: &targets[0],
        new: &targets[1],
        logins: &LoginMap::default(),
        access: TrialAccess::Disposable,
        captured: "postgres",
        slower: &slower.collect(),
        limit: Duration::from_secs(120),
        literals: Literals::Shown,
        interrupt: &Interrupt::default(),
    };
    let found = search_remedies(&search, workload, RemedySearchResult::default()).unwrap();
    let [one] = &found.regressions[..] else {
        panic!("{found:#?}");
    };
    one.clone()
}

/// Rows that are equal in three columns. Statistics from before they differed estimate many, those from after it few.
const ONES: &str = "CREATE TABLE other (id int PRIMARY KEY, pad text);
    INSERT INTO other SELECT i, repeat('x', 100) FROM generate_series(1, 20000) i;
    CREATE TABLE facts (id int, x int, y int, z int, pad text);
    INSERT INTO facts SELECT i, 1, 1, 1, repeat('x', 100) FROM generate_series(1, 20000) i;
    ANALYZE; UPDATE facts SET x = id % 10, y = id % 10, z = id % 10;";

#[test]
fn plan_that_the_old_server_also_chooses_with_new_statistics_depends_on_the_sample() {
    if test_support::skip_unless_set("REHEARSE_TEST_UPGRADES", "10 seconds") {
        return;
    }
    let settings = [("autovacuum", "off"), ("jit", "off")];
    let server = || test_support::server().settings(&settings).start();
    let ((_old, old), (_new, new)) = (server(), server());
    let directory = tempfile::tempdir().unwrap();
    let targets = [(&old, "SELECT 1"), (&new, "ANALYZE")].map(|(endpoint, change)| {
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        for sql in [ONES, "VACUUM FULL facts", change] {
            let script = crate::ChangeScript::new("test", sql).unwrap();
            script.apply(&target, &Interrupt::default()).unwrap();
        }
        target
    });
    let workload = workload(&directory.path().join("w"), "postgres", EQUAL);
    let one = slower_statement(&targets, &workload);
    let dependence = one.sample_dependence.unwrap_or_else(|| panic!("{one:#?}"));
    assert_eq!(dependence.old_with_new_plan, dependence.samples, "{one:#?}");
    let note = one.note.as_deref().unwrap_or_default();
    assert!(note.contains("public.facts, public.other"), "{note}");
}

#[test]
fn remedy_is_found_for_the_values_that_have_another_plan() {
    if test_support::skip_unless_set("REHEARSE_TEST_UPGRADES", "10 seconds") {
        return;
    }
    let settings = [("autovacuum", "off"), ("jit", "off")];
    let server = || test_support::server().settings(&settings).start();
    let ((_old, old), (_new, new)) = (server(), server());
    let directory = tempfile::tempdir().unwrap();
    let costs = "ALTER DATABASE postgres SET random_page_cost = 500";
    let targets = [(&old, "SELECT 1"), (&new, costs)].map(|(endpoint, change)| {
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        for sql in [TABLES, "ANALYZE", change] {
            let script = crate::ChangeScript::new("test", sql).unwrap();
            script.apply(&target, &Interrupt::default()).unwrap();
        }
        target
    });
    // The fastest, the median and the slowest execution read the whole table on both servers. The fourth reads few rows.
    let execution = |number: i32| {
        let kind = i32::from(number == 3);
        format!("SELECT count(pad) FROM facts WHERE kind = {kind} AND id > {number}")
    };
    let executions: Vec<String> = (0..11).map(execution).collect();
    let workload = workload_of(&directory.path().join("w"), "postgres", &executions);
    let one = slower_statement(&targets, &workload);
    let remedy = one.remedy.as_ref().unwrap_or_else(|| panic!("{one:#?}"));
    assert_eq!(
        remedy.statements,
        ["ALTER DATABASE \"postgres\" SET random_page_cost = '4'"]
    );
    let note = one.note.as_deref().unwrap_or_default();
    let plans = "It has another plan for 1 of 8 other executions: Seq Scan on facts instead of ";
    assert!(note.starts_with(plans), "{note}");
}
