//! Decodes blocks of a pcapng file: the interface of a packet, its time, and the number of dropped
//! packets.
//!
//! Specification: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>.

use pcap_parser::nom::error::ErrorKind;
use pcap_parser::nom::{self, IResult, Needed, Offset};
use pcap_parser::pcapng::{
    EPB_MAGIC, IDB_MAGIC, ISB_MAGIC, InterfaceStatisticsBlock, SHB_MAGIC, SPB_MAGIC,
    parse_block_be, parse_block_le, parse_sectionheaderblock,
};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, PcapError};

use super::file::PacketRecord;
use super::packet::Link;

/// First bytes of a section, in either byte order.
pub(super) const SECTION_HEADER: [u8; 4] = SHB_MAGIC.to_be_bytes();

/// Type of the Packet Block, which the Enhanced Packet Block replaced. pcap-parser does not decode it.
const PACKET_BLOCK: u32 = 2;

/// Length of a block without content, in bytes.
const BLOCK_BYTES_MIN: usize = 12;

/// Reason why a block ends the file.
pub(super) const MALFORMED: &str = "a block or record starts there that cannot be decoded";

/// Largest number of interfaces. A file with more is malformed.
const INTERFACES_MAX: usize = 65_536;

/// Content of a block.
pub(super) enum BlockContent {
    Packet(PacketRecord),
    /// A Simple Packet Block. A statement without a time cannot be placed.
    PacketWithoutTime,
    Other,
}

/// Type of a block.
pub(super) enum BlockKind {
    /// The header of a section, which sets the byte order.
    Section { is_big_endian: bool },
    /// Any other, by its number.
    Other(u32),
}

#[derive(Debug, Clone)]
struct Interface {
    link: Link,
    /// Units of time in a second, as in the option `if_tsresol`.
    resolution: u8,
    offset_s: i64,
    /// Largest number of dropped packets that its statistics state: they count up.
    dropped: u64,
}

/// Current section of a file.
#[derive(Debug, Default)]
pub(super) struct Section {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    /// Dropped packets of earlier sections.
    dropped_before: u64,
}

/// Finds the end of the block that `data` starts with.
///
/// Own code: pcap-parser's decoders of single blocks return "incomplete" both for a block that has
/// not been read as a whole and for a wrong length inside a block. Its decoder of any block does
/// not, but costs 7 % of the reading speed.
pub(super) fn frame_block(
    is_big_endian: bool,
    data: &[u8],
) -> IResult<&[u8], BlockKind, PcapError<&[u8]>> {
    if data.starts_with(&SECTION_HEADER) {
        let (rest, section) = parse_sectionheaderblock(data)?;
        let is_big_endian = section.big_endian();
        return Ok((rest, BlockKind::Section { is_big_endian }));
    }
    let number = |at: usize| {
        let bytes = *data[at..].first_chunk().expect("the length was checked");
        match is_big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        }
    };
    if data.len() < BLOCK_BYTES_MIN {
        let missing = Needed::new(BLOCK_BYTES_MIN - data.len());
        return Err(nom::Err::Incomplete(missing));
    }
    let length = number(4) as usize;
    if length < BLOCK_BYTES_MIN {
        return Err(nom::Err::Error(PcapError::from_data(
            data,
            ErrorKind::Verify,
        )));
    }
    match data.split_at_checked(length) {
        Some((_, rest)) => Ok((rest, BlockKind::Other(number(0)))),
        None => Err(nom::Err::Incomplete(Needed::new(length - data.len()))),
    }
}

impl Section {
    pub(super) fn is_big_endian(&self) -> bool {
        self.is_big_endian
    }

    /// Returns the number of packets dropped before they reached the file, in all sections so far.
    pub(super) fn dropped(&self) -> u64 {
        let now: u64 = self
            .interfaces
            .iter()
            .map(|interface| interface.dropped)
            .sum();
        self.dropped_before + now
    }

    /// Reads a whole block.
    ///
    /// # Errors
    /// If it is malformed, with the reason.
    pub(super) fn read_block(
        &mut self,
        kind: BlockKind,
        block: &[u8],
    ) -> Result<BlockContent, &'static str> {
        let number = match kind {
            BlockKind::Section { is_big_endian } => {
                *self = Section {
                    is_big_endian,
                    interfaces: Vec::new(),
                    dropped_before: self.dropped(),
                };
                return Ok(BlockContent::Other);
            }
            BlockKind::Other(number) => number,
        };
        match number {
            EPB_MAGIC | IDB_MAGIC | ISB_MAGIC => self.decode_block(block).ok_or(MALFORMED),
            SPB_MAGIC => Ok(BlockContent::PacketWithoutTime),
            PACKET_BLOCK => Err(
                "a Packet Block starts there, which is obsolete and not read; convert the file with `editcap -F pcapng`",
            ),
            _ => Ok(BlockContent::Other),
        }
    }

    fn decode_block(&mut self, bytes: &[u8]) -> Option<BlockContent> {
        let decoded = match self.is_big_endian {
            true => parse_block_be(bytes),
            false => parse_block_le(bytes),
        };
        match decoded.ok()?.1 {
            Block::EnhancedPacket(block) => {
                let interface = self.interfaces.get(block.if_id as usize)?;
                let units = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                let offset_us = interface.offset_s.saturating_mul(1_000_000);
                let start = bytes.offset(block.data);
                return Some(BlockContent::Packet(PacketRecord {
                    link: interface.link,
                    at_us: microseconds(units, interface.resolution).saturating_add(offset_us),
                    range: start..start + block.packet_data().len(),
                    original: u64::from(block.origlen.max(block.caplen)),
                }));
            }
            Block::InterfaceDescription(block) if self.interfaces.len() < INTERFACES_MAX => {
                self.interfaces.push(Interface {
                    link: Link::of(block.linktype.0 as u16),
                    resolution: block.if_tsresol,
                    offset_s: self.in_byte_order(block.if_tsoffset as u64) as i64,
                    dropped: 0,
                });
            }
            Block::InterfaceStatistics(block) => {
                let dropped = self.dropped_of(&block);
                if let Some(interface) = self.interfaces.get_mut(block.if_id as usize) {
                    interface.dropped = interface.dropped.max(dropped);
                }
            }
            _ => return None,
        }
        Some(BlockContent::Other)
    }

    /// Returns how many packets the interface and the system dropped.
    fn dropped_of(&self, statistics: &InterfaceStatisticsBlock<'_>) -> u64 {
        [statistics.isb_ifdrop(), statistics.isb_osdrop()]
            .into_iter()
            .flatten()
            .flatten()
            .map(|count| self.in_byte_order(count).min(u64::from(u32::MAX)))
            .sum()
    }

    /// Corrects an 8-byte option: pcap-parser 0.17 reads it as little-endian in any section.
    fn in_byte_order(&self, option: u64) -> u64 {
        match self.is_big_endian {
            true => option.swap_bytes(),
            false => option,
        }
    }
}

/// Converts units of time to microseconds. Own code: pcap-parser 0.17 takes powers of two for invalid, and its seconds
/// overflow in 2106.
fn microseconds(units: u64, resolution: u8) -> i64 {
    let us = match (resolution & 0x80, resolution & 0x7f) {
        (0, digits @ 0..=6) => units.saturating_mul(10u64.pow(u32::from(6 - digits))),
        (0, digits) => {
            let units_per_us = 10u64.checked_pow(u32::from(digits - 6));
            units_per_us.map_or(0, |units_per_us| units / units_per_us)
        }
        (_, bits) => u64::try_from((u128::from(units) * 1_000_000) >> bits).unwrap_or(u64::MAX),
    };
    i64::try_from(us).unwrap_or(i64::MAX)
}
