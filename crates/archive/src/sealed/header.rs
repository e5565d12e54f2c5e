//! A file's header: to whom it is encrypted.

use std::io::{self, BufRead};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::hmac;
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

use super::keys::{Encryption, FileKey, Identity, Recipient, random};

const VERSION: &str = "age-encryption.org/v1";
const WRAPPING: &[u8] = b"age-encryption.org/v1/X25519";
/// A header that is longer is none of ours.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// A parsed header.
pub(crate) struct Header {
    /// For each X25519 recipient: the other half of the shared secret, and the encrypted file key.
    stanzas: Vec<([u8; 32], Vec<u8>)>,
    /// All up to the code, which the code authenticates.
    text: Vec<u8>,
    /// The code that authenticates it.
    pub(super) code: [u8; 32],
    /// How many bytes it has, with its last line's end.
    pub(super) bytes: u64,
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-SHA-256.
pub(super) fn derive(key: &[u8], salt: &[u8], info: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    Salt::new(HKDF_SHA256, salt)
        .extract(key)
        .expand(&[info], Length(32))
        .and_then(|derived| derived.fill(&mut out))
        .expect("32 bytes can be derived");
    out
}

pub(super) fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key has 32 bytes"))
}

fn wrapping_key(shared: [u8; 32], share: &[u8; 32], recipient: &Recipient) -> Option<LessSafeKey> {
    // A point of low order gives a secret that everybody knows.
    if shared == [0; 32] {
        return None;
    }
    let salt = [&share[..], &recipient.0[..]].concat();
    Some(cipher(&derive(&shared, &salt, WRAPPING)))
}

fn authenticator(key: &FileKey) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &derive(key, b"", b"header"))
}

fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

impl Header {
    /// The header of a new file, and its key, which is remembered.
    pub(super) fn create(encryption: &Encryption) -> io::Result<(Vec<u8>, FileKey)> {
        let key: FileKey = random();
        let mut text = format!("{VERSION}\n");
        for recipient in encryption.recipients() {
            let secret: [u8; 32] = random();
            let share = x25519(secret, X25519_BASEPOINT_BYTES);
            let wrapping = wrapping_key(x25519(secret, recipient.0), &share, recipient)
                .ok_or_else(|| {
                    io::Error::other(format!("{recipient} is no key that can be used"))
                })?;
            let mut body = key.to_vec();
            wrapping
                .seal_in_place_append_tag(zero_nonce(), Aad::empty(), &mut body)
                .map_err(|_| io::Error::other("the file's key could not be encrypted"))?;
            text.push_str(&format!(
                "-> X25519 {}\n{}\n",
                BASE64.encode(share),
                BASE64.encode(body)
            ));
        }
        text.push_str("---");
        let code = hmac::sign(&authenticator(&key), text.as_bytes());
        text.push_str(&format!(" {}\n", BASE64.encode(code.as_ref())));
        let code: [u8; 32] = code.as_ref().try_into().expect("SHA-256 has 32 bytes");
        encryption.remember(code, key);
        Ok((text.into_bytes(), key))
    }

    /// Reads a header, and leaves the reader behind it.
    ///
    /// # Errors
    /// Where there is none, or the file cannot be read.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it is no file of age");
        let mut text: Vec<u8> = Vec::new();
        let mut line = |text: &mut Vec<u8>| -> io::Result<String> {
            let from_byte = text.len();
            from.read_until(b'\n', text)?;
            let line = text[from_byte..].strip_suffix(b"\n").ok_or_else(damaged)?;
            if text.len() > HEADER_BYTES_MAX {
                return Err(damaged());
            }
            String::from_utf8(line.to_vec()).map_err(|_| damaged())
        };
        if line(&mut text)? != VERSION {
            return Err(damaged());
        }
        let mut stanzas = Vec::new();
        let mut next = line(&mut text)?;
        loop {
            if let Some(code) = next.strip_prefix("--- ") {
                let code = BASE64
                    .decode(code)
                    .ok()
                    .and_then(|code| code.try_into().ok());
                let bytes = text.len() as u64;
                text.truncate(text.len() - next.len() - 1 + 3);
                return Ok(Header {
                    stanzas,
                    text,
                    code: code.ok_or_else(damaged)?,
                    bytes,
                });
            }
            let arguments: Vec<String> = next
                .strip_prefix("-> ")
                .ok_or_else(damaged)?
                .split(' ')
                .map(str::to_owned)
                .collect();
            let mut body = String::new();
            loop {
                next = line(&mut text)?;
                // A body's last line is shorter than the others, perhaps empty.
                body.push_str(&next);
                if next.len() < 64 {
                    break;
                }
            }
            if let [kind, share] = &arguments[..]
                && kind == "X25519"
            {
                let share = BASE64
                    .decode(share)
                    .ok()
                    .and_then(|share| share.try_into().ok());
                let body = BASE64.decode(&body).map_err(|_| damaged())?;
                stanzas.push((share.ok_or_else(damaged)?, body));
            }
            next = line(&mut text)?;
        }
    }

    /// The file's key, if it is encrypted to this identity and the header is what was written.
    pub(super) fn opened_by(&self, identity: &Identity) -> Option<FileKey> {
        let recipient = identity.recipient();
        self.stanzas.iter().find_map(|(share, body)| {
            let wrapping = wrapping_key(x25519(identity.0, *share), share, &recipient)?;
            let mut body = body.clone();
            let key = wrapping
                .open_in_place(zero_nonce(), Aad::empty(), &mut body)
                .ok()?;
            let key: FileKey = (&*key).try_into().ok()?;
            hmac::verify(&authenticator(&key), &self.text, &self.code).ok()?;
            Some(key)
        })
    }
}
