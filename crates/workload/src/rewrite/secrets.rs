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
                is_string && (after_word || is_connection_string(text))
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

/// Whether the word stands anywhere, in any case.
fn mentions(sql: &str) -> bool {
    let bytes = sql.as_bytes();
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

/// Whether a literal says `password = …`.
fn is_connection_string(literal: &str) -> bool {
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
        ] {
            assert_eq!(without_secrets(sql), None, "{sql}");
        }
    }
}
