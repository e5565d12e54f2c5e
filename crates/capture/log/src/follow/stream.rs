//! Follows standard input. A separate thread reads it, since a blocking read cannot be abandoned
//! when time is up.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::WAIT;

/// Size of one read, and maximum number of pieces waiting to be consumed.
const PIECE_BYTES: usize = 1 << 16;
const PIECES_MAX: usize = 16;

/// Time to wait for each piece, and for the rest of a line, after the stop. The pipe's content is
/// consumed as fast as the thread delivers it.
const LAST_WAIT: Duration = Duration::from_millis(20);
const LAST_LINE_WAIT: Duration = Duration::from_secs(1);

/// Standard input until its end, or until it is stopped.
pub(super) struct StdinStream {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    taken: usize,
    stop: Box<dyn FnMut() -> bool>,
    /// Number of pieces still to consume after the stop, if they are available.
    left: Option<usize>,
    /// Data was delivered since the last wait.
    fresh: bool,
    last_byte: u8,
}

impl StdinStream {
    /// Starts the thread. It ends with standard input or with the program.
    pub(super) fn start(stop: Box<dyn FnMut() -> bool>) -> Self {
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
        StdinStream {
            pieces,
            piece: Vec::new(),
            taken: 0,
            stop,
            left: None,
            fresh: false,
            last_byte: b'\n',
        }
    }

    /// Receives the next piece; it is empty at the end.
    fn next_piece(&mut self) -> io::Result<Vec<u8>> {
        if self.left.is_none() && (self.stop)() {
            // The queued pieces, and those that the thread and the pipe hold.
            self.left = Some(PIECES_MAX + 2);
        }
        let whole = self.last_byte == b'\n';
        let wait = match self.left {
            Some(0) if whole => return Ok(Vec::new()),
            Some(_) if whole => LAST_WAIT,
            Some(_) => LAST_LINE_WAIT,
            // Delivered data is examined before more is waited for.
            None if self.fresh => Duration::ZERO,
            None => WAIT,
        };
        match self.pieces.recv_timeout(wait) {
            Ok(piece) => {
                let mut piece = piece?;
                self.fresh = true;
                if let Some(left) = &mut self.left {
                    if *left == 0 {
                        let end = memchr::memchr(b'\n', &piece).map(|at| at + 1);
                        piece.truncate(end.unwrap_or(piece.len()));
                    }
                    *left = left.saturating_sub(1);
                }
                self.last_byte = piece.last().copied().unwrap_or(b'\n');
                Ok(piece)
            }
            Err(RecvTimeoutError::Disconnected) => Ok(Vec::new()),
            Err(RecvTimeoutError::Timeout) if self.left.is_some() => Ok(Vec::new()),
            Err(RecvTimeoutError::Timeout) => {
                self.fresh = false;
                Err(io::Error::from(io::ErrorKind::WouldBlock))
            }
        }
    }
}

impl Read for StdinStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() {
            self.taken = 0;
            self.piece.clear();
            self.piece = self.next_piece()?;
        }
        let length = into.len().min(self.piece.len() - self.taken);
        into[..length].copy_from_slice(&self.piece[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}
