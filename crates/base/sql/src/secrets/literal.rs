//! Recognises secret values: connection strings, URLs and commands with a login, password verifiers, and
//! templates into which a password is inserted.

/// Keywords that precede a password in connection strings of libpq (PostgreSQL documentation, 34.1.2) and
/// ODBC.
const KEYWORDS: [&str; 4] = ["password", "passwd", "passphrase", "pwd"];

/// Words of a command that may have a login: options, variables and headers.
const IN_COMMANDS: [&str; 13] = [
    "pass",
    "pwd",
    "secret",
    "token",
    "credential",
    "key",
    "auth",
    "bearer",
    "cookie",
    "--user",
    " -u",
    " -p",
    "://",
];

/// Maximum number of characters of a URL that are searched for a login.
const URL_MAX: usize = 2_048;

/// Whether a value has `password = …`, a URL with a password, a JSON web token, a private key, or the value of a header
/// `Authorization`.
pub fn holds_login(value: &str) -> bool {
    has_password_keyword(value)
        || has_url_login(value)
        || has_web_token(value)
        || has_private_key(value)
        || has_authorization(value)
}

/// Whether a value has a private key in PEM format (RFC 7468).
fn has_private_key(value: &str) -> bool {
    value.contains("-----BEGIN ") && value.contains("PRIVATE KEY-----")
}

/// Whether a value has a JSON web token (RFC 7519): two or three parts in base64url, of which the first two are JSON
/// objects.
fn has_web_token(value: &str) -> bool {
    let in_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    value.match_indices("eyJ").any(|(at, _)| {
        let bytes = &value.as_bytes()[at..];
        let head = bytes.iter().take_while(|byte| in_part(byte)).count();
        bytes[head..].starts_with(b".eyJ")
    })
}

/// Whether a value has `Bearer …` or `Basic …` with a token of at least eight characters.
fn has_authorization(value: &str) -> bool {
    let in_token = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'+' | b'/' | b'=')
    };
    ["bearer ", "basic "].iter().any(|scheme| {
        offsets_of(value, scheme).any(|at| {
            let starts = !value[..at].ends_with(|character: char| character.is_alphanumeric());
            let token = value.as_bytes()[at + scheme.len()..].trim_ascii_start();
            let length = token.iter().take_while(|byte| in_token(byte)).count();
            // A word of a sentence is not one.
            let mixed = token[..length]
                .iter()
                .any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
            starts && length >= 8 && mixed
        })
    })
}

/// Words that a comment uses before a secret.
const COMMENT_WORDS: [&str; 6] = ["password", "passwd", "pwd", "secret", "token", "passphrase"];

/// Whether a comment gives a secret after its name: `password: x`, `token = x`.
pub(super) fn comment_gives_secret(comment: &str) -> bool {
    COMMENT_WORDS.iter().any(|word| {
        offsets_of(comment, word).any(|at| {
            let rest = comment[at + word.len()..].trim_start();
            rest.strip_prefix([':', '='])
                .is_some_and(|value| !value.trim().is_empty())
        })
    })
}

fn has_password_keyword(value: &str) -> bool {
    KEYWORDS.iter().any(|keyword| {
        offsets_of(value, keyword).any(|at| {
            let before = &value[..at];
            // libpq also has a password for the client's key.
            let before = match before.len().checked_sub("ssl".len()) {
                Some(from) if before.as_bytes()[from..].eq_ignore_ascii_case(b"ssl") => {
                    &before[..from]
                }
                _ => before,
            };
            value[at + keyword.len()..].trim_start().starts_with('=')
                && !before.ends_with(|character: char| character.is_alphanumeric())
        })
    })
}

/// Returns the offsets of an ASCII word in a text, in any case.
fn offsets_of<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let (bytes, word) = (text.as_bytes(), word.as_bytes());
    let first = [word[0], word[0].to_ascii_uppercase()];
    memchr::memchr2_iter(first[0], first[1], bytes).filter(move |at| {
        bytes
            .get(*at..at + word.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(word))
    })
}

/// Whether a value has `scheme://user:password@host`, with any scheme.
fn has_url_login(value: &str) -> bool {
    value.match_indices("://").any(|(at, found)| {
        let rest = &value[at + found.len()..];
        let scheme = &value[..at];
        // A password in a hand-typed URL is often not percent-encoded. libpq's URLs are the ones that people
        // type.
        let by_hand = ["postgres", "postgresql"]
            .iter()
            .any(|name| scheme.len() >= name.len() && ends_with_word(scheme, name));
        let ends = |character: char| character.is_whitespace() || matches!(character, '\'' | '"');
        let authority = match by_hand {
            true => {
                let most = rest.char_indices().nth(URL_MAX);
                let rest = most.map_or(rest, |(most, _)| &rest[..most]);
                rest.split(ends).next()
            }
            false => rest
                .split(|character| ends(character) || matches!(character, '/' | '?' | '#'))
                .next(),
        };
        let authority = authority.unwrap_or(rest);
        let login = authority
            .rsplit_once('@')
            .and_then(|(login, _)| login.split_once(':'));
        login.is_some_and(|(_, password)| {
            let digits = password.bytes().take_while(u8::is_ascii_digit).count();
            let is_port = by_hand && password[digits..].starts_with(['/', '?']);
            !password.is_empty() && !is_port
        })
    })
}

fn ends_with_word(text: &str, word: &str) -> bool {
    let from = text.len() - word.len();
    text.as_bytes()[from..].eq_ignore_ascii_case(word.as_bytes())
}

/// Whether a value is a password verifier as the server stores it (PostgreSQL documentation, 53.8
/// `pg_authid`).
pub(super) fn is_verifier(value: &str) -> bool {
    let value = value.trim();
    let md5 = value.strip_prefix("md5").is_some_and(|digits| {
        digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    });
    md5 || value.starts_with("SCRAM-SHA-256$")
}

/// Whether a command line (of `COPY … PROGRAM`) may have a login. It is not parsed as a shell would; a
/// similar word is enough.
pub(super) fn may_have_login(command: &str) -> bool {
    let lower = command.to_ascii_lowercase();
    IN_COMMANDS.iter().any(|word| lower.contains(word))
}

/// Whether a value ends, or has a placeholder of `format`, at the position of a password. Other values are
/// appended to it or inserted into it.
pub(super) fn is_template(value: &str) -> bool {
    offsets_of(value, "password").any(|at| {
        let rest = &value[at + "password".len()..];
        let after = rest.trim_start_matches(|character: char| {
            character.is_whitespace() || matches!(character, '=' | '\'' | '$' | '(' | 'E' | 'e')
        });
        // A text that ends with the word itself is more often a name.
        after.starts_with('%') || (after.is_empty() && !rest.is_empty())
    })
}

/// Whether a value is a template of `format` with a placeholder for a password.
pub(super) fn has_password_placeholder(value: &str) -> bool {
    offsets_of(value, "password").any(|at| {
        let rest = value[at + "password".len()..].trim_start_matches([' ', '\'', '=']);
        let digits = rest.strip_prefix('%').map(|rest| {
            rest.trim_start_matches(|character: char| {
                character.is_ascii_digit() || character == '$'
            })
        });
        // A pattern of LIKE (`%password%`) is not one.
        digits.is_some_and(|kind| kind.starts_with(['s', 'L', 'I']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_recognised() {
        for value in [
            "host=h Password = x",
            "é sslpassword=x",
            "Driver=x;UID=a;PWD=b",
            "user_password=x",
            "http://u:p@h",
            "see redis://:p@h:6379/0.",
            "postgres://u:a/b?c@h/d",
            "POSTGRESQL://u:1a@h",
            "postgres://u:1234@h",
            "x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc y",
            "{\"authorization\": \"Bearer a1b2c3d4e5\"}",
            "Basic dXNlcjpwYXNz",
            "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----",
        ] {
            assert!(holds_login(value), "{value}");
        }
        for value in [
            "",
            "the password is",
            "nopassword=1",
            "https://a@b.c/x:y@z",
            "https://example.org/a:b@c, https://b",
            "http://h:80/@x",
            "postgres://h:5432/d?x=a@b",
            "postgres://u@h/d:e",
            "://:@",
            "mailto:a@b",
            "eyJust some text. eyJ",
            "basic information about bearer securities",
            "-----BEGIN PUBLIC KEY-----",
        ] {
            assert!(!holds_login(value), "{value}");
        }
    }

    #[test]
    fn templates_have_a_place_for_a_password() {
        for value in [
            "alter role %I password %L",
            "… PASSWORD ''%s''",
            " password ",
            "user=u password=",
            "password '",
        ] {
            assert!(is_template(value), "{value}");
        }
        for value in ["password", "smtp_password", "the password is", "100%"] {
            assert!(!is_template(value), "{value}");
        }
        for value in ["alter role %I password %L", "PASSWORD = '%2$s'"] {
            assert!(has_password_placeholder(value), "{value}");
        }
        for value in ["%password%", "password", "password '", "password % x"] {
            assert!(!has_password_placeholder(value), "{value}");
        }
    }
}
