//! Packets of one pcap or pcapng file, from any reader.
//!
//! [`super::inputs`] looks at the first unread packet of each file and takes the earliest. A packet is lent from the
//! file's window of memory.
//!
//! pcap-parser decodes headers, records and blocks. Its readers (version 0.17) are not used: they drop the system's
//! error, they expect the whole header from the first read, which a pipe does not promise, and a wrong length inside a
//! block makes them read on until the memory is full. This file reads instead. It bounds the memory, and it knows the
//! position at which a file is damaged.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

use pcap_parser::nom::{self, IResult, Needed};
use pcap_parser::pcap::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};

use super::packet::Link;
use super::pcapng::{BlockContent, MALFORMED, SECTION_HEADER, Section, frame_block};

/// Initial size of the window, in bytes. It grows for a record that does not fit.
const WINDOW_BYTES: usize = 256 << 10;

/// Largest record, in bytes: packets of loopback and of segmentation offload have about 512 KiB at most.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// Size of a pcap file's header, in bytes.
const PCAP_HEADER_BYTES: usize = 24;

/// The end of the year 9999, in microseconds since 1970-01-01 UTC. A later time, or one before 1970, becomes the
/// nearest time in this range.
const TIME_US_MAX: i64 = 253_402_300_799_999_999;

/// A packet, lent from its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Protocol that its first bytes belong to.
    pub link: Link,
    /// Time of its capture, in microseconds since 1970-01-01 UTC.
    pub at_us: i64,
    /// Captured bytes.
    pub bytes: &'a [u8],
    /// Its length on the wire, in bytes.
    pub original: u64,
}

/// Position and properties of a packet within its record.
#[derive(Debug, Clone)]
pub(super) struct PacketRecord {
    pub link: Link,
    pub at_us: i64,
    /// Captured bytes, from the record's beginning.
    pub range: Range<usize>,
    pub original: u64,
}

/// Reason why a file ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Damage {
    /// The file ends within a record.
    Truncated(String),
    /// The file has bytes that cannot be decoded.
    Malformed(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Truncated(text) | Damage::Malformed(text) => f.write_str(text),
        }
    }
}

/// Reason why a file has no packets.
#[derive(Debug)]
pub(super) enum NoPackets {
    /// It is not a packet file; with advice if its format is known.
    Foreign(Option<&'static str>),
    /// It cannot be read.
    Read(io::Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PcapFormat {
    link: Link,
    is_big_endian: bool,
    has_nanoseconds: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Pcap(PcapFormat),
    PcapNg,
}

/// One file of packets.
pub(super) struct PacketFile {
    reader: Box<dyn Read>,
    window: Vec<u8>,
    /// Unread part of the window.
    unread: Range<usize>,
    /// Bytes before the unread part.
    taken: u64,
    is_at_end: bool,
    format: Format,
    /// Current section of a pcapng file.
    section: Section,
    /// First unread packet, and the length of its record.
    next: Option<(PacketRecord, usize)>,
    packets: u64,
    without_time: u64,
    damage: Option<Damage>,
}

impl PacketFile {
    /// Reads the beginning, up to the first packet.
    pub(super) fn open(reader: Box<dyn Read>) -> Result<Self, NoPackets> {
        let mut file = PacketFile {
            reader,
            window: vec![0; WINDOW_BYTES],
            unread: 0..0,
            taken: 0,
            is_at_end: false,
            format: Format::PcapNg,
            section: Section::default(),
            next: None,
            packets: 0,
            without_time: 0,
            damage: None,
        };
        file.read_header()?;
        file.advance().map_err(NoPackets::Read)?;
        Ok(file)
    }

    fn read_header(&mut self) -> Result<(), NoPackets> {
        self.fill(PCAP_HEADER_BYTES).map_err(NoPackets::Read)?;
        let head = self.data();
        if head.is_empty() {
            self.damage = Some(Damage::Truncated("it is empty".to_owned()));
            return Ok(());
        }
        if head.starts_with(&SECTION_HEADER) {
            return Ok(());
        }
        match parse_pcap_header(head) {
            Ok((_, header)) if !header.is_modified_format() => {
                self.format = Format::Pcap(PcapFormat {
                    // The upper half has the length of a checksum after each packet.
                    link: Link::of((header.network.0 & 0xffff) as u16),
                    is_big_endian: header.is_bigendian(),
                    has_nanoseconds: header.is_nanosecond_precision(),
                });
                self.take(PCAP_HEADER_BYTES);
                Ok(())
            }
            Err(nom::Err::Incomplete(_)) if head.len() >= 4 => {
                let damage = Damage::Truncated("it ends within its own header".to_owned());
                self.end_with(damage);
                Ok(())
            }
            _ => Err(NoPackets::Foreign(foreign_format(head))),
        }
    }

    /// Returns the first unread packet; `None` at the end.
    pub(super) fn packet(&self) -> Option<Packet<'_>> {
        let (record, _) = self.next.as_ref()?;
        Some(Packet {
            link: record.link,
            at_us: record.at_us,
            bytes: &self.data()[record.range.clone()],
            original: record.original,
        })
    }

    /// Returns `pcap` or `pcapng`.
    pub(super) fn format(&self) -> &'static str {
        match self.format {
            Format::Pcap(_) => "pcap",
            Format::PcapNg => "pcapng",
        }
    }

    /// Returns the number of bytes read, after decompression.
    pub(super) fn bytes(&self) -> u64 {
        self.taken + self.unread.len() as u64
    }

    /// Returns the number of packets so far, and the number of those without a time, which are skipped.
    pub(super) fn packets(&self) -> (u64, u64) {
        (self.packets, self.without_time)
    }

    /// Returns the number of packets dropped before they reached the file. Only pcapng can tell.
    pub(super) fn dropped(&self) -> u64 {
        self.section.dropped()
    }

    /// Returns why it ended before its end.
    pub(super) fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Moves on to the next packet.
    pub(super) fn advance(&mut self) -> io::Result<()> {
        if let Some((_, length)) = self.next.take() {
            self.take(length);
        }
        self.next = match self.format {
            Format::Pcap(format) => self.next_record(|data| parse_record(format, data))?,
            Format::PcapNg => self.next_packet_block()?,
        };
        if let Some((record, _)) = &mut self.next {
            self.packets += 1;
            record.at_us = record.at_us.clamp(0, TIME_US_MAX);
        }
        Ok(())
    }

    fn next_packet_block(&mut self) -> io::Result<Option<(PacketRecord, usize)>> {
        loop {
            let is_big_endian = self.section.is_big_endian();
            let Some((kind, length)) = self.next_record(|data| frame_block(is_big_endian, data))?
            else {
                return Ok(None);
            };
            let block = &self.window[self.unread.start..self.unread.start + length];
            match self.section.read_block(kind, block) {
                Ok(BlockContent::Packet(record)) => return Ok(Some((record, length))),
                Ok(BlockContent::PacketWithoutTime) => self.without_time += 1,
                Ok(BlockContent::Other) => (),
                Err(reason) => {
                    self.end_malformed(reason);
                    return Ok(None);
                }
            }
            self.take(length);
        }
    }

    /// Decodes the next record, and reads until it is in the window as a whole. Returns it with its length; `None` at
    /// the end of the file, or if it is damaged.
    fn next_record<T>(
        &mut self,
        decode: impl Fn(&[u8]) -> IResult<&[u8], T, pcap_parser::PcapError<&[u8]>>,
    ) -> io::Result<Option<(T, usize)>> {
        loop {
            let data = self.data();
            let wanted = match decode(data) {
                Ok((rest, record)) => return Ok(Some((record, data.len() - rest.len()))),
                Err(nom::Err::Incomplete(Needed::Size(missing))) => data.len() + missing.get(),
                Err(_) => {
                    self.end_malformed(MALFORMED);
                    return Ok(None);
                }
            };
            if wanted > RECORD_BYTES_MAX {
                self.end_malformed(&format!("a record of {wanted} bytes starts there"));
                return Ok(None);
            }
            if !self.fill(wanted)? {
                self.end_truncated();
                return Ok(None);
            }
        }
    }

    fn data(&self) -> &[u8] {
        &self.window[self.unread.clone()]
    }

    fn take(&mut self, length: usize) {
        self.unread.start += length;
        self.taken += length as u64;
    }

    /// Reads until `length` unread bytes are in the window. Returns `false` if the file has fewer.
    fn fill(&mut self, length: usize) -> io::Result<bool> {
        while self.unread.len() < length {
            if self.is_at_end {
                return Ok(false);
            }
            if self.unread.start + length > self.window.len() || self.unread.is_empty() {
                self.window.copy_within(self.unread.clone(), 0);
                self.unread = 0..self.unread.len();
            }
            if self.unread.end == self.window.len() {
                // Only for bytes that have come: a length alone makes no memory.
                self.window.resize(self.window.len() * 2, 0);
            }
            match self.reader.read(&mut self.window[self.unread.end..]) {
                Ok(0) => self.is_at_end = true,
                Ok(read) => self.unread.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Ends the file, since its rest cannot be read.
    pub(super) fn end_with(&mut self, damage: Damage) {
        self.damage = Some(damage);
        self.is_at_end = true;
        self.next = None;
        self.unread.start = self.unread.end;
    }

    fn end_malformed(&mut self, reason: &str) {
        self.end_with(Damage::Malformed(format!(
            "it is damaged after packet {}, at byte {}: {reason}",
            self.packets, self.taken
        )));
    }

    /// Notes that the file's last record is incomplete, unless nothing is left.
    fn end_truncated(&mut self) {
        if !self.unread.is_empty() && self.damage.is_none() {
            self.damage = Some(Damage::Truncated(format!(
                "it ends within a packet, after packet {} at byte {}: it was cut, or is still being written",
                self.packets, self.taken
            )));
        }
    }
}

fn parse_record(
    format: PcapFormat,
    data: &[u8],
) -> IResult<&[u8], PacketRecord, pcap_parser::PcapError<&[u8]>> {
    let (rest, frame) = match format.is_big_endian {
        true => parse_pcap_frame_be(data)?,
        false => parse_pcap_frame(data)?,
    };
    let fraction_us = match format.has_nanoseconds {
        true => frame.ts_usec / 1_000,
        false => frame.ts_usec,
    };
    let end = data.len() - rest.len();
    let record = PacketRecord {
        link: format.link,
        at_us: i64::from(frame.ts_sec) * 1_000_000 + i64::from(fraction_us),
        range: end - frame.data.len()..end,
        original: u64::from(frame.origlen.max(frame.caplen)),
    };
    Ok((rest, record))
}

/// Returns what to do with a packet file of another format.
fn foreign_format(head: &[u8]) -> Option<&'static str> {
    let convert = "convert it with `editcap -F pcapng` first";
    match head {
        [0x34, 0xcd, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0xcd, 0x34, ..] => Some(convert),
        [b's', b'n', b'o', b'o', b'p', 0, ..] | [b'G', b'M', b'B', b'U', ..] => Some(convert),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
