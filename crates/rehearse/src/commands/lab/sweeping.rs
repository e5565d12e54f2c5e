//! A sweep of a built-in script, on a case's stage.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Clock, SystemClock};
use replay::Options;
use report::result_files;
use report::sweep_progress::SweepNarrator;
use sandbox::Stop;
use study::sweep::{
    Design, Length, Load, Record, SCRIPT, Script, Sweep, SweepJournal, SweepPlan, Variant, Work,
    perform_trials,
};
use study::{AtEnd, LeasePurpose, Manifest, SandboxEnvironment, SandboxLease};

use super::stage::{DATABASE, LOADED, Stage};
use study::Failure;

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
        let lease = SandboxLease::acquire(self.server, DATABASE, LeasePurpose::Sweep, None)?;
        let conditions = wanted.design.variants.iter().map(Variant::condition);
        let conditions = conditions.collect();
        let manifest = Manifest::new(
            SweepPlan {
                design: wanted.design,
            },
            BTreeMap::from(described),
            wanted.settings,
            SystemClock::start().wall_us(),
        );
        let mut journal = SweepJournal::begin(&self.directory.join(wanted.name), None, manifest)?;
        let sweep = Sweep {
            load: Load {
                reader: wanted.script.workload(&journal.path().join(SCRIPT))?,
                work: Work::Script(wanted.script, wanted.scale),
                options: Options::default(),
                warm_up: wanted.warm_up,
                length: Length::Time(wanted.time),
            },
            within: None,
            keep_runs: false,
        };
        let restores = sweep.load.writes();
        let environment = SandboxEnvironment::new(lease, conditions, None);
        let mut environment = environment.restoring(restores, AtEnd::Restore);
        let ended = perform_trials(
            &sweep,
            (&mut environment, restores),
            &mut journal,
            &self.interrupt,
            &mut SweepNarrator::default(),
        )?;
        result_files::write_sweep(&journal, Some(ended))?;
        self.server = environment.into_sandbox();
        self.server.stop(Stop::Fast)?;
        Ok((self, journal.records().cloned().collect()))
    }
}
