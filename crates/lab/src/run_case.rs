//! Runs a case, and writes its results.

use std::path::Path;

use ::sandbox::Options as SandboxOptions;
use report::flame::{FlameTitles, flame_picture};
use report::{CaseReport, case_page, output_file, to_json};
use study::Failure;

use crate::case::{Case, CaseName, CaseRequest, Context, Scale};
use crate::stage::Stage;
use crate::{heap, planning, queue, stall};

/// Page in the case's directory.
const PAGE: &str = "case.html";
/// Report in the case's directory.
const REPORT: &str = "case.json";

/// Function that runs the steps of a case.
type RunSteps = fn(Stage, Scale) -> Result<CaseReport, Failure>;

/// Runs a case, and writes its page and its report into the case's directory.
///
/// # Errors
/// If the directory is in use, or a step cannot be carried out.
pub fn run_case(request: &CaseRequest, context: Context) -> Result<CaseReport, Failure> {
    let (case, run): (Case, RunSteps) = match request.name {
        CaseName::Heap => (heap::CASE, heap::run),
        CaseName::Planning => (planning::CASE, planning::run),
        CaseName::Queue => (queue::CASE, queue::run),
        CaseName::Stall => (stall::CASE, stall::run),
    };
    let directory = match &request.output {
        Some(output) => output.clone(),
        None => Path::new("rehearse-lab").join(case.name),
    };
    let options = SandboxOptions {
        // A comparison then does not depend on times alone, which a busy machine makes doubtful. The other
        // cases measure what a server does that counts nothing.
        statement_statistics: request.name == CaseName::Stall,
        ..SandboxOptions::default()
    };
    let stage = Stage::create(case, &directory, (&request.server, options), context)?;
    let report = run(stage, request.scale)?;
    let picture = |file: &str| draw_flame_graph(&directory.join(file));
    let page = case_page::render_html(&report, &picture);
    output_file::write(output_file::PAGE, &directory.join(PAGE), &page)?;
    let path = directory.join(REPORT);
    std::fs::write(&path, to_json(&report))
        .map_err(|error| Failure::could_not(format!("{}: {error}", path.display())))?;
    Ok(report)
}

/// Draws a flame graph as a picture without scripts, from the folded stacks next to its file.
fn draw_flame_graph(file: &Path) -> Option<String> {
    let stacks = std::fs::read_to_string(file.with_extension("folded")).ok()?;
    let lines: Vec<String> = stacks.lines().map(str::to_owned).collect();
    let titles = FlameTitles {
        unit: "samples".to_owned(),
        ..FlameTitles::default()
    };
    flame_picture(&lines, &titles).ok()
}
