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

/// Names that contain such a word and whose values are not secret.
const HARMLESS: [&str; 4] = [
    "password_encryption",
    "md5_password_warnings",
    "ssl_passphrase_command_supports_reload",
    "scram_iterations",
];

/// Whether the value of a setting or option of this name is a secret: a password, a key, a token.
pub fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !HARMLESS.contains(&name.as_str())
        && (WORDS.iter().any(|word| name.contains(word))
            || name
                .split(['.', '_', '-'])
                .any(|part| matches!(part, "pwd" | "pass")))
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
        ] {
            assert!(names_a_secret(name), "{name}");
        }
        for name in ["password_encryption", "work_mem", "bypass", "app.tenant"] {
            assert!(!names_a_secret(name), "{name}");
        }
    }
}
