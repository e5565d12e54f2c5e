//! Facts and plans of a replay's target, through the command line and on real servers: changed settings and
//! indexes, a newer major version, and the resulting plans.

#[path = "targets_and_plans/bundled.rs"]
mod bundled;
#[path = "targets_and_plans/newer_server.rs"]
mod newer_server;
#[path = "targets_and_plans/observed.rs"]
mod observed;
#[path = "targets_and_plans/server_filter.rs"]
mod server_filter;
#[path = "targets_and_plans/upgrading.rs"]
mod upgrading;
#[path = "targets_and_plans/without_data.rs"]
mod without_data;

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use postgres::{Client, NoTls};
use sandbox::{Endpoint, Sandbox};
use serde_json::{Value, json};

fn rehearse(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(arguments);
    for variable in ["PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE"] {
        command.env_remove(variable);
    }
    command.output().unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = rehearse(arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const SCHEMA: &str = "
    CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL, note text NOT NULL);
    INSERT INTO orders SELECT n, n % 1000, repeat('x', 90) FROM generate_series(1, 30000) n;
    CREATE INDEX orders_customer ON orders (customer);
    CREATE TABLE parts (id int, of int);
    INSERT INTO parts SELECT n, n % 100 FROM generate_series(1, 3000) n;
    VACUUM ANALYZE";

const BY_CUSTOMER: &str = "select id, note from orders where customer = $1";

fn server(major: u16) -> (Sandbox, Endpoint) {
    let (sandbox, endpoint) = test_support::server().major(major).start();
    run(&endpoint, SCHEMA);
    (sandbox, endpoint)
}

/// Executes statements one by one, since some cannot run in a transaction.
fn run(endpoint: &Endpoint, sql: &str) {
    let mut client = Client::connect(&endpoint.url("postgres"), NoTls).unwrap();
    for statement in sql.split(';') {
        client.batch_execute(statement).unwrap();
    }
}

/// Runs two sessions: an index lookup, values in the text, several statements in one text, one
/// without a plan, and one that fails.
fn workload(directory: &Path) -> String {
    let mut log = String::new();
    let mut at = 0;
    let mut line = |pid: u32, what: &str| {
        at += 2;
        writeln!(
            log,
            "2026-03-01 09:00:{:02}.{:03} UTC [{pid}] {what}",
            at / 1_000,
            at % 1_000
        )
        .unwrap();
    };
    for pid in [100, 101] {
        line(
            pid,
            "LOG:  connection authorized: user=postgres database=postgres",
        );
    }
    for round in 1..=30 {
        for pid in [100, 101] {
            line(
                pid,
                "LOG:  execute s1: SELECT id, note FROM orders WHERE customer = $1",
            );
            line(pid, &format!("DETAIL:  parameters: $1 = '{round}'"));
            line(
                pid,
                &format!(
                    "LOG:  statement: SELECT count(*) FROM parts p JOIN parts q ON p.id = q.of WHERE q.id < {round}00"
                ),
            );
            line(pid, "LOG:  statement: SELECT 1; SELECT 2");
            line(pid, "LOG:  statement: SET work_mem = '8MB'");
            line(pid, "LOG:  statement: SELECT 'hush' FROM nowhere");
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

/// Replays into a run of this name.
fn replay(directory: &Path, endpoint: &Endpoint, name: &str, options: &[&str]) -> String {
    let run = directory.join(name).display().to_string();
    let workload = directory.join("a.workload").display().to_string();
    let url = endpoint.url("postgres");
    let mut all = vec![
        "replay", &workload, "--target", &url, "-o", &run, "--speed", "max",
    ];
    all.extend(options);
    succeeds(&all);
    run
}

fn compared(before: &str, after: &str, options: &[&str]) -> Value {
    let mut all = vec!["compare", before, after, "--json"];
    all.extend(options);
    serde_json::from_str(&succeeds(&all)).unwrap()
}

fn plans<'v>(view: &'v Value, sql: &str) -> &'v Value {
    let statements = view["statements"].as_array().unwrap();
    let found = statements.iter().find(|one| one["sql"] == sql);
    &found.unwrap_or_else(|| panic!("no {sql}"))["plans"]
}

/// Returns whether a statement's plans are the same; null unless both sides have one.
fn same<'v>(view: &'v Value, sql: &str) -> &'v Value {
    &plans(view, sql)["comparison"]["same"]
}

/// Returns the first different node of two plans: before, and after.
fn step(view: &Value) -> [&str; 2] {
    let first = &plans(view, BY_CUSTOMER)["comparison"]["changes"][0];
    assert_eq!(first["change"], "step");
    ["before", "after"].map(|side| first[side].as_str().unwrap())
}

const BITMAP: &str = "Bitmap Heap Scan using orders_customer on orders";
const SCAN: &str = "Seq Scan on orders";

/// Returns the names of a list in the targets.
fn names(view: &Value, list: &str) -> Vec<String> {
    let all = view["targets"][list].as_array().unwrap();
    let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
    all.iter().map(name).collect()
}

/// Server of version 13, and the run of the workload on it before anything is changed.
struct Baseline<'a> {
    directory: &'a Path,
    endpoint: Endpoint,
    _server: Sandbox,
    run: String,
}

impl<'a> Baseline<'a> {
    fn new(directory: &'a Path) -> Self {
        workload(directory);
        let (server, endpoint) = server(13);
        let run = replay(directory, &endpoint, "before.run", &["--explain"]);
        Baseline {
            directory,
            endpoint,
            _server: server,
            run,
        }
    }

    /// Replays once more on the same server.
    fn replay(&self, name: &str, options: &[&str]) -> String {
        replay(self.directory, &self.endpoint, name, options)
    }

    /// Compares the first run with this one.
    fn compared_with(&self, after: &str, options: &[&str]) -> Value {
        compared(&self.run, after, options)
    }
}

#[test]
fn settings_an_index_and_a_version_are_named_and_so_is_what_became_of_plans() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    let old = Baseline::new(directory);
    assert_read_only_run_differs_in_one_setting(&old);

    let settings = replay_with_other_settings(&old);
    let view = old.compared_with(&settings, &[]);
    assert_settings_are_named(&view);
    assert_changed_plan_names_its_causes(&view);
    assert_missing_plans_have_a_reason(&view);
    let with_literals = old.compared_with(&settings, &["--show-literals"]);
    assert_plan_shows_values_only_if_asked(&view, &with_literals);
    assert_text_shows_plan_and_setting(&old, &settings);

    assert_changed_schema_is_named(&old);

    let (_new_server, new) = server(18);
    let newer = replay(directory, &new, "newer.run", &["--explain"]);
    assert_version_explains_other_settings(&old, &newer);

    let asking = Asking {
        runs: [&old.run, &settings],
        targets: [old.endpoint.url("postgres"), new.url("postgres")],
        workload: directory.join("a.workload").display().to_string(),
    };
    assert_plans_are_those_of_now(&asking);
    assert_unreachable_target_is_named(&asking);
    assert_text_counts_plans_of_each_target(&asking);
    assert_workload_of_another_run_is_refused(&asking, directory);

    assert_missing_facts_are_not_compared(directory, &new, &newer);
}

/// Compares two runs on the same server, of which one was kept from writing.
fn assert_read_only_run_differs_in_one_setting(old: &Baseline<'_>) {
    let again = old.replay("again.run", &["--explain=40", "--read-only"]);
    let view = old.compared_with(&again, &[]);
    assert_eq!(names(&view, "settings"), ["default_transaction_read_only"]);
    let found = &plans(&view, BY_CUSTOMER)["comparison"];
    assert_eq!(
        (&found["same"], &found["changes"]),
        (&json!(true), &json!([]))
    );
}

/// Changes two settings that matter to the planner, and replays.
fn replay_with_other_settings(old: &Baseline<'_>) -> String {
    run(
        &old.endpoint,
        "ALTER SYSTEM SET random_page_cost = 400; ALTER SYSTEM SET work_mem = '64kB'; SELECT pg_reload_conf()",
    );
    old.replay("settings.run", &["--explain"])
}

fn assert_settings_are_named(view: &Value) {
    assert_eq!(names(view, "settings"), ["random_page_cost", "work_mem"]);
    let work_mem = &view["targets"]["settings"][1];
    assert_eq!(work_mem["bearing"], "planner");
    assert_eq!(work_mem["before"]["value"], "4MB");
    assert_eq!(work_mem["before"]["default"], true);
    assert_eq!(work_mem["after"]["value"], "64kB");
    assert_eq!(work_mem["after"]["source"], "configuration file");
    assert_eq!(names(view, "indexes"), [""; 0]);
}

/// Checks the changed step of a plan, the settings that may explain it, and the execution that the plan is of.
fn assert_changed_plan_names_its_causes(view: &Value) {
    let plans = plans(view, BY_CUSTOMER);
    let found = &plans["comparison"];
    assert_eq!(
        (&found["same"], &found["indexes_gone"]),
        (&json!(false), &json!(["orders_customer"]))
    );
    let setting = |name: &str, after: &str| json!({ "change": "setting", "name": name, "before": null, "after": after });
    assert_eq!(
        found["changes"],
        json!([
            { "change": "step", "before": BITMAP, "after": SCAN, "more": 0 },
            setting("random_page_cost", "400"),
            setting("work_mem", "64kB")
        ])
    );
    assert_eq!(
        plans["before"]["example"],
        json!({ "session": 0, "sequence": 1 })
    );
}

fn assert_plan_shows_values_only_if_asked(view: &Value, with_literals: &Value) {
    for (view, condition) in [(view, "(customer = $1)"), (with_literals, "(customer = 1)")] {
        let root = &plans(view, BY_CUSTOMER)["after"]["plan"]["root"];
        assert_eq!(
            root["conditions"][0],
            json!({ "label": "Filter", "text": condition })
        );
    }
}

fn assert_missing_plans_have_a_reason(view: &Value) {
    for (sql, why) in [
        ("select $1; select $2", "several_statements"),
        ("set work_mem = $1", "utility"),
    ] {
        let side = &plans(view, sql)["before"];
        assert_eq!(
            (&side["status"], &side["reason"]),
            (&json!("not_asked"), &json!(why))
        );
        assert_eq!(same(view, sql), &Value::Null);
    }
}

fn assert_text_shows_plan_and_setting(old: &Baseline<'_>, settings: &str) {
    let text = succeeds(&["compare", &old.run, settings]);
    assert!(
        text.contains(
            "plan: Bitmap Heap Scan using orders_customer on orders → Seq Scan on orders"
        ),
        "{text}"
    );
    assert!(
        text.contains("random_page_cost 4 → 400 (default → configuration file)"),
        "{text}"
    );
}

/// Resets the settings, changes two indexes and a table, and replays.
fn assert_changed_schema_is_named(old: &Baseline<'_>) {
    run(
        &old.endpoint,
        "ALTER SYSTEM RESET ALL; SELECT pg_reload_conf(); DROP INDEX orders_customer; \
         CREATE INDEX again ON parts (of); ALTER TABLE parts ADD weight numeric",
    );
    let index = old.replay("index.run", &["--explain"]);
    let view = old.compared_with(&index, &[]);
    assert_eq!(names(&view, "settings"), [""; 0]);
    let found: Vec<_> = view["targets"]["indexes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["name"].as_str().unwrap(),
                one["presence"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [("orders_customer", "only_before"), ("again", "only_after")]
    );
    assert_eq!(
        view["targets"]["relations"][0]["details"][0],
        json!({"what": "column weight", "before": null, "after": "numeric"})
    );
    assert_eq!(step(&view), [BITMAP, SCAN]);
}

/// Checks that settings that nobody changed are those of the versions' defaults and of the servers' places.
fn assert_version_explains_other_settings(old: &Baseline<'_>, newer: &str) {
    let view = old.compared_with(newer, &[]);
    let targets = &view["targets"];
    for (side, major) in [("version_before", "13."), ("version_after", "18.")] {
        assert!(targets[side].as_str().unwrap().starts_with(major));
    }
    for setting in targets["settings"].as_array().unwrap() {
        assert!(
            setting["by_version"] == true || setting["bearing"] == "place",
            "{setting}"
        );
    }
    assert!(names(&view, "settings").contains(&"hash_mem_multiplier".to_owned()));
    assert!(targets["settings_new"].as_u64().unwrap() > 20);
    for list in ["indexes", "relations", "extensions"] {
        assert_eq!(names(&view, list), [""; 0], "{list}");
    }
    assert_eq!(same(&view, BY_CUSTOMER), true);
}

/// Comparison of two runs that asks both targets for plans as they are now.
#[derive(Clone)]
struct Asking<'a> {
    runs: [&'a str; 2],
    /// Connection strings: before, and after.
    targets: [String; 2],
    workload: String,
}

impl Asking<'_> {
    fn compare(&self, more: &[&str]) -> Output {
        let [before, after] = self.runs;
        let [before_target, after_target] = &self.targets;
        let options = [
            "compare",
            before,
            after,
            "--explain",
            "--before-target",
            before_target,
            "--after-target",
            after_target,
            "--workload",
            &self.workload,
        ];
        rehearse(&[&options[..], more].concat())
    }
}

/// Checks the plans of two targets, of which the one before has lost the index, and the one after has it.
fn assert_plans_are_those_of_now(asking: &Asking<'_>) {
    let output = asking.compare(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let view = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(step(&view), [SCAN, BITMAP]);
}

/// Checks that an unreachable target is an error on either side, and that the message names it.
fn assert_unreachable_target_is_named(asking: &Asking<'_>) {
    for (place, side) in ["before", "after"].into_iter().enumerate() {
        let mut unreachable = asking.clone();
        unreachable.targets[place] = "postgres://postgres@127.0.0.1:1/postgres".to_owned();
        let refused = unreachable.compare(&["--json"]);
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
        let said = String::from_utf8(refused.stderr).unwrap();
        let wanted = format!("the target {side} could not be asked for plans: ");
        assert!(
            said.contains(&wanted) && said.contains("127.0.0.1"),
            "{said}"
        );
    }
}

fn assert_text_counts_plans_of_each_target(asking: &Asking<'_>) {
    let said = String::from_utf8(asking.compare(&[]).stderr).unwrap();
    for side in ["before", "after"] {
        assert!(
            said.contains(&format!("The target {side}. Plans: of ")),
            "{said}"
        );
    }
    assert!(said.contains("of a kind without one"), "{said}");
}

fn assert_workload_of_another_run_is_refused(asking: &Asking<'_>, directory: &Path) {
    let other = directory.join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(
        other.join("b.log"),
        "2026-03-01 09:00:00.001 UTC [9] LOG:  statement: SELECT 1\n",
    )
    .unwrap();
    let (log, other) = (
        other.join("b.log").display().to_string(),
        other.join("b.workload").display().to_string(),
    );
    succeeds(&["capture", "log", &log, "--prefix", "%m [%p] ", "-o", &other]);
    let wrong = Asking {
        workload: other,
        ..asking.clone()
    };
    let refused = wrong.compare(&[]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("is not the workload of the run"), "{said}");
}

/// Checks that targets are compared only if both runs have facts, and plans only if both have them.
fn assert_missing_facts_are_not_compared(directory: &Path, new: &Endpoint, newer: &str) {
    let silent = replay(directory, new, "silent.run", &["--no-facts"]);
    let view = compared(newer, &silent, &[]);
    assert_eq!(view["targets"], Value::Null);
    assert_eq!(same(&view, BY_CUSTOMER), &Value::Null);
    assert_eq!(
        plans(&view, BY_CUSTOMER)["after"]["status"],
        "not_requested"
    );
    let quiet = replay(directory, new, "quiet.run", &["--no-facts"]);
    let view = compared(&silent, &quiet, &[]);
    assert_eq!(plans(&view, BY_CUSTOMER), &Value::Null);
}

#[test]
fn several_runs_of_one_side_that_found_other_targets_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    workload(directory);
    let (_server, server) = server(18);
    let one = replay(directory, &server, "one.run", &[]);
    run(&server, "CREATE TABLE more (x int)");
    let two = replay(directory, &server, "two.run", &[]);
    let three = replay(directory, &server, "three.run", &[]);
    let text = succeeds(&[
        "compare", "--before", &one, &two, "--after", &three, "--json",
    ]);
    let view: Value = serde_json::from_str(&text).unwrap();
    let notes = view["targets"]["notes"].as_array().unwrap();
    let differ: Vec<_> = notes
        .iter()
        .filter(|note| note["about"] == "target")
        .map(|note| note["side"].as_str().unwrap())
        .collect();
    assert_eq!(differ, ["before"], "{notes:?}");
    assert_eq!(names(&view, "relations"), ["public.more"]);
}

#[test]
fn help_says_what_show_literals_shows() {
    let shows = |command: &str| {
        let help = succeeds(&[command, "--help"]);
        let words: Vec<&str> = help.split_whitespace().collect();
        let words = words.join(" ");
        let (_, behind) = words.split_once("--show-literals Show ").unwrap();
        behind.split_once(" --").unwrap().0.to_owned()
    };
    let of_compare = shows("compare");
    assert!(of_compare.contains("conditions of plans"), "{of_compare}");
    for command in ["compare", "show", "replay"] {
        let said = shows(command);
        assert!(said.contains("the application's own messages"), "{said}");
    }
}
