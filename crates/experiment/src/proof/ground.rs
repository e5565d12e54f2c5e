//! Where a proof's replays happen, where the server is not ours: a target whose contents its owner restores, or
//! that are copied of a template database.

use replay::{LoginMap, Target};
use target::login::{Dialer, Login, Questions};

use super::plan::ProofSide;
use super::script::ChangeScript;
use super::trial::TIME;
use crate::design::{Setting, Variant};
use crate::error::ExperimentError;
use crate::ground::{Foreign, Ground, command_at};

/// The comment of databases that were made here: no other is ever dropped.
const OURS: &str = "made by rehearse prove";

/// A server that is brought to a side's state before each run.
pub trait ProofGround {
    /// Carries out the changes of all sides once, so that one that fails is known before the first replay.
    ///
    /// # Errors
    /// With what the server said to the first that fails.
    fn prepare(&mut self) -> Result<(), ExperimentError>;

    /// Brings the server to the state of a side (0: the unchanged). Returns the way to it.
    ///
    /// # Errors
    /// Where that fails.
    fn ready(&mut self, side: usize) -> Result<Target, ExperimentError>;

    /// Whether the server is ours: an extension may be made there.
    fn is_ours(&self) -> bool;

    /// The first process of a side's server, if it is known and one of this machine.
    fn postmaster(&mut self, side: usize) -> Option<i32>;

    /// Leaves everything as it was found.
    ///
    /// # Errors
    /// Where that fails.
    fn leave(&mut self) -> Result<(), ExperimentError>;
}

/// How a target's contents come to be the same before each run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// By a command of its owner's.
    Restored(String),
    /// The target's database is made anew of this one.
    Template(String),
    /// They are not: the workload writes nothing, or each run finds what the one before it left.
    Left,
}

/// Any server whose owner named it.
#[derive(Debug)]
pub struct ProofTarget {
    target: Target,
    login: Login,
    contents: Contents,
    sides: Vec<ProofSide>,
    scripts: Vec<Vec<ChangeScript>>,
}

impl ProofTarget {
    /// A target, asked as this login; `scripts` are those of each side.
    pub fn new(
        target: Target,
        login: Login,
        contents: Contents,
        sides: Vec<ProofSide>,
        scripts: Vec<Vec<ChangeScript>>,
    ) -> Self {
        ProofTarget {
            target,
            login,
            contents,
            sides,
            scripts,
        }
    }

    fn restore(&self) -> Result<(), ExperimentError> {
        match &self.contents {
            Contents::Restored(command) => command_at(command, &self.target, "--restore"),
            Contents::Template(template) => self.anew(Some(template)),
            Contents::Left => Ok(()),
        }
    }

    /// Drops the target's database, if it is one of ours, and makes it of the template.
    fn anew(&self, template: Option<&str>) -> Result<(), ExperimentError> {
        let name = self.target.database.clone().unwrap_or_default();
        let mut admin = self.target.clone();
        admin.database = Some("postgres".to_owned());
        let login = LoginMap::default().login(&admin, "", "", "rehearse");
        let dialer = Dialer::new(&admin).map_err(replay::ReplayError::Target)?;
        let refused = |what: &str, error: &dyn std::fmt::Display| {
            ExperimentError::Failed(format!("{what} at {}: {error}", admin.address()))
        };
        let mut questions = dialer
            .questions(&login)
            .map_err(|error| refused("cannot connect to the database postgres", &error))?;
        questions.limit(TIME);
        if let Some(comment) = comment_of(&mut questions, &name)
            .map_err(|error| refused("cannot look at pg_database", &error))?
        {
            if comment != OURS {
                return Err(ExperimentError::Usage(format!(
                    "the database {name} is there already at {}, and was not made by a proof, so it is not dropped; name one in --target that is not there: it is made of the template",
                    admin.address()
                )));
            }
            let gone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ";
            let _ = questions.ask(&format!("{gone}{}", literal(&name)));
            questions
                .ask(&format!("DROP DATABASE {}", quoted(&name)))
                .map_err(|error| refused("the database cannot be dropped", &error))?;
        }
        if let Some(template) = template {
            questions
                .ask(&format!(
                    "CREATE DATABASE {} TEMPLATE {}",
                    quoted(&name),
                    quoted(template)
                ))
                .map_err(|error| refused("the database cannot be made of its template", &error))?;
            let comment = format!("COMMENT ON DATABASE {} IS '{OURS}'", quoted(&name));
            questions
                .ask(&comment)
                .map_err(|error| refused("the database cannot be marked as ours", &error))?;
        }
        Ok(())
    }
}

/// The comment of a database; `None` if there is no such database.
fn comment_of(
    questions: &mut Questions<'_>,
    name: &str,
) -> Result<Option<String>, target::login::LoginError> {
    let rows = questions.ask(&format!(
        "SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE datname = {}",
        literal(name)
    ))?;
    let first = rows.into_iter().next();
    Ok(first.map(|row| row.into_iter().next().flatten().unwrap_or_default()))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl ProofGround for ProofTarget {
    fn prepare(&mut self) -> Result<(), ExperimentError> {
        if self.sides.iter().any(|side| side.server().is_some()) {
            return Err(ExperimentError::Usage(
                "another major version (--server) cannot be set up at a --target; give --sandbox NAME, or replay on both servers yourself and compare the runs".to_owned(),
            ));
        }
        if let Contents::Template(_) = &self.contents
            && self.target.database.is_none()
        {
            return Err(ExperimentError::Usage(
                "--template makes the target's database, and --target names none; give one that is not there yet, such as postgres://HOST/shop_proof".to_owned(),
            ));
        }
        self.restore()?;
        let variants: Vec<Variant> = self
            .sides
            .iter()
            .map(|side| Variant {
                name: side.name.clone(),
                settings: side
                    .settings()
                    .into_iter()
                    .map(|(name, value)| Setting { name, value })
                    .collect(),
            })
            .collect();
        Foreign::new(self.target.clone(), self.login.clone(), None).check(&variants)?;
        for side in 0..self.sides.len() {
            if !self.scripts[side].is_empty() {
                self.ready(side)?;
            }
        }
        Ok(())
    }

    fn ready(&mut self, side: usize) -> Result<Target, ExperimentError> {
        self.restore()?;
        for script in &self.scripts[side] {
            script.carry_out(&self.target, &self.login)?;
        }
        let mut target = self.target.clone();
        for (name, value) in self.sides[side].settings() {
            target.settings.retain(|(other, _)| *other != name);
            target.settings.push((name, value));
        }
        Ok(target)
    }

    fn is_ours(&self) -> bool {
        false
    }

    fn postmaster(&mut self, _: usize) -> Option<i32> {
        None
    }

    fn leave(&mut self) -> Result<(), ExperimentError> {
        match &self.contents {
            Contents::Template(_) => self.anew(None),
            _ => self.restore(),
        }
    }
}
