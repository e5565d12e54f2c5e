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
    let start = [&[0, 3, 0, 0][..], b"user\0postgres\0database\0postgres\0\0"].concat();
    let start = [&(4 + start.len() as u32).to_be_bytes()[..], &start].concat();
    let ready = message(b'Z', &[b"I"]);
    let welcome = [
        message(b'R', &[&[0; 4]]),
        message(b'K', &[&[7; 8]]),
        ready.clone(),
    ]
    .concat();
    let text =
        |number: &str| format!("SELECT abalance FROM pgbench_accounts WHERE aid = {number};\0");
    let parse = [
        message(b'P', &[b"P_0\0", text("$1").as_bytes(), &[0, 0]]),
        message(b'S', &[]),
    ]
    .concat();
    let parsed = [message(b'1', &[]), ready.clone()].concat();
    for connection in 0..connections {
        conversations.open_connection(connection, "127.0.0.1:40000", now_us, true);
        conversations.handle_bytes(connection, Side::Client, now_us, 0, &start, sink)?;
        conversations.handle_bytes(connection, Side::Server, now_us, 0, &welcome, sink)?;
        if prepared {
            conversations.handle_bytes(connection, Side::Client, now_us, 0, &parse, sink)?;
            conversations.handle_bytes(connection, Side::Server, now_us, 0, &parsed, sink)?;
        }
    }
    let columns = message(b'T', &[&[0, 1], b"abalance\0", &[0; 18]]);
    let row = message(b'D', &[&[0, 1, 0, 0, 0, 1], b"0"]);
    let complete = message(b'C', &[b"SELECT 1\0"]);
    let mut answer = [columns, row, complete, ready].concat();
    if prepared {
        answer.splice(0..0, message(b'2', &[]));
    }
    // The rest of a group after its Bind.
    let execute = [
        message(b'D', &[b"P\0"]),
        message(b'E', &[&[0; 5]]),
        message(b'S', &[]),
    ]
    .concat();
    let mut random = 1u64;
    // Every number has five digits, so that only these bytes of the messages change.
    let place = "12345";
    let mut asked = match prepared {
        true => [
            message(
                b'B',
                &[
                    b"\0P_0\0\0\0\0\x01\0\0\0\x05",
                    place.as_bytes(),
                    &[0, 1, 0, 0],
                ],
            ),
            execute,
        ]
        .concat(),
        false => message(b'Q', &[text(place).as_bytes()]),
    };
    let at = asked
        .windows(place.len())
        .position(|window| window == place.as_bytes());
    let at = at.ok_or("the number is in the message")?;
    let mut turn = Vec::new();
    for number in 0..statements {
        // A few clients send requests, and are answered a little later, in varying order.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let mut id = (random >> 33) % 90_000 + 10_000;
        for digit in asked[at..at + place.len()].iter_mut().rev() {
            *digit = b'0' + (id % 10) as u8;
            id /= 10;
        }
        now_us += (1_000_000 / STATEMENTS_A_SECOND) as i64;
        let connection = number % connections;
        conversations.handle_bytes(connection, Side::Client, now_us, 0, &asked, sink)?;
        turn.push(connection);
        if turn.len() as u64 == connections / 2 {
            for connection in turn.drain(..) {
                now_us += 1;
                conversations.handle_bytes(connection, Side::Server, now_us, 0, &answer, sink)?;
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
