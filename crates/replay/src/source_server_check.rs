//! Detects whether the target is the server that the workload was captured on.
//!
//! A log does not name its server, so this is a best effort: it finds a server of this machine that wrote a
//! captured file.

use std::io;
use std::path::{Path, PathBuf};

use workload::WorkloadReader;

use crate::connect::Dialer;
use crate::login::{Login, LoginMap};
use connect::{Host, Target};

/// Queries whether the target is on this machine, its name, and its data and log directories, if this role
/// may read them.
const LOCATION_SQL: &str = "SELECT inet_server_addr() IS NOT DISTINCT FROM inet_client_addr(), \
     current_setting('cluster_name', true), \
     (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory'), \
     (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'log_directory')";

/// Checks whether the target wrote the log that the workload was captured from. Returns the evidence in
/// words. `None` is no proof that it is another server.
pub fn find_source_server(
    reader: &WorkloadReader,
    target: &Target,
    logins: &LoginMap,
) -> Option<String> {
    let sources: Vec<PathBuf> = reader
        .info()
        .provenance
        .sources
        .iter()
        .filter_map(|source| std::fs::canonicalize(&source.name).ok())
        .collect();
    if sources.is_empty() {
        return None;
    }
    let first = reader.sessions().ok()?.next()?.ok()?;
    let login = logins.login(target, &first.user, &first.database, "");
    let location = query_location(target, &login)?;
    if !location.is_here {
        return None;
    }
    sources.iter().find_map(|source| {
        let says = |how: &str| Some(format!("{} {how}", source.display()));
        if location
            .directories
            .iter()
            .any(|directory| source.starts_with(directory))
        {
            return says("lies where it keeps its data or its logs");
        }
        if is_in_data_directory(source, location.port) {
            return says("lies in the data directory of the server on that port");
        }
        // Debian's: cluster 15/main writes postgresql-15-main.log.
        let log_name = format!("postgresql-{}.log", location.cluster.replace('/', "-"));
        let name = source.file_name()?.to_str()?;
        if location.cluster.contains('/') && name.starts_with(&log_name) {
            return says("has the name of its log");
        }
        None
    })
}

struct ServerLocation {
    is_here: bool,
    port: u16,
    cluster: String,
    directories: Vec<PathBuf>,
}

fn query_location(target: &Target, login: &Login) -> Option<ServerLocation> {
    let answer = Dialer::new(target).ok()?.ask(login, LOCATION_SQL).ok()?;
    let mut columns = answer.rows.into_iter().next()?.into_iter();
    let by_socket = matches!(answer.server.host, Some(Host::Unix(_) | Host::Abstract(_)));
    let is_here = columns.next()?.as_deref() == Some("t") || by_socket;
    let cluster = columns.next()?.unwrap_or_default();
    let data = columns.next()?.map(PathBuf::from);
    let logs = columns.next()?.map(PathBuf::from);
    let logs = match (&data, logs) {
        (Some(data), Some(logs)) => Some(data.join(logs)),
        (None, logs) => logs.filter(|logs| logs.is_absolute()),
        (_, None) => None,
    };
    let directories = [data, logs].into_iter().flatten();
    Some(ServerLocation {
        is_here,
        port: answer.server.port,
        cluster,
        directories: directories
            .filter_map(|directory| std::fs::canonicalize(directory).ok())
            .collect(),
    })
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
