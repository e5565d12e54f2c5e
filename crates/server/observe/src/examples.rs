//! Finds an execution of each statement whose plan is wanted, with its text and values as sent.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use connect::login::Value;
use sql::Fingerprint;
use workload::{ArchiveError, Event, EventKind, Parameter, Setting, WorkloadReader};

/// One execution of a statement in the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Session in the workload.
    pub session: u64,
    /// Position in the session.
    pub sequence: u64,
    /// Database of the session, as captured; empty if unknown.
    pub database: Arc<str>,
    /// Role of the session, as captured; empty if unknown.
    pub user: Arc<str>,
    /// Settings that the client sent when it connected, if the capture recorded them.
    pub settings: Arc<[Setting]>,
    /// Text as sent.
    pub sql: Arc<str>,
    /// Values; `None` is NULL.
    pub parameters: Vec<Option<Parameter>>,
    /// Types that the client specified, as OIDs. 0, and types missing at the end, leave the choice to the
    /// server.
    pub types: Vec<u32>,
    /// Whether it was a prepared statement with a name, which sessions may execute again.
    pub is_prepared: bool,
    /// Captured time in microseconds, if known.
    pub captured_us: Option<u64>,
}

impl Example {
    /// Returns the values in the form that a query takes.
    pub fn values(&self) -> Vec<Option<Value<'_>>> {
        fn value(parameter: &Parameter) -> Value<'_> {
            match parameter {
                Parameter::Text(text) => Value::Text(text),
                Parameter::Binary(bytes) => Value::Binary(bytes),
            }
        }
        let parameters = self.parameters.iter();
        parameters
            .map(|parameter| parameter.as_ref().map(value))
            .collect()
    }
}

/// Database, role and settings of a session.
struct SessionIdentity {
    database: Arc<str>,
    user: Arc<str>,
    settings: Arc<[Setting]>,
}

/// Returns the first execution of each statement with all its values. Reads the workload, at most once, until
/// each statement has one. Memory holds the identities of the live sessions.
///
/// # Errors
/// If the workload cannot be read.
pub fn examples(
    reader: &WorkloadReader,
    wanted: &HashSet<Fingerprint>,
) -> Result<HashMap<Fingerprint, Example>, ArchiveError> {
    let mut found = HashMap::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    visit_executions(reader, wanted, &mut |execution| {
        if let Some(example) = execution.example {
            found.entry(execution.fingerprint).or_insert(example);
        }
        match found.len() == wanted.len() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    Ok(found)
}

/// Execution of a statement in the workload.
pub(crate) struct Execution {
    pub(crate) fingerprint: Fingerprint,
    /// Database of the session, as captured; empty if unknown.
    pub(crate) database: Arc<str>,
    /// Captured time in microseconds, if known.
    pub(crate) captured_us: Option<u64>,
    /// The execution with its values; `None` if some are missing, or it has no text.
    pub(crate) example: Option<Example>,
}

/// Visits the executions of these statements, in the order of the workload.
pub(crate) fn visit_executions(
    reader: &WorkloadReader,
    wanted: &HashSet<Fingerprint>,
    visit: &mut dyn FnMut(Execution) -> ControlFlow<()>,
) -> Result<(), ArchiveError> {
    let mut sessions: HashMap<u64, SessionIdentity> = HashMap::new();
    for event in reader.events()? {
        let (event, fingerprint) = event?;
        match &event.kind {
            EventKind::Connect { database, user, .. } => {
                let settings = event.wire_details.as_ref();
                let settings = settings.into_iter().flat_map(|known| known.sent_settings());
                let who = SessionIdentity {
                    database: database.clone(),
                    user: user.clone(),
                    settings: settings.cloned().collect(),
                };
                sessions.insert(event.session, who);
            }
            EventKind::Disconnect => {
                sessions.remove(&event.session);
            }
            EventKind::Simple { .. }
            | EventKind::Execute { .. }
            | EventKind::FunctionCall { .. } => {
                let Some(fingerprint) = fingerprint.filter(|one| wanted.contains(one)) else {
                    continue;
                };
                let who = sessions.get(&event.session);
                let execution = Execution {
                    fingerprint,
                    database: who.map_or_else(Arc::default, |who| who.database.clone()),
                    captured_us: event.outcome.duration_us,
                    example: example_of(event, &sessions),
                };
                if visit(execution).is_break() {
                    break;
                }
            }
            EventKind::Prepare { .. } | EventKind::Fetch { .. } | EventKind::Cancel => {}
        }
    }
    Ok(())
}

/// Returns the event as an example, if it is complete.
fn example_of(event: Event, sessions: &HashMap<u64, SessionIdentity>) -> Option<Example> {
    if event.unreplayable.is_some() {
        return None;
    }
    let (sql, parameters, is_prepared) = match event.kind {
        EventKind::Simple { sql } => (sql, Vec::new(), false),
        EventKind::Execute {
            sql,
            parameters,
            statement,
            ..
        } => (sql, parameters, !statement.is_empty()),
        _ => return None,
    };
    let who = sessions.get(&event.session);
    let types = event
        .wire_details
        .map(|known| known.parameter_types.clone());
    Some(Example {
        session: event.session,
        sequence: event.sequence,
        database: who.map_or_else(Arc::default, |who| who.database.clone()),
        user: who.map_or_else(Arc::default, |who| who.user.clone()),
        settings: who.map_or_else(Arc::default, |who| who.settings.clone()),
        sql,
        parameters,
        types: types.unwrap_or_default(),
        is_prepared,
        captured_us: event.outcome.duration_us,
    })
}
