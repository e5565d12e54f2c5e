//! Syntax errors of conditions.

use std::fmt;

/// Syntax error of a condition: the fault, the allowed input, and the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionError {
    pub(super) text: String,
    /// Byte range of the fault.
    pub(super) at: (usize, usize),
    pub(super) message: String,
}

/// Number of characters of the condition shown on each side of the fault.
const SHOWN_AROUND: usize = 60;

impl ConditionError {
    /// Returns the fault and the allowed input in one sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the byte range of the fault.
    pub fn place(&self) -> (usize, usize) {
        self.at
    }
}

impl std::error::Error for ConditionError {}

impl fmt::Display for ConditionError {
    /// Writes the sentence, the condition, and carets under the fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.at;
        // Line feeds and tabs would shift the carets.
        let shown = |text: &str| -> Vec<char> {
            let one = |character: char| match character.is_control() {
                true => ' ',
                false => character,
            };
            text.chars().map(one).collect()
        };
        let (before, marked) = (shown(&self.text[..from]), shown(&self.text[from..to]));
        let text_after = shown(&self.text[to..]);
        let cut = before.len().saturating_sub(SHOWN_AROUND);
        let (lead, before) = match cut {
            0 => ("", &before[..]),
            _ => ("…", &before[cut..]),
        };
        let marked = &marked[..marked.len().min(SHOWN_AROUND)];
        let text_after = &text_after[..text_after.len().min(SHOWN_AROUND)];
        let text = |characters: &[char]| characters.iter().collect::<String>();
        writeln!(f, "{}", self.message)?;
        let (before, text_after) = (text(before), text(text_after));
        writeln!(f, "  {lead}{before}{}{text_after}", text(marked))?;
        let blanks = " ".repeat(lead.chars().count() + before.chars().count());
        write!(f, "  {blanks}{}", "^".repeat(marked.len().max(1)))
    }
}

/// Returns at most three names from `known` with the smallest edit distance to a misspelt word, if
/// it is at most a third of the word's length.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_ascii_lowercase();
    let most = (word.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> = known
        .map(|known| (distance(&word, known), known))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    found.sort();
    let least = found.first().map_or(0, |(distance, _)| *distance);
    found.retain(|(distance, _)| *distance == least);
    found.into_iter().take(3).map(|(_, known)| known).collect()
}

/// Returns the Damerau-Levenshtein distance: insertions, deletions, substitutions and swaps of
/// neighbouring letters (Damerau 1964, in the restricted form).
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    // No known name is longer.
    if one.len() > 40 {
        return usize::MAX;
    }
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for (at, letter) in one.iter().enumerate() {
        let last = &rows[at];
        let mut row = vec![at + 1];
        for (place, wanted) in other.iter().enumerate() {
            let replaced = last[place] + usize::from(letter != wanted);
            let mut least = replaced.min(last[place + 1] + 1).min(row[place] + 1);
            let swapped =
                at > 0 && place > 0 && one[at - 1] == *wanted && *letter == other[place - 1];
            if swapped {
                least = least.min(rows[at - 1][place - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}
