//! Opens one connection: tries hosts and addresses in turn, opens a socket ([`crate::dial`]), and does
//! start-up and authentication. Also sends queries of this program. All operations block, with a time limit,
//! on threads apart from the hot path.
//!
//! The failures after which the next host is tried, or another attempt with or without TLS, are those of
//! libpq (PostgreSQL documentation, 34.1.1.3 and 34.19; `fe-connect.c`).

mod query;
mod start_up;

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use protocol::backend::KeyData;
use protocol::frontend::startup::{CancelRequest, StartupPacket};

use crate::dial;
use crate::dial::{Channel, DialError, SocketOpener, TlsUse};
use crate::{Server, SessionAttributes, Target, TargetError};
use start_up::StartUp;

/// Opens connections to a target.
pub struct Dialer {
    target: Target,
    opener: SocketOpener,
}

/// Start-up parameters of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Login {
    /// User that connects.
    pub user: Arc<str>,
    /// Database.
    pub database: Arc<str>,
    /// `application_name`; empty to omit it.
    pub application: Arc<str>,
    /// Role to set right after the start-up (`SET ROLE`); `None` for the user.
    pub role: Option<Arc<str>>,
    /// Settings in the start-up message, names and values. Without a `client_encoding` UTF8 is sent. If its
    /// value is empty, none is sent and the server's default applies.
    pub settings: Arc<[(Box<str>, Box<str>)]>,
}

impl Login {
    /// Whether a connection of one login can be used for the other.
    pub fn is_same_role(&self, other: &Login) -> bool {
        (&self.user, &self.database, &self.role, &self.settings)
            == (&other.user, &other.database, &other.role, &other.settings)
    }
}

/// An open connection, ready for queries.
pub struct Connection {
    /// Socket, with TLS or without.
    pub channel: Channel,
    /// Bytes received after the first ReadyForQuery (notices).
    pub unread: Vec<u8>,
    /// `server_version`, as reported.
    pub server_version: String,
    /// `default_transaction_read_only`, as reported (from 14).
    pub default_read_only: Option<bool>,
    /// Encoding of the database (`server_encoding`), as reported.
    pub server_encoding: String,
    /// Handle of the server process, for cancel requests.
    pub backend: BackendHandle,
}

/// Result of [`Dialer::probe`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbedServer {
    /// Address of the server.
    pub address: String,
    /// `server_version`, as reported.
    pub server_version: String,
    /// Encoding of the database (`server_encoding`), as reported.
    pub server_encoding: String,
    /// `default_transaction_read_only`, as reported (from 14).
    pub default_read_only: Option<bool>,
}

/// Handle of a connection's server process: its address and cancel key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendHandle {
    server: Server,
    /// `None` for a unix socket.
    address: Option<SocketAddr>,
    encrypted: bool,
    process_id: i32,
    secret_key: Vec<u8>,
}

impl Connection {
    /// Terminates the connection without waiting for a reply.
    fn terminate(mut self) -> BackendHandle {
        let mut goodbye = Vec::new();
        protocol::frontend::Terminate.encode(&mut goodbye);
        self.channel.terminate(&goodbye);
        self.backend
    }
}

impl BackendHandle {
    /// Returns the process id of the server process.
    pub fn process_id(&self) -> i32 {
        self.process_id
    }

    /// Whether the connection uses TLS.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    fn way(&self) -> TlsUse {
        match self.encrypted {
            true => TlsUse::Encrypted,
            false => TlsUse::Plain,
        }
    }
}

/// Result of a query.
pub struct QueryResult {
    /// Server that executed it.
    pub server: Server,
    /// Rows.
    pub rows: Vec<Row>,
}

/// A connection for queries of this program, sent one after the other. After an error of the server it
/// remains usable.
pub struct QueryConnection<'a> {
    conversation: StartUp<'a>,
}

/// Value of a parameter, for [`QueryConnection::query_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'v> {
    /// In text form.
    Text(&'v str),
    /// In the binary form of its type.
    Binary(&'v [u8]),
}

impl QueryConnection<'_> {
    /// Returns the connected server.
    pub fn server(&self) -> &Server {
        self.conversation.server()
    }

    /// Returns `server_version`, as reported.
    pub fn server_version(&self) -> &str {
        &self.conversation.facts().server_version
    }

    /// Returns the process id that was announced with the cancel key. A pooler announces another one than that of the
    /// process that serves.
    pub fn process_id(&self) -> i32 {
        self.conversation.facts().process_id
    }

    /// Sets the time limit for all further queries together. The default is the connect timeout.
    pub fn limit(&mut self, time: Duration) {
        self.conversation.limit(time);
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.conversation.is_over()
    }

    /// Sends a simple query.
    ///
    /// # Errors
    /// If the server refuses it, is not reachable, or does not respond in time.
    pub fn query(&mut self, question: &str) -> Result<Vec<Row>, LoginError> {
        self.conversation
            .query(question)
            .map_err(|failure| failure.error)
    }

    /// Sends a query with the extended protocol, which accepts a single statement only. `types` are the OIDs
    /// of the first parameters. The server infers those that are missing or 0.
    ///
    /// # Errors
    /// As [`Self::query`]; also if text, types and values cannot be encoded.
    pub fn query_with(
        &mut self,
        question: &str,
        types: &[u32],
        values: &[Option<Value<'_>>],
    ) -> Result<Vec<Row>, LoginError> {
        self.conversation
            .query_with(question, types, values)
            .map_err(|failure| failure.error)
    }

    /// Has the server parse a single statement, which it does not execute. `types` are as in [`Self::query_with`].
    ///
    /// # Errors
    /// As [`Self::query_with`]; also if the statement names something that does not exist.
    pub fn parse(&mut self, sql: &str, types: &[u32]) -> Result<(), LoginError> {
        self.conversation
            .parse(sql, types)
            .map_err(|failure| failure.error)
    }
}

impl Drop for QueryConnection<'_> {
    fn drop(&mut self) {
        self.conversation.terminate();
    }
}

/// Texts of the columns; `None` for NULL.
pub type Row = Vec<Option<String>>;

/// Reason why a connection could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoginError {
    /// Code of the server, or one of class 08.
    pub sqlstate: [u8; 5],
    /// Message of the server, or a description of the error.
    pub message: String,
}

/// `sqlclient_unable_to_establish_sqlconnection`
const UNREACHABLE: [u8; 5] = dial::UNREACHABLE;
/// `protocol_violation`
const NO_POSTGRESQL: [u8; 5] = dial::NO_POSTGRESQL;
/// `invalid_password`
const NO_PASSWORD: [u8; 5] = *b"28P01";
/// `invalid_authorization_specification`: no entry of `pg_hba.conf` matches.
const NO_ENTRY: [u8; 5] = *b"28000";
/// `cannot_connect_now`: the server starts, stops or recovers.
const NOT_NOW: [u8; 5] = *b"57P03";

impl LoginError {
    fn new(sqlstate: [u8; 5], message: impl Into<String>) -> Self {
        LoginError {
            sqlstate,
            message: message.into(),
        }
    }
}

/// A failed attempt, and whether other attempts may succeed.
struct Failure {
    error: LoginError,
    /// Another host may succeed.
    another_host: bool,
    /// An attempt with TLS, or without it, may succeed.
    another_way: bool,
}

impl Failure {
    /// Marks a server that did not respond.
    fn unreachable(error: LoginError) -> Self {
        Failure {
            error,
            another_host: true,
            another_way: false,
        }
    }

    /// Marks a server that does not have the required state.
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
            another_host: error.may_retry_other_host,
            another_way: error.may_retry_other_tls_use,
            error: error.into(),
        }
    }
}

impl From<LoginError> for Failure {
    fn from(error: LoginError) -> Self {
        Failure {
            another_host: error.sqlstate == NOT_NOW,
            // PgBouncer reports missing TLS with the code of a protocol violation.
            another_way: [NO_ENTRY, NO_POSTGRESQL].contains(&error.sqlstate),
            error,
        }
    }
}

impl Dialer {
    /// Reads the files that TLS needs.
    ///
    /// # Errors
    /// If a file cannot be used; the first one is reported.
    pub fn new(target: &Target) -> Result<Self, TargetError> {
        Ok(Dialer {
            opener: SocketOpener::new(target)?,
            target: target.clone(),
        })
    }

    /// Opens a connection to the first server that has the required state.
    ///
    /// # Errors
    /// If no server is reachable, is a PostgreSQL server, accepts the login, and responds in time.
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
            // Errors of the first pass would repeat in the second, except for a standby.
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
        Err(join_errors(failures))
    }

    /// Opens and closes a connection, to check that the target is reachable and accepts this login.
    ///
    /// # Errors
    /// As [`Dialer::connect`].
    pub fn probe(&self, login: &Login) -> Result<ProbedServer, LoginError> {
        let connection = self.connect(login)?;
        Ok(ProbedServer {
            server_version: connection.server_version.clone(),
            server_encoding: connection.server_encoding.clone(),
            default_read_only: connection.default_read_only,
            address: connection.terminate().server.to_string(),
        })
    }

    /// Sends one simple query over a separate connection. Returns the server, and the rows.
    ///
    /// # Errors
    /// As [`Dialer::connect`]; also if the server refuses the query.
    pub fn query(&self, login: &Login, question: &str) -> Result<QueryResult, LoginError> {
        let place = self.connect(login)?.terminate();
        let mut conversation = self
            .begin(&place.server, place.address, login, place.way())
            .map_err(|failure| failure.error)?;
        Ok(QueryResult {
            rows: conversation
                .query(question)
                .map_err(|failure| failure.error)?,
            server: place.server,
        })
    }

    /// Opens a connection for several queries. Its time limit is the connect timeout.
    ///
    /// # Errors
    /// As [`Dialer::connect`].
    pub fn open_query_connection(&self, login: &Login) -> Result<QueryConnection<'_>, LoginError> {
        let place = self.connect(login)?.terminate();
        self.begin(&place.server, place.address, login, place.way())
            .map(|conversation| QueryConnection { conversation })
            .map_err(|failure| failure.error)
    }

    /// Requests the server to cancel the current statement of a connection. The request is sent over another
    /// connection to the same address, with TLS if that one has it. It has no reply; returns when the server
    /// has received it.
    ///
    /// # Errors
    /// If the server is no longer reachable.
    pub fn cancel(&self, place: &BackendHandle) -> Result<(), LoginError> {
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
        // The server closes the connection when the signal is sent; the kind of closing has no meaning.
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
        for &way in self.opener.attempts(address) {
            match self.try_once(server, address, login, wanted, way) {
                Ok(connection) => return Ok(connection),
                Err(failure) if first.is_none() && failure.another_way => first = Some(failure),
                Err(failure) => {
                    return Err(match first {
                        Some(first) if first.error != failure.error => Failure {
                            error: join_errors(vec![first.error, failure.error]),
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
        way: TlsUse,
    ) -> Result<Connection, Failure> {
        let mut conversation = self.begin(server, address, login, way)?;
        let encrypted = conversation.is_encrypted();
        conversation.check_session(wanted)?;
        if let Some(role) = &login.role {
            conversation.become_role(role)?;
        }
        let (unread, facts, channel) = conversation.finish();
        Ok(Connection {
            channel,
            unread,
            server_version: facts.server_version,
            server_encoding: facts.server_encoding,
            default_read_only: facts.default_read_only,
            backend: BackendHandle {
                server: server.clone(),
                address,
                encrypted,
                process_id: facts.process_id,
                secret_key: facts.secret_key,
            },
        })
    }

    /// Opens a connection up to the first ReadyForQuery.
    fn begin<'a>(
        &'a self,
        server: &Server,
        address: Option<SocketAddr>,
        login: &Login,
        way: TlsUse,
    ) -> Result<StartUp<'a>, Failure> {
        let channel = self.opener.open(server, address, way)?;
        let mut conversation = StartUp::new(self, server, channel);
        conversation.begin(login)?;
        conversation.authenticate(login)?;
        conversation.until_ready()?;
        Ok(conversation)
    }

    /// Converts a socket error of this connection to a sentence.
    pub fn socket_error(&self, place: &BackendHandle, error: io::Error) -> LoginError {
        self.failed(&place.server, error)
    }

    fn failed(&self, server: &Server, error: io::Error) -> LoginError {
        self.opener.failed(server, error).into()
    }
}

/// Joins several errors, with the code of the last one.
fn join_errors(failures: Vec<LoginError>) -> LoginError {
    let sqlstate = failures.last().map_or(UNREACHABLE, |last| last.sqlstate);
    let mut messages: Vec<String> = Vec::new();
    for failure in failures {
        if !messages.contains(&failure.message) {
            messages.push(failure.message);
        }
    }
    LoginError::new(sqlstate, messages.join("; "))
}

/// Facts that a server reported about a connection.
#[derive(Debug, Default)]
struct ServerFacts {
    server_version: String,
    process_id: i32,
    secret_key: Vec<u8>,
    /// Parameters that servers report from version 14 on.
    in_hot_standby: Option<bool>,
    default_read_only: Option<bool>,
    server_encoding: String,
}

impl ServerFacts {
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
