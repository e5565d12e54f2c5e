//! Causes in settings, statistics and the space of tables, which experiments in the sandbox show.

use super::*;

/// A table whose pages are mostly empty, one whose statistics know half of it, and one whose bitmaps do not fit into 64 kB.
const SPACE: [&str; 10] = [
    "CREATE TABLE sparse (id int PRIMARY KEY, kind int NOT NULL, amount int NOT NULL, body text NOT NULL)",
    "INSERT INTO sparse SELECT i, i % 7, i % 1000, repeat(md5(i::text), 12) FROM generate_series(1, 100000) i",
    "DELETE FROM sparse WHERE id % 20 <> 0",
    "CREATE TABLE stale (id int PRIMARY KEY, state text NOT NULL, at timestamptz NOT NULL) WITH (autovacuum_enabled = off)",
    "CREATE INDEX ON stale (state); CREATE INDEX ON stale (at)",
    "INSERT INTO stale SELECT i, 'closed', timestamptz '2026-01-01' + i * interval '1 s' FROM generate_series(1, 40000) i",
    "CREATE TABLE tagged (id int PRIMARY KEY, tags int[] NOT NULL, amount int NOT NULL)",
    "INSERT INTO tagged SELECT i, ARRAY[(i * 7919::bigint) % 200, (i * 104729::bigint) % 200]::int[], i % 1000 \
     FROM generate_series(1, 250000) i; CREATE INDEX ON tagged USING gin (tags)",
    "VACUUM ANALYZE",
    "INSERT INTO stale SELECT i, 'open', timestamptz '2026-02-01' + i * interval '1 s' FROM generate_series(40001, 80000) i",
];

/// Captures thirty executions of each statement, with literals.
fn literals(at: &dyn Fn(&str) -> String, statements: &dyn Fn(u32) -> Vec<String>) -> String {
    let mut log = String::from(
        "2026-03-01 09:00:00.000 UTC [100] LOG:  connection authorized: user=postgres database=postgres\n",
    );
    for number in 0..30 {
        let ms = 20 + number * 20;
        for sql in statements(number) {
            writeln!(
                log,
                "2026-03-01 09:00:00.{ms:03} UTC [100] LOG:  statement: {sql}"
            )
            .unwrap();
        }
    }
    captured(at, "literals", &log)
}

fn diagnose(sandbox: &Named, workload: &str, directory: &str, more: &[&str]) -> Value {
    let mut given = vec!["diagnose", workload, "--prove", "--sandbox", &sandbox.name];
    given.extend(["-o", directory, "--max-findings", "0", "--json"]);
    given.extend(more);
    validated_as("diagnose", &rehearse(&given))
}

#[test]
fn empty_pages_stale_statistics_and_lossy_bitmaps_are_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let sandbox = Named::up_with("space", "work_mem", "64kB");
    let mut client = Client::connect(&sandbox.url, NoTls).unwrap();
    for sql in SPACE {
        for one in sql.split(';') {
            client.batch_execute(one).unwrap();
        }
    }
    drop(client);
    let workload = literals(&at, &|number| {
        let sums = (0..4).map(|low| {
            format!("SELECT kind, sum(amount) FROM sparse WHERE amount >= {low} GROUP BY kind")
        });
        let others = [
            "SELECT id, at FROM stale WHERE state = 'open' ORDER BY at DESC LIMIT 10".to_owned(),
            format!("SELECT count(*), sum(amount) FROM tagged WHERE tags && ARRAY[{number}]"),
            format!("SELECT body FROM sparse WHERE id = {}", (number + 1) * 20),
        ];
        sums.chain(others).collect()
    });
    // It takes next to no time in the server, and nothing is faster without it.
    let suspect = ["--impact-of", "select body from sparse%"];
    let view = diagnose(&sandbox, &workload, &at("round"), &suspect);
    for (words, form) in [
        (
            "from sparse where amount",
            serde_json::json!({"sql": "VACUUM (FULL, ANALYZE) public.sparse;"}),
        ),
        (
            "from stale",
            serde_json::json!({"sql": "ANALYZE public.stale;"}),
        ),
    ] {
        let first = first_confirmed(&view, words);
        assert_eq!(first["form"], form, "{view:#}");
    }
    let memory = first_confirmed(&view, "from tagged");
    assert_eq!(memory["form"]["setting"][0], "work_mem", "{memory:#}");
    let suspect = &view["suspects"][0];
    assert_eq!(suspect["verdict"], "cleared", "{suspect:#}");
    let shares = suspect["shares"].as_array().unwrap();
    assert!(
        shares
            .iter()
            .any(|one| one["source"] == "a replay without it"),
        "{suspect:#}"
    );
    assert!(Path::new(&at("round")).join("without-1.run").exists());
    let pages = "SELECT (pg_relation_size('sparse') / 8192)::bigint";
    assert!(sandbox.ask(pages) > 2_000);
}

/// Returns the first change of the confirmed finding on a statement.
fn first_confirmed<'v>(view: &'v Value, words: &str) -> &'v Value {
    let found = view["findings"].as_array().unwrap().iter().find(|one| {
        one["status"] == "confirmed" && one["subject"]["name"].as_str().unwrap().contains(words)
    });
    &found.unwrap_or_else(|| panic!("{words}: {view:#}"))["changes"][0]
}

#[test]
fn setting_that_slows_several_statements_is_one_finding() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let sandbox = Named::up_with("worsened", "random_page_cost", "60");
    let mut client = Client::connect(&sandbox.url, NoTls).unwrap();
    for table in ["parcel", "voyage"] {
        client
            .batch_execute(&format!(
                "CREATE TABLE {table} (id int PRIMARY KEY, depot int NOT NULL, a int, b int, c int, d text); \
                 INSERT INTO {table} SELECT i, (i * 7919::bigint) % 150, i, i, i, md5(i::text) FROM generate_series(1, 60000) i; \
                 CREATE INDEX ON {table} (depot); ANALYZE {table}"
            ))
            .unwrap();
    }
    drop(client);
    let workload = literals(&at, &|number| {
        ["parcel", "voyage"]
            .map(|table| format!("SELECT * FROM {table} WHERE depot = {number}"))
            .to_vec()
    });
    let view = diagnose(&sandbox, &workload, &at("round"), &[]);
    let first = &view["findings"][0];
    assert_eq!(first["subject"]["kind"], "setting", "{view:#}");
    assert_eq!(
        first["changes"][0]["form"]["setting"],
        serde_json::json!(["random_page_cost", "1.1"])
    );
    assert!(first["title"].as_str().unwrap().contains("2 statements"));
}
