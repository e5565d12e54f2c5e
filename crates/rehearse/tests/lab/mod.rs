//! The lab's cases at their small scale: the direction and the cause, not times.

mod heap;
mod planning;
mod queue;

use std::process::Command;

use serde_json::Value;

fn rehearse(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs a case, and holds it to its schema. All that had to be seen was.
fn shown(case: &str) -> (tempfile::TempDir, Value) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("case").display().to_string();
    let run = || rehearse(&["lab", case, "--out", &out, "--json"]);
    let mut output = run();
    // An effect that a busy machine hid is looked for once more; a cause that is not there stays away.
    if output.status.code() == Some(1) {
        let view: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = view["checks"].as_array().unwrap();
        let hidden = checks.iter().filter(|check| check["holds"] == false);
        eprintln!("not seen at first: {:?}", hidden.collect::<Vec<_>>());
        output = run();
    }
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let view: Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema = rehearse(&["schema", "lab"]);
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler
        .add_resource("lab.json", serde_json::from_slice(&schema.stdout).unwrap())
        .unwrap();
    let compiled = compiler.compile("lab.json", &mut schemas).unwrap();
    if let Err(error) = schemas.validate(&view, compiled) {
        panic!("{error:#}");
    }
    for check in view["checks"].as_array().unwrap() {
        assert_eq!(check["holds"], true, "{check}");
    }
    let page = std::fs::read_to_string(directory.path().join("case/case.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));
    for file in view["files"].as_array().unwrap() {
        let name = file["name"].as_str().unwrap();
        assert!(directory.path().join("case").join(name).exists(), "{name}");
    }
    (directory, view)
}

#[test]
fn in_one_queue_a_slow_statement_holds_up_sessions_that_have_nothing_to_do_with_it() {
    let (directory, view) = shown("stall");
    let cause = &view["checks"][3]["measured"];
    assert!(
        cause
            .as_str()
            .unwrap()
            .starts_with("select id, state from orders where customer = $1"),
        "{cause}"
    );
    let diagnosed = view["checks"][4]["measured"].as_str().unwrap();
    assert!(
        diagnosed.starts_with("missing-index: ")
            && diagnosed.ends_with("CREATE INDEX ON public.orders (customer);"),
        "{diagnosed}"
    );
    let shipped = view["checks"][5]["measured"].as_str().unwrap();
    assert!(shipped.starts_with("lost: "), "{shipped}");
    // A folder of a case is replaced by the next; one of somebody else's is left alone.
    let foreign = directory.path().display().to_string();
    let refused = rehearse(&["lab", "stall", "--out", &foreign]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(directory.path().join("case/case.json").exists());
}

#[test]
fn an_instance_that_is_told_nothing_says_so() {
    let alone = rehearse(&["lab", "instance"]);
    assert_eq!(alone.status.code(), Some(3), "{alone:?}");
    let said = String::from_utf8(alone.stderr).unwrap();
    assert!(said.contains("was told: nothing"), "{said}");
    assert!(
        !String::from_utf8(rehearse(&["lab", "--help"]).stdout)
            .unwrap()
            .contains("instance")
    );
}

#[test]
fn cases_are_listed() {
    let listed = String::from_utf8(rehearse(&["lab", "list"]).stdout).unwrap();
    assert!(
        listed.contains("stall") && listed.contains("pgreplay-go") && listed.contains("heap"),
        "{listed}"
    );
}
