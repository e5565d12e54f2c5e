//! Checks that the workspace keeps the rules of ARCHITECTURE.md.

use std::collections::BTreeMap;
use std::path::Path;

use xtask::tidy;

/// Number of known breaches by crate or folder. It may only shrink.
const KNOWN: &str = include_str!("../known_breaches.txt");

fn known() -> BTreeMap<&'static str, usize> {
    let counts = KNOWN.lines().map(|line| {
        let (folder, count) = line.rsplit_once(' ').expect("FOLDER COUNT");
        (folder, count.parse().expect("a count"))
    });
    counts.collect()
}

#[test]
fn workspace_keeps_the_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = tidy::source::read_workspace(root);
    assert!(sources.len() > 400, "the sources are not where they were");
    let known = known();
    let mut by_folder: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for breach in tidy::check_workspace(root) {
        let list = by_folder.entry(breach.folder()).or_default();
        list.push(breach.to_string());
    }
    for (folder, list) in &by_folder {
        let most = known.get(folder.as_str()).copied().unwrap_or(0);
        assert!(
            list.len() <= most,
            "{folder} has {} breaches of the rules, and {most} were known:\n{}",
            list.len(),
            list.join("\n")
        );
    }
    for (folder, most) in known {
        let found = by_folder.get(folder).map_or(0, Vec::len);
        assert!(
            found == most,
            "{folder} has {found} breaches, fewer than {most}; update xtask/known_breaches.txt"
        );
    }
}
