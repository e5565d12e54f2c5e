//! Writing a page where the user wants it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::ending::Failure;
use crate::terminal;

/// How every page begins.
const PAGE_START: &[u8] = b"<!DOCTYPE html>";

/// Writes a page, for its owner alone: SQL holds secrets, and a page may have been asked to show
/// them. A page of that name is written over, and nothing else.
///
/// # Errors
/// Where it cannot be written, or something else has that name.
pub fn write(path: &Path, page: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::could_not(format!(
            "the page {} cannot be written ({error}); give --html a file in a directory that you may write to",
            path.display()
        ))
    };
    if path.is_file() {
        let mut start = Vec::new();
        File::open(path)
            .and_then(|file| file.take(PAGE_START.len() as u64).read_to_end(&mut start))
            .map_err(failed)?;
        if !start.is_empty() && !start.eq_ignore_ascii_case(PAGE_START) {
            return Err(Failure::usage(format!(
                "{} is there and is no page, so it is not written over; give --html another name",
                path.display()
            )));
        }
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    file.write_all(page.as_bytes()).map_err(failed)?;
    terminal::note(&format!("wrote {}; open it in a browser", path.display()));
    Ok(())
}
