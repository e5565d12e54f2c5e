//! Opens one connection: hosts and addresses in turn, the way there (`target::dial`), start-up,
//! authentication.
//! Blocking, with a time limit; the connectors' threads call it, so that no session waits for
//! another's.
//!
//! Which failures lead on to the next host, and which to another try with or without TLS, is as
//! libpq has it (PostgreSQL documentation, 34.1.1.3 and 34.19; `fe-connect.c`).

mod start_up;

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use pgwire::backend::KeyData;
use pgwire::frontend::startup::{CancelRequest, StartupPacket};
use workload::Sqlstate;

use crate::guard::Guard;
use crate::link::Link;
use crate::login::Login;
use start_up::StartUp;
use target::dial::{self, DialError, Opener, Way};
use target::{Server, SessionAttributes, Target, TargetError};

/// Opens connections to a target.
pub(crate) struct Dialer {
    target: Target,
    opener: Opener,
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
const UNREACHABLE: Sqlstate = Sqlstate(dial::UNREACHABLE);
/// `protocol_violation`
const NO_POSTGRESQL: Sqlstate = Sqlstate(dial::NO_POSTGRESQL);
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

    /// The server is not what it should be.
    fn other_session(message: String) -> Self {
        Failure::unreachable(ConnectError::new(UNREACHABLE, message))
    }
}

impl From<DialError> for ConnectError {
    fn from(error: DialError) -> Self {
        ConnectError::new(Sqlstate(error.sqlstate), error.message)
    }
}

impl From<DialError> for Failure {
    fn from(error: DialError) -> Self {
        Failure {
            another_host: error.another_host,
            another_way: error.another_way,
            error: error.into(),
        }
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

impl Dialer {
    /// Reads the files that TLS needs.
    ///
    /// # Errors
    /// With the first that is of no use.
    pub(crate) fn new(target: &Target) -> Result<Self, TargetError> {
        Ok(Dialer {
            opener: Opener::new(target)?,
            target: target.clone(),
        })
    }

    /// Opens a connection to the first server that answers as asked.
    ///
    /// # Errors
    /// Where none is there, is PostgreSQL's, takes the login, or answers in time.
    pub(crate) fn connect(&self, login: &Login) -> Result<Connection, ConnectError> {
        let servers = self.opener.servers();
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
                let addresses = match self.opener.addresses(server) {
                    Ok(addresses) => addresses,
                    Err(error) => {
                        failures.push(error.into());
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
            .opener
            .open(&place.server, place.address, place.way())?;
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

    fn try_ways(
        &self,
        server: &Server,
        address: Option<SocketAddr>,
        login: &Login,
        wanted: SessionAttributes,
    ) -> Result<Connection, Failure> {
        let mut first: Option<Failure> = None;
        for &way in self.opener.ways(address) {
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
        let (socket, tls) = channel
            .into_parts()
            .map_err(|error| self.failed(server, error))?;
        let mut link = Link::new(socket, tls);
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
        let channel = self.opener.open(server, address, way)?;
        let mut conversation = StartUp::new(self, server, channel);
        conversation.begin(login)?;
        conversation.authenticate(login)?;
        conversation.until_ready()?;
        Ok(conversation)
    }

    fn failed(&self, server: &Server, error: io::Error) -> ConnectError {
        self.opener.failed(server, error).into()
    }
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
