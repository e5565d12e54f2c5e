//! `rehearse sweep`: the same load at many levels, in an order of chance, from the same state.

mod levels;
mod place;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Speed, SystemClock};
use experiment::{
    Budget, Design, Ended, Experiment, ExperimentError, Ground, Journal, Length, Load, MANIFEST,
    Manifest, Mode, Pace, Told, Variant, Work,
};
use replay::{LoginMap, Options};
use report::{SweepTrialNameView, SweepView, sweep_page, sweep_text, to_json};

use crate::commands::outputs;
use crate::ending::{Ending, Failure};
use crate::interrupt::Interrupt;
use crate::keys;
use crate::options::Sweep;
use crate::terminal;

/// How long a trial is measured where nothing says so.
const TIME: Duration = Duration::from_secs(10);
/// What is kept beside the journal.
const PAGE: &str = "report.html";
const RESULT: &str = "sweep.json";
/// The statements of a script, as a workload, for its runs.
pub const SCRIPT: &str = "script.workload";

/// Sweeps, or shows a sweep again.
pub fn run(options: &Sweep) -> Result<Ending, Failure> {
    if let Some(path) = options.workload.as_ref().filter(|path| is_sweep(path)) {
        let page = outputs::begin(&wanted(options))?;
        let journal = Journal::open(path)?;
        return show(&journal, None, options, page);
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
    let design = design(options, output)?;
    let page = outputs::begin(&wanted(options))?;
    let interrupt = Interrupt::listen().map_err(Failure::could_not)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let kept = options.resume.then(|| Journal::open(output)).transpose()?;
    let known = kept
        .as_ref()
        .map(|journal| journal.manifest().settings.clone());
    if kept.is_none() && output.exists() {
        return Err(Failure::usage(format!(
            "{} is there already; give another name with -o, or --resume to go on with it",
            output.display()
        )));
    }

    let restore = place::restores(options, writes(options)?)?;
    let base = base(options);
    let mut place = place::make(options, &design, &base, known)?;
    // What is refused leaves nothing behind.
    place.ground.check(&design.variants)?;
    let described = described(options, &place)?;
    let manifest = Manifest::new(design, described, place.settings.clone(), clock.wall_us());
    let mut journal = match kept {
        Some(_) => Journal::resume(output, &manifest)?,
        None => Journal::create(output, manifest)?,
    };
    let load = load(options, &journal, &place, base)?;
    let experiment = Experiment {
        load,
        budget: Budget {
            within: options.length.within,
        },
        restore,
        keep_runs: options.keep_runs,
    };
    let ended = go_on(&experiment, &mut *place.ground, &mut journal, &interrupt)?;
    show(&journal, ended.why, options, page)
}

/// Does the trials that the journal lacks, and tells of each.
///
/// # Errors
/// Where the server cannot be brought to where trials begin, or the journal not be written.
pub fn go_on(
    experiment: &Experiment,
    ground: &mut dyn Ground,
    journal: &mut Journal,
    interrupt: &Interrupt,
) -> Result<Ended, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    tell_plan(journal, &experiment.load, experiment.restore);
    let unit = match experiment.load.work() {
        Work::Script(..) => "transactions",
        Work::Workload => "statements",
    };
    let variants = journal.manifest().design.variants.clone();
    let mut tell = |told: Told<'_>| tell(&told, unit, &variants);
    let stop = || interrupt.is_asked();
    Ok(experiment::run(
        experiment, ground, journal, &clock, &mut tell, &stop,
    )?)
}

/// Whether the load changes what is on the server.
fn writes(options: &Sweep) -> Result<bool, Failure> {
    match (options.script, &options.workload) {
        (Some(script), _) => Ok(script.writes()),
        (None, Some(path)) => Ok(keys::open(path)?.info().writes > 0),
        (None, None) => Ok(false),
    }
}

fn is_sweep(path: &Path) -> bool {
    let text = std::fs::read_to_string(path.join(MANIFEST)).unwrap_or_default();
    let manifest = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
    manifest["kind"] == "sweep"
}

fn wanted(options: &Sweep) -> Vec<(outputs::Form, &Path)> {
    let page = options.html.as_deref().map(|path| (outputs::PAGE, path));
    page.into_iter().collect()
}

/// Prints the result, and writes the page and the JSON beside the journal.
fn show(
    journal: &Journal,
    why: Option<&str>,
    options: &Sweep,
    page: Vec<outputs::Output>,
) -> Result<Ending, Failure> {
    let (view, html) = leave(journal, why)?;
    for output in page {
        output.finish(&html)?;
    }
    if options.json {
        terminal::say_line(&to_json(&view));
    } else {
        terminal::say(&sweep_text::render_text(&view, &terminal::style()));
    }
    if view.trials_done == 0 {
        return Err(Failure::could_not(
            match view.trials.iter().find_map(|trial| trial.failed.as_ref()) {
                Some(reason) => format!("no trial was done: {reason}"),
                None => "no trial was done".to_owned(),
            },
        ));
    }
    let was_stopped = why.is_some_and(|why| why.contains("stopped"));
    Ok(match view.trials_failed > 0 || was_stopped {
        true => Ending::Found,
        false => Ending::Done,
    })
}

/// Writes the result and its page beside the journal. Returns both.
///
/// # Errors
/// Where a file cannot be written.
pub fn leave(journal: &Journal, why: Option<&str>) -> Result<(SweepView, String), Failure> {
    let view = view::view(journal, why);
    let html = sweep_page::render_html(&view);
    outputs::write(outputs::PAGE, &journal.path().join(PAGE), &html)?;
    let result = journal.path().join(RESULT);
    std::fs::write(&result, format!("{}\n", to_json(&view))).map_err(|error| {
        Failure::could_not(format!("cannot write {}: {error}", result.display()))
    })?;
    Ok((view, html))
}

fn design(options: &Sweep, output: &Path) -> Result<Design, Failure> {
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
            "other modes than the captured one need --clients, which deals the workload to so many clients",
        ));
    }
    if is_repeated(&clients) || is_repeated(&modes) || is_repeated(&paces) {
        return Err(Failure::usage(
            "a level is named twice; name each once, and give --repeat for more trials of each",
        ));
    }
    let seed = match (factors.seed, options.resume) {
        (Some(seed), _) => seed,
        (None, true) => Journal::open(output)?.manifest().design.seed,
        (None, false) => u64::from(rand::random::<u32>()),
    };
    Ok(Design {
        clients,
        paces,
        modes,
        variants: levels::variants(&factors.set, &factors.variant)?,
        repeat: factors.repeat,
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

/// What every replay has.
fn base(options: &Sweep) -> Options {
    let mut base = Options {
        statement_timeout: options.place.statement_timeout,
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

/// What shapes every trial, by option, for the manifest.
fn described(options: &Sweep, place: &place::Place) -> Result<BTreeMap<String, String>, Failure> {
    let mut described = BTreeMap::new();
    let mut note = |name: &str, value: String| described.insert(name.to_owned(), value);
    let span = |time: Duration| clock::duration_text(time.as_nanos() as i64);
    match length(options) {
        Length::Time(time) => note("time", span(time)),
        Length::Statements(count) => note("statements", count.to_string()),
        Length::Whole => note("time", "the whole workload".to_owned()),
    };
    note("warm-up", span(options.length.warm_up));
    note("place-name", place.name.clone());
    match (&options.script, &options.workload) {
        (Some(script), _) => {
            note("script", script.to_string());
            note("pgbench-scale", place.scale.to_string());
            note("load-name", format!("{script} at scale {}", place.scale));
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
        ("user", options.place.user.clone()),
        ("database", options.place.database.clone()),
        ("load", options.place.load.clone()),
        ("restore", options.place.restore.clone()),
        (
            "no-restore",
            options.place.no_restore.then(|| "true".to_owned()),
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
    for (name, value) in given {
        if let Some(value) = value {
            note(name, value);
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    note("cores", cores.to_string());
    Ok(described)
}

fn load(
    options: &Sweep,
    journal: &Journal,
    place: &place::Place,
    base: Options,
) -> Result<Load, Failure> {
    let (warm_up, length) = (options.length.warm_up, length(options));
    if let Some(script) = options.script {
        let path: PathBuf = journal.path().join(SCRIPT);
        return Ok(Load::of_script(
            script,
            place.scale,
            &path,
            base,
            warm_up,
            length,
        )?);
    }
    let path = options.workload.as_ref().expect("one of the two is given");
    let reader = keys::open(path)?;
    let design = &journal.manifest().design;
    let deals = !design.clients.is_empty() && design.paces == [Pace::Closed];
    let modes = if deals { design.modes.as_slice() } else { &[] };
    let load = Load::of_workload(reader, modes, base, warm_up, length)?;
    for mode in modes {
        if let Some(dealt) = load.dealt(*mode)
            && *mode != Mode::Captured
        {
            terminal::note(&format!(
                "In the mode {} {} statements are sent in another form than they were captured in, and {} as they were: simple queries, and those in that form already.",
                mode.name(),
                dealt.changed,
                dealt.unchanged
            ));
        }
    }
    Ok(load)
}

fn tell_plan(journal: &Journal, load: &Load, restore: bool) {
    let design = &journal.manifest().design;
    let (all, done) = (design.trials().len(), journal.records().count());
    let writes = match (load.writes(), restore) {
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

fn tell(told: &Told<'_>, unit: &str, variants: &[Variant]) {
    match told {
        Told::Begins {
            trial,
            done,
            of,
            left,
        } => {
            let name = SweepTrialNameView {
                number: trial.number,
                block: trial.block,
                clients: trial.cell.clients,
                pace: trial.cell.pace.to_string(),
                mode: trial.cell.mode.name().to_owned(),
                variant: variants[trial.cell.variant].name.clone(),
            };
            let left = left.map_or_else(String::new, |left| {
                format!(
                    "; about {} left",
                    clock::duration_text(left.as_nanos() as i64)
                )
            });
            terminal::note(&format!(
                "Trial {} of {of}: {}{left}.",
                done + 1,
                sweep_text::trial_text(&name)
            ));
        }
        Told::Over(record) => {
            let text = match (&record.numbers, &record.failed) {
                (Some(numbers), _) => sweep_text::numbers_text(&view::numbers(numbers), unit),
                (None, failed) => format!(
                    "failed: {}",
                    failed.as_deref().unwrap_or("nobody knows why")
                ),
            };
            terminal::note(&format!("  {text}"));
        }
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Usage(sentence) => Failure::usage(sentence),
            ExperimentError::Replay(error) => error.into(),
            ExperimentError::Sandbox(error) => error.into(),
            ExperimentError::Archive(error) => error.into(),
            error => Failure::could_not(error),
        }
    }
}
