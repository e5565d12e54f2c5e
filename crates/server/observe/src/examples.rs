//! Finds an execution of each statement whose plan is wanted: its text and values as they were sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sql::Fingerprint;
use workload::{ArchiveError, Event, EventKind, Parameter, Setting, WorkloadReader};

/// One execution of a statement, as the workload has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Its session in the workload.
    pub session: u64,
    /// Its place in the session.
    pub sequence: u64,
    /// The session's database, as captured; empty where it is not known.
    pub database: Arc<str>,
    /// The session's role, as captured; empty where it is not known.
    pub user: Arc<str>,
    /// Settings that its client sent when it connected, where the capture knew them.
    pub settings: Arc<[Setting]>,
    /// The text.
    pub sql: Arc<str>,
    /// Its values; `None` is NULL.
    pub parameters: Vec<Option<Parameter>>,
    /// The types that the client gave them, as OIDs; 0 and what is missing it left to the server.
    pub types: Vec<u32>,
}

/// Who a session is.
struct Who {
    database: Arc<str>,
    user: Arc<str>,
    settings: Arc<[Setting]>,
}

/// The first execution with all its values of each of these statements. Reads the workload until
/// each has one, at most once through; holds who the live sessions are.
///
/// # Errors
/// Where the workload cannot be read.
pub fn examples(
    reader: &WorkloadReader,
    wanted: &HashSet<Fingerprint>,
) -> Result<HashMap<Fingerprint, Example>, ArchiveError> {
    let mut found = HashMap::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    let mut sessions: HashMap<u64, Who> = HashMap::new();
    for event in reader.events()? {
        let (event, fingerprint) = event?;
        match &event.kind {
            EventKind::Connect { database, user, .. } => {
                let settings = event.particulars.as_ref();
                let settings = settings.into_iter().flat_map(|known| known.sent_settings());
                let who = Who {
                    database: database.clone(),
                    user: user.clone(),
                    settings: settings.cloned().collect(),
                };
                sessions.insert(event.session, who);
            }
            EventKind::Disconnect => {
                sessions.remove(&event.session);
            }
            _ => {
                let Some(fingerprint) = fingerprint.filter(|one| wanted.contains(one)) else {
                    continue;
                };
                if found.contains_key(&fingerprint) {
                    continue;
                }
                if let Some(example) = of(event, &sessions) {
                    found.insert(fingerprint, example);
                    if found.len() == wanted.len() {
                        break;
                    }
                }
            }
        }
    }
    Ok(found)
}

/// The event as an example, if it has all that it was sent with.
fn of(event: Event, sessions: &HashMap<u64, Who>) -> Option<Example> {
    if event.unreplayable.is_some() {
        return None;
    }
    let (sql, parameters) = match event.kind {
        EventKind::Simple { sql } => (sql, Vec::new()),
        EventKind::Execute {
            sql, parameters, ..
        } => (sql, parameters),
        _ => return None,
    };
    let who = sessions.get(&event.session);
    let types = event.particulars.map(|known| known.parameter_types.clone());
    Some(Example {
        session: event.session,
        sequence: event.sequence,
        database: who.map_or_else(Arc::default, |who| who.database.clone()),
        user: who.map_or_else(Arc::default, |who| who.user.clone()),
        settings: who.map_or_else(Arc::default, |who| who.settings.clone()),
        sql,
        parameters,
        types: types.unwrap_or_default(),
    })
}
