//! Verification of a server's certificate: none, its authority, or also its host name.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Extent of the verification.
#[derive(Debug)]
pub(super) enum Check {
    /// No verification: protects against eavesdropping, not against impersonation.
    Nothing,
    /// The certificate is signed by a trusted authority (`verify-ca`).
    Chain(Arc<WebPkiServerVerifier>),
    /// The certificate also matches the host name (`verify-full`).
    ChainAndName(Arc<WebPkiServerVerifier>),
}

/// Verifies certificates. The server's possession of the key is always verified, since channel binding relies
/// on it.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) check: Check,
    pub(super) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verify = |verifier: &Arc<WebPkiServerVerifier>| {
            verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        };
        match &self.check {
            Check::Nothing => Ok(ServerCertVerified::assertion()),
            Check::ChainAndName(verifier) => verify(verifier),
            Check::Chain(verifier) => match verify(verifier) {
                // The name is compared last, after all other checks.
                Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                )) => Ok(ServerCertVerified::assertion()),
                other => other,
            },
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
