//! Settings of the caller, as a file that the server's configuration includes.

use crate::error::{Error, Result};
use std::fmt::Write;

/// Name of the file, in the sandbox's directory. `ALTER SYSTEM` overrides a file, as it does
/// `postgresql.conf`, but not the command line. It is not in the data directory, which belongs to another
/// user if root writes it.
pub(crate) const FILE: &str = "settings.conf";

/// Settings that the sandbox sets itself, so that it can be found and does not interfere with other servers.
const RESERVED: [(&str, &str); 6] = [
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

/// Refuses invalid settings.
pub(crate) fn check(settings: &[(String, String)]) -> Result<()> {
    for (name, value) in settings {
        let refuse = |why| {
            Err(Error::Setting {
                name: name.clone(),
                why,
            })
        };
        if let Some((_, why)) = RESERVED
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

const LIBRARIES: &str = "shared_preload_libraries";
/// Extension that counts the work of statements.
pub(crate) const STATISTICS: &str = "pg_stat_statements";

/// Adds the library of statement statistics to those that are loaded. A caller's empty list stays empty.
pub(crate) fn with_statistics(settings: &[(String, String)]) -> Vec<(String, String)> {
    let mut all = settings.to_vec();
    let is_list = |(name, _): &&mut (String, String)| name.eq_ignore_ascii_case(LIBRARIES);
    match all.iter_mut().rev().find(is_list) {
        None => all.push((LIBRARIES.to_owned(), STATISTICS.to_owned())),
        Some((_, list)) if list.is_empty() || list.contains(STATISTICS) => {}
        Some((_, list)) => *list = format!("{list}, {STATISTICS}"),
    }
    all
}

/// Returns the text of the file.
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
    fn statistics_are_added_to_the_libraries() {
        let list = |settings: Vec<(String, String)>| with_statistics(&settings).pop().unwrap().1;
        assert_eq!(list(Vec::new()), "pg_stat_statements");
        assert_eq!(
            list(one("Shared_preload_libraries", "auto_explain")),
            "auto_explain, pg_stat_statements"
        );
        assert_eq!(list(one("shared_preload_libraries", "")), "");
        let has = one("shared_preload_libraries", "pg_stat_statements,x");
        assert_eq!(with_statistics(&has), has);
    }

    #[test]
    fn reserved_and_malformed_settings_are_refused() {
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
