//! System calls on non-blocking sockets.

use std::io;
use std::os::fd::RawFd;

use crate::check_result;

/// Keeps a write to a closed connection from raising `SIGPIPE`. On other systems the standard library does that
/// for each socket.
#[cfg(target_os = "linux")]
const WRITE_FLAGS: libc::c_int = libc::MSG_NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const WRITE_FLAGS: libc::c_int = 0;

/// Reads the available bytes; 0 at the end of the stream.
///
/// # Errors
/// `WouldBlock` if none are available, or the error of the connection.
#[inline]
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let read = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Writes as many bytes as fit. A peer that has closed is an error, not a signal.
///
/// # Errors
/// `WouldBlock` if none fit, or the error of the connection.
#[inline]
pub fn write(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let written = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), WRITE_FLAGS) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Ends the outgoing stream. Data of the peer can still be read.
pub fn shutdown_write(fd: RawFd) {
    // SAFETY: no pointers. If the connection is closed already, nothing happens.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// Ends both directions of a socket, even if other descriptors refer to it.
pub fn shutdown(fd: RawFd) {
    // SAFETY: no pointers. If the connection is closed already, nothing happens.
    unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
}

/// Sets an integer option of a TCP socket.
///
/// # Errors
/// If it is not a TCP socket, or the system does not know the option.
pub fn set_tcp_option(fd: RawFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, option, value)
}

/// Enables TCP keepalive.
///
/// # Errors
/// If it is not a socket.
pub fn keep_alive(fd: RawFd) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)
}

fn set_option(
    fd: RawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    let place: *const libc::c_int = &value;
    // SAFETY: `value` lives through the call and has the given length.
    check_result(unsafe { libc::setsockopt(fd, level, option, place.cast(), length) })?;
    Ok(())
}
