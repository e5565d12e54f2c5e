//! Diagnoses of the case *queue*: of the system while it works, and of a replay of its capture.
//!
//! Starving workers are diagnosed in the system itself. If two claims overlap, a replay may execute them in the other
//! order, so that a link is done before it is claimed. Another link is claimed in its place, and from then on one more
//! is claimed than any worker finishes: *queued* is hardly ever 0 again.

use std::time::Duration;

use diagnose::{Finding, Suspect, Thresholds, diagnose, suspect};
use observe::MonitorOptions;
use replay::{Options, SendOrder};
use report::{TextStyle, diagnose_text, to_json};
use study::Failure;
use study::diagnosis_report::DiagnosisReport;
use study::target_snapshot::ObservationPlan;
use workload::WorkloadReader;

use super::{Deployment, Queue, SERIES, SystemPlan, SystemResult, run_system, warm};
use crate::stage::{
    Stage, create_statistics, diagnose_run, facts_and_plans, read_evidence, server_settings,
};

/// Observation of the system.
pub(super) const OBSERVATION: &str = "observed.run";
/// Replay of its capture.
pub(super) const REPLAY: &str = "trouble.run";
/// Diagnosis of the replay, as text.
pub(super) const TEXT: &str = "diagnosis.txt";
/// Diagnosis of the replay, as JSON.
pub(super) const JSON: &str = "diagnosis.json";
/// The suspected statement, in which the limiter postpones links.
const SUSPECT: &str = "update image_links set download_after = now() + random()%";
/// Settings with which the server counts statements, and planning too.
const COUNTED: [(&str, &str); 2] = [
    ("shared_preload_libraries", "pg_stat_statements"),
    ("pg_stat_statements.track_planning", "on"),
];

/// Diagnosis of the replay.
pub(super) struct ReplayDiagnosis(DiagnosisReport);

impl ReplayDiagnosis {
    pub(super) fn first_finding(&self) -> Option<&Finding> {
        self.0.diagnosis.findings.first()
    }

    /// Returns the text of the first proposed change.
    pub(super) fn proposal(&self) -> Option<String> {
        let change = self.first_finding()?.changes.first()?;
        change.form.text()
    }

    pub(super) fn suspect(&self) -> Option<&Suspect> {
        self.0.suspects.first()
    }

    /// Returns a number of the first finding's evidence.
    pub(super) fn fact(&self, what: &str) -> Option<f64> {
        let facts = &self.first_finding()?.evidence;
        Some(facts.iter().find(|one| one.what == what)?.number)
    }
}

fn monitor(look_every: Option<Duration>) -> MonitorOptions {
    MonitorOptions {
        custom_query: Some(SERIES.to_owned()),
        custom_query_interval: look_every,
        ..MonitorOptions::default()
    }
}

/// Runs the system and observes it. Returns the title of the finding that its workers starve, too.
pub(super) fn observe_system(
    stage: &Stage,
    deployment: &Deployment,
    queue: &Queue,
    plan: &SystemPlan,
    (duration, look_every): (Duration, Option<Duration>),
) -> Result<(SystemResult, Option<String>), Failure> {
    let (run, driven) = stage.observe(OBSERVATION, &monitor(look_every), duration, |_| {
        run_system(deployment, queue, plan, duration)
    })?;
    let findings = diagnose_run(&run)?.findings.into_iter();
    let mut starved = findings.filter(|finding| finding.rule == "starved-queue");
    Ok((driven, starved.next().map(|finding| finding.title)))
}

/// Replays the capture with all observations, diagnoses the run, and writes the diagnosis.
pub(super) fn diagnose_replay(
    stage: &mut Stage,
    workload: &WorkloadReader,
    look_every: Option<Duration>,
) -> Result<ReplayDiagnosis, Failure> {
    stage.server.set(server_settings(&COUNTED))?;
    // A link that is done was claimed before, in the replay too.
    let options = Options {
        order: SendOrder::Commit,
        ..Options::default()
    };
    let asked = ObservationPlan {
        watch: Some(monitor(look_every)),
        ..facts_and_plans()
    };
    let (run, _) = stage.replay(workload, REPLAY, &options, asked, |client| {
        create_statistics(client)?;
        warm(client)
    })?;
    stage.server.set(Vec::new())?;
    let thresholds = Thresholds::default();
    let evidence = read_evidence(&run)?;
    // In commit order, statements wait for each other as they did not in the system. So response times are not those
    // of users.
    let suspects = vec![suspect(&evidence, SUSPECT, None, &thresholds)];
    let diagnosis = diagnose(&evidence, &thresholds);
    let report = DiagnosisReport::new(
        REPLAY,
        &evidence,
        diagnosis,
        &thresholds,
        suspects,
        Vec::new(),
    );
    let text = diagnose_text::render_text(&report, true, &TextStyle::default());
    stage.write_text(TEXT, &text)?;
    stage.write_text(JSON, &to_json(&report))?;
    Ok(ReplayDiagnosis(report))
}
