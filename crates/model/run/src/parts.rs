//! Opens the parts of a run that several workers wrote, and combines their manifests.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use archive::{Archive, ArchiveError, find_small_file, unfinished_body};

use crate::execution::{Outcome, SkipReason, StatementKind};
use crate::format::{FORMAT, KIND, RunInfo, RunStatus, TargetInfo};
use crate::merge::archive_executions;
use crate::shards::{
    DIVISION_OPTION, INCOMPLETE_SHARDS_OPTION, PartState, SHARD_OPTION, SHARDS_BYTES_MAX,
    SHARDS_FILE, SHARDS_FORMAT, ShardAccount, ShardPlan, ShardState, WORKER_OPTION, part_path,
    resumed_part_path,
};
use crate::tool_stall::merge_stalls;

/// Options of parts that count something, and are added up. The others are equal in all parts, or of one worker.
const COUNTED_OPTIONS: [&str; 15] = [
    "connections_tried_again",
    "connections_handed_over",
    "restore_errors",
    "cancels_failed",
    "cancels_repeated",
    "transactions_aborted",
    "types_unspecified",
    "types_unknown",
    "waits_for_dependencies",
    "let_go_before_dependencies",
    "deadlock_victims",
    "invalid_traceparents",
    "learnt",
    "remapped",
    "generated_unknown",
];

/// A part, or its state if it cannot be read.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Readable(Box<(Archive, RunInfo)>),
    Unreadable(PartState),
}

impl Part {
    fn state(&self) -> PartState {
        match self {
            Part::Unreadable(state) => *state,
            Part::Readable(part) => match part.1.status {
                RunStatus::Complete => PartState::Complete,
                RunStatus::Stopped => PartState::Stopped,
                RunStatus::Recovered | RunStatus::Incomplete => PartState::Recovered,
            },
        }
    }

    fn statements(&self) -> u64 {
        match self {
            Part::Unreadable(_) => 0,
            Part::Readable(part) => {
                let stopped = part.1.skipped.get(SkipReason::Stopped.name());
                part.1.statements - stopped.copied().unwrap_or(0)
            }
        }
    }
}

/// A run of parts.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) plan: ShardPlan,
    /// Parts by the number of their shard.
    pub(crate) parts: Vec<Part>,
}

/// Reads the description of a run of parts; `None` if the directory has none.
///
/// # Errors
/// If it cannot be read, or is of a newer version.
pub fn read_shard_plan(run: &Path) -> Result<Option<ShardPlan>, ArchiveError> {
    let path = run.join(SHARDS_FILE);
    let Some(content) = find_small_file(&path, SHARDS_BYTES_MAX)? else {
        return Ok(None);
    };
    let damaged = |reason: String| ArchiveError::Damaged {
        path: path.clone(),
        reason,
    };
    let document: serde_json::Value =
        serde_json::from_slice(&content).map_err(|error| damaged(error.to_string()))?;
    let format = document["format"].as_u64().unwrap_or(0);
    if format > u64::from(SHARDS_FORMAT) {
        return Err(ArchiveError::Newer {
            path: run.to_owned(),
            found: u32::try_from(format).unwrap_or(u32::MAX),
            known: SHARDS_FORMAT,
        });
    }
    let plan: ShardPlan =
        serde_json::from_value(document).map_err(|error| damaged(error.to_string()))?;
    match plan.shards.is_empty() {
        false => Ok(Some(plan)),
        true => Err(damaged("it lists no shard".to_owned())),
    }
}

/// Returns the path of the last part of a shard that can be read; `None` if there is none.
///
/// # Errors
/// If a part is damaged, or the store cannot be asked.
pub fn find_last_part(run: &Path, number: u64) -> Result<Option<PathBuf>, ArchiveError> {
    Ok(match find_part(run, number)? {
        Part::Readable(part) => Some(part.0.path().to_owned()),
        Part::Unreadable(_) => None,
    })
}

/// Returns the name of the worker that wrote a part on this machine, complete or not; `None` if it is no part.
///
/// # Errors
/// If it cannot be read, or is still being written.
pub fn find_worker(path: &Path) -> Result<Option<String>, ArchiveError> {
    let body = match path.extension().is_some_and(|name| name == "partial") {
        true => unfinished_body(path, KIND)?,
        false => Archive::open(path, KIND, FORMAT)?.body()?,
    };
    let worker = body["options"][WORKER_OPTION].as_str();
    Ok(worker.map(str::to_owned))
}

/// Returns the first path of a shard's part that is not taken.
///
/// # Errors
/// If the store cannot be asked.
pub fn next_part_path(run: &Path, number: u64) -> Result<PathBuf, ArchiveError> {
    let resumed = (1..).map(|attempt| resumed_part_path(run, number, attempt));
    for path in std::iter::once(part_path(run, number)).chain(resumed) {
        if !archive::is_name_taken(&path)? {
            return Ok(path);
        }
    }
    unreachable!("names are numbered without end")
}

fn find_part(run: &Path, number: u64) -> Result<Part, ArchiveError> {
    let mut found = open_part(&part_path(run, number))?;
    for attempt in 1.. {
        if found.state() == PartState::Complete {
            break;
        }
        match open_part(&resumed_part_path(run, number, attempt))? {
            Part::Unreadable(PartState::Missing) => break,
            // What is there of the earlier one is more than nothing.
            Part::Unreadable(_) if matches!(found, Part::Readable(_)) => break,
            resumed => found = resumed,
        }
    }
    Ok(found)
}

fn open_part(path: &Path) -> Result<Part, ArchiveError> {
    let archive = match Archive::open(path, KIND, FORMAT) {
        Ok(archive) => archive,
        Err(ArchiveError::NotFound { .. }) => return Ok(Part::Unreadable(PartState::Missing)),
        Err(ArchiveError::Unfinished(unfinished)) => {
            return Ok(Part::Unreadable(match unfinished.being_written {
                true => PartState::BeingWritten,
                false => PartState::Unfinished,
            }));
        }
        Err(error) => return Err(error),
    };
    let info = archive.body()?;
    Ok(Part::Readable(Box::new((archive, info))))
}

impl Parts {
    /// Opens the parts of a run; `None` if it has no description of shards.
    ///
    /// # Errors
    /// If the description or a part is damaged, or a part is of another replay.
    pub(crate) fn open(run: &Path) -> Result<Option<Self>, ArchiveError> {
        let Some(plan) = read_shard_plan(run)? else {
            return Ok(None);
        };
        let count = plan.shards.len();
        let mut parts = Vec::new();
        for number in 0..count {
            let part = find_part(run, number as u64)?;
            if let Part::Readable(part) = &part {
                let shard = part.1.options.get(SHARD_OPTION);
                let expected = format!("{number}/{count}");
                let worker = part.1.options.get(WORKER_OPTION);
                let is_other = worker.is_some_and(|worker| *worker != plan.shards[number].worker);
                if part.1.workload.id != plan.workload.id || shard != Some(&expected) || is_other {
                    return Err(ArchiveError::Damaged {
                        path: part.0.path().to_owned(),
                        reason: format!("it is not shard {expected} of this replay"),
                    });
                }
            }
            parts.push(part);
        }
        Ok(Some(Parts { plan, parts }))
    }

    pub(crate) fn readable(&self) -> impl Iterator<Item = &(Archive, RunInfo)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Readable(part) => Some(&**part),
            Part::Unreadable(_) => None,
        })
    }

    /// Combines the manifests. The counts are those of the parts that can be read.
    pub(crate) fn info(&self, account: &ShardAccount) -> RunInfo {
        let mut infos = self.readable().map(|(_, info)| info);
        let mut all = match infos.next() {
            Some(first) => first.clone(),
            None => {
                let (target, start_us) = (TargetInfo::default(), self.plan.start_us);
                RunInfo::observation(target, BTreeMap::new(), start_us)
            }
        };
        for info in infos {
            add(&mut all, info);
        }
        all.status = RunStatus::Complete;
        if let Some(incomplete) = account.describe_incomplete() {
            all.status = RunStatus::Incomplete;
            all.options
                .insert(INCOMPLETE_SHARDS_OPTION.to_owned(), incomplete);
        }
        all.workload = self.plan.workload.clone();
        // The machines of the workers have clocks of their own.
        all.started_wall_us = self.plan.start_us;
        for name in ["resumed", WORKER_OPTION] {
            all.options.remove(name);
        }
        all.options.insert(
            SHARD_OPTION.to_owned(),
            format!("all {}", self.plan.shards.len()),
        );
        all.options.insert(
            DIVISION_OPTION.to_owned(),
            self.plan.division.name().to_owned(),
        );
        all
    }

    /// Returns the state of each shard, with the sessions that its part lacks.
    ///
    /// # Errors
    /// If an incomplete part cannot be read.
    pub(crate) fn account(&self) -> Result<ShardAccount, ArchiveError> {
        let mut shards = Vec::new();
        for (number, (shard, part)) in self.plan.shards.iter().zip(&self.parts).enumerate() {
            let state = part.state();
            let mut ended = HashSet::new();
            if let Part::Readable(part) = part
                && state != PartState::Complete
            {
                ended = ended_sessions(&part.0)?;
            }
            let is_incomplete =
                |session: &&u64| state != PartState::Complete && !ended.contains(*session);
            shards.push(ShardState {
                number: number as u64,
                state,
                sessions: shard.sessions,
                statements: shard.statements,
                missing_statements: shard.statements.saturating_sub(part.statements()),
                incomplete_sessions: match state {
                    PartState::Complete => 0,
                    _ => shard.sessions.saturating_sub(ended.len() as u64),
                },
                first_incomplete_sessions: (shard.first_sessions.iter())
                    .filter(is_incomplete)
                    .copied()
                    .collect(),
            });
        }
        let uncertainties = self.plan.shards.iter().map(|one| one.clock_uncertainty_us);
        Ok(ShardAccount {
            division: self.plan.division,
            start_us: self.plan.start_us,
            clock_uncertainty_max_us: uncertainties.fold(0.0, f64::max),
            shards,
        })
    }
}

/// Returns the sessions whose end was replayed.
fn ended_sessions(part: &Archive) -> Result<HashSet<u64>, ArchiveError> {
    let mut ended = HashSet::new();
    for execution in archive_executions(part)? {
        let execution = execution?;
        if execution.kind == StatementKind::Disconnect
            && execution.outcome != Outcome::Skipped(SkipReason::Stopped)
        {
            ended.insert(execution.session);
        }
    }
    Ok(ended)
}

/// Adds the manifest of a further part.
fn add(all: &mut RunInfo, part: &RunInfo) {
    all.elapsed_ns = all.elapsed_ns.max(part.elapsed_ns);
    all.span_due_ns = all.span_due_ns.max(part.span_due_ns);
    all.span_sent_ns = all.span_sent_ns.max(part.span_sent_ns);
    all.statements += part.statements;
    all.done += part.done;
    all.connections_reopened += part.connections_reopened;
    for (counts, more) in [
        (&mut all.failed, &part.failed),
        (&mut all.skipped, &part.skipped),
        (&mut all.connections_failed, &part.connections_failed),
        (&mut all.connections_lost, &part.connections_lost),
    ] {
        for (name, count) in more {
            *counts.entry(name.clone()).or_default() += count;
        }
    }
    for name in COUNTED_OPTIONS {
        let number = |info: &RunInfo| info.options.get(name)?.parse::<u64>().ok();
        let sum = match (number(all), number(part)) {
            (None, None) => continue,
            (one, other) => one.unwrap_or(0) + other.unwrap_or(0),
        };
        all.options.insert(name.to_owned(), sum.to_string());
    }
    if all.given_up.is_none() {
        all.given_up = part.given_up.clone();
    }
    all.tool_stalls = merge_stalls([&all.tool_stalls[..], &part.tool_stalls[..]]);
    // The machine with the most other load counts, since its measurements are the least reliable.
    let load = |info: &RunInfo| {
        let machine = info.machine?;
        Some(machine.others.unwrap_or(machine.stolen))
    };
    if load(part) > load(all) {
        all.machine = part.machine;
    }
}
