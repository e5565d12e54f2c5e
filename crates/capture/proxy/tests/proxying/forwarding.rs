//! Tests that the traffic is unchanged: with real servers, and with endpoints that are slow, half
//! closed or gone.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use capture_proxy::ListenAddress;
use postgres::{Client, NoTls};

use super::raw::Raw;
use super::recordings::{PATIENCE, RecordingStore, Wish, server, until};

/// Returns everything that a client can see of a busy session, as one text.
fn a_session(client: &mut Client, table: &str) -> String {
    let mut seen = String::new();
    client
        .batch_execute(&format!(
            "DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (a int, b text)"
        ))
        .unwrap();
    let mut copy = client.copy_in(&format!("COPY {table} FROM STDIN")).unwrap();
    for number in 0..50_000 {
        writeln!(copy, "{number}\trow {number}").unwrap();
    }
    let rows = copy.finish().unwrap();
    seen.push_str(&format!("{rows} copied\n"));
    let mut out = Vec::new();
    client
        .copy_out(&format!("COPY {table} TO STDOUT"))
        .unwrap()
        .read_to_end(&mut out)
        .unwrap();
    seen.push_str(&String::from_utf8(out).unwrap());
    // About 30 MB of different rows.
    let rows = client
        .query(
            "SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, $1::int) g",
            &[&30_000],
        )
        .unwrap();
    for row in rows {
        let (number, text): (i32, String) = (row.get(0), row.get(1));
        seen.push_str(&format!("{number} {text}\n"));
    }
    let notice = client.batch_execute("DO $$ BEGIN RAISE NOTICE 'said'; END $$");
    seen.push_str(&format!("{notice:?}\n"));
    let error = client.query("SELECT 1 / $1::int", &[&0]).unwrap_err();
    seen.push_str(&format!("{:?}\n", error.as_db_error().map(|db| db.code())));
    let error = client.batch_execute("SELECT no such thing").unwrap_err();
    seen.push_str(&format!("{:?}\n", error.as_db_error().map(|db| db.code())));
    seen
}

#[test]
fn a_client_sees_the_same_with_and_without_it() {
    for (major, threads, by_ring) in [(13, 1, false), (18, 2, true)] {
        let endpoint = server(major);
        let mut direct = Client::connect(&endpoint.url("postgres"), NoTls).unwrap();
        let expected = a_session(&mut direct, "seen_directly");
        let kept = RecordingStore::default();
        let mut wish = Wish::to(&endpoint.url("postgres"));
        wish.threads = threads;
        wish.by_ring = by_ring;
        // A debug build reads slowly; no copy is to be dropped here.
        wish.buffer_bytes = 1 << 30;
        let proxy = wish.start(kept.opening());
        proxy.record();
        let tables = ["seen_through_a", "seen_through_b", "seen_through_c"];
        std::thread::scope(|scope| {
            for table in tables {
                let (proxy, expected) = (&proxy, &expected);
                scope.spawn(move || {
                    let seen = a_session(&mut proxy.client(), table);
                    assert!(seen == *expected, "PostgreSQL {major}: {table} differs");
                });
            }
        });
        let status = proxy.end();
        assert_eq!(status.lost_bytes, 0);
        assert!(status.server_bytes > 90_000_000, "{}", status.server_bytes);
        let statements = kept.statements();
        for table in tables {
            let copy = format!("COPY {table} FROM STDIN");
            assert!(statements.contains(&copy), "PostgreSQL {major}: {copy}");
        }
    }
}

#[test]
fn unix_sockets_lead_in_and_out() {
    let endpoint = server(18);
    let directory = tempfile::tempdir().unwrap();
    let kept = RecordingStore::default();
    let mut wish = Wish::to(&endpoint.socket_url("postgres").unwrap());
    wish.listen = ListenAddress::parse(directory.path().to_str().unwrap()).unwrap();
    let proxy = wish.start(kept.opening());
    proxy.record();
    let given = format!(
        "host={} user=postgres dbname=postgres",
        directory.path().display()
    );
    let mut client = Client::connect(&given, NoTls).unwrap();
    let row = client
        .query_one("SELECT inet_client_addr() IS NULL", &[])
        .unwrap();
    assert!(row.get::<_, bool>(0));
    drop(client);
    proxy.end();
    assert_eq!(
        kept.collected.lock().unwrap().sessions[0].client.as_ref(),
        "[local]"
    );
    assert!(!directory.path().join(".s.PGSQL.5432").exists());
}

#[test]
fn a_cancel_reaches_what_it_is_for() {
    let kept = RecordingStore::default();
    let proxy = Wish::to(&server(18).url("postgres")).start(kept.opening());
    proxy.record();
    let mut client = proxy.client();
    let token = client.cancel_token();
    let canceller = std::thread::spawn(move || {
        // Repeatedly, since the server may not have begun the query yet.
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(50));
            token.cancel_query(NoTls).unwrap();
        }
    });
    let error = client.batch_execute("SELECT pg_sleep(300)").unwrap_err();
    assert_eq!(error.code().unwrap().code(), "57014");
    drop(client);
    canceller.join().unwrap();
    // The client does not wait until its request has been forwarded.
    until("all requests to have passed", || {
        let status = proxy.proxy().status();
        status.accepted == 101 && status.connections == 0
    });
    let status = proxy.end();
    let account = &status.capture.finished[0].account.conversation;
    assert_eq!(account.cancels, 100);
}

/// Starts an upstream that runs a function with its first connection.
fn upstream(
    serve: impl FnOnce(TcpStream) + Send + 'static,
) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        serve(stream);
    });
    let url = format!("postgres://{address}?sslmode=disable");
    (url, thread)
}

fn numbered(count: usize) -> Vec<u8> {
    (0..count).map(|place| (place % 251) as u8).collect()
}

fn skip_start_up(stream: &mut TcpStream) {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut rest).unwrap();
}

fn what_is_sent_to_a_slow_reader_waits_at_its_source(by_ring: bool) {
    const ALL: usize = 200 << 20;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let (url, thread) = upstream(move |mut stream| {
        skip_start_up(&mut stream);
        let piece = numbered(251 * 1024);
        let mut left = ALL;
        while left > 0 {
            let written = stream.write(&piece[..piece.len().min(left)]).unwrap();
            // Whole pieces, so that the received bytes can be checked.
            stream
                .write_all(&piece[written..piece.len().min(left)])
                .unwrap();
            left -= piece.len().min(left);
            counted.store(ALL - left, Ordering::SeqCst);
        }
    });
    let wish = Wish::to(&url).by_ring(by_ring);
    let proxy = wish.start(RecordingStore::default().opening());
    let mut client = Raw::connect(proxy.address());
    client.begin("a", &[]);
    // The socket buffers of three programs, and little more.
    let mut before = usize::MAX;
    until("it waits", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = sent.load(Ordering::SeqCst);
        std::mem::replace(&mut before, now) == now && now > 0
    });
    assert!(before < 60 << 20, "{before} bytes were taken for nobody");
    let expected = numbered(251 * 1024);
    let mut buffer = vec![0; 1 << 20];
    let mut received = 0;
    loop {
        let read = client.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        for byte in &buffer[..read] {
            assert!(
                *byte == expected[received % expected.len()],
                "byte {received}"
            );
            received += 1;
        }
    }
    assert_eq!(received, ALL);
    thread.join().unwrap();
}

fn a_client_that_has_said_all_still_gets_the_answer(by_ring: bool) {
    let (url, thread) = upstream(|mut stream| {
        skip_start_up(&mut stream);
        let mut said = Vec::new();
        // Up to the client's end, which must be forwarded.
        stream.read_to_end(&mut said).unwrap();
        assert_eq!(said, numbered(3 << 20));
        stream.write_all(&numbered(5 << 20)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    });
    let wish = Wish::to(&url).by_ring(by_ring);
    let proxy = wish.start(RecordingStore::default().opening());
    let mut client = Raw::connect(proxy.address());
    client.begin("a", &[]);
    client.send(&numbered(3 << 20));
    client.end_writing();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer == numbered(5 << 20));
    thread.join().unwrap();
    until("it is closed", || proxy.proxy().status().connections == 0);
}

fn a_server_that_goes_takes_its_last_words_along(by_ring: bool) {
    let (url, thread) = upstream(|mut stream| {
        skip_start_up(&mut stream);
        stream.write_all(b"the last words").unwrap();
        // With the client's bytes unread, this resets the connection.
    });
    let wish = Wish::to(&url).by_ring(by_ring);
    let proxy = wish.start(RecordingStore::default().opening());
    let mut client = Raw::connect(proxy.address());
    client.begin("a", &[]);
    let mut words = [0; 14];
    client.read_exact(&mut words).unwrap();
    assert_eq!(&words, b"the last words");
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    drop(client);
    thread.join().unwrap();
    until("it is closed", || proxy.proxy().status().connections == 0);
}

fn a_client_that_goes_is_missed_by_the_server(by_ring: bool) {
    let (url, thread) = upstream(|mut stream| {
        skip_start_up(&mut stream);
        let _ = stream.read_to_end(&mut Vec::new());
        // More than the socket buffers: it ends when it learns that the reader is gone.
        let piece = numbered(1 << 20);
        assert!((0..1000).any(|_| stream.write_all(&piece).is_err()));
    });
    let wish = Wish::to(&url).by_ring(by_ring);
    let proxy = wish.start(RecordingStore::default().opening());
    let mut client = Raw::connect(proxy.address());
    client.begin("a", &[]);
    client.send(b"asked and gone");
    until("it is forwarded", || {
        proxy.proxy().status().client_bytes > 40
    });
    drop(client);
    thread.join().unwrap();
    until("it is closed", || proxy.proxy().status().connections == 0);
}

#[test]
fn what_replicates_passes_and_is_not_captured() {
    let kept = RecordingStore::default();
    let proxy = Wish::to(&server(18).url("postgres")).start(kept.opening());
    proxy.record();
    let mut client = Raw::connect(proxy.address());
    client.begin_as_superuser(&[("replication", "database")]);
    client.query("IDENTIFY_SYSTEM");
    let answer = client.until_ready();
    assert!(answer.iter().any(|(tag, _)| *tag == b'D'), "{answer:?}");
    drop(client);
    until("it is closed", || proxy.proxy().status().connections == 0);
    let status = proxy.end();
    let account = &status.capture.finished[0].account;
    assert!(account.passed_bytes > 100, "{account:?}");
    assert_eq!(account.conversation.unreadable.len(), 1, "{account:?}");
    assert!(kept.statements().is_empty());
}

/// By io_uring if the system has it, and by epoll.
mod by_ring {
    #[test]
    fn what_is_sent_to_a_slow_reader_waits_at_its_source() {
        super::what_is_sent_to_a_slow_reader_waits_at_its_source(true);
    }

    #[test]
    fn a_client_that_has_said_all_still_gets_the_answer() {
        super::a_client_that_has_said_all_still_gets_the_answer(true);
    }

    #[test]
    fn a_server_that_goes_takes_its_last_words_along() {
        super::a_server_that_goes_takes_its_last_words_along(true);
    }

    #[test]
    fn a_client_that_goes_is_missed_by_the_server() {
        super::a_client_that_goes_is_missed_by_the_server(true);
    }
}

mod by_epoll {
    #[test]
    fn what_is_sent_to_a_slow_reader_waits_at_its_source() {
        super::what_is_sent_to_a_slow_reader_waits_at_its_source(false);
    }

    #[test]
    fn a_client_that_has_said_all_still_gets_the_answer() {
        super::a_client_that_has_said_all_still_gets_the_answer(false);
    }

    #[test]
    fn a_server_that_goes_takes_its_last_words_along() {
        super::a_server_that_goes_takes_its_last_words_along(false);
    }

    #[test]
    fn a_client_that_goes_is_missed_by_the_server() {
        super::a_client_that_goes_is_missed_by_the_server(false);
    }
}
