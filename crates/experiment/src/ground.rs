//! Where trials happen: a server that is brought to the same state before each of them.

use std::path::Path;
use std::process::{Command, Stdio};

use replay::{Host, Target};
use sandbox::{Sandbox, Stop};
use target::login::{Dialer, Login, Value};

use crate::design::Variant;
use crate::error::ExperimentError;

/// A server that is brought to the same state before each trial.
pub trait Ground {
    /// Says whether these settings can be set here, before the first trial.
    ///
    /// # Errors
    /// With the first that cannot.
    fn check(&mut self, variants: &[Variant]) -> Result<(), ExperimentError>;

    /// Brings the server to where a trial begins, with the settings of a variant: its data, if
    /// `restore` says so. Returns the way to it.
    ///
    /// # Errors
    /// Where that fails.
    fn ready(&mut self, variant: &Variant, restore: bool) -> Result<Target, ExperimentError>;

    /// Whether the server is ours: we may make an extension there.
    fn is_ours(&self) -> bool;

    /// The server's first process, if it is known and one of this machine.
    fn postmaster(&mut self) -> Option<i32>;

    /// Leaves the server as it was found.
    ///
    /// # Errors
    /// Where that fails.
    fn leave(&mut self) -> Result<(), ExperimentError>;
}

/// The snapshot of a sandbox that trials begin from.
const BASE: &str = "sweep-base";

/// A private server: each trial begins with a restart, from a snapshot where data are restored.
#[derive(Debug)]
pub struct Sandboxed {
    sandbox: Sandbox,
    database: String,
    /// What it has besides the variant's.
    settings: Vec<(String, String)>,
    /// It is the user's, and has to be left as it was.
    is_kept: bool,
}

impl Sandboxed {
    /// Takes a sandbox as it is before the first trial as the state that trials begin from: only then is it
    /// touched. `settings` are those that every trial has, the variant's besides. `is_kept`: it
    /// outlives this, and is left as it was.
    ///
    /// # Errors
    /// Where an earlier sweep was not ended there, and `goes_on` does not say that this one is the same.
    pub fn new(
        sandbox: Sandbox,
        database: &str,
        settings: Vec<(String, String)>,
        is_kept: bool,
        goes_on: bool,
    ) -> Result<Self, ExperimentError> {
        if has_base(&sandbox) && !goes_on {
            return Err(ExperimentError::Usage(
                "this sandbox still has the snapshot of a sweep that did not end; end that one with --resume, or take the sandbox down and load it anew".to_owned(),
            ));
        }
        Ok(Sandboxed {
            sandbox,
            database: database.to_owned(),
            settings,
            is_kept,
        })
    }

    /// Gives the sandbox back, as [`Ground::leave`] left it.
    pub fn into_sandbox(self) -> Sandbox {
        self.sandbox
    }

    /// The settings that every trial has, the variant's besides.
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }
}

fn has_base(sandbox: &Sandbox) -> bool {
    sandbox.snapshots().iter().any(|name| name == BASE)
}

impl Ground for Sandboxed {
    fn check(&mut self, _: &[Variant]) -> Result<(), ExperimentError> {
        // A setting that the server does not know keeps it from starting, and says so.
        Ok(())
    }

    fn ready(&mut self, variant: &Variant, restore: bool) -> Result<Target, ExperimentError> {
        if !has_base(&self.sandbox) {
            self.sandbox.snapshot(BASE)?;
        }
        let mut settings = self.settings.clone();
        for setting in &variant.settings {
            settings.retain(|(name, _)| !name.eq_ignore_ascii_case(&setting.name));
            settings.push((setting.name.clone(), setting.value.clone()));
        }
        self.sandbox.set(settings)?;
        match restore {
            // What is there now is thrown away.
            true => {
                self.sandbox.stop(Stop::Immediate)?;
                self.sandbox.restore(BASE)?;
            }
            false => self.sandbox.stop(Stop::Fast)?,
        }
        let endpoint = self.sandbox.start()?;
        Target::parse(&endpoint.url(&self.database), |_| None)
            .map_err(|error| ExperimentError::Failed(error.to_string()))
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn postmaster(&mut self) -> Option<i32> {
        self.sandbox.pid()
    }

    fn leave(&mut self) -> Result<(), ExperimentError> {
        if self.is_kept && has_base(&self.sandbox) {
            self.sandbox.set(self.settings.clone())?;
            self.sandbox.stop(Stop::Immediate)?;
            self.sandbox.restore(BASE)?;
            self.sandbox.remove_snapshot(BASE)?;
            self.sandbox.start()?;
        }
        Ok(())
    }
}

/// Somebody's server: data are restored by a command of its owner's, and settings are those that a
/// session can have.
#[derive(Debug)]
pub struct Foreign {
    target: Target,
    login: Login,
    restore: Option<String>,
}

impl Foreign {
    /// A server; `login` is who asks about settings.
    pub fn new(target: Target, login: Login, restore: Option<String>) -> Self {
        Foreign {
            target,
            login,
            restore,
        }
    }
}

impl Ground for Foreign {
    fn check(&mut self, variants: &[Variant]) -> Result<(), ExperimentError> {
        let failed = |error: String| {
            let address = self.target.address();
            ExperimentError::Failed(format!("cannot ask {address} about its settings: {error}"))
        };
        let wanted = variants.iter().flat_map(|variant| &variant.settings);
        let mut names: Vec<&str> = wanted.map(|setting| setting.name.as_str()).collect();
        names.dedup();
        if names.is_empty() {
            return Ok(());
        }
        let dialer = Dialer::new(&self.target).map_err(|error| failed(error.to_string()))?;
        let mut questions = dialer
            .questions(&self.login)
            .map_err(|error| failed(error.to_string()))?;
        for name in names {
            let question = "SELECT context FROM pg_settings WHERE lower(name) = lower($1)";
            let rows = questions
                .ask_with(question, &[25], &[Some(Value::Text(name))])
                .map_err(|error| failed(error.to_string()))?;
            let context = rows.first().and_then(|row| row.first()?.as_deref());
            let needs = match context {
                Some("user" | "superuser" | "backend" | "superuser-backend") => continue,
                // Parameters of a library that is not loaded, or of one's own: a session may set them.
                None if name.contains('.') => continue,
                None => {
                    return Err(ExperimentError::Usage(format!(
                        "the server at {} has no setting '{name}'; see pg_settings there for those that it has",
                        self.target.address()
                    )));
                }
                Some("postmaster") => "a restart",
                Some("sighup") => "a change of its configuration",
                Some(_) => "another build",
            };
            return Err(ExperimentError::Usage(format!(
                "'{name}' needs {needs} of the server at {}, which is not ours to make; sweep it in a sandbox (--server MAJOR or --sandbox NAME), or make the change yourself and sweep each side of it",
                self.target.address()
            )));
        }
        Ok(())
    }

    fn ready(&mut self, variant: &Variant, restore: bool) -> Result<Target, ExperimentError> {
        if restore && let Some(command) = &self.restore {
            command_at(command, &self.target, "--restore")?;
        }
        let mut target = self.target.clone();
        for setting in &variant.settings {
            target.settings.retain(|(name, _)| *name != setting.name);
            target
                .settings
                .push((setting.name.clone(), setting.value.clone()));
        }
        Ok(target)
    }

    fn is_ours(&self) -> bool {
        false
    }

    fn postmaster(&mut self) -> Option<i32> {
        None
    }

    fn leave(&mut self) -> Result<(), ExperimentError> {
        Ok(())
    }
}

/// Has the shell carry out a command of the user's, with libpq's variables for the target.
///
/// # Errors
/// Where it fails; `option` says which one it was given with.
pub fn command_at(command: &str, target: &Target, option: &str) -> Result<(), ExperimentError> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null());
    if let Some(server) = target.servers.first() {
        match &server.host {
            Some(Host::Tcp(name)) => {
                shell.env("PGHOST", name);
            }
            Some(Host::Unix(directory)) => {
                shell.env("PGHOST", directory);
            }
            Some(Host::Abstract(name)) => {
                shell.env("PGHOST", format!("@{name}"));
            }
            None => {}
        }
        shell.env("PGPORT", server.port.to_string());
    }
    let said = [
        ("PGUSER", &target.user),
        ("PGDATABASE", &target.database),
        ("PGPASSWORD", &target.password),
    ];
    for (name, value) in said {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    let output = shell
        .output()
        .map_err(ExperimentError::file("run a shell for", Path::new(command)))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said
        .trim()
        .lines()
        .last()
        .unwrap_or("it said nothing")
        .to_owned();
    Err(ExperimentError::Failed(format!(
        "the command of {option} failed ({}): {last}",
        output.status
    )))
}
