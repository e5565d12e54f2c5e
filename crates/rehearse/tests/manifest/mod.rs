//! Manifests as the rules of the house read them.

use crate::lines_with;
use toml::{Table, Value};

/// A crate's manifest, as far as the rules read it.
pub struct Manifest {
    pub path: String,
    pub krate: String,
    /// Of the crate and of what builds it.
    pub dependencies: Vec<String>,
    /// Of its tests, examples and benches.
    pub for_tests: Vec<String>,
    text: String,
}

impl Manifest {
    /// Reads a manifest; `shared` is the workspace's table of dependencies, which may rename.
    pub fn read(path: &str, text: &str, shared: &Table) -> Self {
        let table: Table = text.parse().unwrap();
        let targets = table.get("target").and_then(Value::as_table);
        let tables: Vec<&Table> = std::iter::once(&table)
            .chain(
                targets
                    .into_iter()
                    .flat_map(Table::values)
                    .filter_map(Value::as_table),
            )
            .collect();
        let all_in = |kind: &str| -> Vec<String> {
            tables
                .iter()
                .filter_map(|table| table.get(kind)?.as_table())
                .flat_map(|listed| {
                    listed
                        .iter()
                        .map(|(name, value)| package(name, value, shared))
                })
                .collect()
        };
        Manifest {
            path: path.to_owned(),
            krate: table["package"]["name"].as_str().unwrap().to_owned(),
            dependencies: [all_in("dependencies"), all_in("build-dependencies")].concat(),
            for_tests: all_in("dev-dependencies"),
            text: text.to_owned(),
        }
    }

    /// The line that names a dependency, or 0.
    pub fn line_of(&self, dependency: &str) -> usize {
        lines_with(&self.text, dependency)
            .into_iter()
            .find(|&line| {
                let text = self.text.lines().nth(line - 1).unwrap_or_default();
                text.trim_start().starts_with(dependency) || text.contains("package")
            })
            .unwrap_or(0)
    }
}

/// The real name of a dependency, which `package` may rename, there or in the workspace's table.
fn package(name: &str, value: &Value, shared: &Table) -> String {
    let renamed = |value: &Value| Some(value.get("package")?.as_str()?.to_owned());
    renamed(value)
        .or_else(|| shared.get(name).and_then(renamed))
        .unwrap_or_else(|| name.to_owned())
}
