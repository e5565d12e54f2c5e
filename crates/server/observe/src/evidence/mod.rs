//! What a sceptic needs to do a replay again, and cannot find in its executions: the server, its build
//! and its counters, the shape of its data, the machine. Gathered before the first statement and behind
//! the last, each piece with how it was got or why not.
//!
//! Who drives: the program. Nothing here is a secret: what may hold one is asked for by its name alone,
//! and texts of statements, values of columns and names of hosts are not asked for.

mod machine;
mod server;
mod server_log;

use std::sync::Arc;

use clock::Clock;
use connect::Target;
use connect::login::{Dialer, Login};
use run::{Artefact, Moment};

use crate::asker::{Asker, OwnProcesses, Unable};
use crate::probe::machine::postmaster_here;

/// The most databases that are looked into.
const DATABASES_MAX: usize = 8;

/// Gathers, over one connection for each database that the logins name. What can be had of the machine
/// is of the one where this runs; of the server's, only where that is the same. `begun` is what an
/// earlier call gave: where the server's log was then.
pub fn evidence(
    target: &Target,
    logins: &[Login],
    clock: &Arc<dyn Clock>,
    moment: Moment,
    begun: &[Artefact],
) -> Vec<Artefact> {
    let mut pieces = Pieces::default();
    let dialer = match Dialer::new(target) {
        Ok(dialer) => dialer,
        Err(error) => {
            pieces.lacks("server", "a connection", error.to_string());
            machine::gather(&mut pieces, moment, &Err("no connection to it".to_owned()));
            return pieces.all;
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
        let mut asker = Asker::new(&dialer, login, clock, &OwnProcesses::default(), false);
        if let Err(unable) = asker.open() {
            let name = format!("database/{}", login.database);
            pieces.lacks(&name, "a connection", why(unable));
            continue;
        }
        if place == 0 {
            server::of_the_server(&mut pieces, &mut asker, moment, begun);
            postmaster = postmaster_here(asker.known());
        }
        server::of_a_database(&mut pieces, &mut asker, &login.database, moment);
    }
    let left_out = databases.len().saturating_sub(DATABASES_MAX);
    if left_out > 0 {
        let why = format!("{left_out} more databases: the first {DATABASES_MAX} are looked into");
        pieces.lacks("database", "a connection", why);
    }
    machine::gather(&mut pieces, moment, &postmaster);
    pieces.all
}

/// Why there is no answer, in a sentence's words.
fn why(unable: Unable) -> String {
    match unable {
        Unable::Never {
            why,
            remedy: Some(remedy),
        } => format!("{why}; {remedy}"),
        Unable::Never { why, remedy: None } | Unable::Failed(why) | Unable::Gone(why) => why,
    }
}

/// What was gathered so far.
#[derive(Debug, Default)]
struct Pieces {
    all: Vec<Artefact>,
}

impl Pieces {
    fn has(&mut self, name: &str, how: &str, content: String) {
        self.all.push(Artefact {
            name: name.to_owned(),
            how: how.to_owned(),
            content: Some(content),
            missing: None,
        });
    }

    fn lacks(&mut self, name: &str, how: &str, missing: String) {
        self.all.push(Artefact {
            name: name.to_owned(),
            how: how.to_owned(),
            content: None,
            missing: Some(missing),
        });
    }
}
