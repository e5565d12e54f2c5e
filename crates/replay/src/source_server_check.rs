//! Detects whether the target is the server that the workload was captured on.
//!
//! The workload names the servers as far as its source identifies them: a proxy and packets by host, address and
//! port, a log by the data directory that contains it. A log that was moved does not name its server. `None` is no
//! proof that it is another server.

mod target_place;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use workload::WorkloadReader;

use crate::connect::Dialer;
use crate::login::{Login, LoginMap};
use connect::{Host, Target};
use target_place::TargetPlace;

/// Queries whether the connection is within a machine, the server's name, its data and log directories, if this
/// role may read them, and the address and port by which the server knows itself.
const LOCATION_SQL: &str = "SELECT inet_server_addr() IS NOT DISTINCT FROM inet_client_addr(), \
     current_setting('cluster_name', true), \
     (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory'), \
     (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'log_directory'), \
     host(inet_server_addr()), \
     current_setting('port')";

/// Queries the system identifier. Some providers do not permit it.
const IDENTIFIER_SQL: &str = "SELECT system_identifier FROM pg_catalog.pg_control_system()";

/// Checks whether the workload was captured on the target. Returns the evidence in words.
pub fn find_source_server(
    reader: &WorkloadReader,
    target: &Target,
    logins: &LoginMap,
) -> Option<String> {
    let provenance = &reader.info().provenance;
    let servers = &provenance.servers;
    let mut place = TargetPlace::of(target);
    if let Some(how) = place.find(servers) {
        return Some(how);
    }
    let sources: Vec<PathBuf> = provenance
        .sources
        .iter()
        .filter_map(|source| std::fs::canonicalize(&source.name).ok())
        .collect();
    if sources.is_empty() && servers.is_empty() {
        return None;
    }
    let first = reader.logins().ok()?.first()?;
    let login = logins.login(target, &first.user, &first.database, "");
    let location = query_location(target, &login)?;
    place.add(&location);
    let is_identified = |server: &workload::CapturedServer| server.system_identifier.is_some();
    if servers.iter().any(is_identified) {
        place.system_identifier = query_identifier(target, &login);
    }
    if let Some(how) = place.find(servers) {
        return Some(how);
    }
    let logs = sources.iter().filter(|_| location.is_here);
    logs.filter_map(|source| find_log(source, &location)).next()
}

/// Finds evidence that the server wrote a file of this machine.
fn find_log(source: &Path, location: &ServerLocation) -> Option<String> {
    let says = |how: &str| Some(format!("{} {how}", source.display()));
    let is_within = |directory: &PathBuf| source.starts_with(directory);
    if location.directories.iter().any(is_within) {
        return says("lies where it keeps its data or its logs");
    }
    let is_of = |port: &u16| is_in_data_directory(source, *port);
    if location.ports.iter().any(is_of) {
        return says("lies in the data directory of the server on that port");
    }
    // Debian's: cluster 15/main writes postgresql-15-main.log.
    let log_name = format!("postgresql-{}.log", location.cluster.replace('/', "-"));
    let name = source.file_name()?.to_str()?;
    if location.cluster.contains('/') && name.starts_with(&log_name) {
        return says("has the name of its log");
    }
    None
}

/// A server's own answer to [`LOCATION_SQL`].
struct ServerLocation {
    is_here: bool,
    address: Option<IpAddr>,
    /// Port of the connection, and the port that the server listens on.
    ports: Vec<u16>,
    cluster: String,
    data: Option<String>,
    directories: Vec<PathBuf>,
}

fn query_location(target: &Target, login: &Login) -> Option<ServerLocation> {
    let answer = Dialer::new(target).ok()?.ask(login, LOCATION_SQL).ok()?;
    let mut columns = answer.rows.into_iter().next()?.into_iter();
    let by_socket = matches!(answer.server.host, Some(Host::Unix(_) | Host::Abstract(_)));
    let is_here = columns.next()?.as_deref() == Some("t") || by_socket;
    let cluster = columns.next()?.unwrap_or_default();
    let data = columns.next()?;
    let data_path = data.as_ref().map(PathBuf::from);
    let logs = columns.next()?.map(PathBuf::from);
    let logs = match (&data_path, logs) {
        (Some(data), Some(logs)) => Some(data.join(logs)),
        (None, logs) => logs.filter(|logs| logs.is_absolute()),
        (_, None) => None,
    };
    let address = columns.next()?.and_then(|address| address.parse().ok());
    let own_port: Option<u16> = columns.next()?.and_then(|port| port.parse().ok());
    let mut ports = vec![answer.server.port];
    ports.extend(own_port);
    let directories = [data_path, logs].into_iter().flatten();
    Some(ServerLocation {
        is_here,
        address,
        ports,
        cluster,
        data,
        directories: directories
            .filter_map(|directory| std::fs::canonicalize(directory).ok())
            .collect(),
    })
}

fn query_identifier(target: &Target, login: &Login) -> Option<u64> {
    let answer = Dialer::new(target).ok()?.ask(login, IDENTIFIER_SQL).ok()?;
    let identifier = answer.rows.into_iter().next()?.into_iter().next()??;
    // The server shows the number as signed.
    let signed: i64 = identifier.parse().ok()?;
    Some(signed.cast_unsigned())
}

/// Whether a parent folder of the file is the data directory of a running server on this port. The fourth
/// line of `postmaster.pid` is the port (`pidfile.h`).
fn is_in_data_directory(source: &Path, port: u16) -> bool {
    source.ancestors().skip(1).any(|folder| {
        let read = || -> io::Result<bool> {
            let text = std::fs::read_to_string(folder.join("postmaster.pid"))?;
            Ok(text.lines().nth(3) == Some(&port.to_string()))
        };
        read().unwrap_or(false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_directory_is_recognised_by_the_port_in_postmaster_pid() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log/today.log");
        assert!(!is_in_data_directory(&log, 5433));
        let pid = "123\n/data\n1700000000\n5433\n/tmp\nlocalhost\n";
        std::fs::write(folder.path().join("postmaster.pid"), pid).unwrap();
        assert!(is_in_data_directory(&log, 5433));
        assert!(!is_in_data_directory(&log, 543));
    }
}
