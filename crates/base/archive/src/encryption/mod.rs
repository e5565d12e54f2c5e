//! Encryption of single files in the [age](https://age-encryption.org/v1) format, by the crate `age`.
//!
//! Each file has its own key, which the file's header holds encrypted to every recipient. The content is
//! encrypted in chunks of 64 KiB that are authenticated separately, so Parquet's reads at arbitrary offsets
//! decrypt only the chunks that they touch. No plain text reaches the disk: not while a table is written, and
//! not in the files that serve recovery.
//!
//! Every file is also encrypted to an identity that exists only in the memory of the writing process. With it
//! the writer reads its own temporary files without a user's secret key.

mod file;
mod keys;

pub(crate) use file::{EncryptedFile, EncryptedWriter, decrypt, encrypt, open_stream};
pub(crate) use keys::Encryption;
pub use keys::{
    Identity, KeyError, Keyring, Recipient, key_file, parse_identities, parse_recipients,
};

/// Name of the format in a manifest.
pub(crate) const FORMAT: &str = "age-encryption.org/v1";
/// File name extension of encrypted files.
pub(crate) const SUFFIX: &str = ".age";

#[cfg(test)]
mod tests;
