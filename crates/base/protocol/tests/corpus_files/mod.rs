//! Which files the fuzzers' corpus must have. More may be there: what a fuzzer found.

use crate::samples;
use std::path::{Path, PathBuf};

/// The fuzzers' targets.
pub const TARGETS: [&str; 2] = ["pgwire_frontend", "pgwire_backend"];

/// Returns the directory of a target's corpus.
pub fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../fuzz/corpus")
        .join(target)
}

/// Every file that belongs in the corpus of a target.
pub fn expected(target: &str) -> Vec<samples::Sample> {
    match target {
        "pgwire_frontend" => [samples::startup(), samples::frontend()].concat(),
        "pgwire_backend" => samples::backend(),
        other => panic!("no target {other}"),
    }
}
