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
//! Deliberately absent: sockets, TLS (what is encrypted is counted and named, and never guessed at),
//! and the order of packets.

mod account;

pub use account::{Account, Unreadable};

use crate::sink::{EventSink, SinkError};

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

/// All connections of a source.
#[derive(Debug)]
pub struct Conversations {
    account: Account,
}

impl Conversations {
    /// None yet, and nothing is recorded until [`Self::record`].
    pub fn new(_options: ConversationOptions) -> Self {
        Conversations {
            account: Account::default(),
        }
    }

    /// From now on, what connections say goes to the sink; each that is there comes with its
    /// `connect`, and with what it has prepared and set, due at `at_us`. One in the middle of a
    /// transaction comes when that has ended.
    ///
    /// # Errors
    /// Where the sink takes no more.
    pub fn record(&mut self, _at_us: i64, _sink: &mut dyn EventSink) -> Result<(), SinkError> {
        Ok(())
    }

    /// Nothing goes to the sink any more: statements under way are given to it with what is known of
    /// them, and the sessions, whose ends were not seen.
    ///
    /// # Errors
    /// Where the sink takes no more.
    pub fn stop(&mut self, _at_us: i64, _sink: &mut dyn EventSink) -> Result<(), SinkError> {
        Ok(())
    }

    /// A connection is there. `client` is its address with port, or `[local]`. `from_the_start`: the
    /// first bytes are its first; otherwise its messages are looked for.
    pub fn opened(&mut self, _connection: u64, _client: &str, _at_us: i64, _from_the_start: bool) {}

    /// Takes what one side sent. `place` is the packet's number, from 1; 0 where there is none. A
    /// connection that was never opened, or is closed, is ignored.
    ///
    /// # Errors
    /// Where the sink takes no more.
    pub fn bytes(
        &mut self,
        _connection: u64,
        _side: Side,
        _at_us: i64,
        _place: u64,
        _bytes: &[u8],
        _sink: &mut dyn EventSink,
    ) -> Result<(), SinkError> {
        Ok(())
    }

    /// Bytes that a side sent are missing here; how many, where that is known. The connection is
    /// followed again from the next place where its messages can be told.
    ///
    /// # Errors
    /// Where the sink takes no more.
    pub fn lost(
        &mut self,
        _connection: u64,
        _side: Side,
        _at_us: i64,
        _bytes: Option<u64>,
        _sink: &mut dyn EventSink,
    ) -> Result<(), SinkError> {
        Ok(())
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// Where the sink takes no more.
    pub fn closed(
        &mut self,
        _connection: u64,
        _at_us: i64,
        _sink: &mut dyn EventSink,
    ) -> Result<(), SinkError> {
        Ok(())
    }

    /// What was read so far.
    pub fn account(&self) -> &Account {
        &self.account
    }
}
