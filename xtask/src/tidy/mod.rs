//! The rules that sources keep, as ARCHITECTURE.md and CONTRIBUTING.md state them.
//!
//! Each rule is a function from texts to breaches, with a sample in its unit tests that breaks it.
//! `tests/architecture.rs` applies all rules to the workspace.

pub mod breach;
pub mod cycles;
pub mod floors;
pub mod names;
pub mod prose;
pub mod size;
pub mod source;

use std::collections::BTreeMap;
use std::path::Path;

use breach::Breach;
use floors::Manifest;
use source::Source;
use toml::Table;

/// Applies all rules to the workspace at `root`. Returns the breaches in order of path and line.
///
/// # Panics
/// If a file of the workspace cannot be read.
pub fn check_workspace(root: &Path) -> Vec<Breach> {
    let sources = source::read_workspace(root);
    let mut breaches: Vec<Breach> = sources
        .iter()
        .flat_map(|source| {
            [
                names::check(source),
                size::check(source),
                prose::check_source(source),
            ]
            .concat()
        })
        .collect();
    breaches.extend(names::check_exceptions(&sources));
    let mut by_crate: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in &sources {
        by_crate
            .entry(source.crate_folder())
            .or_default()
            .push(source);
    }
    breaches.extend(by_crate.values().flat_map(|sources| cycles::check(sources)));
    breaches.extend(check_manifests(root));
    for guide in guides(root) {
        let text = std::fs::read_to_string(root.join(&guide)).expect("a readable guide");
        breaches.extend(prose::check_guide(&guide, &text));
    }
    breaches.sort();
    breaches.dedup();
    breaches
}

fn check_manifests(root: &Path) -> Vec<Breach> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("a readable manifest");
    let workspace: Table = read("Cargo.toml")
        .parse()
        .expect("the workspace's manifest");
    let shared = workspace["workspace"]["dependencies"]
        .as_table()
        .expect("a table");
    let members = workspace["workspace"]["members"]
        .as_array()
        .expect("a list");
    let mut names = Vec::new();
    let mut breaches = Vec::new();
    for member in members.iter().filter_map(|member| member.as_str()) {
        let path = format!("{member}/Cargo.toml");
        let text = read(&path);
        let table: Table = text.parse().expect("a manifest");
        names.push(
            table["package"]["name"]
                .as_str()
                .expect("a name")
                .to_owned(),
        );
        breaches.extend(floors::check(&Manifest::parse(&path, &text, shared)));
    }
    breaches.extend(floors::check_order(&names));
    breaches
}

/// Finds the Markdown files of the root and of `docs`. The changelog is history and is left out.
fn guides(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["", "docs"] {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(root.join(&folder)).expect("a readable folder") {
                let entry = entry.expect("a readable folder");
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if folder.is_empty() {
                    name.clone()
                } else {
                    format!("{folder}/{name}")
                };
                if entry.path().is_dir() && !folder.is_empty() {
                    folders.push(path);
                } else if name.ends_with(".md") && name != "CHANGELOG.md" {
                    found.push(path);
                }
            }
        }
    }
    found.sort();
    found
}
