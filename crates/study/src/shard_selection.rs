//! Division of the sessions among workers, and the sessions of one of them.

use clock::monotonic_ns;
use replay::{
    Observer, Options, SHARD_BALANCE_MAX, ShardSelection, ShardSize, Snapshot, Target, WorkloadPass,
};
use run::ShardDivision;
use workload::WorkloadReader;

use crate::failure::Failure;
use crate::notes::note;
use crate::pass_note::PassNote;
use crate::shard_start::ShardRequest;

/// Most shards whose shares a note lists.
const SHARES_MAX: usize = 16;

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
    if let Some(text) = describe_imbalance(&sizes) {
        note(&text);
    }
    Ok((shard, sizes))
}

/// Describes a division in which one worker has many more statements than the mean. Returns `None` if the workers have about
/// as many.
fn describe_imbalance(sizes: &[ShardSize]) -> Option<String> {
    let all: u64 = sizes.iter().map(|size| size.statements).sum();
    let (largest, most) = (0..).zip(sizes).max_by_key(|(_, size)| size.statements)?;
    let share = most.statements as f64 / all.max(1) as f64;
    if share * sizes.len() as f64 <= SHARD_BALANCE_MAX {
        return None;
    }
    let shares: Vec<String> = (sizes.iter().take(SHARES_MAX))
        .map(|size| format!("{:.0} %", 100.0 * size.statements as f64 / all as f64))
        .collect();
    let more = match sizes.len() > SHARES_MAX {
        true => " …",
        false => "",
    };
    Some(format!(
        "The division is uneven: the shards have {}{more} of the statements, since sessions differ in length. The worker of shard {largest} has the most ({:.0} %), and may be the bottleneck; give fewer shards if it lags.",
        shares.join(", "),
        100.0 * share
    ))
}

/// Notes the passes over the workload that a division needs.
#[derive(Default)]
pub(crate) struct DivisionNotes(PassNote);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uneven_division_is_described_with_the_shares() {
        let describe = |statements: &[u64]| {
            let sizes = statements.iter().map(|statements| ShardSize {
                statements: *statements,
                ..ShardSize::default()
            });
            describe_imbalance(&sizes.collect::<Vec<_>>())
        };
        let text = describe(&[3_442, 17_707]).unwrap();
        assert!(text.contains("the shards have 16 %, 84 % of"), "{text}");
        assert!(text.contains("shard 1 has the most (84 %)"), "{text}");
        assert_eq!(describe(&[110, 90]), None);
        assert_eq!(describe(&[0]), None);
        assert_eq!(describe(&[]), None);
        let many = describe(&[[1_000].as_slice(), &[1; 40]].concat()).unwrap();
        assert!(many.contains("0 % … of the statements"), "{many}");
    }
}
