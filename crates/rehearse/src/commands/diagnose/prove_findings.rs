//! `rehearse diagnose --prove`: measures the changes of each finding, one finding after another,
//! within the time budget.
//!
//! The result has the measured effect of each finding's changes, or the reason why they were not
//! measured.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::sandbox::Places;
use archive::ArchiveError;
use clock::{Clock, SystemClock};
use compare::proof::Verdict;
use diagnose::{Change as Suggestion, Finding, Form, Severity, Thresholds};
use report::{FindingChange, FindingProof, ProofView, one_line, to_json};
use run::RunReader;
use study::ChangeScript;
use study::proof::{Change, ProofSide};
use study::sweep::Setting;
use transform::Rewriting;
use workload::WorkloadReader;

use super::{DiagnosisInput, observe_target, read_run, report, show, workload};
use crate::commands::{experiments, prove};
use crate::display::Display;
use crate::exit_status::ExitStatus;
use crate::options::Prove;
use crate::options::diagnosing::Diagnose;
use crate::terminal;
use study::Failure;
use study::Interrupt;
use study::baseline_run;
use study::keys;

/// Replay that was diagnosed, in the output directory.
const BASELINE_RUN: &str = "look.run";
const RESULT: &str = "diagnosis.json";
/// Longest name of a change, in characters of its SQL.
const NAME_MAX: usize = 100;

/// Diagnoses, and proves the findings that suggest a change.
pub(super) fn run(options: &Diagnose, thresholds: &Thresholds) -> Result<ExitStatus, Failure> {
    let clock = SystemClock::start();
    let directory = options.proving.output.clone().unwrap_or_default();
    if directory.exists() {
        return Err(Failure::usage(format!(
            "{} is there already; give another name with -o",
            directory.display()
        )));
    }
    let name = options.place.sandbox.as_deref().unwrap_or_default();
    drop(::sandbox::open(name, None, &Places::from_environment()?)?);
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let made = load_input(options, thresholds, &directory, &interrupt);
    if made.is_err() {
        // A refused command leaves no files.
        let _ = std::fs::remove_dir_all(&directory);
    }
    let (input, workload) = made?;
    make(&directory)?;
    let mut report = report(input, thresholds);
    let mut prover = FindingsProver {
        options,
        workload: &workload,
        directory: &directory,
        clock: &clock,
        interrupt: &interrupt,
        database: baseline_run::database_of(
            &workload,
            options.place.session.as_database.as_deref(),
        )?,
        proofs: 0,
        tried: Vec::new(),
    };
    report.proofs = prover.prove_all(&report.diagnosis.findings)?;
    experiments::write(&directory.join(RESULT), &to_json(&report))?;
    Ok(show(options, &report))
}

fn make(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| {
        Failure::could_not(format!("cannot make {}: {error}", directory.display()))
    })
}

/// Returns the evidence to diagnose, and the workload to replay in proofs.
fn load_input(
    options: &Diagnose,
    thresholds: &Thresholds,
    directory: &Path,
    interrupt: &Interrupt,
) -> Result<(DiagnosisInput, WorkloadReader), Failure> {
    let given = options.proving.workload.as_ref();
    let path = match (&options.target, &options.of) {
        (Some(url), _) => {
            let Some(path) = given else {
                return Err(Failure::usage(
                    "a server that is watched has no workload to replay; give one with --workload NAME.workload",
                ));
            };
            let workload = keys::open(path)?;
            return Ok((observe_target(options, url, thresholds)?, workload));
        }
        (None, Some(path)) => path,
        (None, None) => {
            return Err(Failure::usage(
                "nothing to diagnose was given; give a run, a workload, or --target URL",
            ));
        }
    };
    let name = path.display().to_string();
    match RunReader::open(path) {
        Ok(run) => {
            let workload = baseline_run::workload_of(&run, given)?;
            Ok((read_run(options, name, &run, thresholds)?, workload))
        }
        Err(ArchiveError::Foreign { .. }) => {
            let workload = workload(path)?;
            make(directory)?;
            let database =
                baseline_run::database_of(&workload, options.place.session.as_database.as_deref())?;
            let proof = proof(options, &workload, PathBuf::new());
            let engine = prove::replay_options(&proof);
            let output = directory.join(BASELINE_RUN);
            let mut lease = baseline_run::lease(options.place.sandbox.as_deref(), &database)?;
            let run = baseline_run::look(
                &mut lease,
                &workload,
                &engine,
                &output,
                interrupt,
                &mut Display::on_terminal(),
            );
            lease.release()?;
            Ok((read_run(options, name, &run?, thresholds)?, workload))
        }
        Err(error) => Err(error.into()),
    }
}

fn proof(options: &Diagnose, workload: &WorkloadReader, output: PathBuf) -> Prove {
    let path = workload.path().to_owned();
    Prove::in_sandbox(path, output, options.goal.clone(), &options.place)
}

struct FindingsProver<'a> {
    options: &'a Diagnose,
    workload: &'a WorkloadReader,
    directory: &'a Path,
    clock: &'a SystemClock,
    interrupt: &'a Interrupt,
    /// Database in which changes are made.
    database: String,
    /// Number of proofs started.
    proofs: u32,
    /// Measured changes, each with the title of its finding.
    tried: Vec<(Change, String)>,
}

impl FindingsProver<'_> {
    /// Proves each finding above the severity of a note, in the order of the possible gain.
    fn prove_all(&mut self, findings: &[Finding]) -> Result<Vec<FindingProof>, Failure> {
        let wanted: Vec<&Finding> = findings
            .iter()
            .filter(|one| one.severity != Severity::Note)
            .collect();
        let mut views = Vec::new();
        for (at, finding) in wanted.iter().enumerate() {
            let provable = wanted[at..].iter().filter(|one| sides(one, &[]).is_ok());
            let room = self
                .options
                .proving
                .max_findings
                .saturating_sub(self.proofs);
            let left = room.min(provable.count() as u32);
            views.push(self.prove_finding(finding, left)?);
        }
        Ok(views)
    }

    /// Proves one finding. `left` findings share the remaining time.
    fn prove_finding(&mut self, finding: &Finding, left: u32) -> Result<FindingProof, Failure> {
        let sides = match sides(finding, &self.tried) {
            Ok(sides) => sides,
            Err(why) => return Ok(not_measured(finding, why)),
        };
        if left == 0 {
            return Ok(not_measured(
                finding,
                match self.options.proving.max_findings {
                    1 => {
                        "one finding was proved before it; --max-findings N proves more".to_owned()
                    }
                    most => format!(
                        "{most} findings were proved before it; --max-findings N proves more"
                    ),
                },
            ));
        }
        if self.interrupt.is_asked() {
            return Ok(not_measured(finding, "it was stopped before".to_owned()));
        }
        let spent = Duration::from_nanos(self.clock.now_ns().max(0) as u64);
        let rest = self.options.goal.time_budget.saturating_sub(spent);
        if rest.is_zero() {
            return Ok(not_measured(
                finding,
                "the time was over; give more with --time-budget".to_owned(),
            ));
        }
        self.proofs += 1;
        terminal::note(&format!(
            "Proving what {} suggests: {}.",
            finding.rule, finding.title
        ));
        let output = self
            .directory
            .join(format!("{}-{}.proof", self.proofs, finding.rule));
        let mut proof = proof(self.options, self.workload, output);
        proof.goal.time_budget = rest / left;
        proof.place.changed_database = Some(self.database.clone());
        let changes: Vec<Change> = sides
            .iter()
            .flat_map(|side| side.changes.iter().cloned())
            .collect();
        let done = prove::perform(&proof, sides, self.workload, self.interrupt, &|_| Ok(()));
        let (journal, ended) = match done {
            Ok(done) => done,
            // A change that the server refuses, or too little time: the next may be possible.
            Err(failure) => return Ok(not_measured(finding, failure.message)),
        };
        let title = &finding.title;
        let changes = changes.into_iter().map(|one| (one, title.clone()));
        self.tried.extend(changes);
        let view = prove::written(&journal, ended, false)?;
        Ok(measured(finding, &view))
    }
}

/// Returns the unchanged side, and one for each change that can be made and was not measured
/// before; or the reason why there is none.
fn sides(finding: &Finding, tried: &[(Change, String)]) -> Result<Vec<ProofSide>, String> {
    let mut sides = vec![ProofSide::default()];
    let mut why: Option<String> = None;
    for suggestion in &finding.changes {
        match change(suggestion) {
            Ok(change) => match tried.iter().find(|(one, _)| *one == change) {
                Some((_, title)) => {
                    why = Some(format!(
                        "what it suggests was measured for another finding: {title}"
                    ));
                }
                None => sides.push(ProofSide {
                    name: change.name(),
                    changes: vec![change],
                }),
            },
            Err(reason) => why = why.or(Some(reason)),
        }
    }
    match sides.len() {
        1 => Err(why.unwrap_or_else(|| "it suggests no change".to_owned())),
        _ => Ok(sides),
    }
}

/// Converts a suggestion to a change of a proof.
fn change(suggestion: &Suggestion) -> Result<Change, String> {
    match &suggestion.form {
        Form::Sql(text) => {
            let name = one_line(text.trim().trim_end_matches(';'), NAME_MAX);
            ChangeScript::new(&name, text).map_err(|error| error.to_string())?;
            Ok(Change::Sql {
                path: name,
                text: text.clone(),
            })
        }
        Form::Setting(name, value) => Ok(Change::Settings(vec![Setting {
            name: name.clone(),
            value: value.clone(),
        }])),
        Form::Rewrite(text) => match text.parse::<Rewriting>() {
            Ok(_) => Ok(Change::Rewrite(text.clone())),
            Err(why) => Err(format!(
                "it suggests the rewrite {text}, which cannot be made: {why}"
            )),
        },
        Form::ByHand => Err(format!(
            "what it suggests can only be done by people: {}",
            suggestion.words
        )),
    }
}

fn not_measured(finding: &Finding, reason: String) -> FindingProof {
    FindingProof {
        rule: finding.rule,
        title: finding.title.clone(),
        max_gain: finding.max_gain,
        verdict: None,
        not_measured_reason: Some(reason),
        changes: Vec::new(),
        proof: None,
    }
}

fn measured(finding: &Finding, proof: &ProofView) -> FindingProof {
    let has = |verdict: &Verdict| proof.sides.iter().any(|side| side.verdict == *verdict);
    let best = [
        Verdict::Won,
        Verdict::Same,
        Verdict::NotProven,
        Verdict::Lost,
    ];
    let verdict = best.into_iter().find(has);
    FindingProof {
        verdict: verdict.or(Some(Verdict::NotProven)),
        not_measured_reason: None,
        changes: proof
            .sides
            .iter()
            .map(|side| FindingChange {
                name: side.name.clone(),
                verdict: side.verdict,
                effect: side.effect,
                is_worse: side.worse,
                slower: side.slower.len() as u64,
            })
            .collect(),
        proof: Some(proof.name.clone()),
        ..not_measured(finding, String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnose::Subject;

    fn finding(changes: Vec<Suggestion>) -> Finding {
        Finding {
            rule: "hot-updates",
            severity: Severity::Problem,
            subject: Subject::server(),
            title: "pages are full".to_owned(),
            evidence: Vec::new(),
            cost: None,
            max_gain: Some(0.3),
            changes,
            risk: String::new(),
        }
    }

    #[test]
    fn what_can_be_carried_out_becomes_a_side_each_and_what_cannot_says_why() {
        let text = "ALTER TABLE public.t SET (fillfactor = 80);\nVACUUM FULL public.t;";
        let all = finding(vec![
            Suggestion::sql("room", text),
            Suggestion::setting("memory", "work_mem", "64MB"),
            Suggestion::rewrite("batches", "batch-inserts=50"),
            Suggestion::by_hand("think"),
        ]);
        let made = sides(&all, &[]).unwrap();
        let names: Vec<&str> = made.iter().map(|side| side.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "",
                "ALTER TABLE public.t SET (fillfactor = 80); VACUUM FULL public.t",
                "work_mem=64MB",
                "batch-inserts=50"
            ]
        );
        // Each statement of it is sent separately: VACUUM cannot be in a transaction with another.
        assert_eq!(sql::statement_texts(text).len(), 2);
        let tried: Vec<(Change, String)> = made[1..]
            .iter()
            .map(|side| (side.changes[0].clone(), "first".to_owned()))
            .collect();
        let why = sides(&all, &tried).unwrap_err();
        assert!(why.contains("measured for another finding: first"), "{why}");
        let why = sides(&finding(vec![Suggestion::by_hand("think")]), &[]).unwrap_err();
        assert!(why.ends_with("by people: think"), "{why}");
        let rewrite = Suggestion::rewrite("x", "fly");
        let why = sides(&finding(vec![rewrite]), &[]).unwrap_err();
        assert!(why.contains("fly, which cannot be made"), "{why}");
    }
}
