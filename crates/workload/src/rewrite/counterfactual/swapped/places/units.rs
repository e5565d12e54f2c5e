//! A value with what belongs to it: its casts, the type before it, brackets around it.

use std::ops::Range;

use super::{Statement, Unit};
use crate::rewrite::parts::Lexeme;

impl Statement<'_, '_> {
    /// A value with its casts: `$1`, `$1::uuid`, `cast($1 as uuid)`, `uuid '…'`, `($1)`.
    pub(super) fn unit(&self, value: usize) -> Unit {
        let mut unit = Unit {
            words: value..value + 1,
            value,
            types: Vec::new(),
            is_typed: false,
        };
        let is_literal = self.words[value].text().contains('\'');
        if let Some(before) = value.checked_sub(1).filter(|_| is_literal)
            && let Some(Lexeme::Word(word)) = self.word(before)
            && self.key.kind.is_named(&word.to_lowercase())
        {
            unit.types.push(before..before + 1);
            unit.words.start = before;
            unit.is_typed = true;
        }
        loop {
            self.casts(&mut unit);
            let before = unit.words.start.checked_sub(1);
            let Some(open) = before.filter(|at| self.is_symbol(Some(*at), "(")) else {
                break;
            };
            let behind = unit.words.end;
            if self.is(open.checked_sub(1), "cast") && self.is(Some(behind), "as") {
                let Some(end) = self.type_at(behind + 1, &mut unit.types) else {
                    break;
                };
                if !self.is_symbol(Some(end), ")") {
                    break;
                }
                unit.words = open - 1..end + 1;
                continue;
            }
            // Brackets around one value, which are no list and no call.
            let is_plain = self.is_symbol(Some(behind), ")")
                && open.checked_sub(1).is_none_or(|at| {
                    matches!(self.words[at], Lexeme::Symbol(_)) && !self.words[at].is_symbol(",")
                });
            if !is_plain {
                break;
            }
            unit.words = open..behind + 1;
        }
        unit
    }

    pub(super) fn casts(&self, unit: &mut Unit) {
        while self.is_symbol(Some(unit.words.end), "::") {
            match self.type_at(unit.words.end + 1, &mut unit.types) {
                Some(end) => unit.words.end = end,
                None => return,
            }
        }
    }

    /// Behind the type that stands there; its words but for `[]`, where it is the key's, are put among `types`.
    pub(super) fn type_at(&self, first: usize, types: &mut Vec<Range<usize>>) -> Option<usize> {
        let mut at = first + 2 * usize::from(self.is_symbol(Some(first + 1), "."));
        let name = self.name(at)?;
        at += 1;
        if self.is(Some(at), "varying") {
            at += 1;
        }
        at = self.behind_brackets(at, "(", ")")?;
        if self.key.kind.is_named(&name) {
            types.push(first..at);
        }
        self.behind_brackets(at, "[", "]")
    }

    fn behind_brackets(&self, open: usize, opens: &str, closes: &str) -> Option<usize> {
        if !self.is_symbol(Some(open), opens) {
            return Some(open);
        }
        let close = self.other_end.get(&open)?;
        self.is_symbol(Some(*close), closes).then_some(close + 1)
    }
}
