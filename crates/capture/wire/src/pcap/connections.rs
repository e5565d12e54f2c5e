//! Tracks all connections of a capture by their addresses: assigns segments, and detects new
//! connections and reused addresses.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use super::packet::Segment;
use super::tcp_reassembly::{
    ByteCounts, Connection, ConnectionSegment, SegmentOutcome, StreamListener,
};
use crate::conversation::Side;
use capture_sink::SinkError;

/// Maximum waiting data of all connections, in bytes.
const HELD_MAX: usize = 256 << 20;

/// Minimum number of ended connections of which late segments are recognised.
const ENDED_MAX: usize = 16_384;

/// Maximum distance of a late segment of an ended connection from its end.
const LATE_DISTANCE_MAX: u32 = 16 << 20;

/// Addresses of client and server.
type Key = (SocketAddr, SocketAddr);

/// Counts of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Number of connections with data.
    pub connections: u64,
    /// Number of those connections whose beginning was captured.
    pub from_the_start: u64,
    /// Number of those connections that were open at the end.
    pub open_at_the_end: u64,
    /// Number of connections without data: refused, or the capture ended.
    pub without_data: u64,
    pub bytes: ByteCounts,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    ports: Vec<u16>,
    open: HashMap<Key, Connection>,
    /// Final sequence numbers of recently ended connections, in two generations.
    ended: [HashMap<Key, [u32; 2]>; 2],
    next_number: u64,
    servers: BTreeSet<SocketAddr>,
    counts: Counts,
    held_max: usize,
}

impl Connections {
    /// Creates a set for servers on these ports.
    pub(super) fn new(ports: &[u16]) -> Self {
        Connections {
            ports: ports.to_vec(),
            open: HashMap::new(),
            ended: Default::default(),
            next_number: 0,
            servers: BTreeSet::new(),
            counts: Counts::default(),
            held_max: HELD_MAX,
        }
    }

    /// Returns the addresses of the servers.
    pub(super) fn servers(&self) -> &BTreeSet<SocketAddr> {
        &self.servers
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Handles a segment; returns `false` if it is of no such port.
    pub(super) fn handle_segment(
        &mut self,
        segment: &Segment<'_>,
        at_us: i64,
        place: u64,
        listener: &mut impl StreamListener,
    ) -> Result<bool, SinkError> {
        let Some(side) = self.sender_of(segment) else {
            return Ok(false);
        };
        let key = match side {
            Side::Client => (segment.from, segment.to),
            Side::Server => (segment.to, segment.from),
        };
        let received = ConnectionSegment {
            side,
            // SYN occupies a sequence number.
            sequence: segment.sequence.wrapping_add(u32::from(segment.syn)),
            acknowledges: segment.acknowledges,
            payload: segment.payload,
            cut: segment.cut,
            fin: segment.fin,
            reset: segment.reset,
            at_us,
            place,
        };
        if segment.syn && !segment.reset {
            if self.may_be_spurious(key, &received) {
                return Ok(true);
            }
            self.handle_syn(key, &received, listener)?;
        }
        self.handle_connection_segment(key, &received, listener)?;
        if self.counts.bytes.held > self.held_max {
            for connection in sort_by_beginning(&mut self.open) {
                connection.flush(&mut self.counts.bytes, listener)?;
            }
        }
        Ok(true)
    }

    fn handle_connection_segment(
        &mut self,
        key: Key,
        received: &ConnectionSegment<'_>,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        let Some(connection) = self.open.get_mut(&key) else {
            return match self.join(key, received) {
                true => self.handle_connection_segment(key, received, listener),
                false => Ok(()),
            };
        };
        if was_requested(connection, received) {
            self.reopen(key, received.sequence, received.at_us, listener)?;
            return self.handle_connection_segment(key, received, listener);
        }
        let after = connection.handle_segment(received, &mut self.counts.bytes, listener)?;
        match after {
            SegmentOutcome::GoesOn => Ok(()),
            SegmentOutcome::Closed => {
                self.record_end(key);
                Ok(())
            }
            SegmentOutcome::OtherConnection => {
                self.close(key, received.at_us, listener)?;
                self.open(key, received.at_us, false);
                // It begins the connection anew, so it is accepted now.
                self.handle_connection_segment(key, received, listener)
            }
        }
    }

    /// Returns the sender; `None` if neither port is a server's.
    fn sender_of(&self, segment: &Segment<'_>) -> Option<Side> {
        let (from, to) = (segment.from, segment.to);
        match (
            self.ports.contains(&from.port()),
            self.ports.contains(&to.port()),
        ) {
            (false, false) => None,
            (false, true) => Some(Side::Client),
            (true, false) => Some(Side::Server),
            // Both ports are servers' ports: the client is the side that begins, or, if the
            // beginning was not captured, the one with the greater port.
            (true, true) => Some(if self.open.contains_key(&(from, to)) {
                Side::Client
            } else if self.open.contains_key(&(to, from)) {
                Side::Server
            } else {
                let asks = match segment.syn {
                    true => segment.acknowledges.is_none(),
                    false => (from.port(), from.ip()) > (to.port(), to.ip()),
                };
                match asks {
                    true => Side::Client,
                    false => Side::Server,
                }
            }),
        }
    }

    /// Returns whether a segment is a client's SYN with another number on an open connection. The
    /// server only answers with a challenge (RFC 5961, 4.2), and anybody can send one. It begins a
    /// connection if an answer to it, or data after it, comes.
    fn may_be_spurious(&mut self, key: Key, received: &ConnectionSegment<'_>) -> bool {
        let Some(connection) = self.open.get_mut(&key) else {
            return false;
        };
        let carries = !received.payload.is_empty() || received.cut > 0;
        let other = connection.side(Side::Client).base != Some(received.sequence);
        let is_one =
            received.side == Side::Client && !carries && other && connection.is_established();
        if is_one {
            connection.requested_again = Some(received.sequence);
        }
        is_one
    }

    fn reopen(
        &mut self,
        key: Key,
        asked: u32,
        at_us: i64,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        self.close(key, at_us, listener)?;
        self.open(key, at_us, true);
        let connection = self.open.get_mut(&key).expect("it was opened");
        connection.begin(Side::Client, asked);
        Ok(())
    }

    /// Handles a SYN of either side: of an existing connection, or of a new one.
    fn handle_syn(
        &mut self,
        key: Key,
        received: &ConnectionSegment<'_>,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        let known = self.open.get_mut(&key).is_some_and(|connection| {
            let begun = connection.side(received.side).base;
            let asked = connection.side(Side::Client).base;
            match (received.side, begun) {
                (_, Some(base)) => base == received.sequence,
                (Side::Client, None) => true,
                (Side::Server, None) => {
                    // It may acknowledge bytes that came with the client's SYN.
                    let (Some(asked), Some(answered)) = (asked, received.acknowledges) else {
                        return true;
                    };
                    answered.wrapping_sub(asked) <= 0xffff
                }
            }
        });
        if !known {
            self.close(key, received.at_us, listener)?;
            self.open(key, received.at_us, true);
        }
        let connection = self.open.get_mut(&key).expect("it is there");
        connection.begin(received.side, received.sequence);
        if let (Side::Server, Some(acknowledges)) = (received.side, received.acknowledges) {
            connection.begin(Side::Client, acknowledges);
        }
        Ok(())
    }

    /// Handles a segment without a connection: returns whether it joins an earlier one.
    fn join(&mut self, key: Key, received: &ConnectionSegment<'_>) -> bool {
        if received.payload.is_empty() && received.cut == 0 {
            return false;
        }
        let ended = self.ended.iter().find_map(|ended| ended.get(&key));
        if let Some(next) = ended {
            let from_the_end = received.sequence.wrapping_sub(match received.side {
                Side::Client => next[0],
                Side::Server => next[1],
            });
            if from_the_end <= LATE_DISTANCE_MAX || from_the_end.wrapping_neg() <= LATE_DISTANCE_MAX
            {
                let bytes = &mut self.counts.bytes;
                bytes.captured += received.payload.len() as u64;
                bytes.after_the_end += received.payload.len() as u64;
                return false;
            }
        }
        self.open(key, received.at_us, false);
        true
    }

    fn open(&mut self, key: Key, at_us: i64, from_the_start: bool) {
        self.next_number += 1;
        self.servers.insert(key.1);
        for ended in &mut self.ended {
            ended.remove(&key);
        }
        let connection = Connection::new(self.next_number, key.0, at_us, from_the_start);
        self.open.insert(key, connection);
    }

    /// Closes a connection whose end was not captured.
    fn close(
        &mut self,
        key: Key,
        at_us: i64,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        if let Some(mut connection) = self.open.remove(&key) {
            connection.close(at_us, &mut self.counts.bytes, listener)?;
            count(&mut self.counts, &connection);
        }
        Ok(())
    }

    /// Records the end of a connection.
    fn record_end(&mut self, key: Key) {
        let Some(connection) = self.open.remove(&key) else {
            return;
        };
        count(&mut self.counts, &connection);
        if self.ended[0].len() >= ENDED_MAX {
            self.ended.swap(0, 1);
            self.ended[0].clear();
        }
        self.ended[0].insert(key, connection.next_sequences());
    }

    /// Handles the end of the capture: passes on waiting data, and leaves existing connections
    /// open.
    pub(super) fn end(&mut self, listener: &mut impl StreamListener) -> Result<(), SinkError> {
        for connection in sort_by_beginning(&mut self.open) {
            connection.end(&mut self.counts.bytes, listener)?;
        }
        for (_, connection) in self.open.drain() {
            count(&mut self.counts, &connection);
            self.counts.open_at_the_end += u64::from(connection.announced);
        }
        Ok(())
    }
}

/// Returns whether a segment is the first of a connection that was requested while another one
/// existed.
fn was_requested(open: &Connection, received: &ConnectionSegment<'_>) -> bool {
    received.side == Side::Client
        && !received.reset
        && open.requested_again == Some(received.sequence)
}

fn count(counts: &mut Counts, connection: &Connection) {
    match connection.announced {
        true => {
            counts.connections += 1;
            counts.from_the_start += u64::from(connection.from_the_start);
        }
        false => counts.without_data += 1,
    }
}

/// Sorts connections by their beginning, so that the same file gives the same workload.
fn sort_by_beginning(open: &mut HashMap<Key, Connection>) -> Vec<&mut Connection> {
    let mut connections: Vec<&mut Connection> = open.values_mut().collect();
    connections.sort_unstable_by_key(|connection| connection.number);
    connections
}

#[cfg(test)]
mod tests;
