//! `rehearse cpu`: breaks down the CPU time of a profile.

use std::path::Path;

use cpu_profile::phases::{PhaseAccount, PhaseReport, Placement, Rules, SampleTime};
use report::{phases_text, to_document};
use run::RunReader;

use crate::exit_status::ExitStatus;
use crate::options::profiling::Cpu;
use crate::terminal;
use study::Failure;
use study::profile_samples::{Profiled, SampleFilter};

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

/// Returns the phases of a run's profile, and the CPU time of one sample. The inner error is the
/// reason why there is no profile.
///
/// # Errors
/// If the run cannot be read.
pub fn account(path: &Path) -> Result<Result<(PhaseAccount, SampleTime), String>, Failure> {
    let run = RunReader::open(path)?;
    let Some(profile) = run.profile()? else {
        return Ok(Err("no CPU profile was taken".to_owned()));
    };
    if let Some(off) = &profile.info().off {
        return Ok(Err(off.clone()));
    }
    let each = SampleTime::of(profile.info());
    let profiled = Profiled::open(run, &SampleFilter::default())?;
    let (stacks, rules) = (profiled.stacks()?, Rules::new());
    let placed: Vec<Placement<'_>> = stacks.iter().map(|stack| rules.place(stack)).collect();
    let mut account = PhaseAccount::default();
    profiled.each(|stack, statement| {
        if let Some(placed) = placed.get(stack as usize) {
            account.add(*placed, statement);
        }
    })?;
    Ok(Ok((account, each)))
}

/// Shows the phases of a run's profile.
///
/// # Errors
/// If the run has no profile or cannot be read.
pub fn show(path: &Path, choice: &SampleFilter, top: usize, json: bool) -> Result<(), Failure> {
    let profiled = Profiled::open(RunReader::open(path)?, choice)?;
    let (stacks, rules) = (profiled.stacks()?, Rules::new());
    let placed: Vec<Placement<'_>> = stacks.iter().map(|stack| rules.place(stack)).collect();
    let nowhere = rules.place("");
    let mut account = PhaseAccount::default();
    let others = profiled.each(|stack, statement| {
        let placed = placed.get(stack as usize);
        account.add(placed.copied().unwrap_or(nowhere), statement);
    })?;
    let name = path.display().to_string();
    let info = profiled.profile.info();
    let view = PhaseReport::new(&name, info, &account, others, &profiled.texts()?, top);
    if json {
        terminal::say_line(&to_document(&view));
    } else {
        terminal::say(&phases_text::render_text(&view, &terminal::style()));
    }
    Ok(())
}
