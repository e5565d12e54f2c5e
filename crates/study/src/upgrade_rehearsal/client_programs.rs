//! PostgreSQL's client programs, which dump and restore.

use std::process::Command;

use crate::failure::Failure;

/// Programs that a rehearsal by dump needs.
const PROGRAMS: [&str; 4] = ["pg_dump", "pg_dumpall", "pg_restore", "psql"];

/// Checks that all programs are installed, and that `pg_dump` can read a server of this major version.
///
/// # Errors
/// With the package to install.
pub(super) fn check(major: u16) -> Result<(), Failure> {
    let install = format!(
        "install PostgreSQL's client programs of version {major} or later (Debian: postgresql-client-{major}, RPM: postgresql{major})"
    );
    for program in PROGRAMS {
        let output = Command::new(program).arg("--version").output();
        let text = output.map_err(|error| {
            Failure::could_not(format!("{program} cannot be started ({error}); {install}"))
        })?;
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        // A later server has catalogues that the program does not know.
        match parse_major(&text) {
            Some(found) if program == "pg_dump" && found < major => {
                return Err(Failure::could_not(format!(
                    "pg_dump {found} cannot dump a server of version {major}; {install}"
                )));
            }
            Some(_) => {}
            None => {
                return Err(Failure::could_not(format!(
                    "{program} does not report its version; {install}"
                )));
            }
        }
    }
    Ok(())
}

/// Parses `pg_dump (PostgreSQL) 15.18 (Debian …)`.
fn parse_major(text: &str) -> Option<u16> {
    let version = text.split_once(") ")?.1;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_version_of_a_client_program_is_read_from_its_version_line() {
        for (text, major) in [
            (
                "pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n",
                Some(15),
            ),
            ("psql (PostgreSQL) 18beta1\n", Some(18)),
            ("command not found", None),
        ] {
            assert_eq!(parse_major(text), major, "{text}");
        }
    }
}
