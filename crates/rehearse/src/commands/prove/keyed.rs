//! Keys of another type in a proof: the script that swaps them in the data is made when the proof begins, and kept
//! beside the workload that has their numbers.

use std::path::PathBuf;

use experiment::KeyServer;
use experiment::proof::{ChangeScript, ProofJournal, ProofSide};
use replay::{LoginMap, Target};
use sandbox::Places;
use workload::rewrite::{KeyName, Rewriting};

use super::sides;
use crate::ending::Failure;
use crate::options::Prove;

/// Keys that sides of a proof swap, in the order in which sides name them.
pub struct Keyed {
    /// The data that are unchanged.
    pub server: KeyServer,
    /// What is swapped, and its script.
    scripts: Vec<(String, String)>,
}

/// Whether the keys that a side swaps can be swapped, if it swaps any.
///
/// # Errors
/// With the reason, where one cannot.
pub fn can_be_swapped(options: &Prove, side: &ProofSide) -> Result<(), Failure> {
    settle(options, std::slice::from_ref(side), &mut [Vec::new()], None).map(drop)
}

/// Puts the scripts of swapped keys behind those of their sides; `None` where no side swaps one. Those of a proof that goes
/// on are `kept`.
///
/// # Errors
/// Where a key is not there, or cannot be swapped.
pub fn settle(
    options: &Prove,
    sides: &[ProofSide],
    scripts: &mut [Vec<ChangeScript>],
    kept: Option<&ProofJournal>,
) -> Result<Option<Keyed>, Failure> {
    let mut keyed: Option<Keyed> = None;
    for (side, scripts) in sides.iter().zip(scripts) {
        for rewriting in sides::rewritings(side)? {
            let Some(name) = rewriting.key() else {
                continue;
            };
            let keyed = match &mut keyed {
                Some(keyed) => keyed,
                none => none.insert(Keyed {
                    server: unchanged(options, kept.is_none())?,
                    scripts: Vec::new(),
                }),
            };
            let text = keyed.script(name, kept)?;
            scripts.push(ChangeScript::new(&rewriting.to_string(), &text)?);
        }
    }
    Ok(keyed)
}

impl Keyed {
    fn script(&mut self, name: &KeyName, kept: Option<&ProofJournal>) -> Result<String, Failure> {
        let written = Rewriting::SwapKey(name.clone()).to_string();
        if let Some((_, text)) = self.scripts.iter().find(|(key, _)| *key == written) {
            return Ok(text.clone());
        }
        let before = kept
            .and_then(|journal| std::fs::read_to_string(path(journal, self.scripts.len())).ok());
        let text = match before {
            Some(text) => text,
            None => self.server.change(name)?,
        };
        self.scripts.push((written, text.clone()));
        Ok(text)
    }

    /// Keeps the scripts in the proof's directory.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn keep(&self, journal: &ProofJournal) -> Result<(), Failure> {
        for (number, (_, text)) in self.scripts.iter().enumerate() {
            let path = path(journal, number);
            if !path.exists() {
                std::fs::write(&path, text).map_err(|error| {
                    Failure::could_not(format!("cannot write {}: {error}", path.display()))
                })?;
            }
        }
        Ok(())
    }
}

fn path(journal: &ProofJournal, number: usize) -> PathBuf {
    journal
        .path()
        .join(format!("rewritten/key-{}.sql", number + 1))
}

/// The data before any change. A sandbox in which nothing was changed yet is started, and a target restored.
fn unchanged(options: &Prove, is_new: bool) -> Result<KeyServer, Failure> {
    let place = &options.place;
    let database = place.changed_database.as_ref().or(place.database.as_ref());
    match (&place.sandbox, &place.target) {
        (Some(name), _) => {
            let mut sandbox = sandbox::open(name, None, &Places::from_environment()?)?;
            match experiment::proof::unended_proof(&sandbox) {
                Some(error) if is_new => return Err(error.into()),
                None if sandbox.pid().is_none() => {
                    sandbox.start()?;
                }
                _ => {}
            }
            of(
                &sandbox
                    .endpoint()
                    .url(database.map_or("postgres", String::as_str)),
                None,
            )
        }
        (_, Some(url)) => {
            let server = of(url, place.template.as_deref())?;
            if let Some(command) = &place.restore {
                let target = Target::parse(url, |name| std::env::var(name).ok())?;
                experiment::command_at(command, &target, "--restore")?;
            }
            Ok(server)
        }
        _ => Err(Failure::usage(
            "nothing says where the data are whose key is swapped; give --sandbox NAME or --target URL",
        )),
    }
}

/// A server by its URL, asked in this database or that of the URL.
///
/// # Errors
/// Where that is no URL.
pub fn of(url: &str, database: Option<&str>) -> Result<KeyServer, Failure> {
    let mut target = Target::parse(url, |name| std::env::var(name).ok())?;
    if let Some(database) = database {
        target.database = Some(database.to_owned());
    }
    let login = LoginMap::default().login(&target, "", "", "rehearse");
    Ok(KeyServer::new(target, login))
}
