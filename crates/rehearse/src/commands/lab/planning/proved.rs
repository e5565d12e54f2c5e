//! Reads as texts are captured, replayed with planning counted, and diagnosed without being told anything. What that
//! suggests is proved, and at the full scale what counting planning costs beside it.

use std::time::Duration;

use clock::Speed;
use diagnose::{Diagnosis, Finding, Thresholds, diagnose};
use lab::LabError;
use lab::planning;
use lab::planning::COUNTINGS;
use observe::MonitorOptions;
use replay::Options;
use run::RunReader;
use study::proof::{Change, ProofSide};
use study::proof::{ProofReport, ProofSideReport};
use study::sweep::Setting;

use super::super::LOGGING;
use super::super::proving::ProofWanted;
use super::super::stage::Stage;
use super::{settings, start};
use study::Failure;
use study::diagnosis_inputs;
use study::target_snapshot::ObservationPlan;

/// What is captured, its replay, and the proof.
pub const WORKLOAD: &str = "texts.workload";
pub const RUN: &str = "texts.run";
const PROOF: &str = "prepared.proof";
pub const REPORT: &str = "prepared.proof/report.html";
/// The cure: each text once a session, then its values.
const PREPARE: &str = "prepare";
/// Sessions that read.
const SESSIONS: u32 = 2;

/// How long the reads may take that are captured.
const PATIENCE: Duration = Duration::from_secs(600);

/// How much is done.
pub struct Size {
    /// Reads that are captured.
    pub reads: u64,
    /// At most; fewer where it is clear.
    pub blocks: u32,
    /// Beside preparing, what counting planning costs: too little to be shown by a few short replays.
    pub counting: bool,
}

/// What came of it.
pub struct Proved {
    pub captured: u64,
    pub diagnosis: Diagnosis,
    pub view: ProofReport,
}

impl Proved {
    pub fn first(&self) -> Option<&Finding> {
        self.diagnosis.findings.first()
    }

    /// What came of preparing.
    pub fn prepared(&self) -> Option<&ProofSideReport> {
        self.view.sides.first()
    }

    /// What came of counting planning, where that was tried.
    pub fn counting(&self) -> Option<&ProofSideReport> {
        self.view.sides.get(1)
    }
}

fn as_fast_as_it_goes() -> Options {
    Options {
        speed: Speed::Max,
        ..Options::default()
    }
}

/// Does it all, from what was loaded.
pub fn prove(mut stage: Stage, size: &Size) -> Result<(Stage, Proved), Failure> {
    stage.step(format!(
        "{SESSIONS} sessions read {} accounts with their branches, as texts with their values. The server logs it, and the log becomes a workload.",
        size.reads
    ))?;
    let logging = LOGGING.map(|(name, value)| (name.to_owned(), value.to_owned()));
    start(&mut stage, logging.into())?;
    let captured = planning::run_load(
        &stage.connecting(),
        SESSIONS,
        planning::account_join_query,
        (size.reads, PATIENCE),
    )
    .map_err(Failure::could_not)?;
    let workload = stage.captured(WORKLOAD)?;

    stage.step(
        "It is replayed with planning counted, and diagnosed without being told anything."
            .to_owned(),
    )?;
    stage.server.set(settings(COUNTINGS[2]))?;
    let looks = ObservationPlan {
        facts: true,
        plans: None,
        profile: None,
        watch: Some(MonitorOptions::default()),
    };
    let counted = |client: &mut postgres::Client| {
        client
            .batch_execute("CREATE EXTENSION pg_stat_statements")
            .map_err(LabError::server("pg_stat_statements cannot be made"))
    };
    let (run, _) = stage.replay_asked(&workload, RUN, &as_fast_as_it_goes(), looks, counted)?;
    let evidence = diagnosis_inputs::read_run_evidence(
        &RunReader::open(&run)?,
        diagnosis_inputs::QueriedFacts::default(),
    )?;
    let diagnosis = diagnose(&evidence, &Thresholds::default());

    stage.step(format!(
        "What it suggests is proved (each text prepared once a session){}: by turns with the texts, by the server's processor time.",
        if size.counting { ", and what counting planning costs" } else { "" }
    ))?;
    stage.server.set(settings(COUNTINGS[1]))?;
    let side = |change: Change| ProofSide {
        name: change.name(),
        changes: vec![change],
    };
    let mut sides = vec![
        ProofSide::default(),
        side(Change::Rewrite(PREPARE.to_owned())),
    ];
    if size.counting {
        sides.push(side(Change::Settings(vec![Setting {
            name: "pg_stat_statements.track_planning".to_owned(),
            value: "on".to_owned(),
        }])));
    }
    let wanted = ProofWanted::by_processor_time(PROOF, sides, size.blocks);
    let (stage, view) = stage.prove(&workload, &wanted)?;
    Ok((
        stage,
        Proved {
            captured,
            diagnosis,
            view,
        },
    ))
}
