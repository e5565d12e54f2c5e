//! Token for starting and stopping the recordings of live traffic, and its file.

use std::fs;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use http_server as http;
use study::Failure;

/// Number of random bytes in a generated token.
const TOKEN_BYTES: usize = 32;
/// Smallest number of characters in a token from a file.
const SHORTEST: usize = 32;

/// Token, and the file that contains it.
pub struct ControlToken {
    secret: String,
    file: PathBuf,
    /// The file if it was generated here, with its lock. It is then removed on drop.
    generated: Option<File>,
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
            generated: None,
        })
    }

    /// Replaces a file that a killed proxy left there. Another proxy with the same output keeps its own.
    fn create(output: &Path) -> Result<Self, Failure> {
        let first = numbered(output, 1);
        let created = http::random_hex::<TOKEN_BYTES>().and_then(|secret| {
            let directory = match output.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            // Its owner alone can read it from its first byte on.
            let mut temporary = NamedTempFile::new_in(directory)?;
            writeln!(temporary, "{secret}")?;
            // The lock marks the file as in use, until the process ends.
            temporary.as_file().lock()?;
            let mut number = 1;
            loop {
                let file = numbered(output, number);
                match temporary.persist_noclobber(&file) {
                    Ok(locked) => {
                        let token = ControlToken {
                            secret,
                            file,
                            generated: Some(locked),
                        };
                        return Ok(token);
                    }
                    Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                        temporary = error.file;
                        if !remove_unused(&file)? {
                            number += 1;
                        }
                    }
                    Err(error) => return Err(error.error),
                }
            }
        });
        created.map_err(|error| {
            Failure::could_not(format!(
                "cannot write the control token to {}: {error}; make room there, or give a token with --admin-token-file",
                first.display()
            ))
        })
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
        if self.generated.is_some() {
            let _ = fs::remove_file(&self.file);
        }
    }
}

/// Returns the name of a token's file: that of the first proxy with this output, or a numbered one.
fn numbered(output: &Path, number: u32) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".control-token");
    if number > 1 {
        name.push(format!("-{number}"));
    }
    PathBuf::from(name)
}

/// Removes a token's file unless a running proxy holds its lock. Returns whether the name is free.
fn remove_unused(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        file => file?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => {}
    }
    // Another proxy may have replaced the file before it was locked. Then the name is tried again.
    let is_same = |now: &fs::Metadata, then: &fs::Metadata| {
        (now.dev(), now.ino()) == (then.dev(), then.ino())
    };
    match fs::metadata(path) {
        Ok(now) if is_same(&now, &file.metadata()?) => fs::remove_file(path).map(|()| true),
        _ => Ok(true),
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
        drop(token);
        assert!(!path.exists());
    }

    #[test]
    fn proxies_with_one_output_have_tokens_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("a.workload");
        let read = |token: &ControlToken| fs::read_to_string(token.file()).unwrap();
        let one = ControlToken::new(None, &output).unwrap();
        let other = ControlToken::new(None, &output).unwrap();
        assert_ne!(one.file(), other.file());
        assert!(one.matches(read(&one).trim()) && other.matches(read(&other).trim()));
        assert!(other.file().ends_with("a.workload.control-token-2"));
        drop(one);
        assert!(other.matches(read(&other).trim()));
        // The first name is free again.
        let third = ControlToken::new(None, &output).unwrap();
        assert!(third.file().ends_with("a.workload.control-token"));
        let files = || fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files(), 2);
        drop((other, third));
        assert_eq!(files(), 0);
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
