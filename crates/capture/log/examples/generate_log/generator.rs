//! Generates logs as PostgreSQL writes them, from a seed: runs the clients and orders their lines.
//!
//! There are two kinds of traffic. [`Profile::Pgbench`] is that of `pgbench -M simple` and `-M
//! prepared`, half of the clients each. [`Profile::Mixed`] is that of applications with errors,
//! texts over several lines, portals, notices, and the server's own messages.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use super::client::{Client, Logging, Sent, Server};
use super::line_format::{LineFormat, LineWriter};
use super::mixed::{Background, Mixed};
use super::pgbench::Pgbench;

/// Sunday, 1 March 2026, 09:00 UTC, in microseconds since 1970.
const START_US: i64 = 1_772_355_600_000_000;

/// Size of one write.
const CHUNK_BYTES: usize = 1 << 20;

/// Kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Pgbench,
    Mixed,
}

/// Length of the log. Clients stop as soon as it is reached; their last lines exceed it.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    Bytes(u64),
    /// The same traffic in every format.
    Entries(u64),
}

/// Options of the generator.
pub struct Options {
    pub length: Length,
    pub format: LineFormat,
    pub profile: Profile,
    pub logging: Logging,
    /// Number of concurrent clients.
    pub sessions: usize,
    pub seed: u64,
    /// `log_line_prefix`, for stderr.
    pub prefix: String,
    /// Version of the simulated server: 13 to 18.
    pub major: u16,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            length: Length::Bytes(1 << 30),
            format: LineFormat::Stderr,
            profile: Profile::Pgbench,
            logging: Logging {
                started: false,
                ended: true,
            },
            sessions: 32,
            seed: 1,
            prefix: "%m [%p] ".to_owned(),
            major: 15,
        }
    }
}

/// Counts of the generated log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Generated {
    pub bytes: u64,
    /// Number of entries: a message with its DETAIL and so on.
    pub entries: u64,
    pub sent: Sent,
}

/// Behaviour of one client.
enum Script {
    Pgbench(Pgbench),
    Mixed(Box<Mixed>),
    Background(Background),
}

struct Actor {
    client: Client,
    script: Script,
    /// It performs no more actions.
    over: bool,
}

impl Actor {
    /// Performs actions until there are lines to write or it has finished.
    fn act(&mut self, server: &mut Server, closing: bool) {
        while !self.over && self.client.pending.front().is_none() {
            let (client, may_stop) = (&mut self.client, closing);
            match &mut self.script {
                Script::Pgbench(pgbench) if may_stop && pgbench.is_between() => {
                    if pgbench.is_open() {
                        pgbench.leave(client);
                    }
                    self.over = true;
                }
                Script::Mixed(mixed) if may_stop && mixed.is_between() => {
                    if mixed.is_open() {
                        mixed.leave(client);
                    }
                    self.over = true;
                }
                Script::Background(_) if may_stop => self.over = true,
                Script::Pgbench(pgbench) => pgbench.act(client, server),
                Script::Mixed(mixed) => mixed.act(client, server),
                Script::Background(background) => background.act(client),
            }
        }
    }
}

/// Writes a log.
///
/// # Errors
/// If `out` fails, or the prefix has an unknown escape.
pub fn generate(options: &Options, out: &mut dyn Write) -> io::Result<Generated> {
    let mut writer = LineWriter::new(options.format, options.major, &options.prefix)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut server = Server {
        major: options.major,
        logging: options.logging,
        pid: 20_000,
        port: 36_000,
        transaction: 900,
        sent: Sent::default(),
    };
    let mut actors: Vec<Actor> = (0..options.sessions)
        .map(|index| Actor {
            client: Client::new(
                options.seed.wrapping_mul(1_000_003) + index as u64,
                START_US + index as i64 * 1_300,
            ),
            script: match options.profile {
                Profile::Pgbench => Script::Pgbench(Pgbench::new(index % 2 == 1)),
                Profile::Mixed => Script::Mixed(Box::new(Mixed::new(index))),
            },
            over: false,
        })
        .collect();
    if options.profile == Profile::Mixed {
        actors.push(Actor {
            client: Client::new(options.seed, START_US),
            script: Script::Background(Background::default()),
            over: false,
        });
    }
    let mut turns = BinaryHeap::new();
    for (index, actor) in actors.iter_mut().enumerate() {
        actor.act(&mut server, false);
        if let Some(entry) = actor.client.pending.front() {
            turns.push(Reverse((entry.wall_us, index)));
        }
    }
    let mut generated = Generated::default();
    let mut text = String::with_capacity(CHUNK_BYTES + (64 << 10));
    while let Some(Reverse((_, index))) = turns.pop() {
        let actor = &mut actors[index];
        let client = &mut actor.client;
        let before = text.len();
        let entry = client.pending.front().expect("its turn");
        writer.write(&mut text, entry, &mut client.backend);
        client.pending.pop();
        generated.bytes += (text.len() - before) as u64;
        generated.entries += 1;
        if text.len() >= CHUNK_BYTES {
            out.write_all(text.as_bytes())?;
            text.clear();
        }
        let closing = match options.length {
            Length::Bytes(bytes) => generated.bytes >= bytes,
            Length::Entries(entries) => generated.entries >= entries,
        };
        actor.act(&mut server, closing);
        if let Some(entry) = actor.client.pending.front() {
            turns.push(Reverse((entry.wall_us, index)));
        }
    }
    out.write_all(text.as_bytes())?;
    out.flush()?;
    generated.sent = server.sent;
    Ok(generated)
}
