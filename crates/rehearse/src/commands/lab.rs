//! `rehearse lab`: the published cases, each with a system, its trouble, a capture of it, and what is
//! measured. Made of the same code as the commands.

mod stall;

use std::path::{Path, PathBuf};

use ::sandbox::{Endpoint, Options as SandboxOptions, Places, Sandbox, Stop};
use lab::LabError;
use postgres::{Client, NoTls};
use replay::{Options, Target};
use report::{CaseView, TextStyle, case_page, case_text, to_json};
use run::RunInfo;
use workload::WorkloadReader;

use crate::commands::asking::Asked;
use crate::commands::{capture, outputs, replay as replaying, sandbox};
use crate::ending::{Ending, Failure};
use crate::interrupt::Interrupt;
use crate::options::lab::{CaseArgs, Lab, LabCase};
use crate::terminal;

/// The page that a case leaves, and its numbers.
const PAGE: &str = "case.html";
const NUMBERS: &str = "case.json";
/// Says that a folder is a case's, from its beginning on.
const MARK: &str = ".rehearse-lab";
/// The snapshot that every replay begins from.
const LOADED: &str = "loaded";
const DATABASE: &str = "postgres";

/// Everything a replay needs, in the log's CSV form.
pub const LOGGING: [(&str, &str); 9] = [
    ("logging_collector", "on"),
    ("log_destination", "csvlog"),
    ("log_statement", "none"),
    ("log_min_duration_statement", "0"),
    ("log_connections", "on"),
    ("log_disconnections", "on"),
    ("log_directory", "log"),
    ("log_filename", "postgresql.log"),
    // Without it the values of a statement that failed are not in the log (PostgreSQL 13 and on).
    ("log_parameter_max_length_on_error", "-1"),
];

/// Lists cases, or runs one.
pub fn run(options: &Lab) -> Result<Ending, Failure> {
    match &options.case {
        LabCase::List => {
            for case in lab::CASES {
                terminal::say_line(&format!("{:8}  {}", case.name, case.title));
                terminal::say_line(&format!("          after \"{}\"", case.source));
            }
            Ok(Ending::Done)
        }
        LabCase::Stall(args) => show(args, &stall::run(args)?),
    }
}

/// Leaves the page, and says what was seen. What had to be seen and was not is a finding.
fn show(args: &CaseArgs, (directory, view): &(PathBuf, CaseView)) -> Result<Ending, Failure> {
    let page = directory.join(PAGE);
    outputs::write(outputs::PAGE, &page, &case_page::render_html(view))?;
    let numbers = directory.join(NUMBERS);
    std::fs::write(&numbers, to_json(view))
        .map_err(|error| Failure::could_not(format!("{}: {error}", numbers.display())))?;
    match args.json {
        true => terminal::say_line(&to_json(view)),
        false => {
            let style: TextStyle = terminal::style();
            terminal::say(&case_text::render_text(view, &style));
        }
    }
    Ok(match view.is_shown() {
        true => Ending::Done,
        false => Ending::Found,
    })
}

/// Where a case happens: its folder, its server.
struct Stage {
    directory: PathBuf,
    server: Sandbox,
    endpoint: Endpoint,
    interrupt: Interrupt,
    steps: Vec<String>,
}

impl Stage {
    /// A folder, and a private server that runs and is empty.
    fn begin(case: lab::Case, args: &CaseArgs) -> Result<Self, Failure> {
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

    fn version(&self) -> String {
        self.server.installation().version.to_string()
    }

    /// Says what is done next, and keeps it for the page.
    fn step(&mut self, what: String) -> Result<(), Failure> {
        if self.interrupt.is_asked() {
            return Err(Failure::could_not(
                "the case was stopped; its server is deleted, what it made so far is left",
            ));
        }
        terminal::note(&what);
        self.steps.push(what);
        Ok(())
    }

    fn connect(&self, application: &str) -> Result<Client, postgres::Error> {
        let mut config: postgres::Config = self.endpoint.url(DATABASE).parse()?;
        config.application_name(application);
        config.connect(NoTls)
    }

    fn client(&self) -> Result<Client, Failure> {
        self.connect("lab")
            .map_err(|error| Failure::could_not(format!("cannot connect: {error}")))
    }

    /// What is in the server now is what every replay begins from; it goes on with logging on.
    fn loaded(&mut self) -> Result<(), Failure> {
        self.server.stop(Stop::Fast)?;
        self.server.snapshot(LOADED)?;
        let logging = LOGGING.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.server.set(logging.into())?;
        self.endpoint = self.server.start()?;
        Ok(())
    }

    /// The log of what was done since becomes a workload. The server is down, and without logging.
    fn captured(&mut self, name: &str) -> Result<WorkloadReader, Failure> {
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
    fn replay(
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

    fn end(self) -> Result<(PathBuf, Vec<String>), Failure> {
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
