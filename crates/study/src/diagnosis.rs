//! Diagnoses a run, an observed server, or a workload.

use std::path::Path;

use archive::ArchiveError;
use clock::SystemClock;
use diagnose::{
    Evidence, SessionStep, Suspect, SuspectResponseTime, ThresholdError, Thresholds, diagnose,
    matches_like_pattern, suspect,
};
use replay::{LoginMap, Target};
use run::{INCOMPLETE_SHARDS_OPTION, RunInfo, RunReader, RunStatus};
use workload::WorkloadReader;

use crate::diagnosis_inputs;
use crate::diagnosis_inputs::QueriedFacts;
use crate::diagnosis_report::DiagnosisReport;
use crate::failure::Failure;
use crate::keys;
use crate::notes;
use crate::statement_senders::SenderTimes;
use crate::target_snapshot::summarize_plans;

/// Number of statements of an observed server whose plans are collected.
const PLANS_MAX: usize = 100;

/// Criteria of a diagnosis.
#[derive(Debug, Clone, Copy)]
pub struct DiagnosisOptions<'a> {
    /// Patterns of statements whose largest possible impact is reported.
    pub impact_of: &'a [String],
    /// Thresholds of the rules.
    pub thresholds: &'a Thresholds,
}

/// Evidence to diagnose.
#[derive(Debug)]
pub struct DiagnosisInput {
    /// Name that the user gave.
    name: String,
    evidence: Evidence,
    suspects: Vec<Suspect>,
    senders: SenderTimes,
}

/// Returns the default thresholds, with those that the user set.
///
/// # Errors
/// If a name is unknown, or a value is not a number.
pub fn thresholds(set: &[String]) -> Result<Thresholds, Failure> {
    let mut thresholds = Thresholds::default();
    for text in set {
        thresholds.set(text).map_err(refused)?;
    }
    Ok(thresholds)
}

fn refused(error: ThresholdError) -> Failure {
    Failure::usage(match error {
        ThresholdError::Unknown(name) => format!(
            "--threshold: there is none called '{name}'; `rehearse diagnose --thresholds` lists them"
        ),
        ThresholdError::NoShare { name, value } => format!(
            "--threshold {name}={value} is no share; give a number from 0 to 1, such as {name}={}",
            if value <= 100.0 { value / 100.0 } else { 0.5 }
        ),
        ThresholdError::NoNumber(text) => format!(
            "--threshold '{text}' sets no number; give NAME=VALUE with a number from 0 on, such as problem-share=0.2"
        ),
    })
}

/// Notes that a run does not have all statements of its workload.
fn note_partial_run(name: &str, info: &RunInfo) {
    let reason = match info.status {
        RunStatus::Complete => return,
        RunStatus::Stopped => "it was stopped early".to_owned(),
        RunStatus::Recovered => "its replay was killed, and the run was recovered".to_owned(),
        RunStatus::Incomplete => format!(
            "these shards are missing or incomplete: {}",
            info.options
                .get(INCOMPLETE_SHARDS_OPTION)
                .map_or("unknown", String::as_str)
        ),
    };
    notes::note(&format!(
        "The diagnosis covers only a part of the workload of {name}: {reason}."
    ));
}

impl DiagnosisInput {
    /// Reads a run or a workload.
    ///
    /// # Errors
    /// If it is neither, or cannot be read.
    pub fn read(path: &Path, options: DiagnosisOptions<'_>) -> Result<Self, Failure> {
        match RunReader::open(path) {
            Ok(run) => Self::of_run(path.display().to_string(), &run, options),
            Err(ArchiveError::WrongKind { .. } | ArchiveError::OtherKind { .. }) => {
                let evidence = diagnosis_inputs::read_workload_evidence(&open_workload(path)?)?;
                Ok(Self::new(path.display().to_string(), evidence, options))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a run, under this name.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_run(
        name: String,
        run: &RunReader,
        options: DiagnosisOptions<'_>,
    ) -> Result<Self, Failure> {
        note_partial_run(&name, run.info());
        let evidence = diagnosis_inputs::read_run_evidence(run, QueriedFacts::default())?;
        let mut suspects = Vec::new();
        for pattern in options.impact_of {
            let response = response(run, &evidence, pattern)?;
            suspects.push(suspect(&evidence, pattern, response, options.thresholds));
        }
        Ok(DiagnosisInput {
            name,
            evidence,
            suspects,
            senders: SenderTimes::read(run)?,
        })
    }

    /// Reads the observation of a server, and asks the server for its facts and plans.
    ///
    /// # Errors
    /// If the observation cannot be read.
    pub fn of_server(
        target: &Target,
        observed: &RunReader,
        options: DiagnosisOptions<'_>,
    ) -> Result<Self, Failure> {
        let login = LoginMap::default().login(target, "", "", "");
        let clock = SystemClock::start();
        let facts = observe::facts(target, std::slice::from_ref(&login), &clock);
        let wanted = diagnosis_inputs::top_statements(observed, PLANS_MAX)?;
        let answers = observe::generic_plans(target, &login, &wanted, &clock);
        notes::note(&summarize_plans(&answers));
        let asked = QueriedFacts {
            facts: Some(facts),
            plans: Some(answers.plans),
        };
        let evidence = diagnosis_inputs::read_run_evidence(observed, asked)?;
        Ok(Self::new(target.address(), evidence, options))
    }

    fn new(name: String, evidence: Evidence, options: DiagnosisOptions<'_>) -> Self {
        let suspects = options
            .impact_of
            .iter()
            .map(|pattern| suspect(&evidence, pattern, None, options.thresholds))
            .collect();
        DiagnosisInput {
            name,
            evidence,
            suspects,
            senders: SenderTimes::default(),
        }
    }

    /// Applies the rules.
    pub fn diagnose(&self, thresholds: &Thresholds) -> DiagnosisReport {
        let diagnosis = diagnose(&self.evidence, thresholds);
        let subjects = diagnosis.findings.iter();
        let subjects = subjects.filter_map(|finding| finding.subject.fingerprint);
        let senders = self.senders.of(&subjects.collect());
        DiagnosisReport::new(
            &self.name,
            &self.evidence,
            diagnosis,
            thresholds,
            self.suspects.clone(),
            senders,
        )
    }

    /// Returns the evidence.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }
}

/// Opens the workload to diagnose.
///
/// # Errors
/// If it is no workload, with the kinds of input that are possible.
pub(crate) fn open_workload(path: &Path) -> Result<WorkloadReader, Failure> {
    keys::open_workload(path).map_err(|failure| {
        match failure.message.contains("is not a workload") {
            true => Failure::usage(format!(
                "{} is neither a run nor a workload; give NAME.run, NAME.workload, or --target URL",
                path.display()
            )),
            false => failure,
        }
    })
}

/// Returns the part of a run's response time that suspected statements account for, including
/// the time that others waited for them.
fn response(
    run: &RunReader,
    evidence: &Evidence,
    pattern: &str,
) -> Result<Option<(f64, f64)>, Failure> {
    if evidence.response_ns.is_none() {
        return Ok(None);
    }
    let suspects = evidence
        .statements
        .iter()
        .filter(|one| matches_like_pattern(pattern, &one.sql))
        .map(|one| one.fingerprint);
    let mut response_times = SuspectResponseTime::new(suspects);
    for execution in run.executions()? {
        if let Some(step) = SessionStep::from_execution(&execution?) {
            response_times.add(&step);
        }
    }
    Ok(Some(response_times.finish()))
}
