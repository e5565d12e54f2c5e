//! Why a text is no condition.

use std::fmt;

/// Why a text is no condition: what is wrong, what is allowed, and the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionError {
    pub(super) text: String,
    /// From where to where, in bytes.
    pub(super) at: (usize, usize),
    pub(super) message: String,
}

/// So many characters of the condition are shown around the place.
const SHOWN_AROUND: usize = 60;

impl ConditionError {
    /// What is wrong and what is allowed, in one sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// From where to where in the text, in bytes.
    pub fn place(&self) -> (usize, usize) {
        self.at
    }
}

impl std::error::Error for ConditionError {}

impl fmt::Display for ConditionError {
    /// The sentence, the condition, and carets under the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.at;
        // A line feed or a tab would move the carets away.
        let shown = |text: &str| -> Vec<char> {
            let one = |character: char| match character.is_control() {
                true => ' ',
                false => character,
            };
            text.chars().map(one).collect()
        };
        let (before, marked) = (shown(&self.text[..from]), shown(&self.text[from..to]));
        let behind = shown(&self.text[to..]);
        let cut = before.len().saturating_sub(SHOWN_AROUND);
        let (lead, before) = match cut {
            0 => ("", &before[..]),
            _ => ("…", &before[cut..]),
        };
        let marked = &marked[..marked.len().min(SHOWN_AROUND)];
        let behind = &behind[..behind.len().min(SHOWN_AROUND)];
        let text = |characters: &[char]| characters.iter().collect::<String>();
        writeln!(f, "{}", self.message)?;
        let (before, behind) = (text(before), text(behind));
        writeln!(f, "  {lead}{before}{}{behind}", text(marked))?;
        let blanks = " ".repeat(lead.chars().count() + before.chars().count());
        write!(f, "  {blanks}{}", "^".repeat(marked.len().max(1)))
    }
}

/// The names of `known` that are nearest to a misspelt word, if a third of its letters leads to them;
/// at most three.
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

/// How many letters have to be put in, taken out, replaced or swapped with their neighbour (Damerau
/// 1964, in the restricted form).
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    // A name is at most so long; what is longer is none.
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
