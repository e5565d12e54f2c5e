//! `rehearse show`: what happened in a run. A replay ends with the same.

use std::path::Path;

use inspect::{DivergenceFinder, Summary};
use report::{RunReport, observed_text, run_text, to_document, to_json};
use run::{ProfileInfo, RunReader, SampleWindow};
use time_breakdown::time_model::Sums;
use workload::Literals;

use crate::ending::Ending;
use crate::options;
use crate::terminal;
use study::Failure;
use study::observation;
use study::processor_time::Count;
use study::run_time;

/// Reads the run once and shows what happened.
pub fn run(options: &options::Show) -> Result<Ending, Failure> {
    let name = options.run.display().to_string();
    let literals = literals(options.show_literals);
    show(&options.run, &name, options.json, literals)?;
    Ok(Ending::Done)
}

/// Shows the summary of a run under a name.
///
/// # Errors
/// Where the run cannot be read.
pub fn show(path: &Path, name: &str, json: bool, literals: Literals) -> Result<(), Failure> {
    let reader = RunReader::open(path)?;
    if reader.info().is_observation() {
        let profile = reader.profile()?;
        if let Some(profile) = profile.as_ref().filter(|_| !json) {
            terminal::say_line(&told(name, profile.info()));
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

/// What there is to be read in a profile.
fn told(name: &str, profile: &ProfileInfo) -> String {
    match &profile.off {
        Some(why) => format!("{name}: a profile was asked for, and there is none: {why}"),
        None => format!(
            "{name}: a CPU profile of {} samples in {}. `rehearse cpu {name}` says what the processor time was for, `rehearse flame {name} -o flame.html` draws it.",
            profile.samples,
            clock::duration_text(profile.ended_ns - profile.begun_ns),
        ),
    }
}

/// The summary of a run.
///
/// # Errors
/// Where it cannot be read.
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

/// What the user wants to see of messages.
pub fn literals(show: bool) -> Literals {
    if show {
        Literals::Shown
    } else {
        Literals::Hidden
    }
}
