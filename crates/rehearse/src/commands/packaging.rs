//! `rehearse completions` and `rehearse man`: files that a package installs with the program.

use std::fs;

use clap::CommandFactory;
use study::Failure;

use crate::exit_status::ExitStatus;
use crate::options::Program;
use crate::options::packaging::{Completions, Man};
use crate::terminal;

/// Prints the completion script of a shell.
pub fn print_completions(options: &Completions) -> Result<ExitStatus, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        options.shell,
        &mut Program::command(),
        "rehearse",
        &mut script,
    );
    terminal::say(&String::from_utf8_lossy(&script));
    Ok(ExitStatus::Success)
}

/// Writes a manual page for the program and for each of its commands.
pub fn write_manual(options: &Man) -> Result<ExitStatus, Failure> {
    let dir = &options.directory;
    fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Program::command(), dir))
        .map_err(|error| {
            Failure::could_not(format!(
                "the manual pages cannot be written to {}: {error}; give a directory that you may write to",
                dir.display()
            ))
        })?;
    terminal::say_line(&format!("manual pages are in {}", dir.display()));
    Ok(ExitStatus::Success)
}
