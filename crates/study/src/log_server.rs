//! Identity of the server whose log was captured, if the log is in its data directory.

use std::fs;
use std::path::{Path, PathBuf};

use workload::CapturedServer;

/// Returns what identifies the servers that wrote these files, as far as their directories tell it.
pub(crate) fn servers_of_logs(
    files: impl IntoIterator<Item = impl AsRef<Path>>,
) -> Vec<CapturedServer> {
    let mut servers: Vec<CapturedServer> = Vec::new();
    let directories = files
        .into_iter()
        .filter_map(|file| fs::canonicalize(file.as_ref()).ok())
        .filter_map(|file| data_directory(&file));
    for directory in directories {
        let server = server_of(&directory);
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    servers
}

fn data_directory(file: &Path) -> Option<PathBuf> {
    let is_data = |folder: &&Path| folder.join("global/pg_control").is_file();
    let found = file.ancestors().skip(1).find(is_data);
    found.map(Path::to_owned)
}

fn server_of(directory: &Path) -> CapturedServer {
    // `pg_control` begins with the system identifier (pg_control.h). The fourth line of `postmaster.pid` is the
    // port (pidfile.h).
    let control = fs::read(directory.join("global/pg_control")).ok();
    let identifier = control.and_then(|bytes| bytes.first_chunk().copied());
    let process = fs::read_to_string(directory.join("postmaster.pid")).unwrap_or_default();
    let port = process.lines().nth(3).and_then(|line| line.parse().ok());
    CapturedServer {
        port: port.unwrap_or(0),
        machine: connect::machine_name(),
        data_directory: Some(directory.display().to_string()),
        system_identifier: identifier.map(u64::from_ne_bytes),
        ..CapturedServer::default()
    }
}
