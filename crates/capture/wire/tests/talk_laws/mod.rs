//! Invariants of every conversation, whatever its bytes.
//!
//! A conversation is encoded as pieces: a byte for the sender (even: the client, odd: the server)
//! and flags, two bytes with the length, the bytes.

use std::collections::BTreeMap;

use capture_sink::EventCollector;
use capture_wire::conversation::{DecoderAccount, DecoderOptions, ProtocolDecoder, Side};
use workload::EventKind;

/// A piece.
struct Piece<'a> {
    side: Side,
    /// Data before it is lost.
    lost: bool,
    bytes: &'a [u8],
}

fn pieces(mut data: &[u8]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    while let [flags, high, low, rest @ ..] = data {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (bytes, behind) = rest.split_at(length);
        pieces.push(Piece {
            side: match flags & 1 {
                0 => Side::Client,
                _ => Side::Server,
            },
            lost: flags & 0xf0 == 0xf0,
            bytes,
        });
        data = behind;
    }
    pieces
}

/// Decodes the pieces, each cut into `cuts` parts.
fn hear(
    pieces: &[Piece<'_>],
    cuts: usize,
    from_the_start: bool,
) -> (EventCollector, DecoderAccount) {
    let mut sink = EventCollector::default();
    let mut all = ProtocolDecoder::new(DecoderOptions {
        digest: true,
        ..DecoderOptions::default()
    });
    all.start_recording(0, &mut sink).unwrap();
    all.open_connection(1, "[local]", 0, from_the_start);
    for (index, piece) in pieces.iter().enumerate() {
        let at_us = 10 * index as i64;
        if piece.lost {
            all.handle_loss(1, piece.side, at_us, Some(1), &mut sink)
                .unwrap();
        }
        let part = piece.bytes.len().div_ceil(cuts).max(1);
        for part in piece.bytes.chunks(part) {
            all.handle_bytes(1, piece.side, at_us, 0, part, &mut sink)
                .unwrap();
        }
    }
    let end_us = 10 * pieces.len() as i64;
    all.close_connection(1, end_us, &mut sink).unwrap();
    (sink, all.account().clone())
}

/// Checks a conversation.
pub fn hold(data: &[u8]) {
    let pieces = pieces(data);
    for from_the_start in [true, false] {
        let (sink, account) = hear(&pieces, 1, from_the_start);
        check(&pieces, &sink, &account);
        // After a loss, messages are found again at the start of a piece.
        if account.gaps == 0 && from_the_start {
            let (cut_sink, mut cut_account) = hear(&pieces, 3, true);
            // The part of a piece before a protocol violation was read.
            if !account.unreadable.is_empty() {
                cut_account.unreadable_bytes = account.unreadable_bytes;
            }
            assert_eq!((cut_sink, cut_account), (sink, account));
        }
    }
}

fn check(pieces: &[Piece<'_>], sink: &EventCollector, account: &DecoderAccount) {
    let fed: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
    assert_eq!(account.client_bytes + account.server_bytes, fed as u64);
    assert!(account.unreadable_bytes <= fed as u64);
    assert_eq!(account.events, sink.events.len() as u64);
    assert_eq!(account.sessions, sink.sessions.len() as u64);
    let statements = sink.events.iter().filter(|event| event.kind.is_statement());
    assert_eq!(account.statements, statements.count() as u64);
    let mut last: BTreeMap<u64, (u64, i64)> = BTreeMap::new();
    for event in &sink.events {
        let begins = matches!(event.kind, EventKind::Connect { .. });
        match last.insert(event.session, (event.sequence, event.due_us)) {
            None => assert!(begins && event.sequence == 0, "{event:?}"),
            Some((sequence, due_us)) => {
                assert!(!begins && event.sequence == sequence + 1, "{event:?}");
                assert!(event.due_us >= due_us, "{event:?}");
            }
        }
    }
    for session in &sink.sessions {
        assert!(last.contains_key(&session.id), "{session:?}");
    }
}
