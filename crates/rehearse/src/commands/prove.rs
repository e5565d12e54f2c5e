//! `rehearse prove`: a change beside what is unchanged, on the same traffic, with a verdict.

mod narration;
mod place;
pub mod sides;
pub mod view;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use analyse::proof::Goal;
use clock::{Clock, SystemClock};
use experiment::MANIFEST;
use experiment::proof::{
    PROOF_KIND, ProofGround, ProofJournal, ProofPlan, ProofSide, Proving, SideLoad, prove,
};
use replay::{LoginMap, Options};
use report::{ProofView, proof_page, proof_text, to_json};
use workload::WorkloadReader;

use crate::commands::{looking, outputs, rewrite};
use crate::ending::{Ending, Failure};
use crate::interrupt::Interrupt;
use crate::keys;
use crate::options::Prove;
use crate::terminal;

/// What is kept beside the journal.
const RESULT: &str = "proof.json";
const PAGE: &str = "report.html";

/// Proves, or shows a proof again.
pub fn run(options: &Prove) -> Result<Ending, Failure> {
    if is_proof(&options.workload) {
        let journal = ProofJournal::open(&options.workload)?;
        return show(&journal, view::Ended::Unknown, options);
    }
    check(options)?;
    let sides = sides::sides(&options.changes)?;
    sides::scripts(&sides)?;
    let whole = keys::open(&options.workload)?;
    let mut options = options.clone();
    let place = &mut options.place;
    if place.sandbox.is_some() {
        place.changed_database = Some(looking::database_of(&whole, place.database.as_deref())?);
    }
    let options = &options;
    let interrupt = Interrupt::listen().map_err(Failure::could_not)?;
    let (journal, ended) = perform(options, sides, &whole, &interrupt, &|_| Ok(()))?;
    show(&journal, ended, options)
}

/// Whether the options make sense of a proof, before anything is looked at.
///
/// # Errors
/// Where they do not.
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

/// Sets each side beside the first, which is unchanged, until all is clear or the time is over. `begun` is told of the
/// proof's directory as soon as it is there.
///
/// # Errors
/// Where the options make no sense, or it cannot be done. What is refused leaves nothing behind.
pub fn perform(
    options: &Prove,
    sides: Vec<ProofSide>,
    whole: &WorkloadReader,
    interrupt: &Interrupt,
    begun: &dyn Fn(&Path) -> Result<(), Failure>,
) -> Result<(ProofJournal, view::Ended), Failure> {
    check(options)?;
    let output = options.output.clone().unwrap_or_default();
    let scripts = sides::scripts(&sides)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let kept = options
        .resume
        .then(|| ProofJournal::open(&output))
        .transpose()?;
    if kept.is_none() && output.exists() {
        return Err(Failure::usage(format!(
            "{} is there already; give another name with -o, or --resume to go on with it",
            output.display()
        )));
    }
    let base = base(options);
    let known = kept.as_ref().map(|journal| journal.plan().settings.clone());
    let mut place = place::make(options, whole, &base, (sides.clone(), scripts), known)?;
    let seed = match (&kept, options.goal.seed) {
        (_, Some(seed)) => seed,
        (Some(kept), None) => kept.plan().seed,
        (None, None) => u64::from(rand::random::<u32>()),
    };
    let plan = ProofPlan {
        kind: PROOF_KIND.to_owned(),
        format: 1,
        rehearse: env!("CARGO_PKG_VERSION").to_owned(),
        sides,
        goal: options.goal.goal.name().to_owned(),
        margin: options.goal.margin / 100.0,
        within_s: options.goal.within.as_secs_f64(),
        blocks_max: options.goal.blocks,
        noise_runs: options.goal.noise_runs,
        seed,
        options: described(options, &place.name, whole),
        settings: place.settings.clone(),
        started_wall_us: clock.wall_us(),
    };
    let mut journal = match kept {
        Some(_) => ProofJournal::resume(&output, &plan)?,
        None => {
            let journal = ProofJournal::create(&output, plan)?;
            begun(&output)?;
            journal
        }
    };
    let base = place.options.clone();
    let restores = place.restores;
    let proving = (whole, &base, options.goal.goal, restores);
    let ended = go_on(&mut journal, proving, &mut *place.ground, interrupt)?;
    Ok((journal, ended))
}

/// Does what the journal's proof still lacks, rewriting workloads where a side wants that. `proving` is the whole workload,
/// how it is replayed, the goal, and whether data are restored before each run.
///
/// # Errors
/// Where a replay cannot be done; what is refused before the first leaves nothing behind.
pub fn go_on(
    journal: &mut ProofJournal,
    (whole, base, goal, restores): (&WorkloadReader, &Options, Goal, bool),
    ground: &mut dyn ProofGround,
    interrupt: &Interrupt,
) -> Result<view::Ended, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let loads = match loads(journal, (whole, base), interrupt) {
        Ok(loads) => loads,
        Err(failure) => {
            if journal.records().next().is_none() {
                let _ = std::fs::remove_dir_all(journal.path());
            }
            return Err(failure);
        }
    };
    let proving = Proving {
        loads,
        goal,
        statements: whole.info().statements,
    };
    narration::plan(journal, whole, restores);
    let names: Vec<String> = journal
        .plan()
        .sides
        .iter()
        .map(|side| side.name.clone())
        .collect();
    let statements = proving.statements;
    let mut tell = |told: experiment::proof::ProofTold<'_>| {
        narration::tell(&told, &names, goal, statements);
    };
    let stop = || interrupt.is_asked();
    let ended = prove(&proving, ground, journal, &clock, &mut tell, &stop);
    if ended.is_err() && journal.records().next().is_none() {
        // What is refused leaves nothing behind.
        let _ = std::fs::remove_dir_all(journal.path());
    }
    let ended = ended?;
    Ok(match (ended.stopped, ended.time_over) {
        (true, _) => view::Ended::Stopped,
        (_, true) => view::Ended::TimeOver,
        _ => view::Ended::Unknown,
    })
}

/// What each side's clients do; workloads that are not rewritten yet are.
fn loads(
    journal: &ProofJournal,
    (whole, base): (&WorkloadReader, &Options),
    interrupt: &Interrupt,
) -> Result<Vec<SideLoad>, Failure> {
    let mut loads = Vec::new();
    for (number, side) in journal.plan().sides.iter().enumerate() {
        let rewrites = sides::rewritings(side)?;
        let reader = match rewrites.is_empty() {
            true => whole.clone(),
            false => {
                let path = journal.rewritten_path(number);
                if !path.exists() {
                    // What a kill left of it.
                    for at in 0..rewrites.len() {
                        let between = path.with_extension(format!("{at}.workload"));
                        let _ = std::fs::remove_dir_all(between.with_extension("workload.partial"));
                        let _ = std::fs::remove_dir_all(between);
                    }
                    let _ = std::fs::remove_dir_all(path.with_extension("workload.partial"));
                    let to = whole.recipients();
                    rewrite::rewrite(whole, &rewrites, (&path, &to), interrupt)?;
                }
                keys::open(&path)?
            }
        };
        loads.push(SideLoad {
            reader,
            options: base.clone(),
        });
    }
    Ok(loads)
}

/// Whether it is the directory of a proof.
pub fn is_proof(path: &Path) -> bool {
    let text = std::fs::read_to_string(path.join(MANIFEST)).unwrap_or_default();
    let manifest = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
    manifest["kind"] == PROOF_KIND
}

/// What every replay has.
pub fn base(options: &Prove) -> Options {
    let mut base = Options {
        speed: options.goal.speed,
        statement_timeout: options.place.statement_timeout,
        connections_max: options.place.max_connections,
        logins: LoginMap {
            user: options.place.user.clone(),
            database: options.place.database.clone(),
            ..LoginMap::default()
        },
        ..Options::default()
    };
    if let Some(workers) = options.place.workers {
        base.workers = workers.into();
    }
    base
}

/// What shapes every run, by option, for the manifest.
fn described(
    options: &Prove,
    place: &str,
    whole: &workload::WorkloadReader,
) -> BTreeMap<String, String> {
    let span = |time: Duration| clock::duration_text(time.as_nanos() as i64);
    let given = [
        ("workload", Some(whole.id().to_owned())),
        (
            "workload-name",
            Some(options.workload.display().to_string()),
        ),
        ("place-name", Some(place.to_owned())),
        ("speed", Some(options.goal.speed.to_string())),
        ("user", options.place.user.clone()),
        ("database", options.place.database.clone()),
        ("restore", options.place.restore.clone()),
        ("template", options.place.template.clone()),
        ("load", options.changes.load.clone()),
        (
            "no-restore",
            options.place.no_restore.then(|| "true".to_owned()),
        ),
        (
            "max-connections",
            options.place.max_connections.map(|count| count.to_string()),
        ),
        (
            "statement-timeout",
            options.place.statement_timeout.map(span),
        ),
        (
            "workers",
            options.place.workers.map(|count| count.to_string()),
        ),
    ];
    given
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Prints the result, and writes it and the comparisons beside the journal.
///
/// # Errors
/// Where a run cannot be read, or something cannot be written.
pub fn show(
    journal: &ProofJournal,
    ended: view::Ended,
    options: &Prove,
) -> Result<Ending, Failure> {
    let wanted = options.html.as_deref().map(|path| (outputs::PAGE, path));
    let pages = outputs::begin(&wanted.into_iter().collect::<Vec<_>>())?;
    let (view, html) = written(journal, ended, options.show_literals)?;
    for page in pages {
        page.finish(&html)?;
    }
    if options.json {
        terminal::say_line(&to_json(&view));
    } else {
        terminal::say(&proof_text::render_text(&view, &terminal::style()));
    }
    ending(&view)
}

/// Writes the result, its page and the comparisons beside the journal; and hands back the view and the page.
///
/// # Errors
/// As [`show`].
pub fn written(
    journal: &ProofJournal,
    ended: view::Ended,
    show_literals: bool,
) -> Result<(ProofView, String), Failure> {
    let view = view::view(journal, ended, show_literals)?;
    let html = proof_page::render_html(&view);
    outputs::write(outputs::PAGE, &journal.path().join(PAGE), &html)?;
    let result = journal.path().join(RESULT);
    std::fs::write(&result, format!("{}\n", to_json(&view))).map_err(|error| {
        Failure::could_not(format!("cannot write {}: {error}", result.display()))
    })?;
    Ok((view, html))
}

/// 1 where something got worse or it was stopped, 3 where nothing could be shown.
fn ending(view: &ProofView) -> Result<Ending, Failure> {
    if view.sides.iter().any(|side| side.worse) || view.ended == "stopped" {
        return Ok(Ending::Found);
    }
    let unclear: Vec<&str> = view
        .sides
        .iter()
        .filter(|side| side.verdict == "not proven")
        .map(|side| side.name.as_str())
        .collect();
    match unclear.is_empty() {
        true => Ok(Ending::Done),
        false => Err(Failure::could_not(format!(
            "{}: not proven, neither won nor lost nor the same; give more time (--within, --blocks), a longer workload, or a wider --margin",
            unclear.join(", ")
        ))),
    }
}
