//! Goes on with a replay that was stopped or killed: what its run has is not done again.
//!
//! The earlier run says how far each session had come. The planner passes over what it has; where a
//! session goes on behind that, a worker gets it as one whose connection was lost: with its login
//! and its state, to be opened when it has something to send.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use run::{ArchiveError, Execution, Outcome, RunInfo, RunReader, SkipReason};
use workload::{Event, EventKind, SessionState, WorkloadReader};

use crate::engine::ReplayError;
use crate::login::Login;
use crate::options::Options;

/// What may differ between a run and the replay that goes on with it: it changes what happens from
/// there on, not what is due when.
const MAY_DIFFER: [&str; 15] = [
    "workers",
    "spin_us",
    "patience",
    "max_connections",
    "statement_timeout",
    "idle_skipped",
    "connections_tried_again",
    "connections_handed_over",
    "restore_errors",
    "cancels_failed",
    "cancels_repeated",
    "waits_for_commits",
    "let_go_before_commits",
    "learnt",
    "remapped",
];

/// A run that a replay goes on with.
#[derive(Debug)]
pub struct Earlier {
    reader: RunReader,
    /// Behind the last event that each session has in it.
    next: HashMap<u64, u64>,
    /// When its last event was done, in nanoseconds from its start.
    elapsed_ns: i64,
    /// Statements in it that are not to be done again.
    statements: u64,
}

impl PartialEq for Earlier {
    fn eq(&self, other: &Self) -> bool {
        self.reader.id() == other.reader.id()
    }
}

impl Eq for Earlier {}

impl Earlier {
    /// Reads how far a run had come.
    ///
    /// # Errors
    /// Where it cannot be read, reached its end, is of another workload, or was shaped otherwise.
    pub fn read(
        path: &Path,
        workload: &WorkloadReader,
        options: &Options,
    ) -> Result<Self, ReplayError> {
        let reader = RunReader::open(path)?;
        let info = reader.info();
        let refused = |reason: String| ReplayError::Resume {
            run: path.to_owned(),
            reason,
        };
        if info.status == run::RunStatus::Complete {
            return Err(refused("it reached its end".to_owned()));
        }
        if info.workload.id != workload.id() {
            return Err(refused(format!(
                "it is of another workload, {}",
                info.workload.name
            )));
        }
        let shaping = |options: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            let mut options = options.clone();
            options.retain(|name, _| {
                !MAY_DIFFER.contains(&name.as_str()) && !name.starts_with("resumed")
            });
            options
        };
        let (before, now) = (shaping(&info.options), shaping(&options.described()));
        if let Some(name) = before
            .keys()
            .chain(now.keys())
            .find(|name| before.get(*name) != now.get(*name))
        {
            let of = |options: &BTreeMap<String, String>| {
                options
                    .get(name)
                    .map_or("nothing", String::as_str)
                    .to_owned()
            };
            return Err(refused(format!(
                "it was begun with {name} = {}, and now {name} is {}; give the same options",
                of(&before),
                of(&now)
            )));
        }
        let mut earlier = Earlier {
            next: HashMap::new(),
            elapsed_ns: 0,
            statements: 0,
            reader,
        };
        for execution in earlier.rows()? {
            let execution = execution?;
            let next = earlier.next.entry(execution.session).or_default();
            *next = (*next).max(execution.sequence + 1);
            earlier.elapsed_ns = earlier.elapsed_ns.max(execution.done_ns.unwrap_or(0));
            earlier.statements += u64::from(execution.is_statement());
        }
        Ok(earlier)
    }

    /// Its rows that stay as they are: all but those that the stop left undone.
    pub(crate) fn rows(
        &self,
    ) -> Result<impl Iterator<Item = Result<Execution, ArchiveError>> + use<>, ArchiveError> {
        Ok(self.reader.executions()?.filter(|row| {
            !row.as_ref()
                .is_ok_and(|row| row.outcome == Outcome::Skipped(SkipReason::Stopped))
        }))
    }

    pub(crate) fn info(&self) -> &RunInfo {
        self.reader.info()
    }

    pub(crate) fn name(&self) -> String {
        self.reader.path().display().to_string()
    }

    pub(crate) fn statements(&self) -> u64 {
        self.statements
    }

    pub(crate) fn elapsed_ns(&self) -> i64 {
        self.elapsed_ns
    }
}

/// A session that goes on.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Resumed {
    pub(crate) login: Login,
    pub(crate) state: SessionState,
    /// It goes on in a transaction, which went with the earlier replay.
    pub(crate) transaction_lost: bool,
}

/// What is to be done with an event.
pub(crate) enum Turn {
    /// Nothing: it was done.
    Done,
    /// It is done here, and its session with it.
    Goes,
    /// Its session goes on with it.
    GoesOn(Box<Left>),
}

/// Where a session was left.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) database: std::sync::Arc<str>,
    pub(crate) user: std::sync::Arc<str>,
    pub(crate) application: std::sync::Arc<str>,
    /// Of its `connect`.
    pub(crate) particulars: Option<std::sync::Arc<workload::Particulars>>,
    pub(crate) state: SessionState,
}

/// Follows the events of a workload, and tells which were done.
pub(crate) struct Passing<'a> {
    earlier: &'a Earlier,
    /// Sessions that were begun, while all of theirs was done.
    left: HashMap<u64, Box<Left>>,
}

impl<'a> Passing<'a> {
    pub(crate) fn new(earlier: &'a Earlier) -> Self {
        Passing {
            earlier,
            left: HashMap::new(),
        }
    }

    /// Takes an event in; in the order of the workload.
    pub(crate) fn turn(&mut self, event: &Event) -> Turn {
        let next = self.earlier.next.get(&event.session).copied();
        if event.sequence >= next.unwrap_or(0) {
            return match self.left.remove(&event.session) {
                Some(left) => Turn::GoesOn(left),
                None => Turn::Goes,
            };
        }
        match &event.kind {
            EventKind::Connect {
                database,
                user,
                application,
            } => {
                let left = Left {
                    database: database.clone(),
                    user: user.clone(),
                    application: application.clone(),
                    particulars: event.particulars.clone(),
                    ..Left::default()
                };
                self.left.insert(event.session, Box::new(left));
            }
            EventKind::Disconnect => {
                self.left.remove(&event.session);
            }
            _ => {
                if let Some(left) = self.left.get_mut(&event.session) {
                    left.state.follow(event);
                }
            }
        }
        Turn::Done
    }
}

#[cfg(test)]
impl PartialEq for Resumed {
    /// For tests of what is not about this.
    fn eq(&self, other: &Self) -> bool {
        self.login == other.login && self.transaction_lost == other.transaction_lost
    }
}
