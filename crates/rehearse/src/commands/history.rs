//! `rehearse history`: keeps the numbers of runs, and shows how they developed.

use std::path::Path;

use ::history::{Added, History, HistoryError, Store, to_csv};
use report::output_file::{self, HISTORY_CSV};
use report::{history_text, to_document};
use study::Failure;
use study::run_numbers::read_numbers;

use crate::exit_status::ExitStatus;
use crate::options::history::{HistoryAction, HistoryAdd, HistoryExport, HistoryShow};
use crate::terminal;

/// Carries out the action.
pub fn run(options: &crate::options::history::History) -> Result<ExitStatus, Failure> {
    match &options.action {
        HistoryAction::Add(options) => add(options),
        HistoryAction::Show(options) => show(options),
        HistoryAction::Export(options) => export(options),
    }
}

fn add(options: &HistoryAdd) -> Result<ExitStatus, Failure> {
    let mut store = Store::open(&options.history).map_err(to_failure)?;
    // All are read first, so that nothing is added if one cannot be.
    let numbers = options
        .runs
        .iter()
        .map(|run| read_numbers(run, &options.label));
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    for (run, numbers) in options.runs.iter().zip(numbers) {
        let name = run.display().to_string();
        let history = options.history.display();
        terminal::note(&match store.add(&name, numbers).map_err(to_failure)? {
            Added::New => format!("{name}: added to {history}, run {}", store.runs().len()),
            Added::Known => format!("{name}: {history} has it already"),
        });
    }
    Ok(ExitStatus::Success)
}

/// Opens a history that is only read.
fn open_existing(path: &Path) -> Result<Store, Failure> {
    if !path.exists() {
        return Err(Failure::usage(format!(
            "the history {0} does not exist; create it with `rehearse history add {0} NAME.run`",
            path.display()
        )));
    }
    Store::open(path).map_err(to_failure)
}

fn show(options: &HistoryShow) -> Result<ExitStatus, Failure> {
    let store = open_existing(&options.history)?;
    let history = History::new(store.runs(), options.statements);
    let name = options.history.display().to_string();
    terminal::say(&match options.json {
        true => to_document(&history),
        false => history_text::render_text(&name, &history, &terminal::style()),
    });
    Ok(ExitStatus::Success)
}

fn export(options: &HistoryExport) -> Result<ExitStatus, Failure> {
    let store = open_existing(&options.history)?;
    let text = to_csv(store.runs(), options.statements);
    match &options.output {
        Some(path) => output_file::write(HISTORY_CSV, path, &text)?,
        None => terminal::say(&text),
    }
    Ok(ExitStatus::Success)
}

/// Whether the user can mend it decides the exit code.
fn to_failure(error: HistoryError) -> Failure {
    match error {
        HistoryError::Archive(error) => error.into(),
        HistoryError::Run(_)
        | HistoryError::Foreign { .. }
        | HistoryError::OtherWorkload { .. } => Failure::usage(error.to_string()),
        HistoryError::Directory { .. } => Failure::could_not(error.to_string()),
    }
}
