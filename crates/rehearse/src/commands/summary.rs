//! `rehearse summary`: what happened in a run. A replay ends with the same.

use std::path::Path;

use inspect::{DivergenceFinder, Summary};
use report::{RunReport, observed_text, run_text, to_document, to_json};
use run::{ProfileInfo, RunReader, SampleWindow};
use time_breakdown::observed::{Observation, Observed, ObservedSum};
use time_breakdown::time_model::Sums;
use workload::Literals;

use crate::commands::processor_time::Count;
use crate::commands::where_time_went;
use crate::ending::{Ending, Failure};
use crate::options;
use crate::terminal;

/// Reads the run once and shows what happened.
pub fn run(options: &options::Summary) -> Result<Ending, Failure> {
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
        let view = watched(&reader, name)?;
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
            "{name}: a CPU profile of {} samples in {}. `rehearse phases {name}` says what the processor time was for, `rehearse flame {name} -o flame.html` draws it.",
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
        true => Some(watched(reader, name)?),
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
    view.time = where_time_went::time(reader, &sums, Count::Tasks)?;
    Ok(view)
}

/// What was seen of the server.
///
/// # Errors
/// Where the run cannot be read.
pub fn watched(reader: &RunReader, name: &str) -> Result<Observation, Failure> {
    Ok(Observation::new(name, reader.info(), observed(reader)?))
}

/// Sums up what was seen of the server; reads each table once.
///
/// # Errors
/// Where the run cannot be read.
pub fn observed(reader: &RunReader) -> Result<Observed, Failure> {
    let mut sum = ObservedSum::default();
    sum.notes(reader.probes()?);
    for text in reader.statements()? {
        sum.text(text?);
    }
    for seen in reader.seen_statements()? {
        sum.seen(seen?);
    }
    for row in reader.statement_statistics()? {
        sum.statistics(&row?);
    }
    for row in reader.sample_windows()? {
        sum.window(&row?);
    }
    for row in reader.activity()? {
        sum.activity(&row?);
    }
    for row in reader.blocking()? {
        sum.blocking(&row?);
    }
    for row in reader.locks()? {
        sum.locks(&row?);
    }
    for row in reader.counters()? {
        sum.counter(&row?);
    }
    Ok(sum.finish())
}

/// What the user wants to see of messages.
pub fn literals(show: bool) -> Literals {
    if show {
        Literals::Shown
    } else {
        Literals::Hidden
    }
}
