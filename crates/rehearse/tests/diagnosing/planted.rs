//! A few kinds of the benchmark of planted troubles, so that its harness works.

#[path = "../../../lab/examples/planted_troubles/harness.rs"]
mod harness;

use std::path::PathBuf;
use std::time::Duration;

use harness::case::{CaseOptions, CaseResult, run_case};
use harness::kinds::KINDS;
use harness::program::Program;

fn case(name: &str) -> CaseResult {
    let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
    let options = CaseOptions {
        program: Program(PathBuf::from(env!("CARGO_BIN_EXE_rehearse"))),
        major: None,
        experiments: false,
        load: Duration::from_secs(3),
        measurement: Duration::from_secs(1),
        keep: None,
    };
    run_case(kind, 7, &options).unwrap()
}

#[test]
fn missing_index_of_a_generated_application_is_first_and_right() {
    let result = case("expression-lower");
    assert!(result.is_trouble);
    assert!(result.is_cause_first, "{}", result.notes);
    assert!(result.is_change_right, "{}", result.notes);
}

#[test]
fn healthy_generated_application_has_no_finding() {
    let result = case("healthy-lookups");
    assert!(!result.is_trouble);
    assert!(result.is_cause_first, "{}", result.notes);
}
