//! Measures the load of the replaying machine during a replay.

use connect::login::{Dialer, Login};
use cpu_profile::{CpuUsage, postmaster_of};
use replay::Target;
use run::RunWriter;

/// Readings of the machine's counters from the beginning of a replay.
pub(crate) struct MachineWatch {
    /// First process of the server, if it is on this machine and visible.
    postmaster: Option<i32>,
    begun: CpuUsage,
}

impl MachineWatch {
    /// Reads the counters before the first statement.
    pub(crate) fn begin(target: &Target, login: Option<&Login>) -> Self {
        let postmaster = login.and_then(|login| find_postmaster(target, login));
        Self {
            postmaster,
            begun: CpuUsage::now(postmaster),
        }
    }

    /// Writes the load since the beginning into the run.
    pub(crate) fn end(&self, run: &mut RunWriter) {
        if let Some(load) = CpuUsage::now(self.postmaster).load_since(&self.begun) {
            run.machine_load(load);
        }
    }
}

fn find_postmaster(target: &Target, login: &Login) -> Option<i32> {
    let dialer = Dialer::new(target).ok()?;
    let mut connection = dialer.open_query_connection(login).ok()?;
    let rows = connection.query("SELECT pg_backend_pid()").ok()?;
    let backend = rows.first()?.first()?.as_deref()?.parse().ok()?;
    postmaster_of(backend, &login.user, &login.database)
}
