//! Opens one connection: address, socket, start-up, authentication. Blocking, with a time limit;
//! the connectors' threads call it, so that no session waits for another's.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use pgwire::backend::Authentication;
use pgwire::frontend::{
    PasswordMessage, Query, SaslInitialResponse, SaslResponse, Terminate, startup,
};
use pgwire::{PROTOCOL_3_0, backend, next_frame};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use workload::Sqlstate;

use crate::guard::{self, Guard};
use crate::login::Login;
use crate::target::{Host, Target};

/// Start-up answers are small; a server that sends more is none.
const STARTUP_MESSAGE_BYTES_MAX: usize = 1 << 20;

/// An open connection, ready for queries and not blocking.
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// What came behind the first ReadyForQuery (notices).
    pub(crate) unread: Vec<u8>,
    /// `server_version`, as reported.
    pub(crate) server_version: String,
    /// What keeps the session from writing, if it must not.
    pub(crate) guard: Guard,
}

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

impl ConnectError {
    fn new(sqlstate: Sqlstate, message: impl Into<String>) -> Self {
        ConnectError {
            sqlstate,
            message: message.into(),
        }
    }
}

trait Stream: Read + Write + Send {
    fn limit(&self, left: Duration) -> io::Result<()>;
    fn into_socket(self: Box<Self>) -> io::Result<OwnedFd>;
}

impl Stream for TcpStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
    fn into_socket(self: Box<Self>) -> io::Result<OwnedFd> {
        self.set_nonblocking(true)?;
        Ok((*self).into())
    }
}

impl Stream for UnixStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
    fn into_socket(self: Box<Self>) -> io::Result<OwnedFd> {
        self.set_nonblocking(true)?;
        Ok((*self).into())
    }
}

/// Opens a connection.
///
/// # Errors
/// Where the server is not there, is none of PostgreSQL's, refuses, or does not answer in time.
pub(crate) fn connect(target: &Target, login: &Login) -> Result<Connection, ConnectError> {
    let (conversation, reported) = start_up(target, login)?;
    let guard = match &reported {
        _ if !target.is_read_only() => Guard::default(),
        reported => Guard::new(reported.read_only.as_deref())?,
    };
    let socket = conversation
        .stream
        .into_socket()
        .map_err(|error| ConnectError::new(UNREACHABLE, error.to_string()))?;
    Ok(Connection {
        socket,
        unread: conversation.unread,
        server_version: reported.server_version,
        guard,
    })
}

/// What the server says of itself before the first statement.
#[derive(Default)]
struct Reported {
    server_version: String,
    read_only: Option<String>,
}

fn start_up(target: &Target, login: &Login) -> Result<(StartUp, Reported), ConnectError> {
    let deadline = Instant::now() + target.connect_timeout;
    let stream = open(target, deadline)?;
    let mut conversation = StartUp {
        address: target.address(),
        stream,
        deadline,
        timeout: target.connect_timeout,
        unread: Vec::new(),
        out: Vec::new(),
    };
    let mut parameters: Vec<(&[u8], &[u8])> = vec![
        (b"user", login.user.as_bytes()),
        (b"database", login.database.as_bytes()),
        // Workloads hold SQL as UTF-8.
        (b"client_encoding", b"UTF8"),
    ];
    if !login.application.is_empty() {
        parameters.push((b"application_name", login.application.as_bytes()));
    }
    let options = target.start_up_options();
    if !options.is_empty() {
        parameters.push((b"options", options.as_bytes()));
    }
    startup::encode(PROTOCOL_3_0, parameters, &mut conversation.out)
        .map_err(|error| ConnectError::new(NO_POSTGRESQL, error.to_string()))?;
    conversation.send()?;
    conversation.authenticate(target, login)?;
    let reported = conversation.until_ready()?;
    Ok((conversation, reported))
}

/// Opens a connection, asks one question with a simple query, and closes it. Returns the rows, each
/// a text or NULL a column.
///
/// # Errors
/// As [`connect`], and where the server refuses the question.
pub(crate) fn ask(
    target: &Target,
    login: &Login,
    question: &str,
) -> Result<Vec<Vec<Option<String>>>, ConnectError> {
    let (mut conversation, _) = start_up(target, login)?;
    Query {
        sql: question.as_bytes(),
    }
    .encode(&mut conversation.out)
    .map_err(|error| conversation.violated(error))?;
    conversation.send()?;
    let mut rows = Vec::new();
    loop {
        let reply = conversation.receive()?;
        match backend::Message::decode(reply.tag, &reply.body) {
            Ok(backend::Message::DataRow(row)) => {
                let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                rows.push(row.columns.iter().map(|value| value.map(text)).collect());
            }
            Ok(backend::Message::ReadyForQuery(_)) => break,
            _ => {}
        }
    }
    Terminate.encode(&mut conversation.out);
    let _ = conversation.send();
    Ok(rows)
}

/// Opens a connection and closes it again: is the target there, and does it take this login?
/// Returns its `server_version`.
///
/// # Errors
/// As [`connect`].
pub(crate) fn try_out(target: &Target, login: &Login) -> Result<String, ConnectError> {
    let connection = connect(target, login)?;
    let mut goodbye = Vec::new();
    Terminate.encode(&mut goodbye);
    let mut socket = std::fs::File::from(connection.socket);
    let _ = socket.write_all(&goodbye);
    Ok(connection.server_version)
}

fn open(target: &Target, deadline: Instant) -> Result<Box<dyn Stream>, ConnectError> {
    let unreachable = |error: io::Error| {
        let reason = match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                "nothing listens there; is the server up, and is this its host and port?".to_owned()
            }
            io::ErrorKind::NotFound => {
                "there is no such socket; is the server up, and is this its directory and port?"
                    .to_owned()
            }
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                format!("no answer within {} s", target.connect_timeout.as_secs())
            }
            _ => error.to_string(),
        };
        ConnectError::new(
            UNREACHABLE,
            format!("cannot connect to {}: {reason}", target.address()),
        )
    };
    match &target.host {
        Host::Unix(directory) => {
            let path = directory.join(format!(".s.PGSQL.{}", target.port));
            Ok(Box::new(UnixStream::connect(path).map_err(unreachable)?))
        }
        Host::Tcp(host) => {
            let addresses = (host.as_str(), target.port)
                .to_socket_addrs()
                .map_err(unreachable)?;
            let mut last = io::Error::other("its name has no address");
            for address in addresses {
                let left = left(deadline);
                match TcpStream::connect_timeout(&address, left) {
                    Ok(stream) => {
                        // A statement goes out when it is due, not when a packet is full.
                        let _ = stream.set_nodelay(true);
                        return Ok(Box::new(stream));
                    }
                    Err(error) => last = error,
                }
            }
            Err(unreachable(last))
        }
    }
}

/// Never zero: a socket takes that for no limit.
fn left(deadline: Instant) -> Duration {
    deadline
        .saturating_duration_since(Instant::now())
        .max(Duration::from_millis(1))
}

struct StartUp {
    address: String,
    stream: Box<dyn Stream>,
    deadline: Instant,
    timeout: Duration,
    unread: Vec<u8>,
    out: Vec<u8>,
}

/// A message of the server's, copied out of the buffer.
struct Reply {
    tag: u8,
    body: Vec<u8>,
}

impl StartUp {
    fn failed(&self, error: io::Error) -> ConnectError {
        let reason = match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                format!("no answer within {} s", self.timeout.as_secs())
            }
            _ => error.to_string(),
        };
        ConnectError::new(
            UNREACHABLE,
            format!("cannot connect to {}: {reason}", self.address),
        )
    }

    fn violated(&self, reason: impl std::fmt::Display) -> ConnectError {
        ConnectError::new(
            NO_POSTGRESQL,
            format!("{} does not answer like PostgreSQL: {reason}", self.address),
        )
    }

    fn send(&mut self) -> Result<(), ConnectError> {
        let result = self
            .stream
            .limit(left(self.deadline))
            .and_then(|()| self.stream.write_all(&self.out));
        self.out.clear();
        result.map_err(|error| self.failed(error))
    }

    /// The next message; the server's refusal as an error, notices left out.
    fn receive(&mut self) -> Result<Reply, ConnectError> {
        loop {
            let frame = next_frame(&self.unread, STARTUP_MESSAGE_BYTES_MAX)
                .map_err(|error| self.violated(error))?;
            if let Some(frame) = frame {
                let reply = Reply {
                    tag: frame.tag,
                    body: frame.body.to_vec(),
                };
                let taken = frame.message_bytes();
                self.unread.drain(..taken);
                match backend::Message::decode(reply.tag, &reply.body) {
                    Ok(backend::Message::ErrorResponse(error)) => {
                        let sqlstate = error.sqlstate().map_or(NO_POSTGRESQL, Sqlstate);
                        let message = error.message().unwrap_or_default();
                        return Err(ConnectError::new(sqlstate, message));
                    }
                    Ok(backend::Message::NoticeResponse(_)) => continue,
                    Ok(_) => return Ok(reply),
                    Err(error) => return Err(self.violated(error)),
                }
            }
            let mut buffer = [0; 4096];
            let read = self
                .stream
                .limit(left(self.deadline))
                .and_then(|()| self.stream.read(&mut buffer))
                .map_err(|error| self.failed(error))?;
            if read == 0 {
                return Err(self.violated("it closed the connection"));
            }
            self.unread.extend_from_slice(&buffer[..read]);
        }
    }

    fn authenticate(&mut self, target: &Target, login: &Login) -> Result<(), ConnectError> {
        let password = || {
            target
                .password_for(&login.user, &login.database)
                .ok_or_else(|| {
                    ConnectError::new(
                        NO_PASSWORD,
                        format!(
                            "the server asks for the password of role \"{}\" and none was given; put it into PGPASSWORD or the password file",
                            login.user
                        ),
                    )
                })
        };
        let mut scram: Option<ScramSha256> = None;
        loop {
            let reply = self.receive()?;
            if reply.tag == backend::tag::NEGOTIATE_PROTOCOL_VERSION {
                continue;
            }
            if reply.tag != backend::tag::AUTHENTICATION {
                return Err(self.violated(format!(
                    "message '{}' before authentication",
                    reply.tag as char
                )));
            }
            let request =
                Authentication::decode(&reply.body).map_err(|error| self.violated(error))?;
            match request {
                Authentication::Ok => return Ok(()),
                Authentication::CleartextPassword => {
                    let password = password()?;
                    self.password(password.as_bytes())?;
                }
                Authentication::Md5Password { salt } => {
                    let hashed = md5_hash(login.user.as_bytes(), password()?.as_bytes(), salt);
                    self.password(hashed.as_bytes())?;
                }
                Authentication::Sasl { mechanisms } => {
                    if !mechanisms
                        .iter()
                        .any(|name| name == SCRAM_SHA_256.as_bytes())
                    {
                        return Err(self.violated("it offers no SCRAM-SHA-256"));
                    }
                    let exchange =
                        ScramSha256::new(password()?.as_bytes(), ChannelBinding::unsupported());
                    SaslInitialResponse {
                        mechanism: SCRAM_SHA_256.as_bytes(),
                        data: Some(exchange.message()),
                    }
                    .encode(&mut self.out)
                    .map_err(|error| self.violated(error))?;
                    scram = Some(exchange);
                    self.send()?;
                }
                Authentication::SaslContinue { data } => {
                    let exchange = scram
                        .as_mut()
                        .ok_or_else(|| self.violated("SASL out of order"))?;
                    let updated = exchange.update(data);
                    updated.map_err(|error| self.violated(error))?;
                    let response = SaslResponse {
                        data: scram.as_ref().expect("just used").message(),
                    };
                    let mut out = Vec::new();
                    response
                        .encode(&mut out)
                        .map_err(|error| self.violated(error))?;
                    self.out = out;
                    self.send()?;
                }
                Authentication::SaslFinal { data } => {
                    let finished = scram
                        .as_mut()
                        .map(|exchange| exchange.finish(data))
                        .ok_or_else(|| self.violated("SASL out of order"))?;
                    finished.map_err(|_| {
                        self.violated("it does not know the password that it asks for")
                    })?;
                }
                _ => {
                    return Err(ConnectError::new(
                        NO_PASSWORD,
                        format!(
                            "{} asks for an authentication that replay cannot do (GSSAPI or SSPI); allow scram-sha-256 for role \"{}\" in pg_hba.conf",
                            self.address, login.user
                        ),
                    ));
                }
            }
        }
    }

    fn password(&mut self, password: &[u8]) -> Result<(), ConnectError> {
        PasswordMessage { password }
            .encode(&mut self.out)
            .map_err(|error| ConnectError::new(NO_PASSWORD, error.to_string()))?;
        self.send()
    }

    /// Reads parameters until the first ReadyForQuery.
    fn until_ready(&mut self) -> Result<Reported, ConnectError> {
        let mut reported = Reported::default();
        loop {
            let reply = self.receive()?;
            match backend::Message::decode(reply.tag, &reply.body) {
                Ok(backend::Message::ReadyForQuery(_)) => return Ok(reported),
                Ok(backend::Message::ParameterStatus(status)) => {
                    let value = || String::from_utf8_lossy(status.value).into_owned();
                    if status.name == b"server_version" {
                        reported.server_version = value();
                    } else if status.name == guard::SETTING.as_bytes() {
                        reported.read_only = Some(value());
                    }
                }
                _ => {}
            }
        }
    }
}
