//! Messages of libpq for a server that cannot be reached. A client of the proxy receives the message that it
//! would see without the proxy.
//!
//! Texts are those in `fe-connect.c` and `fe-secure-openssl.c` of PostgreSQL 14 and later
//! (`emitHostIdentityInfo`, `connectFailureMessage`, `PQconnectPoll`).

use std::io;
use std::net::SocketAddr;

use super::is_timeout;
use crate::{Host, Server};

/// Returns the message of a failed connection to a server.
pub(super) fn failed(server: &Server, address: Option<SocketAddr>, why: &str) -> String {
    format!(
        "connection to server {} failed: {why}",
        server_text(server, address)
    )
}

/// Returns the reason in words, if it is a socket error. `connecting`: the connection was not established
/// yet.
pub(super) fn reason(server: &Server, error: &io::Error, connecting: bool) -> String {
    // A timeout of the operating system is a reason for a failed connection: a full queue of a unix socket,
    // or a host that does not respond for minutes.
    if is_timeout(error) && !(connecting && error.raw_os_error().is_some()) {
        return "timeout expired".to_owned();
    }
    if connecting {
        let question = match server.host {
            Some(Host::Unix(_) | Host::Abstract(_)) => {
                "locally and accepting connections on that socket?"
            }
            _ => "on that host and accepting TCP/IP connections?",
        };
        return format!(
            "{}\n\tIs the server running {question}",
            system_words(error)
        );
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n\t\
             before or while processing the request."
                .to_owned()
        }
        _ => system_words(error),
    }
}

/// Returns the message for a host name without an address.
pub(super) fn unknown_name(server: &Server, error: &io::Error) -> String {
    let host = match &server.host {
        Some(Host::Tcp(host)) => host.as_str(),
        _ => "",
    };
    let words = error.to_string();
    let why = words
        .rsplit_once("information: ")
        .map_or(words.as_str(), |(_, why)| why);
    format!("could not translate host name \"{host}\" to address: {why}")
}

/// Returns the server as named, with the address that was tried if it adds information.
fn server_text(server: &Server, address: Option<SocketAddr>) -> String {
    if let Some(Host::Unix(_) | Host::Abstract(_)) = server.host {
        return format!("on socket \"{server}\"");
    }
    let port = server.port;
    let tried = address.map(|address| address.ip().to_string());
    match (&server.host, server.address) {
        // `hostaddr` replaces the name, as in libpq.
        (_, Some(address)) => format!("at \"{address}\", port {port}"),
        (Some(Host::Tcp(host)), None) => match tried.filter(|tried| tried != host) {
            Some(tried) => format!("at \"{host}\" ({tried}), port {port}"),
            None => format!("at \"{host}\", port {port}"),
        },
        _ => format!("at port {port}"),
    }
}

/// Returns the message of `strerror`, without the number that the standard library appends.
fn system_words(error: &io::Error) -> String {
    let words = error.to_string();
    match words.rsplit_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn server(host: Host) -> Server {
        Server {
            host: Some(host),
            address: None,
            port: 5432,
        }
    }

    fn refused() -> io::Error {
        io::Error::from_raw_os_error(libc::ECONNREFUSED)
    }

    #[test]
    fn connection_errors_equal_those_of_psql() {
        // As printed by psql 15.
        let named = server(Host::Tcp("localhost".to_owned()));
        let address = Some("127.0.0.1:5432".parse().unwrap());
        let why = reason(&named, &refused(), true);
        assert_eq!(
            failed(&named, address, &why),
            "connection to server at \"localhost\" (127.0.0.1), port 5432 failed: Connection refused\n\
             \tIs the server running on that host and accepting TCP/IP connections?"
        );
        let numeric = server(Host::Tcp("127.0.0.1".to_owned()));
        assert!(
            failed(&numeric, address, &why)
                .starts_with("connection to server at \"127.0.0.1\", port 5432 failed: ")
        );
        let socket = server(Host::Unix(PathBuf::from("/nowhere")));
        let missing = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(
            failed(&socket, None, &reason(&socket, &missing, true)),
            "connection to server on socket \"/nowhere/.s.PGSQL.5432\" failed: No such file or directory\n\
             \tIs the server running locally and accepting connections on that socket?"
        );
    }

    #[test]
    fn error_on_an_open_connection_omits_the_hint_about_the_server() {
        let named = server(Host::Tcp("db".to_owned()));
        let words = reason(&named, &io::ErrorKind::UnexpectedEof.into(), false);
        assert!(
            words.starts_with("server closed the connection unexpectedly\n"),
            "{words}"
        );
        for connecting in [false, true] {
            assert_eq!(
                reason(&named, &io::ErrorKind::TimedOut.into(), connecting),
                "timeout expired"
            );
        }
    }

    #[test]
    fn own_timeout_is_distinguished_from_that_of_the_system() {
        let named = server(Host::Tcp("db".to_owned()));
        let silent = io::Error::from_raw_os_error(libc::ETIMEDOUT);
        let words = reason(&named, &silent, true);
        assert!(
            words.starts_with("Connection timed out\n\tIs the server"),
            "{words}"
        );
        // A read that exceeds the time limit.
        let slow = io::Error::from_raw_os_error(libc::EAGAIN);
        assert_eq!(reason(&named, &slow, false), "timeout expired");
    }

    #[test]
    fn a_name_without_an_address_is_named() {
        let named = server(Host::Tcp("no-such-host.invalid".to_owned()));
        let error =
            io::Error::other("failed to lookup address information: Name or service not known");
        assert_eq!(
            unknown_name(&named, &error),
            "could not translate host name \"no-such-host.invalid\" to address: Name or service not known"
        );
    }
}
