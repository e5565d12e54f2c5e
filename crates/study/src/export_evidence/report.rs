//! List of the contents of an evidence archive.

use schemars::JsonSchema;
use serde::Serialize;

/// `evidence.json` of a bundle, and `rehearse export-evidence --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EvidenceReport {
    /// `rehearse/evidence/1`
    pub schema: &'static str,
    /// Version of the program that created it.
    pub program: String,
    /// Name of the run, as it was given.
    pub run: String,
    /// Identifier of the run; equal for equal content.
    pub run_id: String,
    /// Name of the workload.
    pub workload: String,
    /// Identifier of the workload; empty if nothing was replayed.
    pub workload_id: String,
    /// Number of artefacts in the bundle.
    pub got: usize,
    /// Number of missing artefacts.
    pub missing: usize,
    /// Evidence that is deliberately left out, and how to obtain it.
    pub left_out: Vec<String>,
    /// All artefacts, by name.
    pub artefacts: Vec<EvidenceArtefact>,
}

/// Artefact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EvidenceArtefact {
    /// Name: `machine/kernel`.
    pub name: String,
    /// Time of collection: `before` the first statement, `after` the last, or `run` for the whole
    /// run.
    pub moment: &'static str,
    /// Method of collection, so that it can be repeated.
    pub how: String,
    /// Its file in the bundle; `null` if it is missing.
    pub file: Option<String>,
    /// Its size in bytes; `null` if it is missing.
    pub bytes: Option<u64>,
    /// Its SHA-256 checksum in hexadecimal digits; `null` if it is missing.
    pub sha256: Option<String>,
    /// Reason why it is missing; `null` if it is not.
    pub missing: Option<String>,
}

impl EvidenceReport {
    /// Creates the view of a list of artefacts.
    pub fn new(
        name: &str,
        program: &str,
        run: &run::RunReader,
        left_out: Vec<String>,
        mut artefacts: Vec<EvidenceArtefact>,
    ) -> Self {
        artefacts.sort_by(|a, b| (&a.name, b.moment).cmp(&(&b.name, a.moment)));
        let got = artefacts.iter().filter(|one| one.file.is_some()).count();
        EvidenceReport {
            schema: "rehearse/evidence/1",
            program: program.to_owned(),
            run: name.to_owned(),
            run_id: run.id().to_owned(),
            workload: run.info().workload.name.clone(),
            workload_id: run.info().workload.id.clone(),
            got,
            missing: artefacts.len() - got,
            left_out,
            artefacts,
        }
    }
}
