//! Public and secret keys, and the files that hold them.

use std::fmt;
use std::io;
use std::sync::Arc;

use age::Encryptor;
use age::secrecy::ExposeSecret;
pub use age::x25519::{Identity, Recipient};

/// Reason why a key file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A line is not a key.
    #[error(
        "line {line} is no key: a key is age1… (for writing) or AGE-SECRET-KEY-1… (also for reading)"
    )]
    NoKey {
        /// Line number, from 1.
        line: usize,
    },
    /// The file has no key.
    #[error(
        "it has no key in it: a key is age1… (for writing) or AGE-SECRET-KEY-1… (also for reading)"
    )]
    Empty,
    /// The file has public keys only.
    #[error("it has public keys only; reading takes a secret one, AGE-SECRET-KEY-1…")]
    PublicOnly,
}

/// A line of a key file.
enum Key {
    Public(Recipient),
    Secret(Identity),
}

/// Reads the recipients of a key file: its public keys, and those of its secret keys. Lines that begin
/// with `#` are comments.
///
/// # Errors
/// If a line is not a key, or if there is no key.
pub fn parse_recipients(text: &str) -> Result<Vec<Recipient>, KeyError> {
    let recipients = parse_keys(text)?.into_iter().map(|key| match key {
        Key::Public(recipient) => recipient,
        Key::Secret(identity) => identity.to_public(),
    });
    Ok(recipients.collect())
}

/// Reads the secret keys of a key file, as `age-keygen` and [`key_file`] write it.
///
/// # Errors
/// If a line is not a key, or if no key is secret.
pub fn parse_identities(text: &str) -> Result<Vec<Identity>, KeyError> {
    let identities = parse_keys(text)?.into_iter().filter_map(|key| match key {
        Key::Public(_) => None,
        Key::Secret(identity) => Some(identity),
    });
    let identities: Vec<_> = identities.collect();
    match identities.is_empty() {
        true => Err(KeyError::PublicOnly),
        false => Ok(identities),
    }
}

fn parse_keys(text: &str) -> Result<Vec<Key>, KeyError> {
    let mut keys = Vec::new();
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let secret = line.parse().map(Key::Secret);
        let key = secret.or_else(|_| line.parse().map(Key::Public));
        keys.push(key.map_err(|_| KeyError::NoKey { line: index + 1 })?);
    }
    match keys.is_empty() {
        true => Err(KeyError::Empty),
        false => Ok(keys),
    }
}

/// Formats the key file of an identity, as `age-keygen` does.
pub fn key_file(identity: &Identity) -> String {
    format!(
        "# public key: {}\n{}\n",
        identity.to_public(),
        identity.to_string().expose_secret()
    )
}

/// Secret keys that decrypt files.
#[derive(Clone, Default)]
pub struct Keyring {
    identities: Arc<[Identity]>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keyring").field(&self.recipients()).finish()
    }
}

impl Keyring {
    /// Creates a keyring of these identities.
    pub fn new(identities: impl IntoIterator<Item = Identity>) -> Self {
        Keyring {
            identities: identities.into_iter().collect(),
        }
    }

    /// Returns the public keys of its identities.
    pub fn recipients(&self) -> Vec<Recipient> {
        self.identities.iter().map(Identity::to_public).collect()
    }

    pub(super) fn identities(&self) -> impl Iterator<Item = &dyn age::Identity> {
        self.identities.iter().map(|identity| identity as _)
    }
}

/// Encryption of the files of one archive.
#[derive(Clone)]
pub(crate) struct Encryption {
    recipients: Arc<[Recipient]>,
    /// Reads the archive's files back while this process writes it, and is stored nowhere.
    own: Identity,
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Encryption").field(&self.recipients).finish()
    }
}

impl Encryption {
    pub(crate) fn to(recipients: &[Recipient]) -> Self {
        Encryption {
            recipients: recipients.into(),
            own: Identity::generate(),
        }
    }

    /// Returns the keyring that decrypts every file written with this encryption.
    pub(crate) fn keyring(&self) -> Keyring {
        Keyring::new([self.own.clone()])
    }

    pub(crate) fn recipients(&self) -> &[Recipient] {
        &self.recipients
    }

    /// Creates the header of a new file.
    pub(super) fn encryptor(&self) -> io::Result<Encryptor> {
        let own = self.own.to_public();
        let recipients = self.recipients.iter().chain([&own]);
        Encryptor::with_recipients(recipients.map(|recipient| recipient as _))
            .map_err(io::Error::other)
    }
}
