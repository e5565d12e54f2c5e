//! Exports what the planner of a server reads.

use std::path::{Path, PathBuf};

use planner_copy::ValueMask;
use replay::{LoginMap, Target};
use transform::mask::Mask;

use crate::failure::Failure;

/// Report on an export.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanExportReport {
    /// File that was written.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Time that the export took, in nanoseconds.
    pub elapsed_ns: i64,
    /// Version of the server.
    pub server_version: String,
    /// Database.
    pub database: String,
    /// Number of tables and materialized views, and of indexes.
    pub relations: (u64, u64),
    /// Size of them in bytes.
    pub relation_bytes: u64,
    /// Number of columns with statistics.
    pub columns: u64,
    /// Fingerprint of the key with which values are masked; `None` if they are not.
    pub mask_key: Option<String>,
    /// Parts that could not be exported: subject and reason.
    pub not_exported: Vec<(String, String)>,
}

/// Exports the target's database into a file, with a mask if the values in statistics must not be in it.
///
/// # Errors
/// If the file exists or cannot be written, or the server refuses.
pub fn export_planner(
    target: &Target,
    output: &Path,
    mask: Option<&Mask>,
) -> Result<PlanExportReport, Failure> {
    if output.symlink_metadata().is_ok() {
        return Err(Failure::usage(format!(
            "cannot write to {}: it already exists; remove it or choose another -o",
            output.display()
        )));
    }
    let login = LoginMap::default().login(target, "", "", "rehearse");
    let begun_ns = clock::monotonic_ns();
    // Statistics need no keys of JSON, which can be data.
    let mask = mask.cloned().map(|mut mask| {
        mask.mask_json_keys();
        mask
    });
    let replace = |text: &str| {
        mask.as_ref()
            .map_or_else(String::new, |mask| mask.replace(text))
    };
    let mask = mask.as_ref().map(|mask| ValueMask {
        key: mask.key().fingerprint().to_owned(),
        replace: &replace,
    });
    let export = planner_copy::export(target, &login, mask.as_ref())?;
    export.write(output)?;
    let count = |kinds: &[&str]| {
        let relations = export.relations.iter();
        relations
            .filter(|one| kinds.contains(&one.kind.as_str()))
            .count() as u64
    };
    let pages: u64 = export
        .relations
        .iter()
        .map(|one| u64::from(one.pages))
        .sum();
    Ok(PlanExportReport {
        path: output.to_owned(),
        bytes: output.metadata().map_or(0, |known| known.len()),
        elapsed_ns: clock::monotonic_ns() - begun_ns,
        relations: (count(&["r", "m", "p"]), count(&["i", "I"])),
        relation_bytes: pages * u64::from(export.block_size),
        columns: export.statistics.len() as u64,
        server_version: export.server_version,
        database: export.database,
        mask_key: export.mask_key,
        not_exported: export
            .not_exported
            .into_iter()
            .map(|one| (one.subject, one.reason))
            .collect(),
    })
}

#[cfg(test)]
mod tests;
