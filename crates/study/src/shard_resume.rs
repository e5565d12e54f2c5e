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
    let stored = run::find_last_part(run, number)?;
    let attempt = stored
        .as_deref()
        .and_then(|path| attempt_of(run, number, path));
    let previous = match find_local_part(run, number)? {
        // What an earlier attempt has left on this machine lacks what a later one has sent.
        Some((local_attempt, local)) if attempt.is_none_or(|attempt| attempt < local_attempt) => {
            Some(local)
        }
        _ => stored,
    };
    if previous.is_none() {
        note(&format!(
            "Nothing of shard {number} is there: all of its statements are sent, also those that a lost worker has sent before."
        ));
    }
    Ok(ResumedPart {
        previous,
        output: next_part_path(run, number)?,
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

/// Returns the attempt that wrote a part; `None` if the path is not that of a part.
fn attempt_of(run: &Path, number: u64, path: &Path) -> Option<u32> {
    (0..ATTEMPTS_MAX).find(|attempt| path_of(run, number, *attempt) == path)
}

/// Returns the last part of a shard on this machine with its attempt; `None` if there is none. One of a worker that was
/// killed is recovered.
fn find_local_part(run: &Path, number: u64) -> Result<Option<(u32, PathBuf)>, Failure> {
    let mut recovered = None;
    for attempt in 0..ATTEMPTS_MAX {
        let path = path_of(run, number, attempt);
        let partial = archive::partial_path(&path);
        if partial.exists() {
            let (path, info) = run::recover(&partial)?;
            note(&format!(
                "{} was of a worker that was killed: {} of its statements are recovered. Later statements are sent again.",
                partial.display(),
                info.statements
            ));
            recovered = Some((attempt, path));
            continue;
        }
        // A part for an object store stays on this machine when it was recovered, and is not uploaded.
        let local = partial.with_extension("");
        if local.exists() {
            recovered = Some((attempt, local));
        } else if !archive::is_name_taken(&path)? {
            break;
        }
    }
    Ok(recovered)
}
