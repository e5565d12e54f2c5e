//! Fits untrusted text into a line.

use std::borrow::Cow;

use sql::Fingerprint;

use crate::text::style::readable;

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
        out.push(printable(character));
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

/// Whether a terminal shows a character as it is: no control character, no separator of lines, and none that
/// changes the text direction (Unicode, Bidi_Control).
pub(crate) fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Makes a message safe for a terminal. Lines after the first are indented, since a server's text could otherwise
/// look like a line of this program. Characters that a terminal would execute become `·`.
pub fn message_lines(text: &str) -> String {
    const INDENT: &str = "  ";
    let mut lines = String::with_capacity(text.len());
    let parts = text.split(['\n', '\r']);
    for part in parts.filter(|part| !part.trim().is_empty()) {
        if !lines.is_empty() {
            lines.push('\n');
            if !part.starts_with(INDENT) {
                lines.push_str(INDENT);
            }
        }
        lines.extend(part.replace('\t', " ").chars().map(printable));
    }
    lines
}

/// Makes a text of several lines safe for a terminal. With `keep_colours`, colours (SGR sequences) remain.
pub fn safe_text(text: &str, keep_colours: bool) -> Cow<'_, str> {
    let is_safe = |c: char| is_printable(c) || matches!(c, '\n' | '\t');
    if text.chars().all(is_safe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        let colour = match keep_colours && character == '\u{1b}' {
            true => colour_length(after),
            false => None,
        };
        let taken = character.len_utf8() + colour.unwrap_or(0);
        match is_safe(character) || colour.is_some() {
            true => safe.push_str(&rest[..taken]),
            false => safe.push('·'),
        }
        rest = &rest[taken..];
    }
    Cow::Owned(safe)
}

/// Returns the length of the rest of an SGR sequence, after its escape character.
fn colour_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix('[')?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then_some(end + 2)
}

pub(crate) fn printable(character: char) -> char {
    match is_printable(character) {
        true => character,
        false => '·',
    }
}

/// Wraps a sentence, with `first` before the first line and `rest` before the others. A word longer
/// than a line stands alone.
pub(crate) fn wrapped(text: &str, first: &str, rest: &str, width: usize) -> Vec<String> {
    let width = readable(width);
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
    if line.chars().count() <= width {
        return line.chars().map(printable).collect();
    }
    // Blanks stay, because columns are aligned.
    let kept = line.chars().take(width.saturating_sub(1)).map(printable);
    let mut kept: String = kept.collect();
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}

/// Lists as many names with counts as fit: `shop 12,000 · stock 345 · 3 more`.
pub(crate) fn listed(items: &[String], width: usize) -> String {
    let width = readable(width);
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
    fn message_cannot_begin_a_line_or_command_a_terminal() {
        let evil = "\x1b[31mEVIL\x1b]0;t\x07\u{202e}abc\u{9b}31m\u{2028}x\r\nrehearse: all is well";
        assert_eq!(
            message_lines(evil),
            "·[31mEVIL·]0;t··abc·31m·x\n  rehearse: all is well"
        );
        assert_eq!(message_lines("  a\n\n  b\tc\n"), "  a\n  b c");
    }

    #[test]
    fn text_keeps_its_lines_and_only_wanted_colours() {
        let text = "\u{1b}[1;31mred\u{1b}[0m\n\ta\u{1b}[2J\u{9b}\u{200f}";
        let coloured = "\u{1b}[1;31mred\u{1b}[0m\n\ta·[2J··";
        assert_eq!(safe_text(text, true), coloured);
        assert_eq!(safe_text(text, false), coloured.replace('\u{1b}', "·"));
        assert!(matches!(safe_text("plain\n", false), Cow::Borrowed(_)));
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
