//! `rehearse export-evidence`: packs everything that is needed to reproduce a run into one
//! archive.

mod contents;
mod pack;

use std::path::{Path, PathBuf};

use report::{ArtefactView, EvidenceView, evidence_text, to_json};
use run::RunReader;
use workload::WorkloadReader;

use crate::exit_status::ExitStatus;
use crate::options::export_evidence::ExportEvidence;
use crate::terminal;
use study::Failure;

use contents::Contents;
use pack::Pack;

/// File name extension of an archive.
const ENDING: &str = ".tar.zst";

/// Packs a run's evidence, and shows the included and the missing items.
pub fn run(options: &ExportEvidence) -> Result<ExitStatus, Failure> {
    let reader = RunReader::open(&options.run)?;
    reader.verify()?;
    let output = match &options.output {
        Some(output) => output.clone(),
        None => default_output(&options.run),
    };
    if !output.display().to_string().ends_with(ENDING) {
        return Err(Failure::usage(format!(
            "-o {} does not say what is written; give a name that ends in {ENDING}",
            output.display()
        )));
    }
    let workload = match &options.with_workload {
        Some(path) => Some(open_workload(&reader, path)?),
        None => None,
    };
    let name = options.run.display().to_string();
    let mut pack = match options.dry_run {
        true => Pack::dry_run(),
        false => {
            let at_s = reader.info().started_wall_us / 1_000_000;
            Pack::begin(&output, u64::try_from(at_s).unwrap_or(0))?
        }
    };
    let mut contents = Contents::of(&reader, &name, options.show_literals);
    contents.gather(&mut pack)?;
    let mut left_out = contents.left_out();
    if options.with_run {
        pack.directory("run.run", &options.run)?;
    } else {
        left_out.push(
            "the run itself, whose messages and plans may have values in them: --with-run"
                .to_owned(),
        );
    }
    match &workload {
        Some(workload) => pack.directory("workload.workload", workload.path())?,
        None if reader.info().is_observation() => {}
        None => left_out.push(
            "the workload, which has the statements as they were sent: --with-workload NAME.workload (one made with --mask can be shown)".to_owned(),
        ),
    }
    let artefacts: Vec<ArtefactView> = contents.artefacts;
    let view = EvidenceView::new(
        &name,
        env!("CARGO_PKG_VERSION"),
        &reader,
        left_out,
        artefacts,
    );
    pack.file("evidence.json", to_json(&view).as_bytes())?;
    let packed = pack.finish()?;
    if options.json {
        terminal::say_line(&to_json(&view));
    } else {
        terminal::say(&evidence_text::render_text(
            &view,
            options.dry_run,
            &terminal::style(),
        ));
    }
    if let Some(bytes) = packed {
        terminal::note(&format!(
            "{} is written, {}.",
            output.display(),
            indicatif::BinaryBytes(bytes)
        ));
    }
    Ok(ExitStatus::Success)
}

/// Returns `NAME.evidence.tar.zst` next to `NAME.run`.
fn default_output(run: &Path) -> PathBuf {
    let name = run.file_stem().unwrap_or(run.as_os_str());
    run.with_file_name(format!("{}.evidence{ENDING}", name.display()))
}

/// Opens the workload of the run, and refuses another.
fn open_workload(run: &RunReader, path: &Path) -> Result<WorkloadReader, Failure> {
    let workload = WorkloadReader::open(path)?;
    let wanted = &run.info().workload;
    if workload.id() != wanted.id {
        return Err(Failure::usage(format!(
            "{} is not what was replayed: that was {} with the id {}, and this has {}; give that one",
            path.display(),
            wanted.name,
            wanted.id,
            workload.id()
        )));
    }
    workload.verify()?;
    Ok(workload)
}
