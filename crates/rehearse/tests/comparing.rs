//! `rehearse compare` with several runs per side, and with noise. The runs are synthetic, so
//! that the differences are known.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use run::{Execution, RunWriter};
use serde_json::Value;

mod following;
#[path = "../../analysis/compare/tests/made_up/mod.rs"]
mod made_up;
mod notifying;
mod webhook_receiver;

use made_up::{Chance, done, info, text};

/// Creates executions over 60 s of three statements. `whole` slows all of them, and `second` the
/// second one.
fn executions(seed: u64, whole: f64, second: f64) -> Vec<Execution> {
    let mut chance = Chance::new(seed);
    let mut all: Vec<Execution> = (0..3_000u64)
        .map(|number| {
            let which = (number % 3) as usize;
            let factor = whole * [1.0, second, 1.0][which];
            let service_ns = [1e6, 2e5, 5e6][which] * factor * chance.skewed();
            done(
                which as u64 + 1,
                number,
                number as i64 * 20_000_000,
                service_ns,
            )
        })
        .collect();
    all.sort_by_key(|one| one.done_ns);
    all
}

struct Room {
    directory: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn run(&self, name: &str, executions: Vec<Execution>) -> String {
        let path = self.directory.path().join(name);
        self.write(&path, executions);
        path.display().to_string()
    }

    fn write(&self, path: &Path, executions: Vec<Execution>) {
        let texts = (1..=3).map(|id| Ok(text(id, &format!("select {id} from t where id = $1"))));
        let mut writer = RunWriter::create(path, &info(), texts).unwrap();
        for execution in &executions {
            writer.execution(execution).unwrap();
        }
        writer.finish(info(), 0).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn compare(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .arg("compare")
        .args(arguments)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(output: &Output, code: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
}

#[test]
fn several_runs_a_side_know_how_much_runs_differ() {
    let room = Room::new();
    let b1 = room.run("b1.run", executions(1, 1.0, 1.0));
    let b2 = room.run("b2.run", executions(2, 1.25, 1.0));
    let a1 = room.run("a1.run", executions(3, 1.05, 1.0));
    let a2 = room.run("a2.run", executions(4, 1.4, 1.0));
    // One run a side cannot tell the second's slower day from a change.
    let alone = json(&compare(&[&b1, &a2, "--json"]));
    assert_eq!(alone["verdict"]["verdict"], "inconclusive");
    assert_eq!(alone["verdict"]["reason"], "run_as_a_whole");
    assert_eq!(alone["noise"], Value::Null);
    let all = ["--before", &b1, &b2, "--after", &a1, &a2, "--json"];
    let several = json(&compare(&all));
    assert_ne!(several["verdict"]["verdict"], "regression");
    assert_eq!(several["noise"]["source"], "repeats");
    assert_eq!(several["before"]["runs"].as_array().unwrap().len(), 2);
    assert_eq!(several["before"]["runs"][1]["name"], b2);
    assert_eq!(several["before"]["done"], 6_000);
    // The text names each run, and says that the intervals know of runs.
    let output = compare(&["--before", &b1, &b2, "--after", &a1, &a2]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("b2.run") && text.contains("a1.run"), "{text}");
    assert!(
        text.contains("runs of one side differ as a whole by"),
        "{text}"
    );
    assert!(text.contains("is in the intervals"), "{text}");
}

#[test]
fn noise_raises_the_margin() {
    let room = Room::new();
    let before = room.run("before.run", executions(1, 1.0, 1.0));
    let after = room.run("after.run", executions(2, 1.25, 1.0));
    let again = room.run("again.run", executions(3, 1.4, 1.0));
    let without = json(&compare(&[&before, &after, "--json"]));
    assert!(
        without["verdict"]["suspects"]
            .as_u64()
            .is_some_and(|suspects| suspects > 0)
    );
    let with_noise = json(&compare(&[
        &before, &after, "--json", "--noise", &before, &again,
    ]));
    assert_eq!(with_noise["noise"]["source"], "given");
    let runs = with_noise["noise"]["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert!(matches!(
        with_noise["verdict"]["suspects"].as_u64(),
        None | Some(0)
    ));
    assert_ne!(with_noise["verdict"]["verdict"], "regression");
}

#[test]
fn a_slower_statement_is_found_among_several_runs() {
    let room = Room::new();
    let b1 = room.run("b1.run", executions(1, 1.0, 1.0));
    let b2 = room.run("b2.run", executions(2, 1.02, 1.0));
    let a1 = room.run("a1.run", executions(3, 1.01, 3.0));
    let a2 = room.run("a2.run", executions(4, 1.0, 3.0));
    let all = ["--before", &b1, &b2, "--after", &a1, &a2];
    let output = compare(&[&all[..], &["--fail-on", "regression"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("REGRESSION"), "{text}");
    assert!(text.contains("select 2 from t"), "{text}");
    // What is found does not depend on the order of the runs.
    let turned = ["--before", &b2, &b1, "--after", &a2, &a1, "--json"];
    let turned = json(&compare(&turned));
    let straight = json(&compare(&[&all[..], &["--json"]].concat()));
    let findings = |view: &Value| -> Vec<(String, String)> {
        let each = view["statements"].as_array().unwrap().iter();
        each.map(|one| {
            let finding = &one["service"]["finding"];
            (one["fingerprint"].to_string(), finding.to_string())
        })
        .collect()
    };
    assert_eq!(findings(&turned), findings(&straight));
}

#[test]
fn what_cannot_be_compared_is_refused_with_what_to_do() {
    let room = Room::new();
    let one = room.run("one.run", executions(1, 1.0, 1.0));
    let other = room.run("other.run", executions(2, 1.0, 1.0));
    let missing = room.path("missing.run").display().to_string();
    refused(&compare(&[&one]), 2, &["AFTER.run"]);
    refused(&compare(&["--before", &one]), 2, &["--after"]);
    refused(&compare(&[]), 2, &["BEFORE.run"]);
    refused(
        &compare(&[&one, &other, "--noise", &one]),
        2,
        &["one run has no noise", "two runs or more"],
    );
    refused(
        &compare(&["--before", &one, &one, "--after", &other]),
        2,
        &["are one run, given twice on one side"],
    );
    let same = one.replace("one.run", "./one.run");
    refused(
        &compare(&["--before", &one, &same, "--after", &other]),
        2,
        &["are one run, given twice on one side"],
    );
    refused(
        &compare(&[&one, &same]),
        2,
        &["given before and after", "replay once more"],
    );
    refused(
        &compare(&["--before", &one, &other, "--after", &one]),
        2,
        &["given before and after"],
    );
    refused(&compare(&[&one, &missing]), 2, &["missing.run"]);
    // Of options alone, no run is read.
    refused(
        &compare(&["--dry-run", "--fail-on", "p99 >> 1.2x"]),
        2,
        &["--fail-on"],
    );
    let understood = compare(&["--dry-run", "--fail-on", "p99 > 1.2x"]);
    assert_eq!(understood.status.code(), Some(0));
    refused(
        &compare(&["--before", &one, "--after", &other, &missing]),
        2,
        &["missing.run"],
    );
    refused(
        &compare(&[&one, &other, "--false-discovery-rate", "0"]),
        2,
        &["makes no sense", "--false-discovery-rate 5"],
    );
}

#[test]
fn the_page_is_written_for_its_owner_beside_what_is_printed() {
    use std::os::unix::fs::PermissionsExt;
    let room = Room::new();
    let before = room.run("before.run", executions(1, 1.0, 1.0));
    let after = room.run("after.run", executions(2, 1.0, 12.0));
    let page = room.path("a.html");
    let name = page.display().to_string();
    let printed = json(&compare(&[&before, &after, "--json", "--html", &name]));
    assert_eq!(printed["verdict"]["verdict"], "regression");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>"));
    assert!(html.contains("<h1>Regression</h1>"));
    let mode = std::fs::metadata(&page).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Over a page, and over nothing else.
    let again = compare(&[&before, &after, "--html", &name]);
    assert!(again.status.success());
    let manifest = format!("{before}/manifest.json");
    let over = compare(&[&before, &after, "--html", &manifest]);
    refused(
        &over,
        2,
        &["manifest.json", "was not written by --html", "--html"],
    );
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let room = Room::new();
    let one = room.run("one.run", executions(1, 1.0, 1.0));
    let other = room.run("other.run", executions(2, 1.0, 1.0));
    for more in [&[][..], &["--json"], &["--markdown", "-"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
            .args(["compare", &one, &other])
            .args(more)
            .stdout(full.unwrap())
            .output()
            .unwrap();
        refused(&output, 3, &["cannot be written to standard output"]);
    }
}

#[test]
fn noise_makes_nothing_the_same() {
    let room = Room::new();
    let before = room.run("before.run", executions(1, 1.0, 1.0));
    let after = room.run("after.run", executions(2, 5.0, 1.0));
    let again = room.run("again.run", executions(3, 12.0, 1.0));
    let view = json(&compare(&[
        &before, &after, "--json", "--noise", &before, &again,
    ]));
    for statement in view["statements"].as_array().unwrap() {
        assert_ne!(statement["service"]["finding"], "same", "{statement:#}");
    }
    assert!(view["margin"].as_f64() > Some(5.0), "{}", view["margin"]);
}

#[test]
fn other_rows_are_told_with_the_verdict() {
    let room = Room::new();
    let before = room.run("before.run", executions(1, 1.0, 1.0));
    let mut changed = executions(2, 1.0, 1.0);
    changed[10].rows += 1;
    let after = room.run("after.run", changed);
    let output = compare(&[&before, &after]);
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().next().unwrap();
    assert!(
        first.contains("1 statement returned other rows than before"),
        "{first}"
    );
}

#[test]
fn page_goes_to_a_pipe_that_is_read_and_one_without_a_reader_is_refused() {
    let room = Room::new();
    let before = room.run("before.run", executions(1, 1.0, 1.0));
    let after = room.run("after.run", executions(2, 1.0, 1.0));
    let pipe = room.path("page");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let page = pipe.to_str().unwrap();
    let arguments = [before.as_str(), &after, "--html", page];
    refused(&compare(&arguments), 2, &["is a pipe that nobody reads"]);
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    // The reader waits until the pipe is open for writing.
    let mut output = compare(&arguments);
    for _ in 0..100 {
        if output.status.success() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        output = compare(&arguments);
    }
    assert!(output.status.success(), "{output:?}");
    let read = reader.join().unwrap();
    assert!(read.starts_with("<!DOCTYPE html>") && read.trim_end().ends_with("</html>"));
}

#[test]
fn findings_are_placed_in_the_migration_as_sarif() {
    let room = Room::new();
    let before = room.run("before.run", executions(1, 1.0, 1.0));
    let after = room.run("after.run", executions(2, 1.0, 10.0));
    let (file, output) = (room.path("a b.sql"), room.path("out.sarif"));
    std::fs::write(&file, "-- why\nSELECT 1;\nDROP INDEX\n  t_id;\n").unwrap();
    let [file, output] = [&file, &output].map(|path| path.to_str().unwrap());
    let given = [
        &before,
        &after,
        "--sarif",
        output,
        "--migration",
        file,
        "--json",
    ];
    json(&compare(&given));
    let sarif: Value = serde_json::from_str(&std::fs::read_to_string(output).unwrap()).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    assert!(sarif["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let run = &sarif["runs"][0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "rehearse");
    let rules = driver["rules"].as_array().unwrap();
    for rule in rules {
        for text in ["shortDescription", "fullDescription", "help"] {
            assert!(rule[text]["text"].is_string(), "{rule}");
        }
    }
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 1, "{sarif:#}");
    let result = &results[0];
    let rule = &rules[result["ruleIndex"].as_u64().unwrap() as usize];
    assert_eq!(result["ruleId"], "slower-statement");
    assert_eq!(rule["id"], result["ruleId"]);
    assert_eq!(result["level"], "error");
    let message = result["message"]["text"].as_str().unwrap();
    assert!(
        message.contains("select 2 from t where id = $1"),
        "{message}"
    );
    assert!(result["partialFingerprints"]["rehearseFinding/v1"].is_string());
    let place = &result["locations"][0]["physicalLocation"];
    let uri = place["artifactLocation"]["uri"].as_str().unwrap();
    assert!(
        uri.starts_with("file:///") && uri.ends_with("/a%20b.sql"),
        "{uri}"
    );
    assert_eq!(place["region"]["startLine"], 3);
    assert_eq!(place["region"]["endLine"], 4);
    // Without a finding the file has no results, so that the service closes the earlier ones.
    let same = room.run("same.run", executions(3, 1.0, 1.0));
    let given = [
        &before,
        &same,
        "--sarif",
        output,
        "--migration",
        file,
        "--json",
    ];
    json(&compare(&given));
    let sarif: Value = serde_json::from_str(&std::fs::read_to_string(output).unwrap()).unwrap();
    assert_eq!(sarif["runs"][0]["results"], serde_json::json!([]));
    let alone = compare(&[&before, &after, "--sarif", output]);
    refused(&alone, 2, &["--migration"]);
}
