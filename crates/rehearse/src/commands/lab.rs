//! `rehearse lab`: the published cases, each with a system, its trouble, a capture of it, and what is
//! measured. Made of the same code as the commands.

mod heap;
mod planning;
mod proving;
mod queue;
mod stage;
mod stall;
mod sweeping;

use std::io::BufReader;
use std::path::{Path, PathBuf};

use lab::Scale;
use report::flame::{FlameTitles, flame_picture};
use report::{
    CaseCheck, CaseFile, CaseNumber, CaseReport, TextStyle, case_page, case_text, to_json,
};

use crate::exit_status::ExitStatus;
use crate::options::lab::{CaseArgs, Lab, LabCase};
use crate::terminal;
use report::output_file;
use study::Failure;

/// The page that a case leaves, and its numbers.
const PAGE: &str = "case.html";
const NUMBERS: &str = "case.json";

/// Everything a replay needs, in the log's CSV form.
pub const LOGGING: [(&str, &str); 9] = [
    ("logging_collector", "on"),
    ("log_destination", "csvlog"),
    ("log_statement", "none"),
    ("log_min_duration_statement", "0"),
    ("log_connections", "on"),
    ("log_disconnections", "on"),
    ("log_directory", "log"),
    ("log_filename", "postgresql.log"),
    // Without it the values of a statement that failed are not in the log (PostgreSQL 13 and on).
    ("log_parameter_max_length_on_error", "-1"),
];

/// Runs a case.
pub fn run(options: &Lab) -> Result<ExitStatus, Failure> {
    match &options.case {
        LabCase::Heap(args) => show(args, &heap::run(args)?),
        LabCase::Planning(args) => show(args, &planning::run(args)?),
        LabCase::Queue(args) => show(args, &queue::run(args)?),
        LabCase::Stall(args) => show(args, &stall::run(args)?),
        LabCase::Instance => {
            let input = BufReader::new(std::io::stdin());
            let mut output = std::io::stdout();
            lab::queue::run_instance(input, &mut output).map_err(Failure::could_not)?;
            Ok(ExitStatus::Success)
        }
    }
}

/// The report of a case, with nothing measured yet.
fn new_report(case: &lab::Case, scale: Scale, server_version: &str) -> CaseReport {
    CaseReport {
        schema: "rehearse/lab/1",
        name: case.name,
        title: case.title,
        source: case.source,
        scale: match scale {
            Scale::Small => "small",
            Scale::Full => "full",
        },
        server_version: server_version.to_owned(),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        ..CaseReport::default()
    }
}

fn check(what: &str, holds: bool, measured: String) -> CaseCheck {
    CaseCheck {
        what: what.to_owned(),
        holds,
        measured,
    }
}

fn number(what: &str, published: Option<&str>, measured: String, why: &str) -> CaseNumber {
    CaseNumber {
        what: what.to_owned(),
        published: published.map(str::to_owned),
        measured,
        why: why.to_owned(),
    }
}

fn file(name: impl Into<String>, what: impl Into<String>) -> CaseFile {
    CaseFile {
        name: name.into(),
        what: what.into(),
    }
}

/// Leaves the page, and says what was seen. What had to be seen and was not is a finding.
fn show(args: &CaseArgs, (directory, view): &(PathBuf, CaseReport)) -> Result<ExitStatus, Failure> {
    let page = directory.join(PAGE);
    let drawn = |file: &str| picture(&directory.join(file));
    output_file::write(
        output_file::PAGE,
        &page,
        &case_page::render_html(view, &drawn),
    )?;
    let numbers = directory.join(NUMBERS);
    std::fs::write(&numbers, to_json(view))
        .map_err(|error| Failure::could_not(format!("{}: {error}", numbers.display())))?;
    match args.json {
        true => terminal::say_line(&to_json(view)),
        false => {
            let style: TextStyle = terminal::style();
            terminal::say(&case_text::render_text(view, &style));
        }
    }
    Ok(match view.is_shown() {
        true => ExitStatus::Success,
        false => ExitStatus::Findings,
    })
}

/// A flame graph as a picture, of the stacks that lie beside its file.
fn picture(file: &Path) -> Option<String> {
    let stacks = std::fs::read_to_string(file.with_extension("folded")).ok()?;
    let lines: Vec<String> = stacks.lines().map(str::to_owned).collect();
    let titles = FlameTitles {
        unit: "samples".to_owned(),
        ..FlameTitles::default()
    };
    flame_picture(&lines, &titles).ok()
}
