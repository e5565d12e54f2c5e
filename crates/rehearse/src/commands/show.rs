//! `rehearse show`: shows the summary of a run. A replay ends with the same summary.

use std::path::Path;

use report::{observed_text, run_text, to_document, to_json};
use run::{ProfileInfo, RunReader};
use workload::Literals;

use crate::exit_status::ExitStatus;
use crate::options;
use crate::terminal;
use study::Failure;
use study::observation;
use study::run_summary::summarise_run;

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
        if literals == Literals::Shown {
            return Err(Failure::usage(
                "--show-literals has no effect on an observation, which has no messages of statements; leave it out",
            ));
        }
        let profile = reader.profile()?;
        if let Some(profile) = profile.as_ref().filter(|_| !json) {
            terminal::say_line(&describe_profile(name, profile.info()));
            if !reader.is_observed() {
                return Ok(());
            }
        }
        if !json {
            let view = observation::read_observation(&reader, name)?;
            terminal::say(&observed_text::render_text(&view, &terminal::style()));
            return Ok(());
        }
    }
    if json {
        terminal::say_line(&self::json(&reader, name, literals)?);
    } else {
        let view = summarise_run(&reader, name, literals)?;
        terminal::say(&run_text::render_text(&view, &terminal::style()));
        if let Some(observed) = &view.observed {
            terminal::say("\n");
            terminal::say(&observed_text::render_text(observed, &terminal::style()));
        }
    }
    Ok(())
}

/// Returns the summary of a run as `rehearse show --json` prints it.
///
/// # Errors
/// If the run cannot be read.
pub fn json(reader: &RunReader, name: &str, literals: Literals) -> Result<String, Failure> {
    Ok(match reader.info().is_observation() {
        true => to_document(&observation::read_observation(reader, name)?),
        false => to_json(&summarise_run(reader, name, literals)?),
    })
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

/// Converts `--show-literals` to the renderer's type.
pub fn literals(show: bool) -> Literals {
    if show {
        Literals::Shown
    } else {
        Literals::Hidden
    }
}
