//! `rehearse compare`: runs before and after a change, statement by statement.

use std::path::Path;

use compare::CompareOptions;
use compare::condition::Condition;
use report::csv::comparison_csv;
use report::notification::Notification;
use report::{compare_markdown, compare_page, compare_text, junit, to_document};

use crate::commands::compare_follow;
use crate::commands::show::literals;
use crate::exit_status::ExitStatus;
use crate::options::comparing::{Compare, OutputArgs};
use crate::options::slice::statement_patterns;
use crate::terminal;
use crate::webhook::Webhook;
use report::output_file;
use report::output_file::{CSV, Form, JUNIT, MARKDOWN, PAGE, SARIF};
use report::sarif::{MigrationFile, comparison_sarif};
use study::Failure;
use study::compare_runs::{ComparisonRequest, compare_runs};

/// Compares and shows the result. The exit code is 1 if a condition of `--fail-on` holds.
pub fn run(options: &Compare) -> Result<ExitStatus, Failure> {
    if options.follow.follow {
        return compare_follow::run(options);
    }
    let request = request(options)?;
    let stdout_format = stdout_format(options)?;
    let webhook = Webhook::from_args(&options.notifying)?;
    if options.dry_run {
        return Ok(ExitStatus::Success);
    }
    let migration = options.outputs.migration.as_deref();
    let migration = migration.map(read_migration).transpose()?;
    let outputs = output_file::begin(&options.files())?;
    let comparison = compare_runs(&request)?;
    for output in outputs {
        let content = match output.form() {
            JUNIT => junit::render_junit(&comparison),
            PAGE => compare_page::render_html(&comparison),
            CSV => comparison_csv(&comparison),
            SARIF => {
                let (path, text) = migration.as_ref().expect("--sarif requires --migration");
                comparison_sarif(&comparison, MigrationFile { path, text })
            }
            _ => compare_markdown::render_markdown(&comparison),
        };
        output.finish(&content)?;
    }
    match stdout_format {
        StdoutFormat::Text => {
            terminal::say(&compare_text::render_text(&comparison, &terminal::style()))
        }
        StdoutFormat::Json => terminal::say_line(&to_document(&comparison)),
        StdoutFormat::Markdown => terminal::say(&compare_markdown::render_markdown(&comparison)),
    }
    if let Some(webhook) = webhook {
        webhook.post(&Notification::of_comparison(&comparison));
    }
    let holds = comparison
        .conditions
        .iter()
        .any(|condition| condition.holds);
    Ok(if holds {
        ExitStatus::Findings
    } else {
        ExitStatus::Success
    })
}

/// Reads the SQL file of a migration. Returns its path and its text.
fn read_migration(path: &Path) -> Result<(String, String), Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!(
            "--migration {} cannot be read ({error}); give a file of SQL",
            path.display()
        ))
    })?;
    Ok((path.display().to_string(), text))
}

/// Format of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StdoutFormat {
    Text,
    Json,
    Markdown,
}

/// Value of `--markdown` that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

fn stdout_format(options: &Compare) -> Result<StdoutFormat, Failure> {
    let markdown = options.outputs.markdown.as_deref() == Some(Path::new(STANDARD_OUTPUT));
    match (options.json, markdown) {
        (true, true) => Err(Failure::usage(
            "--json and --markdown - both print to standard output; give --markdown a file",
        )),
        (true, false) => Ok(StdoutFormat::Json),
        (false, true) => Ok(StdoutFormat::Markdown),
        (false, false) => Ok(StdoutFormat::Text),
    }
}

fn conditions(given: &[String]) -> Result<Vec<Condition>, Failure> {
    let parse = |text: &String| {
        Condition::parse(text).map_err(|error| Failure::usage(format!("--fail-on: {error}")))
    };
    given.iter().map(parse).collect()
}

impl Compare {
    /// Returns the files to write, by format.
    fn files(&self) -> Vec<(Form, &Path)> {
        let OutputArgs {
            html,
            junit,
            csv,
            sarif,
            migration: _,
            markdown,
        } = &self.outputs;
        let wanted = [
            (PAGE, html),
            (JUNIT, junit),
            (CSV, csv),
            (SARIF, sarif),
            (MARKDOWN, markdown),
        ];
        wanted
            .into_iter()
            .filter_map(|(form, path)| Some((form, path.as_deref()?)))
            .filter(|(form, path)| *form != MARKDOWN || *path != Path::new(STANDARD_OUTPUT))
            .collect()
    }
}

fn request(options: &Compare) -> Result<ComparisonRequest, Failure> {
    if !(0.0..1_000.0).contains(&options.margin) {
        return Err(Failure::usage(format!(
            "a margin of {} % makes no sense; give a percentage from 0 to 1000, such as --margin 10",
            options.margin
        )));
    }
    let rate = options.false_discovery_rate;
    if !(rate > 0.0 && rate < 100.0) {
        return Err(Failure::usage(format!(
            "a false discovery rate of {rate} % makes no sense; give a percentage between 0 and 100, \
             such as --false-discovery-rate 5"
        )));
    }
    if options.noise.len() == 1 {
        return Err(Failure::usage(
            "one run has no noise to show; give --noise two runs or more of one unchanged server"
                .to_owned(),
        ));
    }
    let (before, after) = match options.runs.as_slice() {
        [before, after] => (vec![before.clone()], vec![after.clone()]),
        _ => (options.before.clone(), options.after.clone()),
    };
    Ok(ComparisonRequest {
        before,
        after,
        noise: options.noise.clone(),
        options: CompareOptions {
            margin: options.margin / 100.0,
            false_discovery_rate: rate / 100.0,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            literals: literals(options.show_literals),
            ..CompareOptions::default()
        },
        plan_targets: options.explain.targets(),
        by: options.by,
        compares_time_breakdown: true,
        ignored_rows: statement_patterns("--ignore-rows", &options.ignore_rows)?,
        ignored_columns: options.ignore_columns.clone(),
        conditions: conditions(&options.fail_on)?,
    })
}
