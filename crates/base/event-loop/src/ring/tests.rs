use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use super::*;

/// Creates a ring. Returns `None`, and prints the reason, if the system does not support it.
fn ring(buffers: u16, bytes: u32) -> Option<Ring> {
    Ring::new(buffers, bytes)
        .inspect_err(|error| eprintln!("LEFT OUT: no io_uring here: {error}"))
        .ok()
}

fn pair() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    (near, far)
}

fn next(ring: &mut Ring) -> Completion {
    loop {
        if let Some(happened) = ring.next_completion() {
            return happened;
        }
        // That all was sent is known when it was handed over, and ends no wait.
        ring.submit().unwrap();
        if ring.handled == ring.completions.len() {
            ring.wait(Some(10_000_000_000)).unwrap();
        }
    }
}

#[test]
fn received_buffer_can_be_sent_unchanged() {
    let Some(mut ring) = ring(4, 64) else { return };
    let ((from, mut client), (to, mut server)) = (pair(), pair());
    let from_socket = ring.register(from.as_raw_fd());
    let to_socket = ring.register(to.as_raw_fd());
    ring.receive(from_socket, 7).unwrap();
    for round in 0..20_u8 {
        client.write_all(&[round; 5]).unwrap();
        let Completion::Received {
            token: 7,
            buffer,
            armed: true,
        } = next(&mut ring)
        else {
            panic!("bytes were sent");
        };
        assert_eq!(ring.bytes(&buffer), [round; 5]);
        ring.send(to_socket, 8, buffer).unwrap();
        let Completion::Sent {
            token: 8,
            buffer,
            sent: Ok(5),
        } = next(&mut ring)
        else {
            panic!("there was room");
        };
        ring.return_buffer(buffer);
        let mut read = [0; 5];
        server.read_exact(&mut read).unwrap();
        assert_eq!(read, [round; 5]);
    }
    drop(client);
    assert!(matches!(
        next(&mut ring),
        Completion::Stopped {
            token: 7,
            why: StopReason::End
        }
    ));
}

#[test]
fn a_pool_that_is_empty_pauses_and_loses_nothing() {
    let Some(mut ring) = ring(2, 8) else { return };
    let (from, mut client) = pair();
    let from_socket = ring.register(from.as_raw_fd());
    client.write_all(&[1; 30]).unwrap();
    ring.receive(from_socket, 1).unwrap();
    let mut held = Vec::new();
    let mut received = 0;
    while received < 30 {
        match next(&mut ring) {
            Completion::Received { buffer, .. } => {
                received += ring.bytes(&buffer).len();
                held.push(buffer);
            }
            Completion::Stopped {
                why: StopReason::Paused,
                ..
            } => {
                assert_eq!(held.len(), 2, "only an empty pool pauses");
                for buffer in held.drain(..) {
                    ring.return_buffer(buffer);
                }
                ring.receive(from_socket, 1).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, 30);
}

#[test]
fn a_send_without_room_says_so_at_once() {
    let Some(mut ring) = ring(4, 1 << 16) else {
        return;
    };
    let ((from, mut client), (to, _server)) = (pair(), pair());
    let from_socket = ring.register(from.as_raw_fd());
    let to_socket = ring.register(to.as_raw_fd());
    ring.receive(from_socket, 1).unwrap();
    let mut sent_in_all = 0;
    loop {
        client.write_all(&[0; 1 << 14]).unwrap();
        let Completion::Received { buffer, .. } = next(&mut ring) else {
            panic!("bytes were sent");
        };
        let length = ring.bytes(&buffer).len();
        ring.send(to_socket, 2, buffer).unwrap();
        let Completion::Sent { buffer, sent, .. } = next(&mut ring) else {
            panic!("it was sent");
        };
        ring.return_buffer(buffer);
        match sent {
            Ok(sent) if sent == length => sent_in_all += sent,
            Ok(_) => break,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                break;
            }
        }
        assert!(sent_in_all < 1 << 26, "nobody reads");
    }
}

#[test]
fn messages_are_sent_as_far_as_there_is_room_and_the_rest_comes_back() {
    let Some(mut ring) = ring(4, 64) else { return };
    let (to, mut server) = pair();
    let socket = ring.register(to.as_raw_fd());
    let text = |n: u8| vec![n; 50_000];
    let (mut said, mut rest) = (Vec::new(), Vec::new());
    for n in 0..100 {
        ring.send_message(socket, 8, [vec![255; 3], text(n)].concat(), 3)
            .unwrap();
        ring.submit().unwrap();
        said.extend(text(n));
        if let Some(unsent) = ring.next_unsent() {
            assert_eq!((unsent.token, unsent.broken.is_none()), (8, true));
            rest = unsent.rest;
            break;
        }
    }
    assert!(!rest.is_empty(), "nobody reads: there is no room for all");
    assert!(ring.next_unsent().is_none());
    let mut read = vec![0; said.len() - rest.len()];
    server.read_exact(&mut read).unwrap();
    assert!([read, rest].concat() == said);
    // Many at once, more than the ring has places for, come in order.
    let mut others = [pair(), pair(), pair(), pair()];
    let sockets: Vec<Socket> = others
        .iter()
        .map(|(to, _)| ring.register(to.as_raw_fd()))
        .collect();
    for n in 0..200_u32 {
        for socket in &sockets {
            ring.send_message(*socket, 9, n.to_be_bytes().to_vec(), 0)
                .unwrap();
        }
    }
    ring.submit().unwrap();
    assert!(ring.next_unsent().is_none());
    for (_, server) in &mut others {
        let mut read = [0; 800];
        server.read_exact(&mut read).unwrap();
        let numbers = read
            .chunks(4)
            .map(|n| u32::from_be_bytes(n.try_into().unwrap()));
        assert!(numbers.eq(0..200));
    }
    drop(server);
    ring.send_message(socket, 8, text(1), 0).unwrap();
    ring.submit().unwrap();
    assert!(ring.next_unsent().unwrap().broken.is_some());
}

#[test]
fn cancelled_receive_has_no_more_completions() {
    let Some(mut ring) = ring(4, 64) else { return };
    let (from, mut client) = pair();
    let from_socket = ring.register(from.as_raw_fd());
    ring.receive(from_socket, 3).unwrap();
    ring.submit().unwrap();
    ring.stop(3).unwrap();
    assert!(matches!(
        next(&mut ring),
        Completion::Stopped {
            token: 3,
            why: StopReason::Paused
        }
    ));
    client.write_all(b"later").unwrap();
    ring.wait(Some(20_000_000)).unwrap();
    assert!(ring.next_completion().is_none());
    ring.receive(from_socket, 4).unwrap();
    assert!(matches!(
        next(&mut ring),
        Completion::Received { token: 4, .. }
    ));
}

#[test]
fn a_bell_is_heard_each_time() {
    let Some(mut ring) = ring(2, 64) else { return };
    let bell = crate::Waker::new().unwrap();
    ring.watch(bell.fd(), 9).unwrap();
    for _ in 0..3 {
        bell.wake();
        let Completion::Readable { token: 9, armed } = next(&mut ring) else {
            panic!("it rang");
        };
        bell.reset();
        if !armed {
            ring.watch(bell.fd(), 9).unwrap();
        }
    }
}

#[test]
fn a_socket_is_closed_when_the_ring_has_forgotten_it() {
    let Some(mut ring) = ring(2, 64) else { return };
    let (from, mut client) = pair();
    let socket = ring.register(from.as_raw_fd());
    ring.receive(socket, 5).unwrap();
    ring.submit().unwrap();
    ring.stop(5).unwrap();
    ring.submit().unwrap();
    drop(from);
    ring.unregister(socket);
    while !ring.is_idle() {
        drop(next(&mut ring));
    }
    let patience = Some(std::time::Duration::from_secs(10));
    client.set_read_timeout(patience).unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn yield_submits_and_finds_completions_afterwards() {
    let Some(mut ring) = ring(4, 64) else { return };
    let ((from, mut client), (to, mut server)) = (pair(), pair());
    let from_socket = ring.register(from.as_raw_fd());
    let to_socket = ring.register(to.as_raw_fd());
    ring.receive(from_socket, 7).unwrap();
    client.write_all(b"ask").unwrap();
    ring.wait(None).unwrap();
    assert_eq!(ring.received_max(), 1);
    let Some(Completion::Received { buffer, .. }) = ring.next_completion() else {
        panic!("bytes were sent");
    };
    assert_eq!(ring.received_max(), 0);
    assert_eq!(ring.to_send(), 0);
    ring.send(to_socket, 8, buffer).unwrap();
    assert_eq!(ring.to_send(), 1);
    ring.submit_and_yield();
    // It is there without a wait of ours.
    server.set_nonblocking(true).unwrap();
    let mut read = [0; 3];
    server.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"ask");
    client.write_all(b"on").unwrap();
    ring.wait(None).unwrap();
    assert_eq!(ring.received_max(), 1);
    assert_eq!(ring.to_send(), 0);
    let sent = std::iter::from_fn(|| ring.next_completion())
        .filter(|one| matches!(one, Completion::Sent { sent: Ok(3), .. }))
        .count();
    assert_eq!(sent, 1);
}
