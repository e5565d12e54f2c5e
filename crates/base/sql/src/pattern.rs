//! Patterns with `*`, for names and for statements.
//!
//! All other characters stand for themselves. So normalised SQL, which is full of brackets, dots, dollars and
//! question marks, can be copied from a report unchanged. A regular expression would need escapes.

/// A text in which `*` stands for any text, including none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Texts between the stars; one piece if there is no star.
    pieces: Vec<String>,
    given: String,
}

impl Pattern {
    /// Creates a pattern that matches a whole name, case-sensitively.
    pub fn name(text: &str) -> Self {
        Pattern {
            pieces: text.split('*').map(str::to_owned).collect(),
            given: text.to_owned(),
        }
    }

    /// Creates a pattern that matches a normalised statement containing it, regardless of case and of the
    /// numbers in `$1`. White space of any length equals one blank. `None` if the pattern is empty.
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

    /// Creates a pattern that matches this normalised statement as a whole. Its `*` match anything, as well as themselves.
    pub fn whole_statement(normal: &str) -> Self {
        let words: Vec<&str> = normal.split_whitespace().collect();
        Pattern {
            pieces: folded(&words.join(" "))
                .split('*')
                .map(str::to_owned)
                .collect(),
            given: normal.to_owned(),
        }
    }

    /// Returns the pattern as the user wrote it.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Whether the pattern matches this name.
    pub fn matches_name(&self, name: &str) -> bool {
        self.matches(name)
    }

    /// Whether the pattern matches this normalised statement.
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
        // The leftmost match of each piece leaves the most text for the pieces after it.
        for piece in middle {
            let Some(found) = rest.find(piece.as_str()) else {
                return false;
            };
            rest = &rest[found + piece.len()..];
        }
        rest.ends_with(last.as_str())
    }
}

/// Converts to lower case, with `$` for `$1`: a value's number depends on the values before it.
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
    fn pattern_of_a_whole_statement_matches_no_longer_one() {
        let pattern = Pattern::whole_statement("select count(*) from t where a = $1");
        assert!(pattern.matches_statement("select count(*) from t where a = $2"));
        assert!(!pattern.matches_statement("select count(*) from t where a = $1 and b = $2"));
    }

    #[test]
    fn pattern_for_a_name_matches_the_whole_name() {
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
    fn pattern_for_a_statement_matches_anywhere() {
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
