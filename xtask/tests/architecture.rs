//! Checks that the workspace keeps the rules of ARCHITECTURE.md.

use std::path::Path;

use xtask::tidy;

#[test]
fn workspace_keeps_the_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = tidy::source::read_workspace(root);
    assert!(sources.len() > 400, "the sources are not where they were");
    let breaches = tidy::check_workspace(root);
    let list: Vec<String> = breaches.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{}", list.join("\n"));
}
