//! Result, pages and comparisons in the directory of an experiment.

use std::path::Path;

use compare::Comparison;
use study::proof::{ProofJournal, ProofReport, SideRenderer};
use study::sweep::{SweepJournal, SweepReport};
use study::upgrade_rehearsal::UpgradeReport;
use study::{EndReason, Failure};
use workload::{Literals, RewriteNote};

use crate::html::{compare_page, proof_page, sweep_page, upgrade_page};
use crate::json::{to_document, to_json};
use crate::output_file;
use crate::text::rewrite_text;

/// Page in an experiment's directory.
const PAGE: &str = "report.html";
/// Result of a proof.
const PROOF: &str = "proof.json";
/// Result of a sweep.
const SWEEP: &str = "sweep.json";
/// Result of a rehearsal of an upgrade.
const UPGRADE: &str = "report.json";

/// Computes the report of a proof, and writes it, its page and the comparisons next to the journal.
///
/// # Errors
/// If a run cannot be read, or a file cannot be written.
pub fn write_proof(
    journal: &ProofJournal,
    ended: EndReason,
    literals: Literals,
) -> Result<ProofReport, Failure> {
    let report =
        study::proof::summarise(journal, ended, literals, &mut ProofPages(journal.path()))?;
    write(journal.path(), &proof_page::render_html(&report))?;
    write_text(&journal.path().join(PROOF), &to_json(&report))?;
    Ok(report)
}

/// Computes the report of a sweep, and writes it and its page next to the journal.
///
/// # Errors
/// If a file cannot be written.
pub fn write_sweep(
    journal: &SweepJournal,
    ended: Option<EndReason>,
) -> Result<SweepReport, Failure> {
    let report = study::sweep::summarise(journal, ended);
    write(journal.path(), &sweep_page::render_html(&report))?;
    write_text(&journal.path().join(SWEEP), &to_json(&report))?;
    Ok(report)
}

/// Writes the report of a rehearsal of an upgrade and its page into its directory.
///
/// # Errors
/// If a file cannot be written.
pub fn write_upgrade(directory: &Path, report: &UpgradeReport) -> Result<(), Failure> {
    write(directory, &upgrade_page::render_html(report))?;
    write_text(&directory.join(UPGRADE), &to_document(report))
}

/// Writes a text into an experiment's directory.
///
/// # Errors
/// If it cannot be written. The message has its name.
pub fn write_text(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text)
        .map_err(|error| Failure::could_not(format!("cannot write {}: {error}", file.display())))
}

fn write(directory: &Path, page: &str) -> Result<(), Failure> {
    output_file::write(output_file::PAGE, &directory.join(PAGE), page)
}

/// Renders the sides of a proof into its directory.
struct ProofPages<'a>(&'a Path);

impl SideRenderer for ProofPages<'_> {
    fn comparison(&mut self, file: &str, comparison: &Comparison) -> Result<(), Failure> {
        let html = compare_page::render_html(comparison);
        output_file::write(output_file::PAGE, &self.0.join(file), &html)
    }

    fn rewriting(&self, note: &RewriteNote) -> Vec<String> {
        rewrite_text::sentences(note)
    }
}
