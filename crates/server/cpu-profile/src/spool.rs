//! Buffers a recording on disk until it is read. A recording never waits for its reader, and for a short
//! recording the reader starts after its end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Number of bytes at which the reader starts, unless the recording ends before.
const START_BYTES: u64 = 64 << 20;
/// Maximum size on disk. Beyond it the recording waits, and loses events that do not fit into its own buffer.
/// It counts them.
const BYTES_MAX: u64 = 1 << 30;
const CHUNK_BYTES: usize = 1 << 20;

/// Buffer between a recording and its reader.
pub struct Spool {
    file: File,
    bytes_max: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    written: u64,
    read: u64,
    ended: bool,
    /// The reader has stopped.
    reader_stopped: bool,
    /// Time for which the recording had to wait for space, in nanoseconds.
    blocked_ns: i64,
    /// Start of the current wait, by the machine's clock.
    full_since_ns: Option<i64>,
}

impl Spool {
    /// Creates an empty spool in an unnamed file.
    ///
    /// # Errors
    /// If no temporary file can be created.
    pub fn new() -> io::Result<Self> {
        Ok(Spool {
            file: tempfile::tempfile()?,
            bytes_max: BYTES_MAX,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Writes all of `from`.
    pub fn fill(&self, mut from: impl Read) {
        let mut piece = vec![0; CHUNK_BYTES];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            let mut state = self.state();
            let is_full = |state: &State| state.written >= self.bytes_max && !state.reader_stopped;
            if is_full(&state) {
                let since_ns = clock::monotonic_ns();
                state.full_since_ns = Some(since_ns);
                while is_full(&state) {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(|poisoned| poisoned.into_inner());
                }
                state.blocked_ns += clock::monotonic_ns() - since_ns;
                state.full_since_ns = None;
            }
            // Data without a reader is still consumed, so that the recording can end.
            if state.reader_stopped {
                continue;
            }
            if self
                .file
                .write_all_at(&piece[..length], state.written)
                .is_err()
            {
                state.reader_stopped = true;
                continue;
            }
            state.written += length as u64;
            self.changed.notify_all();
        }
        self.state().ended = true;
        self.changed.notify_all();
    }

    /// Waits until reading should start. Returns whether the recording is over then; `None` if there is no
    /// data at all.
    pub fn wait_for_data(&self) -> Option<bool> {
        let mut state = self.state();
        while !state.ended && state.written < START_BYTES {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        (state.written > 0).then_some(state.ended)
    }

    /// Copies all data, present and future, to `to`. Returns whether all of it was copied.
    pub fn drain(&self, mut to: impl Write) -> bool {
        let mut piece = vec![0; CHUNK_BYTES];
        loop {
            let mut state = self.state();
            while state.read == state.written && !state.ended {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            if state.read == state.written {
                return !state.reader_stopped;
            }
            let length = (state.written - state.read).min(CHUNK_BYTES as u64) as usize;
            let read = self.file.read_exact_at(&mut piece[..length], state.read);
            state.read += length as u64;
            // All data is read. Truncation keeps the file small.
            if state.read == state.written && self.file.set_len(0).is_ok() {
                (state.read, state.written) = (0, 0);
                self.changed.notify_all();
            }
            drop(state);
            if read.is_err() || to.write_all(&piece[..length]).is_err() {
                self.state().reader_stopped = true;
                self.changed.notify_all();
                return false;
            }
        }
    }

    /// Returns the time for which the recording had to wait for space, in nanoseconds. Samples of this time
    /// may be missing.
    pub fn blocked_ns(&self) -> i64 {
        self.state().blocked_ns
    }

    /// Returns the number of bytes written.
    pub fn written(&self) -> u64 {
        self.state().written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_comes_through_and_waiting_for_room_is_counted() {
        let given: Vec<u8> = (0..5 * CHUNK_BYTES).map(|at| (at / 1_000) as u8).collect();
        let through = |bytes_max, reader_waits: bool| {
            let spool = Spool {
                bytes_max,
                ..Spool::new().unwrap()
            };
            let mut taken = Vec::new();
            std::thread::scope(|scope| {
                scope.spawn(|| spool.fill(&given[..]));
                if reader_waits {
                    while spool.state().full_since_ns.is_none() {
                        std::thread::yield_now();
                    }
                }
                assert!(spool.drain(&mut taken));
            });
            assert!(taken == given);
            spool.blocked_ns()
        };
        assert_eq!(through(BYTES_MAX, false), 0);
        assert!(through(2 * CHUNK_BYTES as u64, true) > 0);
    }
}
