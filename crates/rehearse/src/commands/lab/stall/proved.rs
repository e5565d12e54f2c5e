//! The replay without the index is diagnosed without being told anything, and proved are the change (the index is
//! dropped) and the change with what the diagnosis suggests.

use std::path::Path;

use diagnose::{Diagnosis, Finding, Form, Thresholds, diagnose};
use lab::stall;
use run::RunReader;
use study::proof::ProofSide;
use study::proof::{ProofReport, ProofSideReport};
use workload::WorkloadReader;

use super::super::proving::ProofWanted;
use super::super::stage::Stage;
use study::Failure;
use study::diagnosis_inputs;

/// Where it is kept.
const PROOF: &str = "index.proof";
pub const REPORT: &str = "index.proof/report.html";
/// The part of the workload that is replayed.
pub const PART: &str = "part.workload";
/// The changes.
pub const DROPPED: &str = "dropped.sql";
pub const MENDED: &str = "mended.sql";

/// What came of it.
pub struct Proved {
    pub diagnosis: Diagnosis,
    /// What the diagnosis suggests first.
    pub suggested: Option<String>,
    pub view: ProofReport,
}

impl Proved {
    pub fn first(&self) -> Option<&Finding> {
        self.diagnosis.findings.first()
    }

    /// What came of dropping the index.
    pub fn dropped(&self) -> Option<&ProofSideReport> {
        self.view.sides.first()
    }

    /// What came of dropping it and making what is suggested.
    pub fn mended(&self) -> Option<&ProofSideReport> {
        self.view.sides.get(1)
    }
}

/// Diagnoses `run`, and proves on the first `seconds` of the workload, in `blocks` blocks.
pub fn prove(
    stage: Stage,
    run: &Path,
    workload: &WorkloadReader,
    (seconds, blocks): (u32, u32),
) -> Result<(Stage, Proved), Failure> {
    let evidence = diagnosis_inputs::read_run_evidence(
        &RunReader::open(run)?,
        diagnosis_inputs::QueriedFacts::default(),
    )?;
    let diagnosis = diagnose(&evidence, &Thresholds::default());
    let suggested = diagnosis
        .findings
        .first()
        .and_then(|one| one.changes.first())
        .and_then(|change| match &change.form {
            Form::Sql(sql) => Some(sql.clone()),
            _ => None,
        });
    let part = stage.first_seconds(workload, PART, seconds)?;
    let drop = format!("DROP INDEX {};\n", stall::INDEX);
    let mend = format!("{drop}{}\n", suggested.clone().unwrap_or_default());
    let sides = vec![
        ProofSide::default(),
        stage.side_of_sql(DROPPED, DROPPED.to_owned(), drop)?,
        stage.side_of_sql(MENDED, MENDED.to_owned(), mend)?,
    ];
    let wanted = ProofWanted::by_processor_time(PROOF, sides, blocks);
    let (stage, view) = stage.prove(&part, &wanted)?;
    Ok((
        stage,
        Proved {
            diagnosis,
            suggested,
            view,
        },
    ))
}
