//! Tests the whole packet reader: the account of every packet, in any container, and the errors.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use capture_sink::EventCollector;
use capture_wire::pcap::{
    MalformedReason, OtherTraffic, PcapError, PcapOptions, PcapReport, capture, capture_reader,
};

mod packet_laws;
#[allow(dead_code)]
mod packets;

use packets::{CONTAINERS, Record, Tcp, file, framed, records, talk};

const START_US: i64 = 1_800_000_000_000_000;

fn options(files: &[PathBuf]) -> PcapOptions<'static> {
    PcapOptions {
        files: files.to_vec(),
        ports: vec![5432],
        ..PcapOptions::default()
    }
}

fn read(bytes: Vec<u8>) -> Result<PcapReport, PcapError> {
    capture_reader(
        Cursor::new(bytes),
        options(&[]),
        &mut EventCollector::default(),
    )
}

#[track_caller]
fn refused(bytes: impl Into<Vec<u8>>, words: &[&str]) {
    let error = read(bytes.into()).unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "{error}");
    }
}

/// Builds a message of the protocol.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend(body);
    out
}

/// Builds a session that sends `texts`, each answered by one row.
fn session(client_port: u16, first: [u32; 2], texts: &[&str], segment: usize) -> Vec<Tcp> {
    let mut startup = 196_608u32.to_be_bytes().to_vec();
    startup.extend(b"user\0app\0database\0shop\0\0");
    let mut start = (startup.len() as u32 + 4).to_be_bytes().to_vec();
    start.extend(startup);
    let ready = message(b'Z', b"I");
    let welcome = [
        message(b'R', &[0; 4]),
        message(b'K', &[0, 0, 0, 9, 1, 2, 3, 4]),
        ready.clone(),
    ];
    let mut turns = vec![(true, start), (false, welcome.concat())];
    for text in texts {
        let question = [text.as_bytes(), b"\0"].concat();
        turns.push((true, message(b'Q', &question)));
        let column = b"\0\x01id\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
        let answer = [
            message(b'T', column),
            message(b'D', b"\0\x01\0\0\0\x011"),
            message(b'C', b"SELECT 1\0"),
            ready.clone(),
        ];
        turns.push((false, answer.concat()));
    }
    turns.push((true, message(b'X', b"")));
    let turns: Vec<packets::Turn<'_>> = turns.iter().map(|(by, bytes)| (*by, &bytes[..])).collect();
    let client = ([10, 0, 0, 7], client_port).into();
    talk(client, ([10, 0, 0, 1], 5432).into(), first, &turns, segment)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn of_link(link: u16, vlans: &[u16], packets: &[Tcp]) -> Vec<Record> {
    let mut out = records(packets, START_US);
    for (record, tcp) in out.iter_mut().zip(packets) {
        record.bytes = framed(link, vlans, &tcp.ip());
        record.original = record.bytes.len() as u32;
    }
    out
}

#[test]
fn every_container_and_link_gives_the_same_account() {
    let packets = session(40_001, [7, u32::MAX - 20], &["select 1", "select 2"], 9);
    let mut first: Option<PcapReport> = None;
    for container in CONTAINERS {
        for link in [0, 1, 101, 108, 113, 276] {
            let vlans: &[u16] = if link == 1 { &[0x88a8, 0x8100] } else { &[] };
            let bytes = file(container, link, &of_link(link, vlans, &packets));
            let report = read(bytes).unwrap();
            let account = &report.account;
            assert!(account.adds_up());
            assert_eq!(account.segments, packets.len() as u64);
            assert_eq!((account.connections, account.from_the_start), (1, 1));
            assert_eq!((account.lost_bytes, account.open_at_the_end), (0, 0));
            let first = first.get_or_insert_with(|| report.clone());
            assert_eq!(first.account, report.account);
        }
    }
}

#[test]
fn every_kind_of_packet_is_counted() {
    let packets = session(40_001, [7, 9], &["select 1"], 500);
    let mut all = records(&packets, START_US);
    let other = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut record = all[3].clone();
        change(&mut record.bytes);
        record.original = record.bytes.len() as u32;
        record
    };
    let ip = 14;
    let odd = [
        other(&|bytes| bytes[ip + 9] = 17),
        other(&|bytes| bytes[ip + 20..ip + 24].fill(9)),
        other(&|bytes| bytes[12] = 9),
        other(&|bytes| bytes[ip + 6] = 0x20),
        other(&|bytes| bytes[ip] = 0x41),
        other(&|bytes| bytes.truncate(20)),
        Record {
            bytes: all[3].bytes[..30].to_vec(),
            ..all[3].clone()
        },
    ];
    // A snap length cuts the end of one, and the missing bytes count as lost.
    let cut = all[4].bytes.len() - 10;
    all[4].bytes.truncate(cut);
    let whole = all.len() as u64;
    all.extend(odd);
    let report = read(file(CONTAINERS[0], 1, &all)).unwrap();
    let account = &report.account;
    assert!(account.adds_up());
    assert_eq!(account.packets, whole + 7);
    assert_eq!((account.segments, account.segments_cut), (whole - 1, 1));
    assert_eq!((account.headers_cut, account.fragments), (1, 1));
    let passed = [
        OtherTraffic::OtherPort,
        OtherTraffic::NotTcp,
        OtherTraffic::NotIp,
    ]
    .map(|kind| (kind, 1));
    assert_eq!(account.passed, passed.into());
    let malformed = [MalformedReason::TooShort, MalformedReason::Length].map(|kind| (kind, 1));
    assert_eq!(account.malformed, malformed.into());
    assert_eq!((account.lost_bytes, account.gaps), (10, 1));
}

#[test]
fn several_files_are_one_in_the_order_of_time() {
    let packets = session(40_001, [7, 9], &["select 1", "select 2", "select 3"], 500);
    let all = records(&packets, START_US);
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    // Consecutive files, given in another order, one of them compressed.
    let files = [
        write("c.pcapng.gz", &gzip(&file(CONTAINERS[7], 1, &all[10..]))),
        write("a.pcap", &file(CONTAINERS[0], 1, &all[..4])),
        write("b.pcap", &file(CONTAINERS[2], 1, &all[4..10])),
        write("empty.pcap", &file(CONTAINERS[0], 1, &[])),
    ];
    let mut collected = EventCollector::default();
    let report = capture(options(&files), &mut collected).unwrap();
    let whole = read(file(CONTAINERS[0], 1, &all)).unwrap();
    assert_eq!(report.account, whole.account);
    assert_eq!(report.account.waited, 0);
    let named = |source: &capture_wire::pcap::PcapSource| {
        let name = Path::new(&source.file.name).file_name().unwrap();
        (name.to_str().unwrap().to_owned(), source.packets)
    };
    let names: Vec<_> = report.sources.iter().map(named).collect();
    let rest = all.len() as u64 - 10;
    let expected = [
        ("a.pcap", 4),
        ("b.pcap", 6),
        ("c.pcapng.gz", rest),
        ("empty.pcap", 0),
    ];
    assert_eq!(
        names,
        expected.map(|(name, packets)| (name.to_owned(), packets))
    );
    // Files of the same time, as of two interfaces: merged packet by packet.
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for (at, record) in all.iter().enumerate() {
        if at % 3 == 0 { &mut one } else { &mut other }.push(record.clone());
    }
    let files = [
        write("one.pcap", &file(CONTAINERS[1], 1, &one)),
        write("other.pcap", &file(CONTAINERS[5], 1, &other)),
    ];
    let merged = capture(options(&files), &mut collected).unwrap();
    assert_eq!(merged.account, whole.account);
}

#[test]
fn a_file_that_is_cut_is_read_and_named() {
    let packets = session(40_001, [7, 9], &["select 1"], 500);
    let bytes = file(CONTAINERS[0], 1, &records(&packets, START_US));
    let report = read(bytes[..bytes.len() - 5].to_vec()).unwrap();
    assert_eq!(report.account.packets, packets.len() as u64 - 1);
    let damage = report.sources[0].damage.as_ref().unwrap();
    assert!(damage.contains("ends within a packet"), "{damage}");
    // If the file is compressed, the compression is truncated.
    let mut zstd = zstd::stream::encode_all(&bytes[..], 0).unwrap();
    zstd.truncate(zstd.len() - 8);
    match read(zstd) {
        Ok(report) => assert!(report.sources[0].damage.as_ref().unwrap().contains("zstd")),
        Err(error) => assert!(error.to_string().contains("zstd"), "{error}"),
    }
}

#[test]
fn packet_file_that_is_damaged_is_read_up_to_there_and_named() {
    let packets = session(40_001, [7, 9], &["select 1"], 500);
    let all = records(&packets, START_US);
    for (container, claimed) in [
        (CONTAINERS[0], 16 + u64::from(u32::MAX)),
        (CONTAINERS[4], u64::from(u32::MAX)),
    ] {
        let bytes = file(container, 1, &all);
        let whole = read(bytes.clone()).unwrap();
        assert_eq!(read(gzip(&bytes)).unwrap().account, whole.account);

        let garbage = [&bytes[..], &[0xff; 64]].concat();
        let place = format!("after packet {}, at byte {}", all.len(), bytes.len());
        let length = format!("a record of {claimed} bytes");
        for damaged in [gzip(&garbage), garbage] {
            let report = read(damaged).unwrap();
            assert_eq!(report.account, whole.account);
            let damage = report.sources[0].damage.as_ref().unwrap();
            assert!(
                damage.contains(&place) && damage.contains(&length),
                "{damage}"
            );
        }

        let compressed = gzip(&bytes);
        let report = read(compressed[..compressed.len() - 8].to_vec()).unwrap();
        let damage = report.sources[0].damage.as_ref().unwrap();
        assert!(damage.contains("gzip data ends too early"), "{damage}");
    }
    refused(
        gzip(b"2026-01-01 00:00:00 LOG: x\n"),
        &["no packet file", "capture log"],
    );
    let mut section = file(CONTAINERS[4], 1, &all);
    section[4..8].fill(0xff);
    refused(section, &["has no packets", "a record of 42949672"]);
}

#[test]
fn what_cannot_be_is_one_sentence() {
    refused(
        &b"2026-01-01 00:00:00 LOG: x\n"[..],
        &["no packet file", "capture log"],
    );
    refused(
        &b"PK\x03\x04 and so on and so on and on"[..],
        &["zip", "unpack"],
    );
    refused(
        &b"\x34\xcd\xb2\xa1 and so on and so on and on"[..],
        &["editcap"],
    );
    refused(&b""[..], &["has no packets", "empty"]);
    refused(file(CONTAINERS[0], 1, &[]), &["has no packets", "tcpdump"]);
    let packets = session(40_001, [7, 9], &["select 1"], 500);
    let mut records = records(&packets, START_US);
    let bytes = file(CONTAINERS[0], 147, &records);
    refused(bytes, &["link type", "tcpdump -i any"]);
    for record in &mut records {
        let to_server = record.bytes[14 + 22..14 + 24] == 5432u16.to_be_bytes();
        let at = 14 + if to_server { 22 } else { 20 };
        record.bytes[at..at + 2].copy_from_slice(&6432u16.to_be_bytes());
    }
    let busiest = format!("6432, with {} packets", records.len());
    refused(
        file(CONTAINERS[0], 1, &records),
        &["port 5432", &busiest, "--port 6432"],
    );
    let missing = capture(
        options(&["/nowhere.pcap".into()]),
        &mut EventCollector::default(),
    );
    let error = missing.unwrap_err().to_string();
    assert!(
        error.contains("/nowhere.pcap") && error.contains("tcpdump -w"),
        "{error}"
    );
}

#[test]
fn the_fuzzers_corpus_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/pcap");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        packet_laws::any_bytes(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 20, "{files}");
}
