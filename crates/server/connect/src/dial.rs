//! Opens a socket to a server up to the first message: addresses, the socket, and TLS if required. All
//! operations block, with a time limit, on threads apart from the hot path.
//!
//! The failures after which the next host is tried, or another attempt with or without TLS, are those of
//! libpq (PostgreSQL documentation, 34.1.1.3 and 34.19; `fe-connect.c`).

mod libpq_messages;
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

/// Reason why a server could not be reached, and whether other attempts may succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DialError {
    /// Code of class 08.
    pub sqlstate: [u8; 5],
    /// Description of the error, with the remedy.
    pub message: String,
    /// Message of libpq for it.
    pub libpq_message: String,
    /// Another host may succeed.
    pub may_retry_other_host: bool,
    /// An attempt with TLS, or without it, may succeed.
    pub may_retry_other_tls_use: bool,
}

impl DialError {
    fn new(sqlstate: [u8; 5], message: impl Into<String>, in_libpqs_words: String) -> Self {
        DialError {
            sqlstate,
            message: message.into(),
            libpq_message: in_libpqs_words,
            may_retry_other_host: false,
            may_retry_other_tls_use: false,
        }
    }

    /// Marks an error of TLS, or of missing TLS.
    fn of_tls(self) -> Self {
        DialError {
            may_retry_other_tls_use: true,
            ..self
        }
    }

    /// Marks an error of a server that did not respond.
    fn unreachable(self) -> Self {
        DialError {
            may_retry_other_host: true,
            ..self
        }
    }
}

/// Use of TLS in an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsUse {
    /// Without TLS.
    Plain,
    /// With TLS.
    Encrypted,
    /// With TLS; without it, on the same connection, if the server does not support it.
    EncryptedIfThere,
}

/// Opens sockets to the servers of a target.
pub struct SocketOpener {
    target: Target,
    tls: Option<TlsClient>,
}

impl SocketOpener {
    /// Reads the files that TLS needs.
    ///
    /// # Errors
    /// If a file cannot be used; the first one is reported.
    pub fn new(target: &Target) -> Result<Self, TargetError> {
        Ok(SocketOpener {
            tls: TlsClient::new(target)?,
            target: target.clone(),
        })
    }

    /// Returns the servers in the order in which to try them.
    pub fn servers(&self) -> Vec<&Server> {
        let mut servers: Vec<&Server> = self.target.servers.iter().collect();
        if self.target.in_random_order {
            shuffle(&mut servers);
        }
        servers
    }

    /// Returns the attempts for an address in their order, as `sslmode` requires. As in libpq, TLS is for TCP
    /// only.
    pub fn attempts(&self, address: Option<SocketAddr>) -> &'static [TlsUse] {
        match self.target.security.mode {
            _ if address.is_none() => &[TlsUse::Plain],
            SslMode::Disable => &[TlsUse::Plain],
            SslMode::Allow => &[TlsUse::Plain, TlsUse::Encrypted],
            SslMode::Prefer => &[TlsUse::EncryptedIfThere, TlsUse::Plain],
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[TlsUse::Encrypted],
        }
    }

    /// Returns the addresses of a server; one `None` for a unix socket.
    ///
    /// # Errors
    /// If its name has no address.
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

    /// Opens a socket, with TLS if the attempt requires it.
    ///
    /// # Errors
    /// If the server does not respond in time, or TLS fails.
    pub fn open(
        &self,
        server: &Server,
        address: Option<SocketAddr>,
        way: TlsUse,
    ) -> Result<Channel, DialError> {
        let deadline = Deadline(Instant::now() + self.target.connect_timeout);
        let unreachable = |error| self.failed_at(server, address, error, true).unreachable();
        let mut socket = Socket::connect(server, address, deadline, &self.target.keep_alive)
            .map_err(unreachable)?;
        let tls = match (&self.tls, way) {
            (None, _) | (_, TlsUse::Plain) => None,
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

    /// Requests TLS. Returns whether the server supports it, which may be required.
    fn ask_for_tls(
        &self,
        server: &Server,
        address: Option<SocketAddr>,
        socket: &mut Socket,
        way: TlsUse,
    ) -> Result<bool, DialError> {
        let mut question = Vec::new();
        StartupPacket::SslRequest
            .encode(&mut question)
            .expect("it has no fields");
        let mut answer = [0];
        // Reads one byte only. Unencrypted bytes after it may come from an attacker.
        socket
            .write_all(&question)
            .and_then(|()| socket.read_exact(&mut answer))
            .map_err(|error| DialError {
                may_retry_other_host: is_timeout(&error),
                ..self.failed_at(server, address, error, false).of_tls()
            })?;
        match EncryptionReply::from_byte(answer[0]) {
            Some(EncryptionReply::Tls) => Ok(true),
            Some(EncryptionReply::Refused) if way == TlsUse::EncryptedIfThere => Ok(false),
            Some(EncryptionReply::Refused) => Err(DialError::new(
                UNREACHABLE,
                format!(
                    "cannot connect to {server} with TLS: it has none (ssl = off); turn it on, or use sslmode=disable"
                ),
                libpq_messages::failed(
                    server,
                    address,
                    "server does not support SSL, but SSL was required",
                ),
            )
            .of_tls()),
            // The message that follows may come from anybody on the way, so it is not read (CVE-2024-10977). Neither
            // answer leads to an attempt without TLS.
            Some(EncryptionReply::Error) => Err(DialError::new(
                UNREACHABLE,
                format!(
                    "{server} answered with an error when asked for TLS, which is not shown, since it comes from an \
                     unknown sender; look into the server's log, or use sslmode=disable"
                ),
                libpq_messages::failed(
                    server,
                    address,
                    "server sent an error response during SSL exchange",
                ),
            )),
            _ => Err(DialError::new(
                NO_POSTGRESQL,
                format!("{server} does not answer like PostgreSQL when asked for TLS"),
                libpq_messages::failed(
                    server,
                    address,
                    &format!(
                        "received invalid response to SSL negotiation: {}",
                        answer[0].escape_ascii()
                    ),
                ),
            )),
        }
    }

    fn shake_hands(
        &self,
        tls: &TlsClient,
        server: &Server,
        address: Option<SocketAddr>,
        socket: &mut Socket,
    ) -> Result<Box<ClientConnection>, DialError> {
        // The remedy, with the paths of files, is for the user of this program. libpq reports the message of
        // its TLS library.
        let refused = |message: String, words: &str| {
            DialError::new(
                UNREACHABLE,
                format!("cannot connect to {server} with TLS: {message}"),
                libpq_messages::failed(server, address, words),
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

    /// Converts a socket error of this server to a sentence.
    pub fn failed(&self, server: &Server, error: io::Error) -> DialError {
        self.failed_at(server, None, error, false)
    }

    /// Returns the error for a server name without an address.
    fn unknown_name(&self, server: &Server, error: io::Error) -> DialError {
        DialError {
            libpq_message: libpq_messages::unknown_name(server, &error),
            ..self.failed(server, error)
        }
    }

    /// Converts a socket error as [`Self::failed`] does, with the address that was tried. `connecting`: the
    /// connection was not established yet.
    fn failed_at(
        &self,
        server: &Server,
        address: Option<SocketAddr>,
        error: io::Error,
        connecting: bool,
    ) -> DialError {
        let words = libpq_messages::reason(server, &error, connecting);
        let in_libpqs_words = libpq_messages::failed(server, address, &words);
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

/// Returns the reason why a server ended a handshake. A client that is sending gets a broken pipe only,
/// although an alert was received before.
fn last_words(connection: &mut ClientConnection, socket: &mut Socket) -> Option<io::Error> {
    while matches!(connection.read_tls(socket), Ok(read) if read > 0) {
        if let Err(error) = connection.process_new_packets() {
            return Some(io::Error::new(io::ErrorKind::InvalidData, error));
        }
    }
    None
}

/// A socket during the start-up, with TLS or without, and with a deadline.
pub struct Channel {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

impl Channel {
    /// Returns the TLS connection, if there is one.
    pub fn tls(&self) -> Option<&ClientConnection> {
        self.tls.as_deref()
    }

    /// Sets a new time limit from now on.
    pub fn limit(&mut self, time: Duration) {
        self.socket.limit(Deadline(Instant::now() + time));
    }

    /// Sends the last bytes and the end of TLS, as far as possible.
    pub fn terminate(&mut self, bytes: &[u8]) {
        let _ = self.write_all(bytes);
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        let _ = self.flush();
    }

    /// Returns the bare socket in non-blocking mode, and its TLS connection after the handshake.
    ///
    /// # Errors
    /// If the socket cannot be made non-blocking.
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

/// Time at which an attempt is aborted.
#[derive(Debug, Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    /// Returns the remaining time.
    ///
    /// # Errors
    /// `TimedOut` if none is left: a socket takes zero for no limit.
    fn left(self) -> io::Result<Duration> {
        match self.0.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

/// Whether the error is that of the time limit.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

/// Shuffles by the Fisher–Yates algorithm, with the randomly seeded hasher of the standard library.
pub fn shuffle<T>(items: &mut [T]) {
    let chance = RandomState::new();
    for place in (1..items.len()).rev() {
        let other = chance.hash_one(place) % (place as u64 + 1);
        items.swap(place, other as usize);
    }
}

#[cfg(test)]
mod tests;
