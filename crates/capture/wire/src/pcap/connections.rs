//! All connections of a capture, by their addresses: which segment belongs to which, where one
//! begins, and when an address is used again.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::connection::{After, Bytes, Connection, Heard, Said};
use super::packet::Segment;
use crate::conversation::Side;
use capture_sink::SinkError;

/// What may wait in all connections, in bytes.
const HELD_MAX: usize = 256 << 20;

/// Of so many connections that have ended, at least, late segments are known again.
const ENDED_MAX: usize = 16_384;

/// How far a late segment of an ended connection lies from its end.
const LATE_MAX: u32 = 16 << 20;

/// Client and server.
type Key = (SocketAddr, SocketAddr);

/// What was made of the segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Connections that said something.
    pub connections: u64,
    /// Those of them whose beginning was seen.
    pub from_the_start: u64,
    /// Those of them that were still there at the end.
    pub open_at_the_end: u64,
    /// Beginnings that nothing followed: nobody listened, or the capture ended.
    pub without_data: u64,
    pub bytes: Bytes,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    ports: Vec<u16>,
    open: HashMap<Key, Connection>,
    /// Where connections ended that did so lately, and those before these.
    ended: [HashMap<Key, [u32; 2]>; 2],
    next_number: u64,
    counts: Counts,
    held_max: usize,
}

impl Connections {
    /// Of servers on these ports.
    pub(super) fn new(ports: &[u16]) -> Self {
        Connections {
            ports: ports.to_vec(),
            open: HashMap::new(),
            ended: Default::default(),
            next_number: 0,
            counts: Counts::default(),
            held_max: HELD_MAX,
        }
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Takes a segment; `false` where it is of no such port.
    pub(super) fn segment(
        &mut self,
        segment: &Segment<'_>,
        at_us: i64,
        place: u64,
        heard: &mut impl Heard,
    ) -> Result<bool, SinkError> {
        let Some(side) = self.side(segment) else {
            return Ok(false);
        };
        let key = match side {
            Side::Client => (segment.from, segment.to),
            Side::Server => (segment.to, segment.from),
        };
        let said = Said {
            side,
            // What begins a connection has a number of its own.
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
            if self.may_be_nobodys(key, &said) {
                return Ok(true);
            }
            self.begins(key, &said, heard)?;
        }
        self.said(key, &said, heard)?;
        if self.counts.bytes.held > self.held_max {
            for connection in in_order(&mut self.open) {
                connection.flush(&mut self.counts.bytes, heard)?;
            }
        }
        Ok(true)
    }

    fn said(&mut self, key: Key, said: &Said<'_>, heard: &mut impl Heard) -> Result<(), SinkError> {
        let Some(connection) = self.open.get_mut(&key) else {
            return match self.joins(key, said) {
                true => self.said(key, said, heard),
                false => Ok(()),
            };
        };
        if was_asked_for(connection, said) {
            self.begins_again(key, said.sequence, said.at_us, heard)?;
            return self.said(key, said, heard);
        }
        let after = connection.segment(said, &mut self.counts.bytes, heard)?;
        match after {
            After::GoesOn => Ok(()),
            After::Closed => {
                self.over(key);
                Ok(())
            }
            After::Another => {
                self.close(key, said.at_us, heard)?;
                self.open(key, said.at_us, false);
                // It begins where this says, so it takes it.
                self.said(key, said, heard)
            }
        }
    }

    /// Who sent it; `None` where no port of it is a server's.
    fn side(&self, segment: &Segment<'_>) -> Option<Side> {
        let (from, to) = (segment.from, segment.to);
        match (
            self.ports.contains(&from.port()),
            self.ports.contains(&to.port()),
        ) {
            (false, false) => None,
            (false, true) => Some(Side::Client),
            (true, false) => Some(Side::Server),
            // A server's port at both ends: whoever begins is the client; where that was not seen,
            // the one with the greater port.
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

    /// A client's SYN with another number where its connection lives: the server takes no notice of it
    /// but to ask whether it is meant (RFC 5961, 4.2), and anybody can send one. It begins a connection
    /// where an answer to it comes, or what follows it.
    fn may_be_nobodys(&mut self, key: Key, said: &Said<'_>) -> bool {
        let Some(connection) = self.open.get_mut(&key) else {
            return false;
        };
        let carries = !said.payload.is_empty() || said.cut > 0;
        let other = connection.side(Side::Client).base != Some(said.sequence);
        let is_one = said.side == Side::Client && !carries && other && connection.is_established();
        if is_one {
            connection.asked_again = Some(said.sequence);
        }
        is_one
    }

    fn begins_again(
        &mut self,
        key: Key,
        asked: u32,
        at_us: i64,
        heard: &mut impl Heard,
    ) -> Result<(), SinkError> {
        self.close(key, at_us, heard)?;
        self.open(key, at_us, true);
        let connection = self.open.get_mut(&key).expect("it was opened");
        connection.begin(Side::Client, asked);
        Ok(())
    }

    /// A SYN of either side: of a connection that is there, or of a new one.
    fn begins(
        &mut self,
        key: Key,
        said: &Said<'_>,
        heard: &mut impl Heard,
    ) -> Result<(), SinkError> {
        let known = self.open.get_mut(&key).is_some_and(|connection| {
            let begun = connection.side(said.side).base;
            let asked = connection.side(Side::Client).base;
            match (said.side, begun) {
                (_, Some(base)) => base == said.sequence,
                (Side::Client, None) => true,
                (Side::Server, None) => {
                    // It may acknowledge bytes that came with the client's SYN.
                    let (Some(asked), Some(answered)) = (asked, said.acknowledges) else {
                        return true;
                    };
                    answered.wrapping_sub(asked) <= 0xffff
                }
            }
        });
        if !known {
            self.close(key, said.at_us, heard)?;
            self.open(key, said.at_us, true);
        }
        let connection = self.open.get_mut(&key).expect("it is there");
        connection.begin(said.side, said.sequence);
        if let (Side::Server, Some(acknowledges)) = (said.side, said.acknowledges) {
            connection.begin(Side::Client, acknowledges);
        }
        Ok(())
    }

    /// A segment without a connection: whether it is of one that was there before.
    fn joins(&mut self, key: Key, said: &Said<'_>) -> bool {
        if said.payload.is_empty() && said.cut == 0 {
            return false;
        }
        let ended = self.ended.iter().find_map(|ended| ended.get(&key));
        if let Some(next) = ended {
            let from_the_end = said.sequence.wrapping_sub(match said.side {
                Side::Client => next[0],
                Side::Server => next[1],
            });
            if from_the_end <= LATE_MAX || from_the_end.wrapping_neg() <= LATE_MAX {
                let bytes = &mut self.counts.bytes;
                bytes.captured += said.payload.len() as u64;
                bytes.after_the_end += said.payload.len() as u64;
                return false;
            }
        }
        self.open(key, said.at_us, false);
        true
    }

    fn open(&mut self, key: Key, at_us: i64, from_the_start: bool) {
        self.next_number += 1;
        for ended in &mut self.ended {
            ended.remove(&key);
        }
        let connection = Connection::new(self.next_number, key.0, at_us, from_the_start);
        self.open.insert(key, connection);
    }

    /// Ends one whose end was not seen.
    fn close(&mut self, key: Key, at_us: i64, heard: &mut impl Heard) -> Result<(), SinkError> {
        if let Some(mut connection) = self.open.remove(&key) {
            connection.close(at_us, &mut self.counts.bytes, heard)?;
            count(&mut self.counts, &connection);
        }
        Ok(())
    }

    /// One has ended.
    fn over(&mut self, key: Key) {
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

    /// Nothing more comes: what waits is handed on, and those that are there stay open.
    pub(super) fn end(&mut self, heard: &mut impl Heard) -> Result<(), SinkError> {
        for connection in in_order(&mut self.open) {
            connection.end(&mut self.counts.bytes, heard)?;
        }
        for (_, connection) in self.open.drain() {
            count(&mut self.counts, &connection);
            self.counts.open_at_the_end += u64::from(connection.told);
        }
        Ok(())
    }
}

/// Whether a segment is the first of a connection that was asked for while another one lived.
fn was_asked_for(open: &Connection, said: &Said<'_>) -> bool {
    said.side == Side::Client && !said.reset && open.asked_again == Some(said.sequence)
}

fn count(counts: &mut Counts, connection: &Connection) {
    match connection.told {
        true => {
            counts.connections += 1;
            counts.from_the_start += u64::from(connection.from_the_start);
        }
        false => counts.without_data += 1,
    }
}

/// In the order in which they began: the same file gives the same workload.
fn in_order(open: &mut HashMap<Key, Connection>) -> Vec<&mut Connection> {
    let mut connections: Vec<&mut Connection> = open.values_mut().collect();
    connections.sort_unstable_by_key(|connection| connection.number);
    connections
}

#[cfg(test)]
mod tests;
