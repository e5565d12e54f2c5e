//! Reads the signature algorithm of a server's certificate.
//!
//! Sources: RFC 5280, 4.1 (the outer structure); RFC 5929, 4.1 (hash of channel binding); RFC 4055, 3.1
//! (RSASSA-PSS).

/// Hash algorithm of the channel binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// `[0]`, constructed.
const FIRST_PARAMETER: u8 = 0xa0;

/// 1.2.840.113549.1.1.*, whose last byte is the algorithm.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// 1.2.840.10045.4.3.*, and 1.2.840.10045.4.1 with SHA-1
const ECDSA_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
/// 2.16.840.1.101.3.4.2.*
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];

/// Returns the hash of the certificate's signature. MD5 and SHA-1 are replaced by SHA-256 as RFC 5929
/// requires. `None` if the signature has no separate hash (Ed25519) or the bytes are not a certificate.
pub(super) fn signature_hash(certificate: &[u8]) -> Option<Hash> {
    let (inside, _) = element(certificate, SEQUENCE)?;
    let (_, after_body) = element(inside, SEQUENCE)?;
    let (algorithm, _) = element(after_body, SEQUENCE)?;
    let (identifier, parameters) = element(algorithm, OBJECT_IDENTIFIER)?;
    if identifier == ECDSA_SHA1 {
        return Some(Hash::Sha256);
    }
    let (&last, family) = identifier.split_last()?;
    match (family, last) {
        // MD5, SHA-1
        (RSA, 4 | 5) => Some(Hash::Sha256),
        (RSA, 11) => Some(Hash::Sha256),
        (RSA, 12) => Some(Hash::Sha384),
        (RSA, 13) => Some(Hash::Sha512),
        (RSA, 10) => {
            let (parameters, _) = element(parameters, SEQUENCE)?;
            let Some((first, _)) = element(parameters, FIRST_PARAMETER) else {
                // SHA-1, by default.
                return Some(Hash::Sha256);
            };
            let (hash, _) = element(first, SEQUENCE)?;
            let (identifier, _) = element(hash, OBJECT_IDENTIFIER)?;
            match identifier.split_last()? {
                (1, family) if family == SHA2 => Some(Hash::Sha256),
                (2, family) if family == SHA2 => Some(Hash::Sha384),
                (3, family) if family == SHA2 => Some(Hash::Sha512),
                _ => None,
            }
        }
        (ECDSA_SHA2, 2) => Some(Hash::Sha256),
        (ECDSA_SHA2, 3) => Some(Hash::Sha384),
        (ECDSA_SHA2, 4) => Some(Hash::Sha512),
        _ => None,
    }
}

/// Returns the content of the first element, if it has this tag, and the bytes after it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // No certificate needs a length of more than four bytes.
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            let length = length
                .iter()
                .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
            (length, rest)
        }
        _ => return None,
    };
    if found != tag {
        return None;
    }
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed_by(algorithm: &'static rcgen::SignatureAlgorithm) -> Vec<u8> {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["x".to_owned()]).unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_hash_is_the_signatures() {
        let hash = |algorithm| signature_hash(&signed_by(algorithm));
        assert_eq!(hash(&rcgen::PKCS_ECDSA_P256_SHA256), Some(Hash::Sha256));
        assert_eq!(hash(&rcgen::PKCS_ECDSA_P384_SHA384), Some(Hash::Sha384));
        assert_eq!(hash(&rcgen::PKCS_ED25519), None);
    }

    /// Returns a certificate that consists of its algorithm only.
    fn bare(identifier: &[u8], parameters: &[u8]) -> Vec<u8> {
        let sequence = |content: &[u8]| {
            let mut element = vec![SEQUENCE, content.len() as u8];
            element.extend_from_slice(content);
            element
        };
        let mut algorithm = vec![OBJECT_IDENTIFIER, identifier.len() as u8];
        algorithm.extend_from_slice(identifier);
        algorithm.extend_from_slice(parameters);
        sequence(&[sequence(&[]), sequence(&algorithm)].concat())
    }

    #[test]
    fn rsa_with_each_of_its_hashes() {
        let rsa = |last: u8, parameters: &[u8]| {
            signature_hash(&bare(&[RSA, &[last]].concat(), parameters))
        };
        let expected = [(4, Hash::Sha256), (5, Hash::Sha256), (11, Hash::Sha256)];
        for (last, hash) in expected
            .into_iter()
            .chain([(12, Hash::Sha384), (13, Hash::Sha512)])
        {
            assert_eq!(rsa(last, &[5, 0]), Some(hash), "{last}");
        }
        assert_eq!(rsa(99, &[5, 0]), None);
        let pss = [
            &[0x30, 0x0f, 0xa0, 0x0d, 0x30, 0x0b, 0x06, 0x09][..],
            SHA2,
            &[2],
        ]
        .concat();
        assert_eq!(rsa(10, &pss), Some(Hash::Sha384));
        assert_eq!(rsa(10, &[0x30, 0]), Some(Hash::Sha256));
    }

    #[test]
    fn truncated_certificate_has_no_hash() {
        let whole = signed_by(&rcgen::PKCS_ECDSA_P256_SHA256);
        for end in 0..whole.len() {
            assert_eq!(signature_hash(&whole[..end]), None);
        }
        for place in 0..whole.len() {
            let mut other = whole.clone();
            other[place] ^= 0xff;
            let _ = signature_hash(&other);
        }
    }
}
