//! Files that are encrypted, in the format of [age](https://age-encryption.org/v1): each by a key of its
//! own, which its header holds encrypted to one or several recipients (X25519).
//!
//! What is encrypted is written and read in chunks of 64 KiB that stand for themselves, so that a
//! table can be read from its end and in the middle, as Parquet is. Nothing is ever on disk in plain
//! text: not while a table is written, nor what a recovery needs. What a process has written itself it
//! can read without an identity, by the keys that it remembers.
//!
//! The library `age` costs more than a minute of building; the format is small, and what is secret in
//! it is done by `ring` and `x25519-dalek`.

mod bech32;
mod header;
mod keys;
mod stream;

pub(crate) use keys::Encryption;
pub use keys::{Identity, KeyError, Keyring, Recipient};
pub(crate) use stream::{SealedFile, Sealing, seal};

/// The format's name, as a manifest says it.
pub(crate) const FORMAT: &str = "age-encryption.org/v1";
/// What the names of encrypted files end in.
pub(crate) const SUFFIX: &str = ".age";

#[cfg(test)]
mod tests;
