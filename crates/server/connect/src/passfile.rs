//! Reads libpq's password file: lines of `host:port:database:user:password`, with `*` for any value, and `\`
//! to escape `:` and `\`. Source: PostgreSQL documentation, 34.16.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A password file, which may not exist. It is read when a password is needed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PasswordFile {
    path: Option<PathBuf>,
}

/// Reason why a password file is not used.
#[derive(Debug, thiserror::Error)]
pub enum PasswordFileProblem {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// It is not a regular file.
    #[error("it is no file")]
    NoFile,
    /// Others can read it. libpq does not use it either.
    #[error("others than its owner can read it")]
    Open,
}

impl PasswordFile {
    /// Returns the file that libpq would use.
    pub(super) fn find(named: Option<&str>, environment: &impl Fn(&str) -> Option<String>) -> Self {
        let path = named
            .map(PathBuf::from)
            .or_else(|| environment("HOME").map(|home| PathBuf::from(home).join(".pgpass")));
        PasswordFile { path }
    }

    /// Returns its path, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Checks whether it can be used.
    ///
    /// # Errors
    /// If it does not exist or others can read it.
    pub fn check(&self) -> Result<(), PasswordFileProblem> {
        self.text().map(|_| ())
    }

    fn text(&self) -> Result<String, PasswordFileProblem> {
        let Some(path) = &self.path else {
            return Ok(String::new());
        };
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(PasswordFileProblem::NoFile);
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(PasswordFileProblem::Open);
        }
        Ok(fs::read_to_string(path)?)
    }

    /// Returns the first matching password. A file that others may read is not used, as in libpq.
    pub(super) fn password(
        &self,
        host: &str,
        port: u16,
        database: &str,
        user: &str,
    ) -> Option<String> {
        find(
            &self.text().ok()?,
            [host, &port.to_string(), database, user],
        )
    }
}

fn find(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let mut fields = fields(line).into_iter();
            for wanted in wanted {
                let field = fields.next()?;
                if field != "*" && field != wanted {
                    return None;
                }
            }
            fields.next()
        })
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        let last = fields.len() - 1;
        match c {
            '\\' => fields[last].extend(characters.next()),
            // Everything after the fourth colon is the password.
            ':' if fields.len() < 5 => fields.push(String::new()),
            c => fields[last].push(c),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_counts() {
        let text = "# comment\nother:5432:*:*:no\ndb:5432:shop:app:p\\:w:d\n*:*:*:*:any\n";
        let password = |wanted| find(text, wanted);
        assert_eq!(
            password(["db", "5432", "shop", "app"]).as_deref(),
            Some("p:w:d")
        );
        assert_eq!(
            password(["db", "5432", "shop", "x"]).as_deref(),
            Some("any")
        );
        assert_eq!(find("short:line\n", ["short", "line", "a", "b"]), None);
    }
}
