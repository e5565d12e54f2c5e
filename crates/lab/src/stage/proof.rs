//! Proofs on the server of a case.

use std::time::Duration;

use clock::{Clock, Speed, SystemClock};
use compare::proof::Goal;
use diagnose::{Diagnosis, Finding, Form};
use replay::Options;
use report::proof_progress::ProofNarrator;
use report::result_files;
use study::proof::{
    Change, ProofJournal, ProofPlan, ProofReplays, ProofReport, ProofSide, ProofSideReport,
    perform_runs, sides,
};
use study::{Failure, LeasePurpose, Manifest, SandboxEnvironment, SandboxLease, slice_workload};
use transform::{Slice, TimeBound};
use workload::{Literals, WorkloadReader};

use super::{DATABASE, LOADED, Stage};

/// Time limit of a proof that ends by its number of blocks.
const UNLIMITED: Duration = Duration::from_secs(24 * 3_600);
/// Differences up to this share count as none.
const MARGIN: f64 = 0.05;

/// Request of a proof by the server's CPU time, which varies least on a shared machine. Statements are replayed as fast
/// as the server takes them.
pub(crate) struct ProofRequest<'r> {
    /// Name in the case's directory, NAME.proof.
    pub(crate) name: &'r str,
    /// The unchanged side first, then the changes.
    pub(crate) sides: Vec<ProofSide>,
    /// Time limit.
    pub(crate) time_limit: Duration,
    /// Maximum number of blocks.
    pub(crate) blocks: u32,
    /// Runs of the unchanged side before the first block.
    pub(crate) noise_runs: u32,
}

impl<'r> ProofRequest<'r> {
    /// Requests a proof of changes against the unchanged state, without a time limit.
    pub(crate) fn new(name: &'r str, changes: Vec<ProofSide>, blocks: u32) -> Self {
        let mut sides = vec![ProofSide::default()];
        sides.extend(changes);
        ProofRequest {
            name,
            sides,
            time_limit: UNLIMITED,
            blocks,
            noise_runs: 1,
        }
    }
}

/// Returns a side of one change, under the change's name.
pub(crate) fn side_of_change(change: Change) -> ProofSide {
    ProofSide {
        name: change.name(),
        changes: vec![change],
    }
}

/// Diagnosis of a case's replay, and the proof of what it proposes.
pub(crate) struct CaseProof {
    pub(crate) diagnosis: Diagnosis,
    pub(crate) proof: ProofReport,
}

impl CaseProof {
    /// Returns the first finding of the diagnosis.
    pub(crate) fn first_finding(&self) -> Option<&Finding> {
        self.diagnosis.findings.first()
    }

    /// Returns the SQL of the first proposed change.
    pub(crate) fn proposed_sql(&self) -> Option<&str> {
        proposed_sql(&self.diagnosis)
    }

    /// Returns the result of the change with this number, from 0.
    pub(crate) fn side(&self, number: usize) -> Option<&ProofSideReport> {
        self.proof.sides.get(number)
    }
}

/// Returns the SQL of the first change that a diagnosis proposes.
pub(crate) fn proposed_sql(diagnosis: &Diagnosis) -> Option<&str> {
    match &diagnosis.findings.first()?.changes.first()?.form {
        Form::Sql(sql) => Some(sql),
        _ => None,
    }
}

impl Stage {
    /// Writes a file of SQL, and returns it as a side of a proof.
    pub(crate) fn side_of_sql(
        &self,
        name: &str,
        path: &str,
        text: String,
    ) -> Result<ProofSide, Failure> {
        self.write_text(path, &text)?;
        Ok(ProofSide {
            name: name.to_owned(),
            changes: vec![Change::Sql {
                path: path.to_owned(),
                text,
            }],
        })
    }

    /// Writes the first seconds of a workload as another workload.
    pub(crate) fn first_seconds(
        &self,
        workload: &WorkloadReader,
        name: &str,
        seconds: u32,
    ) -> Result<WorkloadReader, Failure> {
        let end = TimeBound::parse(&format!("+{seconds}s")).map_err(Failure::could_not)?;
        let slice = Slice {
            to: Some(end),
            ..Slice::default()
        };
        let path = self.directory.join(name);
        let given = [("to".to_owned(), vec![end.to_string()])].into();
        let interrupt = &self.context.interrupt;
        slice_workload::write_slice(workload, slice, given, (&path, &[]), interrupt)?;
        Ok(WorkloadReader::open(&path)?)
    }

    /// Proves changes of the loaded data. The proof is left in the case's directory, and the server is stopped.
    pub(crate) fn prove(
        mut self,
        workload: &WorkloadReader,
        request: ProofRequest<'_>,
    ) -> Result<(Self, ProofReport), Failure> {
        self.stop()?;
        self.server.restore(LOADED)?;
        let version = self.version();
        let conditions = sides::side_conditions(&request.sides)?;
        let lease = SandboxLease::acquire(self.server, DATABASE, LeasePurpose::Proof, None)?;
        let goal = Goal::Cpu;
        let options = Options {
            speed: Speed::Max,
            ..Options::default()
        };
        let plan = ProofPlan {
            sides: request.sides,
            goal: goal.name().to_owned(),
            margin: MARGIN,
            within_s: request.time_limit.as_secs_f64(),
            blocks_max: request.blocks,
            noise_runs: request.noise_runs,
            seed: rand::random::<u32>().into(),
        };
        let described = [
            ("workload", workload.id().to_owned()),
            ("workload-name", workload.path().display().to_string()),
            ("place-name", format!("a private PostgreSQL {version}")),
            ("speed", options.speed.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value));
        let started_us = SystemClock::start().wall_us();
        let settings = lease.settings().to_vec();
        let manifest = Manifest::new(plan, described.into(), settings, started_us);
        let mut journal = ProofJournal::begin(&self.directory.join(request.name), None, manifest)?;
        let mut environment = SandboxEnvironment::new(lease, conditions, None);
        let replays = ProofReplays {
            whole: workload,
            options: &options,
            goal,
            restores: true,
            ends_if_too_short: false,
            uses_all_time: false,
        };
        let ended = perform_runs(
            &mut journal,
            &replays,
            &mut environment,
            &self.context.interrupt,
            &mut ProofNarrator::default(),
        )?;
        let report = result_files::write_proof(&journal, ended, Literals::Hidden)?;
        self.server = environment.into_sandbox();
        self.stop()?;
        Ok((self, report))
    }
}
