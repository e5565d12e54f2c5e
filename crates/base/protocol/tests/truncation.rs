//! Whatever is cut off a valid stream, what is read of the rest is right or not read at all.

use protocol::frame::{BODY_BYTES_MAX, next_frame};
use protocol::{backend, frontend};

mod samples;

/// The whole messages at the front of `bytes`.
fn frames(bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut rest = bytes;
    let mut frames = Vec::new();
    while let Some(frame) = next_frame(rest, BODY_BYTES_MAX).expect("a prefix is no error") {
        frames.push((frame.tag, frame.body));
        rest = &rest[frame.message_bytes()..];
    }
    frames
}

/// Checks every prefix of the samples and of each of their bodies. `is_open` says which messages
/// end where the header says, so that a shorter body is a shorter message.
fn cut(
    samples: Vec<samples::Sample>,
    decodes: impl Fn(u8, &[u8]) -> bool,
    is_open: impl Fn(u8, &[u8]) -> bool,
) {
    for (name, bytes) in samples {
        let whole = frames(&bytes);
        assert_eq!(
            whole.iter().map(|(_, body)| body.len() + 5).sum::<usize>(),
            bytes.len()
        );
        for length in 0..bytes.len() {
            assert!(whole.starts_with(&frames(&bytes[..length])));
        }
        for (tag, body) in whole {
            assert!(decodes(tag, body), "{name}: {:?}", char::from(tag));
            if is_open(tag, body) {
                continue;
            }
            for length in 0..body.len() {
                let what = (name, char::from(tag), length);
                assert!(!decodes(tag, &body[..length]), "{what:?}");
            }
            let longer = [body, b"\0"].concat();
            assert!(
                !decodes(tag, &longer),
                "{name}: {:?} and a NUL",
                char::from(tag)
            );
        }
    }
}

#[test]
fn clients_messages() {
    cut(
        samples::frontend(),
        |tag, body| frontend::Message::decode(tag, body).is_ok(),
        |tag, _| matches!(tag, b'd' | b'p'),
    );
}

#[test]
fn servers_messages() {
    cut(
        samples::backend(),
        |tag, body| backend::Message::decode(tag, body).is_ok(),
        |tag, body| match tag {
            b'd' | b'K' => true,
            b'R' => matches!(body, [0, 0, 0, 8 | 11 | 12, ..]),
            _ => false,
        },
    );
}

#[test]
fn startup_packets() {
    use frontend::startup::{StartupPacket, next_packet};
    for (name, bytes) in samples::startup() {
        for length in 0..bytes.len() {
            assert_eq!(next_packet(&bytes[..length]), Ok(None), "{name}");
        }
        let (packet, length) = next_packet(&bytes).unwrap().unwrap();
        assert_eq!(length, bytes.len(), "{name}");
        if !matches!(packet, StartupPacket::Cancel(_)) {
            for length in 4..bytes.len() {
                assert!(StartupPacket::decode(&bytes[4..length]).is_err(), "{name}");
            }
        }
    }
}

#[test]
fn password_and_sasl_replies() {
    use frontend::{PasswordMessage, SaslInitialResponse};
    let body = b"SCRAM-SHA-256\0\0\0\0\x03abc";
    assert!(SaslInitialResponse::decode(body).is_ok());
    for length in 0..body.len() {
        assert!(SaslInitialResponse::decode(&body[..length]).is_err());
    }
    assert!(PasswordMessage::decode(b"secret\0").is_ok());
    assert!(PasswordMessage::decode(b"secret").is_err());
    assert!(PasswordMessage::decode(b"secret\0\0").is_err());
}
