//! Opens one connection as a worker wants it: [`connect::login`], and then a socket that does not block,
//! and what keeps the session from writing. The connectors' threads call it, so that no session
//! waits for another's.

use connect::login;
use connect::login::{Answer, LoginError};
use connect::{Target, TargetError};
use workload::Sqlstate;

use crate::guard::Guard;
use crate::link::Link;
use crate::login::Login;

pub(crate) use connect::login::{Found, Place, Questions};

/// Opens connections to a target.
pub(crate) struct Dialer {
    dialer: login::Dialer,
    read_only: bool,
}

/// An open connection, ready for queries and not blocking.
pub(crate) struct Connection {
    pub(crate) link: Link,
    /// What came behind the first ReadyForQuery (notices).
    pub(crate) unread: Vec<u8>,
    /// Where it is, and what ends what runs there.
    pub(crate) place: Place,
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
    /// With the first that is of no use.
    pub(crate) fn new(target: &Target) -> Result<Self, TargetError> {
        Ok(Dialer {
            dialer: login::Dialer::new(target)?,
            read_only: target.is_read_only(),
        })
    }

    /// Opens a connection to the first server that answers as asked.
    ///
    /// # Errors
    /// Where none is there, is PostgreSQL's, takes the login, or answers in time; where the session
    /// must not write and could.
    pub(crate) fn connect(&self, login: &Login) -> Result<Connection, ConnectError> {
        let login::Connection {
            channel,
            mut unread,
            default_read_only,
            place,
            ..
        } = self.dialer.connect(login)?;
        let guard = match self.read_only {
            true => Guard::new(default_read_only)?,
            false => Guard::default(),
        };
        let (socket, tls) = channel
            .into_parts()
            .map_err(|error| self.dialer.failed_at(&place, error))?;
        let mut link = Link::new(socket, tls);
        // What rustls has decrypted already would not be told of by the socket.
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = link.read(&mut buffer) {
            unread.extend_from_slice(&buffer[..read]);
        }
        Ok(Connection {
            link,
            unread,
            place,
            guard,
        })
    }

    /// Opens a connection and closes it again: is the target there, and does it take this login?
    ///
    /// # Errors
    /// As [`Dialer::connect`].
    pub(crate) fn try_out(&self, login: &Login) -> Result<Found, ConnectError> {
        let found = self.dialer.try_out(login)?;
        if self.read_only {
            Guard::new(found.default_read_only)?;
        }
        Ok(found)
    }

    /// As [`login::Dialer::ask`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn ask(&self, login: &Login, question: &str) -> Result<Answer, ConnectError> {
        Ok(self.dialer.ask(login, question)?)
    }

    /// As [`login::Dialer::questions`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn questions(&self, login: &Login) -> Result<Questions<'_>, ConnectError> {
        Ok(self.dialer.questions(login)?)
    }

    /// As [`login::Dialer::cancel`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn cancel(&self, place: &Place) -> Result<(), ConnectError> {
        Ok(self.dialer.cancel(place)?)
    }
}

#[cfg(test)]
mod tests;
