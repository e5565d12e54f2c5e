//! Opens connections for workers: the login of [`connect::login`], a non-blocking socket, and the read-only
//! guard.
//!
//! The connector threads call it, so that no session waits for the handshake of another.

use connect::login;
use connect::login::{LoginError, QueryResult};
use connect::{Target, TargetError};
use workload::Sqlstate;

use crate::login::Login;
use crate::read_only_guard::ReadOnlyGuard;
use crate::stream::Stream;

pub(crate) use connect::login::{BackendHandle, ProbedServer, QueryConnection};

/// Opens connections to a target.
pub(crate) struct Dialer {
    dialer: login::Dialer,
    read_only: bool,
}

/// Open non-blocking connection, ready for queries.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// Bytes received after the first ReadyForQuery, such as notices.
    pub(crate) unread: Vec<u8>,
    /// Backend of the connection, with the key for cancel requests.
    pub(crate) backend: BackendHandle,
    /// Guard that keeps the session read-only, if it must be.
    pub(crate) guard: ReadOnlyGuard,
}

/// Reason why a connection could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    /// The server's code, or one of class 08.
    pub sqlstate: Sqlstate,
    /// The server's message, or what went wrong.
    pub message: String,
}

impl ConnectError {
    /// Whether a retry may succeed: no server answered, it starts or stops, or it has too many connections.
    pub(crate) fn is_transient(&self) -> bool {
        let class = &self.sqlstate.0[..2];
        // Insufficient resources (too many connections), operator intervention, connections.
        [b"53", b"57", b"08"]
            .iter()
            .any(|transient| class == *transient)
    }
}

impl From<LoginError> for ConnectError {
    fn from(error: LoginError) -> Self {
        ConnectError {
            sqlstate: Sqlstate(error.sqlstate),
            message: error.message,
        }
    }
}

impl Dialer {
    /// Reads the files that TLS needs.
    ///
    /// # Errors
    /// If a file cannot be used; the first such file.
    pub(crate) fn new(target: &Target) -> Result<Self, TargetError> {
        Ok(Dialer {
            dialer: login::Dialer::new(target)?,
            read_only: target.is_read_only(),
        })
    }

    /// Opens a connection to the first host that accepts it.
    ///
    /// # Errors
    /// If no host is reachable, speaks PostgreSQL's protocol, accepts the login and answers in time. Also if
    /// the session must be read-only and is not.
    pub(crate) fn connect(&self, login: &Login) -> Result<Connection, ConnectError> {
        let login::Connection {
            channel,
            mut unread,
            default_read_only,
            backend: place,
            ..
        } = self.dialer.connect(login)?;
        let guard = match self.read_only {
            true => ReadOnlyGuard::new(default_read_only)?,
            false => ReadOnlyGuard::default(),
        };
        let (socket, tls) = channel
            .into_parts()
            .map_err(|error| self.dialer.socket_error(&place, error))?;
        let mut stream = Stream::new(socket, tls);
        // Bytes that rustls has already decrypted would not make the socket readable.
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            unread.extend_from_slice(&buffer[..read]);
        }
        Ok(Connection {
            stream,
            unread,
            backend: place,
            guard,
        })
    }

    /// Opens and closes a connection, to check that the target accepts this login.
    ///
    /// # Errors
    /// As [`Dialer::connect`].
    pub(crate) fn try_out(&self, login: &Login) -> Result<ProbedServer, ConnectError> {
        let found = self.dialer.probe(login)?;
        if self.read_only {
            ReadOnlyGuard::new(found.default_read_only)?;
        }
        Ok(found)
    }

    /// As [`login::Dialer::query`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn ask(&self, login: &Login, question: &str) -> Result<QueryResult, ConnectError> {
        Ok(self.dialer.query(login, question)?)
    }

    /// As [`login::Dialer::open_query_connection`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn questions(&self, login: &Login) -> Result<QueryConnection<'_>, ConnectError> {
        Ok(self.dialer.open_query_connection(login)?)
    }

    /// As [`login::Dialer::cancel`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn cancel(&self, place: &BackendHandle) -> Result<(), ConnectError> {
        Ok(self.dialer.cancel(place)?)
    }
}

#[cfg(test)]
mod tests;
