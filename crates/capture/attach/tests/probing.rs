//! The prober records real servers. It needs root or capabilities, and a kernel that allows eBPF programs. Tests
//! without them are skipped, unless `REHEARSE_TEST_ATTACH` is 1.

#![cfg(target_os = "linux")]

use capture_attach::prober::{self, ProberOptions, RING_BYTES_DEFAULT};
use capture_attach::record::{Record, RecordKind, RecordReader};
use capture_attach::server_process::ServerSelection;
use sandbox::{Endpoint, Sandbox, Stop};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Prober in a thread of this process.
struct Probing {
    stop: PipeWriter,
    records: RecordReader<PipeReader>,
    thread: JoinHandle<()>,
}

/// Record with its own data.
#[derive(Debug, Clone)]
struct OwnedRecord {
    kind: RecordKind,
    pid: u32,
    started: u64,
    offset: u64,
    existing: bool,
    data: Vec<u8>,
    totals: Option<(u64, u64)>,
}

impl From<Record<'_>> for OwnedRecord {
    fn from(record: Record<'_>) -> Self {
        OwnedRecord {
            kind: record.kind,
            pid: record.pid,
            started: record.backend_started,
            offset: record.offset,
            existing: record.existing,
            data: record.data.to_vec(),
            totals: record.totals(),
        }
    }
}

/// Starts a prober, and returns when its probes are attached. `None` if this host does not allow it.
fn attach(server: ServerSelection, ring_bytes: u32) -> Option<Probing> {
    let (input, stop) = io::pipe().unwrap();
    let (records, output) = io::pipe().unwrap();
    let options = ProberOptions { server, ring_bytes };
    let thread = thread::spawn(move || {
        // A failure is a record, too.
        let _ = prober::run(&options, input.as_fd(), output.as_fd());
    });
    let mut records = RecordReader::new(records);
    let first: OwnedRecord = records.next().unwrap().expect("a first record").into();
    if first.kind == RecordKind::Failed {
        let reason = String::from_utf8(first.data).unwrap();
        assert!(!test_support::is_set("REHEARSE_TEST_ATTACH"), "{reason}");
        test_support::report_skipped(&reason);
        return None;
    }
    assert_eq!(first.kind, RecordKind::Attached);
    Some(Probing {
        stop,
        records,
        thread,
    })
}

impl Probing {
    /// Reads records until one fits.
    fn wait_for(&mut self, kind: RecordKind) -> OwnedRecord {
        loop {
            let record = self.records.next().unwrap().expect("more records");
            if record.kind == kind {
                return record.into();
            }
        }
    }

    /// Ends the recording, and returns all further records.
    fn finish(mut self) -> Vec<OwnedRecord> {
        drop(self.stop);
        let mut all = Vec::new();
        while let Some(record) = self.records.next().unwrap() {
            all.push(record.into());
        }
        self.thread.join().unwrap();
        all
    }
}

/// Bytes of one direction of a process.
#[derive(Debug, Default)]
struct Stream {
    bytes: Vec<u8>,
    position: u64,
    lost: u64,
}

impl Stream {
    fn move_to(&mut self, position: u64) {
        self.lost += position - self.position;
        self.position = position;
    }
}

/// Joins records to the streams of each process: what it read, and what it wrote.
fn streams(records: &[OwnedRecord]) -> HashMap<u32, [Stream; 2]> {
    let mut all: HashMap<u32, [Stream; 2]> = HashMap::new();
    for record in records {
        let both = all.entry(record.pid).or_default();
        match record.kind {
            RecordKind::FromClient | RecordKind::ToClient => {
                let stream = &mut both[usize::from(record.kind == RecordKind::ToClient)];
                stream.move_to(record.offset);
                stream.bytes.extend(&record.data);
                stream.position += record.data.len() as u64;
            }
            RecordKind::Closed | RecordKind::Position => {
                let (read, written) = record.totals.unwrap();
                both[0].move_to(read);
                both[1].move_to(written);
            }
            _ => {}
        }
    }
    all
}

fn contains(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

fn by_directory(server: &Sandbox) -> ServerSelection {
    ServerSelection::DataDirectory(server.data_dir().into())
}

/// Runs a statement, and returns the number of the process that ran it, when that has ended.
fn ask(server: &Endpoint, sql: &str) -> u32 {
    let mut client = test_support::connect(server);
    client.batch_execute(sql).unwrap();
    let row = client.query_one("SELECT pg_backend_pid()", &[]).unwrap();
    let pid = u32::try_from(row.get::<_, i32>(0)).unwrap();
    drop(client);
    // The server reads the last message of the client after the client has closed the connection.
    let process = format!("/proc/{pid}");
    while std::path::Path::new(&process).exists() {
        thread::sleep(Duration::from_millis(5));
    }
    pid
}

#[test]
fn traffic_of_a_session_is_recorded_from_its_first_byte_to_its_last() {
    for major in test_support::versions(&[13, 18]) {
        let (server, endpoint) = test_support::server().major(*major).start();
        let Some(probing) = attach(by_directory(&server), RING_BYTES_DEFAULT) else {
            return;
        };
        // A row of this length is one write from version 17 on.
        let pid = ask(&endpoint, "SELECT repeat('abcdefgh', 100000)");
        let records = probing.finish();
        let streams = streams(&records);
        let [read, written] = &streams[&pid];
        assert_eq!((read.lost, written.lost), (0, 0));
        assert!(
            contains(&read.bytes[..8], "\0\x03\0\0"),
            "the start-up packet is first"
        );
        assert!(contains(&read.bytes, "SELECT repeat('abcdefgh', 100000)\0"));
        assert!(read.bytes.ends_with(b"X\0\0\0\x04"));
        assert!(contains(&written.bytes, &"abcdefgh".repeat(100_000)));
        assert!(written.bytes.starts_with(b"R"));
        let mut of_process = records.iter().filter(|record| record.pid == pid);
        assert!(of_process.clone().all(|record| !record.existing));
        assert_eq!(of_process.next_back().unwrap().kind, RecordKind::Closed);
    }
}

#[test]
fn second_server_of_the_same_executable_is_not_recorded() {
    let (server, endpoint) = test_support::server().start();
    let (_other_server, other_endpoint) = test_support::server().start();
    let Some(probing) = attach(by_directory(&server), RING_BYTES_DEFAULT) else {
        return;
    };
    let other = ask(&other_endpoint, "SELECT 1");
    let pid = ask(&endpoint, "SELECT 1");
    let streams = streams(&probing.finish());
    assert!(streams.contains_key(&pid));
    assert!(!streams.contains_key(&other));
}

#[test]
fn bytes_without_space_in_the_ring_buffer_are_counted_and_placed() {
    let (server, endpoint) = test_support::server().start();
    let Some(mut probing) = attach(by_directory(&server), 4096 * 64) else {
        return;
    };
    // The pipe is not read until the server has answered, so that it and the ring buffer are full.
    let pid = ask(
        &endpoint,
        "SELECT repeat('x', 1000) FROM generate_series(1, 20000)",
    );
    let after = ask(&endpoint, "SELECT 'after'");
    let mut first = Vec::new();
    while first
        .iter()
        .all(|record: &OwnedRecord| record.kind != RecordKind::Progress || record.offset == 0)
    {
        first.push(probing.records.next().unwrap().unwrap().into());
    }
    let last = ask(&endpoint, "SELECT 'last'");
    let records = [first, probing.finish()].concat();
    let counted = records
        .iter()
        .rfind(|record| record.kind == RecordKind::Progress)
        .unwrap()
        .offset;
    let streams = streams(&records);
    let lost = |pid: u32| {
        streams
            .get(&pid)
            .map_or(0, |both| both[0].lost + both[1].lost)
    };
    assert!(lost(pid) > 10_000_000, "{} bytes are lost", lost(pid));
    assert_eq!(streams.keys().map(|pid| lost(*pid)).sum::<u64>(), counted);
    let [_, written] = &streams[&pid];
    assert!(written.position > 20_000_000);
    assert!(
        streams.contains_key(&after),
        "the end of a session is never lost"
    );
    assert!(contains(&streams[&last][0].bytes, "SELECT 'last'"));
    let ends = records
        .iter()
        .filter(|record| record.kind == RecordKind::Closed);
    assert_eq!(ends.filter(|record| record.pid == pid).count(), 1);
}

#[test]
fn no_record_of_a_process_follows_that_of_its_end_although_bytes_are_lost() {
    let (server, endpoint) = test_support::server().start();
    let Some(mut probing) = attach(by_directory(&server), 4096 * 256) else {
        return;
    };
    let mut ended = HashSet::new();
    let positions = Cell::new(0);
    let mut check = |record: &OwnedRecord| {
        let process = (record.pid, record.started);
        match record.kind {
            RecordKind::Closed => assert!(ended.insert(process), "a second end of {process:?}"),
            RecordKind::Position => {
                positions.set(positions.get() + 1);
                assert!(
                    !ended.contains(&process),
                    "a count of {process:?} after its end"
                );
            }
            _ => (),
        }
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    ask(
                        &endpoint,
                        "SELECT repeat('x', 1000) FROM generate_series(1, 2000)",
                    );
                }
            });
        }
        // The pipe is read slowly, so that bytes are lost, and processes end while the prober writes.
        let mut number = 0;
        while number < 12_000 || (positions.get() == 0 && number < 100_000) {
            if number % 10 == 0 {
                thread::sleep(Duration::from_millis(5));
            }
            check(&probing.records.next().unwrap().unwrap().into());
            number += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    probing.finish().iter().for_each(&mut check);
    assert!(positions.get() > 0);
}

/// Waits until the server process of the only session waits for its next request.
fn wait_until_the_session_reads(endpoint: &Endpoint) {
    let mut other = test_support::connect(endpoint);
    let own = "SELECT pg_backend_pid()";
    let own: i32 = other.query_one(own, &[]).unwrap().get(0);
    let reads = "SELECT bool_and(coalesce(wait_event = 'ClientRead', false)) FROM pg_stat_activity \
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    while !other.query_one(reads, &[]).unwrap().get::<_, bool>(0) {
        thread::sleep(Duration::from_millis(5));
    }
    drop(other);
    while Path::new(&format!("/proc/{own}")).exists() {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn session_that_was_there_before_is_marked_and_counted_at_the_end() {
    let (server, endpoint) = test_support::server().start();
    let mut client = test_support::connect(&endpoint);
    wait_until_the_session_reads(&endpoint);
    let Some(probing) = attach(by_directory(&server), RING_BYTES_DEFAULT) else {
        return;
    };
    client.batch_execute("SELECT 'not seen'").unwrap();
    client.batch_execute("SELECT 'seen'").unwrap();
    let records = probing.finish();
    let of_session: Vec<_> = records.iter().filter(|record| record.existing).collect();
    let asked: Vec<_> = of_session
        .iter()
        .filter(|record| record.kind == RecordKind::FromClient)
        .collect();
    // The call of `secure_read` that waited when the probes were attached is not seen.
    assert_eq!(asked.len(), 1);
    assert!(contains(&asked[0].data, "SELECT 'seen'"));
    assert_eq!(asked[0].offset, 0);
    let last = of_session.last().unwrap();
    assert_eq!(last.kind, RecordKind::Position);
    assert_eq!(last.totals.unwrap().0, asked[0].data.len() as u64);
}

#[test]
fn restarted_server_is_recorded_again() {
    let (mut server, endpoint) = test_support::server().start();
    let Some(mut probing) = attach(by_directory(&server), RING_BYTES_DEFAULT) else {
        return;
    };
    server.stop(Stop::Fast).unwrap();
    probing.wait_for(RecordKind::Detached);
    server.start().unwrap();
    let postmaster = probing.wait_for(RecordKind::Attached).pid;
    let pid = ask(&endpoint, "SELECT 'again'");
    assert_ne!(postmaster, pid);
    let streams = streams(&probing.finish());
    assert!(contains(&streams[&pid][0].bytes, "SELECT 'again'"));
}

#[test]
fn two_probers_record_the_same_bytes() {
    let (server, endpoint) = test_support::server().start();
    let Some(one) = attach(by_directory(&server), RING_BYTES_DEFAULT) else {
        return;
    };
    let other = attach(by_directory(&server), RING_BYTES_DEFAULT).unwrap();
    let pid = ask(&endpoint, "SELECT 'twice'");
    let (one, other) = (streams(&one.finish()), streams(&other.finish()));
    assert!(contains(&one[&pid][0].bytes, "SELECT 'twice'"));
    assert_eq!(one[&pid][0].bytes, other[&pid][0].bytes);
    assert_eq!(one[&pid][1].bytes, other[&pid][1].bytes);
}

#[test]
fn server_that_does_not_run_is_an_error_that_lists_the_others() {
    let (server, _endpoint) = test_support::server().start();
    let directory = server.data_dir().to_owned();
    let found =
        capture_attach::server_process::find(&ServerSelection::DataDirectory(directory.clone()));
    // Another user's server is invisible without root.
    let Ok(found) = found else {
        test_support::report_skipped("servers run as another user");
        return;
    };
    assert_eq!(found.data_directory, directory);
    let by_pid = capture_attach::server_process::find(&ServerSelection::Pid(found.pid)).unwrap();
    assert_eq!(by_pid, found);
    let missing = ServerSelection::DataDirectory("/nowhere".into());
    let error = capture_attach::server_process::find(&missing)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("found no PostgreSQL server in /nowhere"),
        "{error}"
    );
    assert!(error.contains(&format!("process {}", found.pid)), "{error}");
}
