//! `rehearse diagnose`: applies rules to a run, an observed server, or a workload.

mod prove_findings;

use std::path::Path;

use archive::ArchiveError;
use clock::SystemClock;
use diagnose::{
    Behind, Evidence, Step, Suspect, ThresholdError, Thresholds, diagnose, like, suspect,
};
use replay::{LoginMap, Target};
use report::{DiagnosisReport, diagnose_text, to_json};
use run::{Facts, PlanFact, RunReader};
use serde_json::json;
use workload::WorkloadReader;

use crate::commands::observe;
use crate::exit_status::ExitStatus;
use crate::options::diagnosing::Diagnose;
use crate::options::watching::Observe;
use crate::terminal;
use study::Failure;
use study::diagnosis_inputs;
use study::diagnosis_inputs::Asked;
use study::keys;
use study::target_snapshot::told;

/// Number of statements of an observed server whose plans are collected.
const PLANS_MAX: usize = 100;

/// Diagnoses and shows the findings.
pub fn run(options: &Diagnose) -> Result<ExitStatus, Failure> {
    let thresholds = thresholds(&options.threshold)?;
    if options.thresholds {
        let all: Vec<_> = thresholds.settings().collect();
        match options.json {
            true => terminal::say_line(&to_json(&json!({
                "schema": "rehearse/diagnose-thresholds/1",
                "thresholds": all,
            }))),
            false => terminal::say(&diagnose_text::render_thresholds(&all, &terminal::style())),
        }
        return Ok(ExitStatus::Success);
    }
    if options.proving.prove {
        return prove_findings::run(options, &thresholds);
    }
    let input = match (&options.target, &options.of) {
        (Some(url), _) => observe_target(options, url, &thresholds)?,
        (None, Some(path)) => read_path(options, path, &thresholds)?,
        (None, None) => {
            return Err(Failure::usage(
                "nothing to diagnose was given; give a run, a workload, or --target URL",
            ));
        }
    };
    Ok(show(options, &report(input, &thresholds)))
}

/// Evidence to diagnose.
struct DiagnosisInput {
    /// Name that the user gave.
    name: String,
    evidence: Evidence,
    suspects: Vec<Suspect>,
}

/// Returns the thresholds, with those that the user set.
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
        ThresholdError::NoNumber(text) => format!(
            "--threshold '{text}' sets no number; give NAME=VALUE with a number from 0 on, such as problem-share=0.2"
        ),
    })
}

fn read_path(
    options: &Diagnose,
    path: &Path,
    thresholds: &Thresholds,
) -> Result<DiagnosisInput, Failure> {
    let name = path.display().to_string();
    match RunReader::open(path) {
        Ok(run) => read_run(options, name, &run, thresholds),
        Err(ArchiveError::Foreign { .. }) => {
            let workload = workload(path)?;
            let evidence = diagnosis_inputs::of_workload(&workload)?;
            let suspects = options
                .impact_of
                .iter()
                .map(|pattern| suspect(&evidence, pattern, None, thresholds))
                .collect();
            Ok(DiagnosisInput {
                name,
                evidence,
                suspects,
            })
        }
        Err(error) => Err(error.into()),
    }
}

fn read_run(
    options: &Diagnose,
    name: String,
    run: &RunReader,
    thresholds: &Thresholds,
) -> Result<DiagnosisInput, Failure> {
    let evidence = diagnosis_inputs::of_run(run, Asked::default())?;
    let mut suspects = Vec::new();
    for pattern in &options.impact_of {
        let response = response(run, &evidence, pattern)?;
        suspects.push(suspect(&evidence, pattern, response, thresholds));
    }
    Ok(DiagnosisInput {
        name,
        evidence,
        suspects,
    })
}

fn workload(path: &Path) -> Result<WorkloadReader, Failure> {
    keys::open(path).map_err(
        |failure| match failure.message.contains("is not a workload") {
            true => Failure::usage(format!(
                "{} is neither a run nor a workload; give NAME.run, NAME.workload, or --target URL",
                path.display()
            )),
            false => failure,
        },
    )
}

/// Observes a server, and collects its facts and plans.
fn observe_target(
    options: &Diagnose,
    url: &str,
    thresholds: &Thresholds,
) -> Result<DiagnosisInput, Failure> {
    let target = Target::parse(url, |name| std::env::var(name).ok())?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let place = tempfile::tempdir().map_err(Failure::could_not)?;
    let output = place.path().join("observed.run");
    let watching = Observe {
        target: url.to_owned(),
        duration: Some(options.duration),
        output: Some(output.clone()),
        json: false,
        looks: options.looks.clone(),
    };
    observe::watch(&watching, &target, &output, &interrupt)?;
    let run = RunReader::open(&output)?;
    let facts = facts(&target);
    let plans = plans(&target, &run)?;
    let asked = Asked {
        facts: Some(facts),
        plans: Some(plans),
    };
    let evidence = diagnosis_inputs::of_run(&run, asked)?;
    let suspects = options
        .impact_of
        .iter()
        .map(|pattern| suspect(&evidence, pattern, None, thresholds))
        .collect();
    Ok(DiagnosisInput {
        name: target.address(),
        evidence,
        suspects,
    })
}

fn facts(target: &Target) -> Facts {
    let login = LoginMap::default().login(target, "", "", "");
    ::observe::facts(target, &[login], &SystemClock::start())
}

/// Collects the generic plans of the statements that took the most time.
fn plans(target: &Target, run: &RunReader) -> Result<Vec<PlanFact>, Failure> {
    let login = LoginMap::default().login(target, "", "", "");
    let wanted = diagnosis_inputs::costliest(run, PLANS_MAX)?;
    let answers = ::observe::generic_plans(target, &login, &wanted, &SystemClock::start());
    terminal::note(&told(&answers));
    Ok(answers.plans)
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
        .filter(|one| like(pattern, &one.sql))
        .map(|one| one.fingerprint);
    let mut response_times = Behind::new(suspects);
    for execution in run.executions()? {
        if let Some(step) = Step::of_execution(&execution?) {
            response_times.add(&step);
        }
    }
    Ok(Some(response_times.finish()))
}

fn report(input: DiagnosisInput, thresholds: &Thresholds) -> DiagnosisReport {
    let diagnosis = diagnose(&input.evidence, thresholds);
    DiagnosisReport::new(
        &input.name,
        &input.evidence,
        diagnosis,
        thresholds,
        input.suspects,
    )
}

fn show(options: &Diagnose, report: &DiagnosisReport) -> ExitStatus {
    match options.json {
        true => terminal::say_line(&to_json(report)),
        false => terminal::say(&diagnose_text::render_text(
            report,
            options.verbose,
            &terminal::style(),
        )),
    }
    match report.is_finding {
        true => ExitStatus::Findings,
        false => ExitStatus::Success,
    }
}
