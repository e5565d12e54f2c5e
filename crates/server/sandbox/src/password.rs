//! The superuser's password of a sandbox that listens on TCP, and its file.

use crate::error::{ErrorContext, Result};
use crate::server;
use std::fmt;
use std::io;
use std::path::Path;

/// File name in the sandbox's directory. libpq reads the file as `passfile`.
pub(crate) const FILE: &str = "password";
/// Number of random bytes.
const BYTES: usize = 24;
/// Fields of the file's line before the password: host, port, database and user.
const FIELDS: &str = "127.0.0.1:*:*:postgres:";

/// A password. Its debug output omits it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Password(String);

impl Password {
    /// Takes a password as given.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Generates a password from the system's random source.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)
            .map_err(io::Error::from)
            .context("read random bytes for", Path::new(FILE))?;
        Ok(Self(bytes.iter().map(|b| format!("{b:02x}")).collect()))
    }

    /// Writes the file, which only the current user can read.
    pub(crate) fn write(&self, root: &Path) -> Result<()> {
        let escaped = self.0.replace('\\', "\\\\").replace(':', "\\:");
        server::write_private(&root.join(FILE), &format!("{FIELDS}{escaped}"))
    }

    /// Reads a password file.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(file).ok()?;
        let escaped = text.trim_end_matches('\n').strip_prefix(FIELDS)?;
        Some(Self(escaped.replace("\\:", ":").replace("\\\\", "\\")))
    }

    /// Returns the password as text, which must not be shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}
