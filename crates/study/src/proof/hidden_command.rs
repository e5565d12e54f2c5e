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

/// Returns a command without passwords in URLs and in connection strings, values of variables, and values of options and headers
/// for secrets. A shell is not imitated: too much is hidden rather than too little.
pub(crate) fn hide_secrets(command: &str) -> String {
    let mut shown = String::new();
    let mut next = Next::Shown;
    // A port is shown only after a program that has no password in `-p`.
    let mut is_postgres = false;
    for word in words(command) {
        if word.starts_with(char::is_whitespace) {
            is_postgres &= !word.contains('\n');
            shown.push_str(word);
            continue;
        }
        let is_port = is_postgres && is_port(word);
        match next {
            Next::Secret | Next::Port if !(next == Next::Port && is_port) => shown.push('…'),
            Next::Rest => shown.push('…'),
            Next::Login => shown.push_str(word.split_once(':').map_or(word, |(user, _)| user)),
            Next::Shown | Next::Secret | Next::Port => {
                shown.push_str(&hide_in_word(word, is_postgres));
            }
        }
        is_postgres = match word.contains([';', '|', '&', '(']) {
            true => false,
            false => is_postgres || is_postgres_program(word),
        };
        next = match next {
            Next::Rest => Next::Rest,
            _ => Next::after(word),
        };
    }
    shown
}

/// Meaning of the word after another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Shown.
    Shown,
    /// A secret.
    Secret,
    /// A port for programs of PostgreSQL, and a secret for others.
    Port,
    /// A user with a password after a colon.
    Login,
    /// It and all that follow are a secret.
    Rest,
}

impl Next {
    fn after(word: &str) -> Self {
        let lower = word.to_ascii_lowercase();
        let short = word.strip_prefix('-').filter(|letters| {
            !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
        });
        match short.and_then(|letters| letters.bytes().last()) {
            Some(b'p') => return Next::Port,
            Some(b'u' | b'U') => return Next::Login,
            _ => {}
        }
        match lower.strip_suffix(':') {
            Some(header) if names_secret(header) => Next::Rest,
            _ if ["bearer", "basic"].contains(&lower.as_str()) => Next::Secret,
            _ if !word.starts_with("--") || word.contains('=') => Next::Shown,
            _ if names_secret(word) => Next::Secret,
            _ if lower.ends_with("user") => Next::Login,
            _ => Next::Shown,
        }
    }
}

fn is_port(word: &str) -> bool {
    let word = word.trim_end_matches([';', '|', '&', ')']);
    word.len() <= 5 && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a word is the path of a program that takes a port after `-p`. Source: PostgreSQL's manual, "PostgreSQL Client
/// Applications".
fn is_postgres_program(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    [
        "psql",
        "pgbench",
        "createdb",
        "dropdb",
        "createuser",
        "dropuser",
        "clusterdb",
        "reindexdb",
        "vacuumdb",
        "pg_dump",
        "pg_dumpall",
        "pg_restore",
        "pg_basebackup",
        "pg_isready",
    ]
    .contains(&name)
}

fn hide_in_word(word: &str, is_postgres: bool) -> String {
    let quote = |character: char| matches!(character, '\'' | '"');
    let inner = word.trim_matches(quote);
    if word.starts_with(quote) && inner.contains(char::is_whitespace) {
        let (before, after) = word.split_once(inner).unwrap_or_default();
        return format!("{before}{}{after}", hide_secrets(inner));
    }
    if word.contains("://") {
        return hide_parameters(&connect::hide_password(word));
    }
    let attached = |option: &str| word.strip_prefix(option).filter(|value| !value.is_empty());
    match word.split_once('=') {
        Some((name, _)) if is_variable(name) || names_secret(name) => format!("{name}=…"),
        _ if attached("-p").is_some_and(|value| !(is_postgres && is_port(value))) => {
            "-p…".to_owned()
        }
        _ if attached("-u").or(attached("-U")).is_some() => before_colon(word),
        Some((name, value)) if value.contains(quote) => {
            format!("{name}={}", hide_in_word(value, is_postgres))
        }
        Some((name, _)) if name.ends_with("user") => before_colon(word),
        _ => hide_named(word),
    }
}

fn before_colon(word: &str) -> String {
    let (before, _) = word.split_once(':').unwrap_or((word, ""));
    before.to_owned()
}

/// Hides the values of the parameters of a URL that are secrets.
fn hide_parameters(url: &str) -> String {
    let Some((address, parameters)) = url.split_once('?') else {
        return url.to_owned();
    };
    let parameters = parameters.split('&').map(|one| match one.split_once('=') {
        Some((name, _)) if names_secret(name) => format!("{name}=…"),
        _ => one.to_owned(),
    });
    let parameters: Vec<String> = parameters.collect();
    format!("{address}?{}", parameters.join("&"))
}

/// Hides what follows the name of a secret and a colon, as in a header or in JSON.
fn hide_named(word: &str) -> String {
    // After a colon at the end, the words that follow are hidden.
    let colons = word.trim_end_matches(':').match_indices(':');
    for (place, _) in colons {
        if names_secret(&word[..place]) {
            return format!("{}:…", &word[..place]);
        }
    }
    word.to_owned()
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
    [
        "pass",
        "pasw",
        "pwd",
        "secret",
        "token",
        "key",
        "auth",
        "cookie",
        "credential",
    ]
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
                "PGPASSWORD=…\tpg_restore\n-p …",
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
            ("sshpass -ps3 ssh h", "sshpass -p… ssh h"),
            ("mysql -ume -ps3", "mysql -ume -p…"),
            ("curl -ume:s3 http://h", "curl -ume http://h"),
            ("curl -su me:s3 http://h", "curl -su me http://h"),
            ("curl --user=me:s3 http://h", "curl --user=me http://h"),
            (
                "curl -H \"Authorization: Bearer s3\" http://h",
                "curl -H \"Authorization: … …\" http://h",
            ),
            (
                "curl --header='X-Api-Key: s3' http://h?token=s3&x=1",
                "curl --header='X-Api-Key: …' http://h?token=…&x=1",
            ),
            ("curl -H apikey:s3 http://h", "curl -H apikey:… http://h"),
            (
                "curl -d '{\"a\":1,\"password\":\"s3\"}' h",
                "curl -d '{\"a\":1,\"password\":… h",
            ),
            (
                "curl -H Authorization:\\ Bearer\\ s3 h",
                "curl -H Authorization:… h",
            ),
            ("x --client-auth s3 y", "x --client-auth … y"),
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
    fn secret_of_digits_is_hidden_and_a_port_of_postgres_is_shown() {
        for (command, shown) in [
            ("sshpass -p 12345 ssh h", "sshpass -p … ssh h"),
            ("x --password 1234 y", "x --password … y"),
            ("x --api-key 90210 y", "x --api-key … y"),
            (
                "psql -p 5432 | sshpass -p 12345 x",
                "psql -p 5432 | sshpass -p … x",
            ),
            (
                "psql -p5432; sshpass -p12345 x",
                "psql -p5432; sshpass -p… x",
            ),
            (
                "/usr/bin/pg_restore -h h -p 5432 -d x",
                "/usr/bin/pg_restore -h h -p 5432 -d x",
            ),
        ] {
            assert_eq!(hide_secrets(command), shown);
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
