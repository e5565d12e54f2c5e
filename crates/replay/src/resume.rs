//! Resumes a replay that was stopped or killed, without repeating the statements of its run.
//!
//! The previous run has the last event of each session. The dispatcher skips the completed events. A session
//! with further events starts as one whose connection was lost: with its login and its state, to be connected when
//! it has a statement to send.
//!
//! The server rolled back what was open at the stop. So transactions that were open are replayed again from their
//! beginning, and the run's executions of them are dropped.

mod open_transactions;
mod recorded_values;

pub(crate) use recorded_values::RecordedValues;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use run::{
    ArchiveError, Execution, GeneratedValue, LostConnection, Outcome, ResultColumns, RunInfo,
    RunReader, SkipReason,
};
use workload::{Event, EventKind, SessionState, WorkloadReader};

use crate::error::ReplayError;
use crate::event_id::EventId;
use crate::options::Options;

/// Options that may differ between a run and the replay that resumes it, since they do not change due times.
const OPTIONS_THAT_MAY_DIFFER: [&str; 29] = [
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
    "transactions_aborted",
    "types_unspecified",
    "types_unknown",
    "waits_for_commits",
    "let_go_before_commits",
    "waits_for_dependencies",
    "let_go_before_dependencies",
    "keys_unknown",
    "generated_columns_unknown",
    "deadlock_victims",
    "invalid_traceparents",
    "otlp",
    "learnt",
    "remapped",
    "generated_unknown",
    "generated_inferred",
    "generated_by_order",
    "generated_ambiguous",
];

/// Run that a replay resumes.
#[derive(Debug)]
pub struct PreviousRun {
    reader: RunReader,
    /// First sequence number of each session that is not in the run.
    next_sequence: HashMap<u64, u64>,
    /// Sessions whose transaction was open, with the sequence number of the first event that is not repeated.
    repeated_until: HashMap<u64, u64>,
    /// End of its last event, in nanoseconds from its start.
    elapsed_ns: i64,
    /// Statements in it that are not repeated.
    statements: u64,
}

impl PartialEq for PreviousRun {
    fn eq(&self, other: &Self) -> bool {
        self.reader.id() == other.reader.id()
    }
}

impl Eq for PreviousRun {}

impl PreviousRun {
    /// Reads the progress of a run.
    ///
    /// # Errors
    /// If the run cannot be read, is complete, is of another workload, or had other options.
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
                !OPTIONS_THAT_MAY_DIFFER.contains(&name.as_str()) && !name.starts_with("resumed")
            });
            options
        };
        let (before, now) = (shaping(&info.options), shaping(&options.to_manifest()));
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
        let mut previous = PreviousRun {
            next_sequence: HashMap::new(),
            repeated_until: HashMap::new(),
            elapsed_ns: 0,
            statements: 0,
            reader,
        };
        previous.read_progress()?;
        let (shape, next) = (options.shape(), &previous.next_sequence);
        let open = open_transactions::find(workload, shape, next)?;
        for (session, first) in open {
            let next = previous.next_sequence.insert(session, first);
            previous
                .repeated_until
                .extend(next.map(|next| (session, next)));
        }
        let mut statements = 0;
        for execution in previous.rows()? {
            statements += u64::from(execution?.is_statement());
        }
        previous.statements = statements;
        Ok(previous)
    }

    /// Reads which executions each session did, and when the last of all was done.
    fn read_progress(&mut self) -> Result<(), ArchiveError> {
        for execution in self.reader.executions()? {
            let execution = execution?;
            if was_stopped(&execution) {
                continue;
            }
            let next = self.next_sequence.entry(execution.session).or_default();
            *next = (*next).max(execution.sequence + 1);
            self.elapsed_ns = self.elapsed_ns.max(execution.done_ns.unwrap_or(0));
        }
        Ok(())
    }

    /// Whether an event is in the run, and is not repeated.
    fn has_completed(&self, session: u64, sequence: u64) -> bool {
        let next = self.next_sequence.get(&session);
        next.is_some_and(|next| sequence < *next)
    }

    /// Whether an event was done in a transaction that was open at the end of the run.
    pub(crate) fn is_repeated(&self, event: &Event) -> bool {
        let until = self.repeated_until.get(&event.session);
        until.is_some_and(|until| event.sequence < *until)
            && !self.has_completed(event.session, event.sequence)
    }

    /// Returns the executions to copy into the new run: all except those skipped by the stop, and those that are
    /// repeated.
    pub(crate) fn rows(
        &self,
    ) -> Result<impl Iterator<Item = Result<Execution, ArchiveError>>, ArchiveError> {
        let rows = self.reader.executions()?;
        Ok(self
            .completed(rows, |row| (row.session, row.sequence))
            .filter(|row| !row.as_ref().is_ok_and(was_stopped)))
    }

    /// Returns the lost connections to copy into the new run: all of them.
    pub(crate) fn lost_connections(
        &self,
    ) -> Result<impl Iterator<Item = Result<LostConnection, ArchiveError>>, ArchiveError> {
        self.reader.lost_connections()
    }

    /// Returns the columns of results to copy into the new run.
    pub(crate) fn result_columns(
        &self,
    ) -> Result<impl Iterator<Item = Result<ResultColumns, ArchiveError>>, ArchiveError> {
        let rows = self.reader.result_columns()?;
        Ok(self.completed(rows, |row| (row.session, row.sequence)))
    }

    /// Returns the generated values to copy into the new run. A killed run may have some of executions that it lacks.
    pub(crate) fn generated_values(
        &self,
    ) -> Result<impl Iterator<Item = Result<GeneratedValue, ArchiveError>>, ArchiveError> {
        let rows = self.reader.generated_values()?;
        Ok(self.completed(rows, |row| (row.session, row.sequence)))
    }

    /// Leaves out rows of executions that are repeated.
    fn completed<R>(
        &self,
        rows: impl Iterator<Item = Result<R, ArchiveError>>,
        id: impl Fn(&R) -> EventId,
    ) -> impl Iterator<Item = Result<R, ArchiveError>> {
        rows.filter(move |row| match row {
            Ok(row) => {
                let (session, sequence) = id(row);
                self.has_completed(session, sequence)
            }
            Err(_) => true,
        })
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

fn was_stopped(execution: &Execution) -> bool {
    execution.outcome == Outcome::Skipped(SkipReason::Stopped)
}

/// Action for an event.
pub(crate) enum ResumeAction {
    /// Skip it: it is in the previous run.
    Skip,
    /// Replay it.
    Replay,
    /// Resume its session first, and then replay it.
    ResumeSession(Box<SessionPosition>),
}

/// Login and state of a session after its completed events.
#[derive(Default)]
pub(crate) struct SessionPosition {
    pub(crate) database: std::sync::Arc<str>,
    pub(crate) user: std::sync::Arc<str>,
    pub(crate) application: std::sync::Arc<str>,
    /// Wire details of its `connect` event.
    pub(crate) particulars: Option<std::sync::Arc<workload::WireDetails>>,
    pub(crate) state: SessionState,
}

/// Decides for each event of a workload whether the previous run completed it.
pub(crate) struct SkipCompleted<'a> {
    previous: &'a PreviousRun,
    /// Open sessions whose events so far are all complete.
    positions: HashMap<u64, Box<SessionPosition>>,
}

impl<'a> SkipCompleted<'a> {
    pub(crate) fn new(previous: &'a PreviousRun) -> Self {
        SkipCompleted {
            previous,
            positions: HashMap::new(),
        }
    }

    /// Takes the next event of the workload.
    pub(crate) fn next_action(&mut self, event: &Event) -> ResumeAction {
        let previous = self.previous;
        if !previous.has_completed(event.session, event.sequence) {
            return match self.positions.remove(&event.session) {
                Some(left) => ResumeAction::ResumeSession(left),
                None => ResumeAction::Replay,
            };
        }
        match &event.kind {
            EventKind::Connect {
                database,
                user,
                application,
            } => {
                let left = SessionPosition {
                    database: database.clone(),
                    user: user.clone(),
                    application: application.clone(),
                    particulars: event.wire_details.clone(),
                    ..SessionPosition::default()
                };
                self.positions.insert(event.session, Box::new(left));
            }
            EventKind::Disconnect => {
                self.positions.remove(&event.session);
            }
            _ => {
                if let Some(left) = self.positions.get_mut(&event.session) {
                    left.state.follow(event);
                }
            }
        }
        ResumeAction::Skip
    }
}
