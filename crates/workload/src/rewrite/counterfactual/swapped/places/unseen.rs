//! Keys that words do not show plainly: a statement that has one stays as it is, with the reason.

use super::{Places, Statement, Why};
use crate::rewrite::parts::Lexeme;

const EXPRESSION: Why = "an expression beside a key";
const CAST: Why = "a cast of a key's column";
const PATTERN: Why = "a pattern for a key";
const ROW: Why = "a key in a row that is compared";

impl Statement<'_, '_> {
    /// Refuses where a column of the key stands by something that has values and is no place of them.
    pub(super) fn look_for_unseen(&self, found: &Places) {
        if !(0..self.words.len()).any(|at| self.is_value(at)) {
            return;
        }
        for at in 0..self.words.len() {
            let is_whole = !self.is_symbol(Some(at + 1), ".") && !self.is_symbol(Some(at + 1), "(");
            if is_whole && self.column_before(Some(at)) {
                self.look_beside(at, found);
            }
        }
    }

    fn look_beside(&self, at: usize, found: &Places) {
        let mut first = at;
        while self.is_symbol(first.checked_sub(1), ".") && first >= 2 {
            first -= 2;
        }
        let (before, mut behind) = (first.checked_sub(1), at + 1);
        let is_cast = self.is_symbol(Some(behind), "::");
        if is_cast {
            behind = self
                .type_at(behind + 1, &mut Vec::new())
                .unwrap_or(behind + 1);
        }
        let not = usize::from(self.is(Some(behind), "not"));
        let is_in = self.is(Some(behind + not), "in");
        if is_cast && (self.compares(Some(behind)) || self.compares(before) || is_in) {
            self.refuse(CAST);
        }
        let is_pattern = self.is_one_of(Some(behind + not), &["like", "ilike", "similar"])
            || matches!(self.word(behind), Some(Lexeme::Symbol(symbol)) if symbol.contains('~') || *symbol == "||");
        if is_pattern {
            self.refuse(PATTERN);
        }
        if self.is(before, "case") {
            self.refuse(EXPRESSION);
        }
        if is_in && self.is(Some(behind + not + 2), "values") {
            self.refuse(ROW);
        }
        if self.compares(Some(behind)) {
            self.look_at_side(behind + 1, found);
        }
        if let Some(operator) = before.filter(|at| self.compares(Some(*at))) {
            self.look_at_side_before(operator, found);
        }
        self.look_at_row(at);
    }

    /// What a key is compared with, behind the operator.
    fn look_at_side(&self, start: usize, found: &Places) {
        let start = start + usize::from(self.is_one_of(Some(start), &["any", "all", "some"]));
        let open = start + usize::from(!self.is_symbol(Some(start), "("));
        match self.other_end.get(&open) {
            // A call, or brackets.
            Some(close) if self.is_symbol(Some(open), "(") => self.look_within(open, *close, found),
            _ => {}
        }
        if self.is(Some(start), "case") {
            self.refuse(EXPRESSION);
        }
    }

    /// The same before the operator.
    fn look_at_side_before(&self, operator: usize, found: &Places) {
        let Some(close) = operator.checked_sub(1) else {
            return;
        };
        if let Some(open) = self
            .other_end
            .get(&close)
            .filter(|_| self.is_symbol(Some(close), ")"))
        {
            self.look_within(*open, close, found);
        }
        if self.is(Some(close), "end") {
            self.refuse(EXPRESSION);
        }
    }

    /// Brackets beside a key may hold a query, or values that are places.
    fn look_within(&self, open: usize, close: usize, found: &Places) {
        if self.is_query(open) {
            return;
        }
        let is_kept = |at: usize| {
            let start = self.span(at..at + 1).start;
            found.values.iter().any(|place| place.token.start == start)
        };
        let is_left = |at: usize| self.is_value(at) && !is_kept(at);
        // Modifiers of a type are numbers.
        if (open + 1..close).any(|at| is_left(at) && !self.is_number(at)) {
            self.refuse(EXPRESSION);
        }
    }

    /// `(id, a) = ($1, $2)` and the like.
    fn look_at_row(&self, at: usize) {
        let Some((open, close)) =
            self.open[at].and_then(|open| Some((open, *self.other_end.get(&open)?)))
        else {
            return;
        };
        let is_row = (open + 1..close)
            .any(|word| self.is_symbol(Some(word), ",") && self.open[word] == Some(open));
        let before = open.checked_sub(1);
        let is_compared = self.compares(Some(close + 1))
            || self.is_one_of(Some(close + 1), &["in", "not", "between"])
            || self.compares(before);
        let is_call = matches!(before.and_then(|at| self.word(at)), Some(Lexeme::Quoted(_)))
            || before.is_some_and(|at| {
                let is_word = matches!(self.word(at), Some(Lexeme::Word(_)));
                is_word
                    && !self.is_one_of(
                        Some(at),
                        &[
                            "where", "and", "or", "not", "on", "set", "when", "having", "row",
                        ],
                    )
            });
        if is_row && is_compared && !is_call {
            self.refuse(ROW);
        }
    }
}
