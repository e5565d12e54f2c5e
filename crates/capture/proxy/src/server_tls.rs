//! TLS towards clients, with a certificate of the proxy's own, or with the server's.

use std::path::Path;
use std::sync::Arc;

use connect::TargetError;
use connect::tls::{certificates, private_key};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::NoServerSessionStorage;

/// Protocol name (ALPN) of PostgreSQL 17 and later.
pub(super) const ALPN: &[u8] = b"postgresql";

/// TLS towards clients.
pub struct ServerTls {
    pub(super) config: Arc<ServerConfig>,
    /// Certificate that clients see.
    pub(super) certificate: CertificateDer<'static>,
    /// Whether clients without TLS are refused.
    pub(super) required: bool,
}

impl ServerTls {
    /// Reads a certificate (followed by its chain) and its key, both in PEM. `required`: clients
    /// without TLS are refused.
    ///
    /// # Errors
    /// If a file is invalid; names the first one.
    pub fn new(certificate: &Path, key: &Path, required: bool) -> Result<Self, TargetError> {
        let chain = certificates(certificate, "certificate for clients")?;
        let first = chain[0].clone();
        let key_file = key;
        let key = private_key(key_file, "key of the certificate for clients")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider speaks them")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| TargetError::File {
                what: "certificate for clients",
                path: certificate.to_owned(),
                reason: format!(
                    "it does not go with the key {} ({error})",
                    key_file.display()
                ),
                instead: "give the key that it was made with",
            })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // PostgreSQL does not resume sessions either.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(ServerTls {
            config: Arc::new(config),
            certificate: first,
            required,
        })
    }
}
