//! Performs the trials of a sweep.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Clock, SystemClock};

use super::request::SweepRequest;
use super::{Length, Load, Pace, Sweep, SweepJournal, SweepPlan, Work, server};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::journal::Manifest;
use crate::keys;
use crate::perform;
use crate::runner::{EndReason, Event};

/// Statements of a script in a sweep's directory, as the workload of its runs.
pub const SCRIPT: &str = "script.workload";

/// Shows a running sweep.
pub trait SweepDisplay {
    /// Called once, before the first trial. `restores` tells whether data are restored before each trial.
    fn begin(&mut self, journal: &SweepJournal, load: &Load, restores: bool);
    /// Called at each event.
    fn happened(&mut self, journal: &SweepJournal, event: &Event<'_, Sweep>);
}

/// Measures all combinations of a sweep's levels, in a random order.
///
/// # Errors
/// If the request is invalid, or the server cannot be set up. A refused sweep leaves no files.
pub fn perform_sweep(
    request: &SweepRequest,
    interrupt: &Interrupt,
    display: &mut dyn SweepDisplay,
) -> Result<(SweepJournal, EndReason), Failure> {
    let previous = SweepJournal::previous(&request.output, request.resume)?;
    let design = request.design(previous.as_ref())?;
    let known = previous.as_ref().map(|one| one.manifest().settings.clone());
    let restores = server::restores(request, request.writes()?)?;
    let mut server = server::make(request, &design, restores, known, interrupt)?;
    server.environment.check()?;
    let manifest = Manifest::new(
        SweepPlan { design },
        described(request, &server)?,
        server.settings.clone(),
        SystemClock::start().wall_us(),
    );
    let mut journal = SweepJournal::begin(&request.output, previous, manifest)?;
    let sweep = Sweep {
        load: load(request, &journal, server.scale)?,
        within: request.length.time_budget,
        keep_runs: request.keep_runs,
    };
    let environment = &mut *server.environment;
    let ended = perform_trials(
        &sweep,
        (environment, restores),
        &mut journal,
        interrupt,
        display,
    )?;
    Ok((journal, ended))
}

/// Performs the trials that the journal lacks. With the environment comes whether data are restored before each trial.
///
/// # Errors
/// If the server cannot be set up, or the journal cannot be written.
pub fn perform_trials(
    sweep: &Sweep,
    (environment, restores): (&mut dyn Environment, bool),
    journal: &mut SweepJournal,
    interrupt: &Interrupt,
    display: &mut dyn SweepDisplay,
) -> Result<EndReason, Failure> {
    display.begin(journal, &sweep.load, restores);
    let tell = &mut |journal: &SweepJournal, event: Event<'_, Sweep>| {
        display.happened(journal, &event);
    };
    perform(sweep, environment, journal, interrupt, tell)
}

/// Returns the options that affect every trial, by name, for the manifest.
fn described(
    request: &SweepRequest,
    server: &server::SweepServer,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut described = BTreeMap::new();
    let mut note = |name: &str, value: String| described.insert(name.to_owned(), value);
    let span = |time: Duration| clock::duration_text(time.as_nanos() as i64);
    match request.trial_length() {
        Length::Time(time) => note("time", span(time)),
        Length::Statements(count) => note("statements", count.to_string()),
        Length::Whole => note("time", "the whole workload".to_owned()),
    };
    note("warm-up", span(request.length.warm_up));
    note("place-name", server.name.clone());
    match (&request.script, &request.workload) {
        (Some(script), _) => {
            note("script", script.to_string());
            note("pgbench-scale", server.scale.to_string());
            note("load-name", format!("{script} at scale {}", server.scale));
            note("statements-of-one", script.statements().to_string());
        }
        (None, Some(path)) => {
            let reader = keys::open_workload(path)?;
            note("workload", reader.id().to_owned());
            note("load-name", path.display().to_string());
        }
        (None, None) => {}
    }
    let place = &request.place;
    let load = place.new_server.as_ref().and_then(|new| new.load.clone());
    let given = [
        ("load", load),
        ("restore", place.restore.clone()),
        ("no-restore", place.no_restore.then(|| "true".to_owned())),
    ];
    for (name, value) in given.iter().chain(&request.session_options) {
        if let Some(value) = value {
            note(name, value.clone());
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    note("cores", cores.to_string());
    Ok(described)
}

fn load(request: &SweepRequest, journal: &SweepJournal, scale: u32) -> Result<Load, Failure> {
    let (reader, work) = match (request.script, &request.workload) {
        (None, Some(path)) => {
            let reader = keys::open_workload(path)?;
            let design = &journal.plan().design;
            let deals = !design.clients.is_empty() && design.paces == [Pace::Closed];
            let modes = if deals { design.modes.as_slice() } else { &[] };
            let work = Work::workload(&reader, modes)?;
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
        options: request.replay.clone(),
        warm_up: request.length.warm_up,
        length: request.trial_length(),
    })
}
