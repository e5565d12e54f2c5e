//! What became of every packet and of every byte of its payload.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::SourceFile;

use super::connections::Counts;
use super::packet::{Malformed, PacketContent, Passed};
use crate::conversation;

/// What became of all packets. Every packet is in one of `segments`, `segments_cut`,
/// `headers_cut`, `fragments`, `passed` and `malformed`; every captured byte of payload is in one of
/// `delivered_bytes`, `retransmitted_bytes` and `after_the_end_bytes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PcapAccount {
    /// All packets.
    pub packets: u64,
    /// TCP segments of the server's port that are there as a whole.
    pub segments: u64,
    /// Those whose payload a snap length cut; what was cut is among the lost bytes.
    pub segments_cut: u64,
    /// Packets that a snap length cut within their headers.
    pub headers_cut: u64,
    /// Parts of IP packets with TCP: their bytes are missing, and among the lost ones where
    /// they were the server's port's.
    pub fragments: u64,
    /// Other traffic.
    pub passed: BTreeMap<Passed, u64>,
    /// What could not be read.
    pub malformed: BTreeMap<Malformed, u64>,
    /// Packets dropped before they reached the file, as far as the file says (pcapng).
    pub dropped: u64,
    /// Connections that said something.
    pub connections: u64,
    /// Those of them whose beginning was seen; the others were there before.
    pub from_the_start: u64,
    /// Those of them that were still there at the end.
    pub open_at_the_end: u64,
    /// Beginnings of connections that no byte followed.
    pub without_data: u64,
    /// Bytes of payload that are there.
    pub payload_bytes: u64,
    /// Those that were read as what a side said.
    pub delivered_bytes: u64,
    /// Those that were there already.
    pub retransmitted_bytes: u64,
    /// Those behind the end of their connection.
    pub after_the_end_bytes: u64,
    /// Segments that waited for others before them.
    pub waited: u64,
    /// Bytes of payload that are missing.
    pub lost_bytes: u64,
    /// Number of pieces that are missing.
    pub gaps: u64,
    /// What the bytes say.
    pub conversation: conversation::Account,
}

impl PcapAccount {
    /// Whether every packet and every byte is somewhere, and once.
    pub fn adds_up(&self) -> bool {
        let passed: u64 = self.passed.values().sum();
        let malformed: u64 = self.malformed.values().sum();
        let whole = self.segments + self.segments_cut;
        self.packets == whole + self.headers_cut + self.fragments + passed + malformed
            && self.payload_bytes
                == self.delivered_bytes + self.retransmitted_bytes + self.after_the_end_bytes
    }

    /// Takes down one packet; `of_the_port` where it is a segment of it.
    pub(super) fn packet(&mut self, content: &PacketContent<'_>, of_the_port: bool) {
        self.packets += 1;
        match content {
            PacketContent::Segment(_) if !of_the_port => {
                *self.passed.entry(Passed::OtherPort).or_default() += 1;
            }
            PacketContent::Segment(segment) if segment.cut > 0 => self.segments_cut += 1,
            PacketContent::Segment(_) => self.segments += 1,
            PacketContent::Fragment => self.fragments += 1,
            PacketContent::HeadersCut => self.headers_cut += 1,
            PacketContent::Passed(passed) => *self.passed.entry(*passed).or_default() += 1,
            PacketContent::Malformed(malformed) => {
                *self.malformed.entry(*malformed).or_default() += 1
            }
        }
    }

    /// Packets that have no time, which are not looked at.
    pub(super) fn without_time(&mut self, packets: u64) {
        if packets > 0 {
            self.packets += packets;
            *self.malformed.entry(Malformed::WithoutTime).or_default() += packets;
        }
    }

    pub(super) fn connections(&mut self, counts: &Counts) {
        self.connections = counts.connections;
        self.from_the_start = counts.from_the_start;
        self.open_at_the_end = counts.open_at_the_end;
        self.without_data = counts.without_data;
        self.payload_bytes = counts.bytes.captured;
        self.delivered_bytes = counts.bytes.delivered;
        self.retransmitted_bytes = counts.bytes.retransmitted;
        self.after_the_end_bytes = counts.bytes.after_the_end;
        self.waited = counts.bytes.waited;
        self.lost_bytes = counts.bytes.lost;
        self.gaps = counts.bytes.gaps;
    }
}

/// One packet file or stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PcapSource {
    /// Its name, its format and its bytes.
    #[serde(flatten)]
    pub file: SourceFile,
    /// Packets in it.
    pub packets: u64,
    /// When the first was captured, in microseconds since 1970-01-01 UTC.
    pub first_us: Option<i64>,
    /// Why it ended before its end.
    pub damage: Option<String>,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PcapReport {
    /// The sources, in the order of their first packets.
    pub sources: Vec<PcapSource>,
    /// What became of all packets.
    #[serde(flatten)]
    pub account: PcapAccount,
}
