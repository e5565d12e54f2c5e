//! Commands of the shell without what may be a password, for reports.

use std::collections::BTreeMap;

/// Returns the options for a report, which is made to be given to others: commands without passwords. The manifest keeps
/// them.
pub(super) fn shown_options(options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut shown = options.clone();
    shown.retain(|name, _| !name.ends_with("-name"));
    for command in ["restore", "load"] {
        if let Some(given) = shown.get_mut(command) {
            *given = hide_secrets(given);
        }
    }
    shown
}

/// Returns a command without passwords in URLs and in connection strings, values of variables, and values of options for
/// secrets. A shell is not imitated: too much is hidden rather than too little.
pub(super) fn hide_secrets(command: &str) -> String {
    let mut shown = String::new();
    let mut is_secret = Next::Shown;
    for word in words(command) {
        if word.starts_with(char::is_whitespace) {
            shown.push_str(word);
            continue;
        }
        let is_port = word.len() <= 5 && word.bytes().all(|byte| byte.is_ascii_digit());
        match is_secret {
            Next::Secret if !is_port => shown.push('…'),
            Next::Login => shown.push_str(word.split_once(':').map_or(word, |(user, _)| user)),
            Next::Shown | Next::Secret => shown.push_str(&hide_in_word(word)),
        }
        is_secret = Next::after(word);
    }
    shown
}

/// Meaning of the word after an option.
#[derive(Clone, Copy)]
enum Next {
    /// Shown.
    Shown,
    /// A secret, or a port.
    Secret,
    /// A user with a password after a colon.
    Login,
}

impl Next {
    fn after(option: &str) -> Self {
        match option {
            "-p" => Next::Secret,
            "-u" | "--user" => Next::Login,
            _ if option.starts_with('-') && !option.contains('=') && names_secret(option) => {
                Next::Secret
            }
            _ => Next::Shown,
        }
    }
}

fn hide_in_word(word: &str) -> String {
    let quote = |character: char| matches!(character, '\'' | '"');
    let inner = word.trim_matches(quote);
    if word.starts_with(quote) && inner.contains(char::is_whitespace) {
        let (before, after) = word.split_once(inner).unwrap_or_default();
        return format!("{before}{}{after}", hide_secrets(inner));
    }
    match word.split_once('=') {
        _ if word.contains("://") => connect::hide_password(word),
        Some((name, _)) if is_variable(name) || names_secret(name) => format!("{name}=…"),
        Some((name, value)) if value.contains(quote) => format!("{name}={}", hide_in_word(value)),
        _ => word.to_owned(),
    }
}

/// Splits a command into words and the white space between them. A quoted text is a part of its word.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let mut rest = command;
    std::iter::from_fn(move || {
        let is_space = rest.chars().next()?.is_whitespace();
        let mut open = None;
        let mut is_escaped = false;
        let ends = |character: char| {
            if std::mem::take(&mut is_escaped) {
                return false;
            }
            match (open, character) {
                (Some(quote), _) if quote == character => open = None,
                (None, '\'' | '"') if !is_space => open = Some(character),
                (None | Some('"'), '\\') if !is_space => is_escaped = true,
                (None, _) => return character.is_whitespace() != is_space,
                (Some(_), _) => {}
            }
            false
        };
        let end = rest.find(ends).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// Whether a word names a variable of the environment, as before a command.
fn is_variable(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    !word.is_empty() && word.bytes().all(is_part)
}

/// Whether a name is one of a secret.
fn names_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["pass", "pasw", "pwd", "secret", "token", "key"]
        .iter()
        .any(|part| lower.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_command_are_hidden_in_all_their_forms() {
        for (command, shown) in [
            (
                "PGPASSWORD=s3 pg_restore -d x",
                "PGPASSWORD=… pg_restore -d x",
            ),
            (
                "PGPASSWORD='s 3'\tpg_restore\n-p 5432",
                "PGPASSWORD=…\tpg_restore\n-p 5432",
            ),
            (
                "psql \"host=h password=s3 dbname=d\"",
                "psql \"host=h password=… dbname=d\"",
            ),
            (
                "psql -d \"password='s 3' dbname=d\"",
                "psql -d \"password=… dbname=d\"",
            ),
            (
                "sh -c 'export PGPASSWORD=s3; psql'",
                "sh -c 'export PGPASSWORD=… psql'",
            ),
            (
                "x --password=s3 --api-key s3 y",
                "x --password=… --api-key … y",
            ),
            ("sshpass -p s3 ssh h", "sshpass -p … ssh h"),
            ("curl -u me:s3 http://h", "curl -u me http://h"),
            ("psql postgres://u:s3@h/d", "psql postgres://u:…@h/d"),
            ("psql 'postgres://u:s3@h/d'", "psql 'postgres:…@h/d'"),
            (
                "psql --set=x='password=s3 y=z'",
                "psql --set=x='password=… y=z'",
            ),
            ("cp -a /a\\ b /c 'd e'", "cp -a /a\\ b /c 'd e'"),
            ("psql 'unclosed password=s3", "psql 'unclosed password=…"),
        ] {
            let hidden = hide_secrets(command);
            assert!(
                !hidden.contains("s3") && !hidden.contains("s 3"),
                "{hidden}"
            );
            assert_eq!(hidden, shown);
        }
    }

    #[test]
    fn commands_of_a_report_have_no_password() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let options = BTreeMap::from([
            pair("restore", "PGPASSWORD=s3 pg_restore x"),
            pair("load", "psql -d 'host=h password=s3'"),
            pair("place-name", "h"),
            pair("speed", "1"),
        ]);
        let shown = shown_options(&options);
        assert!(!format!("{shown:?}").contains("s3"), "{shown:?}");
        assert_eq!((shown.len(), shown["speed"].as_str()), (3, "1"));
    }
}
