//! Which tables of the key a statement names, and by which names their columns can be meant.

use std::collections::HashSet;

use super::{Statement, Why};
use crate::rewrite::counterfactual::swapped::key::KeyColumn;
use crate::rewrite::parts::Lexeme;

/// Words behind a table's name that are no alias of it.
const NO_ALIAS: [&str; 31] = [
    "where",
    "set",
    "on",
    "join",
    "left",
    "right",
    "inner",
    "outer",
    "full",
    "cross",
    "natural",
    "using",
    "values",
    "select",
    "default",
    "order",
    "group",
    "having",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "intersect",
    "except",
    "window",
    "returning",
    "from",
    "overriding",
    "tablesample",
    "with",
];

/// Words before a table's name.
const BEFORE: [&str; 8] = [
    "from", "join", "update", "into", "only", "using", "table", "copy",
];

const AMBIGUOUS: Why = "a column's name that two of its tables have";

impl<'s> Statement<'s, '_> {
    /// The key's tables that are named, by their alias where they have one.
    pub(super) fn mentions(&self) -> Vec<(String, &'s KeyColumn)> {
        let mut named = Vec::new();
        for (at, name, schema) in self.tables() {
            let columns = self.key.columns.iter().filter(|one| {
                one.table == name && schema.as_ref().is_none_or(|schema| *schema == one.schema)
            });
            for column in columns {
                let alias = self.alias(at + 1).unwrap_or_else(|| name.clone());
                named.push((alias, column));
            }
        }
        named
    }

    /// Columns that a table has that is named and is none of the key's.
    pub(super) fn namesakes(&self) -> HashSet<&'s str> {
        let tables: HashSet<String> = self.tables().into_iter().map(|one| one.1).collect();
        let of = |(table, _): &&(String, String)| tables.contains(table);
        let columns = self.key.namesakes.iter().filter(of);
        columns.map(|(_, column)| column.as_str()).collect()
    }

    /// Names that stand where tables do: the last word of each, the name, and its schema.
    fn tables(&self) -> Vec<(usize, String, Option<String>)> {
        let mut all = Vec::new();
        for at in 0..self.words.len() {
            let Some(name) = self.name(at) else { continue };
            if self.is_symbol(Some(at + 1), ".") {
                continue;
            }
            let has_schema = self.is_symbol(at.checked_sub(1), ".");
            let first = at - 2 * usize::from(has_schema && at >= 2);
            if self.is_a_table(first) {
                all.push((at, name, has_schema.then(|| self.name(first)).flatten()));
            }
        }
        all
    }

    /// Whether a table is named by what begins there: behind FROM and the like, or in their list.
    fn is_a_table(&self, first: usize) -> bool {
        let Some(mut at) = first.checked_sub(1) else {
            return false;
        };
        if self.is_one_of(Some(at), &BEFORE) {
            return true;
        }
        if !self.is_symbol(Some(at), ",") {
            return false;
        }
        // Back over the list: other tables, their aliases, queries in brackets.
        loop {
            let goes_on = match self.word(at) {
                Some(Lexeme::Symbol(",") | Lexeme::Symbol(".") | Lexeme::Quoted(_)) => true,
                Some(Lexeme::Symbol(")")) => match self.other_end.get(&at) {
                    Some(open) => {
                        at = *open;
                        true
                    }
                    None => false,
                },
                Some(Lexeme::Word(_)) if self.is_one_of(Some(at), &["from", "using"]) => {
                    return true;
                }
                Some(word @ Lexeme::Word(_)) => {
                    let name = word.text().to_lowercase();
                    matches!(name.as_str(), "as" | "only" | "lateral")
                        || !NO_ALIAS.contains(&name.as_str())
                            && !matches!(name.as_str(), "and" | "or" | "by" | "distinct")
                }
                _ => false,
            };
            match at.checked_sub(1).filter(|_| goes_on) {
                Some(before) => at = before,
                None => return false,
            }
        }
    }

    fn alias(&self, behind: usize) -> Option<String> {
        let behind = behind + usize::from(self.is(Some(behind), "as"));
        match self.word(behind)? {
            Lexeme::Word(word) => {
                let word = word.to_lowercase();
                (!NO_ALIAS.contains(&word.as_str())).then_some(word)
            }
            quoted @ Lexeme::Quoted(_) => quoted.name(),
            _ => None,
        }
    }

    pub(super) fn is_the_keys(&self, qualifier: Option<&str>, column: &str) -> bool {
        let is_it = self.named.iter().any(|(name, known)| {
            let is_of_it = qualifier.is_none_or(|one| one == name || one == "excluded");
            is_of_it && known.column == column
        });
        if is_it && qualifier.is_none() && self.ambiguous.contains(column) {
            self.refuse(AMBIGUOUS);
        }
        is_it
    }
}
