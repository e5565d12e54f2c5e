//! `rehearse compare`: runs before and after a change, statement by statement.

use std::path::{Path, PathBuf};

use archive::ArchiveError;
use compare::condition::Condition;
use compare::{CompareOptions, Comparison, RunProfile, Runs};
use report::{compare_markdown, compare_page, compare_text, junit, to_document};
use run::RunReader;

use crate::commands::known;
use crate::commands::outputs;
use crate::commands::outputs::{Form, JUNIT, MARKDOWN, PAGE};
use crate::commands::summary::literals;
use crate::commands::where_time_went;
use crate::ending::{Ending, Failure};
use crate::options::{Compare, OutputArgs};
use crate::terminal;

/// Which runs, and what counts as a difference.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Before the change.
    pub before: Vec<PathBuf>,
    /// After the change.
    pub after: Vec<PathBuf>,
    /// Of one unchanged server.
    pub noise: Vec<PathBuf>,
    /// How it is judged.
    pub options: CompareOptions,
}

/// Compares and shows; exit code 1 where `--fail-on` asks for it.
pub fn run(options: &Compare) -> Result<Ending, Failure> {
    let request = request(options)?;
    let conditions = conditions(&options.fail_on)?;
    let printed = printed(options)?;
    if options.dry_run {
        return Ok(Ending::Done);
    }
    let outputs = outputs::begin(&options.files())?;
    let mut comparison = compare(&request)?;
    known::put_into(&mut comparison, &request.before, &request.after)?;
    known::explain(&mut comparison, &request, &options.explain)?;
    comparison.time = where_time_went::change(&request.before, &request.after)?;
    if comparison.time.is_some() {
        comparison.observed = where_time_went::observed(&request.before, &request.after)?;
    }
    let check = |condition: &Condition| condition.check(&comparison);
    comparison.conditions = conditions.iter().map(check).collect();
    for output in outputs {
        let content = match output.form() {
            JUNIT => junit::render_junit(&comparison),
            PAGE => compare_page::render_html(&comparison),
            _ => compare_markdown::render_markdown(&comparison),
        };
        output.finish(&content)?;
    }
    match printed {
        Printed::Text => terminal::say(&compare_text::render_text(&comparison, &terminal::style())),
        Printed::Json => terminal::say_line(&to_document(&comparison)),
        Printed::Markdown => terminal::say(&compare_markdown::render_markdown(&comparison)),
    }
    let holds = comparison
        .conditions
        .iter()
        .any(|condition| condition.holds);
    Ok(if holds { Ending::Found } else { Ending::Done })
}

/// What goes to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Printed {
    Text,
    Json,
    Markdown,
}

/// What `--markdown` takes for standard output.
const STANDARD_OUTPUT: &str = "-";

fn printed(options: &Compare) -> Result<Printed, Failure> {
    let markdown = options.outputs.markdown.as_deref() == Some(Path::new(STANDARD_OUTPUT));
    match (options.json, markdown) {
        (true, true) => Err(Failure::usage(
            "--json and --markdown - both print to standard output; give --markdown a file",
        )),
        (true, false) => Ok(Printed::Json),
        (false, true) => Ok(Printed::Markdown),
        (false, false) => Ok(Printed::Text),
    }
}

fn conditions(given: &[String]) -> Result<Vec<Condition>, Failure> {
    let parse = |text: &String| {
        Condition::parse(text).map_err(|error| Failure::usage(format!("--fail-on: {error}")))
    };
    given.iter().map(parse).collect()
}

impl Compare {
    /// The files that it is written to.
    fn files(&self) -> Vec<(Form, &Path)> {
        let OutputArgs {
            html,
            junit,
            markdown,
        } = &self.outputs;
        let wanted = [(PAGE, html), (JUNIT, junit), (MARKDOWN, markdown)];
        wanted
            .into_iter()
            .filter_map(|(form, path)| Some((form, path.as_deref()?)))
            .filter(|(form, path)| *form != MARKDOWN || *path != Path::new(STANDARD_OUTPUT))
            .collect()
    }
}

fn request(options: &Compare) -> Result<Request, Failure> {
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
    Ok(Request {
        before,
        after,
        noise: options.noise.clone(),
        options: CompareOptions {
            margin: options.margin / 100.0,
            false_discovery_rate: rate / 100.0,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            literals: literals(options.show_literals),
        },
    })
}

/// A run that is given twice on one side would pass for two, whatever it is called.
fn refuse_repeats(side: &[RunReader]) -> Result<(), Failure> {
    for (at, run) in side.iter().enumerate() {
        if let Some(other) = side[..at].iter().find(|other| other.id() == run.id()) {
            return Err(Failure::usage(format!(
                "{} and {} are one run, given twice on one side; give each run once",
                other.path().display(),
                run.path().display()
            )));
        }
    }
    Ok(())
}

/// A run that is on both sides.
fn in_both<'r>(
    before: &'r [RunReader],
    after: &'r [RunReader],
) -> Option<(&'r RunReader, &'r RunReader)> {
    let pairs = before
        .iter()
        .flat_map(|one| after.iter().map(move |other| (one, other)));
    pairs
        .into_iter()
        .find(|(one, other)| one.id() == other.id())
}

/// A run of an observation has nothing to compare.
fn replayed(reader: RunReader) -> Result<RunReader, Failure> {
    match reader.info().is_observation() {
        false => Ok(reader),
        true => Err(Failure::usage(format!(
            "{} is of `rehearse observe` or `rehearse profile`, which replayed nothing; compare runs of `rehearse replay`",
            reader.path().display()
        ))),
    }
}

/// Compares runs; all are opened before any is read, and two are read at a time.
///
/// # Errors
/// Where a run cannot be read.
pub fn compare(request: &Request) -> Result<Comparison, Failure> {
    let open = |paths: &[PathBuf]| -> Result<Vec<RunReader>, Failure> {
        paths
            .iter()
            .map(|path| replayed(RunReader::open(path)?))
            .collect()
    };
    let (before, after) = (open(&request.before)?, open(&request.after)?);
    let noise = open(&request.noise)?;
    for side in [&before, &after, &noise] {
        refuse_repeats(side)?;
    }
    if let Some((one, other)) = in_both(&before, &after) {
        return Err(Failure::usage(format!(
            "{} and {} are one run, given before and after; a run beside itself shows nothing: \
             replay once more, and give that run",
            one.path().display(),
            other.path().display()
        )));
    }
    let readers: Vec<&RunReader> = before.iter().chain(&after).chain(&noise).collect();
    let mut profiles = Vec::with_capacity(readers.len());
    for pair in readers.chunks(2) {
        let read = std::thread::scope(|scope| {
            let threads: Vec<_> = pair
                .iter()
                .map(|reader| scope.spawn(|| profile(reader)))
                .collect();
            threads
                .into_iter()
                .map(|thread| match thread.join() {
                    Ok(profile) => profile,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect::<Vec<_>>()
        });
        for profile in read {
            profiles.push(profile?);
        }
    }
    let noise = profiles.split_off(before.len() + after.len());
    let after = profiles.split_off(before.len());
    let runs = Runs {
        before: profiles,
        after,
        noise,
    };
    Ok(compare::compare(runs, request.options))
}

fn profile(reader: &RunReader) -> Result<RunProfile, ArchiveError> {
    let mut profile = RunProfile::collect(
        reader.info().clone(),
        reader.executions()?,
        reader.statements()?,
    )?;
    profile.name = reader.path().display().to_string();
    Ok(profile)
}
