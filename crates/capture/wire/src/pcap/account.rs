//! Accounts for every packet and every byte of its payload.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::SourceFile;

use super::connections::Counts;
use super::packet::{MalformedReason, OtherTraffic, PacketContent};
use crate::conversation;

/// Account of all packets. Every packet is in one of `segments`, `segments_cut`, `headers_cut`,
/// `fragments`, `passed` and `malformed`; every captured byte of payload is in one of
/// `delivered_bytes`, `retransmitted_bytes` and `after_the_end_bytes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PcapAccount {
    /// Number of all packets.
    pub packets: u64,
    /// Number of complete TCP segments of the server's port.
    pub segments: u64,
    /// Number of segments whose payload a snap length cut; the missing bytes count as lost.
    pub segments_cut: u64,
    /// Number of packets that a snap length cut within their headers.
    pub headers_cut: u64,
    /// Number of fragments of IP packets with TCP. Their bytes are missing; those of the server's
    /// port count as lost.
    pub fragments: u64,
    /// Number of packets of other traffic.
    pub passed: BTreeMap<OtherTraffic, u64>,
    /// Number of packets that could not be read.
    pub malformed: BTreeMap<MalformedReason, u64>,
    /// Number of packets dropped before they reached the file, as far as the file says (pcapng).
    pub dropped: u64,
    /// Number of connections with data.
    pub connections: u64,
    /// Number of those connections whose beginning was captured; the others existed before.
    pub from_the_start: u64,
    /// Number of those connections that were open at the end.
    pub open_at_the_end: u64,
    /// Number of connections without data.
    pub without_data: u64,
    /// Number of captured bytes of payload.
    pub payload_bytes: u64,
    /// Number of bytes that were decoded.
    pub delivered_bytes: u64,
    /// Number of bytes that were retransmissions.
    pub retransmitted_bytes: u64,
    /// Number of bytes after the end of their connection.
    pub after_the_end_bytes: u64,
    /// Number of segments that waited for earlier ones.
    pub waited: u64,
    /// Number of missing bytes of payload.
    pub lost_bytes: u64,
    /// Number of missing pieces.
    pub gaps: u64,
    /// Account of the decoded bytes.
    pub conversation: conversation::DecoderAccount,
}

impl PcapAccount {
    /// Returns whether every packet and every byte is counted exactly once.
    pub fn adds_up(&self) -> bool {
        let passed: u64 = self.passed.values().sum();
        let malformed: u64 = self.malformed.values().sum();
        let whole = self.segments + self.segments_cut;
        self.packets == whole + self.headers_cut + self.fragments + passed + malformed
            && self.payload_bytes
                == self.delivered_bytes + self.retransmitted_bytes + self.after_the_end_bytes
    }

    /// Counts one packet; `of_the_port` if it is a segment of the port.
    pub(super) fn count_packet(&mut self, content: &PacketContent<'_>, of_the_port: bool) {
        self.packets += 1;
        match content {
            PacketContent::Segment(_) if !of_the_port => {
                *self.passed.entry(OtherTraffic::OtherPort).or_default() += 1;
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

    /// Counts packets without a time, which are ignored.
    pub(super) fn count_without_time(&mut self, packets: u64) {
        if packets > 0 {
            self.packets += packets;
            *self
                .malformed
                .entry(MalformedReason::WithoutTime)
                .or_default() += packets;
        }
    }

    pub(super) fn add_connections(&mut self, counts: &Counts) {
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

/// A packet file or stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PcapSource {
    /// Name, format and size.
    #[serde(flatten)]
    pub file: SourceFile,
    /// Number of packets in it.
    pub packets: u64,
    /// Time of the first packet, in microseconds since 1970-01-01 UTC.
    pub first_us: Option<i64>,
    /// Damage at which it ended early.
    pub damage: Option<String>,
}

/// Result of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PcapReport {
    /// The sources, in the order of their first packets.
    pub sources: Vec<PcapSource>,
    /// Addresses of the servers.
    #[serde(skip)]
    pub servers: Vec<SocketAddr>,
    /// Account of all packets.
    #[serde(flatten)]
    pub account: PcapAccount,
}
