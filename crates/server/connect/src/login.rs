//! Opens one connection: hosts and addresses in turn, the way there ([`crate::dial`]), start-up,
//! authentication; and asks questions of our own.
//! Blocking, with a time limit; threads beside the hot path call it.
//!
//! Which failures lead on to the next host, and which to another try with or without TLS, is as
//! libpq has it (PostgreSQL documentation, 34.1.1.3 and 34.19; `fe-connect.c`).

mod asking;
mod start_up;

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use protocol::backend::KeyData;
use protocol::frontend::startup::{CancelRequest, StartupPacket};

use crate::dial;
use crate::dial::{Channel, DialError, Opener, Way};
use crate::{Server, SessionAttributes, Target, TargetError};
use start_up::StartUp;

/// Opens connections to a target.
pub struct Dialer {
    target: Target,
    opener: Opener,
}

/// What a session says when it connects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Login {
    /// The role.
    pub user: Arc<str>,
    /// The database.
    pub database: Arc<str>,
    /// `application_name`; empty: not said.
    pub application: Arc<str>,
    /// The role to become right behind the start-up (`SET ROLE`); `None`: the user.
    pub role: Option<Arc<str>>,
    /// Settings that go with the start-up, names and values. Where there is no `client_encoding` among them
    /// it is UTF8; where that is empty nothing is said of it, and the server's own holds.
    pub settings: Arc<[(Box<str>, Box<str>)]>,
}

impl Login {
    /// Whether a connection of the one can become one of the other.
    pub fn is_same_role(&self, other: &Login) -> bool {
        (&self.user, &self.database, &self.role, &self.settings)
            == (&other.user, &other.database, &other.role, &other.settings)
    }
}

/// An open connection, ready for queries.
pub struct Connection {
    /// The socket, with TLS on it or without.
    pub channel: Channel,
    /// What came behind the first ReadyForQuery (notices).
    pub unread: Vec<u8>,
    /// `server_version`, as reported.
    pub server_version: String,
    /// `default_transaction_read_only`, as reported; servers before 14 do not.
    pub default_read_only: Option<bool>,
    /// The encoding of its database (`server_encoding`), as reported.
    pub server_encoding: String,
    /// Where it is, and what ends what runs there.
    pub place: Place,
}

/// What [`Dialer::try_out`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Where it was.
    pub address: String,
    /// `server_version`, as reported.
    pub server_version: String,
    /// The encoding of its database (`server_encoding`), as reported.
    pub server_encoding: String,
    /// `default_transaction_read_only`, as reported; servers before 14 do not.
    pub default_read_only: Option<bool>,
}

/// Where a connection led, for a second one to the very same server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    server: Server,
    /// `None`: a unix socket.
    address: Option<SocketAddr>,
    encrypted: bool,
    process_id: i32,
    secret_key: Vec<u8>,
}

impl Connection {
    /// Says to the server that it ends, and expects nothing.
    fn say_goodbye(mut self) -> Place {
        let mut goodbye = Vec::new();
        protocol::frontend::Terminate.encode(&mut goodbye);
        self.channel.say_goodbye(&goodbye);
        self.place
    }
}

impl Place {
    /// The server's process at the other end.
    pub fn process_id(&self) -> i32 {
        self.process_id
    }

    /// Whether it has TLS.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    fn way(&self) -> Way {
        match self.encrypted {
            true => Way::Encrypted,
            false => Way::Plain,
        }
    }
}

/// What a server answered to a question.
pub struct Answer {
    /// The one that answered.
    pub server: Server,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A connection for questions of our own, asked one after the other. A question that the server
/// refuses leaves it ready for the next.
pub struct Questions<'a> {
    conversation: StartUp<'a>,
}

/// A value of a parameter, for [`Questions::ask_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'v> {
    /// In text form.
    Text(&'v str),
    /// In the binary form of its type.
    Binary(&'v [u8]),
}

impl Questions<'_> {
    /// The server that answers.
    pub fn server(&self) -> &Server {
        self.conversation.server()
    }

    /// `server_version`, as reported.
    pub fn server_version(&self) -> &str {
        &self.conversation.known().server_version
    }

    /// How long all further questions together may take. Without it, as long as opening the
    /// connection may.
    pub fn limit(&mut self, time: Duration) {
        self.conversation.limit(time);
    }

    /// Whether the connection is gone, so that nothing more can be asked.
    pub fn is_over(&self) -> bool {
        self.conversation.is_over()
    }

    /// Asks one with a simple query.
    ///
    /// # Errors
    /// Where the server refuses it, is gone, or does not answer in time.
    pub fn ask(&mut self, question: &str) -> Result<Vec<Row>, LoginError> {
        self.conversation
            .question(question)
            .map_err(|failure| failure.error)
    }

    /// Asks one with the extended protocol, which takes a single statement only. `types` are the OIDs
    /// of the first parameters; those that are missing or 0 are inferred by the server.
    ///
    /// # Errors
    /// As [`Self::ask`]; and where text, types and values cannot be sent.
    pub fn ask_with(
        &mut self,
        question: &str,
        types: &[u32],
        values: &[Option<Value<'_>>],
    ) -> Result<Vec<Row>, LoginError> {
        self.conversation
            .question_with(question, types, values)
            .map_err(|failure| failure.error)
    }
}

impl Drop for Questions<'_> {
    fn drop(&mut self) {
        self.conversation.say_goodbye();
    }
}

/// A text or NULL a column.
pub type Row = Vec<Option<String>>;

/// Why a connection could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoginError {
    /// The server's code, or one of class 08.
    pub sqlstate: [u8; 5],
    /// The server's message, or what went wrong.
    pub message: String,
}

/// `sqlclient_unable_to_establish_sqlconnection`
const UNREACHABLE: [u8; 5] = dial::UNREACHABLE;
/// `protocol_violation`
const NO_POSTGRESQL: [u8; 5] = dial::NO_POSTGRESQL;
/// `invalid_password`
const NO_PASSWORD: [u8; 5] = *b"28P01";
/// `invalid_authorization_specification`: no line of `pg_hba.conf` is for it.
const NO_ENTRY: [u8; 5] = *b"28000";
/// `cannot_connect_now`: it starts, stops or recovers.
const NOT_NOW: [u8; 5] = *b"57P03";

impl LoginError {
    fn new(sqlstate: [u8; 5], message: impl Into<String>) -> Self {
        LoginError {
            sqlstate,
            message: message.into(),
        }
    }
}

/// An attempt that failed, and what it says about other attempts.
struct Failure {
    error: LoginError,
    /// The next host may be better.
    another_host: bool,
    /// It may be otherwise with TLS, or without.
    another_way: bool,
}

impl Failure {
    /// Nobody answered.
    fn unreachable(error: LoginError) -> Self {
        Failure {
            error,
            another_host: true,
            another_way: false,
        }
    }

    /// The server is not what it should be.
    fn other_session(message: String) -> Self {
        Failure::unreachable(LoginError::new(UNREACHABLE, message))
    }
}

impl From<DialError> for LoginError {
    fn from(error: DialError) -> Self {
        LoginError::new(error.sqlstate, error.message)
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

impl From<LoginError> for Failure {
    fn from(error: LoginError) -> Self {
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
    pub fn new(target: &Target) -> Result<Self, TargetError> {
        Ok(Dialer {
            opener: Opener::new(target)?,
            target: target.clone(),
        })
    }

    /// Opens a connection to the first server that answers as asked.
    ///
    /// # Errors
    /// Where none is there, is PostgreSQL's, takes the login, or answers in time.
    pub fn connect(&self, login: &Login) -> Result<Connection, LoginError> {
        let servers = self.opener.servers();
        let mut failures: Vec<LoginError> = Vec::new();
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
    ///
    /// # Errors
    /// As [`Dialer::connect`].
    pub fn try_out(&self, login: &Login) -> Result<Found, LoginError> {
        let connection = self.connect(login)?;
        Ok(Found {
            server_version: connection.server_version.clone(),
            server_encoding: connection.server_encoding.clone(),
            default_read_only: connection.default_read_only,
            address: connection.say_goodbye().server.to_string(),
        })
    }

    /// Asks one question with a simple query, over a connection of its own. Returns the server that
    /// answered, and the rows, each a text or NULL a column.
    ///
    /// # Errors
    /// As [`Dialer::connect`], and where the server refuses the question.
    pub fn ask(&self, login: &Login, question: &str) -> Result<Answer, LoginError> {
        let place = self.connect(login)?.say_goodbye();
        let mut conversation = self
            .begin(&place.server, place.address, login, place.way())
            .map_err(|failure| failure.error)?;
        Ok(Answer {
            rows: conversation
                .question(question)
                .map_err(|failure| failure.error)?,
            server: place.server,
        })
    }

    /// Opens a connection for several questions. It holds as long as opening one may take.
    ///
    /// # Errors
    /// As [`Dialer::connect`].
    pub fn questions(&self, login: &Login) -> Result<Questions<'_>, LoginError> {
        let place = self.connect(login)?.say_goodbye();
        self.begin(&place.server, place.address, login, place.way())
            .map(|conversation| Questions { conversation })
            .map_err(|failure| failure.error)
    }

    /// Asks the server to cancel what runs on a connection: over another one to the same address,
    /// with TLS if that one has it. There is no answer; returns when the server has taken it.
    ///
    /// # Errors
    /// Where the server cannot be reached again.
    pub fn cancel(&self, place: &Place) -> Result<(), LoginError> {
        let mut channel = self
            .opener
            .open(&place.server, place.address, place.way())?;
        let mut request = Vec::new();
        StartupPacket::Cancel(CancelRequest {
            process_id: place.process_id,
            secret_key: &place.secret_key,
        })
        .encode(&mut request)
        .map_err(|error| LoginError::new(NO_POSTGRESQL, error.to_string()))?;
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
        let (unread, known, channel) = conversation.finish();
        Ok(Connection {
            channel,
            unread,
            server_version: known.server_version,
            server_encoding: known.server_encoding,
            default_read_only: known.default_read_only,
            place: Place {
                server: server.clone(),
                address,
                encrypted,
                process_id: known.process_id,
                secret_key: known.secret_key,
            },
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

    /// What an error of a connection to this place means, in a sentence.
    pub fn failed_at(&self, place: &Place, error: io::Error) -> LoginError {
        self.failed(&place.server, error)
    }

    fn failed(&self, server: &Server, error: io::Error) -> LoginError {
        self.opener.failed(server, error).into()
    }
}

/// Several failures as one; the last one's code.
fn joined(failures: Vec<LoginError>) -> LoginError {
    let sqlstate = failures.last().map_or(UNREACHABLE, |last| last.sqlstate);
    let mut messages: Vec<String> = Vec::new();
    for failure in failures {
        if !messages.contains(&failure.message) {
            messages.push(failure.message);
        }
    }
    LoginError::new(sqlstate, messages.join("; "))
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
    server_encoding: String,
}

impl Known {
    fn key(&mut self, key: &KeyData<'_>) {
        self.process_id = key.process_id;
        self.secret_key = key.secret_key.to_vec();
    }

    fn parameter(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"server_version" => self.server_version = String::from_utf8_lossy(value).into_owned(),
            b"server_encoding" => {
                self.server_encoding = String::from_utf8_lossy(value).into_owned();
            }
            b"in_hot_standby" => self.in_hot_standby = Some(value == b"on"),
            b"default_transaction_read_only" => self.default_read_only = Some(value == b"on"),
            _ => {}
        }
    }
}
