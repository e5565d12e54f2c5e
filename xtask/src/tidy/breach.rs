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
