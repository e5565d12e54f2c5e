//! `rehearse plans`: export, and check of two versions, a migration and a setting.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use super::observed::{holds_to_schema, json};
use super::{rehearse, run, server, succeeds};

const SCHEMA: &str = "
    CREATE TABLE items (id int PRIMARY KEY, kind int, price int, note text);
    INSERT INTO items SELECT n, n % 2000, n % 7, repeat('x', 50) FROM generate_series(1, 60000) n;
    CREATE INDEX items_kind ON items (kind);
    CREATE TABLE days (day date NOT NULL, n int) PARTITION BY RANGE (day);
    CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2026-01-01') TO ('2026-01-02');
    CREATE TABLE days_2 PARTITION OF days FOR VALUES FROM ('2026-01-02') TO ('2026-01-03');
    INSERT INTO days SELECT '2026-01-01'::date + n % 2, n FROM generate_series(1, 2000) n;
    VACUUM ANALYZE items; ANALYZE days; CHECKPOINT";

/// Statements of the workload: by an index, a partition, an update, and a table that does not exist.
const LINES: [(&str, Option<&str>); 5] = [
    (
        "execute S_1: SELECT id, note FROM items WHERE kind = $1",
        Some("parameters: $1 = '17'"),
    ),
    (
        "statement: SELECT sum(n) FROM days WHERE day = '2026-01-02'",
        None,
    ),
    ("statement: UPDATE items SET price = 3 WHERE id = 90", None),
    ("statement: SELECT note FROM items WHERE id = 4", None),
    ("statement: SELECT 1 FROM temporary_of_a_session", None),
];

fn workload(directory: &Path) -> String {
    workload_of(directory, "postgres", &LINES)
}

fn workload_of(directory: &Path, user: &str, lines: &[(&str, Option<&str>)]) -> String {
    let mut log = format!(
        "2026-03-01 09:00:00.000 UTC [7] LOG:  connection authorized: user={user} database=postgres\n"
    );
    for (at, (statement, detail)) in (10..).zip(lines) {
        let start = format!("2026-03-01 09:00:00.0{at} UTC [7] ");
        log.push_str(&format!("{start}LOG:  duration: 1.000 ms  {statement}\n"));
        if let Some(detail) = detail {
            log.push_str(&format!("{start}DETAIL:  {detail}\n"));
        }
    }
    let path = directory.join("items.log").display().to_string();
    std::fs::write(&path, log).unwrap();
    let workload = directory.join("items.workload").display().to_string();
    succeeds(&[
        "capture", "log", &path, "--prefix", "%m [%p] ", "-o", &workload,
    ]);
    workload
}

fn check(workload: &str, planner: &str, options: &[&str]) -> (Option<i32>, Value) {
    let arguments = [
        &["plans", "check", workload, "--planner", planner, "--json"],
        options,
    ]
    .concat();
    let output = rehearse(&arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    let value = json(&text);
    holds_to_schema("plans-check", &value);
    (output.status.code(), value)
}

fn verdict<'v>(check: &'v Value, sql: &str) -> &'v str {
    let statements = check["statements"].as_array().unwrap();
    let found = statements
        .iter()
        .find(|one| one["sql"].as_str().unwrap().contains(sql));
    found.unwrap_or_else(|| panic!("{sql}: {check}"))["verdict"]
        .as_str()
        .unwrap()
}

#[test]
fn plans_check_finds_what_a_migration_and_a_setting_change_and_nothing_else() {
    let (_sandbox, endpoint) = server(15);
    run(&endpoint, SCHEMA);
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let planner = directory.path().join("items.planner").display().to_string();
    let url = endpoint.url("postgres");
    let text = succeeds(&["plans", "export", "--target", &url, "-o", &planner]);
    assert!(text.contains("no rows"), "{text}");
    let mode = std::fs::metadata(&planner).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = rehearse(&["plans", "export", "--target", &url, "-o", &planner]);
    assert_eq!(again.status.code(), Some(2), "{again:?}");

    let migration = directory.path().join("next.sql").display().to_string();
    std::fs::write(
        &migration,
        "DROP INDEX items_kind; ALTER TABLE items DROP COLUMN price; UPDATE items SET note = ''",
    )
    .unwrap();
    let fail = ["--fail-on", "sequential-scan", "--fail-on", "lost-pruning"];
    let page = directory.path().join("plans.html").display().to_string();
    let (code, found) = check(
        &workload,
        &planner,
        &[&["--change", &migration, "--html", &page], &fail[..]].concat(),
    );
    assert_eq!(code, Some(1), "{found}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Seq Scan on items"), "{page}");
    assert_eq!(verdict(&found, "where kind"), "changed");
    // Without its index no statistics bring the plan back.
    let all = found["statements"].as_array().unwrap();
    let by_kind = all
        .iter()
        .find(|one| one["sql"].as_str().unwrap().contains("where kind"));
    let copies = &by_kind.unwrap()["plans"][0]["perturbed"];
    assert_eq!(
        (&copies["copies"], &copies["changed"]),
        (&4.into(), &4.into()),
        "{copies}"
    );
    assert_eq!(verdict(&found, "set price"), "error");
    assert_eq!(verdict(&found, "select note"), "same");
    assert_eq!(verdict(&found, "from days"), "same");
    let holds: Vec<_> = found["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["holds"])
        .collect();
    assert_eq!(holds, [true, false]);
    let unchecked = found["unchecked"].as_array().unwrap();
    assert_eq!(unchecked.len(), 1, "{unchecked:?}");
    assert!(unchecked[0]["reason"].as_str().unwrap().contains("42P01"));
    // Custom and generic.
    let statements = found["statements"].as_array().unwrap();
    let by_kind = statements
        .iter()
        .find(|one| one["sql"].as_str().unwrap().contains("where kind"));
    assert_eq!(by_kind.unwrap()["plans"].as_array().unwrap().len(), 2);

    let (code, found) = check(
        &workload,
        &planner,
        &[
            "--set",
            "enable_partition_pruning=off",
            "--fail-on",
            "lost-pruning",
        ],
    );
    assert_eq!(code, Some(1), "{found}");
    assert_eq!(verdict(&found, "from days"), "changed");
    assert_eq!(verdict(&found, "where kind"), "same");

    let (code, found) = check(
        &workload,
        &planner,
        &[
            "--set",
            "work_mem=5MB",
            "--fail-on",
            "changed",
            "--perturb",
            "2",
        ],
    );
    assert_eq!(code, Some(0), "{found}");
}

#[test]
fn plans_check_refuses_equal_sides_unknown_settings_failing_changes_and_foreign_files() {
    let (_sandbox, endpoint) = server(15);
    run(&endpoint, SCHEMA);
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let planner = directory.path().join("items.planner").display().to_string();
    let url = endpoint.url("postgres");
    succeeds(&["plans", "export", "--target", &url, "-o", &planner]);
    let migration = directory.path().join("next.sql").display().to_string();
    std::fs::write(&migration, "DROP INDEX no_such_index").unwrap();
    let refused: [(&[&str], i32, &str); 6] = [
        (&["--planner", &planner], 2, "both sides are the same"),
        (
            &[
                "--planner",
                &planner,
                "--perturb",
                "0",
                "--fail-on",
                "nested-loop",
            ],
            2,
            "--perturb is 0",
        ),
        (
            &["--planner", &planner, "--version", "15", "--version", "15"],
            2,
            "both sides are the same",
        ),
        (
            &["--planner", &planner, "--set", "no_such_setting=1"],
            2,
            "no_such_setting",
        ),
        (
            &["--planner", &planner, "--change", &migration],
            3,
            "no_such_index",
        ),
        (
            &[
                "--planner",
                &migration,
                "--version",
                "14",
                "--version",
                "15",
            ],
            2,
            "is no export",
        ),
    ];
    for (options, code, message) in refused {
        let output = rehearse(&[&["plans", "check", &workload], options].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {said}");
        assert!(said.contains(message), "{options:?}: {said}");
    }
}

#[test]
fn plans_check_of_a_masked_workload_with_a_masked_export_finds_the_same_changes() {
    let (_sandbox, endpoint) = server(15);
    run(&endpoint, SCHEMA);
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let path = |name: &str| directory.path().join(name).display().to_string();
    let [key, masked, planner, plain] = [
        "shop.key",
        "masked.workload",
        "masked.planner",
        "plain.planner",
    ]
    .map(path);
    succeeds(&["mask", "key", &key]);
    succeeds(&["mask", "workload", &workload, "-o", &masked, "--mask", &key]);
    let url = endpoint.url("postgres");
    let export = ["plans", "export", "--target", &url, "-o"];
    succeeds(&[&export[..], &[&plain]].concat());
    let text = succeeds(&[&export[..], &[&planner, "--mask", &key]].concat());
    assert!(text.contains("masked with the key"), "{text}");
    let setting = ["--set", "enable_indexscan=off"];
    let verdicts = |check: &Value| -> Vec<(String, String)> {
        let all = check["statements"].as_array().unwrap().iter();
        let mut all: Vec<_> = all
            .map(|one| (one["fingerprint"].to_string(), one["verdict"].to_string()))
            .collect();
        all.sort();
        all
    };
    let (_, unmasked) = check(&workload, &plain, &setting);
    let (_, both_masked) = check(&masked, &planner, &setting);
    assert_eq!(verdicts(&unmasked), verdicts(&both_masked));
    let notes = |check: &Value| -> Vec<String> {
        let all = check["limitations"].as_array().unwrap().iter();
        let all = all.filter(|one| one["subject"] == "masking");
        all.map(|one| one["reason"].to_string()).collect()
    };
    assert!(notes(&unmasked).is_empty() && notes(&both_masked).is_empty());
    let (_, one_masked) = check(&masked, &plain, &setting);
    assert!(notes(&one_masked)[0].contains("the export is not"));
}

/// Objects that an export does not have: an operator class with an index, and a foreign partition.
const NOT_EXPORTED: &str = "
    CREATE OPERATOR CLASS own_ops FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=,
        OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int);
    CREATE INDEX items_price ON items (price own_ops);
    CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER far FOREIGN DATA WRAPPER nothing;
    CREATE FOREIGN TABLE days_3 PARTITION OF days FOR VALUES FROM ('2026-01-03') TO ('2026-01-04') SERVER far";

#[test]
fn plans_check_without_an_index_and_a_partition_checks_no_statement_of_their_tables() {
    let (_sandbox, endpoint) = server(15);
    run(&endpoint, SCHEMA);
    run(&endpoint, NOT_EXPORTED);
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let planner = directory.path().join("items.planner").display().to_string();
    let url = endpoint.url("postgres");
    succeeds(&["plans", "export", "--target", &url, "-o", &planner]);
    let setting = ["--set", "work_mem=5MB", "--perturb", "0", "--fail-on"];
    let (code, found) = check(&workload, &planner, &[&setting[..], &["changed"]].concat());
    assert_eq!(code, Some(4), "{found}");
    assert_eq!(found["coverage"]["plans"], 0, "{found}");
    let reason = |sql: &str| {
        let all = found["unchecked"].as_array().unwrap();
        let one = all
            .iter()
            .find(|one| one["sql"].as_str().unwrap().contains(sql));
        one.unwrap()["reason"].as_str().unwrap().to_owned()
    };
    assert!(
        reason("where kind").contains("lacks the index public.items_price"),
        "{found}"
    );
    assert!(
        reason("from days").contains("lacks the partition public.days_3"),
        "{found}"
    );
    let (code, _) = check(
        &workload,
        &planner,
        &[&setting[..], &["unchecked"]].concat(),
    );
    assert_eq!(code, Some(1));
}

#[test]
fn plans_check_has_the_settings_of_the_server_and_is_undecided_on_tables_that_a_change_creates() {
    let (_sandbox, endpoint) = server(15);
    run(&endpoint, SCHEMA);
    for setting in [
        "ALTER SYSTEM SET DateStyle = 'SQL, DMY'",
        "ALTER SYSTEM SET work_mem = '7MB'",
        "SELECT pg_reload_conf()",
        "CREATE ROLE app LOGIN",
        "ALTER DATABASE postgres SET random_page_cost = 2",
        // The role of the export has another value than the server.
        "ALTER ROLE postgres SET work_mem = '1MB'",
    ] {
        run(&endpoint, setting);
    }
    let directory = tempfile::tempdir().unwrap();
    let lines = [
        (
            "statement: SELECT sum(n) FROM days WHERE day = '02/01/2026' OR day = '13/01/2026'",
            None,
        ),
        ("statement: SELECT note FROM items WHERE id = 4", None),
        (
            "statement: DECLARE c CURSOR FOR SELECT price FROM items WHERE id = 5",
            None,
        ),
        (
            "statement: COPY (SELECT kind FROM items WHERE id = 6) TO STDOUT",
            None,
        ),
    ];
    let workload = workload_of(directory.path(), "app", &lines);
    let planner = directory.path().join("items.planner").display().to_string();
    let url = endpoint.url("postgres");
    succeeds(&["plans", "export", "--target", &url, "-o", &planner]);

    let output = rehearse(&[
        "plans",
        "check",
        &workload,
        "--planner",
        &planner,
        "--set",
        "random_page_cost=1000",
    ]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("the database postgres sets random_page_cost to 2"),
        "{message}"
    );

    let quick = ["--perturb", "0", "--fail-on", "error"];
    let (code, found) = check(
        &workload,
        &planner,
        &[&quick[..], &["--set", "jit=off"]].concat(),
    );
    assert_eq!(code, Some(0), "{found}");
    for sql in ["from days", "select note", "declare", "copy"] {
        assert_eq!(verdict(&found, sql), "same", "{found}");
    }
    let settings = &found["statements"][0]["plans"][0]["plans"]["before"]["plan"]["settings"];
    assert_eq!(settings["work_mem"], "7MB", "{found}");

    let migration = directory.path().join("swap.sql").display().to_string();
    std::fs::write(
        &migration,
        "CREATE TABLE items_new (LIKE items); ALTER TABLE items RENAME TO items_old; \
         ALTER TABLE items_new RENAME TO items",
    )
    .unwrap();
    let (code, found) = check(
        &workload,
        &planner,
        &[&quick[..], &["--change", &migration]].concat(),
    );
    assert_eq!(code, Some(4), "{found}");
    assert!(
        found["undecided"]
            .as_str()
            .unwrap()
            .contains("3 of the statements"),
        "{found}"
    );
    let reason = found["unchecked"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("creates the table items"), "{reason}");
}
