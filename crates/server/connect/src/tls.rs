//! TLS connections to a target with the semantics of libpq's `sslmode`, by rustls: verification, client
//! certificates, and messages for failed handshakes.
//!
//! The callers do the handshake, and the replay's `link.rs` handles later traffic. There is no session
//! resumption, since every session of a replay has to cost what it cost the client. Encrypted keys are not
//! supported.

mod certificate;
mod verify;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion,
};
use sha2::{Digest, Sha256, Sha384, Sha512};

use crate::parse::hide_in_path;
use crate::{
    Host, SecurityOptions, Server, SslMode, Target, TargetError, TlsVersions, TrustedRoots,
    plain_file,
};
use certificate::{Hash, signature_hash};
use verify::{Check, Verifier};

/// Protocol name of PostgreSQL 17 and later.
const ALPN: &[u8] = b"postgresql";

/// Chooses ring for libraries that use rustls and leave the choice of its cryptography to the program. Further calls have
/// no effect.
pub fn install_cryptography() {
    // It fails only if one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Configuration of TLS connections to a target.
pub struct TlsClient {
    config: Arc<ClientConfig>,
    checks_name: bool,
    /// Source of the authorities, for messages.
    authorities: String,
}

impl TlsClient {
    /// Reads the files that the target names; `None` if it does not use TLS.
    ///
    /// # Errors
    /// If a file cannot be used; the first one is reported.
    pub fn new(target: &Target) -> Result<Option<Self>, TargetError> {
        let security = &target.security;
        if security.mode == SslMode::Disable {
            return Ok(None);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (check, authorities) = match roots(security)? {
            None => (Check::Nothing, String::new()),
            Some((roots, authorities)) => {
                let builder =
                    WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone())
                        .with_crls(revoked(security)?);
                let verifier = builder.build().map_err(|error| TargetError::File {
                    what: "certificate revocation list",
                    path: security.revoked.clone().unwrap_or_default(),
                    reason: error.to_string(),
                    instead: "give one in PEM, or leave sslcrl out",
                })?;
                let check = match security.mode {
                    SslMode::VerifyFull => Check::ChainAndName(verifier),
                    _ => Check::Chain(verifier),
                };
                (check, authorities)
            }
        };
        let checks_name = matches!(check, Check::ChainAndName(_));
        let versions: &[&'static SupportedProtocolVersion] = match security.versions {
            TlsVersions::Tls12 => &[&rustls::version::TLS12],
            TlsVersions::Tls13 => &[&rustls::version::TLS13],
            TlsVersions::All => &[&rustls::version::TLS12, &rustls::version::TLS13],
        };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .expect("the provider speaks both versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier { check, provider }));
        let mut config = match &security.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate, "client certificate")?;
                builder
                    .with_client_auth_cert(chain, private_key(key, "client certificate's key")?)
                    .map_err(|error| TargetError::File {
                        what: "client certificate",
                        path: certificate.clone(),
                        reason: format!(
                            "it does not go with the key {} ({error})",
                            hide_in_path(key)
                        ),
                        instead: "give the key that it was made with",
                    })?
            }
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.enable_sni = security.tell_name;
        config.resumption = Resumption::disabled();
        Ok(Some(TlsClient {
            config: Arc::new(config),
            checks_name,
            authorities,
        }))
    }

    /// Creates a connection, whose handshake is still to be done.
    ///
    /// # Errors
    /// A sentence, if the server has no name to compare with.
    pub fn begin(
        &self,
        server: &Server,
        address: Option<IpAddr>,
    ) -> Result<Box<ClientConnection>, String> {
        let named = match &server.host {
            Some(Host::Tcp(host)) => ServerName::try_from(host.clone()).ok(),
            _ => None,
        };
        let name = match (named, address) {
            (Some(name), _) => name,
            (None, _) if self.checks_name => {
                return Err(
                    "sslmode=verify-full compares the certificate with the host's name, and there is none; name it as host, in addition to hostaddr"
                        .to_owned(),
                );
            }
            (None, Some(address)) => ServerName::from(address),
            (None, None) => return Err("it has no address to begin TLS with".to_owned()),
        };
        ClientConnection::new(self.config.clone(), name)
            .map(Box::new)
            .map_err(|error| error.to_string())
    }

    /// Explains an error during or after a handshake to the user; `None` if it is not an error of TLS.
    pub fn explain(&self, error: &io::Error, server: &Server) -> Option<String> {
        let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(match error {
            rustls::Error::InvalidCertificate(problem) => {
                let problem = self.explain_certificate(problem, server);
                format!("its certificate is refused: {problem}")
            }
            rustls::Error::AlertReceived(alert) => {
                format!(
                    "it ended the TLS handshake with the alert {alert:?}; if it asks for a client certificate, see sslcert and sslkey, and the server's log"
                )
            }
            rustls::Error::PeerIncompatible(_) => {
                format!("it does not speak TLS 1.2 or 1.3 as needed here ({error})")
            }
            other => format!("TLS failed: {other}"),
        })
    }

    fn explain_certificate(&self, problem: &CertificateError, server: &Server) -> String {
        match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "it has expired; give the server a new one".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "it is not valid yet; is the clock right?".to_owned()
            }
            CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
                format!(
                    "it names no host in its subjectAltName, where {server} was to be; make one with it, or use sslmode=verify-ca"
                )
            }
            CertificateError::NotValidForNameContext { presented, .. } => format!(
                "it is for {}, not for the host of {server}; name the host as the certificate does (its address as hostaddr), or use sslmode=verify-ca",
                presented
                    .iter()
                    .map(|name| bare(name))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            CertificateError::UnknownIssuer => format!(
                "it does not come from an authority in {}; give the right file as sslrootcert",
                self.authorities
            ),
            CertificateError::Revoked => "its authority has revoked it".to_owned(),
            other => {
                let said = other.to_string();
                if said.contains("CaUsedAsEndEntity") {
                    return "it is an authority's own (CA:TRUE), which is not taken as a server's; make the server one that the authority has signed".to_owned();
                }
                if said.contains("UnsupportedCertVersion") {
                    return "it is of X.509 version 1, which is not taken; make one of version 3 (with a subjectAltName)".to_owned();
                }
                said
            }
        }
    }
}

/// Returns a name of a certificate from rustls's debug output: `DnsName("db")`.
fn bare(shown: &str) -> &str {
    let inside = shown
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.unwrap_or(shown).trim_matches('"')
}

/// Whether the server selected the protocol's name, which distinguishes it from other TLS servers.
pub fn agreed_on_postgresql(tls: &ClientConnection) -> bool {
    tls.alpn_protocol() == Some(ALPN)
}

/// Returns the channel binding data of SCRAM (`tls-server-end-point`): a hash of the server's certificate.
/// `None` if its signature has no hash.
pub fn end_point(tls: &ClientConnection) -> Option<Vec<u8>> {
    let certificate = tls.peer_certificates()?.first()?;
    Some(match signature_hash(certificate)? {
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

/// Returns the authorities and their description; `None` if nothing is verified. As in libpq, an existing
/// file is used in every mode, and is required if the mode verifies.
fn roots(security: &SecurityOptions) -> Result<Option<(RootCertStore, String)>, TargetError> {
    let must = security.mode >= SslMode::VerifyCa;
    const MISSING: &str = "give the authorities' certificates as sslrootcert, say sslrootcert=system, or use sslmode=require, which verifies nothing";
    let missing = |path: &Path| TargetError::File {
        what: "file of authorities' certificates",
        path: path.to_owned(),
        reason: "it is not there".to_owned(),
        instead: MISSING,
    };
    let mut roots = RootCertStore::empty();
    match &security.roots {
        TrustedRoots::System => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(TargetError::Unsupported {
                    what: "the system's certificates (sslrootcert=system), and it has none"
                        .to_owned(),
                    instead: "install the package ca-certificates, or give a file as sslrootcert",
                });
            }
            Ok(Some((roots, "the system's certificates".to_owned())))
        }
        TrustedRoots::File(path) if path.exists() => {
            for certificate in certificates(path, "file of authorities' certificates")? {
                roots.add(certificate).map_err(|error| TargetError::File {
                    what: "file of authorities' certificates",
                    path: path.clone(),
                    reason: error.to_string(),
                    instead: "give certificates of version 3 in PEM",
                })?;
            }
            Ok(Some((roots, hide_in_path(path))))
        }
        TrustedRoots::File(path) if must => Err(missing(path)),
        TrustedRoots::Unknown if must => Err(missing(Path::new("~/.postgresql/root.crt"))),
        TrustedRoots::File(_) | TrustedRoots::Unknown => Ok(None),
    }
}

fn revoked(
    security: &SecurityOptions,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TargetError> {
    let Some(path) = &security.revoked else {
        return Ok(Vec::new());
    };
    let problem = |reason: String| TargetError::File {
        what: "certificate revocation list",
        path: path.clone(),
        reason,
        instead: "give one in PEM, or leave sslcrl out",
    };
    plain_file::check(path).map_err(|error| problem(error.to_string()))?;
    let lists = CertificateRevocationListDer::pem_file_iter(path)
        .and_then(|lists| lists.collect::<Result<Vec<_>, _>>())
        .map_err(|error| problem(error.to_string()))?;
    if lists.is_empty() {
        return Err(problem("it holds none".to_owned()));
    }
    Ok(lists)
}

/// Reads the certificates of a PEM file, at least one. `what` names the file in messages.
///
/// # Errors
/// If it has no certificate.
pub fn certificates(
    path: &Path,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TargetError> {
    let problem = |reason: String| TargetError::File {
        what,
        path: path.to_owned(),
        reason,
        instead: "give a file with certificates in PEM",
    };
    plain_file::check(path).map_err(|error| problem(error.to_string()))?;
    let found = CertificateDer::pem_file_iter(path)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
        .map_err(|error| problem(error.to_string()))?;
    if found.is_empty() {
        return Err(problem("it holds no certificate".to_owned()));
    }
    Ok(found)
}

/// Reads the key of a PEM file, which only its owner may read. `what` names the file in messages.
///
/// # Errors
/// If it has no key, the key is encrypted, or others can read it.
pub fn private_key(path: &Path, what: &'static str) -> Result<PrivateKeyDer<'static>, TargetError> {
    let problem = |reason: String, instead: &'static str| TargetError::File {
        what,
        path: path.to_owned(),
        reason,
        instead,
    };
    let metadata = plain_file::check(path)
        .and_then(|()| fs::metadata(path))
        .map_err(|error| problem(error.to_string(), "name the file of the certificate's key"))?;
    // Rule of libpq: readable by its owner alone, or owned by root and readable by a group.
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.permissions().mode() & forbidden != 0 {
        return Err(problem(
            "others than its owner can read it".to_owned(),
            "make it private: chmod 600",
        ));
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        problem(
            error.to_string(),
            "give a key in PEM that is not encrypted (openssl pkey -in KEY -out PLAINKEY)",
        )
    })
}
