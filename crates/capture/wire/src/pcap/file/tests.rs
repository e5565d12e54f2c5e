use std::io::Cursor;

use super::*;

use super::super::packets::{CONTAINERS, Container, Record, block, file};

fn some(count: usize) -> Vec<Record> {
    let record = |at: usize| {
        let bytes = vec![at as u8; (at * 7_919) % 70_000];
        Record {
            at_us: 1_800_000_000_000_123 + at as i64 * 999_983,
            original: (bytes.len() + at % 3) as u32,
            bytes,
        }
    };
    (0..count).map(record).collect()
}

/// A reader that returns few bytes at a time.
struct Slow(Cursor<Vec<u8>>);

impl Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = into.len().min(4_093);
        self.0.read(&mut into[..length])
    }
}

fn read(bytes: Vec<u8>) -> (Vec<Record>, PacketFile) {
    let Ok(mut file) = PacketFile::open(Box::new(Slow(Cursor::new(bytes)))) else {
        panic!("no packet file");
    };
    let mut records = Vec::new();
    while let Some(packet) = file.packet() {
        assert_eq!(packet.link, Link::Ethernet);
        records.push(Record {
            at_us: packet.at_us,
            bytes: packet.bytes.to_vec(),
            original: packet.original as u32,
        });
        file.advance().unwrap();
    }
    (records, file)
}

fn damage(file: &PacketFile) -> String {
    file.damage().map_or_else(String::new, Damage::to_string)
}

#[test]
fn every_container_gives_the_same_packets() {
    let records = some(60);
    for container in CONTAINERS {
        let bytes = file(container, 1, &records);
        let size = bytes.len() as u64;
        let (read, file) = read(bytes);
        assert!(read == records, "{container:?}");
        assert_eq!(file.damage(), None);
        assert_eq!((file.packets(), file.bytes()), ((60, 0), size));
        let name = matches!(container, Container::PcapNg { .. });
        assert_eq!(file.format(), if name { "pcapng" } else { "pcap" });
    }
}

#[test]
fn a_file_that_was_cut_is_read_up_to_there_and_says_where() {
    let records = some(5);
    for container in CONTAINERS {
        let bytes = file(container, 1, &records);
        let whole = |count: usize| file(container, 1, &records[..count]).len();
        for length in (0..bytes.len()).step_by(97) {
            let expected = (0..=5).rev().find(|count| whole(*count) <= length);
            let (read, file) = read(bytes[..length].to_vec());
            let expected = expected.unwrap_or(0);
            assert_eq!(read[..], records[..expected]);
            let said = damage(&file);
            match length == whole(expected) {
                true => assert_eq!(said, ""),
                false if length == 0 => assert_eq!(said, "it is empty"),
                false => assert!(said.contains("ends within"), "{length} {said}"),
            }
            if expected > 0 && !said.is_empty() {
                let place = format!("after packet {expected} at byte {}", whole(expected));
                assert!(said.contains(&place), "{said}");
            }
        }
    }
}

#[test]
fn a_length_alone_makes_no_memory() {
    let head = file(CONTAINERS[0], 1, &some(3));
    for claimed in [RECORD_BYTES_MAX as u32, u32::MAX] {
        let mut bytes = head.clone();
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(claimed.to_le_bytes());
        bytes.extend(claimed.to_le_bytes());
        let (read, file) = read(bytes);
        assert_eq!(read.len(), 3);
        assert!(
            file.window.len() <= 4 * WINDOW_BYTES,
            "{}",
            file.window.len()
        );
        let said = damage(&file);
        assert!(said.contains("after packet 3"), "{said}");
    }
}

#[test]
fn blocks_that_are_no_packets_are_passed_over() {
    for big in [false, true] {
        let word = |number: u32| match big {
            true => number.to_be_bytes(),
            false => number.to_le_bytes(),
        };
        let container = Container::PcapNg { big, resolution: 6 };
        let records = some(2);
        let mut bytes = file(container, 1, &records);
        // Names, an unknown block, a packet without a time, and a count of dropped packets.
        bytes.extend(block(4, big, &[0; 8]));
        bytes.extend(block(0x0bad_cafe, big, &[1; 13]));
        bytes.extend(block(3, big, &[word(2), [9, 9, 0, 0]].concat()));
        let option = match big {
            true => [0, 5, 0, 8, 0, 0, 0, 0, 0, 0, 0, 42],
            false => [5, 0, 8, 0, 42, 0, 0, 0, 0, 0, 0, 0],
        };
        bytes.extend(block(5, big, &[&[0; 12][..], &option].concat()));
        // A second section of the other byte order.
        let other = Container::PcapNg {
            big: !big,
            resolution: 9,
        };
        bytes.extend(file(other, 1, &records));
        let (read, file) = read(bytes);
        assert_eq!(read, [records.clone(), records].concat());
        assert_eq!((file.packets(), file.dropped()), ((4, 1), 42));
        assert_eq!(file.damage(), None);
    }
}

#[test]
fn a_block_that_cannot_be_ends_the_file_and_is_named() {
    let container = Container::PcapNg {
        big: false,
        resolution: 6,
    };
    let good = file(container, 1, &some(1));
    let interface = |number: u32| {
        let mut body = number.to_le_bytes().to_vec();
        body.extend([0; 8]);
        body.extend(4u32.to_le_bytes());
        body.extend(4u32.to_le_bytes());
        body.extend([1; 4]);
        body
    };
    let mut longer = interface(0);
    longer[12] = 200;
    let mut wrong_end = block(6, false, &interface(0));
    let end = wrong_end.len() - 4;
    wrong_end[end] += 4;
    for (block, word) in [
        (block(6, false, &interface(7)), "cannot be decoded"),
        (block(6, false, &longer), "cannot be decoded"),
        (block(6, false, &[0; 4]), "cannot be decoded"),
        (block(1, false, &[0; 4]), "cannot be decoded"),
        (block(2, false, &interface(0)), "editcap"),
        (block(0x0a0d_0d0a, false, &[7; 16]), "cannot be decoded"),
        (
            vec![9, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0],
            "cannot be decoded",
        ),
        (wrong_end, "cannot be decoded"),
    ] {
        let (read, file) = read([good.clone(), block, good.clone()].concat());
        assert_eq!(read.len(), 1);
        let said = damage(&file);
        assert!(said.contains(word) && said.contains("packet 1"), "{said}");
    }
}

#[test]
fn offsets_of_time_and_drop_counts_follow_the_byte_order_of_their_section() {
    for big in [false, true] {
        let number = |number: u64, bytes: usize| match big {
            true => number.to_be_bytes()[8 - bytes..].to_vec(),
            false => number.to_le_bytes()[..bytes].to_vec(),
        };
        let option =
            |code: u64, value: u64| [number(code, 2), number(8, 2), number(value, 8)].concat();
        let section = [
            number(0x1a2b_3c4d, 4),
            number(1, 2),
            number(0, 2),
            vec![0xff; 8],
        ]
        .concat();
        let interface = [number(1, 2), number(0, 6), option(14, 1_800_000_000)].concat();
        // Its resolution is a microsecond if it does not state one.
        let packet = [number(0, 8), number(123, 4), number(0, 8)].concat();
        let statistics = [number(0, 4), number(0, 8), option(5, 40), option(7, 2)].concat();
        let blocks = [
            block(0x0a0d_0d0a, big, &section),
            block(1, big, &interface),
            block(6, big, &packet),
            block(5, big, &statistics),
        ];
        let (read, file) = read(blocks.concat());
        assert_eq!(damage(&file), "");
        assert_eq!(read[0].at_us, 1_800_000_000_000_123);
        assert_eq!(file.dropped(), 42);
    }
}

#[test]
fn times_that_cannot_be_are_the_nearest_that_can() {
    let mut body = [0; 20].to_vec();
    body[4..12].fill(0xff);
    // The largest offset of seconds, in either direction.
    for (offset, expected) in [(i64::MAX, TIME_US_MAX), (i64::MIN, 0)] {
        let mut interface = [1, 0, 0, 0, 0, 0, 0, 0].to_vec();
        interface.extend([9, 0, 1, 0, 6, 0, 0, 0, 14, 0, 8, 0]);
        interface.extend(offset.to_le_bytes());
        let section = [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
        let blocks = [
            block(0x0a0d_0d0a, false, &section),
            block(1, false, &interface),
            block(6, false, &body),
        ];
        let (read, _) = read(blocks.concat());
        assert_eq!(read[0].at_us, expected);
    }
}
