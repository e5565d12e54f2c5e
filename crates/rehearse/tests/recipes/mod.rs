//! The recipes of the guide for many recordings, run by DuckDB and Spark on made-up recordings.

use std::path::Path;
use std::process::Command;

use run::{Outcome, RunWriter};
use serde_json::Value;
use workload::Sqlstate;

use super::made_up::{Chance, done, info, text};

const SCRIPT: &str = include_str!("run_recipes.py");
/// Calls of a statement in a run.
const CALLS: u64 = 100;

/// Writes a run of three statements; the text of the third is missing. The second takes this many times its usual time,
/// and each tenth execution has no fingerprint.
fn write_run(path: &Path, seed: u64, factor: f64) {
    let mut chance = Chance::new(seed);
    let texts = (1..=2).map(|id| Ok(text(id, &format!("select {id} from t where id = $1"))));
    let mut info = info();
    info.started_wall_us = seed as i64 * 86_400_000_000;
    let mut writer = RunWriter::create(path, &info, texts).unwrap();
    for number in 0..3 * CALLS {
        let which = number % 3;
        let service_ns = [1e6, 2e6 * factor, 3e6][which as usize] * chance.skewed();
        let mut execution = done(which + 1, number, number as i64 * 20_000_000, service_ns);
        if number % 10 == 0 {
            execution.fingerprint = None;
        }
        if number % 25 == 1 {
            execution.outcome = Outcome::Failed(Sqlstate(*b"23505"));
        }
        writer.execution(&execution).unwrap();
    }
    info.failed.clear();
    writer.finish(info, 0).unwrap();
}

/// Captures a workload whose statements take `slower` ms more than usual.
fn write_workload(directory: &Path, name: &str, slower: u32) {
    let mut log = String::new();
    for number in 0..90u32 {
        let (at, pid) = (number * 20, 100 + number % 3);
        let line = |level: &str, rest: &str| {
            format!(
                "2026-03-01 09:00:{:02}.{:03} UTC [{pid}] {level}:  {rest}\n",
                at / 1_000,
                at % 1_000
            )
        };
        let statement = match number % 3 {
            0 => format!("SELECT * FROM items WHERE id = {number}"),
            1 => format!("UPDATE items SET n = {number} WHERE id = 1"),
            _ => "SELECT count(*) FROM items".to_owned(),
        };
        if number % 30 == 4 {
            log += &line(
                "ERROR",
                "duplicate key value violates unique constraint \"k\"",
            );
            log += &line("STATEMENT", &statement);
        } else {
            let took = number % 3 + 1 + slower;
            log += &line(
                "LOG",
                &format!("duration: {took}.000 ms  statement: {statement}"),
            );
        }
    }
    let file = directory.join(format!("{name}.log"));
    std::fs::write(&file, log).unwrap();
    let output = directory.join(name);
    let output = output.to_str().unwrap();
    rehearse(&[
        "capture",
        "log",
        file.to_str().unwrap(),
        "--prefix",
        "%m [%p] ",
        "-o",
        output,
    ]);
}

fn rehearse(arguments: &[&str]) -> Vec<u8> {
    let done = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "{arguments:?}: {done:?}");
    done.stdout
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_slice(&rehearse(arguments)).unwrap()
}

fn run_recipes(engine: &str, recordings: &Path) -> Value {
    let python = std::env::var("REHEARSE_TEST_PYTHON").unwrap_or("python3".to_owned());
    let guide =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/analyse-many-recordings.md");
    let done = Command::new(python)
        .args(["-c", SCRIPT, engine])
        .args([&guide, recordings])
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{engine}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    serde_json::from_slice(&done.stdout).unwrap()
}

fn rows<'r>(results: &'r Value, recipe: &str) -> &'r Vec<Value> {
    results[recipe]
        .as_array()
        .unwrap_or_else(|| panic!("no recipe {recipe}"))
}

fn assert_close(left: &Value, right: f64) {
    let left = left
        .as_f64()
        .unwrap_or_else(|| panic!("{left} is no number"));
    assert!(
        (left - right).abs() <= 0.02 * right.abs().max(1e-6),
        "{left} and {right}"
    );
}

/// Compares the results of both engines. Numbers may be of another type.
fn assert_equal(one: &Value, other: &Value, what: &str) {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            assert!(
                (one - other).abs() <= 1e-6 * one.abs().max(1.0),
                "{what}: {one} and {other}"
            );
        }
        (Value::Array(one), Value::Array(other)) => {
            assert_eq!(one.len(), other.len(), "{what}");
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                assert_equal(one, other, &format!("{what}[{at}]"));
            }
        }
        (Value::Object(one), Value::Object(other)) => {
            assert!(one.keys().eq(other.keys()), "{what}");
            for (name, value) in one {
                assert_equal(value, &other[name], &format!("{what}.{name}"));
            }
        }
        _ => assert_eq!(one, other, "{what}"),
    }
}

/// Checks that the calls and times of all workloads are the sums of those that `inspect` reports.
fn assert_statements_are_those_of_inspect(results: &Value, workloads: &[Value]) {
    let top = rows(results, "top-statements");
    assert_eq!(top.len(), 3, "{top:?}");
    for row in top {
        let of = workloads.iter().map(|view| {
            let statements = view["by_statement"].as_array().unwrap().iter();
            let mut same = statements.filter(|one| one["fingerprint"] == row["fingerprint"]);
            same.next().unwrap().clone()
        });
        let of: Vec<Value> = of.collect();
        assert_eq!(row["statement"], of[0]["sql"]);
        assert_eq!(row["workloads"], 2);
        let sum = |field: &dyn Fn(&Value) -> f64| of.iter().map(field).sum::<f64>();
        assert_close(&row["calls"], sum(&|one| one["calls"].as_f64().unwrap()));
        assert_close(
            &row["failures"],
            sum(&|one| one["errors"].as_f64().unwrap()),
        );
        let total_ns = sum(&|one| one["captured"]["total_ns"].as_f64().unwrap());
        assert_close(&row["total_ms"], total_ns / 1e6);
    }
    let errors = rows(results, "captured-errors");
    let failures: u64 = errors
        .iter()
        .map(|row| row["failures"].as_u64().unwrap())
        .sum();
    let known = workloads
        .iter()
        .flat_map(|view| view["errors"].as_object().unwrap().values());
    assert_eq!(
        failures,
        known.map(|one| one["count"].as_u64().unwrap()).sum::<u64>()
    );
    let sessions = rows(results, "sessions");
    let count = workloads
        .iter()
        .map(|view| view["sessions"]["count"].as_u64().unwrap());
    assert_eq!(sessions.len() as u64, count.sum::<u64>());
    assert_eq!(rows(results, "timeline").len(), 30);
}

/// Checks that the medians of runs are those that `compare` reports, and that unknown statements are kept.
fn assert_runs_are_those_of_compare(results: &Value, comparison: &Value) {
    let changes = rows(results, "regressions");
    let unknown = changes.iter().filter(|row| row["statement"] == "unknown");
    let unknown: Vec<&Value> = unknown.collect();
    assert!(
        unknown.iter().any(|row| row["fingerprint"].is_null()),
        "{changes:?}"
    );
    assert!(
        unknown
            .iter()
            .any(|row| row["fingerprint"] == "0000000000000003"),
        "{changes:?}"
    );
    let slowest = &changes[0];
    assert_eq!(slowest["statement"], "select 2 from t where id = $1");
    assert_eq!(
        (&slowest["previous_run"], &slowest["run"]),
        (&"2.run".into(), &"3.run".into())
    );
    assert!(slowest["factor"].as_f64().unwrap() > 1.5);
    let statements = comparison["statements"].as_array().unwrap();
    for row in changes
        .iter()
        .filter(|row| row["run"] == "3.run" && !row["fingerprint"].is_null())
    {
        let same = statements
            .iter()
            .find(|one| one["fingerprint"] == row["fingerprint"]);
        let same = same.unwrap_or_else(|| panic!("{row}"));
        assert_close(
            &row["previous_ms"],
            same["service"]["before"]["p50_ns"].as_f64().unwrap() / 1e6,
        );
        assert_close(
            &row["median_ms"],
            same["service"]["after"]["p50_ns"].as_f64().unwrap() / 1e6,
        );
    }
    let errors = rows(results, "errors");
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0]["error_class"], "constraint");
    assert_eq!(errors[0]["failures"], 3 * 12);
    assert_eq!(errors[0]["new_failures"], 3 * 12);
    assert_eq!(errors[0]["runs"], 3);
}

/// Makes the last run one of a worker that was killed and resumed, and the last workload a part of a series. Adds
/// directories that are unfinished.
fn divide_recordings(recordings: &Path) {
    let at = |name: &str| recordings.join(name);
    let shard = at("3.run.shard");
    std::fs::rename(at("3.run"), &shard).unwrap();
    std::fs::create_dir(at("3.run")).unwrap();
    std::fs::rename(&shard, at("3.run/part-0-resumed-1")).unwrap();
    copy_directory(&at("1.run"), &at("3.run/part-0"));
    std::fs::create_dir(at("shop.series")).unwrap();
    std::fs::rename(at("2.workload"), at("shop.series/2.workload")).unwrap();
    for (whole, unfinished) in [
        ("1.workload", "shop.series/3.workload.partial"),
        ("1.run", "3.run/part-1.partial"),
        ("1.run", "4.run.partial"),
    ] {
        copy_directory(&at(whole), &at(unfinished));
        remove_footers(&at(unfinished));
    }
}

/// Cuts off the end of each table, as in a directory that is still written.
fn remove_footers(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|name| name == "parquet") {
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() - 8]).unwrap();
        }
    }
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn recipes_of_the_guide_give_the_numbers_of_inspect_and_compare_in_both_engines() {
    if !test_support::is_set("REHEARSE_TEST_RECIPES") {
        test_support::report_skipped("needs DuckDB and PySpark, REHEARSE_TEST_RECIPES=1");
        return;
    }
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name);
    for (seed, factor) in [(1, 1.0), (2, 1.0), (3, 4.0)] {
        write_run(&at(&format!("{seed}.run")), seed, factor);
    }
    let names = ["1.workload", "2.workload"];
    for (name, slower) in names.iter().zip([0, 2]) {
        write_workload(room.path(), name, slower);
    }
    let path = |name: &str| at(name).display().to_string();
    let workloads: Vec<Value> = names
        .iter()
        .map(|name| json(&["inspect", &path(name), "--json"]))
        .collect();
    let comparison = json(&["compare", &path("2.run"), &path("3.run"), "--json"]);

    divide_recordings(room.path());
    let found = ["DuckDB", "Spark"].map(|engine| run_recipes(engine, room.path()));
    for results in &found {
        assert_eq!(results.as_object().unwrap().len(), 6);
        assert_statements_are_those_of_inspect(results, &workloads);
        assert_runs_are_those_of_compare(results, &comparison);
    }
    assert_equal(&found[0], &found[1], "the engines");
}
