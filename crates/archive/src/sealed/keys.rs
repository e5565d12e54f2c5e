//! Who can read: recipients, identities, and the keys of single files.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

use super::bech32;
use super::header::Header;

const RECIPIENT: &str = "age";
const IDENTITY: &str = "age-secret-key-";

/// The key of one file.
pub(crate) type FileKey = [u8; 16];

/// To whom a file is encrypted: a public key, `age1…`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Recipient(pub(super) [u8; 32]);

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bech32::encode(RECIPIENT, &self.0))
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text holds no keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A line is no key.
    #[error(
        "line {line} is no key: a key is age1… (for writing) or AGE-SECRET-KEY-1… (also for reading)"
    )]
    NoKey {
        /// From 1.
        line: usize,
    },
    /// There is none, or none of those that are needed.
    #[error(
        "it has no key in it: a key is age1… (for writing) or AGE-SECRET-KEY-1… (also for reading)"
    )]
    Empty,
    /// There are public keys only.
    #[error("it has public keys only; reading takes a secret one, AGE-SECRET-KEY-1…")]
    PublicOnly,
}

impl Recipient {
    /// Reads `age1…`.
    pub fn parse(text: &str) -> Option<Self> {
        bech32::decode(RECIPIENT, text.trim()).map(Recipient)
    }

    /// All recipients of a key file: public keys, and those of secret ones. Lines with `#` are
    /// comments.
    ///
    /// # Errors
    /// Where a line is no key, or there is none.
    pub fn all_in(text: &str) -> Result<Vec<Self>, KeyError> {
        let of = |line: &str| {
            Recipient::parse(line).or_else(|| Some(Identity::parse(line)?.recipient()))
        };
        each_line(text, of)
    }
}

fn each_line<T>(text: &str, of: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, KeyError> {
    let mut found = Vec::new();
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if !line.is_empty() && !line.starts_with('#') {
            found.push(of(line).ok_or(KeyError::NoKey { line: index + 1 })?);
        }
    }
    match found.is_empty() {
        true => Err(KeyError::Empty),
        false => Ok(found),
    }
}

/// Who can read what is encrypted to its recipient: a secret key, `AGE-SECRET-KEY-1…`.
#[derive(Clone)]
pub struct Identity(pub(super) [u8; 32]);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity of {}", self.recipient())
    }
}

impl Identity {
    /// A new one.
    pub fn random() -> Self {
        Identity(random())
    }

    /// Reads `AGE-SECRET-KEY-1…`.
    pub fn parse(text: &str) -> Option<Self> {
        bech32::decode(IDENTITY, text.trim()).map(Identity)
    }

    /// All identities of a key file, as `age-keygen` writes it.
    ///
    /// # Errors
    /// Where a line is no key, or none of them is secret.
    pub fn all_in(text: &str) -> Result<Vec<Self>, KeyError> {
        let either = |line: &str| match Identity::parse(line) {
            Some(identity) => Some(Some(identity)),
            None => Recipient::parse(line).map(|_| None),
        };
        let found: Vec<Self> = each_line(text, either)?.into_iter().flatten().collect();
        match found.is_empty() {
            true => Err(KeyError::PublicOnly),
            false => Ok(found),
        }
    }

    /// To whom to encrypt for this one.
    pub fn recipient(&self) -> Recipient {
        Recipient(x25519(self.0, X25519_BASEPOINT_BYTES))
    }

    /// The line of a key file.
    pub fn secret_text(&self) -> String {
        bech32::encode(IDENTITY, &self.0).to_ascii_uppercase()
    }
}

/// Random bytes of the system's.
///
/// # Panics
/// Where the system has none.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system has random numbers");
    bytes
}

type Remembered = Arc<Mutex<HashMap<[u8; 32], FileKey>>>;

/// What opens files: identities, and the keys of files that this process wrote.
#[derive(Clone, Default)]
pub struct Keyring {
    identities: Arc<[Identity]>,
    /// By the code that authenticates a file's header.
    own: Option<Remembered>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keyring").field(&self.identities).finish()
    }
}

impl Keyring {
    /// With these identities.
    pub fn new(identities: impl IntoIterator<Item = Identity>) -> Self {
        Keyring {
            identities: identities.into_iter().collect(),
            own: None,
        }
    }

    /// It opens nothing.
    pub fn is_empty(&self) -> bool {
        self.identities.is_empty() && self.own.is_none()
    }

    /// The public keys of its identities.
    pub fn recipients(&self) -> Vec<Recipient> {
        self.identities.iter().map(Identity::recipient).collect()
    }

    /// The key of a file; `None` where none of its recipients is known here.
    pub(super) fn file_key(&self, header: &Header) -> Option<FileKey> {
        if let Some(own) = &self.own {
            let own = own.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(key) = own.get(&header.code) {
                return Some(*key);
            }
        }
        self.identities
            .iter()
            .find_map(|identity| header.opened_by(identity))
    }
}

/// How an archive's files are encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Encryption {
    pub(super) recipients: Arc<[Recipient]>,
    pub(super) own: Remembered,
}

impl Encryption {
    pub(crate) fn to(recipients: &[Recipient]) -> Self {
        Encryption {
            recipients: recipients.into(),
            own: Remembered::default(),
        }
    }

    /// Opens what was written by this.
    pub(crate) fn keyring(&self) -> Keyring {
        Keyring {
            identities: Arc::default(),
            own: Some(self.own.clone()),
        }
    }

    pub(crate) fn recipients(&self) -> &[Recipient] {
        &self.recipients
    }

    pub(super) fn remember(&self, code: [u8; 32], key: FileKey) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.insert(code, key);
    }
}
