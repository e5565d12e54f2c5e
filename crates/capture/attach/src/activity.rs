//! Measures whether the clients' sessions of a server do something, without privileges.

use std::collections::HashMap;
use std::fs;

use crate::process_title::ProcessTitle;
use crate::server_process::{parent, status_field};

/// Number of times that each process of a client's session has waited, by process number. It grows while a session works, and
/// not while it waits for its client.
pub type SessionWaits = HashMap<u32, u64>;

/// Returns the waits of the sessions of a server. Processes without a client in their title are left out.
pub fn session_waits(postmaster: u32) -> SessionWaits {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let sessions = processes.filter(|pid| {
        parent(*pid) == Some(postmaster) && {
            let title = ProcessTitle::read(*pid);
            !title.client.is_empty() && !title.is_walsender
        }
    });
    let waits = sessions.filter_map(|pid| {
        let count = status_field(pid, "voluntary_ctxt_switches:")?;
        Some((pid, count.trim().parse().ok()?))
    });
    waits.collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn waits_of_a_session_grow_while_it_works_and_only_then() {
        let (server, endpoint) = test_support::server().start();
        let found = crate::server_process::find(
            &crate::server_process::ServerSelection::DataDirectory(server.data_dir().into()),
        );
        let Ok(found) = found else {
            return test_support::report_skipped("servers run as another user");
        };
        let mut client = test_support::connect(&endpoint);
        let row = client.query_one("SELECT pg_backend_pid()", &[]).unwrap();
        let pid = row.get::<_, i32>(0) as u32;
        let before = session_waits(found.pid);
        assert_eq!(before.keys().collect::<Vec<_>>(), [&pid]);
        for _ in 0..20 {
            client.batch_execute("SELECT 1").unwrap();
            // The session waits meanwhile.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let after = session_waits(found.pid);
        assert!(after[&pid] >= before[&pid] + 10, "{before:?} {after:?}");
    }
}
