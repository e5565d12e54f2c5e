//! The index of the claim and its rivals, each replayed beside what is unchanged: a proof, as `rehearse prove`
//! makes it, on the case's own server.

use std::collections::BTreeMap;
use std::sync::Arc;

use analyse::proof::Goal;
use clock::{Clock, Speed, SystemClock};
use experiment::ExperimentError;
use experiment::proof::{
    Change, PROOF_KIND, ProofGround, ProofJournal, ProofPlan, ProofSide, Proving, SideLoad, prove,
};
use lab::queue::{COMPOSITE, Index, OBVIOUS, PARTIAL};
use replay::{Options, Target};
use report::{ProofSideView, ProofView};
use sandbox::Stop;
use workload::WorkloadReader;

use super::super::stage::{DATABASE, LOADED, Stage};
use crate::commands::prove::{keep, view};
use crate::commands::slice;
use crate::ending::Failure;
use crate::options::slice::SliceArgs;
use crate::terminal;

/// Where it is kept.
pub const PROOF: &str = "indexes.proof";
/// The part of the workload that is replayed.
pub const PART: &str = "part.workload";
/// What is proved.
pub const RIVALS: [Index; 3] = [COMPOSITE, PARTIAL, OBVIOUS];
/// The server's processor time: the steadiest where a machine is shared.
const GOAL: Goal = Goal::Cpu;
const MARGIN: f64 = 0.05;
const WITHIN_S: f64 = 24.0 * 3_600.0;
/// Each run's order is drawn of it.
const SEED: u64 = 9;

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
    stage: &mut Stage,
    workload: &WorkloadReader,
    seconds: u32,
    blocks: u32,
) -> Result<Proved, Failure> {
    let part = first(stage, workload, seconds)?;
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
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let place = format!("the case's server (PostgreSQL {})", stage.version());
    let options = [
        ("workload", part.id().to_owned()),
        ("workload-name", PART.to_owned()),
        ("place-name", place),
        ("speed", Speed::Max.to_string()),
    ];
    let plan = ProofPlan {
        kind: PROOF_KIND.to_owned(),
        format: 1,
        rehearse: env!("CARGO_PKG_VERSION").to_owned(),
        sides: sides.clone(),
        goal: GOAL.name().to_owned(),
        margin: MARGIN,
        within_s: WITHIN_S,
        blocks_max: blocks,
        noise_runs: 1,
        seed: SEED,
        options: BTreeMap::from(options.map(|(name, value)| (name.to_owned(), value))),
        settings: Vec::new(),
        started_wall_us: clock.wall_us(),
    };
    let mut journal = ProofJournal::create(&stage.directory.join(PROOF), plan)?;
    let load = SideLoad {
        reader: part.clone(),
        options: Options {
            speed: Speed::Max,
            ..Options::default()
        },
    };
    let proving = Proving {
        loads: vec![load; sides.len()],
        goal: GOAL,
        statements: part.info().statements,
    };
    let interrupt = stage.interrupt.clone();
    let mut ground = CaseGround { stage };
    let mut runs = 0;
    prove(
        &proving,
        &mut ground,
        &mut journal,
        &clock,
        &mut |told| {
            if let experiment::proof::ProofTold::Begins(_) = told {
                runs += 1;
            }
        },
        &|| interrupt.is_asked(),
    )?;
    terminal::note(&format!("The proof took {runs} replays."));
    let view = view::view(&journal, view::Ended::Unknown, false)?;
    keep(&journal, &view)?;
    Ok(Proved { view })
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

/// The case's server, with a snapshot of each index.
struct CaseGround<'a> {
    stage: &'a mut Stage,
}

/// The snapshot with an index.
fn with(side: usize) -> String {
    format!("with-{}", RIVALS[side - 1].name)
}

impl ProofGround for CaseGround<'_> {
    fn prepare(&mut self) -> Result<(), ExperimentError> {
        for (side, index) in (1..).zip(RIVALS) {
            let server = &mut self.stage.server;
            server.stop(Stop::Immediate)?;
            server.restore(LOADED)?;
            self.stage.endpoint = server.start()?;
            let failed = |error: postgres::Error| {
                ExperimentError::Failed(format!("the index {} cannot be made: {error}", index.on))
            };
            let mut client = self.stage.connect("lab").map_err(failed)?;
            for sql in [index.sql, "ANALYZE image_links"] {
                client.batch_execute(sql).map_err(failed)?;
            }
            drop(client);
            self.stage.server.stop(Stop::Fast)?;
            self.stage.server.snapshot(&with(side))?;
        }
        Ok(())
    }

    fn ready(&mut self, side: usize) -> Result<Target, ExperimentError> {
        let snapshot = match side {
            0 => LOADED.to_owned(),
            side => with(side),
        };
        let server = &mut self.stage.server;
        server.stop(Stop::Immediate)?;
        server.restore(&snapshot)?;
        self.stage.endpoint = server.start()?;
        let url = self.stage.endpoint.url(DATABASE);
        Target::parse(&url, |_| None).map_err(|error| ExperimentError::Failed(error.to_string()))
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn postmaster(&mut self, _: usize) -> Option<i32> {
        self.stage.server.pid()
    }

    fn leave(&mut self) -> Result<(), ExperimentError> {
        self.stage.server.stop(Stop::Immediate)?;
        for side in 1..=RIVALS.len() {
            let name = with(side);
            if self.stage.server.snapshots().contains(&name) {
                self.stage.server.remove_snapshot(&name)?;
            }
        }
        Ok(())
    }
}
