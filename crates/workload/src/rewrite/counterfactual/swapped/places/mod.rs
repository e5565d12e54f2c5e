//! Where a statement has values of a key: beside one of its columns, as its words show.

mod beside;
mod rows;
mod tables;
mod units;
mod unseen;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::key::{KeyColumn, SwappedKey};
use crate::rewrite::counterfactual::insert::Why;
use crate::rewrite::parts::{Lexeme, Part, parts};

/// A value of a key in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The token, as bytes of the text.
    pub(super) token: Range<usize>,
    /// `$1` is 1; `None` of a literal.
    pub(super) parameter: Option<usize>,
    /// It is an array of them.
    pub(super) is_array: bool,
    /// A type stands before it (`uuid '…'`).
    pub(super) is_typed: bool,
}

/// What a text has to do with a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// In the order of the text.
    pub(super) values: Vec<Place>,
    /// Names of the key's type beside them, which become others.
    pub(super) types: Vec<Range<usize>>,
    /// Values at other places: perhaps of a key, which nothing says.
    pub(super) others: Vec<Place>,
    /// It names a table with a column of the key.
    pub(super) names_it: bool,
    /// Where data come with it: which of its fields, from 0, are of the key.
    pub(super) copied: Vec<usize>,
    /// Why it has to stay as it is.
    pub(super) refused: Option<Why>,
}

const MORE_THAN_A_KEY: Why = "a parameter that is more than a key";

/// The places in a text of one statement or several.
pub(super) fn places(sql: &str, key: &SwappedKey) -> Places {
    let mut found = Places::default();
    for part in parts(sql) {
        Statement::new(sql, &part, key).read(&mut found);
    }
    found.values.sort_by_key(|place| place.token.start);
    found.values.dedup();
    found.types.sort_by_key(|range| range.start);
    found.types.dedup();
    let known: HashSet<usize> = found.values.iter().map(|place| place.token.start).collect();
    found.others.retain(|one| !known.contains(&one.token.start));
    // Of one parameter there is one value, whatever stands by it.
    let mut forms: HashMap<usize, bool> = HashMap::new();
    let mut is_one = true;
    for place in &found.values {
        if let Some(number) = place.parameter {
            is_one &= *forms.entry(number).or_insert(place.is_array) == place.is_array;
        }
    }
    let others = found.others.iter().filter_map(|place| place.parameter);
    is_one &= others
        .into_iter()
        .all(|number| !forms.contains_key(&number));
    if !is_one {
        found.refused = found.refused.or(Some(MORE_THAN_A_KEY));
    }
    found
}

/// A value with what belongs to it: casts, the type before it. All are places among the words.
#[derive(Debug, Clone)]
struct Unit {
    words: Range<usize>,
    value: usize,
    types: Vec<Range<usize>>,
    is_typed: bool,
}

struct Statement<'s, 'a> {
    sql: &'s str,
    words: &'s [Lexeme<'a>],
    key: &'s SwappedKey,
    /// The bracket that is open at each word, if one is.
    open: Vec<Option<usize>>,
    /// Where each bracket that opens is closed, and the other way round.
    other_end: HashMap<usize, usize>,
    /// By which name which of the key's columns can be named.
    named: Vec<(String, &'s KeyColumn)>,
    /// Columns that another table that is named has under the same name.
    ambiguous: HashSet<&'s str>,
    refused: Cell<Option<Why>>,
}

impl<'s, 'a> Statement<'s, 'a> {
    fn new(sql: &'s str, part: &'s Part<'a>, key: &'s SwappedKey) -> Self {
        let words = &part.words[..];
        let mut stack: Vec<usize> = Vec::new();
        let mut open = Vec::with_capacity(words.len());
        let mut other_end = HashMap::new();
        for (at, word) in words.iter().enumerate() {
            if (word.is_symbol(")") || word.is_symbol("]"))
                && let Some(opened) = stack.pop()
            {
                other_end.insert(opened, at);
                other_end.insert(at, opened);
            }
            open.push(stack.last().copied());
            if word.is_symbol("(") || word.is_symbol("[") {
                stack.push(at);
            }
        }
        let mut this = Statement {
            sql,
            words,
            key,
            open,
            other_end,
            named: Vec::new(),
            ambiguous: HashSet::new(),
            refused: Cell::new(None),
        };
        this.named = this.mentions();
        this.ambiguous = this.namesakes();
        this
    }

    fn refuse(&self, why: Why) {
        self.refused.set(self.refused.get().or(Some(why)));
    }

    fn word(&self, at: usize) -> Option<&Lexeme<'a>> {
        self.words.get(at)
    }

    fn is(&self, at: Option<usize>, keyword: &str) -> bool {
        at.and_then(|at| self.word(at))
            .is_some_and(|word| word.is(keyword))
    }

    fn is_symbol(&self, at: Option<usize>, symbol: &str) -> bool {
        at.and_then(|at| self.word(at))
            .is_some_and(|word| word.is_symbol(symbol))
    }

    fn is_one_of(&self, at: Option<usize>, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(at, keyword))
    }

    fn name(&self, at: usize) -> Option<String> {
        self.word(at).and_then(Lexeme::name)
    }

    /// Where words stand in the text.
    fn span(&self, words: Range<usize>) -> Range<usize> {
        let begins =
            |at: usize| self.words[at].text().as_ptr() as usize - self.sql.as_ptr() as usize;
        let last = words.end - 1;
        begins(words.start)..begins(last) + self.words[last].text().len()
    }

    fn read(&self, found: &mut Places) {
        let values = (0..self.words.len()).filter(|at| self.is_value(*at));
        if self.named.is_empty() {
            found
                .others
                .extend(values.map(|at| self.place(&self.unit(at), false)));
            return;
        }
        found.names_it = true;
        if self.is(Some(0), "copy") && !self.is_symbol(Some(1), "(") {
            self.read_copy(found);
        } else if self.is_one_of(Some(0), &["prepare", "merge"]) {
            self.refuse("PREPARE or MERGE");
        } else {
            for at in values {
                let unit = self.unit(at);
                found.others.push(self.place(&unit, false));
                if self.is_number(at) {
                    continue;
                }
                if let Some(is_array) = self.stands_by_a_key(&unit.words) {
                    self.keep(&unit, is_array, found);
                }
            }
            self.arrays(found);
            self.inserted(found);
            self.look_for_unseen(found);
        }
        found.refused = found.refused.or(self.refused.get());
    }

    fn is_value(&self, at: usize) -> bool {
        matches!(self.word(at), Some(Lexeme::Value(_)))
    }

    /// Whether it is a number's literal, which no key of these types is compared with.
    fn is_number(&self, at: usize) -> bool {
        let text = self.words[at].text();
        !text.contains('\'') && !text.starts_with('$')
    }

    fn place(&self, unit: &Unit, is_array: bool) -> Place {
        let text = self.words[unit.value].text();
        let digits = text
            .strip_prefix('$')
            .and_then(|digits| digits.parse().ok());
        Place {
            token: self.span(unit.value..unit.value + 1),
            parameter: digits,
            is_array,
            is_typed: unit.is_typed,
        }
    }

    fn keep(&self, unit: &Unit, is_array: bool, found: &mut Places) {
        found.values.push(self.place(unit, is_array));
        found
            .types
            .extend(unit.types.iter().map(|words| self.span(words.clone())));
    }
}

#[cfg(test)]
mod tests;
