//! Sweeps of a built-in script on the server of a case.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Clock, SystemClock};
use replay::Options;
use report::result_files;
use report::sweep_progress::SweepNarrator;
use study::sweep::{
    Design, Length, Load, Record, SCRIPT, Script, Sweep, SweepJournal, SweepPlan, Variant, Work,
    perform_trials,
};
use study::{AtEnd, Failure, LeasePurpose, Manifest, SandboxEnvironment, SandboxLease};

use super::{DATABASE, LOADED, Stage};

/// Request of a sweep.
pub(crate) struct ScriptSweep<'s> {
    /// Name in the case's directory, NAME.sweep.
    pub(crate) name: &'s str,
    pub(crate) script: Script,
    /// Scale of the script's tables, which are loaded.
    pub(crate) scale: u32,
    pub(crate) design: Design,
    pub(crate) warm_up: Duration,
    /// Duration of each measurement.
    pub(crate) time: Duration,
    /// Settings of the server in every trial.
    pub(crate) settings: Vec<(String, String)>,
}

impl Stage {
    /// Sweeps from the loaded data. The sweep is left in the case's directory, and the server is stopped.
    pub(crate) fn sweep(
        mut self,
        request: ScriptSweep<'_>,
    ) -> Result<(Self, Vec<Record>), Failure> {
        self.server.restore(LOADED)?;
        self.server.set(request.settings.clone())?;
        let described = describe(&request, &self.version());
        let lease = SandboxLease::acquire(self.server, DATABASE, LeasePurpose::Sweep, None)?;
        let variants = request.design.variants.iter();
        let conditions = variants.map(Variant::condition).collect();
        let manifest = Manifest::new(
            SweepPlan {
                design: request.design,
            },
            described,
            request.settings,
            SystemClock::start().wall_us(),
        );
        let mut journal = SweepJournal::begin(&self.directory.join(request.name), None, manifest)?;
        let script = journal.path().join(SCRIPT);
        let sweep = Sweep {
            load: Load {
                reader: request.script.workload(&script)?,
                work: Work::Script(request.script, request.scale),
                options: Options::default(),
                warm_up: request.warm_up,
                length: Length::Time(request.time),
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
            &self.context.interrupt,
            &mut SweepNarrator::default(),
        )?;
        result_files::write_sweep(&journal, Some(ended))?;
        self.server = environment.into_sandbox();
        self.stop()?;
        Ok((self, journal.records().cloned().collect()))
    }
}

/// Returns the options by name, for the manifest.
fn describe(request: &ScriptSweep<'_>, version: &str) -> BTreeMap<String, String> {
    let span = |time: Duration| clock::duration_text(time.as_nanos() as i64);
    [
        ("time", span(request.time)),
        ("warm-up", span(request.warm_up)),
        ("place-name", format!("a private PostgreSQL {version}")),
        ("script", request.script.to_string()),
        ("pgbench-scale", request.scale.to_string()),
        (
            "load-name",
            format!("{} at scale {}", request.script, request.scale),
        ),
        ("statements-of-one", request.script.statements().to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
