//! One endpoint of a connection: a non-blocking socket, with or without TLS, and its unsent bytes.
//!
//! Received bytes are decrypted completely, since no readiness would be reported for the rest.
//! Bytes to send are encrypted completely, and wait as bytes of the socket.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use event_loop::{Buffer, Interest, Poller, Ring, Socket};
use rustls::Connection;

/// One endpoint of a connection.
pub(super) struct Endpoint {
    fd: OwnedFd,
    tls: Option<Box<Connection>>,
    /// Bytes that did not fit into the socket's buffer.
    pending: Vec<u8>,
    /// Number of those that have been sent.
    sent: usize,
    waits_for: Option<Interest>,
    /// The socket's registration with the ring, if there is one.
    socket: Option<Socket>,
    receiving: RingReceive,
    /// The ring is sending; later bytes are kept.
    sending: bool,
    /// The peer has closed its sending side.
    pub(super) ended: bool,
    /// Sending has been shut down.
    write_closed: bool,
}

/// State of receiving by the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RingReceive {
    Off,
    Armed,
    /// The ring receives and was requested to stop.
    Stopping,
}

/// Result of a read.
pub(super) enum ReadOutcome<'b> {
    /// Bytes; with TLS there may be none, although something was received.
    Bytes(&'b [u8]),
    /// Bytes, and then the end of the stream.
    End(&'b [u8]),
    /// Nothing.
    Nothing,
}

/// Read buffers shared by all connections of a thread.
pub(super) struct ReadBuffers {
    read: Box<[u8]>,
    plain: Vec<u8>,
}

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 64 << 10;

impl ReadBuffers {
    pub(super) fn new() -> Self {
        ReadBuffers {
            read: vec![0; READ_BYTES].into_boxed_slice(),
            plain: Vec::new(),
        }
    }
}

impl Endpoint {
    /// Creates it from a non-blocking socket.
    pub(super) fn new(fd: OwnedFd) -> Self {
        Endpoint {
            fd,
            tls: None,
            pending: Vec::new(),
            sent: 0,
            waits_for: None,
            socket: None,
            receiving: RingReceive::Off,
            sending: false,
            ended: false,
            write_closed: false,
        }
    }

    /// Starts TLS: all later bytes are encrypted.
    pub(super) fn encrypt(&mut self, mut tls: Box<Connection>) {
        tls.set_buffer_limit(None);
        self.tls = Some(tls);
    }

    pub(super) fn tls(&self) -> Option<&Connection> {
        self.tls.as_deref()
    }

    /// Reads once. `out` is space for TLS's own answers.
    ///
    /// # Errors
    /// If the connection or its TLS fails.
    #[inline]
    pub(super) fn receive<'b>(
        &mut self,
        buffers: &'b mut ReadBuffers,
        out: &mut Vec<u8>,
    ) -> io::Result<ReadOutcome<'b>> {
        let read = match event_loop::read(self.fd.as_raw_fd(), &mut buffers.read) {
            Ok(0) => return Ok(ReadOutcome::End(&[])),
            Ok(read) => read,
            Err(error) if is_temporary(&error) => return Ok(ReadOutcome::Nothing),
            Err(error) => return Err(error),
        };
        if self.tls.is_none() {
            return Ok(ReadOutcome::Bytes(&buffers.read[..read]));
        }
        buffers.plain.clear();
        let ended = self.decrypt(&buffers.read[..read], &mut buffers.plain)?;
        self.send_tls(out)?;
        Ok(match ended {
            true => ReadOutcome::End(&buffers.plain),
            false => ReadOutcome::Bytes(&buffers.plain),
        })
    }

    /// Decrypts TLS bytes that were read already. Returns whether the peer has ended TLS.
    ///
    /// # Errors
    /// If they are invalid.
    pub(super) fn decrypt(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            return Ok(false);
        };
        while !bytes.is_empty() {
            tls.read_tls(&mut bytes)?;
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The alert contains the reason.
                    let _ = self.send_tls(&mut Vec::new());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            };
            let waiting = state.plaintext_bytes_to_read();
            if waiting > 0 {
                let at = plain.len();
                plain.resize(at + waiting, 0);
                tls.reader().read_exact(&mut plain[at..])?;
            }
            if state.peer_has_closed() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends TLS's own messages: handshakes, alerts.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn send_tls(&mut self, buffers: &mut Vec<u8>) -> io::Result<()> {
        let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_write()) else {
            return Ok(());
        };
        buffers.clear();
        while tls.wants_write() {
            tls.write_tls(buffers)?;
        }
        self.send_raw(buffers)
    }

    /// Sends bytes, or keeps those that do not fit.
    ///
    /// # Errors
    /// If the connection fails.
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8], buffers: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.tls {
            None => self.send_raw(bytes),
            Some(tls) => {
                tls.writer().write_all(bytes)?;
                self.send_tls(buffers)
            }
        }
    }

    #[inline]
    fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut written = 0;
        if self.pending.is_empty() && !self.sending {
            written = match event_loop::write(self.fd.as_raw_fd(), bytes) {
                Ok(written) => written,
                Err(error) if is_temporary(&error) => 0,
                Err(error) => return Err(error),
            };
        }
        if written < bytes.len() {
            self.pending.extend_from_slice(&bytes[written..]);
        }
        Ok(())
    }

    /// Sends a buffer by the ring, or keeps its bytes after earlier unsent ones.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn send_by_ring(
        &mut self,
        ring: &mut Ring,
        token: u64,
        buffer: Buffer,
    ) -> io::Result<()> {
        if self.sending || !self.pending.is_empty() {
            if !self.write_closed {
                self.pending.extend_from_slice(ring.bytes(&buffer));
            }
            ring.return_buffer(buffer);
            return Ok(());
        }
        self.sending = true;
        let socket = self.register(ring);
        ring.send(socket, token, buffer)
    }

    /// Handles the completion of the ring's send: the unsent rest goes out before the kept bytes.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn complete_ring_send(
        &mut self,
        ring: &mut Ring,
        buffer: Buffer,
        sent: io::Result<usize>,
    ) -> io::Result<()> {
        self.sending = false;
        let bytes = ring.bytes(&buffer);
        let sent = match sent {
            Err(error) if is_temporary(&error) => Ok(0),
            sent => sent,
        };
        if let Ok(sent) = sent
            && sent < bytes.len()
            && !self.write_closed
        {
            self.pending.splice(0..0, bytes[sent..].iter().copied());
        }
        ring.return_buffer(buffer);
        sent?;
        match self.pending.is_empty() {
            true => Ok(()),
            false => self.flush(),
        }
    }

    /// Records that the ring receives nothing until it is armed again.
    pub(super) fn mark_disarmed(&mut self) {
        self.receiving = RingReceive::Off;
    }

    #[inline]
    fn register(&mut self, ring: &mut Ring) -> Socket {
        *self
            .socket
            .get_or_insert_with(|| ring.register(self.fd.as_raw_fd()))
    }

    /// Prepares for closing: the ring sends its pending data, and receives nothing more.
    pub(super) fn leave_ring(&mut self, ring: &mut Ring, token: u64) {
        let Some(socket) = self.socket.take() else {
            return;
        };
        // If the ring refuses, it has failed, and all of its connections with it.
        if self.receiving != RingReceive::Off {
            let _ = ring.stop(token);
        }
        let _ = ring.submit();
        ring.unregister(socket);
    }

    /// Sends kept bytes, as far as they fit.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.pending.len() {
            match event_loop::write(self.fd.as_raw_fd(), &self.pending[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        // Release the memory: most connections never need it again.
        self.pending = Vec::new();
        self.sent = 0;
        Ok(())
    }

    /// Returns whether unsent bytes wait for the socket: its peer must not be read until they are
    /// sent.
    #[inline]
    pub(super) fn is_congested(&self) -> bool {
        !self.sending && !self.pending.is_empty()
    }

    /// Returns whether kept bytes wait for the ring's send.
    #[inline]
    pub(super) fn has_queued(&self) -> bool {
        self.sending && !self.pending.is_empty()
    }

    /// Returns whether there are unsent bytes.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.sending || !self.pending.is_empty()
    }

    /// Drops unsent bytes, since the peer no longer receives.
    pub(super) fn drop_unsent(&mut self) {
        self.pending = Vec::new();
        self.sent = 0;
        self.write_closed = true;
    }

    /// Shuts down sending, once, after all earlier bytes have been sent.
    pub(super) fn shut_down_sending(&mut self) {
        if self.write_closed || self.has_unsent() {
            return;
        }
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = self.send_tls(&mut Vec::new());
        }
        self.write_closed = true;
        event_loop::shutdown_write(self.fd.as_raw_fd());
    }

    /// Starts or stops receiving by the ring.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn arm(&mut self, ring: &mut Ring, token: u64, read: bool) -> io::Result<()> {
        match read && !self.ended {
            true if self.receiving == RingReceive::Off => {
                let socket = self.register(ring);
                ring.receive(socket, token)?;
                self.receiving = RingReceive::Armed;
            }
            false if self.receiving == RingReceive::Armed => {
                ring.stop(token)?;
                self.receiving = RingReceive::Stopping;
            }
            _ => {}
        }
        Ok(())
    }

    /// Registers the socket with epoll for its current needs.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn update_interest(
        &mut self,
        epoll: &Poller,
        token: u64,
        read: bool,
    ) -> io::Result<()> {
        let wanted = match (read && !self.ended, self.is_congested()) {
            (true, true) => Some(Interest::ReadAndWrite),
            (true, false) => Some(Interest::Read),
            (false, true) => Some(Interest::Write),
            (false, false) => None,
        };
        if wanted == self.waits_for {
            return Ok(());
        }
        let fd = self.fd.as_raw_fd();
        match (self.waits_for, wanted) {
            (None, Some(interest)) => epoll.add(fd, token, interest)?,
            (Some(_), Some(interest)) => epoll.change(fd, token, interest)?,
            (_, None) => epoll.remove(fd)?,
        }
        self.waits_for = wanted;
        Ok(())
    }
}

/// Returns whether the error is temporary: no data, no space, or a signal.
fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
