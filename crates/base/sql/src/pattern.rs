//! Patterns with `*`, for names and for statements.
//!
//! Normalised SQL is full of brackets, dots, dollars and question marks; a pattern in which these
//! stand for themselves can be copied from a report as it is, which a regular expression cannot.

/// A text with `*` for any text, also none. All else stands for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// What stands between the stars; one piece where there is none.
    pieces: Vec<String>,
    given: String,
}

impl Pattern {
    /// Matches a name as a whole, with its case.
    pub fn name(text: &str) -> Self {
        Pattern {
            pieces: text.split('*').map(str::to_owned).collect(),
            given: text.to_owned(),
        }
    }

    /// Matches a normalised statement that holds it anywhere, whatever the case of letters and the
    /// numbers of its `$1`; white space of any length is as one blank. `None` where nothing would
    /// be looked for.
    pub fn statement(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let lower = folded(&words.join(" "));
        if lower.trim_matches('*').is_empty() {
            return None;
        }
        Some(Pattern {
            pieces: format!("*{lower}*").split('*').map(str::to_owned).collect(),
            given: text.to_owned(),
        })
    }

    /// As it was given.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Whether this name matches.
    pub fn matches_name(&self, name: &str) -> bool {
        self.matches(name)
    }

    /// Whether this normalised statement matches.
    pub fn matches_statement(&self, normal: &str) -> bool {
        self.matches(&folded(normal))
    }

    fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            return self.pieces.first().is_some_and(|only| only == text);
        };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else {
            return false;
        };
        // The leftmost place of each piece leaves the most for those behind it.
        for piece in middle {
            let Some(found) = rest.find(piece.as_str()) else {
                return false;
            };
            rest = &rest[found + piece.len()..];
        }
        rest.ends_with(last.as_str())
    }
}

/// In lower case, with `$` for `$1`: a value's number hangs on how many stand before it.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut after_dollar = false;
    for character in text.chars() {
        if after_dollar && character.is_ascii_digit() {
            continue;
        }
        after_dollar = character == '$';
        folded.extend(character.to_lowercase());
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_a_whole() {
        for (pattern, name, matches) in [
            ("shop", "shop", true),
            ("shop", "Shop", false),
            ("shop", "shop2", false),
            ("shop*", "shop2", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*-worker-*", "mail-worker-3", true),
            ("a.c", "abc", false),
        ] {
            let pattern = Pattern::name(pattern);
            assert_eq!(pattern.matches_name(name), matches, "{pattern:?} {name}");
        }
    }

    #[test]
    fn statements_match_anywhere() {
        let normal = "select * from \"Order\" where id = $1 and b in ($2, ...)";
        for (pattern, matches) in [
            ("SELECT  *\n FROM", true),
            ("from \"order\" where", true),
            ("where*in ($2, ...)", true),
            ("where*from", false),
            ("id = $1", true),
            ("id = $7 and", true),
            ("id = 5", false),
        ] {
            let pattern = Pattern::statement(pattern).unwrap();
            assert_eq!(pattern.matches_statement(normal), matches, "{pattern:?}");
        }
        for nothing in ["", "  ", "*", " ** "] {
            assert_eq!(Pattern::statement(nothing), None, "{nothing:?}");
        }
    }
}
