//! Properties that hold for any bytes. The fuzz targets and the corpus test share these functions.
//!
//! - Nothing panics.
//! - What decodes encodes to the bytes it came from.
//! - A list yields as many items as it says.
//! - The scanner sees the messages that framing sees, however the stream is cut.

use protocol::frame::{BODY_BYTES_MAX, HEADER_BYTES, next_frame};
use protocol::frontend::startup::next_packet;
use protocol::{ScanEvent, Scanner, TagSet, backend, frontend};

/// The laws for bytes of a client.
pub fn frontend(data: &[u8]) {
    if let Ok(Some((packet, bytes))) = next_packet(data) {
        let mut out = Vec::new();
        packet.encode(&mut out).expect("a decoded packet encodes");
        assert_eq!(out, data[..bytes]);
        if let frontend::StartupPacket::Startup(startup) = packet {
            for (name, _) in startup.parameters.iter() {
                let name = std::str::from_utf8(name);
                assert!(name.is_err() || startup.parameters.get(name.unwrap()).is_some());
            }
        }
    }
    each_message(data, frontend_message);
}

/// The laws for bytes of a server.
pub fn backend(data: &[u8]) {
    if let Some(reply) = data
        .first()
        .and_then(|&byte| backend::EncryptionReply::from_byte(byte))
    {
        assert_eq!(reply.byte(), data[0]);
    }
    each_message(data, backend_message);
}

/// Takes `data` as a stream of messages, and as one tag and a body.
fn each_message(data: &[u8], check: fn(u8, &[u8])) {
    if let Some((&tag, body)) = data.split_first() {
        check(tag, body);
    }
    let mut rest = data;
    while let Ok(Some(frame)) = next_frame(rest, BODY_BYTES_MAX) {
        check(frame.tag, frame.body);
        rest = &rest[frame.message_bytes()..];
    }
    for chunk_bytes in [1, 3, data.len() / 2 + 1, data.len().max(1)] {
        scans_like_frames(data, chunk_bytes);
    }
}

/// The framed bytes of a message.
fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + HEADER_BYTES - 1).expect("test data is small");
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn frontend_message(tag: u8, body: &[u8]) {
    let message = match frontend::Message::decode(tag, body) {
        Ok(message) => message,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut out = Vec::new();
    message.encode(&mut out).expect("a decoded message encodes");
    assert_eq!(out, framed(tag, body));
    assert!(!format!("{message:?}").is_empty());
    match message {
        frontend::Message::Bind(bind) => {
            assert_eq!(bind.parameters.iter().count(), bind.parameters.len());
            assert!(bind.result_formats.of(0).is_some());
        }
        frontend::Message::FunctionCall(call) => {
            assert_eq!(call.arguments.iter().count(), call.arguments.len());
        }
        frontend::Message::Parse(parse) => {
            assert_eq!(
                parse.parameter_types.iter().count(),
                parse.parameter_types.len()
            );
        }
        frontend::Message::AuthenticationReply(reply) => authentication_reply(reply, &out),
        _ => {}
    }
}

fn authentication_reply(reply: frontend::AuthenticationReply<'_>, expected: &[u8]) {
    let mut encodings = Vec::new();
    let mut take = |encode: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        encode(&mut out);
        encodings.push(out);
    };
    if let Ok(message) = reply.password() {
        take(&|out| message.encode(out).unwrap());
    }
    if let Ok(message) = reply.sasl_initial_response() {
        take(&|out| message.encode(out).unwrap());
    }
    if let Ok(message) = reply.sasl_response() {
        take(&|out| message.encode(out).unwrap());
    }
    if let Ok(message) = reply.gss_response() {
        take(&|out| message.encode(out).unwrap());
    }
    assert!(encodings.iter().all(|encoding| encoding == expected));
}

fn backend_message(tag: u8, body: &[u8]) {
    let message = match backend::Message::decode(tag, body) {
        Ok(message) => message,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut out = Vec::new();
    message.encode(&mut out).expect("a decoded message encodes");
    assert_eq!(out, framed(tag, body));
    assert!(!format!("{message:?}").is_empty());
    match message {
        backend::Message::DataRow(row) => {
            assert_eq!(row.columns.iter().count(), row.columns.len());
        }
        backend::Message::RowDescription(description) => {
            assert_eq!(description.iter().count(), description.len());
        }
        backend::Message::ErrorResponse(fields) | backend::Message::NoticeResponse(fields) => {
            let bytes: usize = fields.iter().map(|(_, value)| value.len() + 2).sum();
            assert_eq!(bytes + 1, body.len());
            for (letter, _) in fields.iter() {
                assert!(fields.field(letter).is_some());
            }
            let _ = (fields.severity(), fields.sqlstate(), fields.position());
        }
        backend::Message::CommandComplete(complete) => {
            if let Some(rows) = complete.rows() {
                let digits = complete.tag_str();
                let digits = digits.rsplit(' ').next().unwrap().trim_start_matches('0');
                assert_eq!(digits.parse().unwrap_or(0), rows);
            }
        }
        backend::Message::Authentication(backend::Authentication::Sasl { mechanisms }) => {
            let mut again = Vec::new();
            backend::authentication::encode_sasl(mechanisms.iter(), &mut again).unwrap();
            assert_eq!(again, out);
        }
        backend::Message::NegotiateProtocolVersion(negotiate) => {
            let options: Vec<_> = negotiate.options.iter().collect();
            let mut again = Vec::new();
            let version = negotiate.version;
            backend::negotiate_protocol_version::encode(version, &options, &mut again).unwrap();
            assert_eq!(again, out);
        }
        _ => {}
    }
}

fn scans_like_frames(data: &[u8], chunk_bytes: usize) {
    let wanted = TagSet::of(b"CEZDTKpQPB");
    let mut scanner = Scanner::new(wanted, BODY_BYTES_MAX);
    let mut rest = data;
    for mut chunk in data.chunks(chunk_bytes) {
        loop {
            match scanner.next(&mut chunk) {
                Err(error) => return assert_eq!(next_frame(rest, BODY_BYTES_MAX), Err(error)),
                Ok(None) => break,
                Ok(Some(ScanEvent::Header(header))) => {
                    assert_eq!(header.tag, rest[0]);
                    // Past the end only for a last message that is not all there.
                    if !wanted.contains(header.tag) {
                        rest = rest.get(header.message_bytes()..).unwrap_or(&[]);
                    }
                }
                Ok(Some(ScanEvent::Piece { .. })) => panic!("nobody asked for pieces"),
                Ok(Some(ScanEvent::Body { tag, body })) => {
                    let frame = next_frame(rest, BODY_BYTES_MAX).unwrap().unwrap();
                    assert_eq!((tag, body), (frame.tag, frame.body));
                    rest = &rest[frame.message_bytes()..];
                }
            }
        }
        assert!(chunk.is_empty());
    }
    if scanner.is_between_messages() {
        assert!(rest.is_empty());
    }
}
