//! `rehearse inspect`: describes the contents of a workload.

use std::path::Path;

use inspect::{Inspection, StatementOrder};
use report::inspect_text;
use report::inspect_text::InspectTextOptions;
use report::starting_point_text;
use report::starting_point_text::Recipes;
use report::{inspect_page, to_document};
use workload::Literals;
use workload::{ArchiveError, WorkloadReader};

use crate::commands::show::literals;
use crate::exit_status::ExitStatus;
use crate::options::{Inspect, Sort};
use crate::terminal;
use report::csv::workload_csv;
use report::output_file::{self, CSV, PAGE};
use study::Failure;
use study::keys;
use tempfile::TempDir;

/// Default limit of statements on a page, so that it opens within a second.
const PAGE_STATEMENTS: usize = 5_000;

/// Name of the workload in a temporary directory.
const CAPTURED: &str = "log.workload";

/// Reads the workload once and shows its contents.
pub fn run(options: &Inspect) -> Result<ExitStatus, Failure> {
    if let Some(cache) = &options.cache {
        let inspection = cached_logs(options, cache)?;
        return show(options, inspection, true);
    }
    // A log is captured into a directory that is deleted at the end.
    let captured = holds_logs(&options.workload).then(|| captured_log(&options.workload));
    let captured = captured.transpose()?;
    let reader = match &captured {
        Some(directory) => keys::open_workload(&directory.path().join(CAPTURED))?,
        None => keys::open_workload(&options.workload)?,
    };
    if options.verify {
        reader.verify()?;
    }
    if options.copy_commands || options.sequences {
        return show_starting_point(options, &reader);
    }
    if let Some(note) = study::observed_replay::describe_missing(reader.info()) {
        terminal::note(&note);
    }
    let inspection = collect(&reader, literals(options.show_literals))?;
    show(options, inspection, captured.is_some())
}

/// Whether a path is a file, or a directory that neither is an artefact nor has the name of one.
fn holds_logs(path: &Path) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str());
    let is_named_artefact = matches!(
        kind,
        Some("workload" | "series" | "run" | "partial" | "proof")
    );
    path.is_file() || path.is_dir() && !is_named_artefact && !path.join("manifest.json").exists()
}

/// Inspects logs of which the cache keeps what was read.
fn cached_logs(options: &Inspect, cache: &Path) -> Result<Inspection, Failure> {
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let literals = literals(options.show_literals);
    let (inspection, found) =
        study::inspect_logs::inspect_logs(&options.workload, cache, literals, &interrupt)?;
    terminal::note(&format!(
        "{} of {} logs were read before and are unchanged; {} bytes were read now.",
        found.kept,
        found.kept + found.read,
        found.read_bytes
    ));
    if found.removed > 0 {
        terminal::note(&format!(
            "{} workloads were removed from {}: their logs no longer exist, or have changed.",
            found.removed,
            cache.display()
        ));
    }
    Ok(inspection)
}

/// Shows an inspection, of a log or a workload, in the form that the options ask for.
fn show(
    options: &Inspect,
    mut inspection: Inspection,
    is_log: bool,
) -> Result<ExitStatus, Failure> {
    let order = options.sort.map(|sort| match sort {
        Sort::Total => StatementOrder::Total,
        Sort::Calls => StatementOrder::Calls,
        Sort::Mean => StatementOrder::Mean,
        Sort::Max => StatementOrder::Max,
    });
    let top = options.top.map(|top| top as usize);
    inspection.workload = options.workload.display().to_string();
    inspection.sort(order.unwrap_or_default());
    let is_empty_log = is_log && inspection.statements == 0;
    if options.json {
        if let Some(top) = top {
            inspection.keep(top);
        }
        terminal::say_line(&to_document(&inspection));
    } else if options.html.is_some() || options.csv.is_some() {
        write_files(options, inspection)?;
    } else {
        let shown = InspectTextOptions {
            order,
            by: options.by,
            top,
        };
        let text = inspect_text::render_text(&inspection, shown, &terminal::style());
        terminal::say(&text);
    }
    if is_empty_log {
        terminal::note(super::capture::NO_STATEMENT);
        return Ok(ExitStatus::Findings);
    }
    Ok(ExitStatus::Success)
}

/// Writes the table and the page that are requested.
fn write_files(options: &Inspect, mut inspection: Inspection) -> Result<(), Failure> {
    let top = options.top.map(|top| top as usize);
    if let Some(path) = &options.csv {
        output_file::write(CSV, path, &workload_csv(&inspection, options.by, top))?;
    }
    if let Some(path) = &options.html {
        let most = top.unwrap_or(PAGE_STATEMENTS);
        if top.is_some() || inspection.by_statement.len() > PAGE_STATEMENTS {
            inspection.keep(most);
        }
        output_file::write(PAGE, path, &inspect_page::render_html(&inspection))?;
    }
    Ok(())
}

/// Captures a log into a temporary directory.
fn captured_log(log: &Path) -> Result<TempDir, Failure> {
    let directory = TempDir::with_prefix("rehearse-inspect-").map_err(|error| {
        Failure::could_not(format!(
            "a temporary directory cannot be made: {error}; set TMPDIR"
        ))
    })?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let output = directory.path().join(CAPTURED);
    let captured = study::capture_log::capture_files(&[log.to_owned()], &output, &interrupt)?;
    let unreadable = captured.report.reconciliation.unreadable.lines;
    if unreadable > 0 {
        let log = log.display();
        terminal::note(&format!(
            "{unreadable} lines of {log} could not be read; `rehearse capture log {log} --dry-run` says why"
        ));
    }
    Ok(directory)
}

/// Shows the starting point of the capture, or sets the sequences to it.
fn show_starting_point(options: &Inspect, reader: &WorkloadReader) -> Result<ExitStatus, Failure> {
    let name = options.workload.display().to_string();
    let point = reader.info().provenance.starting_point.as_ref();
    if options.sequences && point.is_none() {
        terminal::note(
            "The capture noted no starting point: each sequence of a column is set to the column's largest value in the copy.",
        );
        terminal::say(starting_point_text::SEQUENCES_FROM_DATA_SQL);
        return Ok(ExitStatus::Success);
    }
    let Some(point) = point else {
        return Err(Failure::usage(format!(
            "{name} has no starting point: it was captured without --starting-point URL; capture again with it, or make the copy by hand (docs/how-to/make-the-copy.md)"
        )));
    };
    let text = match options.sequences {
        true => starting_point_text::sequences_sql(point),
        false => starting_point_text::render_text(point, &name, Recipes::All, &terminal::style()),
    };
    terminal::say(&text);
    Ok(ExitStatus::Success)
}

/// Reads a workload once.
///
/// # Errors
/// If it cannot be read.
pub fn collect(reader: &WorkloadReader, literals: Literals) -> Result<Inspection, ArchiveError> {
    Inspection::collect(
        reader.info(),
        reader.server_events()?,
        reader.sessions()?,
        reader.events()?,
        reader.statements()?,
        literals,
    )
}
