//! Resumes one shard of a replay that was divided among several workers.

use std::path::{Path, PathBuf};

use replay::ShardSize;
use run::{ShardPlan, next_part_path, part_path, resumed_part_path};

use crate::failure::Failure;
use crate::notes::note;
use crate::shard_start::ShardRequest;

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
    let mut previous = run::find_last_part(run, number)?;
    if let Some(recovered) = find_local_part(run, number)? {
        previous = Some(recovered);
    }
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

/// Returns the last part of a shard on this machine; `None` if there is none. One of a worker that was killed is recovered.
fn find_local_part(run: &Path, number: u64) -> Result<Option<PathBuf>, Failure> {
    let resumed = (1..).map(|attempt| resumed_part_path(run, number, attempt));
    let mut recovered = None;
    for path in std::iter::once(part_path(run, number)).chain(resumed) {
        let partial = archive::partial_path(&path);
        if partial.exists() {
            let (path, info) = run::recover(&partial)?;
            note(&format!(
                "{} was of a worker that was killed: {} of its statements are recovered. Later statements are sent again.",
                partial.display(),
                info.statements
            ));
            recovered = Some(path);
            continue;
        }
        // A part for an object store stays on this machine when it was recovered, and is not uploaded.
        let local = partial.with_extension("");
        if local.exists() {
            recovered = Some(local);
        } else if !archive::is_name_taken(&path)? {
            break;
        }
    }
    Ok(recovered)
}
