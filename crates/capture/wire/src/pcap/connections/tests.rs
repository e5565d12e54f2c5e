use proptest::prelude::*;

use super::super::packet::{Link, PacketContent, parse_packet};
use super::*;

use super::super::packets::{Tcp, Turn, talk};

/// A call of the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Thing {
    Opened(u64, bool, i64),
    Said(Side, Vec<u8>),
    Lost(Side, u64),
    Closed(u64),
}

#[derive(Debug, Default)]
struct Heap {
    things: Vec<Thing>,
    times: HashMap<u64, i64>,
}

impl Heap {
    fn at(&mut self, connection: u64, at_us: i64) {
        let last = self.times.entry(connection).or_insert(at_us);
        assert!(at_us >= *last, "time went back");
        *last = at_us;
    }

    /// Returns the calls in order, with adjacent pieces of one side joined.
    fn said(&self) -> Vec<Thing> {
        let mut out: Vec<Thing> = Vec::new();
        for thing in &self.things {
            match (out.last_mut(), thing) {
                (Some(Thing::Said(side, bytes)), Thing::Said(by, more)) if side == by => {
                    bytes.extend(more);
                }
                (Some(Thing::Lost(side, bytes)), Thing::Lost(by, more)) if side == by => {
                    *bytes += more;
                }
                (_, thing) => out.push(thing.clone()),
            }
        }
        out
    }
}

impl StreamListener for Heap {
    fn opened(&mut self, connection: u64, _: SocketAddr, at_us: i64, from_the_start: bool) {
        self.at(connection, at_us);
        self.things
            .push(Thing::Opened(connection, from_the_start, at_us));
    }

    fn bytes(
        &mut self,
        connection: u64,
        side: Side,
        at_us: i64,
        _: u64,
        bytes: &[u8],
    ) -> Result<(), SinkError> {
        assert!(!bytes.is_empty());
        self.at(connection, at_us);
        self.things.push(Thing::Said(side, bytes.to_vec()));
        Ok(())
    }

    fn lost(
        &mut self,
        connection: u64,
        side: Side,
        at_us: i64,
        bytes: u64,
    ) -> Result<(), SinkError> {
        assert!(bytes > 0);
        self.at(connection, at_us);
        self.things.push(Thing::Lost(side, bytes));
        Ok(())
    }

    fn closed(&mut self, connection: u64, at_us: i64) -> Result<(), SinkError> {
        self.at(connection, at_us);
        self.things.push(Thing::Closed(connection));
        Ok(())
    }
}

fn client() -> SocketAddr {
    "10.0.0.7:40001".parse().unwrap()
}

fn server() -> SocketAddr {
    "10.0.0.1:5432".parse().unwrap()
}

/// Reassembles packets, each `step_us` microseconds after the previous one.
fn heard(packets: &[Tcp], step_us: i64, end: bool) -> (Heap, Counts) {
    let mut connections = Connections::new(&[5432]);
    let mut heap = Heap::default();
    read(&mut connections, packets, step_us, &mut heap);
    if end {
        connections.end(&mut heap).unwrap();
    }
    (heap, *connections.counts())
}

fn read(connections: &mut Connections, packets: &[Tcp], step_us: i64, heap: &mut Heap) {
    for (at, packet) in packets.iter().enumerate() {
        let bytes = packet.ip();
        let PacketContent::Segment(segment) = parse_packet(Link::Raw, &bytes, bytes.len() as u64)
        else {
            panic!("{packet:?}");
        };
        let at_us = step_us * at as i64;
        assert!(
            connections
                .handle_segment(&segment, at_us, at as u64 + 1, heap)
                .unwrap()
        );
        let waiting = connections.open.values();
        let held: usize = waiting.map(Connection::held).sum();
        assert_eq!(held, connections.counts.bytes.held);
    }
}

fn check(counts: &Counts) {
    let bytes = &counts.bytes;
    assert_eq!(bytes.held, 0);
    assert_eq!(
        bytes.captured,
        bytes.delivered + bytes.retransmitted + bytes.after_the_end
    );
}

const ASK: Side = Side::Client;
const ANSWER: Side = Side::Server;

fn whole(turns: &[(bool, Vec<u8>)]) -> Vec<Thing> {
    let mut out = Heap::default();
    for (by_client, bytes) in turns {
        if !bytes.is_empty() {
            let side = if *by_client { ASK } else { ANSWER };
            out.things.push(Thing::Said(side, bytes.clone()));
        }
    }
    out.said()
}

fn turns_of(turns: &[(bool, Vec<u8>)]) -> Vec<Turn<'_>> {
    turns
        .iter()
        .map(|(by, bytes)| (*by, bytes.as_slice()))
        .collect()
}

fn said_only(heap: &Heap) -> Vec<Thing> {
    let mut said = heap.said();
    said.retain(|thing| matches!(thing, Thing::Said(..)));
    said
}

fn questions() -> Vec<(bool, Vec<u8>)> {
    (0..20u8)
        .map(|at| (at % 2 == 0, vec![at; 30 + usize::from(at) * 7]))
        .collect()
}

fn packets_of(turns: &[(bool, Vec<u8>)], first: [u32; 2], segment: usize) -> Vec<Tcp> {
    talk(client(), server(), first, &turns_of(turns), segment)
}

#[test]
fn a_conversation_is_heard_as_it_was() {
    let turns = questions();
    let packets = packets_of(&turns, [5, 9], 50);
    let (heap, counts) = heard(&packets, 10, false);
    let said = heap.said();
    assert_eq!(said.first(), Some(&Thing::Opened(1, true, 0)));
    assert_eq!(said.last(), Some(&Thing::Closed(1)));
    assert_eq!(said[1..said.len() - 1], whole(&turns));
    assert_eq!((counts.connections, counts.from_the_start), (1, 1));
    assert_eq!(counts.bytes.waited, 0);
    check(&counts);
}

#[test]
fn an_answer_waits_for_its_question() {
    let turns = [(true, b"question".to_vec()), (false, b"answer".to_vec())];
    let mut packets = packets_of(&turns, [5, 9], 50);
    packets.swap(3, 4);
    let (heap, counts) = heard(&packets, 10, false);
    assert_eq!(said_only(&heap), whole(&turns));
    assert_eq!((counts.bytes.waited, counts.bytes.lost), (1, 0));
}

#[test]
fn a_question_that_never_comes_is_lost_before_its_answer() {
    let turns = questions();
    let mut packets = packets_of(&turns, [5, 9], 500);
    let lost = packets.remove(3 + 4);
    let (heap, counts) = heard(&packets, 100_000, false);
    let said = heap.said();
    let at = said
        .iter()
        .position(|thing| matches!(thing, Thing::Lost(..)));
    let at = at.unwrap();
    assert_eq!(said[at], Thing::Lost(ASK, lost.payload.len() as u64));
    assert_eq!(said[at + 1], Thing::Said(ANSWER, turns[5].1.clone()));
    assert_eq!(said.last(), Some(&Thing::Closed(1)));
    assert_eq!(counts.bytes.gaps, 1);
    check(&counts);
}

#[test]
fn what_tcp_will_send_again_is_waited_for() {
    // Data after the gap is not acknowledged: TCP itself still waits.
    let turns = [
        (true, vec![1; 100]),
        (true, vec![2; 100]),
        (true, vec![3; 100]),
    ];
    let mut packets = packets_of(&turns, [5, 9], 100);
    packets.truncate(6);
    let late = packets.remove(4);
    let (mut connections, mut heap) = (Connections::new(&[5432]), Heap::default());
    read(&mut connections, &packets, 10_000_000, &mut heap);
    assert_eq!(said_only(&heap), whole(&turns[..1]));
    read(&mut connections, &[late], 0, &mut heap);
    assert_eq!(said_only(&heap), whole(&turns));
    assert_eq!(connections.counts.bytes.lost, 0);
}

#[test]
fn a_connection_that_was_there_before_is_joined() {
    let turns = questions();
    let packets = packets_of(&turns, [u32::MAX - 100, 9], 500);
    // Pure acknowledgements carry no data.
    let (heap, counts) = heard(&packets[2..], 10, true);
    let said = heap.said();
    assert_eq!(said.first(), Some(&Thing::Opened(1, false, 10)));
    assert_eq!(said[1..said.len() - 1], whole(&turns));
    assert_eq!((counts.connections, counts.from_the_start), (1, 0));
    let (heap, _) = heard(&packets[3 + 5..], 10, true);
    assert_eq!(said_only(&heap), whole(&turns[5..]));
}

#[test]
fn an_address_that_is_used_again_is_another_connection() {
    let turns = [(true, b"one".to_vec()), (false, b"two".to_vec())];
    let first = packets_of(&turns, [5, 9], 50);
    let second = packets_of(&turns, [1_000, 2_000], 50);
    // In order, and without the captured end of the first.
    for ends in [first.len(), first.len() - 3] {
        let packets = [&first[..ends], &second].concat();
        let (heap, counts) = heard(&packets, 10, true);
        let closed = heap
            .things
            .iter()
            .filter(|thing| matches!(thing, Thing::Closed(_)));
        assert_eq!(closed.count(), 2);
        assert_eq!((counts.connections, counts.from_the_start), (2, 2));
        check(&counts);
    }
    // If its beginning was not captured either, its numbers are outside of the previous
    // connection.
    let far = packets_of(&turns, [1 << 31, 77 << 24], 50);
    let packets = [&first[..5], &far[3..]].concat();
    let (heap, counts) = heard(&packets, 10, true);
    assert_eq!((counts.connections, counts.from_the_start), (2, 1));
    assert_eq!(counts.bytes.lost, 0);
    assert_eq!(said_only(&heap).len(), 4);
}

#[test]
fn late_segments_of_an_ended_connection_are_no_new_one() {
    let turns = questions();
    let mut packets = packets_of(&turns, [5, 9], 50);
    packets.extend(packets[10..14].to_vec());
    let (_, counts) = heard(&packets, 10, true);
    assert_eq!(counts.connections, 1);
    assert!(counts.bytes.after_the_end > 0);
    check(&counts);
}

#[test]
fn a_reset_ends_it_and_refusals_are_counted() {
    let turns = [(true, b"one".to_vec())];
    let mut packets = packets_of(&turns, [5, 9], 50);
    packets.truncate(4);
    packets.push(Tcp {
        sequence: 10,
        from: server(),
        to: client(),
        reset: true,
        payload: Vec::new(),
        ..packets[3].clone()
    });
    let (heap, counts) = heard(&packets, 10, false);
    assert_eq!(heap.said().last(), Some(&Thing::Closed(1)));
    assert_eq!(counts.connections, 1);
    let refused = [
        packets[0].clone(),
        Tcp {
            sequence: 0,
            acknowledges: Some(6),
            ..packets[4].clone()
        },
    ];
    let (heap, counts) = heard(&refused, 10, false);
    assert_eq!(heap.things, []);
    assert_eq!((counts.connections, counts.without_data), (0, 1));
}

#[test]
fn a_reset_of_nobody_ends_nothing() {
    let turns = questions();
    let packets = packets_of(&turns, [5, 9], 50);
    let (whole, _) = heard(&packets, 10, true);
    let mut with_strange_ones = packets.clone();
    for ahead in [1_000_000_000_u32, 500_000_000, 2_500_000_000] {
        let strange = Tcp {
            sequence: packets[8].sequence.wrapping_add(ahead),
            reset: true,
            payload: Vec::new(),
            ..packets[8].clone()
        };
        with_strange_ones.insert(9, strange);
    }
    let (heap, counts) = heard(&with_strange_ones, 10, true);
    assert_eq!(heap.said(), whole.said());
    assert_eq!((counts.connections, counts.bytes.after_the_end), (1, 0));
    check(&counts);
}

#[test]
fn a_beginning_of_nobody_ends_nothing() {
    let turns = questions();
    let packets = packets_of(&turns, [5, 9], 50);
    let (whole, _) = heard(&packets, 10, true);
    let mut with_strange_ones = packets.clone();
    for (at, sequence) in [(9, 1_000_000_000), (7, 77), (4, packets[0].sequence)] {
        let strange = Tcp {
            sequence,
            ..packets[0].clone()
        };
        with_strange_ones.insert(at, strange);
    }
    let (heap, counts) = heard(&with_strange_ones, 10, true);
    assert_eq!(heap.said(), whole.said());
    assert_eq!((counts.connections, counts.without_data), (1, 0));
    check(&counts);
}

#[test]
fn a_beginning_without_its_answer_is_one_where_its_client_goes_on() {
    let turns = [(true, b"one".to_vec()), (false, b"two".to_vec())];
    let first = packets_of(&turns, [5, 9], 50);
    let mut second = packets_of(&turns, [1_000, 2_000], 50);
    second.remove(1);
    let (heap, counts) = heard(&[&first[..5], &second].concat(), 10, true);
    assert_eq!((counts.connections, counts.from_the_start), (2, 2));
    assert_eq!(said_only(&heap), whole(&[turns.clone(), turns].concat()));
    check(&counts);
}

#[test]
fn keep_alives_and_overlaps_add_nothing() {
    let turns = [(true, b"abcdef".to_vec())];
    let packets = packets_of(&turns, [5, 9], 50);
    let mut odd = packets[..4].to_vec();
    // One byte before the next expected one, of another value.
    odd.push(Tcp {
        sequence: packets[3].sequence + 5,
        payload: b"?".to_vec(),
        ..packets[3].clone()
    });
    // The first version of a byte stays, and only new bytes are passed on.
    odd.push(Tcp {
        sequence: packets[3].sequence + 3,
        payload: b"DEFGH".to_vec(),
        ..packets[3].clone()
    });
    let (heap, counts) = heard(&odd, 10, true);
    assert_eq!(said_only(&heap), [Thing::Said(ASK, b"abcdefGH".to_vec())]);
    assert_eq!(counts.bytes.retransmitted, 4);
    // The same holds for waiting pieces.
    let at = |from: u32, payload: &[u8]| Tcp {
        sequence: packets[3].sequence + from,
        payload: payload.to_vec(),
        ..packets[3].clone()
    };
    let waiting = [
        at(4, b"efg"),
        at(9, b"jk"),
        at(2, b"CDEFGHIJKLM"),
        at(0, b"ab"),
    ];
    let (heap, counts) = heard(&[&packets[..3], &waiting].concat(), 10, true);
    assert_eq!(
        said_only(&heap),
        [Thing::Said(ASK, b"abCDefgHIjkLM".to_vec())]
    );
    assert_eq!((counts.bytes.retransmitted, counts.bytes.waited), (5, 3));
    check(&counts);
}

#[test]
fn what_waits_is_bounded() {
    let packets = packets_of(&[], [5, 9], 50);
    let (mut connections, mut heap) = (Connections::new(&[5432]), Heap::default());
    connections.held_max = 4 << 20;
    read(&mut connections, &packets[..3], 0, &mut heap);
    let mut most = 0;
    for at in 0..2_000u32 {
        let piece = Tcp {
            sequence: packets[2].sequence.wrapping_add(1 + at * 20_000),
            payload: vec![7; 10_000],
            ..packets[2].clone()
        };
        read(&mut connections, &[piece], 0, &mut heap);
        most = most.max(connections.counts.bytes.held);
    }
    assert!(most > 3 << 20 && most <= 4 << 20, "{most}");
    connections.end(&mut heap).unwrap();
    check(&connections.counts);
    assert_eq!(connections.counts.bytes.delivered, 20_000_000);
    // Without the bound on all connections, that on one holds.
    let (mut connections, mut heap) = (Connections::new(&[5432]), Heap::default());
    read(&mut connections, &packets[..3], 0, &mut heap);
    for at in 0..2_000u32 {
        let piece = Tcp {
            sequence: packets[2].sequence.wrapping_add(1 + at * 20_000),
            payload: vec![7; 10_000],
            ..packets[2].clone()
        };
        read(&mut connections, &[piece], 0, &mut heap);
        assert!(connections.counts.bytes.held <= 9 << 20);
    }
}

#[test]
fn sides_that_wait_for_each_other_are_heard_at_last() {
    let turns = [(true, b"one".to_vec()), (false, b"two".to_vec())];
    let mut packets = packets_of(&turns, [5, 9], 50);
    packets.truncate(5);
    // Each acknowledges data that the other has not sent yet.
    packets[3].acknowledges = Some(10 + 3);
    packets[4].acknowledges = Some(6 + 3);
    let (heap, counts) = heard(&packets, 10, true);
    assert_eq!(said_only(&heap), whole(&turns));
    check(&counts);
}

fn any_turns() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    let turn = (any::<bool>(), prop::collection::vec(any::<u8>(), 1..400));
    prop::collection::vec(turn, 1..40)
}

fn any_first() -> impl Strategy<Value = [u32; 2]> {
    prop_oneof![
        any::<[u32; 2]>(),
        (0..2_000u32, 0..2_000u32).prop_map(|(a, b)| [u32::MAX - a, u32::MAX - b])
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Checks that any order within the bounds, and any duplicates, give the same bytes, in the
    /// same order between the sides.
    #[test]
    fn any_order_is_the_same_conversation(
        turns in any_turns(),
        first in any_first(),
        segment in 1..300usize,
        moves in prop::collection::vec((0..10_000usize, 0..50usize), 0..30),
        twice in prop::collection::vec((0..10_000usize, 0..50usize), 0..10),
    ) {
        let mut packets = packets_of(&turns, first, segment);
        // Neither the handshake nor the last.
        let movable = packets.len() - 4;
        for (from, by) in moves {
            let from = 3 + from % movable.max(1);
            let to = (from + by).min(packets.len() - 4);
            if from < to {
                let packet = packets.remove(from);
                packets.insert(to, packet);
            }
        }
        for (from, by) in twice {
            let from = 3 + from % movable.max(1);
            let packet = packets[from].clone();
            let to = (from + by).min(packets.len());
            packets.insert(to, packet);
        }
        let (heap, counts) = heard(&packets, 10, true);
        prop_assert_eq!(said_only(&heap), whole(&turns));
        prop_assert_eq!(counts.bytes.lost, 0);
        prop_assert_eq!(counts.connections, 1);
        check(&counts);
    }

    /// Checks that losses leave the other bytes in place, and that all bytes are passed on or lost.
    #[test]
    fn what_is_not_heard_is_lost(
        turns in any_turns(),
        first in any_first(),
        segment in 1..300usize,
        drops in prop::collection::vec(0..10_000usize, 1..60),
        swaps in prop::collection::vec(0..10_000usize, 0..20),
        step_us in prop_oneof![Just(10), Just(30_000), Just(2_000_000)],
    ) {
        let mut packets = packets_of(&turns, first, segment);
        for drop in drops {
            // The handshake gives the initial sequence numbers.
            let last = packets.len() - 3;
            if last > 3 {
                packets.remove(3 + drop % (last - 3));
            }
        }
        for swap in swaps {
            let last = packets.len() - 4;
            if last > 3 {
                let at = 3 + swap % (last - 3);
                packets.swap(at, at + 1);
            }
        }
        let (heap, counts) = heard(&packets, step_us, true);
        let mut sides: [Vec<u8>; 2] = Default::default();
        for (by_client, bytes) in &turns {
            sides[usize::from(!by_client)].extend(bytes);
        }
        let mut at = [0usize; 2];
        for thing in &heap.things {
            match thing {
                Thing::Said(side, bytes) => {
                    let side = usize::from(*side == ANSWER);
                    prop_assert_eq!(&sides[side][at[side]..][..bytes.len()], bytes);
                    at[side] += bytes.len();
                }
                Thing::Lost(side, bytes) => at[usize::from(*side == ANSWER)] += *bytes as usize,
                _ => (),
            }
        }
        prop_assert_eq!(at, [sides[0].len(), sides[1].len()]);
        let all = sides[0].len() + sides[1].len();
        prop_assert_eq!(counts.bytes.delivered + counts.bytes.lost, all as u64);
        check(&counts);
    }

    /// Checks that nonsensical segments do no harm.
    #[test]
    fn anything_adds_up(
        segments in prop::collection::vec(
            (any::<bool>(), 0..3_000u32, prop::option::of(0..3_000u32), any::<u8>(), 0..200usize, 0..3u8),
            0..200,
        ),
    ) {
        let packets: Vec<Tcp> = segments
            .into_iter()
            .map(|(by_client, sequence, acknowledges, flags, length, far)| Tcp {
                from: if by_client { client() } else { server() },
                to: if by_client { server() } else { client() },
                sequence: sequence.wrapping_sub(1_000).wrapping_add(if far == 2 { 1 << 30 } else { 0 }),
                acknowledges,
                syn: flags % 16 == 0,
                fin: flags % 16 == 1,
                reset: flags % 32 == 2,
                payload: vec![flags; length],
            })
            .collect();
        let (_, counts) = heard(&packets, 20_000, true);
        check(&counts);
    }
}
