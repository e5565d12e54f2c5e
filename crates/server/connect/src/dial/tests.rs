//! The way to servers that end it.

use std::net::TcpListener;

use super::*;

/// A fatal `handshake_failure` (RFC 8446, 6.2), in a record of TLS 1.2.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];

#[test]
fn tls_alert_is_reported_after_the_connection_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let target = format!("postgres://{address}/postgres?sslmode=require");
    let target = Target::parse(&target, |_| None).unwrap();
    let opener = SocketOpener::new(&target).unwrap();
    // Whether the client is still about to send when it is gone is chance.
    for _ in 0..100 {
        let server = listener.try_clone().unwrap();
        let server = std::thread::spawn(move || {
            let (mut client, _) = server.accept().unwrap();
            // What is left unread has the system end the connection at once.
            client.read_exact(&mut [0; 7]).unwrap();
            let mut answer = b"S".to_vec();
            answer.extend(ALERT);
            client.write_all(&answer).unwrap();
        });
        let opened = opener.open(opener.servers()[0], Some(address), TlsUse::Encrypted);
        let error = opened.err().unwrap();
        server.join().unwrap();
        assert!(error.message.contains("alert HandshakeFailure"), "{error}");
    }
}
