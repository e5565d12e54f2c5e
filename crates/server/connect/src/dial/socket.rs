//! A socket with a deadline for all operations.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
#[cfg(target_os = "linux")]
use std::os::unix::net::SocketAddr as UnixAddr;
use std::os::unix::net::UnixStream;

use super::Deadline;
use crate::{Host, KeepAlive, Server};

pub(super) struct Socket {
    stream: Stream,
    deadline: Deadline,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Resolves a host name.
pub(super) fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

/// Repeats a call that a stop of the process (SIGSTOP) interrupted. Sockets with time limits report it (`signal(7)`).
fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

impl Socket {
    pub(super) fn connect(
        server: &Server,
        address: Option<SocketAddr>,
        deadline: Deadline,
        keep_alive: &KeepAlive,
    ) -> io::Result<Self> {
        let stream = match (&server.host, address) {
            (_, Some(address)) => {
                let stream = TcpStream::connect_timeout(&address, deadline.left()?)?;
                // Statements must be sent when due, not when a packet is full.
                let _ = stream.set_nodelay(true);
                set_keep_alive(&stream, keep_alive)?;
                Stream::Tcp(stream)
            }
            (Some(Host::Unix(directory)), None) => {
                let path = directory.join(format!(".s.PGSQL.{}", server.port));
                Stream::Unix(retry_interrupted(|| UnixStream::connect(&path))?)
            }
            (Some(Host::Abstract(name)), None) => {
                let name = format!("{name}/.s.PGSQL.{}", server.port);
                Stream::Unix(connect_abstract(&name)?)
            }
            _ => return Err(io::Error::other("it has no address")),
        };
        Ok(Socket { stream, deadline })
    }

    pub(super) fn limit(&mut self, deadline: Deadline) {
        self.deadline = deadline;
    }

    /// Returns the bare socket in non-blocking mode.
    pub(super) fn into_fd(self) -> io::Result<OwnedFd> {
        Ok(match self.stream {
            Stream::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                stream.into()
            }
            Stream::Unix(stream) => {
                stream.set_nonblocking(true)?;
                stream.into()
            }
        })
    }
}

#[cfg(target_os = "linux")]
fn connect_abstract(name: &str) -> io::Result<UnixStream> {
    let address = UnixAddr::from_abstract_name(name)?;
    retry_interrupted(|| UnixStream::connect_addr(&address))
}

#[cfg(not(target_os = "linux"))]
fn connect_abstract(name: &str) -> io::Result<UnixStream> {
    let reason = format!(
        "abstract sockets such as @{name} exist on Linux only; name the socket's directory"
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

/// Option for the seconds of silence after which keepalives begin.
#[cfg(target_vendor = "apple")]
const TCP_KEEPIDLE: libc::c_int = libc::TCP_KEEPALIVE;
#[cfg(not(target_vendor = "apple"))]
const TCP_KEEPIDLE: libc::c_int = libc::TCP_KEEPIDLE;

fn set_keep_alive(stream: &TcpStream, keep_alive: &KeepAlive) -> io::Result<()> {
    let fd = stream.as_raw_fd();
    if keep_alive.on {
        event_loop::keep_alive(fd)?;
        for (option, value) in [
            (TCP_KEEPIDLE, keep_alive.idle_s),
            (libc::TCP_KEEPINTVL, keep_alive.interval_s),
            (libc::TCP_KEEPCNT, keep_alive.count),
        ] {
            if let Some(value) = value {
                event_loop::set_tcp_option(fd, option, value)?;
            }
        }
    }
    match keep_alive.user_timeout_ms {
        Some(ms) => set_user_timeout(fd, ms),
        None => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn set_user_timeout(fd: RawFd, ms: i32) -> io::Result<()> {
    event_loop::set_tcp_option(fd, libc::TCP_USER_TIMEOUT, ms)
}

#[cfg(not(target_os = "linux"))]
fn set_user_timeout(_: RawFd, _: i32) -> io::Result<()> {
    let reason = "tcp_user_timeout exists on Linux only; leave it out";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = Some(self.deadline.left()?);
        match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(left)?;
                retry_interrupted(|| stream.read(buffer))
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(left)?;
                retry_interrupted(|| stream.read(buffer))
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = Some(self.deadline.left()?);
        match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_write_timeout(left)?;
                stream.write(bytes)
            }
            Stream::Unix(stream) => {
                stream.set_write_timeout(left)?;
                stream.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
