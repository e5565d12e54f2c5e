//! TLS proxy in front of a server, which ends a connection in the middle of an answer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sandbox::Endpoint;
use socket2::SockRef;

/// First message of a client that asks for TLS (`SSLRequest`).
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// A running proxy, which serves clients until the test ends.
pub struct TlsFront {
    pub port: u16,
    cuts: Arc<AtomicUsize>,
}

struct Front {
    server: u16,
    config: Arc<ServerConfig>,
    /// An answer that contains these bytes is cut after them, and its connection is closed.
    cut_after: &'static [u8],
    /// Number of cuts that are left.
    cuts_left: AtomicUsize,
    cuts: Arc<AtomicUsize>,
}

impl TlsFront {
    /// Starts a proxy on a free port.
    pub fn before(server: &Endpoint, cut_after: &'static [u8], times: usize) -> TlsFront {
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![issued.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cuts = Arc::new(AtomicUsize::new(0));
        let front = Arc::new(Front {
            server: server.port,
            config: Arc::new(config),
            cut_after,
            cuts_left: AtomicUsize::new(times),
            cuts: cuts.clone(),
        });
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let front = front.clone();
                std::thread::spawn(move || front.serve(client));
            }
        });
        TlsFront { port, cuts }
    }

    /// Returns the number of answers that were cut.
    pub fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

impl Front {
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let mut first = [0; 8];
        client.read_exact(&mut first)?;
        assert_eq!(first, SSL_REQUEST);
        client.write_all(b"S")?;
        let connection = ServerConnection::new(self.config.clone()).unwrap();
        let mut client = StreamOwned::new(connection, client);
        while client.conn.is_handshaking() {
            client.conn.complete_io(&mut client.sock)?;
        }
        let mut server = TcpStream::connect(("127.0.0.1", self.server))?;
        client.sock.set_nonblocking(true)?;
        server.set_nonblocking(true)?;
        let mut buffer = vec![0; 16 << 10];
        loop {
            let asked = came(client.read(&mut buffer))?;
            server.write_all(&buffer[..asked])?;
            let answered = came(server.read(&mut buffer))?;
            if let Some(end) = self.cut(&buffer[..answered]) {
                return end_with(&mut client, &buffer[..end]);
            }
            client.write_all(&buffer[..answered])?;
            if asked + answered == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    /// Returns the number of bytes of the answer to forward, if it is to be cut.
    fn cut(&self, answer: &[u8]) -> Option<usize> {
        let mark = self.cut_after;
        let place = answer.windows(mark.len()).position(|part| part == mark)?;
        let left = |left: usize| left.checked_sub(1);
        let taken = (self.cuts_left).fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        taken.ok()?;
        self.cuts.fetch_add(1, Ordering::SeqCst);
        Some(place + mark.len())
    }
}

/// Returns the number of bytes read: 0 if nothing has arrived yet, an error at the end.
fn came(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}

/// Sends bytes and the end of the connection in one segment, so that the receiver is woken once.
fn end_with(client: &mut StreamOwned<ServerConnection, TcpStream>, bytes: &[u8]) -> io::Result<()> {
    client.conn.writer().write_all(bytes)?;
    let mut encrypted = Vec::new();
    while client.conn.wants_write() {
        client.conn.write_tls(&mut encrypted)?;
    }
    // The kernel keeps what more is to follow, and the end goes out with it.
    let sent = SockRef::from(&client.sock).send_with_flags(&encrypted, libc::MSG_MORE)?;
    assert_eq!(sent, encrypted.len());
    client.sock.shutdown(Shutdown::Write)?;
    // The client closes it when it has seen the end.
    client.sock.set_nonblocking(false)?;
    let mut rest = Vec::new();
    client.sock.read_to_end(&mut rest).map(|_| ())
}
