//! Compares definitions of indexes as the server prints them (`pg_get_indexdef`).

use std::iter::Peekable;
use std::str::Chars;

/// Words that continue the name of a type, as `format_type` prints it: `timestamp(3) without time zone`.
const TYPE_WORDS: [&str; 13] = [
    "varying",
    "precision",
    "with",
    "without",
    "time",
    "zone",
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "to",
];

/// Returns a definition without casts, brackets and white space. These change if a column gets another type:
/// `((status)::text = 'open'::text)` becomes `(status = 'open'::text)`. Texts in quotes stay as they are.
pub(crate) fn without_casts(definition: &str) -> String {
    let mut plain = String::with_capacity(definition.len());
    let mut rest = definition.chars().peekable();
    let mut is_separated = false;
    while let Some(character) = rest.next() {
        match character {
            '\'' | '"' => {
                plain.push(character);
                copy_quoted(&mut rest, character, &mut plain);
            }
            ':' if rest.next_if_eq(&':').is_some() => skip_type(&mut rest),
            '(' | ')' => is_separated = true,
            blank if blank.is_whitespace() => is_separated = true,
            other => {
                let joins = is_word(other) && plain.chars().next_back().is_some_and(is_word);
                if is_separated && joins {
                    plain.push(' ');
                }
                plain.push(other);
                is_separated = false;
            }
        }
    }
    plain
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

/// Copies a text to its closing quote. A doubled quote ends one text and begins another.
fn copy_quoted(rest: &mut Peekable<Chars<'_>>, quote: char, plain: &mut String) {
    for character in rest.by_ref() {
        plain.push(character);
        if character == quote {
            return;
        }
    }
}

/// Skips the name of a type: a name with its schema, words that continue it, a modifier, and the brackets of an array.
fn skip_type(rest: &mut Peekable<Chars<'_>>) {
    skip_name(rest);
    while rest.next_if_eq(&'.').is_some() {
        skip_name(rest);
    }
    loop {
        let mut after = rest.clone();
        match after.next() {
            Some('(') if after.peek().is_some_and(char::is_ascii_digit) => {
                while after.next_if(|one| *one != ')').is_some() {}
                after.next();
            }
            Some('[') if after.next_if_eq(&']').is_some() => {}
            Some(' ') => {
                let mut word = String::new();
                while let Some(character) = after.next_if(|one| is_word(*one)) {
                    word.push(character);
                }
                if !TYPE_WORDS.contains(&word.as_str()) {
                    return;
                }
            }
            _ => return,
        }
        *rest = after;
    }
}

/// Skips a name, in quotes or without.
fn skip_name(rest: &mut Peekable<Chars<'_>>) {
    if rest.next_if_eq(&'"').is_none() {
        while rest.next_if(|one| is_word(*one)).is_some() {}
        return;
    }
    while let Some(character) = rest.next() {
        if character == '"' && rest.next_if_eq(&'"').is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_equal_if_only_casts_and_brackets_differ() {
        for (former, present) in [
            (
                "USING btree (a) WHERE ((status)::text = 'open'::text)",
                "USING btree (a) WHERE (status = 'open'::text)",
            ),
            (
                "WHERE ((s)::text = ANY ((ARRAY['a'::character varying(20), 'b'::character varying])::text[]))",
                "WHERE (s = ANY (ARRAY['a'::text, 'b'::text]))",
            ),
            (
                "(lower((name)::text)) WHERE (at > '2026-01-01 00:00:00'::timestamp(3) without time zone)",
                "(lower(name)) WHERE (at > '2026-01-01 00:00:00'::timestamp with time zone)",
            ),
            (
                "WHERE (total > (0)::numeric(10,2)) AND b",
                "WHERE (total > 0) AND b",
            ),
            (
                "WHERE (m = 'x'::\"Odd \"\" schema\".mood) AND b",
                "WHERE (m = 'x'::public.\"Mood\"[]) AND b",
            ),
        ] {
            assert_eq!(without_casts(former), without_casts(present), "{former}");
        }
    }

    #[test]
    fn definitions_with_other_columns_conditions_methods_or_texts_differ() {
        let definition = "CREATE INDEX i ON s.t USING btree (a) WHERE (b = 'x'::text)";
        for other in [
            "CREATE INDEX i ON s.t USING btree (a)",
            "CREATE INDEX i ON s.t USING btree (a, c) WHERE (b = 'x'::text)",
            "CREATE INDEX i ON s.t USING btree (a) WHERE (b = 'y'::text)",
            "CREATE INDEX i ON s.t USING btree (a) WHERE (b = '(x)'::text)",
            "CREATE INDEX i ON s.t USING hash (a) WHERE (b = 'x'::text)",
            "CREATE INDEX i ON s.t USING btree (a) INCLUDE (b) WHERE (b = 'x'::text)",
            "CREATE INDEX i ON s.t USING btree (a) WHERE (b = 'x'::text) AND c",
        ] {
            assert_ne!(without_casts(definition), without_casts(other), "{other}");
        }
        assert_ne!(without_casts("(a b)"), without_casts("(ab)"));
        assert_ne!(without_casts("'a::text'"), without_casts("'a'"));
    }
}
