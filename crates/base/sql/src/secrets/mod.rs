//! Redaction of secrets, which are never written: passwords of roles and of user mappings, in connection
//! strings and URLs, in settings of telling names, in commands of `COPY … PROGRAM`, in SQL within literals,
//! in comments, and in parameters.
//!
//! It works on text alone. An ordinary value, such as a row of a table of users, is not a secret here; masking
//! hides it. Arguments of the database's own functions are not recognised (`set_pw('ann', 'x')`).

mod findings;
mod literal;
mod names;
mod text;
mod time_words;
mod values;

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::byte_pair_prefilter::may_have_pair;

pub use literal::holds_login;
pub use names::names_a_secret;
pub use values::{may_name_settings_by_parameter, redact_setting, secret_parameters};

/// Replacement of a secret literal.
const REDACTED_LITERAL: &str = "'********'";
/// Replacement of a secret parameter or setting.
pub const REDACTED: &str = "********";

/// Number of levels of literals within literals that are searched.
const DEPTH_MAX: usize = 4;

/// Number of passes over a text. A redaction may expose a secret that was hidden before.
const PASSES_MAX: usize = 4;

/// Substrings of which every text with a secret has one, in any case. Most texts have none, and are not
/// searched further.
const MENTIONS: [&str; 25] = [
    "passw",
    "passphrase",
    "passcode",
    "pwd",
    ".pass",
    "secret",
    "token",
    "credential",
    "scram-sha-256$",
    "identified",
    "dblink",
    "connection",
    "program",
    "_key",
    "apikey",
    "://",
    "jwt",
    "set_config",
    "eyj",
    "crypt",
    "hmac",
    "bearer ",
    "basic ",
    "-----begin",
    "http_header",
];

/// Pairs of letters of which each of [`MENTIONS`] has one. Most texts have none.
const PAIRS: [[u8; 2]; 19] = [
    *b"ss", *b"pw", *b"cr", *b"ok", *b"fi", *b"nk", *b"nn", *b"og", *b"_k", *b"ik", *b"//", *b"jw",
    *b"yj", *b"nf", *b"hm", *b"be", *b"c ", *b"--", *b"p_",
];

/// A text without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedSql {
    /// The text.
    pub sql: String,
    /// All secrets were in comments: the statement is the same.
    pub only_comments: bool,
}

/// Returns the text without its secrets, or `None` if it has none.
pub fn redact_sql(sql: &str) -> Option<RedactedSql> {
    if !may_hold_secret(sql) {
        return None;
    }
    let mut redacted: Option<RedactedSql> = None;
    for _ in 0..PASSES_MAX {
        let text = redacted.as_ref().map_or(sql, |redacted| &redacted.sql);
        let Some(next) = redact_once(text) else {
            return redacted;
        };
        let only_comments =
            next.only_comments && (redacted.as_ref()).is_none_or(|redacted| redacted.only_comments);
        redacted = Some(RedactedSql {
            only_comments,
            ..next
        });
    }
    // Nothing of such a text can be trusted.
    Some(RedactedSql {
        sql: REDACTED_LITERAL.to_owned(),
        only_comments: false,
    })
}

fn redact_once(sql: &str) -> Option<RedactedSql> {
    let found = text::find(sql, 0);
    if found.is_empty() {
        return None;
    }
    let only_comments = found.secrets.is_empty();
    let mut redacted = String::with_capacity(sql.len());
    let mut from = 0;
    let secrets = found.secrets.iter().map(|range| (range, REDACTED_LITERAL));
    let comments = found.comments.iter().map(|range| {
        // The end of a line comment is not part of it.
        let dashes = sql[range.clone()].starts_with("--");
        (range, if dashes { "--" } else { "/**/" })
    });
    let mut ranges: Vec<_> = secrets.chain(comments).collect();
    ranges.sort_by_key(|(range, _)| range.start);
    for (range, instead) in ranges {
        if range.start < from {
            from = from.max(range.end);
            continue;
        }
        redacted.push_str(&sql[from..range.start]);
        redacted.push_str(instead);
        from = range.end;
    }
    redacted.push_str(&sql[from..]);
    Some(RedactedSql {
        sql: redacted,
        only_comments,
    })
}

/// Returns whether a text may hold a secret. It is a quick search for [`MENTIONS`].
pub fn may_hold_secret(text: &str) -> bool {
    if begins_definition(text.as_bytes()) {
        return true;
    }
    static MACHINE: LazyLock<AhoCorasick> = LazyLock::new(|| {
        AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(MENTIONS)
            .expect("a few short words")
    });
    may_have_pair(text.as_bytes(), PAIRS) && MACHINE.is_match(text)
}

/// Whether a text begins with `CREATE`, `ALTER` or `SET`. Their secrets have many names, some of them mistyped.
fn begins_definition(text: &[u8]) -> bool {
    let start = text.trim_ascii_start();
    let is = |word: &&[u8]| {
        let start = start.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    [&b"create"[..], b"alter", b"set "].iter().any(is)
}

#[cfg(test)]
mod tests;
