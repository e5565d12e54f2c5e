//! Values beside a column of the key: compared with it, or in a list or an array that it is compared with.

use std::ops::Range;

use super::{Places, Statement, Unit};

/// Operators that have a key on either side.
const COMPARES: [&str; 7] = ["=", "<>", "!=", "<", ">", "<=", ">="];

impl Statement<'_, '_> {
    /// Whether a bracket holds a query, or rows, and no list.
    pub(super) fn is_query(&self, open: usize) -> bool {
        self.is_one_of(Some(open + 1), &["select", "with", "values", "table"])
    }

    /// Whether a column of the key is named by what ends at this word.
    pub(super) fn column_before(&self, end: Option<usize>) -> bool {
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
    pub(super) fn column_behind(&self, mut at: usize) -> bool {
        let mut qualifier = None;
        while self.is_symbol(Some(at + 1), ".") {
            qualifier = self.name(at);
            at += 2;
        }
        let is_call = self.is_symbol(Some(at + 1), "(");
        let column = self.name(at).filter(|_| !is_call);
        column.is_some_and(|column| self.is_the_keys(qualifier.as_deref(), &column))
    }

    pub(super) fn compares(&self, at: Option<usize>) -> bool {
        COMPARES.iter().any(|operator| self.is_symbol(at, operator))
    }

    /// Whether a column of the key stands by these words; of an array of values it says so.
    pub(super) fn stands_by_a_key(&self, words: &Range<usize>) -> Option<bool> {
        let back = |by: usize| words.start.checked_sub(by);
        let scalar = self.compares(back(1)) && self.column_before(back(2))
            || self.compares(Some(words.end)) && self.column_behind(words.end + 1)
            || self.is_distinct_from(back(1))
            || self.is_between(back(1));
        if scalar {
            return Some(false);
        }
        let open = self.open[words.start]?;
        if self.is_query(open) {
            return None;
        }
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
    pub(super) fn arrays(&self, found: &mut Places) {
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
                .extend(whole.types.iter().map(|words| self.span(words.clone())));
            for at in array + 2..close {
                if self.is_value(at) && self.open[at] == Some(array + 1) {
                    self.keep(&self.unit(at), false, found);
                }
            }
        }
    }
}
