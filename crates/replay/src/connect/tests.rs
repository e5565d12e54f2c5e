//! Cancelling what runs: over a second connection to the same place, with TLS where the first has it.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::time::Duration;

use protocol::frontend::Query;

use super::Dialer;
use crate::login::Login;
use connect::Target;

#[test]
fn cancel_request_goes_to_the_same_host_and_backend() {
    let mut sandbox = test_support::server().tcp().create();
    let owner = std::fs::metadata(sandbox.data_dir()).unwrap();
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    for (name, text) in [
        ("server.crt", certificate.cert.pem()),
        ("server.key", certificate.signing_key.serialize_pem()),
    ] {
        let path = sandbox.data_dir().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    sandbox
        .set(vec![("ssl".to_owned(), "on".to_owned())])
        .unwrap();
    let endpoint = sandbox.start().unwrap();
    for mode in ["disable", "require"] {
        let given = format!("{}?sslmode={mode}", endpoint.url("postgres"));
        let dialer = Dialer::new(&Target::parse(&given, |_| None).unwrap()).unwrap();
        let login = Login {
            user: "postgres".into(),
            database: "postgres".into(),
            application: "".into(),
            role: None,
            settings: Default::default(),
        };
        let mut connection = dialer.connect(&login).unwrap();
        assert_eq!(connection.backend.is_encrypted(), mode == "require");
        let mut query = Vec::new();
        let sql = b"SELECT pg_sleep(300)";
        Query { sql }.encode(&mut query).unwrap();
        assert_eq!(connection.stream.write(&query).unwrap(), query.len());
        let mut answer = Vec::new();
        for _ in 0..300 {
            // Again and again: the server may not have begun with the query yet.
            dialer.cancel(&connection.backend).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            let mut buffer = [0; 4096];
            match connection.stream.read(&mut buffer) {
                Ok(read) => answer.extend_from_slice(&buffer[..read]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            if answer.ends_with(b"I") {
                break;
            }
        }
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("C57014"), "{text}");
    }
}
