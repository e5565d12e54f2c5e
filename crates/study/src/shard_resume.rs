//! Resumes one shard of a replay that was divided among several workers.

use std::path::{Path, PathBuf};

use replay::ShardSize;
use run::{ShardPlan, next_part_path, part_path, resumed_part_path};

use crate::failure::Failure;
use crate::notes::note;
use crate::shard_start::ShardRequest;

/// Most attempts to replay one shard.
const ATTEMPTS_MAX: u32 = 10_000;

/// Part to resume, and the part that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumedPart {
    /// The last part of the shard; `None` if nothing is there.
    pub previous: Option<PathBuf>,
    /// Path of the new part.
    pub output: PathBuf,
    /// Name of the worker that began the shard.
    pub worker: String,
}

/// Finds what is there of a shard. A part of a worker that was killed is recovered first.
///
/// # Errors
/// If the replay never started, was divided otherwise, is still being written, or a part is damaged.
pub fn find_resumed_part(
    request: &ShardRequest,
    sizes: &[ShardSize],
) -> Result<ResumedPart, Failure> {
    let (run, number) = (&request.run, request.number);
    let Some(plan) = run::read_shard_plan(run)? else {
        return Err(Failure::usage(format!(
            "{} has no shards.json: its replay never started; start all workers without --resume",
            run.display()
        )));
    };
    refuse_other_division(request, &plan, sizes)?;
    let worker = usize::try_from(number)
        .ok()
        .and_then(|at| plan.shards.get(at))
        .map(|shard| shard.worker.clone())
        .unwrap_or_default();
    settle_local_parts(run, number, &worker)?;
    let previous = run::find_last_part(run, number)?;
    if previous.is_none() {
        note(&format!(
            "Nothing of shard {number} is there: all of its statements are sent, also those that a lost worker has sent before."
        ));
    }
    Ok(ResumedPart {
        previous,
        output: next_part_path(run, number)?,
        worker,
    })
}

fn refuse_other_division(
    request: &ShardRequest,
    plan: &ShardPlan,
    sizes: &[ShardSize],
) -> Result<(), Failure> {
    let count = plan.shards.len();
    if count as u64 != request.count {
        return Err(Failure::usage(format!(
            "{} has {count} shards; give --shard {}/{count}",
            request.run.display(),
            request.number
        )));
    }
    let planned = plan.shards.iter().map(|shard| shard.statements);
    match planned.eq(sizes.iter().map(|size| size.statements)) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} was divided otherwise; give the same workload, target and options",
            request.run.display()
        ))),
    }
}

/// Returns the path of a shard's part: attempt 0 is the first one, the others are resumed.
fn path_of(run: &Path, number: u64, attempt: u32) -> PathBuf {
    match attempt {
        0 => part_path(run, number),
        attempt => resumed_part_path(run, number, attempt),
    }
}

/// Recovers what a killed worker has left of a shard on this machine, and uploads it if the run is in an object store.
///
/// # Errors
/// If it is of another replay, is still being written, is damaged, or cannot be uploaded.
fn settle_local_parts(run: &Path, number: u64, worker: &str) -> Result<(), Failure> {
    for attempt in 0..ATTEMPTS_MAX {
        let path = path_of(run, number, attempt);
        let partial = archive::partial_path(&path);
        if partial.exists() {
            refuse_other_replay(&partial, run, worker)?;
            let (_, info) = run::recover(&partial)?;
            note(&format!(
                "{} was of a worker that was killed: {} of its statements are recovered. Later statements are sent again.",
                partial.display(),
                info.statements
            ));
        }
        let Some(local) = archive::find_not_uploaded(&path) else {
            match archive::archive_exists(&path)? {
                true => continue,
                false => break,
            }
        };
        refuse_other_replay(&local, run, worker)?;
        match archive::archive_exists(&path)? {
            false => archive::upload(&path)?,
            true => note(&format!(
                "{} is not used, since another machine has replayed the shard since; it can be removed.",
                local.display()
            )),
        }
    }
    Ok(())
}

/// Refuses a part of another replay whose run has the same name.
fn refuse_other_replay(local: &Path, run: &Path, worker: &str) -> Result<(), Failure> {
    let reason = match run::find_worker(local)?.as_deref() {
        Some(found) if found == worker => return Ok(()),
        Some(_) => format!("is of another replay than {}", run.display()),
        None => "is not of a worker of a replay on several machines".to_owned(),
    };
    Err(Failure::usage(format!(
        "{} {reason}; move it away, or set REHEARSE_STAGING to another directory",
        local.display()
    )))
}
