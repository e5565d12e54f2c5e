//! `rehearse sweep`: measures the same load at several levels, in random order, from the same
//! initial state.

mod server;
mod view;

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Clock, Speed, SystemClock};
use study::sweep::levels;
use study::sweep::{
    Design, Length, Load, Mode, Pace, Sweep as Trials, SweepJournal, SweepPlan, Work,
};

use report::{SweepReport, sweep_page, sweep_text, to_json};
use study::{End, Environment, Event, Manifest};

use crate::commands::experiments;
use crate::exit_status::ExitStatus;
use crate::options::Sweep;
use crate::terminal;
use study::Failure;
use study::Interrupt;
use study::keys;

/// Default duration of a trial's measurement.
const TIME: Duration = Duration::from_secs(10);
/// Result in the sweep's directory.
const RESULT: &str = "sweep.json";
/// Statements of a script, as the workload of its runs.
pub const SCRIPT: &str = "script.workload";

/// Sweeps, or shows a finished sweep again.
pub fn run(options: &Sweep) -> Result<ExitStatus, Failure> {
    if let Some(path) = options
        .workload
        .as_ref()
        .filter(|path| SweepJournal::is_at(path))
    {
        let journal = SweepJournal::open(path)?;
        return show(&journal, None, options);
    }
    let Some(output) = &options.output else {
        return Err(Failure::usage(
            "nothing says where the result goes; give -o NAME.sweep",
        ));
    };
    if options.workload.is_none() && options.script.is_none() {
        return Err(Failure::usage(
            "nothing says what clients do; give a NAME.workload, or --script select-only, simple-update or tpcb-like",
        ));
    }
    let previous = SweepJournal::previous(output, options.resume)?;
    let design = design(options, previous.as_ref())?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let known = previous.as_ref().map(|one| one.manifest().settings.clone());
    let restores = server::restores(options, writes(options)?)?;
    let mut server = server::make(options, &design, restores, known)?;
    // A refused sweep leaves no files.
    server.environment.check()?;
    let manifest = Manifest::new(
        SweepPlan { design },
        described(options, &server)?,
        server.settings.clone(),
        SystemClock::start().wall_us(),
    );
    let mut journal = SweepJournal::begin(output, previous, manifest)?;
    let sweep = Trials {
        load: load(options, &journal, server.scale)?,
        within: options.length.time_budget,
        keep_runs: options.keep_runs,
    };
    let environment = &mut *server.environment;
    let ended = perform(&sweep, environment, restores, &mut journal, &interrupt)?;
    show(&journal, Some(ended), options)
}

/// Performs the trials that the journal lacks, and reports each on standard error.
///
/// # Errors
/// If the server cannot be set up, or the journal cannot be written.
pub fn perform(
    sweep: &Trials,
    environment: &mut dyn Environment,
    restores: bool,
    journal: &mut SweepJournal,
    interrupt: &Interrupt,
) -> Result<End, Failure> {
    tell_plan(journal, &sweep.load, restores);
    let unit = match sweep.load.work {
        Work::Script(..) => "transactions",
        Work::Workload(_) => "statements",
    };
    study::perform(
        sweep,
        environment,
        journal,
        interrupt,
        &mut |journal, event| {
            tell(journal, &event, unit);
        },
    )
}

/// Returns whether the load changes data on the server.
fn writes(options: &Sweep) -> Result<bool, Failure> {
    match (options.script, &options.workload) {
        (Some(script), _) => Ok(script.writes()),
        (None, Some(path)) => Ok(keys::open(path)?.info().writes > 0),
        (None, None) => Ok(false),
    }
}

/// Prints the result, and writes the page and the JSON into the sweep's directory.
fn show(
    journal: &SweepJournal,
    ended: Option<End>,
    options: &Sweep,
) -> Result<ExitStatus, Failure> {
    let view = write(journal, ended)?;
    if options.json {
        terminal::say_line(&to_json(&view));
    } else {
        terminal::say(&sweep_text::render_text(&view, &terminal::style()));
    }
    if view.trials_done == 0 {
        let reason = view.trials.iter().find_map(|trial| trial.failed.as_ref());
        return Err(Failure::could_not(match reason {
            Some(reason) => format!("no trial was done: {reason}"),
            None => "no trial was done".to_owned(),
        }));
    }
    Ok(
        match view.trials_failed > 0 || ended == Some(End::Interrupted) {
            true => ExitStatus::Findings,
            false => ExitStatus::Success,
        },
    )
}

/// Writes the result and its page into the sweep's directory. Returns the result.
///
/// # Errors
/// If a file cannot be written.
pub fn write(journal: &SweepJournal, ended: Option<End>) -> Result<SweepReport, Failure> {
    let reason = ended.and_then(|ended| match ended {
        End::Complete => None,
        End::Interrupted => Some("it was stopped"),
        End::Failing => Some("three trials in a row failed"),
        End::TimeOver => Some("the time that it was given (--time-budget) was over"),
    });
    let view = view::report(journal, reason);
    let html = sweep_page::render_html(&view);
    experiments::write_results(journal.path(), RESULT, &to_json(&view), &html)?;
    Ok(view)
}

fn design(options: &Sweep, previous: Option<&SweepJournal>) -> Result<Design, Failure> {
    let factors = &options.factors;
    let is_script = options.script.is_some();
    if !is_script && !factors.rate.is_empty() {
        return Err(Failure::usage(
            "--rate is for scripts; a workload has times of its own, which --speed makes faster or slower",
        ));
    }
    let modes = match (factors.mode.as_slice(), is_script) {
        ([], true) => vec![Mode::Prepared],
        ([], false) => vec![Mode::Captured],
        (modes, true) if modes.contains(&Mode::Captured) => {
            return Err(Failure::usage(
                "a script was not captured; give --mode simple, extended or prepared",
            ));
        }
        (modes, false) if modes.contains(&Mode::Simple) => {
            return Err(Failure::usage(
                "--mode simple is for scripts: the parameters of a workload are not put into its texts; give captured, extended or prepared",
            ));
        }
        (modes, _) => modes.to_vec(),
    };
    let paces: Vec<Pace> = match (factors.rate.as_slice(), factors.speed.as_slice()) {
        ([], []) => vec![Pace::Closed],
        ([], speeds) => speeds.iter().map(|&speed| Pace::Speed(speed)).collect(),
        (rates, _) => rates.iter().map(|&rate| Pace::Rate(rate)).collect(),
    };
    if paces.contains(&Pace::Speed(Speed::Max)) {
        return Err(Failure::usage(
            "--speed max is a closed loop: leave --speed out, and give --clients for how many sessions there are at once",
        ));
    }
    let is_paced = matches!(paces[0], Pace::Speed(_));
    if is_paced && modes != [Mode::Captured] {
        return Err(Failure::usage(
            "at --speed a workload is sent as it was captured; leave --mode out, or --speed for a closed loop of --clients",
        ));
    }
    let clients = match (factors.clients.as_slice(), is_script) {
        ([], true) => vec![1],
        (clients, _) => clients.to_vec(),
    };
    if !is_script && clients.is_empty() && modes != [Mode::Captured] {
        return Err(Failure::usage(
            "other modes than the captured one need --clients, which deals the workload to N clients",
        ));
    }
    if is_repeated(&clients) || is_repeated(&modes) || is_repeated(&paces) {
        return Err(Failure::usage(
            "a level is named twice; name each once, and give --trials for more trials of each",
        ));
    }
    let seed = factors
        .seed
        .or(previous.map(|journal| journal.plan().design.seed))
        .unwrap_or_else(|| rand::random::<u32>().into());
    Ok(Design {
        clients,
        paces,
        modes,
        variants: levels::variants(&factors.set, &factors.variant)?,
        repeat: factors.trials,
        seed,
    })
}

fn is_repeated<T: PartialEq>(levels: &[T]) -> bool {
    let mut places = 1..levels.len();
    places.any(|place| levels[..place].contains(&levels[place]))
}

fn length(options: &Sweep) -> Length {
    match (options.length.time, options.length.statements) {
        (Some(time), _) => Length::Time(time),
        (None, Some(count)) => Length::Statements(count),
        (None, None) if !options.factors.speed.is_empty() => Length::Whole,
        (None, None) => Length::Time(TIME),
    }
}

/// Returns the options that affect every trial, by name, for the manifest.
fn described(
    options: &Sweep,
    server: &server::SweepServer,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut described = BTreeMap::new();
    let mut note = |name: &str, value: String| described.insert(name.to_owned(), value);
    let span = |time: Duration| clock::duration_text(time.as_nanos() as i64);
    match length(options) {
        Length::Time(time) => note("time", span(time)),
        Length::Statements(count) => note("statements", count.to_string()),
        Length::Whole => note("time", "the whole workload".to_owned()),
    };
    note("warm-up", span(options.length.warm_up));
    note("place-name", server.name.clone());
    match (&options.script, &options.workload) {
        (Some(script), _) => {
            note("script", script.to_string());
            note("pgbench-scale", server.scale.to_string());
            note("load-name", format!("{script} at scale {}", server.scale));
            note("statements-of-one", script.statements().to_string());
        }
        (None, Some(path)) => {
            let reader = keys::open(path)?;
            note("workload", reader.id().to_owned());
            note("load-name", path.display().to_string());
        }
        (None, None) => {}
    }
    let given = [
        ("load", options.place.load.clone()),
        ("restore", options.place.restore.clone()),
        (
            "no-restore",
            options.place.no_restore.then(|| "true".to_owned()),
        ),
    ];
    for (name, value) in given.into_iter().chain(options.place.session.described()) {
        if let Some(value) = value {
            note(name, value);
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    note("cores", cores.to_string());
    Ok(described)
}

fn load(options: &Sweep, journal: &SweepJournal, scale: u32) -> Result<Load, Failure> {
    let (reader, work) = match (options.script, &options.workload) {
        (None, Some(path)) => {
            let reader = keys::open(path)?;
            let design = &journal.plan().design;
            let deals = !design.clients.is_empty() && design.paces == [Pace::Closed];
            let modes = if deals { design.modes.as_slice() } else { &[] };
            let work = Work::workload(&reader, modes)?;
            tell_modes(&work);
            (reader, work)
        }
        (script, _) => {
            let script = script.expect("one of the two is given");
            let reader = script.workload(&journal.path().join(SCRIPT))?;
            (reader, Work::Script(script, scale))
        }
    };
    Ok(Load {
        reader,
        work,
        options: options.place.session.replay_options(),
        warm_up: options.length.warm_up,
        length: length(options),
    })
}

fn tell_modes(work: &Work) {
    let Work::Workload(pools) = work else { return };
    for (mode, pool) in pools.iter().filter(|(mode, _)| **mode != Mode::Captured) {
        terminal::note(&format!(
            "In the mode {} {} statements are sent in another form than they were captured in, and {} as they were: simple queries, and those in that form already.",
            mode.name(),
            pool.changed,
            pool.unchanged
        ));
    }
}

fn tell_plan(journal: &SweepJournal, load: &Load, restores: bool) {
    let design = &journal.plan().design;
    let (all, done) = (design.trials().len(), journal.records().count());
    let writes = match (load.writes(), restores) {
        (false, _) => "nothing of it writes, as far as its first words tell",
        (true, true) => "it writes, and data are restored before each trial",
        (true, false) => "it writes, and each trial finds what the one before it left",
    };
    let before = match done {
        0 => String::new(),
        done => format!("; {done} are done already"),
    };
    terminal::note(&format!(
        "{all} trials: {} combinations, {} of each{before}. The order is of chance (seed {}); {writes}.",
        design.cells().len(),
        design.repeat,
        design.seed
    ));
}

fn tell(journal: &SweepJournal, event: &Event<'_, Trials>, unit: &str) {
    match event {
        Event::Preparing => {}
        Event::Begin(trial, progress) => {
            let (all, done) = (
                journal.plan().design.trials().len(),
                journal.records().count(),
            );
            let left = progress.longest.map_or_else(String::new, |longest| {
                let left = longest * (all - done) as u32;
                format!(
                    "; about {} left",
                    clock::duration_text(left.as_nanos() as i64)
                )
            });
            terminal::note(&format!(
                "Trial {} of {all}: {}{left}.",
                done + 1,
                sweep_text::trial_text(trial, &journal.plan().design.variants)
            ));
        }
        Event::Over(record) => {
            let text = match (&record.numbers, &record.failed) {
                (Some(numbers), _) => sweep_text::numbers_text(numbers, unit),
                (None, failed) => format!(
                    "failed: {}",
                    failed.as_deref().unwrap_or("nobody knows why")
                ),
            };
            terminal::note(&format!("  {text}"));
        }
    }
}
