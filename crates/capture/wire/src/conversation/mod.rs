//! Decodes the protocol between clients and servers: messages in, events out, without I/O.
//!
//! A source (a proxy, a packet file) has the bytes of both sides, in the order in which they were
//! sent. It gives each connection a unique number and calls [`ProtocolDecoder::open_connection`],
//! [`ProtocolDecoder::handle_bytes`] for every piece, cut anywhere, [`ProtocolDecoder::handle_loss`] for a missing
//! piece, and [`ProtocolDecoder::close_connection`]. Times are wall time, microseconds since 1970-01-01 UTC,
//! and never decrease within a connection.
//!
//! Connections are tracked whether they are recorded or not, so that the recording of an earlier
//! session includes its prepared statements and settings ([`ProtocolDecoder::start_recording`]).
//!
//! Events are made of messages as follows. A Query is a `simple`. An Execute is an `execute` with
//! the values of its Bind, or a `fetch` if its portal was executed before. A Parse is part of the
//! first execution of its group (up to the Sync), or a `prepare` if the group has none. A
//! FunctionCall is a `function_call`. Close, Flush and Sync are no events; the one that follows an
//! event is its boundary. A Bind or Describe without an Execute is an event if the server refuses it. `due_us` is
//! the time of the last byte of the Query or Execute. The duration starts then, or at the end of
//! the previous answer, and ends with the event's own answer (ReadyForQuery for the last event of a
//! group).
//!
//! Memory holds the requests in progress and the prepared statements of each connection. A message
//! longer than 64 MiB, and COPY data beyond that, are skipped and counted.
//!
//! This module leaves sockets, TLS and the order of packets to others. Encrypted traffic is counted
//! by kind.

mod account;
mod buffer_pool;
mod client;
mod connection;
mod describe;
mod function_calls;
mod named_objects;
mod pending_requests;
mod recording;
mod resync;
mod server;
mod start_up;
#[cfg(test)]
mod tests;
mod unexecuted;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub use account::{DecoderAccount, UnreadableReason};
use connection::{Connection, Output, Recording};
use describe::DetailsCache;
use start_up::StartUpResult;

use capture_sink::{EventSink, SinkError};
use protocol::Format;
use workload::ResultFormat;

/// Sender of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The program that sends requests.
    Client,
    /// PostgreSQL.
    Server,
}

/// Details to record in addition to the statements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecoderOptions {
    /// Whether to record a checksum of every result ([`workload::WireDetails::result_digest`]).
    pub digest: bool,
    /// Whether the source removes encryption. Then requests for it and their answers end nothing.
    pub decrypted: bool,
}

/// Login of a session, from another source than its StartupMessage. Unknown fields are empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Login<'a> {
    /// Database.
    pub database: &'a str,
    /// User.
    pub user: &'a str,
    /// `application_name`.
    pub application: &'a str,
}

/// Hasher for consecutive numbers, such as those of connections.
#[derive(Debug, Clone, Copy, Default)]
struct SequentialHasher(u64);

impl Hasher for SequentialHasher {
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

/// Converts the format of a result.
fn result_format(format: Format) -> ResultFormat {
    match format {
        Format::Text => ResultFormat::Text,
        _ => ResultFormat::Binary,
    }
}

/// All connections of a source.
#[derive(Debug)]
pub struct ProtocolDecoder {
    options: DecoderOptions,
    account: DecoderAccount,
    connections: HashMap<u64, Connection, BuildHasherDefault<SequentialHasher>>,
    /// Connections by process and secret key, for cancel requests.
    keys: HashMap<(i32, Box<[u8]>), u64>,
    recording: Option<Recording>,
    details_cache: DetailsCache,
}

impl ProtocolDecoder {
    /// Creates a set without connections; nothing is recorded until [`Self::start_recording`].
    pub fn new(options: DecoderOptions) -> Self {
        ProtocolDecoder {
            options,
            account: DecoderAccount::default(),
            connections: HashMap::default(),
            keys: HashMap::new(),
            recording: None,
            details_cache: DetailsCache::default(),
        }
    }

    /// Starts a recording. Each existing connection is recorded with its `connect` and its prepared
    /// statements and settings, due at `at_us`; one in a transaction is recorded from the
    /// transaction's end. Session numbers start at 0 with each recording.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn start_recording(
        &mut self,
        at_us: i64,
        sink: &mut dyn EventSink,
    ) -> Result<(), SinkError> {
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

    /// Stops the recording: the sink receives the statements in progress with their partial
    /// results, and the sessions as still open.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn stop_recording(
        &mut self,
        at_us: i64,
        sink: &mut dyn EventSink,
    ) -> Result<(), SinkError> {
        self.recording = None;
        let mut numbers: Vec<u64> = self.connections.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let (connection, mut out) = self.at(number, sink);
            if let Some(connection) = connection {
                connection.stop_recording(at_us, &mut out)?;
            }
        }
        Ok(())
    }

    /// Adds a connection. `client` is its address with port, or `[local]`. `from_the_start`: the
    /// first bytes are the connection's first; otherwise the start of a message is searched for.
    pub fn open_connection(
        &mut self,
        connection: u64,
        client: &str,
        at_us: i64,
        from_the_start: bool,
    ) {
        self.account.connections += 1;
        let new = Connection::new(client, at_us, from_the_start);
        self.connections.insert(connection, new);
    }

    /// Sets the login of a connection whose StartupMessage was not seen, before its first bytes.
    pub fn set_login(&mut self, connection: u64, login: Login<'_>) {
        if let Some(found) = self.connections.get_mut(&connection) {
            found.database = login.database.into();
            found.user = login.user.into();
            found.application = login.application.into();
        }
    }

    /// Returns the number of a connection's session in the recording, if it is recorded.
    pub fn recorded_session(&self, connection: u64) -> Option<u64> {
        let recorded = self.connections.get(&connection)?.recorded.as_ref()?;
        Some(recorded.session)
    }

    /// Handles bytes of one side. `place` is the packet's number, from 1; 0 if there is none. Bytes
    /// of an unknown or closed connection are ignored.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn handle_bytes(
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
        let outcome = found.handle_bytes(side, at_us, place, bytes, &mut out)?;
        if !knew_key && let Some(key) = found.key.clone() {
            self.keys.insert(key, connection);
        }
        if let Some(StartUpResult::Cancel { process_id, key }) = outcome {
            self.account.cancels += 1;
            match self.keys.get(&(process_id, key)).copied() {
                None => self.account.cancels_for_nobody += 1,
                Some(whose) => {
                    let (whose, mut out) = self.at(whose, sink);
                    if let Some(whose) = whose {
                        whose.handle_cancel(at_us, &mut out)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles missing bytes of one side, and their number if known. Decoding resumes at the next
    /// recognisable message.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn handle_loss(
        &mut self,
        connection: u64,
        _side: Side,
        at_us: i64,
        bytes: Option<u64>,
        sink: &mut dyn EventSink,
    ) -> Result<(), SinkError> {
        match self.at(connection, sink) {
            (Some(connection), mut out) => connection.handle_loss(at_us, bytes, &mut out),
            (None, _) => Ok(()),
        }
    }

    /// Ends a connection.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn close_connection(
        &mut self,
        connection: u64,
        at_us: i64,
        sink: &mut dyn EventSink,
    ) -> Result<(), SinkError> {
        let (found, mut out) = self.at(connection, sink);
        let Some(found) = found else {
            return Ok(());
        };
        found.handle_close(at_us, &mut out)?;
        if let Some(key) = self
            .connections
            .remove(&connection)
            .and_then(|gone| gone.key)
        {
            self.keys.remove(&key);
        }
        Ok(())
    }

    /// Account of everything read so far.
    pub fn account(&self) -> &DecoderAccount {
        &self.account
    }

    fn at<'a>(
        &'a mut self,
        connection: u64,
        sink: &'a mut dyn EventSink,
    ) -> (Option<&'a mut Connection>, Output<'a>) {
        let ProtocolDecoder {
            options,
            account,
            connections,
            recording,
            details_cache,
            ..
        } = self;
        let out = Output {
            sink,
            account,
            recording: recording.as_mut(),
            options: *options,
            details_cache,
        };
        (connections.get_mut(&connection), out)
    }
}
