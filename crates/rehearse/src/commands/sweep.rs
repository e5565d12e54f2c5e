//! `rehearse sweep`: measures the same load at several levels, in random order, from the same
//! initial state.

use report::sweep_progress::SweepNarrator;
use report::{result_files, sweep_text, to_json};
use study::sweep::{SweepJournal, perform_sweep};
use study::{EndReason, Failure};

use crate::exit_status::ExitStatus;
use crate::options::Sweep;
use crate::terminal;

/// Sweeps, or shows a finished sweep again.
pub fn run(options: &Sweep) -> Result<ExitStatus, Failure> {
    let workload = options.workload.as_ref();
    if let Some(path) = workload.filter(|path| SweepJournal::is_at(path)) {
        return show(&SweepJournal::open(path)?, None, options.json);
    }
    let request = options.request()?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let narrator = &mut SweepNarrator::default();
    let (journal, ended) = perform_sweep(&request, &interrupt, narrator)?;
    show(&journal, Some(ended), options.json)
}

/// Prints the result, and writes the page and the JSON into the sweep's directory.
fn show(
    journal: &SweepJournal,
    ended: Option<EndReason>,
    json: bool,
) -> Result<ExitStatus, Failure> {
    let sweep = result_files::write_sweep(journal, ended)?;
    if json {
        terminal::say_line(&to_json(&sweep));
    } else {
        terminal::say(&sweep_text::render_text(&sweep, &terminal::style()));
    }
    if sweep.trials_done == 0 {
        let reason = sweep.trials.iter().find_map(|trial| trial.failed.as_ref());
        return Err(Failure::could_not(match reason {
            Some(reason) => format!("no trial was done: {reason}"),
            None => "no trial was done".to_owned(),
        }));
    }
    Ok(
        match sweep.trials_failed > 0 || ended == Some(EndReason::Interrupted) {
            true => ExitStatus::Findings,
            false => ExitStatus::Success,
        },
    )
}
