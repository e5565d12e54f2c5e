//! The stage of a case: its directory, its private server, and the steps that all cases share.

mod proof;
mod sweep;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::sandbox::{Dirs, Endpoint, Options as SandboxOptions, Sandbox, ServerRequirements, Stop};
use clock::{Clock, SystemClock};
use cpu_profile::ProfileOptions;
use diagnose::{Diagnosis, Evidence, Thresholds, diagnose};
use observe::MonitorOptions;
use postgres::{Client, NoTls};
use replay::{Options, Target};
use report::flame::{FlameKind, FlameTitles, flame_svg};
use run::{RunInfo, RunReader};
use study::capture_log::capture_files;
use study::observe_server::observe_server;
use study::observed_replay::replay_observed;
use study::profile_samples::{SampleFilter, sampled_profile};
use study::record_profile::record_profile;
use study::target_snapshot::ObservationPlan;
use study::{Failure, Interrupt, diagnosis_inputs, notes};
use workload::WorkloadReader;

use crate::case::{Case, Context};
use crate::error::LabError;

pub(crate) use proof::{CaseProof, ProofRequest, proposed_sql, side_of_change};
pub(crate) use sweep::ScriptSweep;

/// Settings that log everything a replay needs, in CSV.
pub const LOGGING: [(&str, &str); 9] = [
    ("logging_collector", "on"),
    ("log_destination", "csvlog"),
    ("log_statement", "none"),
    ("log_min_duration_statement", "0"),
    ("log_connections", "on"),
    ("log_disconnections", "on"),
    ("log_directory", "log"),
    ("log_filename", "postgresql.log"),
    // Without it the values of a statement that failed are not in the log (PostgreSQL 13 and later).
    ("log_parameter_max_length_on_error", "-1"),
];

/// File that marks a directory as that of a case.
const MARK: &str = ".rehearse-lab";
/// Snapshot from which every replay begins.
const LOADED: &str = "loaded";
/// Database of every case.
const DATABASE: &str = "postgres";
/// CPU samples per second. It is more than elsewhere, since recordings are short.
pub(crate) const PROFILE_HZ: u32 = 997;

/// Converts settings to the form that a server takes.
pub fn server_settings(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    settings.iter().map(owned).collect()
}

/// The stage of a case.
pub(crate) struct Stage {
    /// Directory of the results.
    pub(crate) directory: PathBuf,
    /// The private server.
    pub(crate) server: Sandbox,
    endpoint: Endpoint,
    context: Context,
    steps: Vec<String>,
}

impl Stage {
    /// Creates the directory, and starts an empty private server.
    ///
    /// # Errors
    /// If the directory has other contents, or there is no server.
    pub(crate) fn create(
        case: Case,
        directory: &Path,
        (server, options): (&ServerRequirements, SandboxOptions),
        context: Context,
    ) -> Result<Self, Failure> {
        create_directory(directory)?;
        let places = Dirs::from_environment()?;
        let installation = (context.find_installation)(server, &places)?;
        let mut server = Sandbox::create(&installation, options, &places)?;
        let endpoint = server.start()?;
        notes::note(&format!(
            "{}: PostgreSQL {}, deleted when the case ends.",
            case.name, installation.version
        ));
        Ok(Stage {
            directory: directory.to_owned(),
            server,
            endpoint,
            context,
            steps: Vec::new(),
        })
    }

    /// Returns the server's version.
    pub(crate) fn version(&self) -> String {
        self.server.installation().version.to_string()
    }

    /// Returns the server's address.
    pub(crate) fn url(&self) -> String {
        self.endpoint.url(DATABASE)
    }

    /// Returns the user's request to stop.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.context.interrupt
    }

    fn target(&self) -> Result<Target, Failure> {
        Ok(Target::parse(&self.url(), |_| None)?)
    }

    /// Reports the next step, and keeps it for the report.
    ///
    /// # Errors
    /// If the user asked to stop.
    pub(crate) fn step(&mut self, text: impl Into<String>) -> Result<(), Failure> {
        if self.context.interrupt.is_requested() {
            return Err(Failure::could_not(
                "the case was stopped; its server is deleted, what it made so far is left",
            ));
        }
        let text = text.into();
        notes::note(&text);
        self.steps.push(text);
        Ok(())
    }

    /// Returns a function that opens connections with an application's name.
    pub(crate) fn connections(
        &self,
    ) -> impl Fn(&str) -> Result<Client, postgres::Error> + Sync + use<> {
        let url = self.url();
        move |application: &str| {
            let mut config: postgres::Config = url.parse()?;
            config.application_name(application);
            config.connect(NoTls)
        }
    }

    /// Connects to the server.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        self.connections()("lab")
            .map_err(|error| Failure::could_not(format!("cannot connect: {error}")))
    }

    /// Connects to the server, and creates the extension `pg_stat_statements`.
    pub(crate) fn client_with_statistics(&self) -> Result<Client, Failure> {
        let mut client = self.client()?;
        create_statistics(&mut client)?;
        Ok(client)
    }

    /// Stops the server.
    pub(crate) fn stop(&mut self) -> Result<(), Failure> {
        Ok(self.server.stop(Stop::Fast)?)
    }

    /// Keeps the server's data as the state from which every replay begins. The server continues with logging on.
    pub(crate) fn keep_loaded(&mut self) -> Result<(), Failure> {
        self.stop()?;
        self.server.snapshot(LOADED)?;
        self.server.set(server_settings(&LOGGING))?;
        self.endpoint = self.server.start()?;
        Ok(())
    }

    /// Restores the loaded data, and starts the server.
    pub(crate) fn restart(&mut self) -> Result<(), Failure> {
        self.restart_from(LOADED)
    }

    /// Restores a snapshot, and starts the server.
    pub(crate) fn restart_from(&mut self, snapshot: &str) -> Result<(), Failure> {
        self.server.restore(snapshot)?;
        self.endpoint = self.server.start()?;
        Ok(())
    }

    /// Restores the loaded data, and starts the server with settings.
    pub(crate) fn restart_with(&mut self, settings: &[(&str, &str)]) -> Result<(), Failure> {
        self.server.set(server_settings(settings))?;
        self.restart()
    }

    /// Stops the server, and captures its log into a workload. Logging is off afterwards.
    pub(crate) fn capture_log(&mut self, name: &str) -> Result<WorkloadReader, Failure> {
        self.stop()?;
        let log = self.directory.join("postgresql.csv");
        std::fs::copy(self.server.data_dir().join("log/postgresql.csv"), &log)
            .map_err(|error| Failure::could_not(format!("{}: {error}", log.display())))?;
        let workload = self.directory.join(name);
        capture_files(&[log], &workload, &self.context.interrupt)?;
        self.server.set(Vec::new())?;
        Ok(WorkloadReader::open(&workload)?)
    }

    /// Replays a workload from the loaded data. `prepare` runs before the first statement.
    pub(crate) fn replay(
        &mut self,
        workload: &WorkloadReader,
        name: &str,
        options: &Options,
        asked: ObservationPlan,
        prepare: impl FnOnce(&mut Client) -> Result<(), LabError>,
    ) -> Result<(PathBuf, RunInfo), Failure> {
        self.restart()?;
        let mut client = self.client()?;
        prepare(&mut client)?;
        drop(client);
        let output = self.directory.join(name);
        let info = replay_observed(
            workload,
            &self.target()?,
            options,
            asked,
            &output,
            &self.context.interrupt,
            &mut *(self.context.replay_display)(),
        )?;
        self.stop()?;
        Ok((output, info))
    }

    /// Observes the server for `duration` while `work` runs in a thread. `work` receives a function that returns
    /// whether the observation is over.
    pub(crate) fn observe<T: Send>(
        &self,
        name: &str,
        options: &MonitorOptions,
        duration: Duration,
        work: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<T, LabError> + Send,
    ) -> Result<(PathBuf, T), Failure> {
        let output = self.directory.join(name);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        let worked = std::thread::scope(|scope| -> Result<T, Failure> {
            let worker = scope.spawn(|| work(&|| is_over.load(relaxed)));
            let observed = self.target().and_then(|target| {
                observe_server(
                    &target,
                    options,
                    Some(duration),
                    &output,
                    &self.context.interrupt,
                    &mut *(self.context.observation_display)(Some(duration)),
                )
            });
            is_over.store(true, relaxed);
            let worked = worker.join().expect("the system does not panic");
            observed?;
            Ok(worked?)
        })?;
        Ok((output, worked))
    }

    /// Returns a function that reads the CPU time of the running server's processes, as the kernel counts it, in
    /// nanoseconds.
    pub(crate) fn processor_time(&mut self) -> impl Fn() -> Option<u64> + use<> {
        let postmaster = self.server.pid().and_then(|pid| u32::try_from(pid).ok());
        move || cpu_profile::server_cpu_ns(postmaster?)
    }

    /// Records a CPU profile of the server into a run while `work` runs. If there is no profile, the inner error is
    /// the reason, and `work` does not run.
    pub(crate) fn profile<T>(
        &self,
        name: &str,
        work: impl FnOnce() -> T,
    ) -> Result<Result<(PathBuf, T), String>, Failure> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let output = self.directory.join(name);
        let options = ProfileOptions {
            frequency_hz: PROFILE_HZ,
            statements: true,
            ..ProfileOptions::default()
        };
        let result = record_profile(&self.target()?, &options, &output, &clock, work)?;
        Ok(result.map(|result| (output, result)))
    }

    /// Writes the flame graph of a run's profile as `STEM.svg`, and its stacks as `STEM.folded`. Returns the stacks.
    pub(crate) fn write_flame_graph(
        &self,
        run: &Path,
        stem: &str,
        title: &str,
    ) -> Result<Vec<String>, Failure> {
        let folded = sampled_profile(run, &SampleFilter::default())?.folded();
        let titles = FlameTitles {
            title: title.to_owned(),
            unit: "samples".to_owned(),
            kind: FlameKind::Processor,
            ..FlameTitles::default()
        };
        let svg = flame_svg(&folded, &titles)
            .map_err(|error| Failure::could_not(format!("there is nothing to draw: {error}")))?;
        self.write_text(&format!("{stem}.svg"), &svg)?;
        self.write_text(&format!("{stem}.folded"), &(folded.join("\n") + "\n"))?;
        Ok(folded)
    }

    /// Writes a file of the case.
    pub(crate) fn write_text(&self, name: &str, text: &str) -> Result<(), Failure> {
        let file = self.directory.join(name);
        std::fs::write(&file, text)
            .map_err(|error| Failure::could_not(format!("{}: {error}", file.display())))
    }

    /// Deletes the server. Returns the steps.
    pub(crate) fn close(self) -> Result<Vec<String>, Failure> {
        self.server.close()?;
        Ok(self.steps)
    }
}

/// Creates the extension `pg_stat_statements`.
pub(crate) fn create_statistics(client: &mut Client) -> Result<(), LabError> {
    client
        .batch_execute("CREATE EXTENSION pg_stat_statements")
        .map_err(LabError::server("pg_stat_statements cannot be made"))
}

/// Returns the observations of a replay whose plans are diagnosed: facts and plans.
pub(crate) fn facts_and_plans() -> ObservationPlan {
    ObservationPlan {
        facts: true,
        plans: Some(observe::PLANS_MAX),
        profile: None,
        watch: None,
    }
}

/// Reads the evidence of a run for a diagnosis.
pub(crate) fn read_evidence(run: &Path) -> Result<Evidence, Failure> {
    diagnosis_inputs::read_run_evidence(
        &RunReader::open(run)?,
        diagnosis_inputs::QueriedFacts::default(),
    )
}

/// Diagnoses a run.
pub(crate) fn diagnose_run(run: &Path) -> Result<Diagnosis, Failure> {
    Ok(diagnose(&read_evidence(run)?, &Thresholds::default()))
}

/// Creates the directory of a case. That of an earlier case is replaced; any other that is not empty is refused.
fn create_directory(directory: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::could_not(format!("cannot make {}: {error}", directory.display()))
    };
    if directory.join(MARK).exists() {
        std::fs::remove_dir_all(directory).map_err(failed)?;
    } else if std::fs::read_dir(directory).is_ok_and(|mut listing| listing.next().is_some()) {
        return Err(Failure::usage(format!(
            "{} holds what is not of a case; give another folder with --output",
            directory.display()
        )));
    }
    std::fs::create_dir_all(directory).map_err(failed)?;
    std::fs::write(directory.join(MARK), "").map_err(failed)
}
