//! Measures the cost of decoding and recording: `cargo run --release -p capture-wire --example
//! wire_speed -- DIRECTORY [MILLIONS] [simple|prepared]`.
//!
//! Passes the traffic of `pgbench -S` over 8 and 64 connections to the decoder, in simple and in
//! prepared mode, in pieces as a proxy reads them. Prints the CPU time a statement, of all threads:
//! with events only counted, and with a workload written that is checkpointed every half second of
//! its time. There is no server, no socket and no other process, so a proxy's total is higher, but
//! savings show here in seconds.

use std::path::Path;

use capture_sink::{EventCounter, EventSink};
use capture_wire::conversation::{DecoderOptions, ProtocolDecoder, Side};
use transform::SecretRedactor;
use workload::{Provenance, WorkloadWriter, WriterOptions};

/// Number of statements a second; those of half a second are checkpointed together.
const STATEMENTS_A_SECOND: u64 = 45_000;
/// 2026-01-01 UTC, in microseconds since 1970.
const BEGAN_US: i64 = 1_767_225_600_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let directory = words.first().ok_or("which directory?")?;
    let millions: u64 = words.get(1).map_or(Ok(2), |word| word.parse())?;
    let statements = millions * 1_000_000;
    for prepared in [false, true] {
        if words
            .get(2)
            .is_some_and(|only| (only == "prepared") != prepared)
        {
            continue;
        }
        for connections in [8, 64] {
            let mut counted = EventCounter::default();
            let began_ns = cpu_ns();
            talk(prepared, connections, statements, &mut counted, |_, _| {
                Ok(())
            })?;
            let read_ns = cpu_ns() - began_ns;

            let path = Path::new(directory).join("wire-speed.workload");
            let mut writer =
                WorkloadWriter::create(&path, WriterOptions::default(), SecretRedactor::default())?;
            let began_ns = cpu_ns();
            talk(
                prepared,
                connections,
                statements,
                &mut writer,
                |writer, now_us| Ok(writer.checkpoint(now_us - 400_000)?),
            )?;
            let info = writer.finish(Provenance::default())?;
            let written_ns = cpu_ns() - began_ns;
            assert_eq!(info.statements, counted.statements);
            std::fs::remove_dir_all(&path)?;
            println!(
                "{} {connections} connections: {} ns a statement to read along, {} with a workload written",
                if prepared { "prepared" } else { "simple" },
                read_ns / statements,
                written_ns / statements,
            );
        }
    }
    Ok(())
}

/// Returns the CPU time of all threads.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes the time there.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Builds a message with its header.
fn message(tag: u8, body: &[&[u8]]) -> Vec<u8> {
    let length: usize = 4 + body.iter().map(|part| part.len()).sum::<usize>();
    let mut message = vec![tag];
    message.extend((length as u32).to_be_bytes());
    body.iter().for_each(|part| message.extend(*part));
    message
}

/// Five digits, as every account's number has, so that only these bytes of a request change.
const ACCOUNT: &str = "12345";

/// Messages of a connection of `pgbench -S`.
struct Messages {
    /// Start-up packet and, in prepared mode, the preparation; each with its answer.
    opening: Vec<(Vec<u8>, Vec<u8>)>,
    request: Vec<u8>,
    /// Offset of the account's number in the request.
    account_at: usize,
    answer: Vec<u8>,
}

impl Messages {
    fn new(prepared: bool) -> Self {
        let request = match prepared {
            true => prepared_request(),
            false => message(b'Q', &[statement(ACCOUNT).as_bytes()]),
        };
        let mut opening = vec![(startup_packet(), welcome())];
        if prepared {
            opening.push(preparation());
        }
        let account_at = request
            .windows(ACCOUNT.len())
            .position(|window| window == ACCOUNT.as_bytes())
            .expect("the number is in the message");
        Messages {
            opening,
            request,
            account_at,
            answer: answer(prepared),
        }
    }

    fn set_account(&mut self, mut id: u64) {
        let digits = self.account_at..self.account_at + ACCOUNT.len();
        for digit in self.request[digits].iter_mut().rev() {
            *digit = b'0' + (id % 10) as u8;
            id /= 10;
        }
    }
}

fn statement(number: &str) -> String {
    format!("SELECT abalance FROM pgbench_accounts WHERE aid = {number};\0")
}

fn ready() -> Vec<u8> {
    message(b'Z', &[b"I"])
}

fn startup_packet() -> Vec<u8> {
    let start = [&[0, 3, 0, 0][..], b"user\0postgres\0database\0postgres\0\0"].concat();
    [&(4 + start.len() as u32).to_be_bytes()[..], &start].concat()
}

fn welcome() -> Vec<u8> {
    [
        message(b'R', &[&[0; 4]]),
        message(b'K', &[&[7; 8]]),
        ready(),
    ]
    .concat()
}

/// Builds the Parse of the prepared statement, and its answer.
fn preparation() -> (Vec<u8>, Vec<u8>) {
    let parse = [
        message(b'P', &[b"P_0\0", statement("$1").as_bytes(), &[0, 0]]),
        message(b'S', &[]),
    ];
    let parsed = [message(b'1', &[]), ready()];
    (parse.concat(), parsed.concat())
}

fn prepared_request() -> Vec<u8> {
    [
        message(
            b'B',
            &[
                b"\0P_0\0\0\0\0\x01\0\0\0\x05",
                ACCOUNT.as_bytes(),
                &[0, 1, 0, 0],
            ],
        ),
        message(b'D', &[b"P\0"]),
        message(b'E', &[&[0; 5]]),
        message(b'S', &[]),
    ]
    .concat()
}

fn answer(prepared: bool) -> Vec<u8> {
    let columns = message(b'T', &[&[0, 1], b"abalance\0", &[0; 18]]);
    let row = message(b'D', &[&[0, 1, 0, 0, 0, 1], b"0"]);
    let complete = message(b'C', &[b"SELECT 1\0"]);
    let mut answer = [columns, row, complete, ready()].concat();
    if prepared {
        answer.splice(0..0, message(b'2', &[]));
    }
    answer
}

/// Passes all messages of these connections to a decoder. `secure` is called every half second of their time.
fn talk<S: EventSink>(
    prepared: bool,
    connections: u64,
    statements: u64,
    sink: &mut S,
    secure: impl Fn(&mut S, i64) -> Result<(), Box<dyn std::error::Error>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut conversations = ProtocolDecoder::new(DecoderOptions::default());
    conversations.start_recording(BEGAN_US, sink)?;
    let mut now_us = BEGAN_US;
    let mut messages = Messages::new(prepared);
    for connection in 0..connections {
        conversations.open_connection(connection, "127.0.0.1:40000", now_us, true);
        for (request, answer) in &messages.opening {
            conversations.handle_bytes(connection, Side::Client, now_us, 0, request, sink)?;
            conversations.handle_bytes(connection, Side::Server, now_us, 0, answer, sink)?;
        }
    }
    let mut random = 1u64;
    let mut turn = Vec::new();
    for number in 0..statements {
        // A few clients send requests, and are answered a little later, in varying order.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        messages.set_account((random >> 33) % 90_000 + 10_000);
        now_us += (1_000_000 / STATEMENTS_A_SECOND) as i64;
        let connection = number % connections;
        let request = &messages.request;
        conversations.handle_bytes(connection, Side::Client, now_us, 0, request, sink)?;
        turn.push(connection);
        if turn.len() as u64 == connections / 2 {
            for connection in turn.drain(..) {
                now_us += 1;
                let answer = &messages.answer;
                conversations.handle_bytes(connection, Side::Server, now_us, 0, answer, sink)?;
            }
        }
        if number % (STATEMENTS_A_SECOND / 2) == 0 {
            secure(sink, now_us)?;
        }
    }
    for connection in 0..connections {
        conversations.close_connection(connection, now_us, sink)?;
    }
    Ok(())
}
