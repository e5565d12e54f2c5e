//! An open connection as a worker has it: a socket that does not block, with TLS on it or without.
//!
//! Reads and writes have the shape of [`epoll::read`] and [`epoll::write`], which they are where
//! there is no TLS. With it, two things are different: what was taken may still wait in here
//! ([`Link::wants_write`]), and a read fills the buffer as far as it can, so that nothing
//! decrypted stays behind for which no readiness would ever be told.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustls::ClientConnection;

use crate::epoll;

/// An open connection.
pub(crate) struct Link {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Link {
    /// Of a socket that does not block, and whose handshake, if any, is done.
    pub(crate) fn new(socket: OwnedFd, tls: Option<Box<ClientConnection>>) -> Self {
        Link { socket, tls }
    }

    /// Whether what passes is what the socket has: without TLS.
    pub(crate) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Reads what is there; 0 at the end.
    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => epoll::read(self.socket.as_raw_fd(), buffer),
            Some(tls) => read_through(tls, &mut Socket(self.socket.as_raw_fd()), buffer),
        }
    }

    /// Writes what there is room for.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => epoll::write(self.socket.as_raw_fd(), bytes),
            Some(tls) => write_through(tls, &mut Socket(self.socket.as_raw_fd()), bytes),
        }
    }

    /// Whether something that was taken has yet to go out: then [`Link::flush`] is to be called
    /// when the socket has room.
    #[inline]
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Writes what was taken and has yet to go out; `WouldBlock` if not all of it could.
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => flush_through(tls, &mut Socket(self.socket.as_raw_fd())),
        }
    }

    /// Sends the last bytes as far as there is room, and the end of TLS.
    pub(crate) fn say_goodbye(&mut self, bytes: &[u8]) {
        let _ = self.write(bytes);
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = self.flush();
        }
    }
}

/// The socket as rustls wants it.
struct Socket(RawFd);

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        retried(|| epoll::read(self.0, buffer))
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        retried(|| epoll::write(self.0, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn retried(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn read_through(
    tls: &mut ClientConnection,
    socket: &mut impl ReadWrite,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        match tls.reader().read(&mut buffer[filled..]) {
            // The server has ended TLS, and with it the connection; or the buffer is full.
            Ok(0) => return Ok(filled),
            Ok(read) => {
                filled += read;
                if filled == buffer.len() {
                    return Ok(filled);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match tls.read_tls(socket) {
                    // The connection ended without the end of TLS: the next read says so.
                    Ok(0) => return Ok(filled),
                    Ok(_) => {}
                    // What there is comes first; an error will come again.
                    Err(_) if filled > 0 => return Ok(filled),
                    Err(error) => return Err(error),
                }
                let processed = tls.process_new_packets();
                // Alerts, and answers to a change of keys.
                let flushed = flush_through(tls, socket);
                processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                if let Err(error) = flushed
                    && error.kind() != io::ErrorKind::WouldBlock
                {
                    return Err(error);
                }
            }
            // The connection ended without the end of TLS, as at a crash.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(filled),
            Err(error) => return Err(error),
        }
    }
}

fn write_through(
    tls: &mut ClientConnection,
    socket: &mut impl ReadWrite,
    bytes: &[u8],
) -> io::Result<usize> {
    let mut taken = 0;
    while taken < bytes.len() {
        // Takes as much as its buffer holds: nothing where that is full.
        let written = tls.writer().write(&bytes[taken..])?;
        taken += written;
        match flush_through(tls, socket) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return if taken > 0 { Ok(taken) } else { Err(error) };
            }
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

fn flush_through(tls: &mut ClientConnection, socket: &mut impl ReadWrite) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(socket)?;
    }
    Ok(())
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[cfg(test)]
mod tests;
