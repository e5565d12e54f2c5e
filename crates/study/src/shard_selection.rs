//! Division of the sessions among workers, and the sessions of one of them.

use clock::monotonic_ns;
use replay::{Observer, Options, ShardSelection, ShardSize, Snapshot, Target, WorkloadPass};
use run::ShardDivision;
use workload::WorkloadReader;

use crate::failure::Failure;
use crate::notes::note;
use crate::pass_note::PassNote;
use crate::shard_start::ShardRequest;

/// Divides the sessions, and selects those of this worker.
///
/// # Errors
/// If the sessions cannot be divided, or the workload cannot be read.
pub fn select_shard(
    request: &ShardRequest,
    reader: &WorkloadReader,
    target: &Target,
    engine: &Options,
) -> Result<(ShardSelection, Vec<ShardSize>), Failure> {
    let (number, count) = (request.number, request.count);
    let mut notes = DivisionNotes::default();
    let shard = replay::select_shard(number, count, reader, (target, engine), &mut notes)?;
    let sizes = replay::shard_sizes(&shard, reader, engine)?;
    let own = &sizes[usize::try_from(number).unwrap_or(usize::MAX)];
    let by = match shard.division() {
        ShardDivision::Sessions => "by a hash of their numbers".to_owned(),
        ShardDivision::Dependencies { groups, .. } => {
            format!("in {groups} groups that do not depend on each other")
        }
    };
    note(&format!(
        "Shard {number} of {count} (numbered from 0) has {} of {} sessions and {} of {} statements; sessions are divided {by}.",
        own.sessions,
        sizes.iter().map(|size| size.sessions).sum::<u64>(),
        own.statements,
        sizes.iter().map(|size| size.statements).sum::<u64>(),
    ));
    Ok((shard, sizes))
}

/// Notes the passes over the workload that a division needs.
#[derive(Default)]
struct DivisionNotes(PassNote);

impl Observer for DivisionNotes {
    fn on_workload_pass(&mut self, pass: WorkloadPass, read: u64, all: u64) {
        if let Some(text) = self.0.progress(pass, read, all, monotonic_ns()) {
            note(&text);
        }
    }

    fn on_progress(&mut self, _snapshot: &Snapshot) {}

    fn should_stop(&mut self) -> bool {
        false
    }
}
