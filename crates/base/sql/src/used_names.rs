//! Names that a text uses, as the server may resolve them, and those of them that a read-only transaction does not block.

use std::collections::HashSet;

use super::fingerprint::lexer::{Backslash, LexicalRules, NumberSyntax};
use super::statement_splitter::{Lexeme, split_statements_with};

/// Longest name in bytes. The server cuts longer ones (`NAMEDATALEN`).
const NAME_BYTES_MAX: usize = 63;

/// Names and operators of a text, by every reading that a server may have of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedNames {
    /// Names before an opening parenthesis.
    called: HashSet<String>,
    /// All names.
    mentioned: HashSet<String>,
    /// Runs of operator characters.
    operators: HashSet<String>,
}

impl UsedNames {
    /// Reads the names of a text.
    pub fn of(sql: &str) -> Self {
        let mut used = UsedNames::default();
        for rules in readings(sql) {
            for statement in split_statements_with(sql, rules) {
                used.add(&statement.words);
            }
        }
        used
    }

    fn add(&mut self, words: &[Lexeme<'_>]) {
        let mut operator = String::new();
        for (place, word) in words.iter().enumerate() {
            match word {
                Lexeme::Symbol(text) if text.chars().all(is_operator) => {
                    operator.push_str(text);
                    continue;
                }
                _ if !operator.is_empty() => {
                    _ = self.operators.insert(std::mem::take(&mut operator))
                }
                _ => {}
            }
            let Some(mut name) = word.name() else {
                continue;
            };
            name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
            let name = fold(&name);
            if words.get(place + 1).is_some_and(|next| next.is_symbol("(")) {
                self.called.insert(name.clone());
            }
            self.mentioned.insert(name);
        }
        if !operator.is_empty() {
            self.operators.insert(operator);
        }
    }

    /// Whether one of the names is mentioned.
    pub fn mention(&self, name: &str) -> bool {
        self.mentioned.contains(name)
    }
}

/// Folds a name. Which letters a server folds depends on its encoding, so all are, on both sides.
fn fold(name: &str) -> String {
    name.to_lowercase()
}

fn is_operator(character: char) -> bool {
    "~!@#^&|`?+-*/%<>=".contains(character)
}

/// Returns the lexical rules by which readings of a text may differ.
pub(crate) fn readings(sql: &str) -> impl Iterator<Item = LexicalRules> {
    let backslashes: &[Backslash] = match sql.contains('\\') {
        true => &[Backslash::Plain, Backslash::Escape],
        false => &[Backslash::Plain],
    };
    // `0x1$$` is a number and a quote, or a number and a name.
    let numbers: &[NumberSyntax] = match sql.contains('$') {
        true => &[NumberSyntax::From15, NumberSyntax::Until14],
        false => &[NumberSyntax::From15],
    };
    backslashes.iter().flat_map(move |backslash| {
        numbers.iter().map(|numbers| LexicalRules {
            backslash: *backslash,
            numbers: *numbers,
        })
    })
}

/// Names of a database whose use a read-only transaction does not hold back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnrestrictedNames {
    /// Functions, which are used if they are called.
    called: HashSet<String>,
    /// Relations and types, and functions that may be called as an attribute (`t.f`).
    mentioned: HashSet<String>,
    /// Operators.
    operators: HashSet<String>,
}

impl UnrestrictedNames {
    /// Adds a function, which is used if it is called.
    pub fn add_called(&mut self, name: &str) {
        self.called.insert(fold(name));
    }

    /// Adds a relation, a type, or a function that may be called as an attribute, which is used if it is mentioned.
    pub fn add_mentioned(&mut self, name: &str) {
        self.mentioned.insert(fold(name));
    }

    /// Adds an operator.
    pub fn add_operator(&mut self, operator: &str) {
        self.operators.insert(operator.to_owned());
    }

    /// Number of relations, types and operators.
    pub fn count(&self) -> usize {
        self.mentioned.len() + self.operators.len()
    }

    /// Whether a text uses one of the names.
    pub fn are_in(&self, used: &UsedNames) -> bool {
        let has_operator = |known: &String| used.operators.iter().any(|run| run.contains(known));
        !self.called.is_disjoint(&used.called)
            || !self.mentioned.is_disjoint(&used.mentioned)
            || self.operators.iter().any(has_operator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_the_server_reads_them() {
        let names = UnrestrictedNames {
            called: ["dblink_exec", "ärger"].map(str::to_owned).into(),
            mentioned: ["report".to_owned()].into(),
            operators: ["##".to_owned()].into(),
        };
        let are_in = |sql: &str| names.are_in(&UsedNames::of(sql));
        for sql in [
            "select DBLINK_exec ('x')",
            "select x.\"dblink_exec\"/**/('x')",
            "select U&\"dblink\\005fexec\"('x')",
            "select u&\"dblink!005fexec\" uescape '!' ('x')",
            "select '\\', dblink_exec('x')",
            "select '\\' || ', dblink_exec(1), ' ",
            "select 0x1$$, dblink_exec('x') $$",
            "explain analyze select 1 from public.report",
            "select 1 ##+ 2",
            "select Ärger()",
            "select \"Ärger\"()",
        ] {
            assert!(are_in(sql), "{sql}");
        }
        for sql in [
            "select 'dblink_exec(1)', dblink_exec, reports",
            "select 1 # 2",
        ] {
            assert!(!are_in(sql), "{sql}");
        }
    }
}
