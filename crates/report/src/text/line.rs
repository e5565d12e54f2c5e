//! Fits untrusted text into a line.

use std::borrow::Cow;

use sql::Fingerprint;

/// Formats a text on one line of at most `width` columns. White space is folded, control characters
/// (which a terminal would execute) become `·`, and the rest is cut with `…`. Every character
/// counts as one column.
pub fn one_line(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut columns = 0;
    let mut blank = false;
    for character in text.chars() {
        if character.is_whitespace() {
            blank = columns > 0;
            continue;
        }
        let needed = 1 + usize::from(blank);
        if columns + needed > width {
            while columns >= width && out.pop().is_some() {
                columns -= 1;
            }
            out.truncate(out.trim_end().len());
            out.push('…');
            return out;
        }
        if blank {
            out.push(' ');
            blank = false;
        }
        out.push(if is_printable(character) {
            character
        } else {
            '·'
        });
        columns += needed;
    }
    out
}

/// Names a statement by its SQL, or by its fingerprint if that is unknown.
pub(crate) fn statement_name(sql: Option<&str>, fingerprint: Fingerprint) -> Cow<'_, str> {
    match sql {
        Some(sql) if !sql.is_empty() => Cow::Borrowed(sql),
        _ => Cow::Owned(fingerprint.to_string()),
    }
}

/// Whether a character is neither a control character nor one that changes the text direction.
fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Wraps a sentence, with `first` before the first line and `rest` before the others. A word longer
/// than a line stands alone.
pub(crate) fn wrapped(text: &str, first: &str, rest: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut begun = false;
    for word in text.split(' ') {
        if begun && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            begun = false;
        }
        if begun {
            line.push(' ');
        }
        line.push_str(word);
        begun = true;
    }
    lines.push(line);
    lines
}

/// Cuts a line of a table, which is trusted except for words at its end.
pub(crate) fn cut(line: &str, width: usize) -> String {
    let harmless = |character| match is_printable(character) {
        true => character,
        false => '·',
    };
    if line.chars().count() <= width {
        return line.chars().map(harmless).collect();
    }
    // Blanks stay, because columns are aligned.
    let kept = line.chars().take(width.saturating_sub(1)).map(harmless);
    let mut kept: String = kept.collect();
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}

/// Lists as many names with counts as fit: `shop 12,000 · stock 345 · 3 more`.
pub(crate) fn listed(items: &[String], width: usize) -> String {
    const SEPARATOR: &str = " · ";
    let mut out = String::new();
    for (at, item) in items.iter().enumerate() {
        let left = items.len() - at;
        let more = format!("{SEPARATOR}{left} more");
        let room_for_more = if left > 1 { more.chars().count() } else { 0 };
        let needed = item.chars().count() + if at > 0 { 3 } else { 0 };
        if at > 0 && out.chars().count() + needed + room_for_more > width {
            out.push_str(&more);
            break;
        }
        if at > 0 {
            out.push_str(SEPARATOR);
        }
        out.push_str(item);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_fits_and_marks_the_cut() {
        assert_eq!(one_line("select  1\n from\tt", 20), "select 1 from t");
        assert_eq!(one_line("select 1 from t", 15), "select 1 from t");
        assert_eq!(one_line("select 1 from t", 14), "select 1 from…");
        assert_eq!(one_line("select 1 from t", 9), "select 1…");
        assert_eq!(one_line("größer ≥ 5", 8), "größer…");
    }

    #[test]
    fn sentence_is_wrapped_between_words() {
        assert_eq!(
            wrapped("one two three-four five", "- ", "  ", 11),
            ["- one two", "  three-four", "  five"]
        );
        assert_eq!(wrapped("one", "- ", "  ", 2), ["- one"]);
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(one_line("a\x1b[31mb\u{202e}c", 20), "a·[31mb·c");
    }

    #[test]
    fn list_shows_as_many_as_fit() {
        let items: Vec<String> = ["shop 12", "stock 3", "x 1"].map(String::from).to_vec();
        assert_eq!(listed(&items, 40), "shop 12 · stock 3 · x 1");
        assert_eq!(listed(&items, 18), "shop 12 · 2 more");
        assert_eq!(listed(&items, 3), "shop 12 · 2 more");
        assert_eq!(listed(&[], 3), "");
    }
}
