//! A sweep of a built-in script, on a case's stage.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Clock, SystemClock};
use experiment::{
    Budget, Design, Experiment, Journal, Length, Load, Manifest, Record, Sandboxed, Script,
};
use replay::Options;
use sandbox::Stop;

use super::stage::{DATABASE, LOADED, Stage};
use crate::commands::sweep;
use crate::ending::Failure;

/// What is swept.
pub(super) struct SweepWanted<'w> {
    /// Its name in the folder, NAME.sweep.
    pub(super) name: &'w str,
    pub(super) script: Script,
    /// Of the script's tables, which were loaded.
    pub(super) scale: u32,
    pub(super) design: Design,
    pub(super) warm_up: Duration,
    pub(super) time: Duration,
    /// What the server is set in every trial.
    pub(super) settings: Vec<(String, String)>,
}

impl Stage {
    /// Sweeps from what was loaded. The sweep is left in the folder, and the server stopped.
    pub(super) fn sweep(mut self, wanted: SweepWanted<'_>) -> Result<(Self, Vec<Record>), Failure> {
        self.server.restore(LOADED)?;
        self.server.set(wanted.settings.clone())?;
        let version = self.version();
        let span = |time: Duration| clock::duration_text(time.as_nanos() as i64);
        let described = [
            ("time", span(wanted.time)),
            ("warm-up", span(wanted.warm_up)),
            ("place-name", format!("a private PostgreSQL {version}")),
            ("script", wanted.script.to_string()),
            ("pgbench-scale", wanted.scale.to_string()),
            (
                "load-name",
                format!("{} at scale {}", wanted.script, wanted.scale),
            ),
            ("statements-of-one", wanted.script.statements().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value));
        let manifest = Manifest::new(
            wanted.design,
            BTreeMap::from(described),
            wanted.settings.clone(),
            SystemClock::start().wall_us(),
        );
        let mut journal = Journal::create(&self.directory.join(wanted.name), manifest)?;
        let load = Load::of_script(
            wanted.script,
            wanted.scale,
            &journal.path().join(sweep::SCRIPT),
            Options::default(),
            wanted.warm_up,
            Length::Time(wanted.time),
        )?;
        let experiment = Experiment {
            restore: load.writes(),
            load,
            budget: Budget { within: None },
            keep_runs: false,
        };
        let mut ground = Sandboxed::new(self.server, DATABASE, wanted.settings, true, false)?;
        let ended = sweep::go_on(&experiment, &mut ground, &mut journal, &self.interrupt)?;
        sweep::leave(&journal, ended.why)?;
        self.server = ground.into_sandbox();
        self.server.stop(Stop::Fast)?;
        Ok((self, journal.records().cloned().collect()))
    }
}
