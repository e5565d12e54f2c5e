use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::*;

const SECOND_NS: i64 = 1_000_000_000;

/// Creates two connected sockets, the first of which does not block.
fn pair() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    (near, far)
}

/// Returns the token and the directions of all descriptors that are ready within a second.
fn wait(poller: &mut Poller) -> Vec<(u64, bool, bool)> {
    poller.wait(SECOND_NS).unwrap();
    let all = (0..poller.ready_count()).map(|place| poller.ready(place));
    all.map(|ready| (ready.token, ready.readable, ready.writable))
        .collect()
}

fn poll(poller: &mut Poller) -> usize {
    poller.wait(0).unwrap();
    poller.ready_count()
}

#[test]
fn readable_descriptor_is_reported_until_it_is_read() {
    let (mut near, mut far) = pair();
    let mut poller = Poller::new().unwrap();
    poller
        .add(near.as_raw_fd(), u64::MAX, Interest::Read)
        .unwrap();
    assert_eq!(poll(&mut poller), 0);
    far.write_all(b"x").unwrap();
    assert_eq!(wait(&mut poller), [(u64::MAX, true, false)]);
    assert_eq!(wait(&mut poller), [(u64::MAX, true, false)]);
    near.read_exact(&mut [0]).unwrap();
    assert_eq!(poll(&mut poller), 0);
}

#[test]
fn descriptor_that_is_readable_and_writable_is_reported_once() {
    let (near, mut far) = pair();
    let mut poller = Poller::new().unwrap();
    let fd = near.as_raw_fd();
    poller.add(fd, 4, Interest::ReadAndWrite).unwrap();
    far.write_all(b"x").unwrap();
    assert_eq!(wait(&mut poller), [(4, true, true)]);
    poller.change(fd, 5, Interest::Write).unwrap();
    assert_eq!(wait(&mut poller), [(5, false, true)]);
    poller.change(fd, 6, Interest::Read).unwrap();
    assert_eq!(wait(&mut poller), [(6, true, false)]);
    poller.remove(fd).unwrap();
    assert_eq!(poll(&mut poller), 0);
    assert!(poller.remove(fd).is_err());
    assert!(poller.change(fd, 6, Interest::Read).is_err());
}

#[test]
fn end_of_the_stream_is_readable() {
    let (near, far) = pair();
    let mut poller = Poller::new().unwrap();
    poller.add(near.as_raw_fd(), 1, Interest::Read).unwrap();
    drop(far);
    assert_eq!(wait(&mut poller), [(1, true, false)]);
}

#[test]
fn descriptor_number_that_is_used_again_has_the_new_token() {
    let (near, far) = pair();
    let mut poller = Poller::new().unwrap();
    let fd = near.into_raw_fd();
    poller.add(fd, 1, Interest::Read).unwrap();
    let (again, mut sender) = pair();
    // `dup2` closes the first descriptor and gives its number to the second at once, as other threads of the
    // tests also open descriptors.
    // SAFETY: both are open, and the returned descriptor has no other owner.
    let again = unsafe {
        assert_eq!(libc::dup2(again.as_raw_fd(), fd), fd);
        <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd)
    };
    drop(far);
    poller.add(fd, 2, Interest::Read).unwrap();
    assert_eq!(poll(&mut poller), 0, "the first stream ended, not this one");
    sender.write_all(b"x").unwrap();
    assert_eq!(wait(&mut poller), [(2, true, false)]);
    drop(again);
}

#[test]
fn waker_wakes_until_it_is_reset() {
    let waker = Waker::new().unwrap();
    let mut poller = Poller::new().unwrap();
    poller.add(waker.fd(), 7, Interest::Read).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..100_000).for_each(|_| waker.wake()));
        poller.wait_without_timeout().unwrap();
    });
    assert_eq!(wait(&mut poller), [(7, true, false)]);
    waker.reset();
    assert_eq!(poll(&mut poller), 0);
    waker.wake();
    assert_eq!(wait(&mut poller), [(7, true, false)]);
}

#[test]
fn wait_without_ready_descriptors_lasts_to_its_timeout() {
    let mut poller = Poller::new().unwrap();
    let before = std::time::Instant::now();
    poller.wait(20_000_000).unwrap();
    assert!(before.elapsed() >= Duration::from_millis(20));
    assert_eq!(poller.ready_count(), 0);
}
