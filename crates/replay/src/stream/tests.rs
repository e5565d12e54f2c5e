//! A stream against a server in another thread, over a socket with little room.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::Stream;

type Server = rustls::StreamOwned<ServerConnection, UnixStream>;

/// Creates a stream whose handshake is complete, and a server that continues when the sender says so.
fn pair(
    serve: impl FnOnce(&mut Server, Receiver<()>) + Send + 'static,
) -> (Stream, std::sync::mpsc::Sender<()>, JoinHandle<()>) {
    let (client, server) = UnixStream::pair().unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let certificate = issued.cert.der().clone();
    let server_config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client_config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (go, told) = channel();
    let thread = std::thread::spawn(move || {
        let connection = ServerConnection::new(Arc::new(server_config)).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, server);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        serve(&mut stream, told);
    });
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(client_config), name).unwrap();
    let mut socket = client;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).unwrap();
    }
    socket.set_nonblocking(true).unwrap();
    let stream = Stream::new(socket.into(), Some(Box::new(connection)));
    (stream, go, thread)
}

fn blocks<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

fn numbered(count: usize) -> Vec<u8> {
    (0..count).map(|place| (place % 251) as u8).collect()
}

#[test]
fn stream_flushes_buffered_bytes_later() {
    let (count, counted) = channel();
    let (mut stream, go, thread) = pair(move |server, told| {
        told.recv().unwrap();
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert!(all == numbered(all.len()), "{} bytes", all.len());
        count.send(all.len()).unwrap();
    });
    let all = numbered(8 << 20);
    let mut taken = 0;
    // Pieces as statements are: the last that is taken does not all fit the socket.
    loop {
        match stream.write(&all[taken..taken + 1_000]) {
            Ok(written) => taken += written,
            error => {
                assert!(blocks(&error));
                break;
            }
        }
        if stream.wants_write() {
            break;
        }
    }
    assert!(stream.wants_write());
    assert!(blocks(&stream.flush()));
    go.send(()).unwrap();
    while blocks(&stream.flush()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!stream.wants_write());
    stream.terminate(&all[taken..taken + 10]);
    drop(stream);
    thread.join().unwrap();
    assert_eq!(counted.recv().unwrap(), taken + 10);
}

#[test]
fn stream_partial_read_leaves_no_decrypted_bytes() {
    const BYTES: usize = 300_000;
    let (mut stream, go, thread) = pair(|server, told| {
        server.write_all(&numbered(BYTES)).unwrap();
        told.recv().unwrap();
        server.conn.send_close_notify();
        server.flush().unwrap();
    });
    // Neither a record's size nor a part of it.
    let mut buffer = vec![0; 7_001];
    let mut all = Vec::new();
    let mut full = 0;
    while all.len() < BYTES {
        match stream.read(&mut buffer) {
            Ok(read) => {
                full += usize::from(read == buffer.len());
                all.extend_from_slice(&buffer[..read]);
                if read < buffer.len() {
                    let tls = stream.tls.as_mut().unwrap();
                    assert!(blocks(&tls.reader().read(&mut [0; 1])));
                }
            }
            error => {
                assert!(blocks(&error));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    assert!(all == numbered(BYTES) && full > 0);
    assert!(blocks(&stream.read(&mut buffer)));
    go.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(stream.read(&mut buffer).unwrap(), 0);
}
