//! Rows that come with their values: of inserts, and of COPY.

use std::ops::Range;

use super::{Places, Statement};
use crate::rewrite::counterfactual::insert::Why;
use crate::rewrite::counterfactual::swapped::key::KeyColumn;

impl<'s> Statement<'s, '_> {
    /// The rows of an insert into a table of the key.
    pub(super) fn inserted(&self, found: &mut Places) {
        for into in 0..self.words.len() {
            if !(self.is(Some(into), "into") && self.is_one_of(into.checked_sub(1), &["insert"])) {
                continue;
            }
            let Some((table, mut at)) = self.table_at(into + 1) else {
                continue;
            };
            at += usize::from(self.is(Some(at), "as")) * 2;
            let listed = self.list(at);
            if let Some((_, end)) = &listed {
                at = *end;
            }
            while self.is_one_of(Some(at), &["overriding", "user", "system", "value"]) {
                at += 1;
            }
            let names = listed.map(|(items, _)| {
                items
                    .into_iter()
                    .map(|item| self.name(item.start))
                    .collect::<Vec<_>>()
            });
            for column in table {
                let place = match &names {
                    Some(names) => names
                        .iter()
                        .position(|name| name.as_ref() == Some(&column.column)),
                    None => Some(column.place),
                };
                if let Some(place) = place {
                    self.rows(at, place, found);
                }
            }
        }
    }

    /// The key's columns of the table that is named there, and what comes behind its name.
    fn table_at(&self, mut at: usize) -> Option<(Vec<&'s KeyColumn>, usize)> {
        let mut schema = None;
        if self.is_symbol(Some(at + 1), ".") {
            schema = self.name(at);
            at += 2;
        }
        let name = self.name(at)?;
        let is_it = |one: &&KeyColumn| {
            one.table == name && schema.as_ref().is_none_or(|schema| *schema == one.schema)
        };
        let columns: Vec<&KeyColumn> = self.key.columns.iter().filter(is_it).collect();
        (!columns.is_empty()).then_some((columns, at + 1))
    }

    /// What is listed in the brackets that open there, and what comes behind them.
    fn list(&self, open: usize) -> Option<(Vec<Range<usize>>, usize)> {
        if !self.is_symbol(Some(open), "(") {
            return None;
        }
        let mut items = Vec::new();
        let mut start = open + 1;
        for at in open + 1..self.words.len() {
            let ends = self.is_symbol(Some(at), ")") && self.open[at] == self.open[open];
            let divides = self.is_symbol(Some(at), ",") && self.open[at] == Some(open);
            if ends || divides {
                items.push(start..at);
                start = at + 1;
            }
            if ends {
                return Some((items, at + 1));
            }
        }
        None
    }

    /// The value at this place of each row that begins there, or of the columns of a SELECT.
    fn rows(&self, mut at: usize, place: usize, found: &mut Places) {
        const EXPRESSION: Why = "an expression in the place of a key";
        const QUERY: Why = "keys from rows of a query";
        let mut item = |words: &Range<usize>| {
            let is_plain = self.is_one_of(Some(words.start), &["default", "null"]);
            let value = words.clone().find(|at| self.is_value(*at));
            match value.map(|value| self.unit(value)) {
                Some(unit) if unit.words == *words => self.keep(&unit, false, found),
                _ if is_plain => {}
                _ => self.refuse(EXPRESSION),
            }
        };
        if self.is(Some(at), "values") {
            at += 1;
            while let Some((items, end)) = self.list(at) {
                if let Some(words) = items.get(place) {
                    item(words);
                }
                at = end + usize::from(self.is_symbol(Some(end), ","));
            }
        } else if self.is(Some(at), "select") {
            let (mut start, mut number) = (at + 1, 0);
            for end in at + 1..=self.words.len() {
                let is_outer = end == self.words.len() || self.open[end] == self.open[at];
                let ends = end == self.words.len()
                    || is_outer
                        && self
                            .is_one_of(Some(end), &["from", "where", "union", "on", "returning"]);
                if ends || is_outer && self.is_symbol(Some(end), ",") {
                    // What comes of a column is what it will be of the swapped one.
                    let words = start..end;
                    let is_star = words
                        .clone()
                        .next_back()
                        .is_some_and(|at| self.is_symbol(Some(at), "*"));
                    if is_star && number <= place {
                        self.refuse(QUERY);
                    }
                    if number == place && words.clone().any(|at| self.is_value(at)) {
                        item(&words);
                    }
                    number += 1;
                    start = end + 1;
                }
                if ends {
                    // Rows of further queries, or columns that a star stands for.
                    let goes_on = (end..self.words.len())
                        .any(|at| self.is_one_of(Some(at), &["union", "intersect", "except"]));
                    if goes_on || number <= place {
                        self.refuse(QUERY);
                    }
                    return;
                }
            }
        }
    }

    /// Which fields of a COPY from the client are of the key.
    pub(super) fn read_copy(&self, found: &mut Places) {
        let from_client = self
            .words
            .windows(2)
            .any(|two| two[0].is("from") && two[1].is("stdin"));
        let fields = self.copied();
        if !from_client || fields.is_empty() {
            return;
        }
        // The data that are known are those of the first of several.
        if !found.copied.is_empty() {
            self.refuse("several COPYs in one text");
        }
        if !self.words.last().is_some_and(|word| word.is("stdin")) {
            self.refuse("a COPY in another form than text");
        }
        found.copied.extend(fields);
    }

    fn copied(&self) -> Vec<usize> {
        let Some((columns, at)) = self.table_at(1) else {
            return Vec::new();
        };
        let listed = self.list(at).map(|(items, _)| items);
        let field = |column: &&KeyColumn| match &listed {
            Some(items) => items
                .iter()
                .position(|item| self.name(item.start).as_ref() == Some(&column.column)),
            None => Some(column.place),
        };
        columns.iter().filter_map(field).collect()
    }
}
