//! `rehearse compare`: two runs, statement by statement.

use std::path::Path;

use analyse::{CompareOptions, Comparison, RunProfile};
use archive::ArchiveError;
use report::{CompareView, compare_text, to_json};
use run::RunReader;

use crate::commands::summary::literals;
use crate::ending::{Ending, Failure};
use crate::options::{Compare, FailOn};
use crate::terminal;

/// Compares and shows; exit code 1 where `--fail-on` asks for it.
pub fn run(options: &Compare) -> Result<Ending, Failure> {
    if !(0.0..1_000.0).contains(&options.margin) {
        return Err(Failure::usage(format!(
            "a margin of {} % makes no sense; give a percentage from 0 to 1000, such as --margin 10",
            options.margin
        )));
    }
    let comparison = compare(&options.before, &options.after, options.margin / 100.0)?;
    let view = CompareView::new(
        &options.before.display().to_string(),
        &options.after.display().to_string(),
        &comparison,
        literals(options.show_literals),
    );
    if options.json {
        terminal::say_line(&to_json(&view));
    } else {
        terminal::say(&compare_text::render_text(&view, &terminal::style()));
    }
    Ok(match options.fail_on {
        Some(FailOn::Regression) if comparison.has_regression() => Ending::Found,
        _ => Ending::Done,
    })
}

/// Compares two runs; both are read at the same time.
///
/// # Errors
/// Where a run cannot be read.
pub fn compare(before: &Path, after: &Path, margin: f64) -> Result<Comparison, Failure> {
    let readers = [RunReader::open(before)?, RunReader::open(after)?];
    let [before, after] = std::thread::scope(|scope| {
        readers
            .each_ref()
            .map(|reader| scope.spawn(|| profile(reader)))
            .map(|thread| match thread.join() {
                Ok(profile) => profile,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    });
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(analyse::compare(
        before?,
        after?,
        CompareOptions { margin, threads },
    ))
}

fn profile(reader: &RunReader) -> Result<RunProfile, ArchiveError> {
    RunProfile::collect(
        reader.info().clone(),
        reader.executions()?,
        reader.statements()?,
    )
}
