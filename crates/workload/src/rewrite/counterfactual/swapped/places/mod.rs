//! Where a statement has values of a key: beside one of its columns, as its words show.

mod rows;
mod units;

use std::ops::Range;

use super::key::{KeyColumn, SwappedKey};
use crate::rewrite::counterfactual::insert::Why;
use crate::rewrite::parts::{Lexeme, Part, parts};

/// Operators that have a key on either side.
const COMPARES: [&str; 7] = ["=", "<>", "!=", "<", ">", "<=", ">="];

/// Words behind a table's name that are no alias of it.
const NO_ALIAS: [&str; 30] = [
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
];

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
    /// Where data come with it: which of its fields, from 0, is of the key.
    pub(super) copied: Option<usize>,
    /// Why it has to stay as it is.
    pub(super) refused: Option<Why>,
}

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
    let is_known = |one: &Place| found.values.iter().any(|known| known.token == one.token);
    found.others.retain(|one| !is_known(one));
    found
}

/// A value with what belongs to it: casts, the type before it.
#[derive(Debug, Clone)]
struct Unit {
    words: Range<usize>,
    value: usize,
    types: Vec<usize>,
    is_typed: bool,
}

struct Statement<'s, 'a> {
    sql: &'s str,
    words: &'s [Lexeme<'a>],
    key: &'s SwappedKey,
    /// The bracket that is open at each word, if one is.
    open: Vec<Option<usize>>,
    /// By which name which of the key's columns can be named.
    named: Vec<(String, &'s KeyColumn)>,
}

impl<'s, 'a> Statement<'s, 'a> {
    fn new(sql: &'s str, part: &'s Part<'a>, key: &'s SwappedKey) -> Self {
        let words = &part.words[..];
        let mut stack: Vec<usize> = Vec::new();
        let mut open = Vec::with_capacity(words.len());
        for (at, word) in words.iter().enumerate() {
            if word.is_symbol(")") || word.is_symbol("]") {
                stack.pop();
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
            named: Vec::new(),
        };
        this.named = this.mentions();
        this
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

    /// Where a word stands in the text.
    fn span(&self, at: usize) -> Range<usize> {
        let text = self.words[at].text();
        let start = text.as_ptr() as usize - self.sql.as_ptr() as usize;
        start..start + text.len()
    }

    /// The key's tables that are named, by their alias where they have one.
    fn mentions(&self) -> Vec<(String, &'s KeyColumn)> {
        let mut named = Vec::new();
        for at in 0..self.words.len() {
            let Some(name) = self.name(at) else { continue };
            for column in self.key.columns.iter().filter(|one| one.table == name) {
                let is_qualifier = self.is_symbol(Some(at + 1), ".");
                let has_schema = self.is_symbol(at.checked_sub(1), ".");
                let is_other = has_schema
                    && at.checked_sub(2).and_then(|at| self.name(at)).as_ref()
                        != Some(&column.schema);
                if is_qualifier || is_other {
                    continue;
                }
                let behind = at + 1 + usize::from(self.is(Some(at + 1), "as"));
                let alias = match self.word(behind) {
                    Some(Lexeme::Word(word)) => {
                        let word = word.to_lowercase();
                        (!NO_ALIAS.contains(&word.as_str())).then_some(word)
                    }
                    Some(quoted @ Lexeme::Quoted(_)) => quoted.name(),
                    _ => None,
                };
                named.push((alias.unwrap_or_else(|| name.clone()), column));
            }
        }
        named
    }

    fn read(&self, found: &mut Places) {
        found.names_it |= !self.named.is_empty();
        if !self.named.is_empty() && self.is(Some(0), "prepare") {
            found.refused = Some("PREPARE in SQL");
            return;
        }
        if !self.named.is_empty() && self.is(Some(0), "copy") {
            found.copied = self.copied();
            if found.copied.is_none() && self.is_from_client() {
                found.refused = self
                    .copies_a_key()
                    .then_some("a COPY in another form than text");
            }
            return;
        }
        for at in 0..self.words.len() {
            if self.is_value(at) {
                let unit = self.unit(at);
                found.others.push(self.place(&unit, false));
                if self.named.is_empty() {
                    continue;
                }
                if let Some(is_array) = self.stands_by_a_key(&unit.words) {
                    self.keep(&unit, is_array, found);
                }
            }
        }
        if !self.named.is_empty() {
            self.arrays(found);
            self.inserted(found);
        }
    }

    fn is_value(&self, at: usize) -> bool {
        matches!(self.word(at), Some(Lexeme::Value(_)))
    }

    fn place(&self, unit: &Unit, is_array: bool) -> Place {
        let text = self.words[unit.value].text();
        let digits = text
            .strip_prefix('$')
            .and_then(|digits| digits.parse().ok());
        Place {
            token: self.span(unit.value),
            parameter: digits,
            is_array,
            is_typed: unit.is_typed,
        }
    }

    fn keep(&self, unit: &Unit, is_array: bool, found: &mut Places) {
        found.values.push(self.place(unit, is_array));
        found
            .types
            .extend(unit.types.iter().map(|at| self.span(*at)));
    }

    /// Whether a column of the key is named by what ends at this word.
    fn column_before(&self, end: Option<usize>) -> bool {
        let Some(end) = end else { return false };
        let Some(column) = self.name(end) else {
            return false;
        };
        let qualifier = match self.is_symbol(end.checked_sub(1), ".") {
            true => end.checked_sub(2).and_then(|at| self.name(at)),
            false => None,
        };
        self.is_the_keys(qualifier.as_deref(), &column)
    }

    /// Whether a column of the key is named by what begins at this word.
    fn column_behind(&self, mut at: usize) -> bool {
        let mut qualifier = None;
        while self.is_symbol(Some(at + 1), ".") {
            qualifier = self.name(at);
            at += 2;
        }
        let is_call = self.is_symbol(Some(at + 1), "(");
        let column = self.name(at).filter(|_| !is_call);
        column.is_some_and(|column| self.is_the_keys(qualifier.as_deref(), &column))
    }

    fn is_the_keys(&self, qualifier: Option<&str>, column: &str) -> bool {
        self.named.iter().any(|(name, known)| {
            let is_of_it = qualifier.is_none_or(|one| one == name || one == "excluded");
            is_of_it && known.column == column
        })
    }

    fn compares(&self, at: Option<usize>) -> bool {
        COMPARES.iter().any(|operator| self.is_symbol(at, operator))
    }

    /// Whether a column of the key stands by these words; of an array of values it says so.
    fn stands_by_a_key(&self, words: &Range<usize>) -> Option<bool> {
        let back = |by: usize| words.start.checked_sub(by);
        let scalar = self.compares(back(1)) && self.column_before(back(2))
            || self.compares(Some(words.end)) && self.column_behind(words.end + 1)
            || self.is_distinct_from(back(1))
            || self.is_between(back(1));
        if scalar {
            return Some(false);
        }
        let open = self.open[words.start]?;
        let before = open.checked_sub(1);
        if self.is(before, "in") {
            let not = usize::from(self.is(open.checked_sub(2), "not"));
            return self
                .column_before(open.checked_sub(2 + not))
                .then_some(false);
        }
        let is_of_any =
            self.is_one_of(before, &["any", "all", "some"]) && self.is_symbol(Some(words.end), ")");
        let column = self.compares(open.checked_sub(2)) && self.column_before(open.checked_sub(3));
        (is_of_any && column).then_some(true)
    }

    /// `column IS [NOT] DISTINCT FROM`, which ends here.
    fn is_distinct_from(&self, from: Option<usize>) -> bool {
        let Some(distinct) = from
            .filter(|at| self.is(Some(*at), "from"))
            .and_then(|at| at.checked_sub(1))
        else {
            return false;
        };
        let not = usize::from(self.is(distinct.checked_sub(1), "not"));
        self.is(Some(distinct), "distinct")
            && self.is(distinct.checked_sub(1 + not), "is")
            && self.column_before(distinct.checked_sub(2 + not))
    }

    /// `column BETWEEN`, or `column BETWEEN value AND`, which ends here.
    fn is_between(&self, last: Option<usize>) -> bool {
        let between = |at: Option<usize>| {
            let not = usize::from(self.is(at.and_then(|at| at.checked_sub(1)), "not"));
            self.is(at, "between") && self.column_before(at.and_then(|at| at.checked_sub(1 + not)))
        };
        let Some(last) = last else { return false };
        if !self.is(Some(last), "and") {
            return between(Some(last));
        }
        let first = (0..last)
            .rev()
            .find(|at| self.is_value(*at))
            .map(|at| self.unit(at).words);
        first.is_some_and(|first| first.end == last && between(first.start.checked_sub(1)))
    }

    /// `ANY (ARRAY[$1, $2]::uuid[])`
    fn arrays(&self, found: &mut Places) {
        for array in 0..self.words.len() {
            if !(self.is(Some(array), "array") && self.is_symbol(Some(array + 1), "[")) {
                continue;
            }
            let Some(close) = (array + 2..self.words.len())
                .find(|at| self.open[*at] == self.open[array] && self.is_symbol(Some(*at), "]"))
            else {
                continue;
            };
            let mut whole = Unit {
                words: array..close + 1,
                value: array,
                types: Vec::new(),
                is_typed: false,
            };
            self.casts(&mut whole);
            if self.stands_by_a_key(&whole.words) != Some(true) {
                continue;
            }
            found
                .types
                .extend(whole.types.iter().map(|at| self.span(*at)));
            for at in array + 2..close {
                if self.is_value(at) && self.open[at] == Some(array + 1) {
                    self.keep(&self.unit(at), false, found);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
