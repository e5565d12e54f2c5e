//! Invariants of any bytes that are read as a packet file, for the tests and the fuzzer.

use std::io::Cursor;

use capture_sink::EventCounter;
use capture_wire::pcap::{PcapOptions, capture_reader};

/// Checks that nothing panics, and that every packet and byte is accounted for.
pub fn any_bytes(data: &[u8]) {
    let options = PcapOptions {
        ports: vec![5432],
        ..PcapOptions::default()
    };
    let mut counted = EventCounter::default();
    let bytes = Cursor::new(data.to_vec());
    let Ok(report) = capture_reader(bytes, options, &mut counted) else {
        // No packet file, or no packet of the port.
        return;
    };
    let account = &report.account;
    assert!(account.adds_up(), "{account:?}");
    assert_eq!(account.packets, report.sources[0].packets);
    let whole = account.conversation.client_bytes + account.conversation.server_bytes;
    assert!(whole <= account.delivered_bytes, "{account:?}");
    assert_eq!(account.conversation.events, counted.events);
    assert!(account.from_the_start <= account.connections);
    assert!(account.open_at_the_end <= account.connections);
}
