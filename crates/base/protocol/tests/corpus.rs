//! The laws over the fuzzers' corpus and over many damaged copies of it, without a fuzzer.

use corpus_files::{TARGETS, corpus, expected};

mod corpus_files;
mod laws;
mod samples;

/// Number of randomly damaged copies of each file, in addition to the systematic ones.
const RANDOM_COPIES: usize = 2_000;

/// Marsaglia's xorshift64: the same bytes in every run.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

fn hold_for_damaged(target: &str, law: fn(&[u8])) {
    let files = expected(target);
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    for (_, original) in &files {
        law(original);
        for at in 0..original.len() {
            law(&original[..at]);
            law(&original[at..]);
            let mut damaged = original.clone();
            for byte in [
                0,
                1,
                4,
                0x7f,
                0x80,
                0xff,
                original[at] ^ 1,
                original[at].wrapping_add(1),
            ] {
                damaged[at] = byte;
                law(&damaged);
            }
        }
        for _ in 0..RANDOM_COPIES {
            let mut damaged = original.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(damaged.len());
                match random.below(4) {
                    0 => damaged[at] = random.below(256) as u8,
                    1 => drop(damaged.drain(at..)),
                    2 => damaged.insert(at, random.below(256) as u8),
                    _ => {
                        let other = &files[random.below(files.len())].1;
                        let from = random.below(other.len());
                        damaged.splice(at.., other[from..].iter().copied());
                    }
                }
                if damaged.is_empty() {
                    damaged.push(0);
                }
            }
            law(&damaged);
        }
    }
}

#[test]
fn the_laws_hold_for_damaged_bytes_of_clients() {
    hold_for_damaged("pgwire_frontend", laws::frontend);
}

#[test]
fn the_laws_hold_for_damaged_bytes_of_servers() {
    hold_for_damaged("pgwire_backend", laws::backend);
}

/// Any file in the corpus, one that a fuzzer found included, keeps holding.
#[test]
fn the_laws_hold_for_the_corpus() {
    for (target, law) in [
        ("pgwire_frontend", laws::frontend as fn(&[u8])),
        ("pgwire_backend", laws::backend),
    ] {
        for entry in std::fs::read_dir(corpus(target)).unwrap() {
            law(&std::fs::read(entry.unwrap().path()).unwrap());
        }
    }
}

#[test]
fn the_corpus_has_the_samples() {
    for target in TARGETS {
        for (name, bytes) in expected(target) {
            let file = corpus(target).join(name);
            let found = std::fs::read(&file).unwrap_or_default();
            assert!(
                found == bytes,
                "{} is not the sample; write it by `cargo run -p pgwire --example write_corpus`",
                file.display()
            );
        }
    }
}
