//! Tests TLS towards clients, towards the server, and both; and channel binding.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use capture_proxy::{ProxyEvent, ServerTls};
use postgres_protocol::authentication::sasl::ChannelBinding;
use protocol::frontend::StartupPacket;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use sandbox::{Endpoint, Sandbox};

use super::raw::Raw;
use super::recordings::{RecordingStore, Running, Wish, private};

const PASSWORD: &str = "the password";

/// A server with TLS and SCRAM, and certificates of one authority.
struct Certified {
    endpoint: Endpoint,
    _sandbox: Sandbox,
    files: tempfile::TempDir,
}

impl Certified {
    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn upstream(&self, parameters: &str) -> String {
        format!("host=127.0.0.1 port={} {parameters}", self.endpoint.port)
    }
}

fn issue(issuer: &Issuer<'_, KeyPair>, directory: &Path, name: &str) {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(names).unwrap();
    let certificate = certificate.signed_by(&key, issuer).unwrap();
    private(directory, &format!("{name}.crt"), &certificate.pem());
    private(directory, &format!("{name}.key"), &key.serialize_pem());
}

fn certified() -> &'static Certified {
    static SERVER: OnceLock<Certified> = OnceLock::new();
    SERVER.get_or_init(|| {
        let files = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = parameters.self_signed(&key).unwrap();
        private(files.path(), "root.crt", &root.pem());
        let issuer = Issuer::new(parameters, key);
        issue(&issuer, files.path(), "server");
        issue(&issuer, files.path(), "proxy");

        let mut sandbox = test_support::server().major(18).tcp().create();
        let data = sandbox.data_dir().to_owned();
        let owner = std::fs::metadata(&data).unwrap();
        let hba = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(data.join("pg_hba.conf"), hba).unwrap();
        for name in ["server.crt", "server.key"] {
            let text = std::fs::read_to_string(files.path().join(name)).unwrap();
            let path = private(&data, name, &text);
            chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        sandbox
            .set(vec![("ssl".to_owned(), "on".to_owned())])
            .unwrap();
        let endpoint = sandbox.start().unwrap();
        let url = endpoint.socket_url("postgres").unwrap();
        let mut admin = postgres::Client::connect(&url, postgres::NoTls).unwrap();
        admin
            .batch_execute(&format!("CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'"))
            .unwrap();
        Certified {
            endpoint,
            _sandbox: sandbox,
            files,
        }
    })
}

/// Starts a proxy; with TLS for clients if a certificate is named.
fn proxy(upstream: &str, certificate: Option<&str>, required: bool) -> Running {
    let server = certified();
    let mut wish = Wish::to(&server.upstream(upstream));
    wish.tls = certificate.map(|name| {
        let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
        ServerTls::new(&server.file(&certificate), &server.file(&key), required).unwrap()
    });
    let running = wish.start(RecordingStore::default().opening());
    running.record();
    running
}

/// TLS of a client that trusts the authority.
fn client_tls(alpn: bool) -> ClientConnection {
    let root = CertificateDer::from_pem_file(certified().file("root.crt")).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    if alpn {
        config.alpn_protocols = vec![b"postgresql".to_vec()];
    }
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

/// Connects a client up to its StartupMessage, with or without TLS.
fn client(proxy: &Running, tls: bool) -> Raw {
    let mut client = Raw::connect(proxy.address());
    if tls {
        assert_eq!(client.ask(StartupPacket::SslRequest), b'S');
        client = client.encrypt(client_tls(true));
    }
    client.begin("app", &[]);
    client
}

/// Asks the server whether its connection is encrypted.
fn is_encrypted(client: &mut Raw) -> bool {
    client.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
    let answer = client.until_ready();
    let row = answer.iter().find(|(tag, _)| *tag == b'D').unwrap();
    row.1.ends_with(b"t")
}

/// Hash of a certificate for channel binding.
fn end_point(name: &str) -> Vec<u8> {
    use sha2::Digest;
    let certificate = CertificateDer::from_pem_file(certified().file(name)).unwrap();
    sha2::Sha256::digest(&certificate).to_vec()
}

/// Checks that several MB pass through TLS and back.
fn large_results_pass(client: &mut Raw) {
    client.query("SELECT repeat(md5(g::text), 100) FROM generate_series(1, 3000) g");
    let rows = client.until_ready();
    let rows = rows.iter().filter(|(tag, _)| *tag == b'D');
    let bytes: usize = rows.map(|(_, body)| body.len() - 6).sum();
    assert_eq!(bytes, 3000 * 3200);
    let sql = format!("SELECT length('{}')", "x".repeat(2_000_000));
    client.query(&sql);
    let answer = client.until_ready();
    let row = answer.iter().find(|(tag, _)| *tag == b'D').unwrap();
    assert!(row.1.ends_with(b"2000000"));
}

#[test]
fn a_password_goes_through_whichever_side_has_tls() {
    for (upstream, of_server) in [("sslmode=disable", false), ("sslmode=require", true)] {
        for of_client in [false, true] {
            let proxy = proxy(upstream, Some("proxy"), false);
            let mut client = client(&proxy, of_client);
            // The offer that could not work is removed.
            assert_eq!(client.offered(), ["SCRAM-SHA-256"]);
            client
                .log_in(PASSWORD, ChannelBinding::unsupported(), false)
                .unwrap();
            assert_eq!(is_encrypted(&mut client), of_server);
            large_results_pass(&mut client);
            let told = proxy.proxy().take_events();
            let removed = told
                .iter()
                .any(|happening| matches!(happening, ProxyEvent::BindingRemoved));
            assert_eq!(removed, of_server);
            drop(client);
            proxy.end();
        }
    }
}

/// Checks that one thread forwards both kinds of connections, each in its own way, if the system
/// has io_uring.
#[test]
fn encrypted_and_plain_clients_pass_side_by_side() {
    let proxy = proxy("sslmode=disable", Some("proxy"), false);
    let mut clients: Vec<Raw> = [false, true, false, true]
        .into_iter()
        .map(|tls| {
            let mut client = client(&proxy, tls);
            client.offered();
            client
                .log_in(PASSWORD, ChannelBinding::unsupported(), false)
                .unwrap();
            client
        })
        .collect();
    for _ in 0..20 {
        // All send requests before any is answered.
        for client in &mut clients {
            client.query("SELECT repeat('x', 10000)");
        }
        for client in &mut clients {
            let answer = client.until_ready();
            let row = answer.iter().find(|(tag, _)| *tag == b'D').unwrap();
            assert_eq!(row.1.len(), 2 + 4 + 10_000);
        }
    }
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| large_results_pass(client));
        }
    });
    // The encrypted ones continue when no plain one is left.
    clients.remove(2);
    clients.remove(0);
    for client in &mut clients {
        large_results_pass(client);
    }
    drop(clients);
    proxy.end();
}

#[test]
fn a_client_that_could_bind_is_taken_for_attacked_only_where_both_sides_have_tls() {
    // It states that it supports binding, and that the server does not offer it (the flag `y`).
    let proxy_of = |upstream| proxy(upstream, Some("proxy"), false);
    let plain = proxy_of("sslmode=disable");
    let mut able = client(&plain, true);
    able.offered();
    able.log_in(PASSWORD, ChannelBinding::unrequested(), false)
        .unwrap();
    let roots = certified().file("root.crt");
    let encrypted = proxy_of(&format!(
        "sslmode=verify-full sslrootcert={}",
        roots.display()
    ));
    let mut able = client(&encrypted, true);
    able.offered();
    let refused = able
        .log_in(PASSWORD, ChannelBinding::unrequested(), false)
        .unwrap_err();
    assert!(refused.contains("channel binding"), "{refused}");
}

#[test]
fn with_the_servers_own_certificate_the_binding_holds() {
    let proxy = proxy("sslmode=require", Some("server"), false);
    let mut client = client(&proxy, true);
    assert_eq!(client.offered(), ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]);
    let bound = ChannelBinding::tls_server_end_point(end_point("server.crt"));
    client.log_in(PASSWORD, bound, true).unwrap();
    assert!(is_encrypted(&mut client));
    // Without TLS there is no channel, and libpq aborts if the server offers binding.
    let mut plain = self::client(&proxy, false);
    assert_eq!(plain.offered(), ["SCRAM-SHA-256"]);
    plain
        .log_in(PASSWORD, ChannelBinding::unsupported(), false)
        .unwrap();
    // Binding is effective: a binding to another certificate is rejected.
    let mut deceived = self::client(&proxy, true);
    deceived.offered();
    let bound = ChannelBinding::tls_server_end_point(end_point("proxy.crt"));
    deceived.log_in(PASSWORD, bound, true).unwrap_err();
}

#[test]
fn tls_may_begin_at_once_and_may_be_required() {
    let proxy = proxy("sslmode=disable", Some("proxy"), true);
    let mut direct = Raw::connect(proxy.address()).encrypt(client_tls(true));
    direct.begin("app", &[]);
    direct.offered();
    direct
        .log_in(PASSWORD, ChannelBinding::unsupported(), false)
        .unwrap();
    // Without ALPN, it cannot be distinguished from another protocol.
    let mut nameless = Raw::connect(proxy.address()).encrypt(client_tls(false));
    nameless.begin("app", &[]);
    assert_eq!(nameless.next(), None);
    let mut plain = client(&proxy, false);
    let (tag, body) = plain.next().unwrap();
    assert_eq!(tag, b'E');
    let text = String::from_utf8_lossy(&body).into_owned();
    assert!(
        text.contains("28000") && text.contains("sslmode=require"),
        "{text}"
    );
}

#[test]
fn a_server_that_is_not_trusted_is_no_upstream() {
    let elsewhere = tempfile::tempdir().unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["x".to_owned()]).unwrap();
    let path = private(elsewhere.path(), "other.crt", &other.cert.pem());
    let given = format!("sslmode=verify-ca sslrootcert={}", path.display());
    let proxy = proxy(&given, None, false);
    let mut client = client(&proxy, false);
    let (tag, body) = client.next().unwrap();
    assert_eq!(tag, b'E');
    let text = String::from_utf8_lossy(&body).into_owned();
    assert!(
        text.contains("failed: SSL error: invalid peer certificate"),
        "{text}"
    );
    // The name of the invalid file is not for clients.
    assert!(!text.contains("other.crt"), "{text}");
}
