//! What a bundle of evidence has in it, and what not.

use schemars::JsonSchema;
use serde::Serialize;

/// `evidence.json` of a bundle, and `rehearse bundle --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EvidenceView {
    /// `rehearse/evidence/1`
    pub schema: &'static str,
    /// The version of the program that packed it.
    pub program: String,
    /// The run's name, as it was given.
    pub run: String,
    /// The run's id; equal for equal content.
    pub run_id: String,
    /// The workload's name.
    pub workload: String,
    /// The workload's id; empty where nothing was replayed.
    pub workload_id: String,
    /// How many artefacts are there.
    pub got: usize,
    /// How many are not.
    pub missing: usize,
    /// What a sceptic may want and this does not have on purpose, and how to get it.
    pub left_out: Vec<String>,
    /// All of them, by name.
    pub artefacts: Vec<ArtefactView>,
}

/// One artefact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArtefactView {
    /// What it is: `machine/kernel`.
    pub name: String,
    /// `before` the first statement, `after` the last, or `run`: of the whole of it.
    pub moment: &'static str,
    /// How it was got, so that another can get it too.
    pub how: String,
    /// Its file in the bundle; `null` where there is none.
    pub file: Option<String>,
    /// Its size in bytes; `null` where there is none.
    pub bytes: Option<u64>,
    /// Its checksum (SHA-256), in hexadecimal digits; `null` where there is none.
    pub sha256: Option<String>,
    /// Why there is none; `null` where there is one.
    pub missing: Option<String>,
}

impl EvidenceView {
    /// Of these artefacts.
    pub fn new(
        name: &str,
        program: &str,
        run: &run::RunReader,
        left_out: Vec<String>,
        mut artefacts: Vec<ArtefactView>,
    ) -> Self {
        artefacts.sort_by(|a, b| (&a.name, b.moment).cmp(&(&b.name, a.moment)));
        let got = artefacts.iter().filter(|one| one.file.is_some()).count();
        EvidenceView {
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
