//! Run of a replay: created with what is known before the start, and completed with what is known after the end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clock::Clock;
use run::{ArchiveError, RunInfo, RunStatus, RunWriter, TargetInfo, WorkloadRef};
use workload::WorkloadReader;

use super::Replay;
use crate::dispatcher::DispatchSummary;
use crate::error::ReplayError;
use crate::options::{Options, SendOrder};
use crate::paused_clock::PausedClock;
use crate::progress::Observer;

/// Creates a run with the statements and contexts of a workload, and what the observer knows before the start.
pub(super) fn create_run(
    path: &Path,
    reader: &WorkloadReader,
    info: &RunInfo,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<RunWriter, ReplayError> {
    let statements = reader.statements()?;
    let mut writer = match (options.follow.is_some(), options.encrypts_run) {
        (true, _) => RunWriter::create_growing(path, info, statements)?,
        (false, false) => RunWriter::create(path, info, statements)?,
        (false, true) => RunWriter::create_for(path, info, statements, &reader.recipients())?,
    };
    writer.contexts(reader.contexts()?)?;
    observer.before_start(&mut writer)?;
    Ok(writer)
}

/// Creates the manifest of a run that begins.
pub(super) fn initial_info(
    reader: &WorkloadReader,
    target_info: TargetInfo,
    options: &Options,
    statements: u64,
    now_wall_us: i64,
) -> RunInfo {
    let name = reader.path().display().to_string();
    let mut info = RunInfo {
        workload: WorkloadRef {
            name: options.workload_name.clone().unwrap_or(name),
            id: match &options.follow {
                None => reader.id().to_owned(),
                Some(follow) => follow.uuid.clone(),
            },
            statements,
            sources: source_names(reader),
            failures_named: reader.info().provenance.source_kind == "log",
        },
        ..RunInfo::observation(target_info, options.to_manifest(), now_wall_us)
    };
    if let Some(previous) = &options.previous_run {
        info.started_wall_us = previous.info().started_wall_us;
        info.options.insert("resumed".to_owned(), previous.name());
    }
    info
}

/// Copies the executions and lost connections of the run to resume. Returns the clock that is paused until they are skipped; `None`
/// without such a run.
pub(super) fn copy_previous_run(
    options: &Options,
    writer: &mut RunWriter,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<PausedClock>>, ArchiveError> {
    let Some(previous) = &options.previous_run else {
        return Ok(None);
    };
    for lost in previous.lost_connections()? {
        writer.lost_connection(&lost?)?;
    }
    for row in previous.rows()? {
        writer.execution(&row?)?;
    }
    for columns in previous.result_columns()? {
        writer.result_columns(&columns?)?;
    }
    for value in previous.generated_values()? {
        writer.generated_value(&value?)?;
    }
    writer.flush()?;
    Ok(Some(Arc::new(PausedClock::new(clock.clone()))))
}

/// Returns the workload's sources, as the user named them.
fn source_names(reader: &WorkloadReader) -> Vec<String> {
    let sources = reader.info().provenance.sources.iter();
    sources.map(|source| source.name.clone()).collect()
}

impl Replay<'_> {
    /// Completes the manifest after the end of the threads.
    pub(super) fn complete_info(&self, info: &mut RunInfo, summary: DispatchSummary) {
        if self.stop.load(Ordering::Relaxed) {
            info.status = RunStatus::Stopped;
        }
        if self.options.load_source.is_some() || self.options.follow.is_some() {
            info.workload.statements = summary.statements;
        }
        info.options.extend(summary.manifest_notes);
        self.events.write_to(info);
        if let Some(values) = &self.values {
            for (name, unknown) in [
                ("keys_unknown", &values.keys.unknown),
                (
                    "generated_columns_unknown",
                    &values.generated_columns_unknown,
                ),
            ] {
                if !unknown.is_empty() {
                    info.options.insert(name.to_owned(), unknown.join("; "));
                }
            }
        }
        let inferred = self
            .values
            .as_ref()
            .and_then(|values| values.inferred.as_ref());
        if let Some(inferred) = inferred {
            let counts = inferred.counts();
            for (name, count) in [
                ("generated_inferred", counts.inferred),
                ("generated_by_order", counts.by_order),
                ("generated_ambiguous", counts.ambiguous),
            ] {
                info.options.insert(name.to_owned(), count.to_string());
            }
        }
        if let Some(order) = &self.order {
            let (waits, released) = order.counts();
            let of = match self.options.order {
                SendOrder::Global => "turn",
                SendOrder::Dependencies => "dependencies",
                SendOrder::Commit | SendOrder::Session => "commits",
            };
            for (name, count) in [("waits_for", waits), ("let_go_before", released)] {
                let value = count.to_string();
                info.options.insert(format!("{name}_{of}"), value);
            }
        }
    }
}
