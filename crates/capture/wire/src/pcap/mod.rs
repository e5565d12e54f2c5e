//! Captures packet files, and a stream of packets on standard input, as a workload.
//!
//! `inputs` merges the files by time, `file` and `pcapng` read their packets, `packet` finds the
//! TCP segments, `connections` assigns a segment to its connection, `connection` orders its bytes
//! and reports losses, and [`crate::conversation`] decodes them into events. `stream` reads
//! standard input. Every packet and every byte is in the [`PcapAccount`].
//!
//! Memory is bounded by the number of open connections: data that waits for late packets is at most
//! 8 MiB a connection and 256 MiB in total. Encrypted traffic is not decrypted, but counted by
//! kind.

mod account;
mod connections;
mod error;
mod file;
mod half_stream;
mod inputs;
mod packet;
mod packet_stream;
#[cfg(test)]
#[path = "../../tests/packets/mod.rs"]
#[allow(dead_code, missing_docs)]
mod packets;
mod pcapng;
mod tcp_reassembly;

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use account::{PcapAccount, PcapReport, PcapSource};
pub use error::PcapError;
pub use packet::{MalformedReason, OtherTraffic};
pub use packet_stream::StopCheck;

use crate::conversation::{DecoderOptions, ProtocolDecoder, Side};
use account::PcapAccount as Account;
use capture_sink::{EventSink, SinkError};
use connections::Connections;
use file::Packet;
use inputs::Inputs;
use packet::{PacketContent, parse_packet};
use tcp_reassembly::StreamListener;

/// Maximum number of other ports whose packets are counted.
const OTHER_PORTS_MAX: usize = 4_096;

/// Number of packets between two reports of progress.
const PACKETS_PER_PROGRESS: u64 = 4_096;

/// Time of capture between two reports of progress of a stream, in microseconds: its packets may be
/// rare.
const STREAM_PROGRESS_US: i64 = 1_000_000;

/// Progress of a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of bytes read, before decompression.
    pub read_bytes: u64,
    /// Number of packets.
    pub packets: u64,
    /// Number of events passed to the sink.
    pub events: u64,
}

/// Options of a capture.
#[derive(Default)]
pub struct PcapOptions<'a> {
    /// Packet files; `-` is standard input, which may be a capture that is still running.
    pub files: Vec<PathBuf>,
    /// The ports of the servers.
    pub ports: Vec<u16>,
    /// Details to record.
    pub conversation: DecoderOptions,
    /// Receives the progress.
    pub on_progress: Option<Box<dyn FnMut(Progress) + 'a>>,
    /// Returns true once the user has asked to stop. A capture with standard input then ends in
    /// order; one of files alone fails, since these can be read again.
    pub stop: Option<StopCheck>,
}

/// Captures packet files.
///
/// # Errors
/// If there is nothing to capture, a file cannot be read, or the sink fails.
pub fn capture(
    mut options: PcapOptions<'_>,
    sink: &mut dyn EventSink,
) -> Result<PcapReport, PcapError> {
    let files = std::mem::take(&mut options.files);
    let inputs = Inputs::open(&files, options.stop.as_ref())?;
    if files.iter().any(|file| file == Path::new("-")) {
        // The stream has taken it.
        options.stop = None;
    }
    read(inputs, options, sink)
}

/// Captures packets from a reader, such as bytes in memory; the options' files are not read.
///
/// # Errors
/// As [`capture()`].
pub fn capture_reader(
    reader: impl Read + Send + 'static,
    options: PcapOptions<'_>,
    sink: &mut dyn EventSink,
) -> Result<PcapReport, PcapError> {
    let inputs = Inputs::from_reader(Box::new(reader), "standard input")?;
    read(inputs, options, sink)
}

fn read(
    mut inputs: Inputs,
    mut options: PcapOptions<'_>,
    sink: &mut dyn EventSink,
) -> Result<PcapReport, PcapError> {
    let mut reading = PacketReader::new(&options.ports, options.conversation);
    let mut reported_us = i64::MIN;
    while inputs.next(|packet| Ok(reading.handle_packet(packet, sink)?))? {
        let last_us = reading.last_us.unwrap_or(reported_us);
        let is_due = reading.account.packets.is_multiple_of(PACKETS_PER_PROGRESS)
            || inputs.has_stream() && last_us.saturating_sub(reported_us) >= STREAM_PROGRESS_US;
        if !is_due {
            continue;
        }
        reported_us = last_us;
        if options.stop.as_ref().is_some_and(|stop| stop()) {
            return Err(PcapError::Stopped);
        }
        if let Some(on_progress) = &mut options.on_progress {
            on_progress(reading.progress(inputs.raw_bytes()));
        }
    }
    let servers = reading.connections.servers().iter().copied().collect();
    let mut account = reading.finish(sink)?;
    let (sources, dropped, without_time) = inputs.finish();
    account.0.dropped = dropped;
    account.0.count_without_time(without_time);
    let (account, busiest) = account;
    if account.packets == 0 {
        let first = sources.first();
        let damage = sources.iter().find_map(|source| source.damage.as_ref());
        return Err(PcapError::NoPackets {
            name: match first.map_or("-", |source| source.file.name.as_str()) {
                "-" => "standard input".to_owned(),
                name => name.to_owned(),
            },
            damage: damage.map_or_else(String::new, |damage| format!(": {damage}")),
        });
    }
    if account.segments + account.segments_cut == 0 {
        return Err(no_traffic_error(&account, &options.ports, busiest));
    }
    Ok(PcapReport {
        sources,
        servers,
        account,
    })
}

fn no_traffic_error(account: &Account, ports: &[u16], busiest: Option<(u16, u64)>) -> PcapError {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let advice = match busiest {
        Some((port, packets)) => format!(
            "the busiest TCP port is {port}, with {packets} packets; if the server listens there, give --port {port}"
        ),
        None if account.headers_cut > 0 => {
            "their headers were cut by a snap length; capture again with `tcpdump -s 0`".to_owned()
        }
        None if account.passed.contains_key(&OtherTraffic::UnknownLink) => {
            "they are of an interface whose link type is not read here; capture with `tcpdump -i any`".to_owned()
        }
        None => "there is no TCP in them at all; connections over unix sockets have no packets (`rehearse capture proxy` or `capture log` can capture those)".to_owned(),
    };
    PcapError::NoneOfThePort {
        packets: account.packets,
        ports: ports.join(", "),
        advice,
    }
}

/// Turns packets into events.
struct PacketReader {
    conversations: ProtocolDecoder,
    connections: Connections,
    account: Account,
    /// Number of packets of other ports, to suggest one.
    other_ports: BTreeMap<u16, u64>,
    last_us: Option<i64>,
}

impl PacketReader {
    fn new(ports: &[u16], options: DecoderOptions) -> Self {
        PacketReader {
            conversations: ProtocolDecoder::new(options),
            connections: Connections::new(ports),
            account: Account::default(),
            other_ports: BTreeMap::new(),
            last_us: None,
        }
    }

    fn handle_packet(
        &mut self,
        packet: Packet<'_>,
        sink: &mut dyn EventSink,
    ) -> Result<(), SinkError> {
        if self.last_us.is_none() {
            // A file is recorded from its beginning to its end.
            self.conversations.start_recording(packet.at_us, sink)?;
        }
        self.last_us = self.last_us.max(Some(packet.at_us));
        let content = parse_packet(packet.link, packet.bytes, packet.original);
        let mut of_the_port = false;
        if let PacketContent::Segment(segment) = &content {
            let mut listener = ConversationListener {
                conversations: &mut self.conversations,
                sink,
            };
            let place = self.account.packets + 1;
            of_the_port =
                self.connections
                    .handle_segment(segment, packet.at_us, place, &mut listener)?;
            if !of_the_port {
                let port = segment.from.port().min(segment.to.port());
                if self.other_ports.len() < OTHER_PORTS_MAX || self.other_ports.contains_key(&port)
                {
                    *self.other_ports.entry(port).or_default() += 1;
                }
            }
        }
        self.account.count_packet(&content, of_the_port);
        Ok(())
    }

    fn progress(&self, read_bytes: u64) -> Progress {
        Progress {
            read_bytes,
            packets: self.account.packets,
            events: self.conversations.account().events,
        }
    }

    /// Returns the account, and the busiest of the other ports with its number of packets.
    fn finish(
        mut self,
        sink: &mut dyn EventSink,
    ) -> Result<(Account, Option<(u16, u64)>), SinkError> {
        let mut listener = ConversationListener {
            conversations: &mut self.conversations,
            sink,
        };
        self.connections.end(&mut listener)?;
        if let Some(last_us) = self.last_us {
            self.conversations.stop_recording(last_us, sink)?;
        }
        self.account.add_connections(self.connections.counts());
        self.account.conversation = self.conversations.account().clone();
        let busiest = self.other_ports.into_iter();
        let busiest = busiest.max_by_key(|(_, packets)| *packets);
        Ok((self.account, busiest))
    }
}

/// Passes the bytes of connections to the conversations.
struct ConversationListener<'a> {
    conversations: &'a mut ProtocolDecoder,
    sink: &'a mut dyn EventSink,
}

impl StreamListener for ConversationListener<'_> {
    fn opened(&mut self, connection: u64, client: SocketAddr, at_us: i64, from_the_start: bool) {
        let client = client.to_string();
        self.conversations
            .open_connection(connection, &client, at_us, from_the_start);
    }

    fn bytes(
        &mut self,
        connection: u64,
        side: Side,
        at_us: i64,
        place: u64,
        bytes: &[u8],
    ) -> Result<(), SinkError> {
        self.conversations
            .handle_bytes(connection, side, at_us, place, bytes, self.sink)
    }

    fn lost(
        &mut self,
        connection: u64,
        side: Side,
        at_us: i64,
        bytes: u64,
    ) -> Result<(), SinkError> {
        self.conversations
            .handle_loss(connection, side, at_us, Some(bytes), self.sink)
    }

    fn closed(&mut self, connection: u64, at_us: i64) -> Result<(), SinkError> {
        self.conversations
            .close_connection(connection, at_us, self.sink)
    }
}
