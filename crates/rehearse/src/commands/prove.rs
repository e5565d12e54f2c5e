//! `rehearse prove`: measures a change against the unchanged database on the same traffic, and
//! gives a verdict.

mod narration;
mod server;
pub mod view;

use std::collections::BTreeMap;
use std::path::Path;

use clock::{Clock, SystemClock};
use compare::proof::{Goal, Verdict};
use replay::Options;
use report::{ProofEnd, ProofView, proof_page, proof_text, to_json};
use study::proof::sides;
use study::proof::{Proof, ProofJournal, ProofPlan, ProofSide};
use study::{End, Environment, Manifest};
use workload::WorkloadReader;

use crate::commands::experiments;
use crate::exit_status::ExitStatus;
use crate::options::Prove;
use crate::terminal;
use narration::Narrator;
use study::Failure;
use study::Interrupt;
use study::baseline_run;
use study::keys;
use study::rewrite_workload::rewrite;

/// Result in the proof's directory.
const RESULT: &str = "proof.json";

/// Proves, or shows a finished proof again.
pub fn run(options: &Prove) -> Result<ExitStatus, Failure> {
    if ProofJournal::is_at(&options.workload) {
        let journal = ProofJournal::open(&options.workload)?;
        return show(&journal, End::Complete, options);
    }
    check(options)?;
    let sides = sides::sides(&(&options.changes).into())?;
    sides::conditions(&sides)?;
    let whole = keys::open(&options.workload)?;
    let mut options = options.clone();
    let place = &mut options.place;
    if place.sandbox.is_some() {
        place.changed_database = Some(baseline_run::database_of(
            &whole,
            place.session.as_database.as_deref(),
        )?);
    }
    let options = &options;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let (journal, ended) = perform(options, sides, &whole, &interrupt, &|_| Ok(()))?;
    show(&journal, ended, options)
}

/// Checks options that can be checked without the workload or the server.
///
/// # Errors
/// If they contradict each other.
pub fn check(options: &Prove) -> Result<(), Failure> {
    if options.output.is_none() {
        return Err(Failure::usage(
            "nothing says where the result goes; give -o NAME.proof",
        ));
    }
    if !(0.0..1_000.0).contains(&options.goal.margin) {
        return Err(Failure::usage(format!(
            "a margin of {} % makes no sense; give a percentage from 0 to 1000, such as --margin 5",
            options.goal.margin
        )));
    }
    Ok(())
}

/// Compares each side with the first, which is unchanged, until all verdicts are clear or the time is over. `begun` is
/// called with the proof's directory once it is created.
///
/// # Errors
/// If the options contradict each other, or a replay cannot be done. A refused proof leaves no files.
pub fn perform(
    options: &Prove,
    sides: Vec<ProofSide>,
    whole: &WorkloadReader,
    interrupt: &Interrupt,
    begun: &dyn Fn(&Path) -> Result<(), Failure>,
) -> Result<(ProofJournal, End), Failure> {
    check(options)?;
    let output = options.output.clone().unwrap_or_default();
    let conditions = sides::conditions(&sides)?;
    let previous = ProofJournal::previous(&output, options.resume)?;
    let known = previous.as_ref().map(|one| one.manifest().settings.clone());
    let mut server = server::make(options, whole, conditions, known)?;
    let seed = options.goal.seed;
    let seed = seed.or(previous.as_ref().map(|journal| journal.plan().seed));
    let plan = ProofPlan {
        sides,
        goal: options.goal.goal.name().to_owned(),
        margin: options.goal.margin / 100.0,
        within_s: options.goal.time_budget.as_secs_f64(),
        blocks_max: options.goal.blocks,
        noise_runs: options.goal.noise_runs,
        seed: seed.unwrap_or_else(|| rand::random::<u32>().into()),
    };
    let described = described(options, &server.name, whole);
    let started = SystemClock::start().wall_us();
    let manifest = Manifest::new(plan, described, server.settings.clone(), started);
    let is_new = previous.is_none();
    let mut journal = ProofJournal::begin(&output, previous, manifest)?;
    if is_new {
        begun(&output)?;
    }
    let replays = (whole, &server.options, options.goal.goal, server.restores);
    let environment = &mut *server.environment;
    let ended = perform_runs(&mut journal, replays, environment, interrupt)?;
    Ok((journal, ended))
}

/// Performs the runs that the journal lacks, and rewrites workloads for the sides that need it. `replays` is the whole
/// workload, the options of its replays, the goal, and whether data are restored before each run.
///
/// # Errors
/// If a replay cannot be done. A refusal before the first one leaves no files.
pub fn perform_runs(
    journal: &mut ProofJournal,
    (whole, options, goal, restores): (&WorkloadReader, &Options, Goal, bool),
    environment: &mut dyn Environment,
    interrupt: &Interrupt,
) -> Result<End, Failure> {
    let ended = workloads(journal, whole, interrupt).and_then(|workloads| {
        let statements = whole.info().statements;
        let proof = Proof {
            workloads,
            options: options.clone(),
            goal,
            statements,
        };
        narration::tell_plan(journal, whole, restores);
        let mut narrator = Narrator::new(journal, goal, statements);
        let ended = study::perform(
            &proof,
            environment,
            journal,
            interrupt,
            &mut |journal, event| {
                narrator.tell(journal, &event);
            },
        );
        narrator.tell_results(journal);
        ended
    });
    if ended.is_err() && journal.records().next().is_none() {
        let _ = std::fs::remove_dir_all(journal.path());
    }
    ended
}

/// Returns the workload of each side, after rewriting those that are missing.
fn workloads(
    journal: &ProofJournal,
    whole: &WorkloadReader,
    interrupt: &Interrupt,
) -> Result<Vec<WorkloadReader>, Failure> {
    let mut workloads = Vec::new();
    for (number, side) in journal.plan().sides.iter().enumerate() {
        let rewrites = sides::rewritings(side)?;
        if rewrites.is_empty() {
            workloads.push(whole.clone());
            continue;
        }
        let path = journal.rewritten_path(number);
        if !path.exists() {
            // A killed process left them.
            for at in 0..rewrites.len() {
                let between = path.with_extension(format!("{at}.workload"));
                let _ = std::fs::remove_dir_all(between.with_extension("workload.partial"));
                let _ = std::fs::remove_dir_all(between);
            }
            let _ = std::fs::remove_dir_all(path.with_extension("workload.partial"));
            rewrite(whole, &rewrites, (&path, &whole.recipients()), interrupt)?;
        }
        workloads.push(keys::open(&path)?);
    }
    Ok(workloads)
}

/// Returns the options of every replay.
pub fn replay_options(options: &Prove) -> Options {
    Options {
        speed: options.goal.speed,
        connections_max: options.place.max_connections,
        ..options.place.session.replay_options()
    }
}

/// Returns the options that affect every run, by name, for the manifest.
fn described(options: &Prove, place: &str, whole: &WorkloadReader) -> BTreeMap<String, String> {
    let place_options = &options.place;
    let given = [
        ("workload", Some(whole.id().to_owned())),
        (
            "workload-name",
            Some(options.workload.display().to_string()),
        ),
        ("place-name", Some(place.to_owned())),
        ("speed", Some(options.goal.speed.to_string())),
        ("restore", place_options.restore.clone()),
        ("template", place_options.template.clone()),
        ("load", options.changes.load.clone()),
        (
            "no-restore",
            place_options.no_restore.then(|| "true".to_owned()),
        ),
        (
            "max-connections",
            place_options.max_connections.map(|count| count.to_string()),
        ),
    ];
    given
        .into_iter()
        .chain(place_options.session.described())
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Prints the result, and writes it and the comparisons next to the journal.
///
/// # Errors
/// If a run cannot be read, or a file cannot be written.
pub fn show(journal: &ProofJournal, ended: End, options: &Prove) -> Result<ExitStatus, Failure> {
    let view = written(journal, ended, options.show_literals)?;
    if options.json {
        terminal::say_line(&to_json(&view));
    } else {
        terminal::say(&proof_text::render_text(&view, &terminal::style()));
    }
    exit_status(&view)
}

/// Writes the result, its page and the comparisons next to the journal, and returns the view.
///
/// # Errors
/// As [`show`].
pub fn written(
    journal: &ProofJournal,
    ended: End,
    show_literals: bool,
) -> Result<ProofView, Failure> {
    let view = view::view(journal, ended, show_literals)?;
    let html = proof_page::render_html(&view);
    experiments::write_results(journal.path(), RESULT, &to_json(&view), &html)?;
    Ok(view)
}

/// Returns exit code 1 if something got worse or the proof was interrupted, and 3 if it shows
/// nothing.
fn exit_status(view: &ProofView) -> Result<ExitStatus, Failure> {
    if view.sides.iter().any(|side| side.worse) || view.ended == ProofEnd::Stopped {
        return Ok(ExitStatus::Findings);
    }
    let unclear: Vec<&str> = view
        .sides
        .iter()
        .filter(|side| side.verdict == Verdict::NotProven)
        .map(|side| side.name.as_str())
        .collect();
    match unclear.is_empty() {
        true => Ok(ExitStatus::Success),
        false => Err(Failure::could_not(format!(
            "{}: not proven, neither won nor lost nor the same; give more time (--time-budget, --blocks), a longer workload, or a wider --margin",
            unclear.join(", ")
        ))),
    }
}
