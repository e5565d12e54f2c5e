//! The index of the claim and its rivals, each replayed beside what is unchanged: a proof, as `rehearse prove`
//! makes it, on the case's own server.

use lab::queue::{COMPOSITE, Index, OBVIOUS, PARTIAL};
use study::proof::ProofSide;
use study::proof::{ProofReport, ProofSideReport};
use workload::WorkloadReader;

use super::super::proving::ProofWanted;
use super::super::stage::Stage;
use study::Failure;

/// Where it is kept.
pub const PROOF: &str = "indexes.proof";
/// The part of the workload that is replayed.
pub const PART: &str = "part.workload";
/// What is proved.
pub const RIVALS: [Index; 3] = [COMPOSITE, PARTIAL, OBVIOUS];
/// The proof, and who won.
pub struct Proved {
    pub view: ProofReport,
}

impl Proved {
    /// What came of an index.
    pub fn side(&self, index: &Index) -> Option<&ProofSideReport> {
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
    let part = stage.first_seconds(workload, PART, seconds)?;
    let mut sides = vec![ProofSide::default()];
    for index in RIVALS {
        let text = format!("{};\nANALYZE image_links;\n", index.sql);
        sides.push(stage.side_of_sql(index.on, format!("{}.sql", index.name), text)?);
    }
    let wanted = ProofWanted::by_processor_time(PROOF, sides, blocks);
    let (stage, view) = stage.prove(&part, &wanted)?;
    Ok((stage, Proved { view }))
}
