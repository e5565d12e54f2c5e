//! A place where a rule is broken.

use std::fmt;

/// A place where a rule is broken, and the rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breach {
    /// Path from the workspace's root.
    pub path: String,
    /// Line, from 1; 0 for the whole file.
    pub line: usize,
    /// The rule, and the code or text that breaks it.
    pub rule: String,
}

impl Breach {
    /// Names a place and the rule that it breaks.
    pub fn new(path: &str, line: usize, rule: impl Into<String>) -> Self {
        Breach {
            path: path.to_owned(),
            line,
            rule: rule.into(),
        }
    }

    /// Returns the crate, or the folder of the workspace's root, that the file is in.
    pub fn folder(&self) -> String {
        let in_crate = ["/src/", "/tests/", "/examples/", "/benches/", "/Cargo.toml"];
        let end = in_crate
            .iter()
            .filter_map(|part| self.path.find(part))
            .min();
        match (end, self.path.split_once('/')) {
            (Some(end), _) => self.path[..end].to_owned(),
            (None, Some((folder, _))) => folder.to_owned(),
            (None, None) => ".".to_owned(),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Breach { path, line, rule } = self;
        match line {
            0 => write!(f, "{path}: {rule}"),
            _ => write!(f, "{path}:{line}: {rule}"),
        }
    }
}
