//! `rehearse cpu`: breaks down the CPU time of a profile.

use std::path::Path;

use cpu_profile::phases::PhaseReport;
use report::{phases_text, to_document};
use run::RunReader;

use crate::exit_status::ExitStatus;
use crate::options::profiling::Cpu;
use crate::terminal;
use study::Failure;
use study::profile_samples::{ProfileSamples, SampleFilter};
use study::run_time::break_down_processor;

/// Reads the profile and shows its phases.
pub fn run(options: &Cpu) -> Result<ExitStatus, Failure> {
    show(
        &options.run,
        &SampleFilter::from(&options.choice),
        options.top,
        options.json,
    )?;
    Ok(ExitStatus::Success)
}

/// Shows the phases of a run's profile.
///
/// # Errors
/// If the run has no profile or cannot be read.
pub fn show(path: &Path, choice: &SampleFilter, top: usize, json: bool) -> Result<(), Failure> {
    let profiled = ProfileSamples::open(RunReader::open(path)?, choice)?;
    let (account, others) = profiled.phases()?;
    let name = path.display().to_string();
    let info = profiled.profile.info();
    let processor = break_down_processor(&RunReader::open(path)?)?;
    let share = |fingerprint| Some(processor.as_ref()?.processor_share(fingerprint));
    let texts = profiled.read_texts()?;
    let view = PhaseReport::new(&name, info, &account, others, &texts, top, share);
    if json {
        terminal::say_line(&to_document(&view));
    } else {
        terminal::say(&phases_text::render_text(&view, &terminal::style()));
    }
    Ok(())
}
