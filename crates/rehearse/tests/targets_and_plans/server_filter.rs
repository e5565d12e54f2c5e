//! A filter in front of a real server that makes it look like a version which this program has never seen.
//!
//! It replaces texts in the answers, adds a setting to the start of a session, and adds a notice with an unknown field to
//! each answer. To a client that requests a later protocol than 3.0 it also sends a message of an unknown type.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use protocol::backend::{DataRow, ParameterStatus, Report, data_row, error_notice, tag};
use protocol::frontend::startup::SSL_REQUEST_CODE;
use protocol::{PROTOCOL_3_0, next_frame};
use sandbox::Endpoint;

/// Type of message that no version has.
pub(super) const UNKNOWN_MESSAGE: u8 = b'~';
/// Longest message of the tests.
const BYTES_MAX: usize = 1 << 24;

/// Texts and what replaces them in the values of answers.
type Replacements = Arc<[(String, String)]>;

/// Listens in front of a server until the end of the process, and returns the address.
pub(super) fn start(server: &Endpoint, replacements: &[(&str, &str)]) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint {
        host: Some("127.0.0.1".to_owned()),
        socket_dir: None,
        port: listener.local_addr().unwrap().port(),
        ..server.clone()
    };
    let socket = server.socket_dir.as_ref().unwrap();
    let socket = socket.join(format!(".s.PGSQL.{}", server.port));
    let replacements: Replacements = replacements
        .iter()
        .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()))
        .collect();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = UnixStream::connect(&socket).unwrap();
            let replacements = Arc::clone(&replacements);
            std::thread::spawn(move || forward(client, server, &replacements));
        }
    });
    endpoint
}

/// Forwards a connection until one side ends it.
fn forward(mut client: TcpStream, mut server: UnixStream, replacements: &Replacements) {
    let Some(start) = read_start(&mut client) else {
        return;
    };
    let version = u32::from_be_bytes(start[4..8].try_into().unwrap());
    if server.write_all(&start).is_err() {
        return;
    }
    let (mut from_client, mut to_server) =
        (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut unread, mut buffer) = (Vec::new(), [0; 16_384]);
    let mut has_begun = false;
    while let Ok(read @ 1..) = server.read(&mut buffer) {
        unread.extend_from_slice(&buffer[..read]);
        let mut out = Vec::new();
        while let Some(frame) = next_frame(&unread, BYTES_MAX).unwrap() {
            let taken = frame.message_bytes();
            if frame.tag == tag::READY_FOR_QUERY {
                add_unknown(&mut out, !has_begun, version > PROTOCOL_3_0);
                has_begun = true;
            }
            match frame.tag {
                tag::DATA_ROW => replace_in_row(frame.body, replacements, &mut out),
                tag::PARAMETER_STATUS => {
                    let setting = ParameterStatus::decode(frame.body).unwrap();
                    let value = replace(setting.value, replacements);
                    let name = setting.name;
                    let changed = ParameterStatus {
                        name,
                        value: &value,
                    };
                    changed.encode(&mut out).unwrap();
                }
                _ => out.extend_from_slice(&unread[..taken]),
            }
            unread.drain(..taken);
        }
        if client.write_all(&out).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}

/// Returns the client's first packet; TLS is refused.
fn read_start(client: &mut TcpStream) -> Option<Vec<u8>> {
    loop {
        let mut packet = vec![0; 4];
        client.read_exact(&mut packet).ok()?;
        let length = u32::from_be_bytes(packet[..4].try_into().unwrap());
        packet.resize(length as usize, 0);
        client.read_exact(&mut packet[4..]).ok()?;
        if packet[4..8] != SSL_REQUEST_CODE.to_be_bytes() {
            return Some(packet);
        }
        client.write_all(b"N").ok()?;
    }
}

/// Adds what a later version may send before the server is ready.
fn add_unknown(out: &mut Vec<u8>, is_start: bool, is_later_protocol: bool) {
    if is_start {
        let setting = ParameterStatus {
            name: b"future_setting",
            value: b"on",
        };
        setting.encode(out).unwrap();
    }
    let fields: [(u8, &[u8]); 5] = [
        (b'S', b"FUTURE"),
        (b'V', b"FUTURE"),
        (b'C', b"01F00"),
        (b'M', b"a notice of a later version"),
        (b'Y', b"a field of a later version"),
    ];
    error_notice::encode(Report::Notice, fields, out).unwrap();
    if is_later_protocol {
        out.push(UNKNOWN_MESSAGE);
        out.extend_from_slice(&9_u32.to_be_bytes());
        out.extend_from_slice(b"later");
    }
}

fn replace_in_row(body: &[u8], replacements: &Replacements, out: &mut Vec<u8>) {
    let row = DataRow::decode(body).unwrap();
    let values = row.columns.iter();
    let values = values.map(|value| value.map(|value| replace(value, replacements)));
    data_row::encode(values, out).unwrap();
}

fn replace(value: &[u8], replacements: &Replacements) -> Vec<u8> {
    match std::str::from_utf8(value) {
        Ok(text) => replacements
            .iter()
            .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
            .into_bytes(),
        Err(_) => value.to_vec(),
    }
}
