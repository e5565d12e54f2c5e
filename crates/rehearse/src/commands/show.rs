//! `rehearse show`: shows the summary of a run. A replay ends with the same summary.

use std::path::Path;

use inspect::{DivergenceFinder, Summary};
use report::{RunReport, observed_text, run_text, to_document, to_json};
use run::{ProfileInfo, RunReader, SampleWindow};
use time_breakdown::time_model::Sums;
use workload::Literals;

use crate::exit_status::ExitStatus;
use crate::options;
use crate::terminal;
use study::Failure;
use study::observation;
use study::processor_time::Count;
use study::run_time;

/// Reads the run and shows its summary.
pub fn run(options: &options::Show) -> Result<ExitStatus, Failure> {
    let name = options.run.display().to_string();
    let literals = literals(options.show_literals);
    show(&options.run, &name, options.json, literals)?;
    Ok(ExitStatus::Success)
}

/// Shows the summary of a run under a name.
///
/// # Errors
/// If the run cannot be read.
pub fn show(path: &Path, name: &str, json: bool, literals: Literals) -> Result<(), Failure> {
    let reader = RunReader::open(path)?;
    if reader.info().is_observation() {
        let profile = reader.profile()?;
        if let Some(profile) = profile.as_ref().filter(|_| !json) {
            terminal::say_line(&describe_profile(name, profile.info()));
            if !reader.is_observed() {
                return Ok(());
            }
        }
        let view = observation::watched(&reader, name)?;
        match json {
            true => terminal::say_line(&to_document(&view)),
            false => terminal::say(&observed_text::render_text(&view, &terminal::style())),
        }
        return Ok(());
    }
    let view = view(&reader, name, literals)?;
    if json {
        terminal::say_line(&to_json(&view));
    } else {
        terminal::say(&run_text::render_text(&view, &terminal::style()));
        if let Some(observed) = &view.observed {
            terminal::say("\n");
            terminal::say(&observed_text::render_text(observed, &terminal::style()));
        }
    }
    Ok(())
}

/// Describes a run that has only a profile, and the commands that read it.
fn describe_profile(name: &str, profile: &ProfileInfo) -> String {
    match &profile.off {
        Some(why) => format!("{name}: a profile was asked for, and there is none: {why}"),
        None => format!(
            "{name}: a CPU profile of {} samples in {}. `rehearse cpu {name}` says what the processor time was for, `rehearse flame {name} -o flame.html` draws it.",
            profile.samples,
            clock::duration_text(profile.ended_ns - profile.begun_ns),
        ),
    }
}

/// Computes the summary of a run.
///
/// # Errors
/// If the run cannot be read.
pub fn view(reader: &RunReader, name: &str, literals: Literals) -> Result<RunReport, Failure> {
    let observed = match reader.is_observed() {
        true => Some(observation::watched(reader, name)?),
        false => None,
    };
    let mut finder = DivergenceFinder::new(reader.info().workload.failures_named);
    let windows: Vec<SampleWindow> = reader.sample_windows()?.collect::<Result<_, _>>()?;
    let mut sums = Sums::watched(&windows);
    let executions = reader.executions()?.inspect(|execution| {
        if let Ok(execution) = execution {
            finder.add(execution);
            sums.add(execution);
        }
    });
    let summary = Summary::collect(executions, literals)?;
    let divergence = finder.finish(reader.statements()?, reader.info(), literals)?;
    let mut view = RunReport::new(name, reader.info(), summary, divergence);
    view.observed = observed;
    view.time = run_time::time(reader, &sums, Count::Tasks)?;
    Ok(view)
}

/// Converts `--show-literals` to the renderer's type.
pub fn literals(show: bool) -> Literals {
    if show {
        Literals::Shown
    } else {
        Literals::Hidden
    }
}
