//! What a recording gives, kept on disk until it is read: a recording never waits for its reader, and
//! the reader's work falls behind the end of a short one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard};

/// The reader begins when so much is there, or at the end.
const BEGIN_AT: u64 = 64 << 20;
/// The most on disk: past it the recording waits, and loses what does not find room meanwhile, which it
/// counts.
const BYTES_MAX: u64 = 1 << 30;
const PIECE: usize = 1 << 20;

/// The place between a recording and its reader.
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
    /// Nobody reads any more.
    given_up: bool,
    /// How long the recording had to wait for room, in nanoseconds.
    held_up_ns: i64,
    /// Since when it waits, by the machine's clock.
    full_since_ns: Option<i64>,
}

impl Spool {
    /// An empty one, in a file without a name.
    ///
    /// # Errors
    /// Where there is no place for temporary files.
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

    /// Takes all that `from` gives.
    pub fn fill(&self, mut from: impl Read) {
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            let mut state = self.state();
            let is_full = |state: &State| state.written >= self.bytes_max && !state.given_up;
            if is_full(&state) {
                let since_ns = clock::monotonic_ns();
                state.full_since_ns = Some(since_ns);
                while is_full(&state) {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(|poisoned| poisoned.into_inner());
                }
                state.held_up_ns += clock::monotonic_ns() - since_ns;
                state.full_since_ns = None;
            }
            // What nobody reads is still taken, so that the recording can end.
            if state.given_up {
                continue;
            }
            if self
                .file
                .write_all_at(&piece[..length], state.written)
                .is_err()
            {
                state.given_up = true;
                continue;
            }
            state.written += length as u64;
            self.changed.notify_all();
        }
        self.state().ended = true;
        self.changed.notify_all();
    }

    /// Waits until it is worth to begin reading, and says whether the recording is over then; `None` where
    /// nothing came at all.
    pub fn wait_for_enough(&self) -> Option<bool> {
        let mut state = self.state();
        while !state.ended && state.written < BEGIN_AT {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        (state.written > 0).then_some(state.ended)
    }

    /// Gives all that came, and what still comes, to `to`. Says whether nothing was lost on the way.
    pub fn drain(&self, mut to: impl Write) -> bool {
        let mut piece = vec![0; PIECE];
        loop {
            let mut state = self.state();
            while state.read == state.written && !state.ended {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            if state.read == state.written {
                return !state.given_up;
            }
            let length = (state.written - state.read).min(PIECE as u64) as usize;
            let read = self.file.read_exact_at(&mut piece[..length], state.read);
            state.read += length as u64;
            // All is read: begin anew, so that the file stays small.
            if state.read == state.written && self.file.set_len(0).is_ok() {
                (state.read, state.written) = (0, 0);
                self.changed.notify_all();
            }
            drop(state);
            if read.is_err() || to.write_all(&piece[..length]).is_err() {
                self.state().given_up = true;
                self.changed.notify_all();
                return false;
            }
        }
    }

    /// How long the recording had to wait for room, in nanoseconds: what was done meanwhile may have no samples.
    pub fn held_up_ns(&self) -> i64 {
        self.state().held_up_ns
    }

    /// How much there is, in bytes.
    pub fn written(&self) -> u64 {
        self.state().written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_comes_through_and_waiting_for_room_is_counted() {
        let given: Vec<u8> = (0..5 * PIECE).map(|at| (at / 1_000) as u8).collect();
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
            spool.held_up_ns()
        };
        assert_eq!(through(BYTES_MAX, false), 0);
        assert!(through(2 * PIECE as u64, true) > 0);
    }
}
