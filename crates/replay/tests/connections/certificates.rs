//! Certificate authorities for tests, and the certificates that they issue.

use std::sync::OnceLock;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, SignatureAlgorithm,
    date_time_ymd,
};

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    Now,
    Past,
    Future,
}

/// A certificate and its key, in PEM.
pub struct Issued {
    pub chain: String,
    pub key: String,
}

/// Certificate authority.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Returns an authority that targets trust; it signs with SHA-256.
pub fn first() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new("First", &rcgen::PKCS_ECDSA_P256_SHA256))
}

/// Returns another trusted authority; it signs with SHA-384.
pub fn second() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new("Second", &rcgen::PKCS_ECDSA_P384_SHA384))
}

/// Returns an authority that no target trusts.
pub fn unknown() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new("Unknown", &rcgen::PKCS_ECDSA_P256_SHA256))
}

/// Returns all authorities, each with a file name.
pub fn all() -> [(&'static str, &'static Authority); 3] {
    [
        ("first.crt", first()),
        ("second.crt", second()),
        ("unknown.crt", unknown()),
    ]
}

impl Authority {
    fn new(name: &str, algorithm: &'static SignatureAlgorithm) -> Self {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = parameters.self_signed(&key).unwrap();
        Authority {
            pem: certificate.pem(),
            issuer: Issuer::new(parameters, key),
        }
    }

    pub fn pem(&self) -> String {
        self.pem.clone()
    }

    pub fn issue(&self, names: &[&str], common_name: &str, validity: Validity) -> Issued {
        self.issue_numbered(names, common_name, validity, 7)
    }

    pub fn issue_numbered(
        &self,
        names: &[&str],
        common_name: &str,
        validity: Validity,
        number: u64,
    ) -> Issued {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).unwrap();
        parameters
            .distinguished_name
            .push(DnType::CommonName, common_name);
        parameters.serial_number = Some(SerialNumber::from(number));
        (parameters.not_before, parameters.not_after) = match validity {
            Validity::Now => (date_time_ymd(2020, 1, 1), date_time_ymd(2090, 1, 1)),
            Validity::Past => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
            Validity::Future => (date_time_ymd(2089, 1, 1), date_time_ymd(2090, 1, 1)),
        };
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        Issued {
            chain: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// Issues a revocation list for the certificate with this number.
    pub fn revoking(&self, number: u64) -> String {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2090, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(number),
                revocation_time: date_time_ymd(2021, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}
