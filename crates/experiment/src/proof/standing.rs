//! Where a proof's replays happen: a sandbox, with a snapshot of each side's state.

use std::collections::BTreeMap;

use replay::{LoginMap, Target};
use sandbox::{Installation, Places, Sandbox, Stop};

use super::ground::ProofGround;
use super::plan::ProofSide;
use super::script::ChangeScript;
use crate::error::ExperimentError;
use crate::ground::command_at;

/// The snapshot of what is unchanged; those of sides have their number instead.
const BASE: &str = "prove-base";
const OF_A_PROOF: &str = "prove-";

/// Another major version's server, which is made for the proof.
#[derive(Debug, Clone)]
pub struct ServerOf {
    /// Its programs.
    pub installation: Installation,
    /// The command that fills it.
    pub load: String,
}

/// A private server: each run begins with a restart from its side's snapshot.
#[derive(Debug)]
pub struct ProofSandbox {
    sandbox: Sandbox,
    database: String,
    /// What it has besides the changes.
    settings: Vec<(String, String)>,
    sides: Vec<ProofSide>,
    scripts: Vec<Vec<ChangeScript>>,
    wanted: BTreeMap<u16, ServerOf>,
    /// Those of other versions that were made.
    others: BTreeMap<u16, Sandbox>,
    places: Places,
}

fn has(sandbox: &Sandbox, name: &str) -> bool {
    sandbox.snapshots().iter().any(|one| one == name)
}

impl ProofSandbox {
    /// Takes a sandbox as it is before [`ProofGround::prepare`] as the state that is unchanged; only then is it
    /// touched. `scripts` are those of each side, `servers` other versions by their number.
    ///
    /// # Errors
    /// Where an earlier proof was not ended there, and `goes_on` does not say that this one is the
    /// same.
    pub fn new(
        sandbox: Sandbox,
        database: &str,
        settings: Vec<(String, String)>,
        (sides, scripts): (Vec<ProofSide>, Vec<Vec<ChangeScript>>),
        (wanted, places): (BTreeMap<u16, ServerOf>, Places),
        goes_on: bool,
    ) -> Result<Self, ExperimentError> {
        if has(&sandbox, BASE) && !goes_on {
            return Err(ExperimentError::Usage(
                "this sandbox still has the snapshot of a proof that did not end; end that one with --resume, or take the sandbox down and load it anew".to_owned(),
            ));
        }
        Ok(ProofSandbox {
            sandbox,
            database: database.to_owned(),
            settings,
            sides,
            scripts,
            wanted,
            others: BTreeMap::new(),
            places,
        })
    }

    /// Gives the sandbox back, as [`ProofGround::leave`] left it.
    pub fn into_sandbox(self) -> Sandbox {
        self.sandbox
    }

    /// Makes and fills the servers of other versions.
    fn make_others(&mut self) -> Result<(), ExperimentError> {
        for (major, of) in &self.wanted {
            if self.others.contains_key(major) {
                continue;
            }
            let options = sandbox::Options {
                settings: self.settings.clone(),
                ..sandbox::Options::default()
            };
            let mut made = Sandbox::create(&of.installation, options, &self.places)?;
            let endpoint = made.start()?;
            if self.database != "postgres" {
                let name = self.database.replace('"', "\"\"");
                let script = format!("CREATE DATABASE \"{name}\"");
                carry_out(
                    &[ChangeScript::new("CREATE DATABASE", &script)?],
                    &endpoint.url("postgres"),
                )?;
            }
            let target = parsed(&endpoint.url(&self.database))?;
            command_at(&of.load, &target, "--load")?;
            made.snapshot(BASE)?;
            made.stop(Stop::Fast)?;
            self.others.insert(*major, made);
        }
        Ok(())
    }

    /// The server of a side, restored to a snapshot and started with the side's settings. Nothing else of
    /// ours runs then.
    fn start(&mut self, side: usize, snapshot: &str) -> Result<String, ExperimentError> {
        let mut settings = self.settings.clone();
        for (name, value) in self.sides[side].settings() {
            settings.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
            settings.push((name, value));
        }
        let major = self.sides[side].server();
        if major.is_some() {
            self.sandbox.stop(Stop::Immediate)?;
        }
        for (other, sandbox) in &mut self.others {
            if Some(*other) != major {
                sandbox.stop(Stop::Immediate)?;
            }
        }
        let database = self.database.clone();
        let sandbox = self.of(side);
        // What is there now is thrown away.
        sandbox.stop(Stop::Immediate)?;
        sandbox.set(settings)?;
        sandbox.restore(snapshot)?;
        Ok(sandbox.start()?.url(&database))
    }

    fn of(&mut self, side: usize) -> &mut Sandbox {
        let major = self.sides[side].server();
        match major.and_then(|major| self.others.get_mut(&major)) {
            Some(other) => other,
            None => &mut self.sandbox,
        }
    }

    fn snapshot_of(&self, side: usize) -> String {
        match self.scripts[side].is_empty() {
            true => BASE.to_owned(),
            false => format!("{OF_A_PROOF}{side}"),
        }
    }
}

fn parsed(url: &str) -> Result<Target, ExperimentError> {
    Target::parse(url, |_| None).map_err(|error| ExperimentError::Failed(error.to_string()))
}

fn carry_out(scripts: &[ChangeScript], url: &str) -> Result<(), ExperimentError> {
    let target = parsed(url)?;
    let login = LoginMap::default().login(&target, "", "", "rehearse");
    scripts
        .iter()
        .try_for_each(|script| script.carry_out(&target, &login))
}

impl ProofGround for ProofSandbox {
    fn prepare(&mut self) -> Result<(), ExperimentError> {
        if !has(&self.sandbox, BASE) {
            self.sandbox.snapshot(BASE)?;
        }
        self.make_others()?;
        for side in 0..self.sides.len() {
            let name = self.snapshot_of(side);
            if name != BASE && has(self.of(side), &name) {
                continue;
            }
            // A setting that the server does not know keeps it from starting, and says so.
            let url = self.start(side, BASE)?;
            if name != BASE {
                carry_out(&self.scripts[side].clone(), &url)?;
                // Stopped in order, so that no run begins with a recovery.
                self.of(side).stop(Stop::Fast)?;
                self.of(side).snapshot(&name)?;
            }
        }
        Ok(())
    }

    fn ready(&mut self, side: usize) -> Result<Target, ExperimentError> {
        let snapshot = self.snapshot_of(side);
        let url = self.start(side, &snapshot)?;
        parsed(&url)
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn postmaster(&mut self, side: usize) -> Option<i32> {
        self.of(side).pid()
    }

    fn leave(&mut self) -> Result<(), ExperimentError> {
        if !has(&self.sandbox, BASE) {
            return Ok(());
        }
        for other in self.others.values_mut() {
            other.stop(Stop::Immediate)?;
        }
        self.sandbox.stop(Stop::Immediate)?;
        self.sandbox.set(self.settings.clone())?;
        self.sandbox.restore(BASE)?;
        // The one by which a proof is known that did not end goes last.
        let mut names = self.sandbox.snapshots();
        names.retain(|name| name.starts_with(OF_A_PROOF) && name != BASE);
        for name in names {
            self.sandbox.remove_snapshot(&name)?;
        }
        self.sandbox.start()?;
        Ok(self.sandbox.remove_snapshot(BASE)?)
    }
}
