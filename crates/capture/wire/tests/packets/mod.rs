//! Writes packet files for tests: any container, any link layer, and conversations over TCP.

use std::net::{IpAddr, SocketAddr};

/// A packet as in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub at_us: i64,
    pub bytes: Vec<u8>,
    pub original: u32,
}

/// Container format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    Pcap {
        nanoseconds: bool,
        big: bool,
    },
    /// `resolution` as in the option `if_tsresol`.
    PcapNg {
        big: bool,
        resolution: u8,
    },
}

pub const CONTAINERS: [Container; 8] = [
    Container::Pcap {
        nanoseconds: false,
        big: false,
    },
    Container::Pcap {
        nanoseconds: false,
        big: true,
    },
    Container::Pcap {
        nanoseconds: true,
        big: false,
    },
    Container::Pcap {
        nanoseconds: true,
        big: true,
    },
    Container::PcapNg {
        big: false,
        resolution: 6,
    },
    Container::PcapNg {
        big: true,
        resolution: 6,
    },
    Container::PcapNg {
        big: false,
        resolution: 9,
    },
    Container::PcapNg {
        big: true,
        resolution: 0x80 | 20,
    },
];

/// Writes numbers in one byte order.
struct Numbers {
    bytes: Vec<u8>,
    big: bool,
}

impl Numbers {
    fn new(big: bool) -> Self {
        Numbers {
            bytes: Vec::new(),
            big,
        }
    }

    fn half(&mut self, number: u16) -> &mut Self {
        self.bytes.extend(match self.big {
            true => number.to_be_bytes(),
            false => number.to_le_bytes(),
        });
        self
    }

    fn word(&mut self, number: u32) -> &mut Self {
        self.bytes.extend(match self.big {
            true => number.to_be_bytes(),
            false => number.to_le_bytes(),
        });
        self
    }

    fn long(&mut self, number: u64) -> &mut Self {
        self.bytes.extend(match self.big {
            true => number.to_be_bytes(),
            false => number.to_le_bytes(),
        });
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self
    }

    fn padded(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        let size = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(size, 0);
        self
    }
}

/// Builds a pcapng block.
pub fn block(kind: u32, big: bool, body: &[u8]) -> Vec<u8> {
    let length = 12 + body.len().next_multiple_of(4) as u32;
    let mut numbers = Numbers::new(big);
    numbers.word(kind).word(length).padded(body).word(length);
    numbers.bytes
}

/// Builds a whole file.
pub fn file(container: Container, link: u16, records: &[Record]) -> Vec<u8> {
    match container {
        Container::Pcap { nanoseconds, big } => {
            let mut out = Numbers::new(big);
            out.word(if nanoseconds {
                0xa1b2_3c4d
            } else {
                0xa1b2_c3d4
            });
            out.half(2)
                .half(4)
                .word(0)
                .word(0)
                .word(262_144)
                .word(u32::from(link));
            for record in records {
                let fraction = (record.at_us % 1_000_000) as u32;
                out.word((record.at_us / 1_000_000) as u32)
                    .word(if nanoseconds {
                        fraction * 1_000
                    } else {
                        fraction
                    })
                    .word(record.bytes.len() as u32)
                    .word(record.original)
                    .raw(&record.bytes);
            }
            out.bytes
        }
        Container::PcapNg { big, resolution } => {
            let mut section = Numbers::new(big);
            section.word(0x1a2b_3c4d).half(1).half(0).long(u64::MAX);
            let mut interface = Numbers::new(big);
            interface.half(link).half(0).word(0);
            interface
                .half(9)
                .half(1)
                .padded(&[resolution])
                .half(0)
                .half(0);
            let mut out = block(0x0a0d_0d0a, big, &section.bytes);
            out.extend(block(1, big, &interface.bytes));
            for record in records {
                let units = match resolution & 0x80 {
                    0 => record.at_us as u128 * 10u128.pow(u32::from(resolution)) / 1_000_000,
                    _ => ((record.at_us as u128) << (resolution & 0x7f)).div_ceil(1_000_000),
                };
                let mut packet = Numbers::new(big);
                packet
                    .word(0)
                    .word((units >> 32) as u32)
                    .word(units as u32)
                    .word(record.bytes.len() as u32)
                    .word(record.original)
                    .padded(&record.bytes);
                out.extend(block(6, big, &packet.bytes));
            }
            out
        }
    }
}

/// A TCP segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tcp {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub sequence: u32,
    pub acknowledges: Option<u32>,
    pub syn: bool,
    pub fin: bool,
    pub reset: bool,
    pub payload: Vec<u8>,
}

impl Tcp {
    /// Builds the packet from its IP header on.
    pub fn ip(&self) -> Vec<u8> {
        let mut tcp = Numbers::new(true);
        let flags = u8::from(self.fin)
            | u8::from(self.syn) << 1
            | u8::from(self.reset) << 2
            | u8::from(self.acknowledges.is_some()) << 4;
        tcp.half(self.from.port())
            .half(self.to.port())
            .word(self.sequence)
            .word(self.acknowledges.unwrap_or(0))
            // Twelve bytes of options, as Linux has them.
            .raw(&[8 << 4, flags, 0xff, 0xff, 0, 0, 0, 0])
            .raw(&[1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0])
            .raw(&self.payload);
        let mut out = Numbers::new(true);
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                out.raw(&[0x45, 0]).half(20 + tcp.bytes.len() as u16);
                out.raw(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
                out.raw(&from.octets()).raw(&to.octets());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                out.raw(&[0x60, 0, 0, 0])
                    .half(tcp.bytes.len() as u16)
                    .raw(&[6, 64]);
                out.raw(&from.octets()).raw(&to.octets());
            }
            _ => panic!("both of one version"),
        }
        out.raw(&tcp.bytes);
        out.bytes
    }
}

/// Adds the frame of this link type to an IP packet.
pub fn framed(link: u16, vlans: &[u16], ip: &[u8]) -> Vec<u8> {
    let v6 = ip[0] >> 4 == 6;
    let mut protocols: Vec<u16> = vlans.to_vec();
    protocols.push(if v6 { 0x86dd } else { 0x0800 });
    let mut out = Numbers::new(true);
    match link {
        1 => drop(out.raw(&[2; 12]).half(protocols[0])),
        113 => drop(
            out.raw(&[0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0])
                .half(protocols[0]),
        ),
        276 => drop(out.half(protocols[0]).raw(&[0; 18])),
        0 => drop(out.raw(&(if v6 { 30u32 } else { 2 }).to_le_bytes())),
        108 => drop(out.word(if v6 { 24 } else { 2 })),
        _ => (),
    }
    for inner in &protocols[1..] {
        out.half(7).half(*inner);
    }
    out.raw(ip);
    out.bytes
}

/// A turn of a conversation.
pub type Turn<'a> = (bool, &'a [u8]);

/// Builds a connection's packets, in order, each acknowledging all before it: the handshake, turns
/// (by the client if `true`) in segments of at most `segment` bytes, and the end.
pub fn talk(
    client: SocketAddr,
    server: SocketAddr,
    first: [u32; 2],
    turns: &[Turn<'_>],
    segment: usize,
) -> Vec<Tcp> {
    let mut next = first;
    let mut packets = Vec::new();
    let mut say = |by_client: bool, syn: bool, fin: bool, payload: &[u8]| {
        let (side, other) = if by_client { (0, 1) } else { (1, 0) };
        packets.push(Tcp {
            from: if by_client { client } else { server },
            to: if by_client { server } else { client },
            sequence: next[side],
            acknowledges: (!(syn && by_client)).then_some(next[other]),
            syn,
            fin,
            reset: false,
            payload: payload.to_vec(),
        });
        let numbers = payload.len() as u32 + u32::from(syn) + u32::from(fin);
        next[side] = next[side].wrapping_add(numbers);
    };
    say(true, true, false, b"");
    say(false, true, false, b"");
    say(true, false, false, b"");
    for (by_client, bytes) in turns {
        for piece in bytes.chunks(segment) {
            say(*by_client, false, false, piece);
        }
    }
    say(true, false, true, b"");
    say(false, false, true, b"");
    say(true, false, false, b"");
    packets
}

/// Wraps packets in Ethernet, a millisecond apart.
pub fn records(packets: &[Tcp], from_us: i64) -> Vec<Record> {
    let packets = packets.iter().enumerate();
    packets
        .map(|(at, tcp)| {
            let bytes = framed(1, &[], &tcp.ip());
            Record {
                at_us: from_us + 1_000 * at as i64,
                original: bytes.len() as u32,
                bytes,
            }
        })
        .collect()
}
