//! The index of the claim and its rivals, each replayed beside what is unchanged: a proof, as `rehearse prove`
//! makes it, on the case's own server.

use std::time::Duration;

use analyse::proof::Goal;
use clock::Speed;
use experiment::proof::{Change, ProofSide};
use lab::queue::{COMPOSITE, Index, OBVIOUS, PARTIAL};
use replay::Options;
use report::{ProofSideView, ProofView};
use workload::WorkloadReader;

use super::super::stage::{ProofWanted, Stage};
use crate::commands::slice;
use crate::ending::Failure;
use crate::options::slice::SliceArgs;

/// Where it is kept.
pub const PROOF: &str = "indexes.proof";
/// The part of the workload that is replayed.
pub const PART: &str = "part.workload";
/// What is proved.
pub const RIVALS: [Index; 3] = [COMPOSITE, PARTIAL, OBVIOUS];
/// The server's processor time: the steadiest where a machine is shared.
const GOAL: Goal = Goal::Cpu;
const MARGIN: f64 = 0.05;
/// Blocks end it, and not the time.
const WITHIN: Duration = Duration::from_secs(24 * 3_600);

/// The proof, and who won.
pub struct Proved {
    pub view: ProofView,
}

impl Proved {
    /// What came of an index.
    pub fn side(&self, index: &Index) -> Option<&ProofSideView> {
        self.view.sides.iter().find(|side| side.name == index.on)
    }

    /// The goal with the index, as a share of what it is without.
    pub fn ratio(&self, index: &Index) -> Option<f64> {
        Some(self.side(index)?.effect?.ratio)
    }
}

/// Replays the first `seconds` of the workload with each index and without any, in `blocks` blocks at most.
pub fn prove_indexes(
    stage: Stage,
    workload: &WorkloadReader,
    seconds: u32,
    blocks: u32,
) -> Result<(Stage, Proved), Failure> {
    let part = first(&stage, workload, seconds)?;
    let mut sides = vec![ProofSide::default()];
    for index in RIVALS {
        let path = format!("{}.sql", index.name);
        let text = format!("{};\nANALYZE image_links;\n", index.sql);
        let file = stage.directory.join(&path);
        std::fs::write(&file, &text)
            .map_err(|error| Failure::could_not(format!("{}: {error}", file.display())))?;
        sides.push(ProofSide {
            name: index.on.to_owned(),
            changes: vec![Change::Sql { path, text }],
        });
    }
    let wanted = ProofWanted {
        name: PROOF,
        sides,
        goal: GOAL,
        margin: MARGIN,
        options: Options {
            speed: Speed::Max,
            ..Options::default()
        },
        within: WITHIN,
        blocks,
        noise_runs: 1,
    };
    let (stage, view) = stage.prove(&part, &wanted)?;
    Ok((stage, Proved { view }))
}

/// The first seconds of the workload.
fn first(
    stage: &Stage,
    workload: &WorkloadReader,
    seconds: u32,
) -> Result<WorkloadReader, Failure> {
    let until = workload::rewrite::Moment::parse(&format!("+{seconds}s"));
    let wanted = SliceArgs {
        to: Some(until.map_err(Failure::could_not)?),
        ..SliceArgs::default()
    };
    let path = stage.directory.join(PART);
    if let Some(cut) = wanted.slice()? {
        slice::cut(
            workload,
            cut,
            wanted.given(),
            (&path, &[]),
            &stage.interrupt,
        )?;
    }
    Ok(WorkloadReader::open(&path)?)
}
