//! Opens one connection: hosts and addresses in turn, socket, TLS, start-up, authentication.
//! Blocking, with a time limit; the connectors' threads call it, so that no session waits for
//! another's.
//!
//! Which failures lead on to the next host, and which to another try with or without TLS, is as
//! libpq has it (PostgreSQL documentation, 34.1.1.3 and 34.19; `fe-connect.c`).

mod socket;
mod start_up;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pgwire::backend::{EncryptionReply, KeyData};
use pgwire::frontend::startup::{CancelRequest, StartupPacket};
use rustls::ClientConnection;
use workload::Sqlstate;

use crate::guard::Guard;
use crate::link::Link;
use crate::login::Login;
use crate::target::{Host, Server, SessionAttributes, SslMode, Target, TargetError};
use crate::tls::{TlsClient, agreed_on_postgresql};
use socket::Socket;
use start_up::StartUp;

/// Opens connections to a target.
pub(crate) struct Dialer {
    target: Target,
    tls: Option<TlsClient>,
}

/// An open connection, ready for queries and not blocking.
pub(crate) struct Connection {
    pub(crate) link: Link,
    /// What came behind the first ReadyForQuery (notices).
    pub(crate) unread: Vec<u8>,
    /// `server_version`, as reported.
    pub(crate) server_version: String,
    /// Where it is, and what ends what runs there.
    pub(crate) place: Place,
    /// What keeps the session from writing, if it must not.
    pub(crate) guard: Guard,
}

/// Where a connection led, for a second one to the very same server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    server: Server,
    /// `None`: a unix socket.
    address: Option<SocketAddr>,
    encrypted: bool,
    process_id: i32,
    secret_key: Vec<u8>,
}

impl Connection {
    /// Says to the server that it ends, and expects nothing.
    fn say_goodbye(&mut self) {
        let mut goodbye = Vec::new();
        pgwire::frontend::Terminate.encode(&mut goodbye);
        self.link.say_goodbye(&goodbye);
    }
}

impl ConnectError {
    /// Whether it may be otherwise in a while: nobody answered, the server starts or stops, or it
    /// has no room for more connections.
    pub(crate) fn may_pass(&self) -> bool {
        let class = &self.sqlstate.0[..2];
        // Insufficient resources (too many connections), operator intervention, connections.
        [b"53", b"57", b"08"]
            .iter()
            .any(|passing| class == *passing)
    }
}

impl Place {
    /// The server's process at the other end.
    pub(crate) fn process_id(&self) -> i32 {
        self.process_id
    }

    fn way(&self) -> Way {
        match self.encrypted {
            true => Way::Encrypted,
            false => Way::Plain,
        }
    }
}

/// What a server answered to a question.
pub(crate) struct Answer {
    /// The one that answered.
    pub(crate) server: Server,
    /// Its rows.
    pub(crate) rows: Vec<Row>,
}

/// A connection for questions of our own, asked one after the other.
pub(crate) struct Questions<'a> {
    conversation: StartUp<'a>,
}

impl Questions<'_> {
    /// Asks one with a simple query.
    ///
    /// # Errors
    /// Where the server refuses it, is gone, or does not answer in time.
    pub(crate) fn ask(&mut self, question: &str) -> Result<Vec<Row>, ConnectError> {
        self.conversation
            .ask_for_rows(question)
            .map_err(|failure| failure.error)
    }
}

/// A text or NULL a column.
pub(crate) type Row = Vec<Option<String>>;

/// Why a connection could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    /// The server's code, or one of class 08.
    pub sqlstate: Sqlstate,
    /// The server's message, or what went wrong.
    pub message: String,
}

/// `sqlclient_unable_to_establish_sqlconnection`
const UNREACHABLE: Sqlstate = Sqlstate(*b"08001");
/// `protocol_violation`
const NO_POSTGRESQL: Sqlstate = Sqlstate(*b"08P01");
/// `invalid_password`
const NO_PASSWORD: Sqlstate = Sqlstate(*b"28P01");
/// `invalid_authorization_specification`: no line of `pg_hba.conf` is for it.
const NO_ENTRY: Sqlstate = Sqlstate(*b"28000");
/// `cannot_connect_now`: it starts, stops or recovers.
const NOT_NOW: Sqlstate = Sqlstate(*b"57P03");

impl ConnectError {
    fn new(sqlstate: Sqlstate, message: impl Into<String>) -> Self {
        ConnectError {
            sqlstate,
            message: message.into(),
        }
    }
}

/// An attempt that failed, and what it says about other attempts.
struct Failure {
    error: ConnectError,
    /// The next host may be better.
    another_host: bool,
    /// It may be otherwise with TLS, or without.
    another_way: bool,
}

impl Failure {
    /// Nobody answered.
    fn unreachable(error: ConnectError) -> Self {
        Failure {
            error,
            another_host: true,
            another_way: false,
        }
    }

    /// There is no TLS, or none that will do.
    fn of_tls(error: ConnectError) -> Self {
        Failure {
            error,
            another_host: false,
            another_way: true,
        }
    }

    /// The server is not what it should be.
    fn other_session(message: String) -> Self {
        Failure::unreachable(ConnectError::new(UNREACHABLE, message))
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Failure {
            another_host: error.sqlstate == NOT_NOW,
            // PgBouncer says that it wants TLS with the code of a violated protocol.
            another_way: [NO_ENTRY, NO_POSTGRESQL].contains(&error.sqlstate),
            error,
        }
    }
}

/// Whether a try is made with TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Encrypted,
    /// With TLS; without, on the same connection, where the server has none.
    EncryptedIfThere,
}

impl Dialer {
    /// Reads the files that TLS needs.
    ///
    /// # Errors
    /// With the first that is of no use.
    pub(crate) fn new(target: &Target) -> Result<Self, TargetError> {
        Ok(Dialer {
            tls: TlsClient::new(target)?,
            target: target.clone(),
        })
    }

    /// Opens a connection to the first server that answers as asked.
    ///
    /// # Errors
    /// Where none is there, is PostgreSQL's, takes the login, or answers in time.
    pub(crate) fn connect(&self, login: &Login) -> Result<Connection, ConnectError> {
        let mut servers: Vec<&Server> = self.target.servers.iter().collect();
        if self.target.in_random_order {
            shuffle(&mut servers);
        }
        let mut failures: Vec<ConnectError> = Vec::new();
        let passes = match self.target.session {
            SessionAttributes::PreferStandby => {
                vec![SessionAttributes::Standby, SessionAttributes::Any]
            }
            attributes => vec![attributes],
        };
        for (pass, wanted) in passes.iter().enumerate() {
            // What was wrong in the first pass is wrong in the second again, but for a standby.
            if pass > 0 {
                failures.clear();
            }
            for server in &servers {
                let addresses = match self.addresses(server) {
                    Ok(addresses) => addresses,
                    Err(error) => {
                        failures.push(error);
                        continue;
                    }
                };
                for address in addresses {
                    match self.try_ways(server, address, login, *wanted) {
                        Ok(connection) => return Ok(connection),
                        Err(failure) if failure.another_host => failures.push(failure.error),
                        Err(failure) => return Err(failure.error),
                    }
                }
            }
        }
        Err(joined(failures))
    }

    /// Opens a connection and closes it again: is the target there, and does it take this login?
    /// Returns where it was and its `server_version`.
    ///
    /// # Errors
    /// As [`Dialer::connect`].
    pub(crate) fn try_out(&self, login: &Login) -> Result<(String, String), ConnectError> {
        let mut connection = self.connect(login)?;
        connection.say_goodbye();
        Ok((
            connection.place.server.to_string(),
            connection.server_version,
        ))
    }

    /// Asks one question with a simple query, over a connection of its own. Returns the server that
    /// answered, and the rows, each a text or NULL a column.
    ///
    /// # Errors
    /// As [`Dialer::connect`], and where the server refuses the question.
    pub(crate) fn ask(&self, login: &Login, question: &str) -> Result<Answer, ConnectError> {
        let mut connection = self.connect(login)?;
        connection.say_goodbye();
        let place = connection.place;
        let mut conversation = self
            .begin(&place.server, place.address, login, place.way())
            .map_err(|failure| failure.error)?;
        Ok(Answer {
            rows: conversation
                .ask_for_rows(question)
                .map_err(|failure| failure.error)?,
            server: place.server,
        })
    }

    /// Opens a connection for several questions. It holds as long as opening one may take.
    ///
    /// # Errors
    /// As [`Dialer::connect`].
    pub(crate) fn questions(&self, login: &Login) -> Result<Questions<'_>, ConnectError> {
        let mut connection = self.connect(login)?;
        connection.say_goodbye();
        let place = connection.place;
        self.begin(&place.server, place.address, login, place.way())
            .map(|conversation| Questions { conversation })
            .map_err(|failure| failure.error)
    }

    /// Asks the server to cancel what runs on a connection: over another one to the same address,
    /// with TLS if that one has it. There is no answer; returns when the server has taken it.
    ///
    /// # Errors
    /// Where the server cannot be reached again.
    pub(crate) fn cancel(&self, place: &Place) -> Result<(), ConnectError> {
        let mut channel = self
            .open(&place.server, place.address, place.way())
            .map_err(|failure| failure.error)?;
        let mut request = Vec::new();
        StartupPacket::Cancel(CancelRequest {
            process_id: place.process_id,
            secret_key: &place.secret_key,
        })
        .encode(&mut request)
        .map_err(|error| ConnectError::new(NO_POSTGRESQL, error.to_string()))?;
        let failed = |error| self.failed(&place.server, error);
        channel.write_all(&request).map_err(failed)?;
        channel.flush().map_err(failed)?;
        // The server closes it when the signal is sent; how it does so says nothing.
        let _ = channel.read(&mut [0; 1]);
        Ok(())
    }

    /// The addresses of a server; one `None` for a unix socket.
    fn addresses(&self, server: &Server) -> Result<Vec<Option<SocketAddr>>, ConnectError> {
        let mut addresses = match (&server.host, server.address) {
            (Some(Host::Unix(_) | Host::Abstract(_)), _) => return Ok(vec![None]),
            (_, Some(address)) => vec![Some(SocketAddr::new(address, server.port))],
            (Some(Host::Tcp(host)), None) => socket::look_up(host, server.port)
                .map_err(|error| self.failed(server, error))?
                .into_iter()
                .map(Some)
                .collect(),
            (None, None) => Vec::new(),
        };
        if addresses.is_empty() {
            return Err(self.failed(server, io::Error::other("its name has no address")));
        }
        if self.target.in_random_order {
            shuffle(&mut addresses);
        }
        Ok(addresses)
    }

    fn try_ways(
        &self,
        server: &Server,
        address: Option<SocketAddr>,
        login: &Login,
        wanted: SessionAttributes,
    ) -> Result<Connection, Failure> {
        let ways: &[Way] = match self.target.security.mode {
            // As with libpq, TLS is for TCP.
            _ if address.is_none() => &[Way::Plain],
            SslMode::Disable => &[Way::Plain],
            SslMode::Allow => &[Way::Plain, Way::Encrypted],
            SslMode::Prefer => &[Way::EncryptedIfThere, Way::Plain],
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[Way::Encrypted],
        };
        let mut first: Option<Failure> = None;
        for &way in ways {
            match self.try_once(server, address, login, wanted, way) {
                Ok(connection) => return Ok(connection),
                Err(failure) if first.is_none() && failure.another_way => first = Some(failure),
                Err(failure) => {
                    return Err(match first {
                        Some(first) if first.error != failure.error => Failure {
                            error: joined(vec![first.error, failure.error]),
                            ..failure
                        },
                        _ => failure,
                    });
                }
            }
        }
        Err(first.expect("there is a way, and it failed"))
    }

    fn try_once(
        &self,
        server: &Server,
        address: Option<SocketAddr>,
        login: &Login,
        wanted: SessionAttributes,
        way: Way,
    ) -> Result<Connection, Failure> {
        let mut conversation = self.begin(server, address, login, way)?;
        let encrypted = conversation.is_encrypted();
        conversation.check_session(wanted)?;
        if let Some(role) = &login.role {
            conversation.become_role(role)?;
        }
        let (mut unread, known, channel) = conversation.finish();
        let guard = match self.target.is_read_only() {
            true => Guard::new(known.default_read_only)?,
            false => Guard::default(),
        };
        let mut link = channel
            .into_link()
            .map_err(|error| self.failed(server, error))?;
        // What rustls has decrypted already would not be told of by the socket.
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = link.read(&mut buffer) {
            unread.extend_from_slice(&buffer[..read]);
        }
        Ok(Connection {
            link,
            unread,
            server_version: known.server_version,
            place: Place {
                server: server.clone(),
                address,
                encrypted,
                process_id: known.process_id,
                secret_key: known.secret_key,
            },
            guard,
        })
    }

    /// A connection up to the first ReadyForQuery.
    fn begin<'a>(
        &'a self,
        server: &Server,
        address: Option<SocketAddr>,
        login: &Login,
        way: Way,
    ) -> Result<StartUp<'a>, Failure> {
        let channel = self.open(server, address, way)?;
        let mut conversation = StartUp::new(self, server, channel);
        conversation.begin(login)?;
        conversation.authenticate(login)?;
        conversation.until_ready()?;
        Ok(conversation)
    }

    /// A socket, with TLS on it if that is the way.
    fn open(
        &self,
        server: &Server,
        address: Option<SocketAddr>,
        way: Way,
    ) -> Result<Channel, Failure> {
        let deadline = Deadline(Instant::now() + self.target.connect_timeout);
        let unreachable = |error| Failure::unreachable(self.failed(server, error));
        let mut socket = Socket::connect(server, address, deadline, &self.target.keep_alive)
            .map_err(unreachable)?;
        let tls = match (&self.tls, way) {
            (None, _) | (_, Way::Plain) => None,
            (Some(tls), way) => {
                if self.target.security.direct || self.ask_for_tls(server, &mut socket, way)? {
                    Some(self.shake_hands(tls, server, address, &mut socket)?)
                } else {
                    None
                }
            }
        };
        Ok(Channel { socket, tls })
    }

    /// Whether the server has TLS. Where it must and has not, that is a failure.
    fn ask_for_tls(&self, server: &Server, socket: &mut Socket, way: Way) -> Result<bool, Failure> {
        let mut question = Vec::new();
        StartupPacket::SslRequest
            .encode(&mut question)
            .expect("it has no fields");
        let mut answer = [0];
        // One byte, and no more: what is behind it in clear may be an attacker's.
        socket
            .write_all(&question)
            .and_then(|()| socket.read_exact(&mut answer))
            .map_err(|error| Failure {
                another_host: is_timeout(&error),
                ..Failure::of_tls(self.failed(server, error))
            })?;
        match EncryptionReply::from_byte(answer[0]) {
            Some(EncryptionReply::Tls) => Ok(true),
            Some(EncryptionReply::Refused) if way == Way::EncryptedIfThere => Ok(false),
            Some(EncryptionReply::Refused) => Err(Failure::of_tls(ConnectError::new(
                UNREACHABLE,
                format!(
                    "cannot connect to {server} with TLS: it has none (ssl = off); turn it on, or use sslmode=disable"
                ),
            ))),
            _ => Err(Failure::of_tls(ConnectError::new(
                NO_POSTGRESQL,
                format!("{server} does not answer like PostgreSQL when asked for TLS"),
            ))),
        }
    }

    fn shake_hands(
        &self,
        tls: &TlsClient,
        server: &Server,
        address: Option<SocketAddr>,
        socket: &mut Socket,
    ) -> Result<Box<ClientConnection>, Failure> {
        let refused = |message: String| {
            Failure::of_tls(ConnectError::new(
                UNREACHABLE,
                format!("cannot connect to {server} with TLS: {message}"),
            ))
        };
        const TOO_OLD: &str = "it ended the handshake that began at once (sslnegotiation=direct), which PostgreSQL takes from version 17 on; use sslnegotiation=postgres";
        let direct = self.target.security.direct;
        let mut connection = tls
            .begin(server, address.map(|address| address.ip()))
            .map_err(refused)?;
        while connection.is_handshaking() {
            match connection.complete_io(socket) {
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {
                    return Err(Failure::unreachable(self.failed(server, error)));
                }
                Err(error) => {
                    return Err(refused(match tls.explain(&error, server) {
                        Some(explanation) => explanation,
                        None if direct => TOO_OLD.to_owned(),
                        None => format!("the handshake was cut off ({error})"),
                    }));
                }
            }
        }
        if direct && !agreed_on_postgresql(&connection) {
            return Err(refused(
                "it does not say that it is PostgreSQL (ALPN), as sslnegotiation=direct demands; use sslnegotiation=postgres".to_owned(),
            ));
        }
        Ok(connection)
    }

    fn failed(&self, server: &Server, error: io::Error) -> ConnectError {
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
        ConnectError::new(UNREACHABLE, format!("cannot connect to {server}: {reason}"))
    }
}

/// A socket during the start-up, with TLS or without.
struct Channel {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

impl Channel {
    fn into_link(self) -> io::Result<Link> {
        Ok(Link::new(self.socket.into_fd()?, self.tls))
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

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

/// Several failures as one; the last one's code.
fn joined(failures: Vec<ConnectError>) -> ConnectError {
    let sqlstate = failures.last().map_or(UNREACHABLE, |last| last.sqlstate);
    let mut messages: Vec<String> = Vec::new();
    for failure in failures {
        if !messages.contains(&failure.message) {
            messages.push(failure.message);
        }
    }
    ConnectError::new(sqlstate, messages.join("; "))
}

/// Fisher and Yates; the standard library's hasher is seeded by chance.
fn shuffle<T>(items: &mut [T]) {
    let chance = RandomState::new();
    for place in (1..items.len()).rev() {
        let other = chance.hash_one(place) % (place as u64 + 1);
        items.swap(place, other as usize);
    }
}

/// What a server said of a connection.
#[derive(Debug, Default)]
struct Known {
    server_version: String,
    process_id: i32,
    secret_key: Vec<u8>,
    /// Parameters that servers report from version 14 on.
    in_hot_standby: Option<bool>,
    default_read_only: Option<bool>,
}

impl Known {
    fn key(&mut self, key: &KeyData<'_>) {
        self.process_id = key.process_id;
        self.secret_key = key.secret_key.to_vec();
    }

    fn parameter(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"server_version" => self.server_version = String::from_utf8_lossy(value).into_owned(),
            b"in_hot_standby" => self.in_hot_standby = Some(value == b"on"),
            b"default_transaction_read_only" => self.default_read_only = Some(value == b"on"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
