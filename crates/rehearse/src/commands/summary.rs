//! `rehearse summary`: what happened in a run. A replay ends with the same.

use std::path::Path;

use analyse::{DivergenceFinder, Summary};
use report::{Literals, RunSummaryView, run_text, to_json};
use run::RunReader;

use crate::ending::{Ending, Failure};
use crate::options;
use crate::terminal;

/// Reads the run once and shows what happened.
pub fn run(options: &options::Summary) -> Result<Ending, Failure> {
    show(&options.run, options.json, literals(options.show_literals))?;
    Ok(Ending::Done)
}

/// Shows the summary of a run.
///
/// # Errors
/// Where the run cannot be read.
pub fn show(path: &Path, json: bool, literals: Literals) -> Result<(), Failure> {
    let reader = RunReader::open(path)?;
    let mut finder = DivergenceFinder::new(reader.info().workload.failures_named);
    let executions = reader.executions()?.inspect(|execution| {
        if let Ok(execution) = execution {
            finder.add(execution);
        }
    });
    let summary = Summary::collect(executions)?;
    let divergence = finder.finish(reader.statements()?)?;
    let name = path.display().to_string();
    let view = RunSummaryView::new(&name, reader.info(), &summary, &divergence, literals);
    if json {
        terminal::say_line(&to_json(&view));
    } else {
        terminal::say(&run_text::render_text(&view, &terminal::style()));
    }
    Ok(())
}

/// What the user wants to see of messages.
pub fn literals(show: bool) -> Literals {
    if show {
        Literals::Shown
    } else {
        Literals::Hidden
    }
}
