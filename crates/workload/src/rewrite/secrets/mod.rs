//! Passwords, which are never written: of roles, of user mappings, of connection strings and URLs, in
//! settings that are named so, in commands of `COPY … PROGRAM`, in SQL within literals, in comments, and
//! in parameters.
//!
//! Who drives: the [`crate::WorkloadWriter`], for every event, whatever its source. What is an ordinary
//! value (a row of a table of users) is not a secret in this sense: that is masking's. Deliberately
//! absent: a guess at what functions of the database's own are given (`set_pw('ann', 'x')`).

mod event;
mod literal;
mod names;
mod text;

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::glance::may_have_pair;

pub use event::{Harmless, event_without_secrets};
pub use literal::holds_login;
pub use names::names_a_secret;

/// What stands instead of a literal, and of a value that is no literal.
const NOTHING: &str = "'********'";
const BARE_NOTHING: &str = "********";

/// So many literals within literals are looked into.
const DEPTH_MAX: usize = 4;

/// How often a text is gone over again: what is taken out may bring to light what stood behind.
const TURNS_MAX: usize = 4;

/// A text with a secret has one of these, in any case. Most texts have none, and are looked at no
/// further.
const MENTIONS: [&str; 16] = [
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
];

/// Each of [`MENTIONS`] has one of these, and most texts have none.
const PAIRS: [[u8; 2]; 11] = [
    *b"ss", *b"pw", *b"cr", *b"ok", *b"fi", *b"nk", *b"nn", *b"og", *b"_k", *b"ik", *b"//",
];

/// A text without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutSecrets {
    /// The text.
    pub sql: String,
    /// They stood in comments, and nowhere else: the statement is the same.
    pub only_comments: bool,
}

/// The text without the passwords in it; `None` where it has none.
pub fn without_secrets(sql: &str) -> Option<String> {
    mentions(sql)
        .then(|| without(sql))?
        .map(|cleaned| cleaned.sql)
}

fn without(sql: &str) -> Option<WithoutSecrets> {
    let mut cleaned: Option<WithoutSecrets> = None;
    for _ in 0..TURNS_MAX {
        let text = cleaned.as_ref().map_or(sql, |cleaned| &cleaned.sql);
        let Some(next) = once(text) else {
            return cleaned;
        };
        let only_comments =
            next.only_comments && cleaned.as_ref().is_none_or(|cleaned| cleaned.only_comments);
        cleaned = Some(WithoutSecrets {
            only_comments,
            ..next
        });
    }
    // Nothing of such a text can be trusted.
    Some(WithoutSecrets {
        sql: NOTHING.to_owned(),
        only_comments: false,
    })
}

fn once(sql: &str) -> Option<WithoutSecrets> {
    let found = text::find(sql, 0);
    if found.is_empty() {
        return None;
    }
    let only_comments = found.secrets.is_empty();
    let mut cleaned = String::with_capacity(sql.len());
    let mut from = 0;
    let secrets = found.secrets.iter().map(|range| (range, NOTHING));
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
        cleaned.push_str(&sql[from..range.start]);
        cleaned.push_str(instead);
        from = range.end;
    }
    cleaned.push_str(&sql[from..]);
    Some(WithoutSecrets {
        sql: cleaned,
        only_comments,
    })
}

/// Whether a text has anything of what texts with a secret have.
fn mentions(text: &str) -> bool {
    static MACHINE: LazyLock<AhoCorasick> = LazyLock::new(|| {
        AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(MENTIONS)
            .expect("a few short words")
    });
    may_have_pair(text.as_bytes(), PAIRS) && MACHINE.is_match(text)
}

#[cfg(test)]
mod tests;
