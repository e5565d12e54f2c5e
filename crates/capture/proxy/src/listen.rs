//! Listens for clients.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// PostgreSQL's default port, which is part of a socket's name.
const PORT: u16 = 5432;

/// Address to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A local address and port; port 0 selects a free one.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// Reason why the proxy cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The text is no address.
    #[error(
        "'{0}' is nowhere to listen; give ADDRESS:PORT, such as 127.0.0.1:6543, or the path of a unix socket with a / in it, such as ./proxy.sock"
    )]
    Malformed(String),
    /// The system refuses.
    #[error("cannot listen at {at}: {error}; give another --listen")]
    Refused {
        /// The address.
        at: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// Another file exists there.
    #[error(
        "cannot listen at {0}: something that is no unix socket is there; give another --listen"
    )]
    Occupied(PathBuf),
}

impl ListenAddress {
    /// Parses `ADDRESS:PORT`, a port alone (of 127.0.0.1), or the path of a unix socket, which
    /// contains a `/`. A directory stands for `.s.PGSQL.5432` in it, where clients look for the
    /// socket.
    ///
    /// # Errors
    /// If the text is none of these.
    pub fn parse(text: &str) -> Result<Self, ListenError> {
        if text.contains('/') {
            let path = PathBuf::from(text);
            return Ok(ListenAddress::Unix(match path.is_dir() {
                true => path.join(format!(".s.PGSQL.{PORT}")),
                false => path,
            }));
        }
        if let Ok(port) = text.parse::<u16>() {
            return Ok(ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], port))));
        }
        let mut found = text.to_socket_addrs().ok().into_iter().flatten();
        let first = found.next();
        first
            .map(ListenAddress::Tcp)
            .ok_or_else(|| ListenError::Malformed(text.to_owned()))
    }

    /// Returns whether only local clients can connect.
    pub fn is_local(&self) -> bool {
        match self {
            ListenAddress::Tcp(address) => address.ip().is_loopback(),
            ListenAddress::Unix(_) => true,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Accepts clients.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub(super) fn bind(at: &ListenAddress) -> Result<Self, ListenError> {
        let refused = |error| ListenError::Refused {
            at: at.to_string(),
            error,
        };
        match at {
            ListenAddress::Tcp(address) => {
                let listener = TcpListener::bind(address).map_err(refused)?;
                listener.set_nonblocking(true).map_err(refused)?;
                Ok(Listener::Tcp(listener))
            }
            ListenAddress::Unix(path) => {
                remove_stale(path)?;
                let listener = UnixListener::bind(path).map_err(refused)?;
                listener.set_nonblocking(true).map_err(refused)?;
                Ok(Listener::Unix(listener, path.clone()))
            }
        }
    }

    /// Address at which it listens.
    pub(super) fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(ListenAddress::Tcp),
            Listener::Unix(_, path) => Ok(ListenAddress::Unix(path.clone())),
        }
    }

    /// Accepts a waiting client: a non-blocking socket, and its name.
    pub(super) fn accept(&self) -> io::Result<(OwnedFd, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                stream.set_nonblocking(true)?;
                // Send answers immediately, not when a packet is full.
                let _ = stream.set_nodelay(true);
                let _ = event_loop::keep_alive(stream.as_raw_fd());
                Ok((stream.into(), address.to_string()))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((stream.into(), "[local]".to_owned()))
            }
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Listener::Tcp(listener) => listener.as_raw_fd(),
            Listener::Unix(listener, _) => listener.as_raw_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes a socket that a killed process left.
fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::Occupied(path.to_owned()));
    }
    // If another process listens, binding reports that.
    if let Err(error) = UnixStream::connect(path)
        && error.kind() == io::ErrorKind::ConnectionRefused
    {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        let tcp = |text: &str| ListenAddress::Tcp(text.parse().unwrap());
        assert_eq!(ListenAddress::parse("6543").unwrap(), tcp("127.0.0.1:6543"));
        assert_eq!(ListenAddress::parse("[::1]:1").unwrap(), tcp("[::1]:1"));
        assert!(ListenAddress::parse("127.0.0.1:0").unwrap().is_local());
        assert!(!ListenAddress::parse("0.0.0.0:6543").unwrap().is_local());
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(
            ListenAddress::parse(directory.path().to_str().unwrap()).unwrap(),
            ListenAddress::Unix(directory.path().join(".s.PGSQL.5432"))
        );
        assert_eq!(
            ListenAddress::parse("./proxy.sock").unwrap(),
            ListenAddress::Unix("./proxy.sock".into())
        );
        assert_eq!(
            ListenAddress::parse("a/b:5432").unwrap(),
            ListenAddress::Unix("a/b:5432".into())
        );
        for text in ["", "proxy.sock", "nowhere", "127.0.0.1", "127.0.0.1:70000"] {
            assert!(ListenAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_socket_that_was_left_behind_is_taken_over_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let at = ListenAddress::Unix(directory.path().join("s"));
        let first = Listener::bind(&at).unwrap();
        assert!(matches!(
            Listener::bind(&at),
            Err(ListenError::Refused { .. })
        ));
        // As after a kill: the file stays.
        let Listener::Unix(socket, _) = &first else {
            panic!("a unix socket")
        };
        let copy = socket.try_clone().unwrap();
        std::mem::forget(first);
        drop(copy);
        let path = directory.path().join("file");
        std::fs::write(&path, "x").unwrap();
        assert!(matches!(
            Listener::bind(&ListenAddress::Unix(path)),
            Err(ListenError::Occupied(_))
        ));
        drop(UnixListener::bind(directory.path().join("t")).unwrap());
        let left = ListenAddress::Unix(directory.path().join("t"));
        drop(Listener::bind(&left).unwrap());
        assert!(!directory.path().join("t").exists());
    }
}
