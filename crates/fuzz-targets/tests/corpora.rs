//! Replays the corpora: every input that a fuzzer found or a person wrote.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fuzz_targets::TARGETS;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|entry| name(entry.unwrap().path())).collect()
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let targets: BTreeSet<String> = TARGETS
        .iter()
        .map(|target| target.name.to_owned())
        .collect();
    assert_eq!(names_in(&fuzz().join("fuzz_targets")), targets);
    assert_eq!(names_in(&fuzz().join("corpus")), targets);
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for name in targets {
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "{name} is in no [[bin]]"
        );
    }
}

#[test]
fn corpora_keep_the_properties_of_their_targets() {
    let mut failed = Vec::new();
    for target in TARGETS {
        let mut files = 0;
        for entry in std::fs::read_dir(fuzz().join("corpus").join(target.name)).unwrap() {
            let path = entry.unwrap().path();
            let data = std::fs::read(&path).unwrap();
            files += 1;
            if catch_unwind(AssertUnwindSafe(|| (target.check)(&data))).is_err() {
                failed.push(path);
            }
        }
        assert!(files > 0, "{} has no corpus", target.name);
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
