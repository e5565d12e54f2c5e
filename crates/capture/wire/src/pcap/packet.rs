//! From a packet's first byte to its TCP payload: link layers, IPv4, IPv6, TCP.
//!
//! etherparse decodes the headers, in its lax variants: they accept packets that a snap length cut, and packets of
//! segmentation offload, which have no length in their IP header. This file adds what the bytes alone do not tell: how
//! much of a payload was cut off, and whether a short packet was cut by the capture or is malformed.
//!
//! Checksums are not verified: a machine that captures its own packets sees them before its network card has computed
//! them, and TCP sends again what arrived damaged. Tunnels are not followed: they count as other traffic.

use std::net::{IpAddr, SocketAddr};

use etherparse::err::FromSliceError;
use etherparse::{
    EtherType, Ethernet2Slice, LaxIpPayloadSlice, LaxIpv4Slice, LaxIpv6Slice, LenSource,
    SingleVlanSlice, TcpHeader, TcpHeaderSlice, ether_type, ip_number,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest IP packet, in bytes. Offload makes packets of up to 512 KiB; one that claims to be longer is malformed.
const OFFLOADED_BYTES_MAX: u64 = 1 << 20;

/// Length of a TCP header up to its flags, in bytes.
const TCP_BYTES_READ: usize = 14;

/// Link type of a packet, by the numbers of <https://www.tcpdump.org/linktypes.html>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Link {
    /// Ethernet, with VLAN tags.
    Ethernet,
    /// Linux "cooked" capture, as `tcpdump -i any` writes it.
    Cooked,
    /// Its second version.
    Cooked2,
    /// BSD loopback: an address family in either byte order.
    Loopback,
    /// IPv4 or IPv6 without a link header.
    Raw,
    /// Any other. Its packets are not read.
    Other(u16),
}

impl Link {
    /// Returns the link type that has this number in a file.
    pub fn of(number: u16) -> Self {
        match number {
            1 => Link::Ethernet,
            113 => Link::Cooked,
            276 => Link::Cooked2,
            0 | 108 => Link::Loopback,
            // Some systems wrote 12 and 14 for 101; 228 and 229 are for one IP version each.
            12 | 14 | 101 | 228 | 229 => Link::Raw,
            other => Link::Other(other),
        }
    }
}

/// Reason why a packet is not traffic of the port.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum OtherTraffic {
    /// TCP of other ports.
    OtherPort,
    /// IP, but no TCP: UDP, ICMP, tunnels, IPsec.
    NotTcp,
    /// No IP: ARP and the like.
    NotIp,
    /// The packet has a link type that is not read.
    UnknownLink,
}

/// Reason why a packet could not be read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MalformedReason {
    /// It is shorter than its headers.
    TooShort,
    /// A length or version in a header is impossible.
    Length,
    /// It has no time.
    WithoutTime,
}

/// Content of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PacketContent<'a> {
    Segment(Segment<'a>),
    /// A part of an IP packet with TCP.
    Fragment,
    /// The snap length cut the packet within its headers.
    HeadersCut,
    Passed(OtherTraffic),
    Malformed(MalformedReason),
}

/// A TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Sender.
    pub from: SocketAddr,
    /// Receiver.
    pub to: SocketAddr,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// Acknowledgement number, if it acknowledges.
    pub acknowledges: Option<u32>,
    /// SYN: it begins a connection.
    pub syn: bool,
    /// FIN: its sender has sent everything.
    pub fin: bool,
    /// RST: the connection is aborted.
    pub reset: bool,
    /// Captured part of its payload.
    pub payload: &'a [u8],
    /// Number of bytes of payload after that which were not captured.
    pub cut: u32,
}

/// Decodes a packet of which `bytes` were captured, and that had `original` bytes on the wire.
pub(super) fn parse_packet(link: Link, bytes: &[u8], original: u64) -> PacketContent<'_> {
    let was_cut = original > bytes.len() as u64;
    match find_segment(link, bytes, original) {
        Ok(segment) => PacketContent::Segment(segment),
        Err(NoSegment::Passed(passed)) => PacketContent::Passed(passed),
        Err(NoSegment::Fragment) => PacketContent::Fragment,
        Err(NoSegment::Short) if was_cut => PacketContent::HeadersCut,
        Err(NoSegment::Short) => PacketContent::Malformed(MalformedReason::TooShort),
        Err(NoSegment::Length) => PacketContent::Malformed(MalformedReason::Length),
    }
}

/// Reason why a packet has no segment.
enum NoSegment {
    Passed(OtherTraffic),
    Fragment,
    /// Its captured bytes end within a header.
    Short,
    /// A length or version in a header is impossible.
    Length,
}

impl NoSegment {
    fn from_error(error: impl Into<FromSliceError>) -> Self {
        match error.into() {
            FromSliceError::Len(error) if error.len_source == LenSource::Slice => NoSegment::Short,
            // The IP header leaves too little room for what follows, or a header is malformed.
            _ => NoSegment::Length,
        }
    }
}

/// An IP packet.
struct Ip<'a> {
    source: IpAddr,
    destination: IpAddr,
    /// Length that its header states, in bytes from its first byte; 0 if the header states none.
    stated_length: u64,
    /// Length of its header and extension headers, in bytes.
    headers_length: usize,
    payload: LaxIpPayloadSlice<'a>,
}

fn find_segment(link: Link, bytes: &[u8], original: u64) -> Result<Segment<'_>, NoSegment> {
    let (mut ether_type, mut payload) = link_payload(link, bytes)?;
    // VLANs, also nested; 0x9200 is an old number for an outer one.
    while let ether_type::VLAN_TAGGED_FRAME
    | ether_type::PROVIDER_BRIDGING
    | ether_type::VLAN_DOUBLE_TAGGED_FRAME
    | EtherType(0x9200) = ether_type
    {
        let vlan = SingleVlanSlice::from_slice(payload).map_err(NoSegment::from_error)?;
        (ether_type, payload) = (vlan.ether_type(), vlan.payload_slice());
    }
    let ip = match ether_type {
        ether_type::IPV4 => ipv4(payload)?,
        ether_type::IPV6 => ipv6(payload)?,
        _ => return Err(NoSegment::Passed(OtherTraffic::NotIp)),
    };
    if ip.payload.ip_number != ip_number::TCP {
        return Err(NoSegment::Passed(OtherTraffic::NotTcp));
    }
    if ip.payload.fragmented {
        return Err(NoSegment::Fragment);
    }
    let headers_before = (bytes.len() - payload.len()) as u64;
    let length_on_wire = original.max(bytes.len() as u64) - headers_before;
    let length = match ip.stated_length {
        // Segmentation offload, or a jumbogram: the network card would have written the length.
        0 => length_on_wire,
        length => length,
    };
    if length > length_on_wire || length > OFFLOADED_BYTES_MAX {
        return Err(NoSegment::Length);
    }
    let tcp_length = length
        .checked_sub(ip.headers_length as u64)
        .ok_or(NoSegment::Length)?;
    tcp(&ip, tcp_length)
}

/// Returns the EtherType of a packet, and the bytes after its link header.
///
/// Own code for all links but Ethernet. etherparse 0.21 knows neither the loopback header nor the second cooked
/// header, and it rejects the first cooked header unless the hardware is Ethernet: `tcpdump -i any` writes 772 there for
/// the loopback interface, and others for tunnels.
fn link_payload(link: Link, bytes: &[u8]) -> Result<(EtherType, &[u8]), NoSegment> {
    let after = |length: usize| bytes.get(length..).ok_or(NoSegment::Short);
    let ether_type_at = |at: usize| match bytes.get(at..at + 2) {
        Some(&[high, low]) => Ok(EtherType(u16::from_be_bytes([high, low]))),
        _ => Err(NoSegment::Short),
    };
    match link {
        Link::Ethernet => {
            let payload = Ethernet2Slice::from_slice_without_fcs(bytes)
                .map_err(NoSegment::from_error)?
                .payload();
            Ok((payload.ether_type, payload.payload))
        }
        Link::Cooked => Ok((ether_type_at(14)?, after(16)?)),
        Link::Cooked2 => Ok((ether_type_at(0)?, after(20)?)),
        Link::Loopback => match bytes.get(..4) {
            Some([0, 0, 0, family] | [family, 0, 0, 0]) => match family {
                2 => Ok((ether_type::IPV4, after(4)?)),
                // Linux, NetBSD and OpenBSD, FreeBSD, macOS.
                10 | 24 | 28 | 30 => Ok((ether_type::IPV6, after(4)?)),
                _ => Err(NoSegment::Passed(OtherTraffic::NotIp)),
            },
            Some(_) => Err(NoSegment::Passed(OtherTraffic::NotIp)),
            None => Err(NoSegment::Short),
        },
        Link::Raw => match bytes.first().ok_or(NoSegment::Short)? >> 4 {
            4 => Ok((ether_type::IPV4, bytes)),
            6 => Ok((ether_type::IPV6, bytes)),
            _ => Err(NoSegment::Passed(OtherTraffic::NotIp)),
        },
        Link::Other(_) => Err(NoSegment::Passed(OtherTraffic::UnknownLink)),
    }
}

fn ipv4(bytes: &[u8]) -> Result<Ip<'_>, NoSegment> {
    let (ip, stop) = LaxIpv4Slice::from_slice(bytes).map_err(NoSegment::from_error)?;
    if let Some(error) = stop {
        return Err(NoSegment::from_error(error));
    }
    let header = ip.header();
    let authentication = ip
        .extensions()
        .auth
        .map_or(0, |header| header.slice().len());
    Ok(Ip {
        source: header.source_addr().into(),
        destination: header.destination_addr().into(),
        stated_length: header.total_len().into(),
        headers_length: header.slice().len() + authentication,
        payload: ip.payload().clone(),
    })
}

fn ipv6(bytes: &[u8]) -> Result<Ip<'_>, NoSegment> {
    let (ip, stop) = LaxIpv6Slice::from_slice(bytes).map_err(NoSegment::from_error)?;
    if let Some((error, _)) = stop {
        return Err(NoSegment::from_error(error));
    }
    let header = ip.header();
    let header_length = header.slice().len();
    Ok(Ip {
        source: header.source_addr().into(),
        destination: header.destination_addr().into(),
        stated_length: match header.payload_length() {
            0 => 0,
            length => header_length as u64 + u64::from(length),
        },
        headers_length: header_length + ip.extensions().slice().len(),
        payload: ip.payload().clone(),
    })
}

/// Decodes a segment that has `length` bytes with its header.
fn tcp<'a>(ip: &Ip<'a>, length: u64) -> Result<Segment<'a>, NoSegment> {
    let bytes = ip.payload.payload;
    // A header that was cut after its flags is filled up: nothing after them matters here.
    let mut padded = [0; TcpHeader::MAX_LEN];
    let header = if (TCP_BYTES_READ..TcpHeader::MAX_LEN).contains(&bytes.len()) {
        padded[..bytes.len()].copy_from_slice(bytes);
        TcpHeaderSlice::from_slice(&padded)
    } else {
        TcpHeaderSlice::from_slice(bytes)
    };
    let header = header.map_err(NoSegment::from_error)?;
    let payload = bytes.get(header.slice().len()..).unwrap_or_default();
    let payload_length = length
        .checked_sub(header.slice().len() as u64)
        .ok_or(NoSegment::Length)?;
    Ok(Segment {
        from: SocketAddr::new(ip.source, header.source_port()),
        to: SocketAddr::new(ip.destination, header.destination_port()),
        sequence: header.sequence_number(),
        acknowledges: header.ack().then(|| header.acknowledgment_number()),
        syn: header.syn(),
        fin: header.fin(),
        reset: header.rst(),
        payload,
        cut: (payload_length - payload.len() as u64) as u32,
    })
}

#[cfg(test)]
mod tests;
