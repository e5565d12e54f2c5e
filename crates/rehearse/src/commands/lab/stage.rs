//! Where a case happens: its folder, its private server, and what is done there in the same words by all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::sandbox::{Endpoint, Options as SandboxOptions, Places, Sandbox, Stop};
use analyse::proof::Goal;
use clock::{Clock, SystemClock};
use experiment::proof::{PROOF_KIND, ProofJournal, ProofPlan, ProofSandbox, ProofSide};
use lab::LabError;
use postgres::{Client, NoTls};
use replay::{Options, Target};
use report::ProofView;
use run::RunInfo;
use workload::WorkloadReader;

use super::LOGGING;
use crate::commands::asking::Asked;
use crate::commands::prove::{self, sides};
use crate::commands::{capture, profile, replay as replaying, sandbox};
use crate::ending::Failure;
use crate::interrupt::Interrupt;
use crate::options::lab::CaseArgs;
use crate::terminal;

/// Says that a folder is a case's, from its beginning on.
const MARK: &str = ".rehearse-lab";
/// The snapshot that every replay begins from.
pub(super) const LOADED: &str = "loaded";
/// The database of every case.
pub(super) const DATABASE: &str = "postgres";

/// Samples a second of processor time: more than elsewhere, since what is recorded is short.
pub(super) const PROFILE_HZ: u32 = 997;

/// What is proved, and how.
pub(super) struct ProofWanted<'w> {
    /// The proof's name in the folder, NAME.proof.
    pub(super) name: &'w str,
    /// The unchanged first, then what is set beside it.
    pub(super) sides: Vec<ProofSide>,
    /// Which number is to get better.
    pub(super) goal: Goal,
    /// Differences up to this share count as none.
    pub(super) margin: f64,
    /// How the workload is replayed.
    pub(super) options: Options,
    /// How long it may take.
    pub(super) within: Duration,
    /// No more blocks than that.
    pub(super) blocks: u32,
    /// Runs of the unchanged before the first block.
    pub(super) noise_runs: u32,
}

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
        let interrupt = Interrupt::listen().map_err(Failure::could_not)?;
        let wanted = match &args.out {
            Some(out) => out.clone(),
            None => Path::new("rehearse-lab").join(case.name),
        };
        let directory = make_directory(&wanted)?;
        let places = Places::from_environment()?;
        let found = sandbox::find(&args.server, &places)?;
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
        if self.interrupt.is_asked() {
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
        capture::capture_quietly(&[log], &workload, &self.interrupt)?;
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
        let asked = Asked {
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
        asked: Asked,
        change: impl FnOnce(&mut Client) -> Result<(), LabError>,
    ) -> Result<(PathBuf, RunInfo), Failure> {
        self.server.restore(LOADED)?;
        self.endpoint = self.server.start()?;
        let mut client = self.client()?;
        change(&mut client).map_err(Failure::could_not)?;
        drop(client);
        let target = Target::parse(&self.endpoint.url(DATABASE), |_| None)?;
        let output = self.directory.join(name);
        let info = replaying::replay_with_progress(
            workload,
            &target,
            options,
            asked,
            &output,
            &self.interrupt,
            replaying::Viewers::default(),
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
        move || observe::profile::server_cpu_ns(postmaster?)
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
        profile::record(&target, PROFILE_HZ, &output, &clock, meanwhile)
    }

    /// Proves changes of what was loaded, from the snapshot. The proof is left in the folder.
    pub(super) fn prove(
        mut self,
        workload: &WorkloadReader,
        wanted: &ProofWanted<'_>,
    ) -> Result<(Self, ProofView), Failure> {
        self.server.stop(Stop::Fast)?;
        self.server.restore(LOADED)?;
        let settings = self.server.settings().to_vec();
        let version = self.version();
        let sides = wanted.sides.clone();
        let scripts = sides::scripts(&sides)?;
        let plan = ProofPlan {
            kind: PROOF_KIND.to_owned(),
            format: 1,
            rehearse: env!("CARGO_PKG_VERSION").to_owned(),
            sides: sides.clone(),
            goal: wanted.goal.name().to_owned(),
            margin: wanted.margin,
            within_s: wanted.within.as_secs_f64(),
            blocks_max: wanted.blocks,
            noise_runs: wanted.noise_runs,
            seed: u64::from(rand::random::<u32>()),
            options: [
                ("workload", workload.id().to_owned()),
                ("workload-name", workload.path().display().to_string()),
                ("place-name", format!("a private PostgreSQL {version}")),
                ("speed", wanted.options.speed.to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
            settings: settings.clone(),
            started_wall_us: SystemClock::start().wall_us(),
        };
        let mut journal = ProofJournal::create(&self.directory.join(wanted.name), plan)?;
        let mut ground = ProofSandbox::new(
            self.server,
            DATABASE,
            settings,
            (sides, scripts),
            (BTreeMap::new(), Places::from_environment()?),
            false,
        )?;
        let proving = (workload, &wanted.options, wanted.goal, true);
        let ended = prove::go_on(&mut journal, proving, &mut ground, &self.interrupt)?;
        let (view, _) = prove::written(&journal, ended, false)?;
        self.server = ground.into_sandbox();
        self.server.stop(Stop::Fast)?;
        Ok((self, view))
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
            "{} holds what is not of a case; give another folder with --out",
            wanted.display()
        )));
    }
    std::fs::create_dir_all(wanted).map_err(failed)?;
    std::fs::write(wanted.join(MARK), "").map_err(failed)?;
    Ok(wanted.to_owned())
}
