use super::*;

use super::super::packets::{Tcp, framed};

fn segment(v6: bool) -> Tcp {
    let address = |host: u8, port: u16| match v6 {
        false => SocketAddr::from(([10, 0, 0, host], port)),
        true => SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)], port)),
    };
    Tcp {
        from: address(7, 40_001),
        to: address(1, 5432),
        sequence: 0xdead_beef,
        acknowledges: Some(77),
        syn: false,
        fin: true,
        reset: false,
        payload: b"hello".to_vec(),
    }
}

#[track_caller]
fn found(link: u16, bytes: &[u8], original: usize) -> Segment<'_> {
    match parse_packet(Link::of(link), bytes, original as u64) {
        PacketContent::Segment(segment) => segment,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_link_layer_leads_to_the_payload() {
    for v6 in [false, true] {
        let tcp = segment(v6);
        for link in [0, 1, 12, 14, 101, 108, 113, 276, 228, 229] {
            let vlans: &[&[u16]] = match link {
                1 => &[&[], &[0x8100], &[0x88a8, 0x8100], &[0x9200, 0x8100]],
                113 | 276 => &[&[], &[0x8100]],
                _ => &[&[]],
            };
            for vlans in vlans {
                let mut bytes = framed(link, vlans, &tcp.ip());
                // An Ethernet frame has a minimum length; its padding is no payload.
                bytes.extend([0; 6]);
                let seen = found(link, &bytes, bytes.len());
                assert_eq!((seen.from, seen.to), (tcp.from, tcp.to), "{link}");
                assert_eq!((seen.sequence, seen.acknowledges), (0xdead_beef, Some(77)));
                assert_eq!((seen.syn, seen.fin, seen.reset), (false, true, false));
                assert_eq!((seen.payload, seen.cut), (&b"hello"[..], 0), "{link}");
            }
        }
    }
    let ip = segment(false).ip();
    assert_eq!(
        parse_packet(Link::of(147), &ip, ip.len() as u64),
        PacketContent::Passed(OtherTraffic::UnknownLink)
    );
}

#[test]
fn what_was_cut_is_known() {
    for v6 in [false, true] {
        let tcp = segment(v6);
        let bytes = framed(1, &[], &tcp.ip());
        let whole = bytes.len();
        for length in 0..whole {
            let seen = parse_packet(Link::Ethernet, &bytes[..length], whole as u64);
            let missing = whole - length;
            match seen {
                PacketContent::Segment(segment) => {
                    assert!(length >= whole - 5 - 32 + 14);
                    assert_eq!(segment.cut as usize, missing.min(5));
                    assert_eq!(segment.payload, &b"hello"[..5 - missing.min(5)]);
                }
                // The options of TCP do not matter.
                seen => {
                    assert_eq!(seen, PacketContent::HeadersCut);
                    assert!(length < whole - 5 - 12);
                }
            }
            // The same bytes as a whole frame are malformed.
            let seen = parse_packet(Link::Ethernet, &bytes[..length], length as u64);
            assert!(
                matches!(seen, PacketContent::Malformed(_)),
                "{length}: {seen:?}"
            );
        }
    }
}

#[test]
fn offload_has_no_length_in_the_header() {
    let mut tcp = segment(false);
    tcp.payload = vec![3; 1_000];
    let mut bytes = tcp.ip();
    bytes[2..4].fill(0);
    let seen = found(101, &bytes, bytes.len());
    assert_eq!((seen.payload.len(), seen.cut), (1_000, 0));
    let mut bytes = segment(true).ip();
    bytes[4..6].fill(0);
    assert_eq!(found(101, &bytes, bytes.len()).payload, b"hello");
}

#[test]
fn other_traffic_is_told() {
    let mut udp = segment(false).ip();
    udp[9] = 17;
    let length = udp.len() as u64;
    assert_eq!(
        parse_packet(Link::Raw, &udp, length),
        PacketContent::Passed(OtherTraffic::NotTcp)
    );
    let mut arp = framed(1, &[], &segment(false).ip());
    arp[12..14].copy_from_slice(&[8, 6]);
    let length = arp.len() as u64;
    assert_eq!(
        parse_packet(Link::Ethernet, &arp, length),
        PacketContent::Passed(OtherTraffic::NotIp)
    );
    for (at, value) in [(6, 0x20), (7, 1)] {
        let mut fragment = segment(false).ip();
        fragment[at] = value;
        let length = fragment.len() as u64;
        assert_eq!(
            parse_packet(Link::Raw, &fragment, length),
            PacketContent::Fragment
        );
    }
    for (at, value) in [(0, 0x41), (2, 0xff), (32, 0x10)] {
        let mut wrong = segment(false).ip();
        wrong[at] = value;
        let length = wrong.len() as u64;
        assert_eq!(
            parse_packet(Link::Raw, &wrong, length),
            PacketContent::Malformed(MalformedReason::Length)
        );
    }
}

#[test]
fn extension_headers_are_followed() {
    let plain = segment(true).ip();
    let with = |headers: &[(u8, &[u8])]| -> Vec<u8> {
        let mut out = plain[..40].to_vec();
        let length = plain.len() - 40 + headers.iter().map(|(_, body)| body.len()).sum::<usize>();
        out[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        out[6] = headers[0].0;
        for (at, (_, body)) in headers.iter().enumerate() {
            let start = out.len();
            out.extend(*body);
            out[start] = headers.get(at + 1).map_or(6, |(kind, _)| *kind);
        }
        out.extend(&plain[40..]);
        out
    };
    let hop = [0; 8];
    let mut options = [0; 16];
    options[1] = 1;
    let mut authentication = [0; 24];
    authentication[1] = 4;
    let whole = [0; 8];
    let bytes = with(&[
        (0, &hop),
        (60, &options),
        (51, &authentication),
        (44, &whole),
    ]);
    assert_eq!(found(101, &bytes, bytes.len()).payload, b"hello");
    let part = [0, 0, 0, 1, 0, 0, 0, 9];
    let bytes = with(&[(44, &part)]);
    let length = bytes.len() as u64;
    assert_eq!(
        parse_packet(Link::Raw, &bytes, length),
        PacketContent::Fragment
    );
    let bytes = with(&[(50, &hop)]);
    assert_eq!(
        parse_packet(Link::Raw, &bytes, length),
        PacketContent::Passed(OtherTraffic::NotTcp)
    );
}
