//! Collects the evidence that a sceptic needs to repeat a replay, apart from its executions: the server with
//! its build and counters, the shape of its data, and the machine. It is collected before the first statement
//! and after the last. Each artefact has its source, or the reason why it is missing.
//!
//! No artefact holds a secret. Settings that may hold one are recorded by name only. Texts of statements,
//! values of columns and names of hosts are not queried.

mod machine;
mod server;
mod server_log;

use std::sync::Arc;

use clock::Clock;
use connect::Target;
use connect::login::{Dialer, Login};
use run::{Artefact, Moment};

use crate::probe::machine::postmaster_here;
use crate::probe_connection::{OwnProcesses, ProbeConnection, ProbeError};

/// Maximum number of databases to read.
const DATABASES_MAX: usize = 8;

/// Collects evidence, over one connection for each database that the logins name. Facts of the machine are
/// those of the one where this program runs. Facts of the server's machine are available only if it is the
/// same. `begun` is the result of an earlier call, which holds the position of the server's log.
pub fn evidence(
    target: &Target,
    logins: &[Login],
    clock: &Arc<dyn Clock>,
    moment: Moment,
    begun: &[Artefact],
) -> Vec<Artefact> {
    let mut artefacts = ArtefactList::default();
    let dialer = match Dialer::new(target) {
        Ok(dialer) => dialer,
        Err(error) => {
            artefacts.add_missing("server", "a connection", error.to_string());
            machine::gather(
                &mut artefacts,
                moment,
                &Err("no connection to it".to_owned()),
            );
            return artefacts.all;
        }
    };
    let mut databases: Vec<&Login> = Vec::new();
    for login in logins {
        if !databases.iter().any(|one| one.database == login.database) {
            databases.push(login);
        }
    }
    let mut postmaster = Err("no connection to it".to_owned());
    for (place, login) in databases.iter().take(DATABASES_MAX).enumerate() {
        let mut connection =
            ProbeConnection::new(&dialer, login, clock, &OwnProcesses::default(), false);
        if let Err(unable) = connection.open() {
            let name = format!("database/{}", login.database);
            artefacts.add_missing(&name, "a connection", reason(unable));
            continue;
        }
        if place == 0 {
            server::gather_server(&mut artefacts, &mut connection, moment, begun);
            postmaster = postmaster_here(connection.server());
        }
        server::gather_database(&mut artefacts, &mut connection, &login.database, moment);
    }
    let left_out = databases.len().saturating_sub(DATABASES_MAX);
    if left_out > 0 {
        let why = format!("{left_out} more databases: the first {DATABASES_MAX} are looked into");
        artefacts.add_missing("database", "a connection", why);
    }
    machine::gather(&mut artefacts, moment, &postmaster);
    artefacts.all
}

/// Returns the reason for a missing result as a phrase.
fn reason(unable: ProbeError) -> String {
    match unable {
        ProbeError::Unsupported {
            why,
            remedy: Some(remedy),
        } => format!("{why}; {remedy}"),
        ProbeError::Unsupported { why, remedy: None }
        | ProbeError::Failed(why)
        | ProbeError::ConnectionLost(why) => why,
    }
}

/// Collected artefacts.
#[derive(Debug, Default)]
struct ArtefactList {
    all: Vec<Artefact>,
}

impl ArtefactList {
    fn add(&mut self, name: &str, how: &str, content: String) {
        self.all.push(Artefact {
            name: name.to_owned(),
            how: how.to_owned(),
            content: Some(content),
            missing: None,
        });
    }

    fn add_missing(&mut self, name: &str, how: &str, missing: String) {
        self.all.push(Artefact {
            name: name.to_owned(),
            how: how.to_owned(),
            content: None,
            missing: Some(missing),
        });
    }
}
