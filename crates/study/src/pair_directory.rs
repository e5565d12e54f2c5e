//! The directory of replays in pairs: which pairs it has, and what an interruption left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use run::{PAIR_OPTION, PAIR_SEED_OPTION, PAIR_SIDE_OPTION, RunReader, RunStatus};
use workload::WorkloadReader;

use crate::failure::Failure;
use crate::notes::note;

/// Names of the sides.
pub(crate) const SIDES: [&str; 2] = ["before", "after"];

/// Returns the path of a run.
pub(crate) fn run_path(directory: &Path, side: usize, pair: u32) -> PathBuf {
    directory.join(format!("{}-{pair}.run", SIDES[side]))
}

/// Pairs that were completed before an interruption.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CompletedPairs {
    /// Their numbers.
    pub(crate) pairs: Vec<u32>,
    /// Seed of the order.
    pub(crate) seed: Option<u64>,
}

impl CompletedPairs {
    /// Reads the directory. Of a pair that is not complete both runs are removed, since both sides must be replayed one
    /// directly after the other.
    ///
    /// # Errors
    /// If it is no directory, its runs are of another workload or other options, or a file cannot be removed.
    pub(crate) fn read(
        directory: &Path,
        reader: &WorkloadReader,
        options: &BTreeMap<String, String>,
        pairs: u32,
    ) -> Result<Self, Failure> {
        if !directory.is_dir() {
            return Err(Failure::usage(format!(
                "cannot continue in {}: it is no directory; give the -o of the replays that were stopped, or leave --continue out",
                directory.display()
            )));
        }
        let mut found = CompletedPairs::default();
        for pair in 1..=pairs {
            let mut complete = 0;
            for side in 0..SIDES.len() {
                let path = run_path(directory, side, pair);
                if !path.exists() {
                    continue;
                }
                let run = RunReader::open(&path)?;
                refuse_other_replay(&run, reader, options)?;
                if run.info().status == RunStatus::Complete {
                    complete += 1;
                    let seed = run.info().options.get(PAIR_SEED_OPTION);
                    found.seed = seed.and_then(|seed| seed.parse().ok());
                }
            }
            match complete == SIDES.len() {
                true => found.pairs.push(pair),
                false => remove_leftovers(directory, pair)?,
            }
        }
        Ok(found)
    }
}

/// Refuses a run of another workload, or with other options.
fn refuse_other_replay(
    run: &RunReader,
    reader: &WorkloadReader,
    options: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let path = run.path().display();
    if run.info().workload.id != reader.id() {
        return Err(Failure::usage(format!(
            "cannot continue: {path} is of the workload {}; give that workload, or another -o",
            run.info().workload.name
        )));
    }
    let is_own = |name: &&String| {
        ![PAIR_OPTION, PAIR_SIDE_OPTION, PAIR_SEED_OPTION].contains(&name.as_str())
    };
    let done = &run.info().options;
    let names = done.keys().chain(options.keys()).filter(is_own);
    let differing = names
        .into_iter()
        .find(|name| done.get(*name) != options.get(*name));
    match differing {
        None => Ok(()),
        Some(name) => Err(Failure::usage(format!(
            "cannot continue: {path} was replayed with other options ({name}); give the same options, or another -o"
        ))),
    }
}

/// Removes what an interrupted pair left.
fn remove_leftovers(directory: &Path, pair: u32) -> Result<(), Failure> {
    for side in 0..SIDES.len() {
        let run = run_path(directory, side, pair);
        let partial = PathBuf::from(format!("{}.partial", run.display()));
        for path in [run, partial].iter().filter(|path| path.exists()) {
            std::fs::remove_dir_all(path).map_err(|error| {
                Failure::could_not(format!("cannot remove {}: {error}", path.display()))
            })?;
            note(&format!(
                "Removed {}, of a pair that was interrupted.",
                path.display()
            ));
        }
    }
    Ok(())
}
