//! From a packet's first byte to its TCP payload: link layers, IPv4, IPv6, TCP.
//!
//! Own code and no library: these are a few numbers at fixed places, and what matters is what a
//! library for whole packets does not tell: how many bytes a snap length cut off, and packets of
//! segmentation offload, whose length stands in no header.
//!
//! Deliberately absent: checksums. Where a machine captures its own packets they are not computed
//! yet, and what is wrong on the wire the receiver does not acknowledge. Tunnels, too: what is in
//! them is counted as other traffic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Offload makes packets of up to 512 KiB, whose headers say no length; one that claims more is
/// none.
const OFFLOADED_BYTES_MAX: u64 = 1 << 20;

/// IPv6 has few extension headers in a packet.
const EXTENSIONS_MAX: usize = 16;

/// What a packet begins with, by the numbers of <https://www.tcpdump.org/linktypes.html>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Link {
    /// Ethernet, with VLANs.
    Ethernet,
    /// Linux "cooked": what `tcpdump -i any` writes.
    Cooked,
    /// Its second version.
    Cooked2,
    /// BSD's loopback: a family in either byte order.
    Loopback,
    /// IPv4 or IPv6 without anything before it.
    Raw,
    /// One that is not read.
    Other(u16),
}

impl Link {
    /// By its number in a file.
    pub fn of(number: u16) -> Self {
        match number {
            1 => Link::Ethernet,
            113 => Link::Cooked,
            276 => Link::Cooked2,
            0 | 108 => Link::Loopback,
            // 12 and 14 are what some systems wrote for 101; 228 and 229 are for one version each.
            12 | 14 | 101 | 228 | 229 => Link::Raw,
            other => Link::Other(other),
        }
    }
}

/// Why a packet is none of the port's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Passed {
    /// TCP of other ports.
    OtherPort,
    /// IP, but no TCP: UDP, ICMP, tunnels, IPsec.
    NotTcp,
    /// No IP: ARP and the like.
    NotIp,
    /// Its interface is of a kind that is not read.
    UnknownLink,
}

/// Why a packet could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Malformed {
    /// It is shorter than the headers that it should have.
    TooShort,
    /// A length in it cannot be.
    Length,
    /// It has no time.
    WithoutTime,
}

/// What was found in a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    Segment(Segment<'a>),
    /// A part of an IP packet.
    Fragment,
    /// The snap length cut it within its headers.
    HeadersCut,
    Passed(Passed),
    Malformed(Malformed),
}

/// A TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// The number of its first byte.
    pub sequence: u32,
    /// What it acknowledges.
    pub acknowledges: Option<u32>,
    /// It begins a connection.
    pub syn: bool,
    /// Its side has no more to say.
    pub fin: bool,
    /// The connection is over.
    pub reset: bool,
    /// What was captured of its payload.
    pub payload: &'a [u8],
    /// How many bytes of payload behind that were not captured.
    pub cut: u32,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// What is in a packet of which `bytes` were captured, and that had `original`.
pub(super) fn look(link: Link, bytes: &[u8], original: u64) -> Found<'_> {
    let whole = original.max(bytes.len() as u64);
    let short = match whole > bytes.len() as u64 {
        true => Found::HeadersCut,
        false => Found::Malformed(Malformed::TooShort),
    };
    let look = || -> Option<Found<'_>> {
        let (protocol, at) = match link {
            Link::Ethernet => (half(bytes, 12)?, 14),
            Link::Cooked => (half(bytes, 14)?, 16),
            Link::Cooked2 => {
                let protocol = half(bytes, 0)?;
                (protocol, 20)
            }
            Link::Loopback => {
                let family = word(bytes, 0)?;
                let family = family.min(family.swap_bytes());
                match family {
                    2 => (IPV4, 4),
                    // Linux, NetBSD and OpenBSD, FreeBSD, macOS.
                    10 | 24 | 28 | 30 => (IPV6, 4),
                    _ => return Some(Found::Passed(Passed::NotIp)),
                }
            }
            Link::Raw => match bytes.first()? >> 4 {
                4 => (IPV4, 0),
                6 => (IPV6, 0),
                _ => return Some(Found::Passed(Passed::NotIp)),
            },
            Link::Other(_) => return Some(Found::Passed(Passed::UnknownLink)),
        };
        let (mut protocol, mut at) = (protocol, at);
        // VLANs, also one in another.
        while matches!(protocol, 0x8100 | 0x88a8 | 0x9100 | 0x9200) {
            protocol = half(bytes, at + 2)?;
            at += 4;
        }
        let packet = bytes.get(at..)?;
        let whole = whole - at as u64;
        match protocol {
            IPV4 => ipv4(packet, whole),
            IPV6 => ipv6(packet, whole),
            _ => Some(Found::Passed(Passed::NotIp)),
        }
    };
    look().unwrap_or(short)
}

/// `None` where it is too short.
fn ipv4(bytes: &[u8], whole: u64) -> Option<Found<'_>> {
    let first = *bytes.first()?;
    let header = usize::from(first & 15) * 4;
    if first >> 4 != 4 || header < 20 {
        return Some(Found::Malformed(Malformed::Length));
    }
    let total = match half(bytes, 2)? {
        // Segmentation offload: the network card would have written it.
        0 => whole,
        total => u64::from(total),
    };
    let fragment = half(bytes, 6)?;
    let protocol = *bytes.get(9)?;
    let source = Ipv4Addr::from(word(bytes, 12)?);
    let destination = Ipv4Addr::from(word(bytes, 16)?);
    if protocol != 6 {
        return Some(Found::Passed(Passed::NotTcp));
    }
    // More fragments, or not the first.
    if fragment & 0x3fff != 0 {
        return Some(Found::Fragment);
    }
    if total < header as u64 || total > whole.max(bytes.len() as u64) || total > OFFLOADED_BYTES_MAX
    {
        return Some(Found::Malformed(Malformed::Length));
    }
    tcp(
        bytes.get(header..)?,
        total - header as u64,
        source.into(),
        destination.into(),
    )
}

/// `None` where it is too short.
fn ipv6(bytes: &[u8], whole: u64) -> Option<Found<'_>> {
    if bytes.first()? >> 4 != 6 {
        return Some(Found::Malformed(Malformed::Length));
    }
    let length = match half(bytes, 4)? {
        // A jumbogram, or segmentation offload.
        0 => whole.saturating_sub(40),
        length => u64::from(length),
    };
    let mut next = *bytes.get(6)?;
    let address = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
        Some(Ipv6Addr::from(bytes).into())
    };
    let (source, destination) = (address(8)?, address(24)?);
    let mut at = 40;
    for _ in 0..EXTENSIONS_MAX {
        let size = match next {
            6 => {
                let end = 40 + length;
                if end < at as u64
                    || end > whole.max(bytes.len() as u64)
                    || length > OFFLOADED_BYTES_MAX
                {
                    return Some(Found::Malformed(Malformed::Length));
                }
                return tcp(bytes.get(at..)?, end - at as u64, source, destination);
            }
            // Hop by hop, routing, destination, mobility, host identity, shim.
            0 | 43 | 60 | 135 | 139 | 140 => 8 + 8 * usize::from(*bytes.get(at + 1)?),
            // Authentication.
            51 => 8 + 4 * usize::from(*bytes.get(at + 1)?),
            44 => {
                // A fragment that is the whole is none.
                if half(bytes, at + 2)? & 0xfff9 != 0 {
                    return Some(match bytes.get(at)? {
                        6 => Found::Fragment,
                        _ => Found::Passed(Passed::NotTcp),
                    });
                }
                8
            }
            _ => return Some(Found::Passed(Passed::NotTcp)),
        };
        next = *bytes.get(at)?;
        at += size;
    }
    Some(Found::Malformed(Malformed::Length))
}

/// `None` where it is too short. `length` is what the IP header says; a frame may be longer.
fn tcp(bytes: &[u8], length: u64, source: IpAddr, destination: IpAddr) -> Option<Found<'_>> {
    if length < 20 {
        return Some(Found::Malformed(Malformed::TooShort));
    }
    let bytes = &bytes[..bytes.len().min(length as usize)];
    let from = SocketAddr::new(source, half(bytes, 0)?);
    let to = SocketAddr::new(destination, half(bytes, 2)?);
    let (sequence, acknowledges) = (word(bytes, 4)?, word(bytes, 8)?);
    let header = usize::from(bytes.get(12)? >> 4) * 4;
    let flags = *bytes.get(13)?;
    if header < 20 || header as u64 > length {
        return Some(Found::Malformed(Malformed::Length));
    }
    // Options that were cut off leave a segment whose payload was cut off as a whole.
    let payload = bytes.get(header..).unwrap_or_default();
    Some(Found::Segment(Segment {
        from,
        to,
        sequence,
        acknowledges: (flags & 0x10 != 0).then_some(acknowledges),
        syn: flags & 2 != 0,
        fin: flags & 1 != 0,
        reset: flags & 4 != 0,
        payload,
        cut: (length - header as u64 - payload.len() as u64) as u32,
    }))
}

#[cfg(test)]
mod tests;
