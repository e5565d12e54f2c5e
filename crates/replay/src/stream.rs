//! Non-blocking socket of a worker, with or without TLS.
//!
//! Without TLS, reads and writes are [`epoll::read`] and [`epoll::write`]. With TLS there are two differences.
//! Written bytes may still wait in the TLS buffer ([`Stream::wants_write`]). And a read fills the buffer as far
//! as it can, since decrypted bytes that stay in the TLS buffer would cause no readiness event.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustls::ClientConnection;

use crate::epoll;

/// Open connection.
pub(crate) struct Stream {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Stream {
    /// Wraps a non-blocking socket whose handshake, if any, is complete.
    pub(crate) fn new(socket: OwnedFd, tls: Option<Box<ClientConnection>>) -> Self {
        Stream { socket, tls }
    }

    /// Whether the connection has no TLS.
    pub(crate) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Reads the available bytes; 0 at the end of the connection.
    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => epoll::read(self.socket.as_raw_fd(), buffer),
            Some(tls) => read_through(tls, &mut Socket(self.socket.as_raw_fd()), buffer),
        }
    }

    /// Writes as many bytes as the socket accepts.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => epoll::write(self.socket.as_raw_fd(), bytes),
            Some(tls) => write_through(tls, &mut Socket(self.socket.as_raw_fd()), bytes),
        }
    }

    /// Whether written bytes wait in the TLS buffer. Then [`Stream::flush`] must be called when the socket is
    /// writable.
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

    /// Sends the last bytes as far as the socket accepts them, and TLS's close_notify.
    pub(crate) fn terminate(&mut self, bytes: &[u8]) {
        let _ = self.write(bytes);
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = self.flush();
        }
    }
}

/// Socket with the traits that rustls needs.
struct Socket(RawFd);

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        retry_interrupted(|| epoll::read(self.0, buffer))
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        retry_interrupted(|| epoll::write(self.0, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn retry_interrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
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
            // The server has ended TLS and with it the connection, or the buffer is full.
            Ok(0) => return Ok(filled),
            Ok(read) => {
                filled += read;
                if filled == buffer.len() {
                    return Ok(filled);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match tls.read_tls(socket) {
                    // The connection ended without close_notify: the next read returns 0.
                    Ok(0) => return Ok(filled),
                    Ok(_) => {}
                    // The bytes read so far come first; the next read returns the error again.
                    Err(_) if filled > 0 => return Ok(filled),
                    Err(error) => return Err(error),
                }
                let processed = tls.process_new_packets();
                // Sends alerts and answers to key updates.
                let flushed = flush_through(tls, socket);
                processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                if let Err(error) = flushed
                    && error.kind() != io::ErrorKind::WouldBlock
                {
                    return Err(error);
                }
            }
            // The connection ended without close_notify, as after a crash.
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
        // Takes as much as its buffer has room for; nothing if it is full.
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
