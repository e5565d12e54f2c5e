//! Answers of a server during start-up and authentication.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use connect::Target;
use connect::login::{Dialer, Login};

const PASSWORD: &str = "Kz7canaryQ";
/// Options of the target, chosen by the first byte.
const OPTIONS: [&str; 6] = [
    "",
    "require_auth=scram-sha-256",
    "require_auth=md5",
    "require_auth=none",
    "target_session_attrs=standby",
    "target_session_attrs=read-write channel_binding=disable",
];
const REQUIRES_SCRAM: usize = 1;
const REQUIRES_MD5: usize = 2;
/// Maximum number of bytes that the clients of one script send: start-up, authentication and a query, for each of the
/// attempts to connect.
const SENT_BYTES_MAX: usize = 16 * 1024;
/// Time after which a client is taken to wait for the server, as one does that sends nothing more.
const CLIENT_SILENCE: Duration = Duration::from_millis(100);
/// Stands for the client's nonce in an answer.
const NONCE: u8 = 0xff;

/// Checks the answers of a server after the first byte. Each is a tag, a length of one byte, and a body; a tag of zero
/// has no header, so that the body is sent as it is.
pub fn check(data: &[u8]) {
    let Some((mode, script)) = data.split_first() else {
        return;
    };
    static SERVER: LazyLock<Mutex<ScriptedServer>> =
        LazyLock::new(|| Mutex::new(ScriptedServer::start()));
    let server = SERVER.lock().expect("no check failed");
    let options = usize::from(*mode) % OPTIONS.len();
    let target = format!(
        "host=@{} port=1 user=app dbname=d password={PASSWORD} connect_timeout=120 sslmode=disable {}",
        server.name, OPTIONS[options]
    );
    let dialer = Dialer::new(&Target::parse(&target, |_| None).expect("a target"));
    let login = Login {
        user: "app".into(),
        database: "d".into(),
        application: "".into(),
        role: None,
        settings: [].into(),
    };
    *server.script.lock().expect("no check failed") = script.to_vec();
    let result = dialer
        .expect("no files are named")
        .query(&login, "SELECT 1");
    let sent = server.end();
    match result {
        Ok(_) => {
            assert_ne!(
                options, REQUIRES_SCRAM,
                "the server does not know the password"
            );
            assert!(script.contains(&b'Z'), "no server is ready");
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains(PASSWORD), "{message}");
            assert!(!message.contains("no answer within"), "{message}");
        }
    }
    // The work is limited by the script, whatever the machine does.
    assert!(sent.len() <= SENT_BYTES_MAX, "{} bytes sent", sent.len());
    let gives_password = sent
        .windows(PASSWORD.len())
        .any(|window| window == PASSWORD.as_bytes());
    if gives_password {
        assert!(
            ![REQUIRES_SCRAM, REQUIRES_MD5].contains(&options),
            "the password is given away"
        );
        assert!(asks_for_password(script), "nobody asked for the password");
    }
}

/// Whether the server may ask for a password in clear text.
fn asks_for_password(script: &[u8]) -> bool {
    script
        .windows(4)
        .any(|window| window == 3_u32.to_be_bytes())
}

/// A server that sends a script to each client, one client after the other.
struct ScriptedServer {
    name: String,
    script: Arc<Mutex<Vec<u8>>>,
    /// Bytes that all clients of a script sent.
    sent: Receiver<Vec<u8>>,
}

/// First bytes of the client that ends a script.
const END: &[u8] = b"END";

impl ScriptedServer {
    fn start() -> Self {
        let name = format!("rehearse-fuzz-{}", std::process::id());
        let listener = UnixListener::bind_addr(&address(&name)).expect("a free name");
        let script: Arc<Mutex<Vec<u8>>> = Arc::default();
        let current = script.clone();
        let (sender, sent) = channel();
        std::thread::spawn(move || {
            let mut sent = Vec::new();
            loop {
                let (mut client, _) = listener.accept().expect("a client");
                let mut buffer = [0; 4096];
                let read = client.read(&mut buffer).unwrap_or(0);
                if &buffer[..read] != END {
                    sent.extend_from_slice(&buffer[..read]);
                    let script = current.lock().expect("no check failed").clone();
                    serve(client, &script, &mut sent);
                } else if sender.send(std::mem::take(&mut sent)).is_err() {
                    break;
                }
            }
        });
        ScriptedServer { name, script, sent }
    }

    /// Returns what the clients sent since the last call.
    fn end(&self) -> Vec<u8> {
        let client = UnixStream::connect_addr(&address(&self.name));
        client
            .expect("the server")
            .write_all(END)
            .expect("the server");
        self.sent.recv().expect("what the clients sent")
    }
}

fn address(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(format!("{name}/.s.PGSQL.1")).expect("a short name")
}

/// Sends the script. Adds what the client sends.
fn serve(mut client: UnixStream, mut script: &[u8], sent: &mut Vec<u8>) {
    let mut buffer = [0; 4096];
    let _ = client.set_read_timeout(Some(CLIENT_SILENCE));
    while let [tag, length, rest @ ..] = script {
        let (body, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        script = rest;
        let body = match body.contains(&NONCE) {
            true => {
                let read = client.read(&mut buffer).unwrap_or(0);
                sent.extend_from_slice(&buffer[..read]);
                let nonce = nonce(sent);
                body.split(|byte| *byte == NONCE)
                    .collect::<Vec<_>>()
                    .join(&nonce[..])
            }
            false => body.to_vec(),
        };
        let header = (body.len() as u32 + 4).to_be_bytes();
        let message = match tag {
            0 => body,
            tag => [&[*tag][..], &header[..], &body[..]].concat(),
        };
        if client.write_all(&message).is_err() {
            break;
        }
    }
    let _ = client.shutdown(std::net::Shutdown::Write);
    let _ = client.set_read_timeout(None);
    let _ = client.read_to_end(sent);
}

/// Returns the client's nonce of SCRAM.
fn nonce(sent: &[u8]) -> Vec<u8> {
    let at = sent.windows(3).rposition(|window| window == b",r=");
    at.map_or_else(Vec::new, |at| sent[at + 3..].to_vec())
}
