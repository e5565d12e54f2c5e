//! CPU profiles of a busy real server through the command line. If perf may not record, the tests print that
//! and pass, unless `REHEARSE_TEST_PERF` is set.

mod exported_profiles;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use postgres::{Client, NoTls};
use sandbox::Sandbox;
use serde_json::Value;

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

/// Returns whether `perf` is tested in this tier and can record on this machine.
fn may_record(directory: &Path) -> bool {
    if !test_support::is_set("REHEARSE_TEST_PERF") && test_support::skip_in_fast_tier() {
        return false;
    }
    let output = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-o"])
        .arg(directory.join("try.data"))
        .args(["--", "true"])
        .output();
    let reason = match output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    assert!(
        std::env::var_os("REHEARSE_TEST_PERF").is_none(),
        "REHEARSE_TEST_PERF is set, and perf does not record: {reason}"
    );
    test_support::report_skipped(&format!("perf does not record here: {reason}"));
    false
}

/// Client that keeps the server busy until it is dropped.
struct Work {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Work {
    fn start(url: &str, sql: &'static str) -> Self {
        let mut client = Client::connect(url, NoTls).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let work = move || {
            while !until.load(Ordering::Relaxed) {
                client.batch_execute(sql).unwrap();
            }
        };
        Work {
            stop,
            thread: Some(std::thread::spawn(work)),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn share(view: &Value, phase: &str) -> f64 {
    let phases = view["phases"].as_array().unwrap();
    let found = phases.iter().find(|one| one["phase"] == phase);
    let samples = |one: &Value| one["samples"].as_f64().unwrap();
    found.map_or(0.0, |one| 100.0 * samples(one) / samples(view))
}

#[test]
fn a_busy_server_is_profiled_placed_and_drawn() {
    let directory = tempfile::tempdir().unwrap();
    if !may_record(directory.path()) {
        return;
    }
    let (_sandbox, endpoint) = test_support::server().major(15).start();
    let url = endpoint.url("postgres");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (sorting, scanning) = (path("sorting.run"), path("scanning.run"));
    let profile = |sql, run: &str| {
        let _work = Work::start(&url, sql);
        let output = rehearse(&[
            "profile",
            "--target",
            &url,
            "--duration",
            "2s",
            "--no-task-clock",
            "-o",
            run,
            "--json",
        ]);
        if output.status.code() == Some(3) && std::env::var_os("REHEARSE_TEST_PERF").is_none() {
            test_support::report_skipped(&String::from_utf8_lossy(&output.stderr));
            return None;
        }
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let view: Value = serde_json::from_slice(&output.stdout).unwrap();
        is_valid(&view);
        Some(view)
    };
    let sorts = "SELECT count(*) FROM (SELECT md5(i::text) AS t FROM generate_series(1, 30000) AS i ORDER BY 1) AS s";
    let Some(view) = profile(sorts, &sorting) else {
        return;
    };
    assert!(view["samples"].as_u64().unwrap() >= 5, "{view}");
    assert!(
        share(&view, "sort") + share(&view, "expression") + share(&view, "scan") > 30.0,
        "{view}"
    );
    assert!(share(&view, "unplaced") < 50.0, "{view}");
    let counted: u64 = view["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["samples"].as_u64().unwrap())
        .sum();
    assert_eq!(counted, view["samples"].as_u64().unwrap(), "phases add up");
    let parses = "SELECT 1 WHERE 1 = 2";
    profile(parses, &scanning).unwrap();

    // The same from the run, and a part of it.
    let text = succeeds(&["cpu", &sorting]);
    assert!(text.contains("by the kernel's count ("), "{text}");
    assert!(view["profile"]["task_clock_ns"].is_null(), "{view}");
    let none = succeeds(&["cpu", &sorting, "--filter-user", "nobody", "--json"]);
    let none: Value = serde_json::from_str(&none).unwrap();
    assert_eq!(none["samples"], 0);
    assert!(none["others"].as_u64() >= view["samples"].as_u64());

    let (svg, page) = (path("one.svg"), path("two.html"));
    succeeds(&["flame", &sorting, "-o", &svg]);
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(
        drawn.contains("<svg") && drawn.contains("PostgresMain"),
        "{drawn}"
    );
    succeeds(&["flame", &sorting, &scanning, "-o", &page]);
    let drawn = std::fs::read_to_string(&page).unwrap();
    assert!(drawn.starts_with("<!DOCTYPE html>") && drawn.contains("PostgresMain"));
    let folded = path("both.folded");
    succeeds(&["flame", &sorting, &scanning, "-o", &folded]);
    let lines = std::fs::read_to_string(&folded).unwrap();
    for line in lines.lines() {
        let numbers: Vec<&str> = line.rsplitn(3, ' ').collect();
        assert!(
            numbers.len() == 3 && numbers[..2].iter().all(|n| n.parse::<u64>().is_ok()),
            "{line}"
        );
    }

    assert_exported_profile_has_the_same_samples(&sorting, &view, &path);
    let pair = ["flame", &sorting, &scanning, "-o", &path("both.pb.gz")];
    let output = rehearse(&pair);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("-diff_base"));

    let as_json = ["flame", &sorting, "--format", "speedscope", "-o", &svg];
    let output = rehearse(&as_json);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("different formats"));
    let output = rehearse(&["flame", &sorting, "-o", &path("one.png")]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = rehearse(&["cpu", &sorting, "--statement", "of mine"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Compares the samples in files for pprof and speedscope with those of the account.
fn assert_exported_profile_has_the_same_samples(
    run: &str,
    view: &Value,
    path: &dyn Fn(&str) -> String,
) {
    let samples = view["samples"].as_u64().unwrap();
    if let Some((read, text)) = exported_profiles::pprof_samples(&[run], &path("one.pb.gz")) {
        assert_eq!(read, samples, "{text}");
        assert!(text.contains("PostgresMain"), "{text}");
    }
    let (ns, _) = exported_profiles::speedscope_time(&[run], &path("one.speedscope.json"));
    let sample_ns = 1e9 / view["profile"]["frequency_hz"].as_f64().unwrap();
    let read = ns / sample_ns;
    assert!(
        (read - samples as f64).abs() < 0.01 * samples as f64,
        "{read} of {samples}"
    );
}

/// Creates a workload of two sessions, one that works and one that sleeps, as a log describes
/// them.
fn works_and_sleeps(directory: &Path) -> String {
    let mut log = String::new();
    for (at, pid, what) in [
        (
            0,
            1,
            "connection authorized: user=postgres database=postgres",
        ),
        (
            1,
            2,
            "connection authorized: user=postgres database=postgres",
        ),
        (
            10,
            1,
            "statement: SELECT count(md5(i::text)) FROM generate_series(1, 400000) i",
        ),
        (20, 2, "statement: SELECT pg_sleep(3)"),
        (
            30,
            1,
            "statement: SELECT sum(length(md5(i::text))) FROM generate_series(1, 300000) i",
        ),
    ] {
        log.push_str(&format!(
            "2026-03-01 09:00:00.{at:03} UTC [{pid}] LOG:  {what}\n"
        ));
    }
    let from = directory.join("a.log").display().to_string();
    std::fs::write(&from, log).unwrap();
    let workload = directory.join("a.workload").display().to_string();
    succeeds(&[
        "capture", "log", &from, "--prefix", "%m [%p] ", "-o", &workload,
    ]);
    workload
}

/// A profiled replay of a statement that works and one that sleeps.
struct Profiled {
    directory: tempfile::TempDir,
    _sandbox: Sandbox,
    url: String,
    workload: String,
    run: String,
    /// Summary of the replay.
    view: Value,
}

impl Profiled {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (sandbox, endpoint) = test_support::server().major(15).start();
        let url = endpoint.url("postgres");
        let workload = works_and_sleeps(directory.path());
        let run = directory.path().join("a.run").display().to_string();
        let view = succeeds(&[
            "replay",
            &workload,
            "--target",
            &url,
            "-o",
            &run,
            "--observe",
            "--profile",
            "--json",
        ]);
        let view = serde_json::from_str(&view).unwrap();
        Profiled {
            directory,
            _sandbox: sandbox,
            url,
            workload,
            run,
            view,
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

#[test]
fn a_replay_is_profiled_beside_its_statements_and_its_waits_are_drawn() {
    if !test_support::is_set("REHEARSE_TEST_PERF") && test_support::skip_in_fast_tier() {
        return;
    }
    let profiled = Profiled::new();
    // Waits need no perf.
    let (stack, drawn_ms) = drawn_wait(&profiled);
    let statement = &stack[stack.len() - 17..stack.len() - 1];
    wait_is_in_the_account(&profiled, &stack, drawn_ms);
    unsuitable_options_are_explained(&profiled, statement);

    let phases = rehearse(&["cpu", &profiled.run, "--json"]);
    if phases.status.code() == Some(3) && !may_record(profiled.directory.path()) {
        return;
    }
    let phases: Value = serde_json::from_slice(&phases.stdout).unwrap();
    is_valid(&phases);
    assert!(phases["samples"].as_u64().unwrap() >= 5, "{phases}");
    processor_time_adds_up(&profiled, &phases);
    statements_have_their_samples(&phases);
    assert_exported_samples_have_their_statements(&profiled);
    shares_are_those_of_the_account(&profiled, &phases);
    let parts = profiled.view["time"]["whole"]["parts"].as_array().unwrap();
    assert!(
        parts
            .iter()
            .any(|part| part["category"] == "processor" && part["detail"].is_string()),
        "{parts:?}"
    );
}

/// Checks labels, profiles of statements, and waits in files for pprof and speedscope.
fn assert_exported_samples_have_their_statements(profiled: &Profiled) {
    let run = profiled.run.as_str();
    let file = profiled.path("labels.pb.gz");
    if let Some((_, text)) = exported_profiles::pprof_samples(&[run], &file) {
        assert!(text.contains("statement: Total"), "{text}");
    }
    let file = profiled.path("labels.json");
    let (_, statements) = exported_profiles::speedscope_time(&[run], &file);
    assert!(statements > 0, "no statement has a profile");
    let waits = [run, "--off-cpu"];
    let file = profiled.path("waits.pb.gz");
    if let Some((_, text)) = exported_profiles::pprof_samples(&waits, &file) {
        assert!(
            text.contains("PgSleep") && text.contains("pg_sleep"),
            "{text}"
        );
    }
    let file = profiled.path("waits.speedscope.json");
    let (ns, statements) = exported_profiles::speedscope_time(&waits, &file);
    assert!(ns > 0.5e9 && statements > 0, "{ns} ns of {statements}");
}

/// Returns the stack of the sleeping statement, which ends in its fingerprint in brackets, and its length in
/// milliseconds.
fn drawn_wait(profiled: &Profiled) -> (String, f64) {
    let folded = profiled.path("waits.folded");
    succeeds(&["flame", &profiled.run, "--off-cpu", "-o", &folded]);
    let lines = std::fs::read_to_string(&folded).unwrap();
    let (stack, ms) = lines
        .lines()
        .find_map(|line| {
            line.rsplit_once(' ')
                .filter(|(stack, _)| stack.contains("pg_sleep"))
        })
        .unwrap_or_else(|| panic!("{lines}{}", profiled.view["observed"]));
    assert!(
        stack
            .to_lowercase()
            .starts_with("timeout;pgsleep;select pg_sleep($1) ["),
        "{stack}"
    );
    // It waited for 3 s: milliseconds, not samples. How close samples are to a wait's length is tested with the samples
    // (`observe`), where nothing else wants the processors.
    let ms: f64 = ms.parse().unwrap();
    assert!((500.0..6_000.0).contains(&ms), "{lines}");
    (stack.to_owned(), ms)
}

/// The same samples make the account of the time, where they stand for no more than the client saw.
fn wait_is_in_the_account(profiled: &Profiled, stack: &str, drawn_ms: f64) {
    let statement = &stack[stack.len() - 17..stack.len() - 1];
    let accounts = profiled.view["time"]["statements"].as_array().unwrap();
    let mut of_it = accounts
        .iter()
        .filter(|one| one["fingerprint"] == statement);
    let account = of_it.next().unwrap();
    let parts = account["parts"].as_array().unwrap();
    let part = parts
        .iter()
        .find(|part| part["category"] == "wait" && part["detail"]["event"] == "PgSleep");
    let ns = part.unwrap()["ns"].as_f64().unwrap();
    let service_ns = account["service_ns"].as_f64().unwrap();
    let drawn_ns = drawn_ms * 1e6;
    assert!(
        ns <= service_ns + 1e3 && ns <= drawn_ns + 1e6,
        "{account} {stack}"
    );
    let is_scaled = !parts
        .iter()
        .any(|part| part["category"] == "outside_server");
    assert!(
        is_scaled || (ns - drawn_ns).abs() <= 1e6,
        "{account} {stack}"
    );
}

fn unsuitable_options_are_explained(profiled: &Profiled, statement: &str) {
    let run = &profiled.run;
    let output = rehearse(&[
        "flame",
        run,
        run,
        "--off-cpu",
        "--statement",
        statement,
        "-o",
        &profiled.path("waits.html"),
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("no stacks") && said.contains("Not drawn: "),
        "{said}"
    );
    let output = rehearse(&[
        "flame",
        run,
        "--off-cpu",
        "--filter-user",
        "me",
        "-o",
        &profiled.path("waits.folded"),
    ]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Three counts of one time: backends that began later are in each of them. How close they are, a bench says.
fn processor_time_adds_up(profiled: &Profiled, phases: &Value) {
    let of_profile = |what: &str| phases["profile"][what].as_u64().unwrap_or_default();
    let (scheduler, tasks) = (of_profile("cpu_ns"), of_profile("task_clock_ns"));
    let is_counted = !phases["profile"]["task_clock_ns"].is_null();
    let must_be = std::env::var_os("REHEARSE_TEST_PERF").is_some();
    if !is_counted && !must_be {
        test_support::report_skipped(&format!("counters of tasks: {}", phases["profile"]));
        return;
    }
    assert!(tasks > 20_000_000, "{phases}");
    assert!(tasks < 4 * scheduler && scheduler < 4 * tasks, "{phases}");
    let text = succeeds(&["cpu", &profiled.run]);
    assert!(
        text.contains("by the kernel's count of tasks (") && text.contains("by its scheduler's"),
        "{text}"
    );
    phases_add_up_to(tasks, &profiled.run);
    let account = &profiled.view["time"]["processor"];
    let parts = account["whole"]["parts"].as_array().unwrap().iter();
    let sum_ns: f64 = parts.map(|part| part["ns"].as_f64().unwrap()).sum();
    assert!((sum_ns - tasks as f64).abs() < 2_000.0, "{account}");
    assert_eq!(account["counted_by"], "tasks");
    // Comparisons go by the scheduler's, which runs without a profile have too.
    let again = profiled.path("again.run");
    succeeds(&[
        "replay",
        &profiled.workload,
        "--target",
        &profiled.url,
        "-o",
        &again,
        "--observe",
    ]);
    let output = rehearse(&["compare", &profiled.run, &again, "--json"]);
    let compared: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let before_ns = compared["time"]["processor"]["before_ns"].as_f64().unwrap();
    assert!((before_ns - scheduler as f64).abs() < 2_000.0, "{compared}");
}

/// Each statement has its own samples, and the sleeping one next to none.
fn statements_have_their_samples(phases: &Value) {
    let statements = phases["statements"].as_array().unwrap();
    let of = |sql: &str| -> u64 {
        let of = statements.iter().filter(|one| {
            let text = one["sql"].as_str().unwrap_or_default();
            text.to_lowercase().contains(sql)
        });
        of.map(|one| one["samples"].as_u64().unwrap()).sum()
    };
    let known = phases["statement_samples"].as_u64().unwrap();
    assert!(of("md5") >= 5 && of("md5") <= known, "{phases}");
    assert!(of("pg_sleep") <= of("md5") / 2, "{phases}");
}

/// `cpu` gives each statement the share that `show` gives it.
fn shares_are_those_of_the_account(profiled: &Profiled, phases: &Value) {
    let account = &profiled.view["time"]["processor"];
    let whole_ns = account["whole"]["cpu_ns"].as_f64().unwrap();
    let all = account["statements"].as_array().unwrap();
    let statements = phases["statements"].as_array().unwrap();
    assert!(!statements.is_empty(), "{phases}");
    for one in statements {
        let is_it = |other: &&Value| other["fingerprint"] == one["fingerprint"];
        let shown = all.iter().find(is_it).unwrap();
        let share = shown["cpu_ns"].as_f64().unwrap() / whole_ns;
        let share_of_cpu = one["processor_share"].as_f64().unwrap();
        assert!((share - share_of_cpu).abs() < 1e-9, "{one} {shown}");
    }
}

/// All phases of all processes, to what the kernel's counters of tasks counted; where samples are not weighed, to what they
/// stand for by themselves.
fn phases_add_up_to(tasks_ns: u64, run: &str) {
    let all = succeeds(&["cpu", run, "--all-processes", "--json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    let profile = &all["profile"];
    let number = |of: &Value| of.as_f64().unwrap();
    let by_phase = all["phases"].as_array().unwrap().iter();
    let phases_ns: f64 = by_phase.map(|one| number(&one["cpu_ns"])).sum();
    let between_ns = 1e9 / number(&profile["frequency_hz"]);
    let sampled_ns = number(&profile["counted"]) * between_ns;
    let rounded_ns = 50_000.0;
    if all["is_weighed"] == true {
        assert!((phases_ns - tasks_ns as f64).abs() <= rounded_ns, "{all}");
    } else {
        assert!((phases_ns - sampled_ns).abs() <= rounded_ns, "{all}");
        let each_ns = number(&all["sample_ns"]);
        assert!((each_ns - between_ns).abs() < 10.0, "{all}");
    }
    // Nothing that ran here forbids it, but a machine on which more than the half of it is not met.
    let is_near = (51.0..195.0).contains(&(100.0 * sampled_ns / tasks_ns as f64));
    let is_whole = profile["scope"] == "all processors" && profile["lost"] == 0;
    let notes = profile["notes"].to_string();
    assert!(
        all["is_weighed"] == true || !is_near || !is_whole || notes.contains("perf"),
        "{all}"
    );
}

fn is_valid(view: &Value) {
    let schema: Value = serde_json::from_str(&succeeds(&["schema", "cpu"])).unwrap();
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("phases.json", schema).unwrap();
    let index = compiler.compile("phases.json", &mut schemas).unwrap();
    schemas
        .validate(view, index)
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Checks that without perf there is a reason, and no run.
#[test]
fn without_perf_there_is_a_reason_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = test_support::server().start();
    let run = directory.path().join("none.run");
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(["profile", "--target", &endpoint.url("postgres"), "-o"])
        .arg(&run)
        .env("PATH", directory.path())
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{complaint}");
    assert!(
        complaint.contains("there is no program `perf`") && complaint.contains("linux-perf"),
        "{complaint}"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
