//! Checks the invariants on the fuzzers' corpus of conversations and on many damaged copies of it,
//! without a fuzzer.

use std::path::PathBuf;

mod talk_laws;

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    let folders = ["conversation_client", "conversation_server"];
    let files = folders.iter().flat_map(|folder| {
        let listing = std::fs::read_dir(root.join(folder)).unwrap();
        listing.map(|entry| entry.unwrap().path())
    });
    files
        .map(|path| {
            let data = std::fs::read(&path).unwrap();
            (path, data)
        })
        .collect()
}

#[test]
fn the_laws_hold_for_the_corpus() {
    let corpus = corpus();
    assert!(corpus.len() >= 8);
    for (path, data) in corpus {
        println!("{}", path.display());
        talk_laws::hold(&data);
        // The fuzzers put this before it.
        for side in ["client", "server"] {
            let before = format!("../../../fuzz/before_{side}.talk");
            let before = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(before);
            let mut talk = std::fs::read(before).unwrap();
            talk.extend_from_slice(&data);
            talk_laws::hold(&talk);
        }
    }
}

#[test]
fn the_laws_hold_for_damaged_copies() {
    for (path, data) in corpus() {
        println!("{}", path.display());
        for at in 0..data.len().min(1_500) {
            talk_laws::hold(&data[..at]);
            for change in [0x01, 0x80, 0xff] {
                let mut changed = data.clone();
                changed[at] ^= change;
                talk_laws::hold(&changed);
            }
            let mut shorter = data.clone();
            shorter.remove(at);
            talk_laws::hold(&shorter);
        }
    }
}
