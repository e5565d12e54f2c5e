//! Where a case happens: its folder, its private server, and what is done there in the same words by all.

use std::path::{Path, PathBuf};

use ::sandbox::{Endpoint, Options as SandboxOptions, Places, Sandbox, Stop};
use lab::LabError;
use postgres::{Client, NoTls};
use replay::{Options, Target};
use run::RunInfo;
use workload::WorkloadReader;

use super::LOGGING;
use crate::commands::asking::Asked;
use crate::commands::{capture, replay as replaying, sandbox};
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

    /// From the snapshot; `change` is made before the first statement.
    pub(super) fn replay(
        &mut self,
        workload: &WorkloadReader,
        name: &str,
        options: &Options,
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
            Asked {
                facts: true,
                plans: Some(observe::PLANS_MAX),
                profile: None,
                watch: None,
            },
            &output,
            &self.interrupt,
            replaying::Viewers::default(),
        )?;
        self.server.stop(Stop::Fast)?;
        Ok((output, info))
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
