//! Code that sweeps and proofs share.

use std::path::Path;

use crate::commands::outputs;
use study::Failure;

/// Page in an experiment's directory.
const PAGE: &str = "report.html";

/// Writes a result as JSON, and its page, into an experiment's directory.
///
/// # Errors
/// If a file cannot be written.
pub fn write_results(directory: &Path, name: &str, json: &str, page: &str) -> Result<(), Failure> {
    outputs::write(outputs::PAGE, &directory.join(PAGE), page)?;
    write(&directory.join(name), json)
}

/// Writes a file.
///
/// # Errors
/// If it cannot be written. The message has its name.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text)
        .map_err(|error| Failure::could_not(format!("cannot write {}: {error}", file.display())))
}
