//! How a capture from packets went: what became of every packet and every byte.

use std::collections::BTreeMap;

use capture::pcap::{Malformed, Passed, PcapReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::view::conversation::ConversationView;
use crate::view::mask::MaskView;
use crate::view::slice::SliceView;

/// What became of all packets, and what was made of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PcapView {
    /// `rehearse/capture-pcap/1`.
    pub schema: String,
    /// The workload that was made; empty where the packets were only accounted for.
    pub workload: String,
    /// From its first event to its last, in microseconds.
    pub span_us: i64,
    /// Sessions in it.
    pub sessions: u64,
    /// Statements in it.
    pub statements: u64,
    /// Events in it.
    pub events: u64,
    /// Packets: `segments` + `segments_cut` + `headers_cut` + `fragments` + all `passed` + all
    /// `malformed`.
    pub packets: u64,
    /// TCP segments of the port that are there as a whole.
    pub segments: u64,
    /// Those whose payload a snap length cut.
    pub segments_cut: u64,
    /// Packets that a snap length cut within their headers.
    pub headers_cut: u64,
    /// Parts of IP packets.
    pub fragments: u64,
    /// Other traffic, by what it is.
    pub passed: BTreeMap<String, PacketsView>,
    /// What could not be read, by reason.
    pub malformed: BTreeMap<String, PacketsView>,
    /// Packets dropped before they reached the file, as far as the file says (pcapng).
    pub dropped: u64,
    /// Connections that said something.
    pub connections: u64,
    /// Those of them whose beginning was seen.
    pub from_the_start: u64,
    /// Those of them that were still there at the end.
    pub open_at_the_end: u64,
    /// Beginnings of connections that no byte followed.
    pub without_data: u64,
    /// Bytes of payload: `delivered_bytes` + `retransmitted_bytes` + `after_the_end_bytes`.
    pub payload_bytes: u64,
    /// Those that were read.
    pub delivered_bytes: u64,
    /// Those that were there already.
    pub retransmitted_bytes: u64,
    /// Those behind the end of their connection.
    pub after_the_end_bytes: u64,
    /// Segments that came before others which precede them.
    pub waited: u64,
    /// Bytes of payload that are missing.
    pub lost_bytes: u64,
    /// In how many pieces.
    pub gaps: u64,
    /// What was said.
    pub conversation: ConversationView,
    /// What was read.
    pub sources: Vec<PacketSourceView>,
    /// What became of the events, where only a slice was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<SliceView>,
    /// What became of the values, where they were masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<MaskView>,
}

/// Packets of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PacketsView {
    /// How many.
    pub packets: u64,
    /// What they are, in words.
    pub explanation: String,
}

/// One packet file or stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PacketSourceView {
    /// Its name.
    pub name: String,
    /// What it was recognised as.
    pub format: String,
    /// Its bytes, after decompression.
    pub bytes: u64,
    /// Its packets.
    pub packets: u64,
    /// When the first was captured, in microseconds since 1970-01-01 UTC.
    pub first_us: Option<i64>,
    /// Why it ended before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

impl PcapView {
    /// The view of a report; what the workload has is left to the program.
    pub fn new(report: &PcapReport) -> Self {
        let account = &report.account;
        PcapView {
            schema: "rehearse/capture-pcap/1".to_owned(),
            packets: account.packets,
            segments: account.segments,
            segments_cut: account.segments_cut,
            headers_cut: account.headers_cut,
            fragments: account.fragments,
            passed: named(&account.passed, |passed| match passed {
                Passed::OtherPort => "TCP of other ports",
                Passed::NotTcp => "IP, but not TCP",
                Passed::NotIp => "not IP",
                Passed::UnknownLink => "of an interface whose link type is not read here",
            }),
            malformed: named(&account.malformed, |malformed| match malformed {
                Malformed::TooShort => "shorter than their headers",
                Malformed::Length => "a length in them cannot be",
                Malformed::WithoutTime => "without a time",
            }),
            dropped: account.dropped,
            connections: account.connections,
            from_the_start: account.from_the_start,
            open_at_the_end: account.open_at_the_end,
            without_data: account.without_data,
            payload_bytes: account.payload_bytes,
            delivered_bytes: account.delivered_bytes,
            retransmitted_bytes: account.retransmitted_bytes,
            after_the_end_bytes: account.after_the_end_bytes,
            waited: account.waited,
            lost_bytes: account.lost_bytes,
            gaps: account.gaps,
            conversation: ConversationView::new(&account.conversation),
            sources: (report.sources.iter())
                .map(|source| PacketSourceView {
                    name: source.file.name.clone(),
                    format: source.file.format.clone(),
                    bytes: source.file.bytes,
                    packets: source.packets,
                    first_us: source.first_us,
                    damage: source.damage.clone(),
                })
                .collect(),
            ..PcapView::default()
        }
    }

    /// Whether every packet and every byte is accounted for exactly once.
    pub fn adds_up(&self) -> bool {
        let sum =
            |kinds: &BTreeMap<String, PacketsView>| kinds.values().map(|kind| kind.packets).sum();
        let (passed, malformed): (u64, u64) = (sum(&self.passed), sum(&self.malformed));
        let whole = self.segments + self.segments_cut;
        self.packets == whole + self.headers_cut + self.fragments + passed + malformed
            && self.payload_bytes
                == self.delivered_bytes + self.retransmitted_bytes + self.after_the_end_bytes
    }
}

fn named<K: Serialize + Copy>(
    kinds: &BTreeMap<K, u64>,
    explanation: impl Fn(K) -> &'static str,
) -> BTreeMap<String, PacketsView> {
    let named = kinds.iter().map(|(kind, packets)| {
        let name = serde_json::to_value(kind).expect("plain data");
        let view = PacketsView {
            packets: *packets,
            explanation: explanation(*kind).to_owned(),
        };
        (name.as_str().unwrap_or_default().to_owned(), view)
    });
    named.collect()
}
