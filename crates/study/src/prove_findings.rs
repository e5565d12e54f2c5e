//! Measures the changes that the findings of a diagnosis suggest, one finding after another,
//! within the time budget.
//!
//! The result has the measured effect of each finding's changes, or the reason why they were not
//! measured.

use std::path::Path;
use std::time::Duration;

use archive::ArchiveError;
use clock::{Clock, SystemClock};
use compare::proof::Verdict;
use diagnose::{Change as Suggestion, Finding, Form, Severity};
use run::RunReader;
use transform::Rewrite;
use workload::WorkloadReader;

use crate::baseline_run;
use crate::change_script::ChangeScript;
use crate::diagnosis::{DiagnosisInput, DiagnosisOptions, open_workload};
use crate::diagnosis_report::{FindingChange, FindingProof, UnmeasuredChange};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes;
use crate::observed_replay::ReplayDisplay;
use crate::proof::{
    Change, ProofDisplay, ProofJournal, ProofReport, ProofRequest, ProofSide, perform_proof,
};
use crate::runner::EndReason;
use crate::sweep::Setting;

/// Replay that was diagnosed, in the output directory.
pub(crate) const BASELINE_RUN: &str = "look.run";
/// Longest name of a change, in characters of its SQL.
const NAME_MAX: usize = 100;

/// Request of the proofs of findings.
#[derive(Debug)]
pub struct FindingsRequest<'a> {
    /// Goal and sandbox. The output is the directory of all proofs, and the time budget that of all proofs.
    pub proof: &'a ProofRequest,
    /// Largest number of findings to prove.
    pub max_findings: u32,
    /// Clock that was started with the command. The time budget begins with it.
    pub clock: &'a SystemClock,
    /// Stops the proofs.
    pub interrupt: &'a Interrupt,
}

impl FindingsRequest<'_> {
    /// Returns the rest of the time budget.
    pub(crate) fn time_left(&self) -> Duration {
        let spent = Duration::from_nanos(self.clock.now_ns().max(0) as u64);
        self.proof.goal.time_budget.saturating_sub(spent)
    }
}

/// Shows and stores each proof.
pub trait FindingProofs {
    /// Returns the display of the next proof.
    fn display(&mut self) -> &mut dyn ProofDisplay;

    /// Summarises a finished proof, and writes its files.
    ///
    /// # Errors
    /// If a run cannot be read, or a file cannot be written.
    fn finish(&mut self, journal: &ProofJournal, ended: EndReason) -> Result<ProofReport, Failure>;
}

/// Returns what to diagnose, and the workload to replay in proofs. A workload is replayed once for the diagnosis.
///
/// # Errors
/// If the path or the given workload cannot be read, or the replay fails.
pub fn read_input(
    request: &FindingsRequest<'_>,
    path: &Path,
    given: Option<&std::path::PathBuf>,
    options: DiagnosisOptions<'_>,
    display: &mut dyn ReplayDisplay,
) -> Result<(DiagnosisInput, WorkloadReader), Failure> {
    let name = path.display().to_string();
    match RunReader::open(path) {
        Ok(run) => {
            let workload = baseline_run::open_workload_of_run(&run, given)?;
            Ok((DiagnosisInput::of_run(name, &run, options)?, workload))
        }
        Err(ArchiveError::WrongKind { .. } | ArchiveError::OtherKind { .. }) => {
            let workload = open_workload(path)?;
            let directory = &request.proof.output;
            make(directory)?;
            let place = &request.proof.place;
            let database = baseline_run::choose_database(&workload, place.database.as_deref())?;
            let output = directory.join(BASELINE_RUN);
            let mut lease = baseline_run::lease_sandbox(place.sandbox.as_deref(), &database)?;
            let replay = &request.proof.replay;
            let interrupt = request.interrupt;
            let run = baseline_run::replay_baseline(
                &mut lease, &workload, replay, &output, interrupt, display,
            );
            lease.release()?;
            Ok((DiagnosisInput::of_run(name, &run?, options)?, workload))
        }
        Err(error) => Err(error.into()),
    }
}

fn make(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| {
        Failure::could_not(format!("cannot make {}: {error}", directory.display()))
    })
}

/// Proves each finding above the severity of a note, in the order of the possible gain.
///
/// # Errors
/// If the directory cannot be created, or the result of a proof cannot be written.
pub fn prove_findings(
    request: &FindingsRequest<'_>,
    workload: &WorkloadReader,
    findings: &[Finding],
    proofs: &mut dyn FindingProofs,
) -> Result<Vec<FindingProof>, Failure> {
    make(&request.proof.output)?;
    let given = request.proof.place.database.as_deref();
    let mut prover = FindingsProver {
        request,
        workload,
        database: baseline_run::choose_database(workload, given)?,
        number: 0,
        tried: Vec::new(),
        proofs,
    };
    prover.prove_all(findings)
}

struct FindingsProver<'a> {
    request: &'a FindingsRequest<'a>,
    workload: &'a WorkloadReader,
    /// Database in which changes are made.
    database: String,
    /// Number of proofs started.
    number: u32,
    /// Measured changes, each with the title of its finding.
    tried: Vec<(Change, String)>,
    proofs: &'a mut dyn FindingProofs,
}

impl FindingsProver<'_> {
    fn prove_all(&mut self, findings: &[Finding]) -> Result<Vec<FindingProof>, Failure> {
        let wanted: Vec<&Finding> = findings
            .iter()
            .filter(|one| one.severity != Severity::Note)
            .collect();
        let mut all = Vec::new();
        for (at, finding) in wanted.iter().enumerate() {
            let provable = wanted[at..].iter().filter(|one| sides(one, &[]).is_ok());
            let room = self.request.max_findings.saturating_sub(self.number);
            let left = room.min(provable.count() as u32);
            all.push(self.prove_finding(finding, left)?);
        }
        Ok(all)
    }

    /// Proves one finding. `left` findings share the remaining time.
    fn prove_finding(&mut self, finding: &Finding, left: u32) -> Result<FindingProof, Failure> {
        let (sides, unmeasured) = match sides(finding, &self.tried) {
            Ok(found) => found,
            Err(why) => return Ok(not_measured(finding, why)),
        };
        if let Some(why) = self.obstacle(left) {
            return Ok(not_measured(finding, why));
        }
        self.number += 1;
        notes::note(&format!(
            "Proving what {} suggests: {}.",
            finding.rule, finding.title
        ));
        let mut proof = self.request.proof.clone();
        proof
            .output
            .push(format!("{}-{}.proof", self.number, finding.rule));
        proof.goal.time_budget = self.request.time_left() / left;
        proof.place.database = Some(self.database.clone());
        let changes: Vec<Change> = sides
            .iter()
            .flat_map(|side| side.changes.iter().cloned())
            .collect();
        let interrupt = self.request.interrupt;
        let begun = &|_: &Path| Ok(());
        let display = self.proofs.display();
        let done = perform_proof(&proof, sides, self.workload, interrupt, begun, display);
        let (journal, ended) = match done {
            Ok(done) => done,
            // A change that the server refuses, or too little time: the next may be possible.
            Err(failure) => return Ok(not_measured(finding, failure.message)),
        };
        let title = &finding.title;
        let changes = changes.into_iter().map(|one| (one, title.clone()));
        self.tried.extend(changes);
        let report = self.proofs.finish(&journal, ended)?;
        Ok(measured(finding, &report, unmeasured))
    }

    /// Returns the reason why no further finding is proved.
    fn obstacle(&self, left: u32) -> Option<String> {
        if left == 0 {
            return Some(match self.request.max_findings {
                0 => "--max-findings was 0; --max-findings N proves N findings".to_owned(),
                1 => "one finding was proved before it; --max-findings N proves more".to_owned(),
                most => {
                    format!("{most} findings were proved before it; --max-findings N proves more")
                }
            });
        }
        if self.request.interrupt.is_requested() {
            return Some("it was stopped before".to_owned());
        }
        let is_over = self.request.time_left().is_zero();
        is_over.then(|| "the time was over; give more with --time-budget".to_owned())
    }
}

/// Sides to measure, and the changes that are not measured.
type Sides = (Vec<ProofSide>, Vec<UnmeasuredChange>);

/// Returns the unchanged side, and one for each change that can be made and was not measured
/// before; or the reason why there is none.
fn sides(finding: &Finding, tried: &[(Change, String)]) -> Result<Sides, String> {
    let mut sides = vec![ProofSide::default()];
    let mut unmeasured = Vec::new();
    let mut why: Option<String> = None;
    for suggestion in &finding.changes {
        match change(suggestion) {
            Ok(change) => match tried.iter().find(|(one, _)| *one == change) {
                Some((_, title)) => {
                    why = Some(format!(
                        "what it suggests was measured for another finding: {title}"
                    ));
                    unmeasured.push(UnmeasuredChange {
                        name: change.name(),
                        reason: format!("it was measured for another finding: {title}"),
                    });
                }
                None => sides.push(ProofSide {
                    name: change.name(),
                    changes: vec![change],
                }),
            },
            Err(reason) => {
                unmeasured.push(UnmeasuredChange {
                    name: suggestion.words.clone(),
                    reason: reason.clone(),
                });
                why = why.or(Some(match suggestion.form {
                    Form::ByHand => format!("{reason}: {}", suggestion.words),
                    _ => reason,
                }));
            }
        }
    }
    match sides.len() {
        1 => Err(why.unwrap_or_else(|| "it suggests no change".to_owned())),
        _ => Ok((sides, unmeasured)),
    }
}

/// Converts a suggestion to a change of a proof.
fn change(suggestion: &Suggestion) -> Result<Change, String> {
    match &suggestion.form {
        Form::Sql(text) => {
            let name = change_name(text.trim().trim_end_matches(';'));
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
        Form::Rewrite(text) => match text.parse::<Rewrite>() {
            Ok(_) => Ok(Change::Rewrite(text.clone())),
            Err(why) => Err(format!(
                "it suggests the rewrite {text}, which cannot be made: {why}"
            )),
        },
        Form::ByHand => Err("what it suggests can only be done by people".to_owned()),
    }
}

/// Returns the name of a change by SQL: its text on one line.
fn change_name(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(NAME_MAX) {
        None => line,
        Some(_) => {
            let kept: String = line.chars().take(NAME_MAX - 1).collect();
            format!("{}…", kept.trim_end())
        }
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
        unmeasured: Vec::new(),
        proof: None,
    }
}

fn measured(
    finding: &Finding,
    proof: &ProofReport,
    unmeasured: Vec<UnmeasuredChange>,
) -> FindingProof {
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
        unmeasured,
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
            status: Default::default(),
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
            Suggestion::manual("think"),
        ]);
        let (made, unmeasured) = sides(&all, &[]).unwrap();
        assert_eq!(unmeasured.len(), 1);
        assert_eq!(unmeasured[0].name, "think");
        assert!(unmeasured[0].reason.ends_with("by people"));
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
        let why = sides(&finding(vec![Suggestion::manual("think")]), &[]).unwrap_err();
        assert!(why.ends_with("by people: think"), "{why}");
        let rewrite = Suggestion::rewrite("x", "fly");
        let why = sides(&finding(vec![rewrite]), &[]).unwrap_err();
        assert!(why.contains("fly, which cannot be made"), "{why}");
    }
}
