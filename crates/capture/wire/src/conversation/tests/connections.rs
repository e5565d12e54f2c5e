//! Tests several connections, and connections that are recorded or captured only in part.

use super::*;

#[test]
fn a_cancel_is_an_event_of_the_session_that_it_is_for() {
    let mut sink = EventCollector::default();
    let mut all = ProtocolDecoder::new(DecoderOptions::default());
    all.start_recording(0, &mut sink).unwrap();
    let say = |all: &mut ProtocolDecoder, number, at_us, talk: &Talk, sink: &mut EventCollector| {
        for (side, bytes) in &talk.0 {
            all.handle_bytes(number, *side, at_us, 0, bytes, sink)
                .unwrap();
        }
    };
    all.open_connection(1, "[local]", 0, true);
    say(
        &mut all,
        1,
        0,
        &Talk::begun().query("SELECT pg_sleep(9)"),
        &mut sink,
    );
    for (number, key) in [(2, b"wxyz"), (3, b"????")] {
        all.open_connection(number, "[local]", 5, true);
        let cancel = Talk::default().client(|out| {
            let secret_key = &key[..];
            let process_id = 7;
            startup::CancelRequest {
                process_id,
                secret_key,
            }
            .encode(out)
            .unwrap();
        });
        say(&mut all, number, 5, &cancel, &mut sink);
        all.close_connection(number, 6, &mut sink).unwrap();
    }
    let canceled = b"SERROR\0VERROR\0C57014\0Mcanceling\0\0";
    let answer = Talk::default().server(&[(b'E', canceled), (b'Z', b"I")]);
    say(&mut all, 1, 9, &answer, &mut sink);
    all.close_connection(1, 10, &mut sink).unwrap();
    let events: Vec<String> = sink.events.iter().map(said).collect();
    assert_eq!(events[1], "simple SELECT pg_sleep(9) 57014");
    assert_eq!((&*events[2], &*events[3]), ("cancel ", "disconnect "));
    let account = all.account();
    assert_eq!((account.cancels, account.cancels_for_nobody), (2, 1));
    assert_eq!((account.connections, account.sessions), (3, 1));
}

/// Records a conversation from one piece up to another.
fn recorded_from(talk: &Talk, from: usize, to: usize) -> (EventCollector, DecoderAccount) {
    let mut sink = EventCollector::default();
    let mut all = ProtocolDecoder::new(DecoderOptions::default());
    all.open_connection(1, "[local]", 0, true);
    for (index, (side, bytes)) in talk.0.iter().enumerate() {
        let at_us = 1000 * index as i64;
        if index == from {
            all.start_recording(at_us, &mut sink).unwrap();
        }
        if index == to {
            all.stop_recording(at_us, &mut sink).unwrap();
        }
        all.handle_bytes(1, *side, at_us, 0, bytes, &mut sink)
            .unwrap();
    }
    (sink, all.account().clone())
}

#[test]
fn a_recording_begins_with_what_sessions_have_and_ends_with_what_is_under_way() {
    let ok = |talk: Talk, status: &[u8]| talk.server(&[(b'C', b"SET\0"), (b'Z', status)]);
    let talk = ok(Talk::begun().query("SET search_path = a"), b"I")
        .client(|out| {
            prepare("s", "SELECT $1", out);
            Sync.encode(out);
        })
        .server(&[(b'1', b""), (b'Z', b"I")]);
    let talk = ok(talk.query("BEGIN"), b"T");
    let begins = talk.0.len();
    let talk = ok(talk.query("SELECT 'in it'"), b"T");
    let talk = ok(talk.query("COMMIT"), b"I")
        .client(|out| {
            bound("", "s", &["1"], out);
            execute("", 0, out);
            Sync.encode(out);
        })
        .server(&[(b'2', b""), (b'C', b"SELECT 1\0"), (b'Z', b"I")])
        .query("SELECT pg_sleep(9)");
    let ends = talk.0.len();
    let talk = ok(talk, b"I");
    let (sink, account) = recorded_from(&talk, begins, ends);
    let events: Vec<String> = sink.events.iter().map(said).collect();
    assert_eq!(
        events,
        [
            "connect ",
            "simple SET search_path = a",
            "execute s/(1) SELECT $1 rows=1",
            "simple SELECT pg_sleep(9)",
        ]
    );
    let preludes: Vec<bool> = sink.events.iter().map(|event| event.prelude).collect();
    assert_eq!(preludes, [true, true, false, false]);
    let start_us = 1000 * begins as i64;
    assert_eq!(
        (sink.events[0].due_us, sink.events[1].due_us),
        (start_us, start_us)
    );
    assert!(!sink.sessions[0].end_seen);
    // The setting, the Parse, and the three of the transaction.
    assert_eq!((account.statements, account.statements_unrecorded), (3, 5));
}

#[test]
fn after_a_loss_a_session_is_followed_from_its_next_question() {
    let talk = Talk::begun()
        .client(|out| {
            prepare("s", "SELECT $1", out);
            Sync.encode(out);
        })
        .server(&[(b'1', b""), (b'Z', b"I")])
        .query("SELECT 1");
    let mut sink = EventCollector::default();
    let mut all = ProtocolDecoder::new(DecoderOptions::default());
    all.start_recording(0, &mut sink).unwrap();
    all.open_connection(1, "[local]", 0, true);
    for (side, bytes) in &talk.0 {
        all.handle_bytes(1, *side, 10, 0, bytes, &mut sink).unwrap();
    }
    all.handle_loss(1, Side::Server, 20, Some(100), &mut sink)
        .unwrap();
    let after = Talk::default()
        .server(&[(b'C', b"SELECT 1\0")])
        .query("SELECT 'unseen'")
        .server(&[(b'C', b"SELECT 1\0"), (b'Z', b"I")])
        .client(|out| {
            bound("", "s", &["5"], out);
            execute("", 0, out);
            Sync.encode(out);
        })
        .server(&[(b'2', b""), (b'C', b"SELECT 1\0"), (b'Z', b"I")]);
    for (side, bytes) in &after.0 {
        all.handle_bytes(1, *side, 30, 0, bytes, &mut sink).unwrap();
    }
    all.close_connection(1, 40, &mut sink).unwrap();
    let events: Vec<String> = sink.events.iter().map(said).collect();
    assert_eq!(
        events,
        [
            "connect ",
            "prepare SELECT $1",
            "simple SELECT 1",
            "execute s/(5) SELECT $1 rows=1",
            "disconnect ",
        ]
    );
    let account = all.account();
    assert_eq!((account.gaps, account.lost_bytes), (1, 100));
    let unseen: usize = after.0[..3].iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(account.unreadable_bytes, unseen as u64);
}

#[test]
fn a_session_that_was_there_before_is_found() {
    let talk = Talk::default()
        .server(&[(b'D', ROW), (b'C', b"SELECT 1\0"), (b'Z', b"T")])
        .query("SELECT 'in a transaction'")
        .server(&[(b'C', b"SELECT 1\0"), (b'Z', b"T")])
        .query("COMMIT")
        .server(&[(b'C', b"COMMIT\0"), (b'Z', b"I")])
        .query("SELECT 2")
        .server(&[(b'C', b"SELECT 1\0"), (b'Z', b"I")]);
    let mut sink = EventCollector::default();
    let mut all = ProtocolDecoder::new(DecoderOptions::default());
    all.start_recording(0, &mut sink).unwrap();
    all.open_connection(1, "10.0.0.1:5000", 0, false);
    for (side, bytes) in &talk.0 {
        all.handle_bytes(1, *side, 10, 3, bytes, &mut sink).unwrap();
    }
    all.close_connection(1, 40, &mut sink).unwrap();
    let events: Vec<String> = sink.events.iter().map(said).collect();
    assert_eq!(
        events,
        ["connect ", "simple SELECT 2 rows=1", "disconnect "]
    );
    assert_eq!(sink.events[1].line, 3);
    assert!(!sink.sessions[0].start_seen);
    assert_eq!(all.account().statements_unrecorded, 2);
}

#[test]
fn what_is_no_session_is_counted() {
    let hear = |talk: &Talk| talk.hear();
    let replication = Talk::default().client(|out| {
        let parameters: [(&[u8], &[u8]); 2] = [(b"user", b"r"), (b"replication", b"database")];
        startup::encode(PROTOCOL_3_0, parameters, out).unwrap();
    });
    let (sink, account) = hear(&replication.query("IDENTIFY_SYSTEM"));
    assert!(sink.events.is_empty());
    assert_eq!(account.unreadable[&UnreadableReason::Replication], 1);
    let mut refused = Talk::begun();
    refused.0.truncate(1);
    let refused = refused.server(&[(b'E', b"SFATAL\0C28P01\0Mno\0\0")]);
    let (sink, account) = hear(&refused);
    assert!(sink.events.is_empty() && sink.sessions.is_empty());
    assert_eq!(account.refused, 1);
    let (_, account) = hear(&Talk::default());
    assert_eq!(account.empty, 1);
    let http = Talk::default().client(|out| out.extend_from_slice(b"GET / HTTP/1.1\r\n\r\n"));
    let (_, account) = hear(&http);
    assert_eq!(account.unreadable[&UnreadableReason::NotTheProtocol], 1);
}

#[test]
fn an_answer_that_breaks_the_protocol_ends_nothing() {
    let talk = Talk::begun()
        .query("SELECT 1")
        .says(Side::Server, |out| {
            out.extend_from_slice(b"\xff\xff\xff\xff\xff\xff")
        })
        .query("SELECT 'not followed'")
        .server(&[(b'C', b"SELECT 1\0"), (b'Z', b"I")])
        .query("SELECT 2")
        .server(&[(b'C', b"SELECT 1\0"), (b'Z', b"I")]);
    let (sink, account) = talk.hear();
    let events: Vec<String> = sink.events.iter().map(said).collect();
    assert_eq!(
        events,
        [
            "connect ",
            "simple SELECT 1",
            "simple SELECT 2 rows=1",
            "disconnect "
        ]
    );
    assert_eq!(account.gaps, 1);
}

/// Sends everything before the server's first message, and then the answers, in one piece or in
/// two.
fn hasty(asks: impl FnOnce(&mut Vec<u8>), answers: &[(u8, &[u8])]) -> Talk {
    let greeting: [(u8, &[u8]); 3] = [(b'R', b"\0\0\0\0"), (b'K', b"\0\0\0\x07wxyz"), (b'Z', b"I")];
    let mut talk = Talk::begun();
    talk.0.truncate(1);
    talk.client(asks).server(&[&greeting, answers].concat())
}

#[test]
fn what_is_asked_before_the_server_is_ready_is_recorded() {
    let rows: [(u8, &[u8]); 3] = [(b'T', ID), (b'D', ROW), (b'C', b"SELECT 1\0")];
    let ready: (u8, &[u8]) = (b'Z', b"I");
    let asks = |out: &mut Vec<u8>| {
        query("SELECT 1", out);
        query("BEGIN", out);
        query("COMMIT", out);
        out.extend_from_slice(b"X\0\0\0\x04");
    };
    let begin: [(u8, &[u8]); 2] = [(b'C', b"BEGIN\0"), (b'Z', b"T")];
    let commit: [(u8, &[u8]); 2] = [(b'C', b"COMMIT\0"), ready];
    let talk = hasty(asks, &[&rows[..], &[ready], &begin, &commit].concat());
    let events = talk.events();
    let digest = |event: &Event| event.wire_details.clone().unwrap_or_default().result_digest;
    assert!(digest(&events[1]).is_some());
    let said = |events: &[Event]| events.iter().map(said).collect::<Vec<_>>();
    assert_eq!(
        said(&events),
        [
            "connect ",
            "simple SELECT 1 rows=1",
            "simple BEGIN piped",
            "simple COMMIT piped",
            "disconnect "
        ]
    );
    let (sink, account) = talk.hear();
    assert_eq!(sink.sessions.len(), 1);
    assert_eq!((account.statements, account.statements_unrecorded), (3, 0));

    let asks = |out: &mut Vec<u8>| {
        prepare("", "SELECT $1::int", out);
        bound("", "", &["42"], out);
        execute("", 0, out);
        out.extend_from_slice(b"S\0\0\0\x04");
    };
    let answers: [(u8, &[u8]); 5] = [
        (b'1', b""),
        (b'2', b""),
        (b'D', ROW),
        (b'C', b"SELECT 1\0"),
        ready,
    ];
    assert_eq!(
        hasty(asks, &answers).statements(),
        ["execute /(42) SELECT $1::int rows=1"]
    );
}

#[test]
fn what_is_asked_of_a_server_that_lets_nobody_in_is_not_recorded() {
    let mut talk = Talk::begun();
    talk.0.truncate(1);
    let talk = talk
        .query("SELECT 1")
        .server(&[(b'E', b"SFATAL\0C28P01\0Mno\0\0")]);
    let (sink, account) = talk.hear();
    assert!(sink.events.is_empty() && sink.sessions.is_empty());
    assert_eq!((account.refused, account.statements), (1, 0));
}
