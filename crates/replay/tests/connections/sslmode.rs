//! Checks of a server's certificate by `sslmode`.

use replay::LoginMap;

use super::certificates::{self, Issued, Validity};
use super::{NEW, Server, login, server};

/// Modes that check the certificate if authorities are given.
const CHECKING_MODES: [&str; 3] = ["require", "verify-ca", "verify-full"];

#[test]
fn certificates_are_checked_by_sslmode() {
    let mut server = server(NEW);
    let good = certificates::first().issue(&["localhost", "127.0.0.1"], "x", Validity::Now);
    server.present(&good);
    check_modes_without_authorities(&server);
    check_good_certificate(&server);
    check_good_certificate_at_an_address(&server);
    check_unknown_authority_of_the_target(&server);
    check_protocol_versions(&server);
    check_expired_certificate(&mut server);
    check_early_certificate(&mut server);
    check_certificate_of_another_host(&mut server);
    check_nameless_certificate(&mut server);
    check_certificate_of_a_stranger(&mut server);
    check_revoked_certificate(&mut server);
    server.present(&good);
}

/// Returns the pairs that trust both authorities.
fn trusting(mode: &str) -> String {
    format!("sslmode={mode} sslrootcert={{dir}}/roots.crt")
}

/// Returns the pairs that trust both authorities, with the list of revoked certificates.
fn with_revocations() -> String {
    format!("{} sslcrl={{dir}}/list.crl", trusting("verify-ca"))
}

/// Issues a certificate of the first authority for `localhost`.
fn issue_for_localhost(validity: Validity) -> Issued {
    certificates::first().issue(&["localhost"], "x", validity)
}

fn check_modes_without_authorities(server: &Server) {
    server.takes("without_tls", "sslmode=disable");
    server.takes("without_tls", "sslmode=allow");
    server.takes("with_tls", "sslmode=allow");
    server.takes("with_tls", "sslmode=prefer");
    server.takes("without_tls", "sslmode=prefer");
    server.takes("with_tls", "sslmode=require");
    server.refuses("without_tls", "sslmode=require", "pg_hba.conf");
    server.refuses("with_tls", "sslmode=disable", "pg_hba.conf");
    server.refuses("with_tls", "sslmode=verify-ca", "sslrootcert");
    server.refuses(
        "with_tls",
        "sslmode=verify-ca sslrootcert=/nowhere",
        "/nowhere",
    );
}

fn check_good_certificate(server: &Server) {
    for mode in ["allow", "prefer", "require", "verify-ca", "verify-full"] {
        server.takes("with_tls", &trusting(mode));
    }
    server.takes("with_tls", &with_revocations());
}

/// Checks that an address in the certificate is as good as a name.
fn check_good_certificate_at_an_address(server: &Server) {
    let port = server.endpoint.port;
    let given = format!("host=127.0.0.1 port={port} {}", trusting("verify-full"))
        .replace("{dir}", &server.file(""));
    login(&given, "with_tls", &LoginMap::default()).unwrap();
    let given = given.replace("host=127.0.0.1", "hostaddr=127.0.0.1");
    let error = login(&given, "with_tls", &LoginMap::default()).unwrap_err();
    assert!(error.contains("name it as host"), "{error}");
}

fn check_unknown_authority_of_the_target(server: &Server) {
    let unknown = format!("sslrootcert={}", server.file("unknown.crt"));
    for mode in CHECKING_MODES {
        let given = format!("sslmode={mode} {unknown}");
        server.refuses("with_tls", &given, "does not come from an authority");
    }
    // As libpq: where TLS is only preferred, what is wrong with it leads to none.
    server.takes("without_tls", &format!("sslmode=prefer {unknown}"));
    server.refuses(
        "with_tls",
        &format!("sslmode=prefer {unknown}"),
        "authority",
    );
}

fn check_protocol_versions(server: &Server) {
    server.takes(
        "with_tls",
        "sslmode=require ssl_max_protocol_version=TLSv1.2",
    );
    server.takes(
        "with_tls",
        "sslmode=require ssl_min_protocol_version=TLSv1.3",
    );
}

fn check_expired_certificate(server: &mut Server) {
    server.present(&issue_for_localhost(Validity::Past));
    for mode in CHECKING_MODES {
        server.refuses("with_tls", &trusting(mode), "it has expired");
    }
    server.takes("with_tls", "sslmode=require");
    server.takes("without_tls", &trusting("prefer"));
}

fn check_early_certificate(server: &mut Server) {
    server.present(&issue_for_localhost(Validity::Future));
    server.refuses("with_tls", &trusting("verify-ca"), "not valid yet");
}

/// Checks a certificate for other names. It is signed with SHA-384, which also binds the channel then.
fn check_certificate_of_another_host(server: &mut Server) {
    let elsewhere = certificates::second().issue(&["db.example", "10.0.0.1"], "x", Validity::Now);
    server.present(&elsewhere);
    server.takes("with_tls", &trusting("verify-ca"));
    server.takes("with_tls", &trusting("require"));
    server.refuses(
        "with_tls",
        &trusting("verify-full"),
        "for db.example, 10.0.0.1, not",
    );
    let named = server
        .given(&trusting("verify-full"))
        .replace("host=localhost", "host=db.example");
    login(&named, "with_tls", &LoginMap::default()).unwrap();
    let bound = format!(
        "{} channel_binding=require password='of scram'",
        trusting("verify-ca")
    );
    server.takes("with_scram", &bound);
}

fn check_nameless_certificate(server: &mut Server) {
    let nameless = certificates::first().issue(&[], "localhost", Validity::Now);
    server.present(&nameless);
    server.refuses("with_tls", &trusting("verify-full"), "subjectAltName");
}

fn check_certificate_of_a_stranger(server: &mut Server) {
    let stranger = certificates::unknown().issue(&["localhost"], "x", Validity::Now);
    server.present(&stranger);
    for mode in CHECKING_MODES {
        server.refuses(
            "with_tls",
            &trusting(mode),
            "does not come from an authority",
        );
    }
}

fn check_revoked_certificate(server: &mut Server) {
    let revoked = certificates::first().issue_numbered(&["localhost"], "x", Validity::Now, 66);
    server.present(&revoked);
    server.takes("with_tls", &trusting("verify-full"));
    server.refuses("with_tls", &with_revocations(), "has revoked it");
}
