//! Rows with other values between two real servers: the counts of executions are exact, and each statement has its
//! known reasons.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sandbox::{Endpoint, Sandbox};
use serde_json::{Value, json};

const SCHEMA: &str = "
    CREATE TABLE product (id int PRIMARY KEY, sku text, cat int, price int);
    INSERT INTO product SELECT n, 'sku ' || n, n % 4, n * 3 FROM generate_series(1, 100) n;
    CREATE TABLE client (id int PRIMARY KEY, name text COLLATE \"C\");
    INSERT INTO client SELECT n, 'client ' || n FROM generate_series(1, 60) n;
    CREATE FUNCTION price_of(int) RETURNS int LANGUAGE sql STABLE
        AS 'SELECT price FROM product WHERE id = $1';
    CREATE FUNCTION tag() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
    CREATE TRIGGER tag BEFORE INSERT ON client FOR EACH ROW EXECUTE FUNCTION tag();
    ANALYZE";

/// Changes the schema, and forgets the statistics of a table.
const OTHER_SCHEMA: &str = "
    ALTER TABLE client ALTER name TYPE text COLLATE \"POSIX\";
    CREATE OR REPLACE FUNCTION price_of(int) RETURNS int LANGUAGE sql STABLE
        AS 'SELECT price + 1 FROM product WHERE id = $1';
    ALTER TABLE client DISABLE TRIGGER tag;
    ALTER TABLE product ALTER cat SET STATISTICS 500;
    DELETE FROM pg_statistic WHERE starelid = 'product'::regclass";

/// Changes the price of every tenth product and the name of every third client.
const PLANTED: &str = "
    UPDATE product SET price = price + 1 WHERE id % 10 = 0;
    UPDATE client SET name = upper(name) WHERE id % 3 = 0;
    DELETE FROM client WHERE id = 60";

/// Statements, and the parameters of their executions.
const STATEMENTS: [(&str, std::ops::RangeInclusive<u32>); 7] = [
    ("SELECT price_of($1)", 1..=60),
    ("SELECT id, price FROM product WHERE cat = $1", 0..=3),
    ("SELECT sku, price FROM product WHERE id = $1", 51..=90),
    ("SELECT sku FROM product WHERE id = $1", 1..=40),
    ("SELECT name FROM client WHERE id = $1", 1..=60),
    ("SELECT now(), $1", 1..=5),
    (
        "SELECT sku FROM product WHERE price > $1 ORDER BY price LIMIT 3",
        1..=3,
    ),
];

fn rehearse(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(arguments).output().unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = rehearse(arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn server(planted: &str) -> (Sandbox, Endpoint) {
    let (sandbox, endpoint) = test_support::server().start();
    let mut client = test_support::connect(&endpoint);
    client.batch_execute(SCHEMA).unwrap();
    client.batch_execute(planted).unwrap();
    (sandbox, endpoint)
}

/// Writes a workload of two sessions, which execute each statement in turns.
fn workload(directory: &Path) -> String {
    let mut log = String::new();
    let mut milliseconds = 0;
    let mut line = |session: u32, text: &str| {
        milliseconds += 1;
        let (seconds, part) = (milliseconds / 1_000, milliseconds % 1_000);
        let prefix = format!("2026-03-01 09:00:{seconds:02}.{part:03} UTC [{session}]");
        writeln!(log, "{prefix} LOG:  {text}").unwrap();
    };
    for session in [100, 101] {
        line(
            session,
            "connection authorized: user=postgres database=postgres",
        );
    }
    for (sql, parameters) in STATEMENTS {
        for parameter in parameters {
            let sql = sql.replace("$1", &parameter.to_string());
            line(100 + parameter % 2, &format!("statement: {sql}"));
        }
    }
    let from = directory.join("a.log").display().to_string();
    std::fs::write(&from, log).unwrap();
    let workload = directory.join("a.workload").display().to_string();
    succeeds(&[
        "capture", "log", &from, "--prefix", "%m [%p] ", "-o", &workload,
    ]);
    workload
}

fn replay(workload: &str, endpoint: &Endpoint, name: &str) -> String {
    replay_with(workload, endpoint, name, "rows")
}

fn replay_with(workload: &str, endpoint: &Endpoint, name: &str, checksums: &str) -> String {
    let run = Path::new(workload)
        .with_file_name(name)
        .display()
        .to_string();
    let url = endpoint.url("postgres");
    let options = ["--speed", "max", "--checksum-results", checksums];
    let mut all = vec!["replay", workload, "--target", &url, "-o", &run];
    all.extend(options);
    succeeds(&all);
    run
}

/// Returns the change of the statement that begins with these words.
fn change<'v>(comparison: &'v Value, words: &str) -> &'v Value {
    let changes = comparison["rows"]["changes"].as_array().unwrap();
    let is_it = |one: &&Value| one["sql"].as_str().unwrap().starts_with(words);
    let found = changes.iter().find(is_it);
    found.unwrap_or_else(|| panic!("{words}: {changes:#?}"))
}

/// Compares two runs. Returns the JSON, and the paths of the page, the JUnit report and the comment.
fn compare(directory: &Path, before: &str, after: &str) -> (Value, [PathBuf; 3]) {
    let files = ["page.html", "junit.xml", "comment.md"].map(|name| directory.join(name));
    let [page, junit, comment] = files.each_ref().map(|path| path.to_str().unwrap());
    let comparison = succeeds(&[
        "compare",
        before,
        after,
        "--json",
        "--html",
        page,
        "--junit",
        junit,
        "--markdown",
        comment,
    ]);
    (serde_json::from_str(&comparison).unwrap(), files)
}

#[test]
fn compare_other_values_counts_executions_and_names_reasons() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let (_one, before) = server("");
    let (_other, after) = server(PLANTED);
    let before = replay(&workload, &before, "before.run");
    let after = replay(&workload, &after, "after.run");

    let (comparison, [page, junit, comment]) = compare(directory.path(), &before, &after);
    let counts = |words: &str| {
        let one = change(&comparison, words);
        let differing = &one["differing"];
        assert_eq!(differing["bound"], "exact", "{one:#}");
        json!([
            differing["other_counts"],
            differing["other_values"],
            one["compared"]
        ])
    };
    assert_eq!(counts("select price_of"), json!([0, 6, 60]));
    // All tenth products are even, so they are in two of the four categories.
    assert_eq!(
        counts("select id, price from product where cat"),
        json!([0, 2, 4])
    );
    assert_eq!(counts("select sku, price"), json!([0, 4, 40]));
    assert_eq!(counts("select name from client"), json!([1, 19, 60]));
    assert_eq!(counts("select now()"), json!([0, 5, 5]));
    let changes = comparison["rows"]["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 5, "{changes:#?}");
    let reasons = |words: &str| change(&comparison, words)["reasons"].clone();
    assert_eq!(reasons("select sku, price"), json!([]));
    assert_eq!(
        reasons("select now()"),
        json!([{"reason": "volatile", "name": "now"}])
    );
    let first = &change(&comparison, "select sku, price")["differing"]["first"];
    assert_eq!(
        first["session"],
        change(&comparison, "select price_of")["differing"]["first"]["session"]
    );

    let text = succeeds(&["compare", &before, &after]);
    let [page, junit, comment] =
        [page, junit, comment].map(|path| std::fs::read_to_string(path).unwrap());
    for output in [text, page, junit, comment] {
        for words in [
            "other values in 6 of 60 executions (at least 6 rows)",
            "other values in 2 of 4 executions (at least 2 rows)",
            "other numbers of rows in 1 of 60 executions",
            "nothing known explains it",
        ] {
            assert!(output.contains(words), "{words}: {output}");
        }
    }

    let ignore = ["--ignore-rows", "price", "--ignore-rows", "now()"];
    let options = [&["compare", &before, &after, "--json"], &ignore[..]].concat();
    let comparison: Value = serde_json::from_str(&succeeds(&options)).unwrap();
    assert_eq!(comparison["rows"]["ignored"], json!(["price", "now()"]));
    let changes = comparison["rows"]["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:#?}");
    change(&comparison, "select name from client");
}

#[test]
fn compare_names_differing_columns_with_an_example_and_ignores_columns() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let (_one, before) = server("");
    let (_other, after) = server(PLANTED);
    let old = replay(&workload, &after, "rows.run");
    let before = replay_with(&workload, &before, "before.run", "columns");
    let after = replay_with(&workload, &after, "after.run", "columns");
    let compare = |after: &str, options: &[&str]| {
        let arguments = [&["compare", &before, after, "--json"], options].concat();
        serde_json::from_str::<Value>(&succeeds(&arguments)).unwrap()
    };

    let hidden = compare(&after, &[]);
    let sku = change(&hidden, "select sku, price");
    let price = json!([{"column": "price", "type": "int4", "executions": 4}]);
    assert_eq!(sku["columns"], price);
    assert_eq!(sku["without_columns"], 0);
    let example = &sku["example"]["columns"];
    let number = json!({"kind": "number"});
    let hidden_value = |shown: [Value; 2]| {
        let [before, after] = shown;
        json!([{"column": "price", "type": "int4", "difference": number, "before": before, "after": after}])
    };
    assert_eq!(*example, hidden_value([Value::Null, Value::Null]));
    let shown = compare(&after, &["--show-literals"]);
    let example = &change(&shown, "select sku, price")["example"]["columns"];
    let prices = [
        before_price(example, "before"),
        before_price(example, "after"),
    ];
    assert_eq!(prices[0] + 1, prices[1], "{example}");
    // One row of 25 differs, and only the first eight are kept.
    let many = change(&shown, "select id, price from product where cat");
    assert_eq!(many["columns"][0]["column"], "price");
    assert_eq!(many["differing"]["other_values"], 2);

    let ignoring = compare(&after, &["--ignore-columns", "Price,price_of,typo"]);
    let changes = ignoring["rows"]["changes"].as_array().unwrap();
    let left: Vec<_> = changes
        .iter()
        .map(|one| one["sql"].as_str().unwrap())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(ignoring["rows"]["ignored_executions"], 6 + 2 + 4);
    let text = succeeds(&["compare", &before, &after, "--ignore-columns", "price,typo"]);
    for words in [
        "Values of 'price' were not compared",
        "'typo': no such column differs",
    ] {
        assert!(text.contains(words), "{text}");
    }
    let text = succeeds(&["compare", &before, &after, "--show-literals"]);
    assert!(
        text.contains("columns that differ: price (int4) in 4"),
        "{text}"
    );

    // A run without checksums of columns cannot ignore one, and says so.
    let unable = compare(&old, &["--ignore-columns", "price"]);
    assert_eq!(change(&unable, "select sku, price")["without_columns"], 4);
    let text = succeeds(&["compare", &before, &old, "--ignore-columns", "price"]);
    assert!(
        text.contains("replay with --checksum-results columns"),
        "{text}"
    );
}

fn before_price(example: &Value, side: &str) -> i64 {
    example[0][side].as_str().unwrap().parse().unwrap()
}

#[test]
fn replay_of_masked_workload_keeps_no_rows() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let masked = directory
        .path()
        .join("masked.workload")
        .display()
        .to_string();
    succeeds(&[
        "mask", "workload", &workload, "-o", &masked, "--mask", "random",
    ]);
    let (_one, endpoint) = server("");
    let kept = |workload: &str, name: &str| {
        let run = replay_with(workload, &endpoint, name, "columns");
        let run = run::RunReader::open(Path::new(&run)).unwrap();
        let columns = run.result_columns().unwrap().map(Result::unwrap);
        let kept = columns.map(|one| one.kept_rows.len());
        kept.collect::<Vec<_>>()
    };
    assert!(kept(&workload, "plain.run").iter().all(|rows| *rows > 0));
    let of_masked = kept(&masked, "masked.run");
    assert!(!of_masked.is_empty() && of_masked.iter().all(|rows| *rows == 0));
}

#[test]
fn compare_equal_servers_finds_no_other_rows() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let (_one, before) = server("");
    let (_other, after) = server("");
    let before = replay(&workload, &before, "before.run");
    let after = replay(&workload, &after, "after.run");
    let comparison = succeeds(&["compare", &before, &after, "--json"]);
    let comparison: Value = serde_json::from_str(&comparison).unwrap();
    let changes = comparison["rows"]["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:#?}");
    assert_eq!(
        change(&comparison, "select now()")["differing"]["other_values"],
        5
    );
}

#[test]
fn compare_names_what_changed_in_the_schema_and_forgotten_statistics_first() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let (_one, before) = server("");
    let (_other, after) = server(OTHER_SCHEMA);
    let before = replay(&workload, &before, "before.run");
    let after = replay(&workload, &after, "after.run");
    let (comparison, [page, junit, comment]) = compare(directory.path(), &before, &after);
    let targets = &comparison["targets"];
    let detail = |what: &str, before: &str, after: &str| {
        let value = json!({"what": what, "before": before, "after": after});
        let all = targets["relations"].as_array().unwrap().iter();
        let mut all = all.flat_map(|one| one["details"].as_array().unwrap());
        assert!(all.any(|one| *one == value), "{what}: {targets:#}");
    };
    detail("collation of column name", "\"C\"", "\"POSIX\"");
    detail("statistics target of column cat", "default", "500");
    assert_eq!(targets["functions"][0]["name"], "public.price_of(integer)");
    assert_eq!(targets["triggers"][0]["details"][0]["after"], "disabled");
    assert_eq!(targets["build"], json!([]));
    let reasons = &change(&comparison, "select price_of")["reasons"];
    let function = json!({"reason": "function_differs", "function": "public.price_of(integer)"});
    assert_eq!(reasons[0], function);

    let gap = "no statistics on 1 table of the target after: run ANALYZE";
    let first = &comparison["warnings"][0];
    assert_eq!(first["warning"], "forgotten_statistics", "{first:#}");
    assert_eq!(first["tables"], json!(["public.product"]));
    let text = succeeds(&["compare", &before, &after]);
    assert!(text.starts_with(&format!("! {gap}")), "{text}");
    // Markdown has punctuation as entities.
    let gap = gap.split(':').next().unwrap();
    for path in [page, junit, comment] {
        let output = std::fs::read_to_string(path).unwrap();
        let place = output.find(gap).expect(&output);
        let verdicts = ["<h1>", "### ", "name=\"verdict\""];
        let verdict = verdicts.iter().find_map(|mark| output.find(mark));
        assert!(place < verdict.expect(&output), "{output}");
    }
}
