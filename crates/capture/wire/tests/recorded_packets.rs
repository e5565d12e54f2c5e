//! Tests a real session of psql and four of pgbench, as tcpdump wrote them: unchanged, reordered,
//! duplicated, and with losses.

use std::io::Cursor;

use capture_sink::EventCollector;
use capture_wire::pcap::{PcapOptions, PcapReport, capture_reader};
use proptest::prelude::*;
use workload::{Event, EventKind};

#[allow(dead_code)]
mod packets;

use packets::{CONTAINERS, Record, file};

const LO: &[u8] = include_bytes!("recorded/psql-and-pgbench-lo.pcap");
const ANY: &[u8] = include_bytes!("recorded/psql-and-pgbench-any.pcap");

fn read(bytes: &[u8]) -> (PcapReport, EventCollector) {
    let options = PcapOptions {
        ports: vec![24839],
        ..PcapOptions::default()
    };
    let mut collected = EventCollector::default();
    let report = capture_reader(Cursor::new(bytes.to_vec()), options, &mut collected).unwrap();
    assert!(report.account.adds_up());
    (report, collected)
}

/// Returns the packets of a little-endian file with microseconds, as tcpdump writes it.
fn records(bytes: &[u8]) -> Vec<Record> {
    let mut rest = &bytes[24..];
    let mut out = Vec::new();
    while !rest.is_empty() {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let length = number(8) as usize;
        out.push(Record {
            at_us: i64::from(number(0)) * 1_000_000 + i64::from(number(4)),
            bytes: rest[16..16 + length].to_vec(),
            original: number(12),
        });
        rest = &rest[16 + length..];
    }
    out
}

/// Lists the clients' statements, session by session.
fn told(collected: &EventCollector) -> Vec<String> {
    let mut events: Vec<&Event> = collected.events.iter().collect();
    events.sort_by_key(|event| (event.session, event.sequence));
    let line = |event: &&Event| {
        let sql = event.kind.sql().map_or("", |sql| sql);
        let kind = event.kind.name();
        let outcome = &event.outcome;
        let copy = event
            .wire_details
            .as_ref()
            .and_then(|more| more.copy.as_ref());
        let copied = copy.map_or(0, |copy| copy.data.len());
        format!(
            "{} {kind} {sql} rows {:?} {:?} copied {copied}",
            event.session, outcome.rows, outcome.sqlstate
        )
    };
    events.iter().map(line).collect()
}

#[test]
fn a_real_session_is_read() {
    let (report, collected) = read(LO);
    let account = &report.account;
    assert_eq!((account.segments, account.packets), (92, 92));
    assert_eq!((account.connections, account.from_the_start), (4, 4));
    assert_eq!(account.delivered_bytes, account.payload_bytes);
    let conversation = &account.conversation;
    let said = conversation.client_bytes + conversation.server_bytes;
    assert_eq!(said, account.delivered_bytes);
    assert_eq!(conversation.statements, 18);
    let told = told(&collected);
    let has = |words: &[&str]| {
        let found = |line: &&String| words.iter().all(|word| line.contains(word));
        assert_eq!(
            told.iter().filter(found).count(),
            1,
            "{words:?} in {told:#?}"
        );
    };
    has(&["simple COPY  parts FROM STDIN", "rows Some(3)", "copied 25"]);
    has(&["select 1/0", "22012"]);
    has(&["select id, name from parts order by id", "rows Some(3)"]);
    let executed = |event: &&Event| matches!(event.kind, EventKind::Execute { .. });
    assert_eq!(collected.events.iter().filter(executed).count(), 6);
    let (_, any) = read(ANY);
    assert_eq!(self::told(&any), told);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn out_of_order_and_twice_is_the_same(
        swaps in prop::collection::vec(3..85usize, 0..20),
        twice in prop::collection::vec((3..85usize, 0..6usize), 0..8),
    ) {
        let mut records = records(LO);
        let moves = |record: &Record| record.bytes[14 + 20 + 13] & 2 == 0;
        for at in swaps {
            // A reordered handshake is another connection's beginning.
            if moves(&records[at]) && moves(&records[at + 1]) {
                records.swap(at, at + 1);
            }
        }
        for (at, later) in twice {
            if moves(&records[at]) {
                let record = records[at].clone();
                records.insert(at + later, record);
            }
        }
        let (report, collected) = read(&file(CONTAINERS[0], 1, &records));
        prop_assert_eq!(told(&collected), told(&read(LO).1));
        prop_assert_eq!(report.account.lost_bytes, 0);
    }

    #[test]
    fn what_is_lost_is_counted(drops in prop::collection::vec(0..92usize, 1..20)) {
        let mut records = records(LO);
        for at in drops {
            if at < records.len() {
                records.remove(at);
            }
        }
        let (report, collected) = read(&file(CONTAINERS[4], 1, &records));
        let account = &report.account;
        let conversation = &account.conversation;
        prop_assert_eq!(conversation.lost_bytes, account.lost_bytes);
        prop_assert_eq!(conversation.gaps, account.gaps);
        let said = conversation.client_bytes + conversation.server_bytes;
        prop_assert_eq!(said, account.delivered_bytes);
        // All events of a session were sent in it.
        let whole = read(LO).1;
        for event in collected.events.iter().filter(|event| event.kind.is_statement()) {
            let sql = event.kind.sql();
            let same = |other: &&Event| other.kind.sql() == sql;
            prop_assert!(sql.is_none_or(|sql| sql.is_empty()) || whole.events.iter().find(same).is_some());
        }
    }
}
