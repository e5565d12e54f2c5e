//! A proof, as `rehearse prove` makes it, on a case's stage.

use std::time::Duration;

use ::sandbox::Stop;
use clock::{Clock, Speed, SystemClock};
use compare::proof::Goal;
use replay::Options;
use report::proof_progress::ProofNarrator;
use report::result_files;
use study::proof::{
    Change, ProofJournal, ProofPlan, ProofReplays, ProofReport, ProofSide, ProofSideReport,
    perform_runs,
};
use study::{LeasePurpose, Manifest, SandboxEnvironment, SandboxLease};
use transform::TimeBound;
use workload::{Literals, WorkloadReader};

use super::stage::{DATABASE, LOADED, Stage};
use crate::options::slice::SliceArgs;
use study::Failure;
use study::proof::sides;
use study::slice_workload;

/// Where blocks end a proof, and not the time.
const FOR_AS_LONG_AS_IT_TAKES: Duration = Duration::from_secs(24 * 3_600);

/// What is proved, and how.
pub(super) struct ProofWanted<'w> {
    /// The proof's name in the folder, NAME.proof.
    pub(super) name: &'w str,
    /// The unchanged first, then what is set beside it.
    pub(super) sides: Vec<ProofSide>,
    /// Which number is to get better.
    pub(super) goal: Goal,
    /// Differences up to this share count as none.
    pub(super) margin: f64,
    /// How the workload is replayed.
    pub(super) options: Options,
    /// How long it may take.
    pub(super) within: Duration,
    /// No more blocks than that.
    pub(super) blocks: u32,
    /// Runs of the unchanged before the first block.
    pub(super) noise_runs: u32,
}

impl<'w> ProofWanted<'w> {
    /// By the server's processor time, which is the steadiest where a machine is shared, and as fast as the server
    /// takes the statements.
    pub(super) fn by_processor_time(name: &'w str, sides: Vec<ProofSide>, blocks: u32) -> Self {
        ProofWanted {
            name,
            sides,
            goal: Goal::Cpu,
            margin: 0.05,
            options: Options {
                speed: Speed::Max,
                ..Options::default()
            },
            within: FOR_AS_LONG_AS_IT_TAKES,
            blocks,
            noise_runs: 1,
        }
    }
}

/// What came of a side, in a sentence's part.
pub(super) fn verdict(side: Option<&ProofSideReport>) -> String {
    match side.map(|side| (side.verdict, &side.effect)) {
        None => "was not proved".to_owned(),
        Some((verdict, None)) => verdict.name().to_owned(),
        Some((verdict, Some(effect))) => format!(
            "{}: the server's processor time × {:.2} ({:.2} to {:.2})",
            verdict.name(),
            effect.ratio,
            effect.low,
            effect.high
        ),
    }
}

impl Stage {
    /// A change by a file of SQL, which is left in the folder.
    pub(super) fn side_of_sql(
        &self,
        name: &str,
        path: String,
        text: String,
    ) -> Result<ProofSide, Failure> {
        let file = self.directory.join(&path);
        std::fs::write(&file, &text)
            .map_err(|error| Failure::could_not(format!("{}: {error}", file.display())))?;
        Ok(ProofSide {
            name: name.to_owned(),
            changes: vec![Change::Sql { path, text }],
        })
    }

    /// The first seconds of a workload, as another in the folder.
    pub(super) fn first_seconds(
        &self,
        workload: &WorkloadReader,
        name: &str,
        seconds: u32,
    ) -> Result<WorkloadReader, Failure> {
        let until = TimeBound::parse(&format!("+{seconds}s"));
        let wanted = SliceArgs {
            to: Some(until.map_err(Failure::could_not)?),
            ..SliceArgs::default()
        };
        let path = self.directory.join(name);
        if let Some(cut) = wanted.slice()? {
            slice_workload::write_slice(
                workload,
                cut,
                wanted.given(),
                (&path, &[]),
                &self.interrupt,
            )?;
        }
        Ok(WorkloadReader::open(&path)?)
    }

    /// Proves changes of what was loaded, from the snapshot. The proof is left in the folder.
    pub(super) fn prove(
        mut self,
        workload: &WorkloadReader,
        wanted: &ProofWanted<'_>,
    ) -> Result<(Self, ProofReport), Failure> {
        self.server.stop(Stop::Fast)?;
        self.server.restore(LOADED)?;
        let version = self.version();
        let conditions = sides::side_conditions(&wanted.sides)?;
        let lease = SandboxLease::acquire(self.server, DATABASE, LeasePurpose::Proof, None)?;
        let plan = ProofPlan {
            sides: wanted.sides.clone(),
            goal: wanted.goal.name().to_owned(),
            margin: wanted.margin,
            within_s: wanted.within.as_secs_f64(),
            blocks_max: wanted.blocks,
            noise_runs: wanted.noise_runs,
            seed: rand::random::<u32>().into(),
        };
        let described = [
            ("workload", workload.id().to_owned()),
            ("workload-name", workload.path().display().to_string()),
            ("place-name", format!("a private PostgreSQL {version}")),
            ("speed", wanted.options.speed.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value));
        let started = SystemClock::start().wall_us();
        let settings = lease.settings().to_vec();
        let manifest = Manifest::new(plan, described.into(), settings, started);
        let mut journal = ProofJournal::begin(&self.directory.join(wanted.name), None, manifest)?;
        let mut environment = SandboxEnvironment::new(lease, conditions, None);
        let replays = ProofReplays {
            whole: workload,
            options: &wanted.options,
            goal: wanted.goal,
            restores: true,
        };
        let ended = perform_runs(
            &mut journal,
            &replays,
            &mut environment,
            &self.interrupt,
            &mut ProofNarrator::default(),
        )?;
        let view = result_files::write_proof(&journal, ended, Literals::Hidden)?;
        self.server = environment.into_sandbox();
        self.server.stop(Stop::Fast)?;
        Ok((self, view))
    }
}
