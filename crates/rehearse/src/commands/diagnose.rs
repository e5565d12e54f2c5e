//! `rehearse diagnose`: applies rules to a run, an observed server, or a workload.

use std::path::{Path, PathBuf};

use ::sandbox::Dirs;
use clock::SystemClock;
use replay::Target;
use report::proof_progress::ProofNarrator;
use report::{diagnose_text, result_files, to_json};
use run::RunReader;
use serde_json::json;
use study::cause_experiments::find_causes;
use study::diagnosis::{DiagnosisInput, DiagnosisOptions, thresholds};
use study::diagnosis_report::DiagnosisReport;
use study::proof::{ProofDisplay, ProofJournal, ProofReport};
use study::prove_findings::{FindingProofs, FindingsRequest, prove_findings, read_input};
use study::suspect_replay::replay_without_suspects;
use study::{EndReason, Failure, Interrupt, keys};
use workload::{Literals, WorkloadReader};

use crate::commands::observe;
use crate::display::Display;
use crate::exit_status::ExitStatus;
use crate::options::diagnosing::Diagnose;
use crate::options::watching::Observe;
use crate::terminal;

/// Result in the directory of proofs.
const RESULT: &str = "diagnosis.json";

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
    let criteria = DiagnosisOptions {
        impact_of: &options.impact_of,
        thresholds: &thresholds,
    };
    if options.proving.prove {
        return prove(options, criteria);
    }
    let input = match (&options.target, &options.of) {
        (Some(url), _) => observe_target(options, url, criteria)?,
        (None, path) => DiagnosisInput::read(required(path.as_deref())?, criteria)?,
    };
    Ok(show(options, &input.diagnose(&thresholds)))
}

fn required(path: Option<&Path>) -> Result<&Path, Failure> {
    path.ok_or_else(|| {
        Failure::usage("nothing to diagnose was given; give a run, a workload, or --target URL")
    })
}

/// Observes a server, and collects its facts and plans.
fn observe_target(
    options: &Diagnose,
    url: &str,
    criteria: DiagnosisOptions<'_>,
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
    DiagnosisInput::of_server(&target, &RunReader::open(&output)?, criteria)
}

/// Diagnoses, and proves the findings that suggest a change.
fn prove(options: &Diagnose, criteria: DiagnosisOptions<'_>) -> Result<ExitStatus, Failure> {
    let clock = SystemClock::start();
    let directory = options.proving.output.clone().unwrap_or_default();
    if directory.exists() {
        return Err(Failure::usage(format!(
            "{} is there already; give another name with -o",
            directory.display()
        )));
    }
    let proof = options.place.proof(directory.clone(), &options.goal)?;
    let name = options.place.sandbox.as_deref().unwrap_or_default();
    drop(::sandbox::open(name, &Dirs::from_environment()?)?);
    let interrupt: Interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let request = FindingsRequest {
        proof: &proof,
        max_findings: options.proving.max_findings,
        clock: &clock,
        interrupt: &interrupt,
    };
    let made = input_to_prove(options, &request, criteria);
    if made.is_err() {
        // A refused command leaves no files.
        let _ = std::fs::remove_dir_all(&directory);
    }
    let (input, workload) = made?;
    let mut report = input.diagnose(criteria.thresholds);
    let (evidence, thresholds) = (input.evidence(), criteria.thresholds);
    replay_without_suspects(
        &request,
        &workload,
        evidence,
        &mut report.suspects,
        &mut Display::on_terminal(),
    )?;
    find_causes(
        &request,
        &workload,
        evidence,
        thresholds,
        (&mut report.diagnosis, &mut report.suspects),
    )?;
    report.is_finding = report.diagnosis.is_finding();
    let findings = &report.diagnosis.findings;
    report.proofs = prove_findings(&request, &workload, findings, &mut Proofs::default())?;
    result_files::write_text(&directory.join(RESULT), &to_json(&report))?;
    Ok(show(options, &report))
}

fn input_to_prove(
    options: &Diagnose,
    request: &FindingsRequest<'_>,
    criteria: DiagnosisOptions<'_>,
) -> Result<(DiagnosisInput, WorkloadReader), Failure> {
    let given: Option<&PathBuf> = options.proving.workload.as_ref();
    let Some(url) = &options.target else {
        let path = required(options.of.as_deref())?;
        return read_input(request, path, given, criteria, &mut Display::on_terminal());
    };
    let Some(path) = given else {
        return Err(Failure::usage(
            "a server that is watched has no workload to replay; give one with --workload NAME.workload",
        ));
    };
    let workload = keys::open_workload(path)?;
    Ok((observe_target(options, url, criteria)?, workload))
}

/// Reports each proof, and writes its result.
#[derive(Default)]
struct Proofs(ProofNarrator);

impl FindingProofs for Proofs {
    fn display(&mut self) -> &mut dyn ProofDisplay {
        &mut self.0
    }

    fn finish(&mut self, journal: &ProofJournal, ended: EndReason) -> Result<ProofReport, Failure> {
        result_files::write_proof(journal, ended, Literals::Hidden)
    }
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
