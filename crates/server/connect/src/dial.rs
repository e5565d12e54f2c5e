//! The way to a server up to the first message: its addresses, a socket, and TLS where that is
//! wanted. Blocking, with a time limit; threads beside the hot path call it.
//!
//! Which failures lead on to the next host, and which to another try with or without TLS, is as
//! libpq has it (PostgreSQL documentation, 34.1.1.3 and 34.19; `fe-connect.c`).

mod libpq_words;
mod socket;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use protocol::backend::EncryptionReply;
use protocol::frontend::startup::StartupPacket;
use rustls::ClientConnection;

use crate::tls::{TlsClient, agreed_on_postgresql};
use crate::{Host, Server, SslMode, Target, TargetError};
use socket::Socket;

/// `sqlclient_unable_to_establish_sqlconnection`
pub const UNREACHABLE: [u8; 5] = *b"08001";
/// `protocol_violation`
pub const NO_POSTGRESQL: [u8; 5] = *b"08P01";

/// Why a server could not be reached, and what that says about other attempts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DialError {
    /// A code of class 08.
    pub sqlstate: [u8; 5],
    /// What went wrong, and what to do.
    pub message: String,
    /// What libpq says of it.
    pub in_libpqs_words: String,
    /// The next host may be better.
    pub another_host: bool,
    /// It may be otherwise with TLS, or without.
    pub another_way: bool,
}

impl DialError {
    fn new(sqlstate: [u8; 5], message: impl Into<String>, in_libpqs_words: String) -> Self {
        DialError {
            sqlstate,
            message: message.into(),
            in_libpqs_words,
            another_host: false,
            another_way: false,
        }
    }

    /// There is no TLS, or none that will do.
    fn of_tls(self) -> Self {
        DialError {
            another_way: true,
            ..self
        }
    }

    /// Nobody answered.
    fn unreachable(self) -> Self {
        DialError {
            another_host: true,
            ..self
        }
    }
}

/// Whether a try is made with TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Without.
    Plain,
    /// With.
    Encrypted,
    /// With TLS; without, on the same connection, where the server has none.
    EncryptedIfThere,
}

/// Opens sockets to a target's servers.
pub struct Opener {
    target: Target,
    tls: Option<TlsClient>,
}

impl Opener {
    /// Reads the files that TLS needs.
    ///
    /// # Errors
    /// With the first that is of no use.
    pub fn new(target: &Target) -> Result<Self, TargetError> {
        Ok(Opener {
            tls: TlsClient::new(target)?,
            target: target.clone(),
        })
    }

    /// The servers in the order in which they are to be tried.
    pub fn servers(&self) -> Vec<&Server> {
        let mut servers: Vec<&Server> = self.target.servers.iter().collect();
        if self.target.in_random_order {
            shuffle(&mut servers);
        }
        servers
    }

    /// How to try an address, one after the other, as `sslmode` has it. As with libpq, TLS is for
    /// TCP.
    pub fn ways(&self, address: Option<SocketAddr>) -> &'static [Way] {
        match self.target.security.mode {
            _ if address.is_none() => &[Way::Plain],
            SslMode::Disable => &[Way::Plain],
            SslMode::Allow => &[Way::Plain, Way::Encrypted],
            SslMode::Prefer => &[Way::EncryptedIfThere, Way::Plain],
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[Way::Encrypted],
        }
    }

    /// The addresses of a server; one `None` for a unix socket.
    ///
    /// # Errors
    /// Where its name has none.
    pub fn addresses(&self, server: &Server) -> Result<Vec<Option<SocketAddr>>, DialError> {
        let mut addresses = match (&server.host, server.address) {
            (Some(Host::Unix(_) | Host::Abstract(_)), _) => return Ok(vec![None]),
            (_, Some(address)) => vec![Some(SocketAddr::new(address, server.port))],
            (Some(Host::Tcp(host)), None) => socket::look_up(host, server.port)
                .map_err(|error| self.unknown_name(server, error))?
                .into_iter()
                .map(Some)
                .collect(),
            (None, None) => Vec::new(),
        };
        if addresses.is_empty() {
            let error = io::Error::other("its name has no address");
            return Err(self.unknown_name(server, error));
        }
        if self.target.in_random_order {
            shuffle(&mut addresses);
        }
        Ok(addresses)
    }

    /// A socket, with TLS on it if that is the way.
    ///
    /// # Errors
    /// Where nobody answers in time, or there is no TLS that will do.
    pub fn open(
        &self,
        server: &Server,
        address: Option<SocketAddr>,
        way: Way,
    ) -> Result<Channel, DialError> {
        let deadline = Deadline(Instant::now() + self.target.connect_timeout);
        let unreachable = |error| self.failed_at(server, address, error, true).unreachable();
        let mut socket = Socket::connect(server, address, deadline, &self.target.keep_alive)
            .map_err(unreachable)?;
        let tls = match (&self.tls, way) {
            (None, _) | (_, Way::Plain) => None,
            (Some(tls), way) => {
                if self.target.security.direct
                    || self.ask_for_tls(server, address, &mut socket, way)?
                {
                    Some(self.shake_hands(tls, server, address, &mut socket)?)
                } else {
                    None
                }
            }
        };
        Ok(Channel { socket, tls })
    }

    /// Whether the server has TLS. Where it must and has not, that is a failure.
    fn ask_for_tls(
        &self,
        server: &Server,
        address: Option<SocketAddr>,
        socket: &mut Socket,
        way: Way,
    ) -> Result<bool, DialError> {
        let mut question = Vec::new();
        StartupPacket::SslRequest
            .encode(&mut question)
            .expect("it has no fields");
        let mut answer = [0];
        // One byte, and no more: what is behind it in clear may be an attacker's.
        socket
            .write_all(&question)
            .and_then(|()| socket.read_exact(&mut answer))
            .map_err(|error| DialError {
                another_host: is_timeout(&error),
                ..self.failed_at(server, address, error, false).of_tls()
            })?;
        match EncryptionReply::from_byte(answer[0]) {
            Some(EncryptionReply::Tls) => Ok(true),
            Some(EncryptionReply::Refused) if way == Way::EncryptedIfThere => Ok(false),
            Some(EncryptionReply::Refused) => Err(DialError::new(
                UNREACHABLE,
                format!(
                    "cannot connect to {server} with TLS: it has none (ssl = off); turn it on, or use sslmode=disable"
                ),
                libpq_words::failed(
                    server,
                    address,
                    "server does not support SSL, but SSL was required",
                ),
            )
            .of_tls()),
            _ => Err(DialError::new(
                NO_POSTGRESQL,
                format!("{server} does not answer like PostgreSQL when asked for TLS"),
                libpq_words::failed(
                    server,
                    address,
                    &format!(
                        "received invalid response to SSL negotiation: {}",
                        answer[0].escape_ascii()
                    ),
                ),
            )
            .of_tls()),
        }
    }

    fn shake_hands(
        &self,
        tls: &TlsClient,
        server: &Server,
        address: Option<SocketAddr>,
        socket: &mut Socket,
    ) -> Result<Box<ClientConnection>, DialError> {
        // What to do, with the paths of files, is for who runs this; libpq says what its TLS library says.
        let refused = |message: String, words: &str| {
            DialError::new(
                UNREACHABLE,
                format!("cannot connect to {server} with TLS: {message}"),
                libpq_words::failed(server, address, words),
            )
            .of_tls()
        };
        const TOO_OLD: &str = "it ended the handshake that began at once (sslnegotiation=direct), which PostgreSQL takes from version 17 on; use sslnegotiation=postgres";
        let direct = self.target.security.direct;
        let mut connection = tls
            .begin(server, address.map(|address| address.ip()))
            .map_err(|message| refused(message, "could not initiate SSL connection"))?;
        while connection.is_handshaking() {
            match connection.complete_io(socket) {
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {
                    return Err(self.failed_at(server, address, error, false).unreachable());
                }
                Err(error) => {
                    let error = match error.kind() {
                        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                            last_words(&mut connection, socket).unwrap_or(error)
                        }
                        _ => error,
                    };
                    let message = match tls.explain(&error, server) {
                        Some(explanation) => explanation,
                        None if direct => TOO_OLD.to_owned(),
                        None => format!("the handshake was cut off ({error})"),
                    };
                    return Err(refused(message, &format!("SSL error: {error}")));
                }
            }
        }
        if direct && !agreed_on_postgresql(&connection) {
            return Err(refused(
                "it does not say that it is PostgreSQL (ALPN), as sslnegotiation=direct demands; use sslnegotiation=postgres".to_owned(),
                "direct SSL connection was established without ALPN protocol negotiation extension",
            ));
        }
        Ok(connection)
    }

    /// What an error of a socket to this server means, in a sentence.
    pub fn failed(&self, server: &Server, error: io::Error) -> DialError {
        self.failed_at(server, None, error, false)
    }

    /// A server's name has no address.
    fn unknown_name(&self, server: &Server, error: io::Error) -> DialError {
        DialError {
            in_libpqs_words: libpq_words::unknown_name(server, &error),
            ..self.failed(server, error)
        }
    }

    /// As [`Self::failed`], where the address is known that was tried; `connecting`: there was no connection yet.
    fn failed_at(
        &self,
        server: &Server,
        address: Option<SocketAddr>,
        error: io::Error,
        connecting: bool,
    ) -> DialError {
        let words = libpq_words::reason(server, &error, connecting);
        let in_libpqs_words = libpq_words::failed(server, address, &words);
        let explained = self
            .tls
            .as_ref()
            .and_then(|tls| tls.explain(&error, server));
        let reason = explained.unwrap_or_else(|| match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                "nothing listens there; is the server up, and is this its host and port?".to_owned()
            }
            io::ErrorKind::NotFound => {
                "there is no such socket; is the server up, and is this its directory and port?"
                    .to_owned()
            }
            _ if is_timeout(&error) => {
                format!(
                    "no answer within {} s",
                    self.target.connect_timeout.as_secs()
                )
            }
            _ => error.to_string(),
        });
        DialError::new(
            UNREACHABLE,
            format!("cannot connect to {server}: {reason}"),
            in_libpqs_words,
        )
    }
}

/// Why a server has ended a handshake: who was sending meanwhile hears only that nobody takes it any more,
/// though the alert has come before.
fn last_words(connection: &mut ClientConnection, socket: &mut Socket) -> Option<io::Error> {
    while matches!(connection.read_tls(socket), Ok(read) if read > 0) {
        if let Err(error) = connection.process_new_packets() {
            return Some(io::Error::new(io::ErrorKind::InvalidData, error));
        }
    }
    None
}

/// A socket during the start-up, with TLS or without. It keeps to its time limit.
pub struct Channel {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

impl Channel {
    /// Its TLS, if it has any.
    pub fn tls(&self) -> Option<&ClientConnection> {
        self.tls.as_deref()
    }

    /// Gives it a new time limit from now on.
    pub fn limit(&mut self, time: Duration) {
        self.socket.limit(Deadline(Instant::now() + time));
    }

    /// Sends the last bytes and the end of TLS, as far as that still goes.
    pub fn say_goodbye(&mut self, bytes: &[u8]) {
        let _ = self.write_all(bytes);
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        let _ = self.flush();
    }

    /// The bare socket, not blocking any more, and the TLS on it, whose handshake is done.
    ///
    /// # Errors
    /// Where the system refuses that it does not block.
    pub fn into_parts(self) -> io::Result<(OwnedFd, Option<Box<ClientConnection>>)> {
        Ok((self.socket.into_fd()?, self.tls))
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.read(buffer),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.socket).read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write(bytes),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.socket).flush(),
        }
    }
}

/// When an attempt has taken too long.
#[derive(Debug, Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    /// What is left.
    ///
    /// # Errors
    /// `TimedOut` where nothing is: a socket takes zero for no limit.
    fn left(self) -> io::Result<Duration> {
        match self.0.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

/// Whether it is the time limit that was passed.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

/// Fisher and Yates; the standard library's hasher is seeded by chance.
pub fn shuffle<T>(items: &mut [T]) {
    let chance = RandomState::new();
    for place in (1..items.len()).rev() {
        let other = chance.hash_one(place) % (place as u64 + 1);
        items.swap(place, other as usize);
    }
}

#[cfg(test)]
mod tests;
