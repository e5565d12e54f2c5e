//! Conditions set up in private servers.

use replay::Target;
use sandbox::{Dirs, Installation, Sandbox, Stop};

use super::{
    AtEnd, Condition, Environment, LeasePurpose, SandboxLease, quote_identifier,
    run_stoppable_command, server_target,
};
use crate::change_script::ChangeScript;
use crate::error::ExperimentError;
use crate::interrupt::Interrupt;

/// A server of another major version, which is created for the experiment.
#[derive(Debug, Clone)]
pub struct NewServer {
    /// Its binaries.
    pub installation: Installation,
    /// The command that loads its data.
    pub load: String,
    /// Whether its first data are those of the leased server, by pg_upgrade.
    pub is_upgraded: bool,
    /// Directories in which it is created.
    pub places: Dirs,
    /// Stop request that ends the command.
    pub interrupt: Interrupt,
}

/// A private server that is restarted before each trial, with restored data.
#[derive(Debug)]
pub struct SandboxEnvironment {
    lease: SandboxLease,
    conditions: Vec<Condition>,
    restores: bool,
    at_end: AtEnd,
    new_server: Option<NewServer>,
    /// The new server, once it is created.
    other: Option<SandboxLease>,
    /// Stop request that ends the commands of changes.
    interrupt: Interrupt,
}

impl SandboxEnvironment {
    /// Sets up conditions in a leased sandbox, with data restored before each trial and at the end. `new_server` is the
    /// one of another major version that conditions name.
    pub fn new(
        lease: SandboxLease,
        conditions: Vec<Condition>,
        new_server: Option<NewServer>,
    ) -> Self {
        SandboxEnvironment {
            lease,
            conditions,
            restores: true,
            at_end: AtEnd::Restore,
            new_server,
            other: None,
            interrupt: Interrupt::default(),
        }
    }

    /// Sets whether data are restored before each trial, and the state of the server at the end.
    pub fn restoring(self, restores: bool, at_end: AtEnd) -> Self {
        SandboxEnvironment {
            restores,
            at_end,
            ..self
        }
    }

    /// Ends the commands of changes when a stop is requested.
    pub fn stopped_by(self, interrupt: &Interrupt) -> Self {
        SandboxEnvironment {
            interrupt: interrupt.clone(),
            ..self
        }
    }

    /// Gives the sandbox back, as [`Environment::release`] left it.
    pub fn into_sandbox(self) -> Sandbox {
        self.lease.sandbox
    }

    fn create_other(&mut self) -> Result<(), ExperimentError> {
        if let (Some(new), None) = (&self.new_server, &self.other) {
            let (database, settings) = (&self.lease.database, self.lease.settings().to_vec());
            let (made, target) = match new.is_upgraded {
                false => create_server(&new.installation, settings, database, &new.places)?,
                true => {
                    let old = &mut self.lease.sandbox;
                    let mut made = old.upgrade(&new.installation, settings, &new.places)?;
                    let target = server_target(&made.start()?, database)?;
                    (made, target)
                }
            };
            run_stoppable_command(&new.load, &target, "--load", &new.interrupt)?;
            let mut lease = SandboxLease::acquire(made, database, LeasePurpose::Proof, None)?;
            lease.save()?;
            lease.sandbox.stop(Stop::Fast)?;
            self.other = Some(lease);
        }
        Ok(())
    }

    /// Returns the server of a condition.
    fn server(&mut self, condition: usize) -> &mut SandboxLease {
        match (self.conditions[condition].is_other_server, &mut self.other) {
            (true, Some(other)) => other,
            _ => &mut self.lease,
        }
    }

    /// Restarts the server of a condition, with its initial data or from the state after its scripts. No other server
    /// runs meanwhile.
    fn restart(&mut self, condition: usize, is_changed: bool) -> Result<Target, ExperimentError> {
        let settings = self.conditions[condition].settings.clone();
        if self.conditions[condition].is_other_server {
            self.lease.sandbox.stop(Stop::Immediate)?;
        } else if let Some(other) = &mut self.other {
            other.sandbox.stop(Stop::Immediate)?;
        }
        let restores = self.restores;
        let server = self.server(condition);
        match (restores, is_changed) {
            (false, _) => server.restart(None, &settings),
            (true, false) => server.restart_clean(&settings),
            (true, true) => server.restart(Some(&server.state(condition)), &settings),
        }
    }
}

impl Environment for SandboxEnvironment {
    fn prepare(&mut self) -> Result<(), ExperimentError> {
        self.lease.save()?;
        self.create_other()?;
        for condition in 0..self.conditions.len() {
            let server = self.server(condition);
            if server.has(&server.state(condition)) {
                continue;
            }
            // An unknown setting prevents the server from starting. The error names it.
            let target = self.restart(condition, false)?;
            let scripts = &self.conditions[condition].scripts;
            scripts
                .iter()
                .try_for_each(|script| script.apply(&target, &self.interrupt))?;
            if !scripts.is_empty() {
                // A regular shutdown, so that no trial begins with crash recovery.
                let server = self.server(condition);
                server.sandbox.stop(Stop::Fast)?;
                server.sandbox.snapshot(&server.state(condition))?;
            }
        }
        Ok(())
    }

    fn set_up(&mut self, condition: usize) -> Result<(Target, Option<i32>), ExperimentError> {
        let is_changed = !self.conditions[condition].scripts.is_empty();
        let target = self.restart(condition, is_changed)?;
        Ok((target, self.server(condition).sandbox.pid()))
    }

    fn release(&mut self) -> Result<(), ExperimentError> {
        if let Some(other) = &mut self.other {
            other.sandbox.stop(Stop::Immediate)?;
        }
        match self.at_end {
            AtEnd::Restore => self.lease.restore(),
            AtEnd::Leave => Ok(()),
        }
    }
}

/// Creates a private server with a database of this name, and starts it.
///
/// # Errors
/// If it does not start, or the database cannot be created.
pub fn create_server(
    installation: &Installation,
    settings: Vec<(String, String)>,
    database: &str,
    places: &Dirs,
) -> Result<(Sandbox, Target), ExperimentError> {
    let options = sandbox::Options {
        settings,
        ..sandbox::Options::default()
    };
    let mut made = Sandbox::create(installation, options, places)?;
    let endpoint = made.start()?;
    if database != "postgres" {
        let sql = format!("CREATE DATABASE {}", quote_identifier(database));
        let script = ChangeScript::new("CREATE DATABASE", &sql)?;
        let target = server_target(&endpoint, "postgres")?;
        script.apply(&target, &Interrupt::default())?;
    }
    let target = server_target(&endpoint, database)?;
    Ok((made, target))
}
