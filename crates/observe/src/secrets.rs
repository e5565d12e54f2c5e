//! Settings whose values are never kept.

/// What a name has in it if its value may be a secret: passwords, keys, and commands and connection
/// strings, in which people write them.
const WORDS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "conninfo",
    "private",
    "apikey",
    "api_key",
    "access_key",
    "_command",
    "dsn",
];

/// Names that have such a word, and values that tell nothing.
const HARMLESS: [&str; 3] = [
    "password_encryption",
    "md5_password_warnings",
    "ssl_passphrase_command_supports_reload",
];

/// Whether a setting's value is not to be kept, by its name or by what it looks like.
pub fn may_be_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if HARMLESS.contains(&name.as_str()) {
        return false;
    }
    // Where somebody made up the name (`app.signing_key`), a key is no file's name.
    let own_key = name.contains('.') && name.ends_with("key");
    own_key || WORDS.iter().any(|word| name.contains(word)) || has_password(value)
}

/// A connection string with a password.
fn has_password(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let in_url = value.split("://").nth(1).is_some_and(|rest| {
        let authority = rest.split('/').next().unwrap_or(rest);
        authority
            .rsplit_once('@')
            .is_some_and(|(user, _)| user.contains(':'))
    });
    in_url || value.contains("password=") || value.contains("password =")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_hold_a_password_is_not_kept() {
        for (name, value) in [
            ("primary_conninfo", "host=a"),
            ("ssl_passphrase_command", "echo x"),
            ("archive_command", "AWS_SECRET_ACCESS_KEY=x cp"),
            ("restore_command", ""),
            ("app.jwt_secret", "x"),
            ("app.signing_key", "x"),
            ("my.ApiKey", "x"),
            ("ldap.url", "ldap://admin:pw@host/x"),
            ("app.db", "host=a Password=b"),
        ] {
            assert!(may_be_secret(name, value), "{name}");
        }
        for (name, value) in [
            ("password_encryption", "scram-sha-256"),
            ("ssl_key_file", "server.key"),
            ("work_mem", "4096"),
            ("search_path", "\"$user\", public"),
            ("app.url", "https://example.org/a:b@c"),
            ("ssl_passphrase_command_supports_reload", "off"),
        ] {
            assert!(!may_be_secret(name, value), "{name}");
        }
    }
}
