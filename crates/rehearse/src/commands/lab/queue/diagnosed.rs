//! The capture is replayed once, with everything looked at, and diagnosed without being told anything but how long the
//! queue is.

use std::path::PathBuf;
use std::time::Duration;

use diagnose::{Finding, Suspect, Thresholds, diagnose, suspect};
use lab::LabError;
use lab::queue;
use observe::MonitorOptions;
use replay::{Options, SendOrder, Target};
use report::{TextStyle, diagnose_text, to_json};
use run::RunReader;
use sandbox::Stop;
use study::diagnosis_report::DiagnosisReport;
use workload::WorkloadReader;

use super::super::stage::{DATABASE, LOADED, Stage};
use crate::display::Display;
use study::Failure;
use study::target_snapshot::ObservationPlan;
use study::{diagnosis_inputs, observed_replay};

/// The run, and what was made of it.
pub const RUN: &str = "trouble.run";
pub const TEXT: &str = "diagnosis.txt";
pub const JSON: &str = "diagnosis.json";
/// Whom everybody suspected: what the limiter puts off.
pub const SUSPECT: &str = "update image_links set download_after = now() + random()%";
/// Statements are counted by the server, planning as well.
const COUNTED: [(&str, &str); 2] = [
    ("shared_preload_libraries", "pg_stat_statements"),
    ("pg_stat_statements.track_planning", "on"),
];

/// What rules said.
pub struct Diagnosed {
    pub report: DiagnosisReport,
}

impl Diagnosed {
    pub fn first(&self) -> Option<&Finding> {
        self.report.diagnosis.findings.first()
    }

    pub fn suspect(&self) -> Option<&Suspect> {
        self.report.suspects.first()
    }

    /// A number of the first finding's evidence.
    pub fn fact(&self, what: &str) -> Option<f64> {
        let facts = &self.first()?.evidence;
        Some(facts.iter().find(|one| one.what == what)?.number)
    }
}

/// Replays, diagnoses, and leaves the diagnosis as a text and as JSON.
pub fn look(
    stage: &mut Stage,
    workload: &WorkloadReader,
    look_every: Option<Duration>,
) -> Result<Diagnosed, Failure> {
    let run = replayed(stage, workload, look_every)?;
    let thresholds = Thresholds::default();
    let run = RunReader::open(&run)?;
    let evidence =
        diagnosis_inputs::read_run_evidence(&run, diagnosis_inputs::QueriedFacts::default())?;
    // In the order of commits statements wait for those of others as nobody did: response times are not users'.
    let suspects = vec![suspect(&evidence, SUSPECT, None, &thresholds)];
    let diagnosis = diagnose(&evidence, &thresholds);
    let report = DiagnosisReport::new(RUN, &evidence, diagnosis, &thresholds, suspects);
    let text = diagnose_text::render_text(&report, true, &TextStyle::default());
    for (name, text) in [(TEXT, text), (JSON, to_json(&report))] {
        let path = stage.directory.join(name);
        std::fs::write(&path, text)
            .map_err(|error| Failure::could_not(format!("{}: {error}", path.display())))?;
    }
    Ok(Diagnosed { report })
}

/// In the order of commits: a link that is done was claimed before, in the replay as well.
fn replayed(
    stage: &mut Stage,
    workload: &WorkloadReader,
    look_every: Option<Duration>,
) -> Result<PathBuf, Failure> {
    stage.server.restore(LOADED)?;
    let counted = COUNTED.map(|(name, value)| (name.to_owned(), value.to_owned()));
    stage.server.set(counted.into())?;
    stage.endpoint = stage.server.start()?;
    let mut client = stage.client()?;
    client
        .batch_execute("CREATE EXTENSION pg_stat_statements")
        .map_err(|error| {
            Failure::could_not(format!("pg_stat_statements cannot be made: {error}"))
        })?;
    queue::warm(&mut client).map_err(|error: LabError| Failure::could_not(error))?;
    drop(client);
    let target = Target::parse(&stage.endpoint.url(DATABASE), |_| None)?;
    let options = Options {
        order: SendOrder::Commit,
        ..Options::default()
    };
    let output = stage.directory.join(RUN);
    observed_replay::replay_observed(
        workload,
        &target,
        &options,
        ObservationPlan {
            facts: true,
            plans: Some(observe::PLANS_MAX),
            profile: None,
            watch: Some(MonitorOptions {
                custom_query: Some(queue::SERIES.to_owned()),
                custom_query_interval: look_every,
                ..MonitorOptions::default()
            }),
        },
        &output,
        &stage.interrupt,
        &mut Display::on_terminal(),
    )?;
    stage.server.stop(Stop::Fast)?;
    stage.server.set(Vec::new())?;
    Ok(output)
}
