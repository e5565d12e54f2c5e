//! Token for starting and stopping a proxy's recordings, and its file.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::http;
use study::Failure;

/// Number of random bytes in a generated token.
const TOKEN_BYTES: usize = 32;
/// Smallest number of characters in a token from a file.
const SHORTEST: usize = 32;

/// Token, and the file that contains it.
pub struct ControlToken {
    secret: String,
    file: PathBuf,
    /// Whether the file was generated here. It is then removed on drop.
    is_generated: bool,
}

impl ControlToken {
    /// Reads the token of a file, or generates one in a file next to the recording that only its
    /// owner can read.
    ///
    /// # Errors
    /// If the file cannot be read or written, others can read it, or its token is too short.
    pub fn new(given: Option<&Path>, output: &Path) -> Result<Self, Failure> {
        match given {
            Some(file) => Self::read(file),
            None => Self::create(output),
        }
    }

    fn read(file: &Path) -> Result<Self, Failure> {
        let failed = |problem: &str| {
            Failure::usage(format!(
                "cannot use the control token in {}: {problem}",
                file.display()
            ))
        };
        let unread = |error: io::Error| {
            failed(&format!(
                "{error}; name another file, or leave out --admin-token-file to have one made"
            ))
        };
        let metadata = fs::metadata(file).map_err(unread)?;
        // As for private keys: its owner's alone, or root's and readable by a group.
        let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
        if metadata.mode() & forbidden != 0 {
            return Err(failed(
                "others than its owner can read it; make it private: chmod 600",
            ));
        }
        let text = fs::read_to_string(file).map_err(unread)?;
        let secret = text.trim();
        if secret.len() < SHORTEST || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(failed(&format!(
                "it has to be {SHORTEST} or more characters without spaces; make one with openssl rand -hex {TOKEN_BYTES}"
            )));
        }
        Ok(ControlToken {
            secret: secret.to_owned(),
            file: file.to_owned(),
            is_generated: false,
        })
    }

    /// Replaces a file that a killed proxy left there.
    fn create(output: &Path) -> Result<Self, Failure> {
        let mut name = output.as_os_str().to_owned();
        name.push(".control-token");
        let file = PathBuf::from(name);
        let written = http::random_hex::<TOKEN_BYTES>().and_then(|secret| {
            let directory = match output.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            // Its owner alone can read it from its first byte on.
            let mut temporary = NamedTempFile::new_in(directory)?;
            writeln!(temporary, "{secret}")?;
            temporary.persist(&file)?;
            Ok(secret)
        });
        match written {
            Ok(secret) => Ok(ControlToken {
                secret,
                file,
                is_generated: true,
            }),
            Err(error) => Err(Failure::could_not(format!(
                "cannot write the control token to {}: {error}; make room there, or give a token with --admin-token-file",
                file.display()
            ))),
        }
    }

    /// Returns the file that contains the token.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns whether this is the token.
    pub fn matches(&self, given: &str) -> bool {
        http::is_same_secret(given, &self.secret)
    }
}

impl Drop for ControlToken {
    fn drop(&mut self) {
        // Another proxy with the same output may have replaced it.
        let is_there =
            || fs::read_to_string(&self.file).is_ok_and(|text| self.matches(text.trim()));
        if self.is_generated && is_there() {
            let _ = fs::remove_file(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_made_token_is_private_replaces_a_left_one_and_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("a.workload");
        let path = directory.path().join("a.workload.control-token");
        fs::write(&path, "left by another").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let token = ControlToken::new(None, &output).unwrap();
        assert_eq!(token.file(), path);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        let secret = text.trim_end();
        assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(token.matches(secret) && !token.matches("") && !token.matches(&text));
        let other = ControlToken::new(None, &output).unwrap();
        assert!(!other.matches(secret));
        drop(token);
        assert!(path.exists(), "the other's");
        drop(other);
        assert!(!path.exists());
    }

    #[test]
    fn a_given_token_has_to_be_private_and_long() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let write = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            ControlToken::new(Some(&path), Path::new("a.workload"))
        };
        let long = "0123456789abcdef0123456789abcdef";
        assert!(write(&format!("{long}\n"), 0o600).unwrap().matches(long));
        assert!(path.exists());
        for (text, mode, problem) in [
            (long, 0o644, "chmod 600"),
            ("secret", 0o600, "openssl rand"),
            (&format!("{long} {long}"), 0o600, "openssl rand"),
        ] {
            let failure = write(text, mode).err().unwrap();
            assert!(failure.message.contains(problem), "{failure:?}");
        }
        fs::remove_file(&path).unwrap();
        let failure = ControlToken::read(&path).err().unwrap();
        assert!(failure.message.contains("No such file"), "{failure:?}");
    }
}
