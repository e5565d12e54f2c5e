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
    let mut log =
        "2026-03-01 09:00:00.000 UTC [7] LOG:  connection authorized: user=postgres database=postgres\n"
            .to_owned();
    for (at, (statement, detail)) in (10..).zip(LINES) {
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
