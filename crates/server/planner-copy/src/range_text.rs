//! Reads the text of an array of ranges.

use crate::array_text;

/// Lower and upper bound of a range; `None` for an infinite one.
pub(crate) type Bounds = (Option<String>, Option<String>);

/// Returns the bounds of each range of an array in text form, such as `{"[1,5)","(,\"2026-01-01 00:00:00\"]"}`. Returns
/// `None` for another text, and for an empty range.
pub(crate) fn bounds(array: &str) -> Option<Vec<Bounds>> {
    let elements = array_text::elements(array)?.into_iter();
    elements.map(|one| range(&one?)).collect()
}

/// Returns the bounds of one range (`range_deparse` in `rangetypes.c`).
fn range(text: &str) -> Option<Bounds> {
    let inner = text.strip_prefix(['[', '('])?.strip_suffix([']', ')'])?;
    let mut parts = [String::new(), String::new()];
    let (mut part, mut is_quoted) = (0, false);
    let mut rest = inner.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            // A quote is doubled within quotes.
            '"' if is_quoted && rest.peek() == Some(&'"') => {
                rest.next();
                parts[part].push('"');
            }
            '"' => is_quoted = !is_quoted,
            '\\' => parts[part].push(rest.next()?),
            ',' if !is_quoted && part == 0 => part = 1,
            ',' if !is_quoted => return None,
            other => parts[part].push(other),
        }
    }
    let [lower, upper] = parts.map(|bound| Some(bound).filter(|bound| !bound.is_empty()));
    (part == 1).then_some((lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_an_array_of_ranges_are_read_with_quotes_and_infinite_ones() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            bounds(r#"{"[1,5)","(,7]","[\"2026-01-01 00:00:00\",)","[\"a\"\"b\",\"c\\,d\"]"}"#),
            Some(vec![
                (some("1"), some("5")),
                (None, some("7")),
                (some("2026-01-01 00:00:00"), None),
                (some("a\"b"), some("c,d")),
            ])
        );
        assert_eq!(bounds("{}"), Some(Vec::new()));
        for text in [
            "",
            "{empty}",
            "{\"empty\"}",
            "{1,2}",
            "{\"[1,5)\"",
            "{\"[1,2,3)\"}",
        ] {
            assert_eq!(bounds(text), None, "{text}");
        }
    }
}
