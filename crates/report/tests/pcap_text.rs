//! Account of a capture from packets as text.

use std::collections::BTreeMap;

use capture_wire::conversation::{DecoderAccount, UnreadableReason};
use capture_wire::pcap::{PcapAccount, PcapReport, PcapSource};
use report::{CaptureReport, TextStyle, pcap_text, to_json};

fn captured() -> CaptureReport<PcapReport> {
    let account = PcapAccount {
        packets: 1_010,
        segments: 1_000,
        segments_cut: 7,
        fragments: 3,
        connections: 5,
        from_the_start: 4,
        payload_bytes: 5_000,
        delivered_bytes: 4_900,
        retransmitted_bytes: 100,
        lost_bytes: 2_048,
        gaps: 2,
        dropped: 1_234,
        conversation: DecoderAccount {
            unreadable: BTreeMap::from([
                (UnreadableReason::Tls, 3),
                (UnreadableReason::Replication, 1),
            ]),
            ..DecoderAccount::default()
        },
        ..PcapAccount::default()
    };
    let source = PcapSource {
        damage: Some("it ends within a packet".to_owned()),
        ..PcapSource::default()
    };
    CaptureReport {
        schema: "rehearse/capture-pcap/1",
        workload: None,
        span_us: 0,
        sessions: 0,
        statements: 0,
        report: PcapReport {
            servers: Vec::new(),
            sources: vec![source],
            account,
        },
        slice: None,
        mask: None,
        written_series: None,
    }
}

#[test]
fn every_packet_is_accounted_for_and_gaps_are_reported() {
    let captured = captured();
    assert!(captured.report.account.adds_up());
    let text = pcap_text::render_text(&captured, &TextStyle::default());
    // Ignore line breaks.
    let text: Vec<&str> = text.split_whitespace().collect();
    let text = text.join(" ");
    for words in [
        "nothing was written",
        "packets read 1,010",
        "of the port 1,000 5 connections that said something, 4 of them from the start",
        "cut 7 their payload was cut by a snap length",
        "fragments 3",
        "lost 2.00 KiB in 2 pieces",
        "1,234 packets were dropped before they could be captured",
        "1 connection was there before the capture",
        "it ends within a packet",
        "3 connections are encrypted with TLS: their statements cannot be read",
        "1 connection replicates: it was passed over",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("add up"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&to_json(&captured)).unwrap();
    assert_eq!(json["packets"], 1_010);
    assert_eq!(json["conversation"]["unreadable"]["tls"], 3);
    assert_eq!(json["sources"][0]["damage"], "it ends within a packet");
}

#[test]
fn inconsistent_account_is_reported_as_a_bug() {
    for change in [
        (|account: &mut PcapAccount| account.packets += 1) as fn(&mut PcapAccount),
        |account| account.delivered_bytes += 1,
    ] {
        let mut captured = captured();
        change(&mut captured.report.account);
        let text = pcap_text::render_text(&captured, &TextStyle::default());
        assert!(text.contains("do not add up"), "{text}");
    }
}
