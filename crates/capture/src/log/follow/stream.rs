//! Standard input that is followed: read by a thread of its own, since a read from it cannot be
//! given up when the time is over.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};

use super::WAIT;

/// As much is read at once, and so many pieces wait to be taken.
const PIECE_BYTES: usize = 1 << 16;
const PIECES_MAX: usize = 16;

/// What comes from standard input until its end, or until it is enough.
pub(super) struct Stream {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    taken: usize,
    stop: Box<dyn FnMut() -> bool>,
}

impl Stream {
    /// Starts the thread. It ends with standard input, or with the program.
    pub(super) fn begin(stop: Box<dyn FnMut() -> bool>) -> Self {
        let (sender, pieces) = sync_channel(PIECES_MAX);
        std::thread::spawn(move || {
            let mut stdin = io::stdin().lock();
            loop {
                let mut piece = vec![0; PIECE_BYTES];
                let read = match stdin.read(&mut piece) {
                    Ok(0) => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Ok(length) => {
                        piece.truncate(length);
                        Ok(piece)
                    }
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if sender.send(read).is_err() || failed {
                    break;
                }
            }
        });
        Stream {
            pieces,
            piece: Vec::new(),
            taken: 0,
            stop,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() {
            let stopped = (self.stop)();
            self.taken = 0;
            self.piece = match self.pieces.recv_timeout(WAIT) {
                Ok(piece) => piece?,
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) if stopped => return Ok(0),
                Err(RecvTimeoutError::Timeout) => {
                    self.piece = Vec::new();
                    return Err(io::Error::from(io::ErrorKind::WouldBlock));
                }
            };
        }
        let length = into.len().min(self.piece.len() - self.taken);
        into[..length].copy_from_slice(&self.piece[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}
