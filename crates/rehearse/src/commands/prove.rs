//! `rehearse prove`: measures a change against the unchanged database on the same traffic, and
//! gives a verdict.

use std::path::{Path, PathBuf};

use compare::proof::Verdict;
use report::notification::Notification;
use report::output_file::{self, SARIF};
use report::proof_progress::ProofNarrator;
use report::sarif::proof_sarif;
use report::{proof_text, result_files, to_json};
use study::baseline_run;
use study::keys;
use study::proof::{ProofEnd, ProofJournal, ProofReport, perform_proof, sides};
use study::{EndReason, Failure};

use crate::commands::show::literals;
use crate::exit_status::ExitStatus;
use crate::options::Prove;
use crate::terminal;
use crate::webhook::Webhook;

/// Proves, or shows a finished proof again.
pub fn run(options: &Prove) -> Result<ExitStatus, Failure> {
    let form = (options.json, options.show_literals);
    if ProofJournal::is_at(&options.workload) {
        return show_again(&options.workload, form);
    }
    let webhook = Webhook::from_args(&options.notifying)?;
    let mut request = options.request()?;
    let sides = sides::build_sides(&(&options.changes).into())?;
    sides::side_conditions(&sides)?;
    let whole = keys::open_workload(&options.workload)?;
    let place = &mut request.place;
    if place.sandbox.is_some() {
        let database = baseline_run::choose_database(&whole, place.database.as_deref())?;
        place.database = Some(database);
    }
    let sarif = options.sarif.as_deref().map(|path| (SARIF, path));
    let outputs = output_file::begin(sarif.as_slice())?;
    let proven_sides = sides.clone();
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let narrator = &mut ProofNarrator::default();
    let (journal, ended) =
        perform_proof(&request, sides, &whole, &interrupt, &|_| Ok(()), narrator)?;
    let proof = print_proof(&journal, ended, form)?;
    for output in outputs {
        output.finish(&proof_sarif(&proof, &proven_sides))?;
    }
    if let Some(webhook) = webhook {
        webhook.post(&Notification::of_proof(&proof));
    }
    Ok(exit_status(&proof))
}

/// Returns the output of a proof.
///
/// # Errors
/// If it is missing.
pub fn required(output: Option<&Path>) -> Result<PathBuf, Failure> {
    output
        .map(Path::to_owned)
        .ok_or_else(|| Failure::usage("nothing says where the result goes; give -o NAME.proof"))
}

/// Shows a finished proof again.
///
/// # Errors
/// As [`show`].
pub fn show_again(directory: &Path, form: (bool, bool)) -> Result<ExitStatus, Failure> {
    show(&ProofJournal::open(directory)?, EndReason::Complete, form)
}

/// Prints the result, and writes it and the comparisons next to the journal. `json` and `show_literals` are the options
/// of these names.
///
/// # Errors
/// If a run cannot be read, or a file cannot be written.
pub fn show(
    journal: &ProofJournal,
    ended: EndReason,
    form: (bool, bool),
) -> Result<ExitStatus, Failure> {
    Ok(exit_status(&print_proof(journal, ended, form)?))
}

fn print_proof(
    journal: &ProofJournal,
    ended: EndReason,
    (json, show_literals): (bool, bool),
) -> Result<ProofReport, Failure> {
    let proof = result_files::write_proof(journal, ended, literals(show_literals))?;
    if json {
        terminal::say_line(&to_json(&proof));
    } else {
        terminal::say(&proof_text::render_text(&proof, &terminal::style()));
    }
    Ok(proof)
}

/// Returns the exit status, and prints the changes of which nothing is proven.
fn exit_status(proof: &ProofReport) -> ExitStatus {
    if proof.sides.iter().any(|side| side.worse) || proof.ended == ProofEnd::Stopped {
        return ExitStatus::Findings;
    }
    let unclear: Vec<&str> = proof
        .sides
        .iter()
        .filter(|side| side.verdict == Verdict::NotProven)
        .map(|side| side.name.as_str())
        .collect();
    if unclear.is_empty() {
        return ExitStatus::Success;
    }
    terminal::complain(&format!(
        "{}: not proven, neither won nor lost nor the same; give more time (--time-budget, --blocks), a longer workload, or a wider --margin",
        unclear.join(", ")
    ));
    ExitStatus::NotProven
}
