//! Packs everything that is needed to reproduce a run into one archive.

mod contents;
mod pack;
mod report;

use std::path::{Path, PathBuf};

use ::run::RunReader;
use serde::Serialize;
use workload::{Literals, WorkloadReader};

use crate::failure::Failure;
use contents::Contents;
use pack::Pack;

pub use report::{EvidenceArtefact, EvidenceReport};

/// File name extension of an archive.
const ENDING: &str = ".tar.zst";

/// Request of an archive.
#[derive(Debug, Clone, Copy)]
pub struct ExportRequest<'r> {
    /// The run, and its name.
    pub run: (&'r RunReader, &'r str),
    /// File to write; `None` lists the contents only.
    pub output: Option<&'r Path>,
    /// Whether the run itself is included.
    pub with_run: bool,
    /// Workload to include.
    pub with_workload: Option<&'r Path>,
    /// Whether values in messages and plans are included.
    pub literals: Literals,
    /// Name and version of the program.
    pub program: (&'r str, &'r str),
    /// Summary of the run, as a JSON document.
    pub summary: &'r str,
}

/// Packs a run's evidence. Returns the contents, and the size of the archive in bytes if one was written.
///
/// # Errors
/// If the run cannot be read, the workload is another, or the archive cannot be written.
pub fn export_evidence(
    request: &ExportRequest<'_>,
) -> Result<(EvidenceReport, Option<u64>), Failure> {
    let (reader, name) = request.run;
    let workload = match request.with_workload {
        Some(path) => Some(open_workload(reader, path)?),
        None => None,
    };
    let mut pack = match request.output {
        None => Pack::dry_run(),
        Some(output) => {
            let at_s = reader.info().started_wall_us / 1_000_000;
            Pack::begin(output, u64::try_from(at_s).unwrap_or(0))?
        }
    };
    let named = (name, request.summary);
    let mut contents = Contents::of(reader, named, request.literals, request.program);
    contents.gather(&mut pack)?;
    let mut left_out = contents.left_out();
    if request.with_run {
        pack.directory("run.run", reader.path())?;
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
    let artefacts = contents.artefacts;
    let report = EvidenceReport::new(name, request.program.1, reader, left_out, artefacts);
    pack.file("evidence.json", to_json(&report).as_bytes())?;
    let packed = pack.finish()?;
    Ok((report, packed))
}

/// Returns the file to write: the given one, or `NAME.evidence.tar.zst` next to `NAME.run`.
///
/// # Errors
/// If the given name has another ending.
pub fn output_path(run: &Path, given: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(output) = given else {
        let name = run.file_stem().unwrap_or(run.as_os_str());
        return Ok(run.with_file_name(format!("{}.evidence{ENDING}", name.display())));
    };
    match output.display().to_string().ends_with(ENDING) {
        true => Ok(output.to_owned()),
        false => Err(Failure::usage(format!(
            "-o {} does not say what is written; give a name that ends in {ENDING}",
            output.display()
        ))),
    }
}

/// Opens the workload of the run, and refuses another.
fn open_workload(run: &RunReader, path: &Path) -> Result<WorkloadReader, Failure> {
    let workload = WorkloadReader::open(path)?;
    if workload.parts().is_some() {
        return Err(Failure::usage(format!(
            "{} is a series, which cannot be packed: make a workload of the part that matters with `rehearse slice`, replay that, and pack its run",
            path.display()
        )));
    }
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

/// Returns a value as indented JSON, with a line feed at its end.
fn to_json<V: Serialize>(value: &V) -> String {
    serde_json::to_string_pretty(value).expect("plain data") + "\n"
}
