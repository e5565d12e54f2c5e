//! Is the target the server that the workload was captured on? A log does not name its server, so
//! this is a best effort: it finds a server of this machine whose log a captured file is.

use std::io;
use std::path::{Path, PathBuf};

use workload::WorkloadReader;

use crate::connect::Dialer;
use crate::login::{Login, LoginMap};
use connect::{Host, Target};

/// What the target is asked: whether it is on this machine, its name, and where its data and logs
/// lie, as far as this role may know.
const QUESTION: &str = "SELECT inet_server_addr() IS NOT DISTINCT FROM inet_client_addr(), \
     current_setting('cluster_name', true), \
     (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory'), \
     (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'log_directory')";

/// Looks whether the target wrote the log that the workload was captured from. Returns what gave it
/// away, in words; `None` where nothing does, which is no proof that it did not.
pub fn captured_on(reader: &WorkloadReader, target: &Target, logins: &LoginMap) -> Option<String> {
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
    let told = ask(target, &login)?;
    if !told.is_here {
        return None;
    }
    sources.iter().find_map(|source| {
        let says = |how: &str| Some(format!("{} {how}", source.display()));
        if told.places.iter().any(|place| source.starts_with(place)) {
            return says("lies where it keeps its data or its logs");
        }
        if is_beside_postmaster(source, told.port) {
            return says("lies in the data directory of the server on that port");
        }
        // Debian's: cluster 15/main writes postgresql-15-main.log.
        let log_name = format!("postgresql-{}.log", told.cluster.replace('/', "-"));
        let name = source.file_name()?.to_str()?;
        if told.cluster.contains('/') && name.starts_with(&log_name) {
            return says("has the name of its log");
        }
        None
    })
}

struct Told {
    is_here: bool,
    port: u16,
    cluster: String,
    places: Vec<PathBuf>,
}

fn ask(target: &Target, login: &Login) -> Option<Told> {
    let answer = Dialer::new(target).ok()?.ask(login, QUESTION).ok()?;
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
    let places = [data, logs].into_iter().flatten();
    Some(Told {
        is_here,
        port: answer.server.port,
        cluster,
        places: places
            .filter_map(|place| std::fs::canonicalize(place).ok())
            .collect(),
    })
}

/// Whether a folder above the file is the data directory of a running server on this port: its
/// `postmaster.pid` has the port in its fourth line (`pidfile.h`).
fn is_beside_postmaster(source: &Path, port: u16) -> bool {
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
    fn a_postmaster_is_known_by_its_port() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log/today.log");
        assert!(!is_beside_postmaster(&log, 5433));
        let pid = "123\n/data\n1700000000\n5433\n/tmp\nlocalhost\n";
        std::fs::write(folder.path().join("postmaster.pid"), pid).unwrap();
        assert!(is_beside_postmaster(&log, 5433));
        assert!(!is_beside_postmaster(&log, 543));
    }
}
