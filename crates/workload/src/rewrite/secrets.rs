//! Passwords in SQL, which are never written: of roles, of user mappings, and of connection strings
//! (subscriptions, dblink).
//!
//! Who drives: the [`crate::WorkloadWriter`], for every text, whatever its source. What is an ordinary
//! value (a row of a table of users) is not a secret in this sense: that is masking's.

use std::borrow::Cow;

use memchr::memchr2_iter;

use crate::fingerprint::lexer::{Lexer, Token};

const WORD: &str = "password";
/// What stands instead.
const NOTHING: &str = "'********'";

/// The text without the passwords in it; `None` where it has none.
pub fn without_secrets(sql: &str) -> Option<String> {
    if !mentions(sql) {
        return None;
    }
    let mut cleaned = Cow::Borrowed(sql);
    let mut removed = 0;
    let mut after_word = false;
    for token in Lexer::new(sql) {
        let (start, end) = (token.start(), token.end());
        let text = &sql[start..end];
        let is_secret = match token {
            Token::Value { .. } => {
                let is_string = text.contains(['\'', '$']) && !is_place(text);
                is_string && (after_word || is_connection_string(text) || holds_secret(text))
            }
            _ => false,
        };
        match token {
            Token::Comment { .. } => continue,
            Token::Word { .. } | Token::Quoted { .. } => {
                after_word = text.trim_matches('"').eq_ignore_ascii_case(WORD);
            }
            Token::Value { .. } | Token::Symbol { .. } => after_word = false,
        }
        if is_secret {
            let at = cleaned.len() - (sql.len() - start);
            let behind = cleaned.len() - (sql.len() - end);
            cleaned.to_mut().replace_range(at..behind, NOTHING);
            removed += 1;
        }
    }
    (removed > 0).then(|| cleaned.into_owned())
}

/// Whether a literal is SQL with a password in it: the body of a DO, a text for EXECUTE.
fn holds_secret(literal: &str) -> bool {
    let inside = match literal.find('\'') {
        // Quotes within quotes are doubled.
        Some(at) if !literal.starts_with('$') => {
            let inside = &literal[at + 1..];
            inside
                .strip_suffix('\'')
                .unwrap_or(inside)
                .replace("''", "'")
        }
        _ => {
            let tag = literal[1..].find('$').map_or(0, |at| at + 2);
            let end = literal.len().saturating_sub(tag);
            literal.get(tag..end).unwrap_or_default().to_owned()
        }
    };
    inside.len() < literal.len() && without_secrets(&inside).is_some()
}

/// Whether a literal has a URL with a user and a password: `postgres://user:password@host`.
fn is_url_with_password(literal: &str) -> bool {
    literal.match_indices("://").any(|(at, _)| {
        let scheme = literal[..at].to_ascii_lowercase();
        let authority = literal[at + 3..].split(['/', '?', '\'']).next();
        let login = authority.and_then(|authority| authority.rsplit_once('@'));
        (scheme.ends_with("postgres") || scheme.ends_with("postgresql"))
            && login.is_some_and(|(login, _)| login.contains(':'))
    })
}

/// Whether the word, or a URL with a login, stands anywhere, in any case.
fn mentions(sql: &str) -> bool {
    let bytes = sql.as_bytes();
    if memchr::memchr(b'@', bytes).is_some() && sql.contains("://") {
        return true;
    }
    // Of its letters the one that texts have least.
    memchr2_iter(b'w', b'W', bytes).any(|at| {
        at.checked_sub(4)
            .and_then(|from| bytes.get(from..from + WORD.len()))
            .is_some_and(|found| found.eq_ignore_ascii_case(WORD.as_bytes()))
    })
}

/// `$1` and the like.
fn is_place(text: &str) -> bool {
    text.strip_prefix('$')
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a literal says `password = …`, or is a URL with one.
fn is_connection_string(literal: &str) -> bool {
    if is_url_with_password(literal) {
        return true;
    }
    let lower = literal.to_ascii_lowercase();
    lower.match_indices(WORD).any(|(at, _)| {
        lower[at + WORD.len()..].trim_start().starts_with('=')
            && !lower[..at].ends_with(|before: char| before.is_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_taken_out() {
        for (sql, cleaned) in [
            (
                "ALTER ROLE app PASSWORD 'hunter2'",
                "ALTER ROLE app PASSWORD '********'",
            ),
            (
                "create user a with encrypted password E'hun\\'ter2' valid until '2030-01-01'; select 'x'",
                "create user a with encrypted password '********' valid until '2030-01-01'; select 'x'",
            ),
            (
                "ALTER USER a PASSWORD /* new */ $x$hunter2$x$",
                "ALTER USER a PASSWORD /* new */ '********'",
            ),
            (
                "CREATE USER MAPPING FOR a SERVER s OPTIONS (user 'a', password 'hunter2', \"password\" 'hunter2')",
                "CREATE USER MAPPING FOR a SERVER s OPTIONS (user 'a', password '********', \"password\" '********')",
            ),
            (
                "CREATE SUBSCRIPTION s CONNECTION 'host=h Password = hunter2' PUBLICATION p",
                "CREATE SUBSCRIPTION s CONNECTION '********' PUBLICATION p",
            ),
            (
                "SELECT dblink_connect('é', 'password=hunter2')",
                "SELECT dblink_connect('é', '********')",
            ),
            (
                "DO $$ BEGIN CREATE ROLE app LOGIN PASSWORD 'hunter2'; END $$",
                "DO '********'",
            ),
            (
                "do $x$ begin execute 'alter role a password ''hunter2'''; end $x$; select 1",
                "do '********'; select 1",
            ),
            (
                "CREATE SUBSCRIPTION s CONNECTION 'postgresql://u:hunter2@h/db' PUBLICATION p",
                "CREATE SUBSCRIPTION s CONNECTION '********' PUBLICATION p",
            ),
        ] {
            assert_eq!(without_secrets(sql).as_deref(), Some(cleaned), "{sql}");
        }
    }

    #[test]
    fn other_texts_are_left_alone() {
        for sql in [
            "SELECT 1",
            "SELECT password FROM users WHERE password = 'x'",
            "ALTER ROLE app PASSWORD NULL",
            "UPDATE users SET password = $1 WHERE id = $2",
            "INSERT INTO words VALUES ('the password is', 'nopassword=1')",
            "INSERT INTO links VALUES ('https://a@b.c', 'http://u:p@h', 'postgres://u@h/d:e')",
            "SELECT 'ann@b.c', $1 || '://', $$password$$, $$",
        ] {
            assert_eq!(without_secrets(sql), None, "{sql}");
        }
    }
}
