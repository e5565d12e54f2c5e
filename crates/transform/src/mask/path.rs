//! Masks paths with filters, of JSON (`$.a ? (@.b == "ann")`) and of XML (`//a[text()="ann"]`): the
//! values that they compare with are data, their keys and positions are not.
//!
//! PostgreSQL documentation, 9.16.2 (SQL/JSON path language).

use super::Mask;
use super::outcome::MaskOutcome;
use super::words::{TextSyntax, mask_text};
use workload::KeepReason;

impl Mask {
    /// Masks the texts and numbers that a path compares with. A text is masked as in data.
    pub(super) fn mask_path(&self, path: &str, out: &mut String) -> MaskOutcome {
        let mut masked = false;
        let mut word = "";
        // The last non-blank character, and the number of open brackets with positions.
        let (mut before, mut brackets) = (' ', 0);
        let mut rest = path;
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '"' | '\'' => quoted_length(rest, first),
                '0'..='9' => length_of(rest, |other| {
                    other.is_alphanumeric() || matches!(other, '.' | '_')
                }),
                _ if first.is_alphabetic() || matches!(first, '_' | '$' | '@') => {
                    length_of(rest, |other| {
                        other.is_alphanumeric() || matches!(other, '_' | '$' | '@')
                    })
                }
                _ => first.len_utf8(),
            };
            let (text, after) = rest.split_at(length);
            rest = after;
            let compares = matches!(before, '=' | '<' | '>');
            match first {
                '"' | '\'' if before != '.' && !is_format(word, before) => {
                    self.mask_path_text(text, first, word, out);
                    masked = true;
                }
                '0'..='9' if brackets == 0 || compares => {
                    masked |= self.mask_value(text, out) == MaskOutcome::Masked;
                }
                _ => out.push_str(text),
            }
            match first {
                '[' | '{' => brackets += 1,
                ']' | '}' => brackets -= 1,
                _ if text.starts_with(char::is_alphabetic) => word = text,
                _ => {}
            }
            if !first.is_whitespace() {
                before = text.chars().next_back().unwrap_or(first);
            }
        }
        match masked {
            true => MaskOutcome::Masked,
            false => MaskOutcome::Kept(KeepReason::Instruction),
        }
    }

    fn mask_path_text(&self, text: &str, quote: char, word: &str, out: &mut String) {
        let json = (quote == '"')
            .then(|| serde_json::from_str::<String>(text).ok())
            .flatten();
        let inner = text.trim_matches(quote);
        let value = json.as_deref().unwrap_or(inner);
        let mut masked = String::with_capacity(value.len());
        if word == "like_regex" && self.kept_reason(value).is_none() {
            mask_text(&self.key, value, TextSyntax::Expression, &mut masked);
        } else {
            self.mask_value(value, &mut masked);
        }
        match &json {
            Some(_) => out.push_str(&serde_json::Value::from(masked).to_string()),
            None => {
                out.push(quote);
                out.push_str(&masked);
                out.push(quote);
            }
        }
    }
}

/// Returns whether a text is a format: `.datetime("HH24:MI")`, `flag "i"`.
fn is_format(word: &str, before: char) -> bool {
    word == "flag" || before == '(' && word == "datetime"
}

/// Returns the length of a quoted text with its quotes; the end of the path closes all.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = text[1..].find(|character| {
        let ends = character == quote && !escaped;
        escaped = character == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

fn length_of(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|character| !is_part(character))
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::mask;

    fn value(text: &str) -> String {
        let mut out = String::new();
        mask().mask_value(text, &mut out);
        out
    }

    fn path(text: &str) -> String {
        let mut out = String::new();
        mask().mask_path(text, &mut out);
        out
    }

    #[test]
    fn what_a_path_compares_with_is_masked_as_elsewhere() {
        let (smith, number) = (value("Smith"), value("4711"));
        for (before, after) in [
            (
                "$.a.\"b c\"[12] ? (@.name == \"Smith\" && @.id > 4711)",
                format!("$.a.\"b c\"[12] ? (@.name == \"{smith}\" && @.id > {number})"),
            ),
            (
                "strict $[*] ? (@ like_regex \"^Smith[0-9]\" flag \"iq\").x",
                format!("strict $[*] ? (@ like_regex \"^{smith}[0-9]\" flag \"iq\").x"),
            ),
            (
                "//a[@id='Smith' and b>4711]/c[12]/text()",
                format!("//a[@id='{smith}' and b>{number}]/c[12]/text()"),
            ),
            (
                "$.at.datetime(\"HH24:MI\") < $end",
                "$.at.datetime(\"HH24:MI\") < $end".to_owned(),
            ),
            ("$.**{2 to 12}.a", "$.**{2 to 12}.a".to_owned()),
            ("$ == \"Smith", format!("$ == \"{smith}\"")),
            ("", String::new()),
        ] {
            assert_eq!(path(before), after);
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_a_path(text in r#"([$@."'\\\[\](){}?=<>é 0-9a-z]|flag|like_regex){0,20}"#) {
            path(&text);
        }
    }
}
