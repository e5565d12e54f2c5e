//! The caller's settings, as a file that the server's own configuration includes.

use crate::error::{Error, Result};
use std::fmt::Write;

/// The file's name, in the sandbox's directory. A file, and not the command line, so that
/// `ALTER SYSTEM` still wins over it, as it does over `postgresql.conf`. Not in the data
/// directory, which is another user's if root writes it.
pub(crate) const FILE: &str = "settings.conf";

/// Ours to choose: the sandbox must be found, and found alone.
const OURS: [(&str, &str); 6] = [
    ("port", "choose it with the sandbox's port"),
    ("listen_addresses", "a sandbox listens on 127.0.0.1 only"),
    ("unix_socket_directories", "a sandbox has its own"),
    ("data_directory", "a sandbox has its own"),
    ("external_pid_file", "a sandbox has its own"),
    (
        "config_file",
        "give the settings themselves; they are written to the sandbox's own file",
    ),
];

/// Refuses what cannot be given.
pub(crate) fn check(settings: &[(String, String)]) -> Result<()> {
    for (name, value) in settings {
        let refuse = |why| {
            Err(Error::Setting {
                name: name.clone(),
                why,
            })
        };
        if let Some((_, why)) = OURS
            .iter()
            .find(|(ours, _)| name.eq_ignore_ascii_case(ours))
        {
            return refuse(why);
        }
        let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !name.starts_with(letter)
            || name.contains(|c: char| !(letter(c) || c.is_ascii_digit() || c == '.'))
        {
            return refuse("a setting's name has letters, digits, `_` and `.` only");
        }
        if value.contains(['\n', '\r', '\0']) {
            return refuse("its value must be on one line");
        }
    }
    Ok(())
}

/// The file's text.
pub(crate) fn render(settings: &[(String, String)]) -> String {
    let mut text = String::from("# Written at each start; changes made here are lost.\n");
    for (name, value) in settings {
        let value = value.replace('\\', "\\\\").replace('\'', "''");
        let _ = writeln!(text, "{name} = '{value}'");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), value.to_owned())]
    }

    #[test]
    fn values_are_quoted() {
        let text = render(&one("log_line_prefix", r"%m 'x' \ "));
        assert!(
            text.ends_with("log_line_prefix = '%m ''x'' \\\\ '\n"),
            "{text}"
        );
    }

    #[test]
    fn what_is_ours_or_would_break_the_file_is_refused() {
        check(&one("pg_stat_statements.max", "100")).unwrap();
        for (name, value) in [
            ("Port", "5432"),
            ("", "1"),
            ("a b", "1"),
            ("work_mem = 1 #", "1"),
            ("work_mem", "1\nport = 1"),
        ] {
            assert!(check(&one(name, value)).is_err(), "{name}={value}");
        }
    }
}
