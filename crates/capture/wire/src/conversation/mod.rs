//! What a connection's two sides say to each other becomes events: messages in, events out, without I/O.
//!
//! Who drives: a source that has bytes of both sides, in the order in which they passed (a proxy, a
//! packet file). It gives each connection a number of its own and calls [`Conversations::opened`],
//! [`Conversations::bytes`] for every piece as it was read, cut anywhere, [`Conversations::lost`] where
//! a piece is missing, and [`Conversations::closed`]. Times are wall time, microseconds since 1970-01-01
//! UTC, and never go back within a connection.
//!
//! Connections are followed whether they are recorded or not, so that a session that was there before
//! the recording began has its prepared statements and its settings in it ([`Conversations::record`]).
//!
//! What a message becomes: a Query is a `simple`; an Execute is an `execute` with the values of its Bind,
//! or a `fetch` where its portal was executed before; a Parse is part of the first execution of its group,
//! and a `prepare` where its group (up to the Sync) has none. Describe, Close, Flush and Sync are no
//! events; what stood behind an event is its boundary. `due_us` is when the last byte of the Query or
//! Execute came; the duration is from there, or from the end of the answer before it, to the end of its own
//! (ReadyForQuery, where it is the last of its group).
//!
//! Memory: what each connection has under way and has prepared; a message longer than 64 MiB, and COPY
//! data beyond that, are passed over and counted.
//!
//! Deliberately absent: sockets, TLS (what is encrypted is counted and named, and never guessed at),
//! the order of packets, and calls of functions by message.

mod account;
mod client;
mod connection;
mod describe;
mod exchange;
mod finding;
mod names;
mod recording;
mod server;
mod spare;
mod start_up;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub use account::{Account, Unreadable};
use connection::{Connection, Out, Recording};
use describe::Descriptions;
use start_up::Heard;

use capture_sink::{EventSink, SinkError};

/// Who sent a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The program that asks.
    Client,
    /// PostgreSQL.
    Server,
}

/// What is taken down beyond the statements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConversationOptions {
    /// A checksum of every result ([`workload::Particulars::result_digest`]).
    pub digest: bool,
}

/// Spreads numbers that are counted up, as those of connections are.
#[derive(Debug, Clone, Copy, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The golden ratio in 64 bits: Knuth, The Art of Computer Programming, 6.4.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// All connections of a source.
#[derive(Debug)]
pub struct Conversations {
    options: ConversationOptions,
    account: Account,
    connections: HashMap<u64, Connection, BuildHasherDefault<Spread>>,
    /// Whom a request to cancel is for, by process and key.
    keys: HashMap<(i32, Box<[u8]>), u64>,
    recording: Option<Recording>,
    descriptions: Descriptions,
}

impl Conversations {
    /// None yet, and nothing is recorded until [`Self::record`].
    pub fn new(options: ConversationOptions) -> Self {
        Conversations {
            options,
            account: Account::default(),
            connections: HashMap::default(),
            keys: HashMap::new(),
            recording: None,
            descriptions: Descriptions::default(),
        }
    }

    /// From now on, what connections say goes to the sink; each that is there comes with its
    /// `connect`, and with what it has prepared and set, due at `at_us`. One in the middle of a
    /// transaction comes when that has ended. Sessions are numbered from 0 with each recording.
    ///
    /// # Errors
    /// Where the sink takes no more.
    pub fn record(&mut self, at_us: i64, sink: &mut dyn EventSink) -> Result<(), SinkError> {
        self.recording = Some(Recording {
            since_us: at_us,
            next_session: 0,
        });
        let mut numbers: Vec<u64> = self.connections.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let (connection, mut out) = self.at(number, sink);
            if let Some(connection) = connection {
                connection.begin_recording(&mut out)?;
            }
        }
        Ok(())
    }

    /// Nothing goes to the sink any more: statements under way are given to it with what is known of
    /// them, and the sessions, whose ends were not seen.
    ///
    /// # Errors
    /// Where the sink takes no more.
    pub fn stop(&mut self, at_us: i64, sink: &mut dyn EventSink) -> Result<(), SinkError> {
        self.recording = None;
        let mut numbers: Vec<u64> = self.connections.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let (connection, mut out) = self.at(number, sink);
            if let Some(connection) = connection {
                connection.stop(at_us, &mut out)?;
            }
        }
        Ok(())
    }

    /// A connection is there. `client` is its address with port, or `[local]`. `from_the_start`: the
    /// first bytes are its first; otherwise its messages are looked for.
    pub fn opened(&mut self, connection: u64, client: &str, at_us: i64, from_the_start: bool) {
        self.account.connections += 1;
        let new = Connection::new(client, at_us, from_the_start);
        self.connections.insert(connection, new);
    }

    /// Takes what one side sent. `place` is the packet's number, from 1; 0 where there is none. A
    /// connection that was never opened, or is closed, is ignored.
    ///
    /// # Errors
    /// Where the sink takes no more.
    pub fn bytes(
        &mut self,
        connection: u64,
        side: Side,
        at_us: i64,
        place: u64,
        bytes: &[u8],
        sink: &mut dyn EventSink,
    ) -> Result<(), SinkError> {
        let (found, mut out) = self.at(connection, sink);
        let Some(found) = found else {
            return Ok(());
        };
        let knew_key = found.key.is_some();
        let heard = found.bytes(side, at_us, place, bytes, &mut out)?;
        if !knew_key && let Some(key) = found.key.clone() {
            self.keys.insert(key, connection);
        }
        if let Some(Heard::Cancel { process_id, key }) = heard {
            self.account.cancels += 1;
            match self.keys.get(&(process_id, key)).copied() {
                None => self.account.cancels_for_nobody += 1,
                Some(whose) => {
                    let (whose, mut out) = self.at(whose, sink);
                    if let Some(whose) = whose {
                        whose.cancelled(at_us, &mut out)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Bytes that a side sent are missing here; how many, where that is known. The connection is
    /// followed again from the next place where its messages can be told.
    ///
    /// # Errors
    /// Where the sink takes no more.
    pub fn lost(
        &mut self,
        connection: u64,
        _side: Side,
        at_us: i64,
        bytes: Option<u64>,
        sink: &mut dyn EventSink,
    ) -> Result<(), SinkError> {
        match self.at(connection, sink) {
            (Some(connection), mut out) => connection.lost(at_us, bytes, &mut out),
            (None, _) => Ok(()),
        }
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// Where the sink takes no more.
    pub fn closed(
        &mut self,
        connection: u64,
        at_us: i64,
        sink: &mut dyn EventSink,
    ) -> Result<(), SinkError> {
        let (found, mut out) = self.at(connection, sink);
        let Some(found) = found else {
            return Ok(());
        };
        found.closed(at_us, &mut out)?;
        if let Some(key) = self
            .connections
            .remove(&connection)
            .and_then(|gone| gone.key)
        {
            self.keys.remove(&key);
        }
        Ok(())
    }

    /// What was read so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    fn at<'a>(
        &'a mut self,
        connection: u64,
        sink: &'a mut dyn EventSink,
    ) -> (Option<&'a mut Connection>, Out<'a>) {
        let Conversations {
            options,
            account,
            connections,
            recording,
            descriptions,
            ..
        } = self;
        let out = Out {
            sink,
            account,
            recording: recording.as_mut(),
            options: *options,
            descriptions,
        };
        (connections.get_mut(&connection), out)
    }
}
