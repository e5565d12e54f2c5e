//! Names whose values are secrets.

/// Words that mark a name whose value is a secret.
const WORDS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "credential",
    "apikey",
    "api_key",
    "access_key",
    "private_key",
    "signing_key",
    "encryption_key",
];

/// Parts of a name, between dots, underscores and hyphens, that mark it.
const PARTS: [&str; 9] = [
    "pwd",
    "pass",
    "jwt",
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "sid",
    "conninfo",
];

/// Names that contain such a word and whose values are not secret.
const HARMLESS: [&str; 4] = [
    "password_encryption",
    "md5_password_warnings",
    "ssl_passphrase_command_supports_reload",
    "scram_iterations",
];

/// Whether a name marks a secret by one of its parts. The claims of a token that was verified (`request.jwt.claims`)
/// are data of its session.
fn has_secret_part(name: &str) -> bool {
    let mut parts = name.split(['.', '_', '-']);
    let is_setting = name.contains('.');
    !name.contains("claim")
        && parts.any(|part| PARTS.contains(&part) || is_setting && part == "key")
}

/// Whether the value of a setting or option of this name is a secret: a password, a key, a token.
pub fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    !HARMLESS.contains(&name.as_str())
        && (WORDS.iter().any(|word| name.contains(word))
            || has_secret_part(&name)
            // Commands of the server often hold a login.
            || name.ends_with("_command"))
}

/// Whether a value mentions a setting whose value is a secret: alone, in an array, or as a key of JSON.
pub(super) fn mentions_secret_setting(value: &str) -> bool {
    let in_name = |character: char| character.is_alphanumeric() || "._-".contains(character);
    let mut words = value.split(|character| !in_name(character));
    words.any(|word| word.contains('.') && names_a_secret(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_names_are_recognised() {
        for name in [
            "app.Password",
            "sslpassword",
            "jwt_secret",
            "app.pwd",
            "x.api_key",
            "app.jwt",
            "session.auth",
            "vault.sid",
            "app.key",
            "archive_command",
            "primary_conninfo",
        ] {
            assert!(names_a_secret(name), "{name}");
        }
        for name in [
            "password_encryption",
            "work_mem",
            "bypass",
            "app.tenant",
            "key",
            "app.author",
        ] {
            assert!(!names_a_secret(name), "{name}");
        }
    }
}
