//! `rehearse inspect`: what is in a workload.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use analyse::Inspection;
use report::inspect_text::{self, InspectTextOptions};
use report::{InspectView, StatementOrder, inspect_page, to_json};
use workload::{ArchiveError, WorkloadReader};

use crate::ending::{Ending, Failure};
use crate::keys;
use crate::options::{Inspect, Sort};
use crate::terminal;

/// More statements than this are not put on a page without being asked for: it should open in a
/// second.
const PAGE_STATEMENTS: usize = 5_000;

/// How every page begins.
const PAGE_START: &[u8] = b"<!DOCTYPE html>";

/// Reads the workload once and shows what is in it.
pub fn run(options: &Inspect) -> Result<Ending, Failure> {
    let reader = keys::open(&options.workload)?;
    if options.verify {
        reader.verify()?;
    }
    if let Some(note) = super::replay::incomplete(reader.info()) {
        terminal::note(&note);
    }
    let inspection = collect(&reader, options.show_literals)?;
    let order = options.sort.map(|sort| match sort {
        Sort::Total => StatementOrder::Total,
        Sort::Calls => StatementOrder::Calls,
        Sort::Mean => StatementOrder::Mean,
        Sort::Max => StatementOrder::Max,
    });
    let top = options.top.map(|top| top as usize);
    let name = options.workload.display().to_string();
    let mut view = InspectView::new(&name, &inspection, order.unwrap_or_default());
    if options.json {
        if let Some(top) = top {
            view.keep(top);
        }
        terminal::say_line(&to_json(&view));
    } else if let Some(path) = &options.html {
        let most = top.unwrap_or(PAGE_STATEMENTS);
        if top.is_some() || view.by_statement.len() > PAGE_STATEMENTS {
            view.keep(most);
        }
        write_page(path, &inspect_page::render_html(&view))?;
        terminal::note(&format!("wrote {}; open it in a browser", path.display()));
    } else {
        let shown = InspectTextOptions { order, top };
        let text = inspect_text::render_text(&view, shown, &terminal::style());
        terminal::say(&text);
    }
    Ok(Ending::Done)
}

/// Writes a page, for its owner alone: SQL holds secrets, and a page may have been asked to show
/// them. A page of that name is written over, and nothing else.
pub fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::could_not(format!(
            "the page {} cannot be written ({error}); give --html a file in a directory that you may write to",
            path.display()
        ))
    };
    if path.is_file() {
        let mut start = Vec::new();
        File::open(path)
            .and_then(|file| file.take(PAGE_START.len() as u64).read_to_end(&mut start))
            .map_err(failed)?;
        if !start.is_empty() && !start.eq_ignore_ascii_case(PAGE_START) {
            return Err(Failure::usage(format!(
                "{} is there and is no page, so it is not written over; give --html another name",
                path.display()
            )));
        }
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    file.write_all(page.as_bytes()).map_err(failed)
}

/// Reads a workload once.
///
/// # Errors
/// Where it cannot be read.
pub fn collect(reader: &WorkloadReader, literals: bool) -> Result<Inspection, ArchiveError> {
    Inspection::collect(
        reader.info(),
        reader.server_events()?,
        reader.sessions()?,
        reader.events()?,
        reader.statements()?,
        literals,
    )
}
