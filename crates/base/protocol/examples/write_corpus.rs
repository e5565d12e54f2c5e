//! Writes the samples into the fuzzers' corpus: `cargo run -p pgwire --example write_corpus`.
//!
//! The test `the_corpus_has_the_samples` fails as long as they differ.

use corpus_files::{TARGETS, corpus, expected};

#[path = "../tests/corpus_files/mod.rs"]
mod corpus_files;
#[path = "../tests/samples/mod.rs"]
mod samples;

fn main() -> std::io::Result<()> {
    for target in TARGETS {
        std::fs::create_dir_all(corpus(target))?;
        for (name, bytes) in expected(target) {
            std::fs::write(corpus(target).join(name), bytes)?;
        }
    }
    Ok(())
}
