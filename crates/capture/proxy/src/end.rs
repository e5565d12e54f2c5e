//! One end of a connection: a socket that does not block, with TLS on it or without, and what has
//! yet to go out there.
//!
//! What a read finds is decrypted whole, so that nothing stays behind for which no readiness would
//! ever be told; what is to be sent is encrypted whole, and waits as the bytes of the socket.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use event_loop::{Buffer, Epoll, Interest, Ring, Socket};
use rustls::Connection;

/// One end of a connection.
pub(super) struct End {
    fd: OwnedFd,
    tls: Option<Box<Connection>>,
    /// What found no room in the socket.
    pending: Vec<u8>,
    /// So much of it has gone out.
    sent: usize,
    waits_for: Option<Interest>,
    /// As the ring knows it, once it does.
    socket: Option<Socket>,
    /// What comes arrives through the ring …
    armed: bool,
    /// … which was asked to stop that.
    stopping: bool,
    /// The ring sends something; what comes behind it is kept.
    sending: bool,
    /// It sends nothing any more.
    pub(super) ended: bool,
    /// It was told that nothing more comes.
    told_end: bool,
}

/// What a read found.
pub(super) enum Found<'b> {
    /// Bytes; with TLS there may be none, although something came.
    Bytes(&'b [u8]),
    /// These, and then the end.
    End(&'b [u8]),
    /// Nothing.
    Nothing,
}

/// Space for what is read, shared by all connections of a thread.
pub(super) struct Space {
    read: Box<[u8]>,
    plain: Vec<u8>,
}

/// The most that is read at once.
const READ_BYTES: usize = 64 << 10;

impl Space {
    pub(super) fn new() -> Self {
        Space {
            read: vec![0; READ_BYTES].into_boxed_slice(),
            plain: Vec::new(),
        }
    }
}

impl End {
    /// Of a socket that does not block.
    pub(super) fn new(fd: OwnedFd) -> Self {
        End {
            fd,
            tls: None,
            pending: Vec::new(),
            sent: 0,
            waits_for: None,
            socket: None,
            armed: false,
            stopping: false,
            sending: false,
            ended: false,
            told_end: false,
        }
    }

    /// What comes from now on is TLS.
    pub(super) fn encrypt(&mut self, mut tls: Box<Connection>) {
        tls.set_buffer_limit(None);
        self.tls = Some(tls);
    }

    pub(super) fn tls(&self) -> Option<&Connection> {
        self.tls.as_deref()
    }

    /// Reads once. `out` is space for what TLS itself answers.
    ///
    /// # Errors
    /// Where the connection is broken, or its TLS.
    #[inline]
    pub(super) fn receive<'b>(
        &mut self,
        space: &'b mut Space,
        out: &mut Vec<u8>,
    ) -> io::Result<Found<'b>> {
        let read = match event_loop::read(self.fd.as_raw_fd(), &mut space.read) {
            Ok(0) => return Ok(Found::End(&[])),
            Ok(read) => read,
            Err(error) if is_passing(&error) => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        if self.tls.is_none() {
            return Ok(Found::Bytes(&space.read[..read]));
        }
        space.plain.clear();
        let ended = self.decrypt(&space.read[..read], &mut space.plain)?;
        self.send_tls(out)?;
        Ok(match ended {
            true => Found::End(&space.plain),
            false => Found::Bytes(&space.plain),
        })
    }

    /// Takes bytes of TLS that were read already. Returns whether the peer has ended it.
    ///
    /// # Errors
    /// Where they are none.
    pub(super) fn decrypt(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            return Ok(false);
        };
        while !bytes.is_empty() {
            tls.read_tls(&mut bytes)?;
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The alert says why.
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

    /// Sends what TLS itself has to say: handshakes, alerts.
    ///
    /// # Errors
    /// Where the connection is broken.
    pub(super) fn send_tls(&mut self, space: &mut Vec<u8>) -> io::Result<()> {
        let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_write()) else {
            return Ok(());
        };
        space.clear();
        while tls.wants_write() {
            tls.write_tls(space)?;
        }
        self.send_raw(space)
    }

    /// Sends, or keeps what there is no room for.
    ///
    /// # Errors
    /// Where the connection is broken.
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8], space: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.tls {
            None => self.send_raw(bytes),
            Some(tls) => {
                tls.writer().write_all(bytes)?;
                self.send_tls(space)
            }
        }
    }

    #[inline]
    fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut written = 0;
        if self.pending.is_empty() && !self.sending {
            written = match event_loop::write(self.fd.as_raw_fd(), bytes) {
                Ok(written) => written,
                Err(error) if is_passing(&error) => 0,
                Err(error) => return Err(error),
            };
        }
        if written < bytes.len() {
            self.pending.extend_from_slice(&bytes[written..]);
        }
        Ok(())
    }

    /// Has the ring send a buffer of it, or keeps what is in it behind what is sent before.
    ///
    /// # Errors
    /// Where the system refuses.
    pub(super) fn send_by(
        &mut self,
        ring: &mut Ring,
        token: u64,
        buffer: Buffer,
    ) -> io::Result<()> {
        if self.sending || !self.pending.is_empty() {
            if !self.told_end {
                self.pending.extend_from_slice(ring.bytes(&buffer));
            }
            ring.give_back(buffer);
            return Ok(());
        }
        self.sending = true;
        let socket = self.known_to(ring);
        ring.send(socket, token, buffer)
    }

    /// The ring has sent a buffer, as far as there was room: the rest goes out before what was kept.
    ///
    /// # Errors
    /// Where the connection is broken.
    pub(super) fn sent_by(
        &mut self,
        ring: &mut Ring,
        buffer: Buffer,
        sent: io::Result<usize>,
    ) -> io::Result<()> {
        self.sending = false;
        let bytes = ring.bytes(&buffer);
        let sent = match sent {
            Err(error) if is_passing(&error) => Ok(0),
            sent => sent,
        };
        if let Ok(sent) = sent
            && sent < bytes.len()
            && !self.told_end
        {
            self.pending.splice(0..0, bytes[sent..].iter().copied());
        }
        ring.give_back(buffer);
        sent?;
        match self.pending.is_empty() {
            true => Ok(()),
            false => self.flush(),
        }
    }

    /// Nothing arrives through the ring until that is asked for again.
    pub(super) fn disarmed(&mut self) {
        self.armed = false;
        self.stopping = false;
    }

    #[inline]
    fn known_to(&mut self, ring: &mut Ring) -> Socket {
        *self
            .socket
            .get_or_insert_with(|| ring.know(self.fd.as_raw_fd()))
    }

    /// It is about to be closed: what the ring has of it goes out, and nothing arrives any more.
    pub(super) fn leave(&mut self, ring: &mut Ring, token: u64) {
        let Some(socket) = self.socket.take() else {
            return;
        };
        // Where the ring refuses, it has come to its end, and all with it.
        if self.armed {
            let _ = ring.stop(token);
        }
        let _ = ring.hand_over();
        ring.forget(socket);
    }

    /// Sends what was kept, as far as there is room.
    ///
    /// # Errors
    /// Where the connection is broken.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.pending.len() {
            match event_loop::write(self.fd.as_raw_fd(), &self.pending[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        // The space is given back: most connections never need it again.
        self.pending = Vec::new();
        self.sent = 0;
        Ok(())
    }

    /// There was no room for all that is to be sent: nothing more is to come before it went out.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        !self.sending && !self.pending.is_empty()
    }

    /// Something is to go out as soon as the ring has sent what it was given.
    #[inline]
    pub(super) fn keeps_behind(&self) -> bool {
        self.sending && !self.pending.is_empty()
    }

    /// Not all that is to be sent has gone out.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.sending || !self.pending.is_empty()
    }

    /// Nothing that is sent arrives any more.
    pub(super) fn give_up_sending(&mut self) {
        self.pending = Vec::new();
        self.sent = 0;
        self.told_end = true;
    }

    /// Tells it, once, that nothing more comes, where all that was before has gone out.
    pub(super) fn tell_end(&mut self) {
        if self.told_end || self.has_unsent() {
            return;
        }
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = self.send_tls(&mut Vec::new());
        }
        self.told_end = true;
        event_loop::end_writing(self.fd.as_raw_fd());
    }

    /// Has what comes arrive through the ring, or not.
    ///
    /// # Errors
    /// Where the system refuses.
    pub(super) fn arm(&mut self, ring: &mut Ring, token: u64, read: bool) -> io::Result<()> {
        match read && !self.ended {
            true if !self.armed => {
                let socket = self.known_to(ring);
                ring.receive(socket, token)?;
                self.armed = true;
            }
            false if self.armed && !self.stopping => {
                ring.stop(token)?;
                self.stopping = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Has its readiness be told, for what is wanted of it now.
    ///
    /// # Errors
    /// Where the system refuses.
    pub(super) fn wait(&mut self, epoll: &Epoll, token: u64, read: bool) -> io::Result<()> {
        let wanted = match (read && !self.ended, self.is_behind()) {
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

/// Nothing is there, or no room; or a signal came.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
