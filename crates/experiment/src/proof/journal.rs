//! What a proof keeps: a directory with its plan, and a file and a run for each replay that was done.
//!
//! ```text
//! NAME.proof/manifest.json            the plan
//! NAME.proof/decision.json            how many blocks, decided behind the A/A replays
//! NAME.proof/trials/0001.json …       each replay's numbers, by its place in the order
//! NAME.proof/runs/0001.run …          the runs
//! NAME.proof/rewritten/1.workload …   rewritten workloads, by their side
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::numbers::ProofNumbers;
use super::plan::{FORMAT, PROOF_KIND, ProofPlan};
use crate::error::ExperimentError;
use crate::journal::{MANIFEST, read, write};

const DECISION: &str = "decision.json";

/// Which run of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPlace {
    /// Its place in the order, from 1.
    pub number: u32,
    /// The block, from 1; 0 for a replay of the unchanged before the first block.
    pub block: u32,
    /// The side, 0 for the unchanged.
    pub side: usize,
}

/// What was decided once it was known how long a replay takes and how much runs differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The most blocks that are done.
    pub blocks: u32,
    /// By which runs of the unchanged differ: the standard deviation of the goal's logarithm. `None` of
    /// one run.
    pub deviation: Option<f64>,
    /// How long a run takes with all that belongs to it, in seconds.
    pub run_s: f64,
    /// Behind so many blocks there was no time for another.
    #[serde(default)]
    pub ended: Option<u32>,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProofRecord {
    /// Which one.
    pub place: RunPlace,
    /// When it began, in microseconds since 1970-01-01 UTC; restoring belongs to it.
    pub started_wall_us: i64,
    /// How long it took, with all that, in seconds.
    pub took_s: f64,
    /// What was measured.
    pub numbers: ProofNumbers,
}

/// A proof's directory.
#[derive(Debug)]
pub struct ProofJournal {
    path: PathBuf,
    plan: ProofPlan,
    decision: Option<Decision>,
    records: BTreeMap<u32, ProofRecord>,
}

impl ProofJournal {
    /// Begins one in a directory that is not there yet.
    ///
    /// # Errors
    /// Where something is there, or it cannot be made.
    pub fn create(path: &Path, plan: ProofPlan) -> Result<Self, ExperimentError> {
        if path.exists() {
            return Err(ExperimentError::Usage(format!(
                "{} is there already; give another name with -o, or --resume to go on with it",
                path.display()
            )));
        }
        for name in ["", "trials", "runs", "rewritten"] {
            let directory = path.join(name);
            fs::DirBuilder::new()
                .mode(0o700)
                .recursive(true)
                .create(&directory)
                .map_err(ExperimentError::file("make the directory", &directory))?;
        }
        write(&path.join(MANIFEST), &plan)?;
        Ok(ProofJournal {
            path: path.to_owned(),
            plan,
            decision: None,
            records: BTreeMap::new(),
        })
    }

    /// Opens one, to read it.
    ///
    /// # Errors
    /// Where it is none, or damaged.
    pub fn open(path: &Path) -> Result<Self, ExperimentError> {
        let file = path.join(MANIFEST);
        let none = |why: String| {
            ExperimentError::Usage(format!(
                "{} is no proof ({why}); give the directory that `rehearse prove -o` made",
                path.display()
            ))
        };
        let text = fs::read_to_string(&file).map_err(|error| none(error.to_string()))?;
        let kind: serde_json::Value = read(&file, &text)?;
        if kind["kind"] != PROOF_KIND {
            return Err(none(format!("its kind is {}", kind["kind"])));
        }
        if kind["format"]
            .as_u64()
            .is_none_or(|format| format > u64::from(FORMAT))
        {
            return Err(ExperimentError::Usage(format!(
                "{} is a proof of format {}, and this program reads them up to format {FORMAT}; use a newer one",
                path.display(),
                kind["format"]
            )));
        }
        let plan: ProofPlan = read(&file, &text)?;
        let decision = match fs::read_to_string(path.join(DECISION)) {
            Ok(text) => Some(read(&path.join(DECISION), &text)?),
            Err(_) => None,
        };
        let trials = path.join("trials");
        let mut records = BTreeMap::new();
        let entries = fs::read_dir(&trials).map_err(ExperimentError::file("read", &trials))?;
        for entry in entries.flatten() {
            let file = entry.path();
            if file
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                let text =
                    fs::read_to_string(&file).map_err(ExperimentError::file("read", &file))?;
                let record: ProofRecord = read(&file, &text)?;
                records.insert(record.place.number, record);
            }
        }
        Ok(ProofJournal {
            path: path.to_owned(),
            plan,
            decision,
            records,
        })
    }

    /// Goes on with one that has the same plan.
    ///
    /// # Errors
    /// Where it has another plan; names what differs.
    pub fn resume(path: &Path, wanted: &ProofPlan) -> Result<Self, ExperimentError> {
        let journal = ProofJournal::open(path)?;
        let differences = journal.plan.differences(wanted);
        match differences.is_empty() {
            true => Ok(journal),
            false => Err(ExperimentError::Usage(format!(
                "{} was begun with other options ({}); give the same ones to go on with it, or another name with -o",
                path.display(),
                differences.join(", ")
            ))),
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The plan.
    pub fn plan(&self) -> &ProofPlan {
        &self.plan
    }

    /// What was decided behind the A/A replays, if it came so far.
    pub fn decision(&self) -> Option<Decision> {
        self.decision
    }

    /// What was done, in its order.
    pub fn records(&self) -> impl Iterator<Item = &ProofRecord> {
        self.records.values()
    }

    /// What became of a run, if it was done.
    pub fn record(&self, place: RunPlace) -> Option<&ProofRecord> {
        let found = self.records.get(&place.number);
        found.filter(|record| record.place == place)
    }

    /// Where a run lies.
    pub fn run_path(&self, place: RunPlace) -> PathBuf {
        self.path.join(format!("runs/{:04}.run", place.number))
    }

    /// Where the workload of a side lies that rewrites it.
    pub fn rewritten_path(&self, side: usize) -> PathBuf {
        self.path.join(format!("rewritten/{side}.workload"))
    }

    /// How long all that was done took, in seconds.
    pub fn spent_s(&self) -> f64 {
        self.records.values().map(|record| record.took_s).sum()
    }

    /// Keeps the decision.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(super) fn decide(&mut self, decision: Decision) -> Result<(), ExperimentError> {
        write(&self.path.join(DECISION), &decision)?;
        self.decision = Some(decision);
        Ok(())
    }

    /// Keeps what became of a run.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(super) fn keep(&mut self, record: ProofRecord) -> Result<&ProofRecord, ExperimentError> {
        let number = record.place.number;
        write(&self.path.join(format!("trials/{number:04}.json")), &record)?;
        self.records.insert(number, record);
        Ok(&self.records[&number])
    }
}
