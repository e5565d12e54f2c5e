//! Packets of one file: pcap and pcapng, in both byte orders, with any resolution of time, from
//! any reader.
//!
//! Who drives: [`super::capture`], which looks at the packet on top of each file and takes the
//! earliest. A packet lies in the file's window of memory and is lent from there.
//!
//! Own code and no library: the two formats are records with a few fixed numbers before the bytes,
//! and what matters here is what stands around them: memory that a length in a damaged file cannot
//! make large, the place where a file that was cut ends, and no allocation for a packet.
//!
//! Facts: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html>,
//! <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>.

use std::io::{self, Read};
use std::ops::Range;

use super::link::Link;

/// The window's size at first. It grows for a packet that does not fit.
const WINDOW_BYTES: usize = 256 << 10;

/// A longer record is none: packets of loopback and of segmentation offload have some 512 KiB at
/// most.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// The end of the year 9999, in microseconds since 1970-01-01 UTC: a later time in a file, or one before
/// 1970, is taken as the nearest that can be reckoned with.
const TIME_US_MAX: i64 = 253_402_300_799_999_999;

/// More interfaces than any machine has: a file that is not what it says.
const INTERFACES_MAX: usize = 65_536;

/// A packet, lent from its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What its first bytes are.
    pub link: Link,
    /// When it was captured, in microseconds since 1970-01-01 UTC.
    pub at_us: i64,
    /// What was captured of it.
    pub bytes: &'a [u8],
    /// How long it was on the wire.
    pub original: u64,
}

/// What a file's first bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Pcap { link: Link, nanoseconds: bool },
    PcapNg,
}

/// An interface of a pcapng file.
#[derive(Debug, Clone)]
struct Interface {
    link: Link,
    resolution: Resolution,
    offset_s: i64,
    /// What the capturing program said that it dropped; it counts on.
    dropped: u64,
}

/// How a pcapng file's interface counts time.
#[derive(Debug, Clone, Copy)]
enum Resolution {
    /// So many a second.
    Decimal(u128),
    /// Two to so many a second.
    Binary(u32),
}

impl Resolution {
    fn of(value: u8) -> Self {
        match value & 0x80 {
            // 10^38 is what 128 bits hold.
            0 => Resolution::Decimal(10u128.pow(u32::from(value).min(38))),
            _ => Resolution::Binary(u32::from(value & 0x7f)),
        }
    }

    /// Units as microseconds.
    fn us(self, units: u64) -> i64 {
        let units = u128::from(units) * 1_000_000;
        let us = match self {
            Resolution::Decimal(a_second) => units / a_second,
            Resolution::Binary(bits) => units >> bits,
        };
        i64::try_from(us).unwrap_or(i64::MAX)
    }
}

/// Where the packet on top lies.
#[derive(Debug, Clone)]
struct Top {
    link: Link,
    at_us: i64,
    range: Range<usize>,
    original: u64,
}

/// Why a file is none.
#[derive(Debug)]
pub(super) enum NoPackets {
    /// It has other bytes than a packet file's; where it is told what it is, with what is to be done.
    Foreign(Option<&'static str>),
    /// It cannot be read.
    Read(io::Error),
}

/// One file of packets.
pub(super) struct PacketFile {
    reader: Box<dyn Read>,
    window: Vec<u8>,
    /// What was read and not taken.
    start: usize,
    end: usize,
    ended: bool,
    /// Bytes before `start`.
    taken: u64,
    format: Format,
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// What interfaces of earlier sections dropped.
    dropped_before: u64,
    top: Option<Top>,
    /// Bytes of the record on top.
    record: usize,
    packets: u64,
    without_time: u64,
    damage: Option<String>,
}

/// What was done about a block.
enum Block {
    Packet(Top),
    WithoutTime,
    Other,
    Malformed(&'static str),
}

impl PacketFile {
    /// Looks at the beginning, and puts the first packet on top.
    pub(super) fn open(reader: Box<dyn Read>) -> Result<Self, NoPackets> {
        let mut file = PacketFile {
            reader,
            window: vec![0; WINDOW_BYTES],
            start: 0,
            end: 0,
            ended: false,
            taken: 0,
            format: Format::PcapNg,
            big_endian: false,
            interfaces: Vec::new(),
            dropped_before: 0,
            top: None,
            record: 0,
            packets: 0,
            without_time: 0,
            damage: None,
        };
        file.begin()?;
        file.advance().map_err(NoPackets::Read)?;
        Ok(file)
    }

    fn begin(&mut self) -> Result<(), NoPackets> {
        let there = self.want(24).map_err(NoPackets::Read)?;
        let head = &self.window[self.start..self.end];
        if head.is_empty() {
            self.damage = Some("it is empty".to_owned());
            return Ok(());
        }
        let magic = head.get(..4).unwrap_or_default();
        let (big_endian, nanoseconds) = match magic {
            [0x0a, 0x0d, 0x0d, 0x0a] => return Ok(()),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, false),
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, false),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, true),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, true),
            _ => return Err(NoPackets::Foreign(foreign(head))),
        };
        self.big_endian = big_endian;
        if !there {
            self.damage = Some("it ends within its own header".to_owned());
            self.ended = true;
            self.start = self.end;
        }
        let link = match there {
            // The upper half says how long a checksum behind each packet is.
            true => Link::of((self.number(20) & 0xffff) as u16),
            false => Link::of(0),
        };
        self.format = Format::Pcap { link, nanoseconds };
        if there {
            self.take(24);
        }
        Ok(())
    }

    /// The packet on top; none at the end.
    pub(super) fn packet(&self) -> Option<Packet<'_>> {
        let top = self.top.as_ref()?;
        Some(Packet {
            link: top.link,
            at_us: top.at_us,
            bytes: &self.window[top.range.clone()],
            original: top.original,
        })
    }

    /// `pcap` or `pcapng`.
    pub(super) fn format(&self) -> &'static str {
        match self.format {
            Format::Pcap { .. } => "pcap",
            Format::PcapNg => "pcapng",
        }
    }

    /// Bytes read, after decompression.
    pub(super) fn bytes(&self) -> u64 {
        self.taken + (self.end - self.start) as u64
    }

    /// Packets that were on top so far, and those without a time, which were not.
    pub(super) fn packets(&self) -> (u64, u64) {
        (self.packets, self.without_time)
    }

    /// What the file says was dropped before it was written: pcapng alone can.
    pub(super) fn dropped(&self) -> u64 {
        let now: u64 = self.interfaces.iter().map(|one| one.dropped).sum();
        self.dropped_before + now
    }

    /// Why it ended before its end.
    pub(super) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Takes the packet on top away, and puts the next there.
    pub(super) fn advance(&mut self) -> io::Result<()> {
        self.top = None;
        let record = std::mem::take(&mut self.record);
        self.take(record);
        match self.format {
            Format::Pcap { link, nanoseconds } => self.advance_pcap(link, nanoseconds),
            Format::PcapNg => self.advance_pcapng(),
        }
    }

    fn advance_pcap(&mut self, link: Link, nanoseconds: bool) -> io::Result<()> {
        if !self.want(16)? {
            self.cut_here();
            return Ok(());
        }
        let (seconds, fraction) = (self.number(0), self.number(4));
        let (length, original) = (self.number(8) as usize, self.number(12));
        if length > RECORD_BYTES_MAX {
            self.stop_here(&format!("it says that a packet of {length} bytes follows"));
            return Ok(());
        }
        if !self.want(16 + length)? {
            self.cut_here();
            return Ok(());
        }
        let fraction_us = match nanoseconds {
            true => fraction / 1_000,
            false => fraction,
        };
        self.put(Top {
            link,
            at_us: i64::from(seconds) * 1_000_000 + i64::from(fraction_us),
            range: self.start + 16..self.start + 16 + length,
            original: u64::from(original).max(length as u64),
        });
        self.record = 16 + length;
        Ok(())
    }

    fn advance_pcapng(&mut self) -> io::Result<()> {
        loop {
            if !self.want(12)? {
                self.cut_here();
                return Ok(());
            }
            let section = self.window[self.start..self.start + 4] == [0x0a, 0x0d, 0x0d, 0x0a];
            if section {
                match self.window[self.start + 8..self.start + 12] {
                    [0x1a, 0x2b, 0x3c, 0x4d] => self.big_endian = true,
                    [0x4d, 0x3c, 0x2b, 0x1a] => self.big_endian = false,
                    _ => {
                        self.stop_here("a section begins there that has no byte order");
                        return Ok(());
                    }
                }
                self.dropped_before = self.dropped();
                self.interfaces.clear();
            }
            let kind = self.number(0);
            let length = self.number(4) as usize;
            if !(12..=RECORD_BYTES_MAX).contains(&length) || !length.is_multiple_of(4) {
                self.stop_here(&format!("it says that a block of {length} bytes follows"));
                return Ok(());
            }
            if !self.want(length)? {
                self.cut_here();
                return Ok(());
            }
            let body = self.start + 8..self.start + length - 4;
            match self.block(kind, body) {
                Block::Packet(top) => {
                    self.put(top);
                    self.record = length;
                    return Ok(());
                }
                Block::WithoutTime => self.without_time += 1,
                Block::Other => (),
                Block::Malformed(why) => {
                    self.stop_here(why);
                    return Ok(());
                }
            }
            self.take(length);
        }
    }

    fn block(&mut self, kind: u32, body: Range<usize>) -> Block {
        let bytes = &self.window[body.clone()];
        let at = |place: usize| -> Option<u32> {
            let four = bytes.get(place..place + 4)?.try_into().ok()?;
            Some(match self.big_endian {
                true => u32::from_be_bytes(four),
                false => u32::from_le_bytes(four),
            })
        };
        let half = |place: usize| -> Option<u16> {
            let two = bytes.get(place..place + 2)?.try_into().ok()?;
            Some(match self.big_endian {
                true => u16::from_be_bytes(two),
                false => u16::from_le_bytes(two),
            })
        };
        match kind {
            1 => {
                let (Some(link), Some(_)) = (half(0), at(4)) else {
                    return Block::Malformed("an interface is described there in too few bytes");
                };
                let mut interface = Interface {
                    link: Link::of(link),
                    resolution: Resolution::of(6),
                    offset_s: 0,
                    dropped: 0,
                };
                for (code, value) in options(bytes, 8, self.big_endian) {
                    match (code, value) {
                        (9, [value, ..]) => interface.resolution = Resolution::of(*value),
                        (14, value) => {
                            if let Some(offset) = long(value, self.big_endian) {
                                interface.offset_s = offset as i64;
                            }
                        }
                        _ => (),
                    }
                }
                if self.interfaces.len() >= INTERFACES_MAX {
                    return Block::Malformed("it has more interfaces than there can be");
                }
                self.interfaces.push(interface);
                Block::Other
            }
            // A packet: of the form of today, and the one before it.
            6 | 2 => {
                let interface = match kind {
                    6 => at(0),
                    _ => half(0).map(u32::from),
                };
                let (Some(number), Some(high), Some(low), Some(length), Some(original)) =
                    (interface, at(4), at(8), at(12), at(16))
                else {
                    return Block::Malformed("a packet's block there is too short");
                };
                let Some(interface) = self.interfaces.get(number as usize) else {
                    return Block::Malformed(
                        "a packet there is of an interface that is not described",
                    );
                };
                let length = length as usize;
                if length > bytes.len() - 20 {
                    return Block::Malformed("a packet there is longer than its block");
                }
                let units = u64::from(high) << 32 | u64::from(low);
                let since_us = interface.resolution.us(units);
                Block::Packet(Top {
                    link: interface.link,
                    at_us: since_us.saturating_add(interface.offset_s.saturating_mul(1_000_000)),
                    range: body.start + 20..body.start + 20 + length,
                    original: u64::from(original).max(length as u64),
                })
            }
            // It has no time, and a statement without one can be placed nowhere.
            3 => Block::WithoutTime,
            // What the capturing program counted.
            5 => {
                let Some(number) = at(0) else {
                    return Block::Other;
                };
                let mut dropped = 0u64;
                for (code, value) in options(bytes, 12, self.big_endian) {
                    // By the interface, and by the system.
                    if let (5 | 7, Some(count)) = (code, long(value, self.big_endian)) {
                        dropped = dropped.saturating_add(count.min(u64::from(u32::MAX)));
                    }
                }
                if let Some(interface) = self.interfaces.get_mut(number as usize) {
                    interface.dropped = interface.dropped.max(dropped);
                }
                Block::Other
            }
            _ => Block::Other,
        }
    }

    fn put(&mut self, mut top: Top) {
        self.packets += 1;
        top.at_us = top.at_us.clamp(0, TIME_US_MAX);
        self.top = Some(top);
    }

    fn number(&self, place: usize) -> u32 {
        let at = self.start + place;
        let four = self.window[at..at + 4].try_into().expect("four bytes");
        match self.big_endian {
            true => u32::from_be_bytes(four),
            false => u32::from_le_bytes(four),
        }
    }

    fn take(&mut self, length: usize) {
        self.start += length;
        self.taken += length as u64;
    }

    /// The file ends: in order, or within a record.
    fn cut_here(&mut self) {
        if self.start < self.end && self.damage.is_none() {
            self.damage = Some(format!(
                "it ends within a packet, behind packet {} at byte {}: it was cut, or is still being written",
                self.packets, self.taken
            ));
        }
        self.ended = true;
    }

    fn stop_here(&mut self, why: &str) {
        self.damage = Some(format!(
            "it is damaged behind packet {}, at byte {}: {why}",
            self.packets, self.taken
        ));
        self.ended = true;
        self.end = self.start;
    }

    /// Whether so many bytes are there, from `start` on.
    fn want(&mut self, length: usize) -> io::Result<bool> {
        while self.end - self.start < length {
            if self.ended {
                return Ok(false);
            }
            if self.start + length > self.window.len() || self.start == self.end {
                self.window.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            if self.end == self.window.len() {
                // Doubled, and no more than what has come: a length alone makes no memory.
                let size = self.window.len() * 2;
                self.window.resize(size, 0);
            }
            match self.reader.read(&mut self.window[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// What was wrong with the data before it was decompressed: the rest is lost.
    pub(super) fn damaged(&mut self, damage: String) {
        self.damage = Some(damage);
        self.ended = true;
        self.top = None;
        self.record = 0;
    }
}

/// The options of a block, from `at` on.
fn options(bytes: &[u8], mut at: usize, big_endian: bool) -> impl Iterator<Item = (u16, &[u8])> {
    let half = move |place: usize| -> Option<u16> {
        let two = bytes.get(place..place + 2)?.try_into().ok()?;
        Some(match big_endian {
            true => u16::from_be_bytes(two),
            false => u16::from_le_bytes(two),
        })
    };
    std::iter::from_fn(move || {
        let (code, length) = (half(at)?, usize::from(half(at + 2)?));
        let value = bytes.get(at + 4..at + 4 + length)?;
        at += 4 + length.next_multiple_of(4);
        (code != 0).then_some((code, value))
    })
}

fn long(value: &[u8], big_endian: bool) -> Option<u64> {
    let eight = value.get(..8)?.try_into().ok()?;
    Some(match big_endian {
        true => u64::from_be_bytes(eight),
        false => u64::from_le_bytes(eight),
    })
}

/// What another file is, and what to do with it.
fn foreign(head: &[u8]) -> Option<&'static str> {
    let convert = "convert it with `editcap -F pcapng` first";
    match head {
        [0x34, 0xcd, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0xcd, 0x34, ..] => Some(convert),
        [b's', b'n', b'o', b'o', b'p', 0, ..] | [b'G', b'M', b'B', b'U', ..] => Some(convert),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
