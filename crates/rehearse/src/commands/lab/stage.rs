//! Where a case happens: its folder, its private server, and what is done there in the same words by all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::sandbox::{Dirs, Endpoint, Options as SandboxOptions, Sandbox, Stop};
use clock::{Clock, SystemClock};
use cpu_profile::ProfileOptions;
use lab::LabError;
use postgres::{Client, NoTls};
use replay::{Options, Target};
use run::RunInfo;
use workload::WorkloadReader;

use super::LOGGING;
use crate::commands::sandbox;
use crate::display::Display;
use crate::options::lab::CaseArgs;
use crate::terminal;
use study::Failure;
use study::Interrupt;
use study::capture_log::capture_files;
use study::observed_replay;
use study::record_profile::record_profile;
use study::target_snapshot::ObservationPlan;

/// Says that a folder is a case's, from its beginning on.
const MARK: &str = ".rehearse-lab";
/// The snapshot that every replay begins from.
pub(super) const LOADED: &str = "loaded";
/// The database of every case.
pub(super) const DATABASE: &str = "postgres";

/// Samples a second of processor time: more than elsewhere, since what is recorded is short.
pub(super) const PROFILE_HZ: u32 = 997;

/// Where a case happens: its folder, its server.
pub(super) struct Stage {
    pub(super) directory: PathBuf,
    pub(super) server: Sandbox,
    pub(super) endpoint: Endpoint,
    pub(super) interrupt: Interrupt,
    pub(super) steps: Vec<String>,
}

impl Stage {
    /// A folder, and a private server that runs and is empty.
    pub(super) fn begin(case: lab::Case, args: &CaseArgs) -> Result<Self, Failure> {
        let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
        let wanted = match &args.output {
            Some(out) => out.clone(),
            None => Path::new("rehearse-lab").join(case.name),
        };
        let directory = make_directory(&wanted)?;
        let places = Dirs::from_environment()?;
        let found = sandbox::find(&args.server.requirements(), &places)?;
        let mut server = Sandbox::create(&found, SandboxOptions::default(), &places)?;
        let endpoint = server.start()?;
        terminal::note(&format!(
            "{}: PostgreSQL {}, deleted when the case ends.",
            case.name, found.version
        ));
        Ok(Stage {
            directory,
            server,
            endpoint,
            interrupt,
            steps: Vec::new(),
        })
    }

    pub(super) fn version(&self) -> String {
        self.server.installation().version.to_string()
    }

    /// Says what is done next, and keeps it for the page.
    pub(super) fn step(&mut self, what: String) -> Result<(), Failure> {
        if self.interrupt.is_requested() {
            return Err(Failure::could_not(
                "the case was stopped; its server is deleted, what it made so far is left",
            ));
        }
        terminal::note(&what);
        self.steps.push(what);
        Ok(())
    }

    pub(super) fn connect(&self, application: &str) -> Result<Client, postgres::Error> {
        let mut config: postgres::Config = self.endpoint.url(DATABASE).parse()?;
        config.application_name(application);
        config.connect(NoTls)
    }

    pub(super) fn client(&self) -> Result<Client, Failure> {
        self.connect("lab")
            .map_err(|error| Failure::could_not(format!("cannot connect: {error}")))
    }

    /// What is in the server now is what every replay begins from; it goes on with logging on.
    pub(super) fn loaded(&mut self) -> Result<(), Failure> {
        self.server.stop(Stop::Fast)?;
        self.server.snapshot(LOADED)?;
        let logging = LOGGING.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.server.set(logging.into())?;
        self.endpoint = self.server.start()?;
        Ok(())
    }

    /// The log of what was done since becomes a workload. The server is down, and without logging.
    pub(super) fn captured(&mut self, name: &str) -> Result<WorkloadReader, Failure> {
        self.server.stop(Stop::Fast)?;
        let log = self.directory.join("postgresql.csv");
        std::fs::copy(self.server.data_dir().join("log/postgresql.csv"), &log)
            .map_err(|error| Failure::could_not(format!("{}: {error}", log.display())))?;
        let workload = self.directory.join(name);
        capture_files(&[log], &workload, &self.interrupt)?;
        self.server.set(Vec::new())?;
        Ok(WorkloadReader::open(&workload)?)
    }

    /// From the snapshot; `change` is made before the first statement. The target is asked for its facts and plans.
    pub(super) fn replay(
        &mut self,
        workload: &WorkloadReader,
        name: &str,
        options: &Options,
        change: impl FnOnce(&mut Client) -> Result<(), LabError>,
    ) -> Result<(PathBuf, RunInfo), Failure> {
        let asked = ObservationPlan {
            facts: true,
            plans: Some(observe::PLANS_MAX),
            profile: None,
            watch: None,
        };
        self.replay_asked(workload, name, options, asked, change)
    }

    /// The same; what else is looked at is said.
    pub(super) fn replay_asked(
        &mut self,
        workload: &WorkloadReader,
        name: &str,
        options: &Options,
        asked: ObservationPlan,
        change: impl FnOnce(&mut Client) -> Result<(), LabError>,
    ) -> Result<(PathBuf, RunInfo), Failure> {
        self.server.restore(LOADED)?;
        self.endpoint = self.server.start()?;
        let mut client = self.client()?;
        change(&mut client).map_err(Failure::could_not)?;
        drop(client);
        let target = Target::parse(&self.endpoint.url(DATABASE), |_| None)?;
        let output = self.directory.join(name);
        let info = observed_replay::replay_observed(
            workload,
            &target,
            options,
            asked,
            &output,
            &self.interrupt,
            &mut Display::on_terminal(),
        )?;
        self.server.stop(Stop::Fast)?;
        Ok((output, info))
    }

    /// Brings the server back to what was loaded, and starts it without logging.
    pub(super) fn begin_again(&mut self) -> Result<(), Failure> {
        self.server.restore(LOADED)?;
        self.endpoint = self.server.start()?;
        Ok(())
    }

    /// Where the server is, as clients connect.
    pub(super) fn connecting(
        &self,
    ) -> impl Fn(&str) -> Result<Client, postgres::Error> + Sync + use<> {
        let url = self.endpoint.url(DATABASE);
        move |application: &str| {
            let mut config: postgres::Config = url.parse()?;
            config.application_name(application);
            config.connect(NoTls)
        }
    }

    /// What the server's processes have used so far of the processors, as the kernel counts it, in nanoseconds.
    /// The server must run, and be told by its first process.
    pub(super) fn processor_time(&mut self) -> impl Fn() -> Option<u64> + use<> {
        let postmaster = self.server.pid().and_then(|pid| u32::try_from(pid).ok());
        move || cpu_profile::server_cpu_ns(postmaster?)
    }

    /// Records what the server's processors do while something is done, into a run of this name. The inner error
    /// says why there is no profile; then it is not done.
    pub(super) fn profiled<T>(
        &self,
        name: &str,
        meanwhile: impl FnOnce() -> T,
    ) -> Result<Result<T, String>, Failure> {
        let target = Target::parse(&self.endpoint.url(DATABASE), |_| None)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let output = self.directory.join(name);
        let wanted = ProfileOptions {
            frequency_hz: PROFILE_HZ,
            statements: true,
            ..ProfileOptions::default()
        };
        record_profile(&target, &wanted, &output, &clock, meanwhile)
    }

    pub(super) fn end(self) -> Result<(PathBuf, Vec<String>), Failure> {
        self.server.close()?;
        Ok((self.directory, self.steps))
    }
}

/// A folder for what a case leaves. One of an earlier case is replaced; anything else is left alone.
fn make_directory(wanted: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| {
        Failure::could_not(format!("cannot make {}: {error}", wanted.display()))
    };
    if wanted.join(MARK).exists() {
        std::fs::remove_dir_all(wanted).map_err(failed)?;
    } else if std::fs::read_dir(wanted).is_ok_and(|mut listing| listing.next().is_some()) {
        return Err(Failure::usage(format!(
            "{} holds what is not of a case; give another folder with --output",
            wanted.display()
        )));
    }
    std::fs::create_dir_all(wanted).map_err(failed)?;
    std::fs::write(wanted.join(MARK), "").map_err(failed)?;
    Ok(wanted.to_owned())
}
