//! Clones of production that commands of the user make, upgrade and remove.

use std::path::Path;
use std::time::Duration;

use connect::Target;
use replay::LoginMap;
use sha2::{Digest, Sha256};
use workload::WorkloadReader;

use super::clone_lock::CloneLock;
use super::data_copy::CopySide;
use super::own_servers::{self, ClonedFrom, OwnServers};
use super::rehearsal_plan::{exists, lock, place_of, plain_name};
use super::server_facts::ServerIdentity;
use super::{
    FinishProof, RehearsalServers, UpgradeReport, UpgradeRequest, rehearse_with_lock, time_needed,
};
use crate::environment::PrintingCommand;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes;
use crate::proof::{ProofDisplay, ProofPlace, data_source, hide_secrets};
use crate::upgrade_inspect::UpgradeMethod;

/// Commands that make clones, and the use of these.
pub struct CloneRequest {
    /// Shell command that makes a clone, and prints its URL in the last line.
    pub clone: String,
    /// Shell command that upgrades a clone; without it, the first command makes upgraded ones.
    pub upgrade: Option<String>,
    /// Shell command that removes a clone.
    pub drop: Option<String>,
    /// Time after which a command is ended.
    pub time_limit: Duration,
    /// Major version of the new side.
    pub to: u16,
    /// Way in which it is upgraded.
    pub method: UpgradeMethod,
    /// Way to restore the data before each run. The targets are not set.
    pub place: ProofPlace,
    /// Whether the databases may reach other systems.
    pub may_reach_others: bool,
    /// Addresses of clones that may be written although others use them.
    pub confirmed: Vec<String>,
}

/// A clone that was made.
#[derive(Clone)]
struct MadeClone {
    /// URL, which may have a password.
    url: String,
    target: Target,
}

/// Clones of a rehearsal, with what is needed to remove them.
struct Clones<'a> {
    request: &'a CloneRequest,
    production: &'a Target,
    /// Workload, and the logins of its replays.
    traffic: (&'a WorkloadReader, &'a LoginMap),
    interrupt: &'a Interrupt,
    /// Beginning of the names of clones. It is the same when the rehearsal is resumed.
    name: String,
    /// Major version of production.
    version: u32,
    /// Sides whose clone command was started, with the URL if it is known.
    begun: Vec<(CopySide, Option<MadeClone>)>,
}

/// Makes clones of both sides, rehearses the upgrade on them, and removes them. `from` of the request is the server that is
/// cloned. Its servers are replaced by the clones.
///
/// # Errors
/// If a command fails, prints no URL, or prints that of the cloned server; if another process makes or uses clones for this output;
/// also as [`rehearse_upgrade`](super::rehearse_upgrade). Clones are removed after an error, too.
pub fn rehearse_on_clones(
    request: UpgradeRequest<'_>,
    clone_request: &CloneRequest,
    whole: &WorkloadReader,
    interrupt: &Interrupt,
    display: &mut dyn ProofDisplay,
    finish: FinishProof<'_>,
) -> Result<UpgradeReport, Failure> {
    // Nothing is made for a rehearsal that is refused.
    time_needed::refuse_too_short(&request, whole)?;
    data_source(&clone_request.place, whole, &[])?;
    // Clones of a rehearsal that runs have the same names, and are left alone.
    let name = clone_name(request.output);
    let _clone_lock = CloneLock::take(request.output, &name)?;
    if request.output.symlink_metadata().is_ok() && !request.resume {
        return Err(exists(request.output));
    }
    let known = request.resume && request.output.exists();
    let locked = known.then(|| lock(request.output)).transpose()?;
    let identity = ServerIdentity::read(request.from)?;
    let logins = request.replay.logins.clone();
    let mut clones = Clones {
        request: clone_request,
        production: request.from,
        traffic: (whole, &logins),
        interrupt,
        name,
        version: identity.major(),
        begun: Vec::new(),
    };
    let left_clones = clones.left_at_once();
    interrupt.set_note_at_once(format!("Ended at once. {left_clones}"));
    if request.resume {
        clones.remove_earlier();
    }
    let made = clones.make_both(&identity);
    let rehearsed = made.and_then(|own| {
        let from = &own.from.clone();
        let request = UpgradeRequest {
            from,
            servers: RehearsalServers::Own(Box::new(own.servers)),
            ..request
        };
        let lock = (locked, left_clones.as_str());
        rehearse_with_lock(&request, lock, whole, interrupt, display, finish)
    });
    let left = clones.remove();
    match rehearsed {
        Ok(mut report) => {
            report.notes.push(clone_request.description());
            report.notes.extend(left);
            Ok(report)
        }
        Err(failure) => {
            left.iter().for_each(|one| notes::note(one));
            Err(failure)
        }
    }
}

/// Servers of the user that are clones.
struct ClonedServers {
    from: Target,
    servers: OwnServers,
}

impl CloneRequest {
    /// Returns the commands in a sentence, without passwords.
    fn description(&self) -> String {
        let upgraded = match &self.upgrade {
            Some(command) => format!(
                ", and the new one was upgraded by --upgrade-command '{}'",
                hide_secrets(command)
            ),
            None => String::new(),
        };
        format!(
            "the servers were made by --clone-command '{}'{upgraded}",
            hide_secrets(&self.clone)
        )
    }

    /// Returns the commands that the state of the clones depends on.
    fn identity(&self) -> String {
        let upgrade = self.upgrade.as_deref().unwrap_or_default();
        format!("{}\n{upgrade}", self.clone)
    }
}

impl Clones<'_> {
    fn make_both(&mut self, production: &ServerIdentity) -> Result<ClonedServers, Failure> {
        let old = self.make(CopySide::Old, production)?;
        let new = self.make(CopySide::New, production)?;
        let new = self.upgrade(new, production)?;
        refuse_other_databases(&old.target, &new.target)?;
        let request = self.request;
        Ok(ClonedServers {
            servers: OwnServers {
                place: ProofPlace {
                    target: Some(old.url),
                    other_target: Some(new.target.clone()),
                    // Their addresses differ when the rehearsal is resumed.
                    name: Some(format!("clones of {}", place_of(self.production))),
                    ..request.place.clone()
                },
                target: new.target,
                to: Some(request.to),
                method: request.method,
                may_reach_others: request.may_reach_others,
                confirmed: request.confirmed.clone(),
                cloned: Some(ClonedFrom {
                    production: place_of(self.production),
                    commands: request.identity(),
                }),
            },
            from: old.target,
        })
    }

    /// Makes the clone of a side.
    fn make(&mut self, side: CopySide, production: &ServerIdentity) -> Result<MadeClone, Failure> {
        let request = self.request;
        notes::note(&format!("Making the clone of the {} side.", side.name()));
        self.begun.push((side, None));
        // With an upgrade command, both clones are of production's version.
        let version = match (side, &request.upgrade) {
            (CopySide::New, None) => u32::from(request.to),
            _ => self.version,
        };
        let command = self.command(
            (&request.clone, "--clone-command"),
            (side, version),
            Some(self.production),
        );
        let printed = command.run(self.interrupt)?;
        self.recognise(side, parse_url(&printed)?, production)
    }

    /// Returns a clone that is another server than the cloned one and the captured one, and that nothing else uses. Only the URL of
    /// such a clone is given to the commands that upgrade and remove it.
    fn recognise(
        &mut self,
        side: CopySide,
        clone: MadeClone,
        production: &ServerIdentity,
    ) -> Result<MadeClone, Failure> {
        refuse_without_database(&clone, self.production)?;
        let is_same = clone.target.address() == self.production.address()
            || ServerIdentity::read(&self.catalogue(&clone))?.is_same_server(production);
        if is_same {
            return Err(Failure::could_not(format!(
                "the URL that was printed for the clone of the {} side is that of the server of --from, {}; print that of a clone",
                side.name(),
                clone.target.address()
            )));
        }
        let request = self.request;
        let allowed = (&request.place, &request.confirmed[..]);
        own_servers::refuse_clone(allowed, &clone.target, self.traffic)?;
        if let Some((_, known)) = self.begun.last_mut() {
            *known = Some(clone.clone());
        }
        Ok(clone)
    }

    /// Upgrades the clone of the new side. The command may print another URL.
    fn upgrade(
        &mut self,
        clone: MadeClone,
        production: &ServerIdentity,
    ) -> Result<MadeClone, Failure> {
        let Some(upgrade) = &self.request.upgrade else {
            return Ok(clone);
        };
        notes::note("Upgrading the clone of the new side.");
        let mut command = self.command(
            (upgrade, "--upgrade-command"),
            (CopySide::New, u32::from(self.request.to)),
            Some(&clone.target),
        );
        command.variables.push(("REHEARSE_URL", clone.url.clone()));
        let printed = command.run(self.interrupt)?;
        match last_line(&printed).filter(|line| is_url(line)) {
            Some(_) => self.recognise(CopySide::New, parse_url(&printed)?, production),
            None => Ok(clone),
        }
    }

    fn command<'c>(
        &'c self,
        (command, option): (&'c str, &'c str),
        (side, version): (CopySide, u32),
        server: Option<&'c Target>,
    ) -> PrintingCommand<'c> {
        PrintingCommand {
            command,
            option,
            server,
            variables: vec![
                ("REHEARSE_SIDE", side.name().to_owned()),
                ("REHEARSE_CLONE", format!("{}-{}", self.name, side.name())),
                ("REHEARSE_VERSION", version.to_string()),
                ("REHEARSE_OLD_VERSION", self.version.to_string()),
            ],
            time_limit: self.request.time_limit,
        }
    }

    /// Returns the database of a clone that exists before its data are restored.
    fn catalogue(&self, clone: &MadeClone) -> Target {
        super::own_servers::catalogue(&self.request.place, &clone.target)
    }

    /// Describes what a process leaves that ends at once.
    fn left_at_once(&self) -> String {
        let removed = match &self.request.drop {
            Some(_) => "--resume removes them first with --drop-command, or remove them by hand",
            None => "remove them by hand",
        };
        format!(
            "Its clones {0}-old and {0}-new, copies of the data, may be left: {removed}.",
            self.name
        )
    }

    /// Removes clones of a rehearsal that was killed. There may be none, so that a failure is no error.
    fn remove_earlier(&self) {
        if let Some(drop) = &self.request.drop {
            for side in [CopySide::Old, CopySide::New] {
                let _ = self.run_drop(drop, side, None);
            }
        }
    }

    /// Removes the clones. Returns sentences on those that are left.
    fn remove(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        for (side, clone) in std::mem::take(&mut self.begun) {
            let address = clone.as_ref().map(|clone| clone.target.address());
            let named = address.map_or(String::new(), |address| format!(" ({address})"));
            match &self.request.drop {
                None if clone.is_some() => left.push(format!(
                    "the clone of the {} side{named} was not removed, since there is no --drop-command",
                    side.name()
                )),
                None => {}
                Some(drop) => {
                    if let Err(failure) = self.run_drop(drop, side, clone.as_ref()) {
                        left.push(format!(
                            "the clone of the {} side{named} may be left, remove it by hand: {}",
                            side.name(),
                            failure.message
                        ));
                    }
                }
            }
        }
        left
    }

    /// Runs the command that removes a clone, also after a stop was requested. Without a known URL, `REHEARSE_URL` is
    /// empty, and there are no variables of libpq.
    fn run_drop(
        &self,
        drop: &str,
        side: CopySide,
        clone: Option<&MadeClone>,
    ) -> Result<(), Failure> {
        let version = match side {
            CopySide::Old => self.version,
            CopySide::New => u32::from(self.request.to),
        };
        let target = clone.map(|clone| &clone.target);
        let mut command = self.command((drop, "--drop-command"), (side, version), target);
        let url = clone.map_or(String::new(), |clone| clone.url.clone());
        command.variables.push(("REHEARSE_URL", url));
        command.run(&self.interrupt.without_request())?;
        Ok(())
    }
}

/// Returns the beginning of the names of a rehearsal's clones, of small letters, digits and hyphens.
fn clone_name(output: &Path) -> String {
    let path = std::path::absolute(output).unwrap_or_else(|_| output.to_owned());
    let machine = connect::machine_name().unwrap_or_default();
    let hash = Sha256::digest(format!("{machine}:{}", path.display()));
    let plain = plain_name(output);
    format!(
        "rehearse-{}{}",
        match plain.is_empty() {
            true => String::new(),
            false => format!("{plain}-"),
        },
        hash[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    )
}

/// Returns the last line that is not empty.
fn last_line(printed: &str) -> Option<&str> {
    let lines = printed.lines().map(str::trim);
    lines.rev().find(|line| !line.is_empty())
}

fn is_url(line: &str) -> bool {
    line.starts_with("postgres://") || line.starts_with("postgresql://")
}

/// Reads the URL in the last line of a command's output.
fn parse_url(printed: &str) -> Result<MadeClone, Failure> {
    let Some(line) = last_line(printed) else {
        return Err(Failure::could_not(
            "the command of --clone-command printed nothing on standard output; print the URL of the clone as the last line, such as postgres://postgres@127.0.0.1:5499/shop",
        ));
    };
    if !is_url(line) {
        return Err(Failure::could_not(format!(
            "the last line that the command of --clone-command printed is no URL: '{}'; print the URL of the clone as the last line, such as postgres://postgres@127.0.0.1:5499/shop",
            hide_secrets(line)
        )));
    }
    let target = Target::parse(line, |name| std::env::var(name).ok())?;
    Ok(MadeClone {
        url: line.to_owned(),
        target,
    })
}

fn refuse_other_databases(old: &Target, new: &Target) -> Result<(), Failure> {
    let name = |one: &Target| one.database.clone().unwrap_or_default();
    match old.database == new.database {
        true => Ok(()),
        false => Err(Failure::could_not(format!(
            "the URLs of the clones name the databases {} and {}; print the same database for both sides",
            name(old),
            name(new)
        ))),
    }
}

fn refuse_without_database(clone: &MadeClone, production: &Target) -> Result<(), Failure> {
    match clone.target.database {
        Some(_) => Ok(()),
        None => Err(Failure::could_not(format!(
            "the URL of the clone at {} names no database; print it with one, such as /{}",
            clone.target.address(),
            production.database.as_deref().unwrap_or("shop")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_read_from_the_last_line_that_is_not_empty() {
        let clone = parse_url("cloning\npostgres://a:b@h:7/shop \n\n").unwrap();
        assert_eq!(clone.url, "postgres://a:b@h:7/shop");
        assert_eq!(clone.target.address(), "h:7");
    }

    #[test]
    fn output_without_a_url_is_refused_without_its_passwords() {
        let nothing = parse_url(" \n").err().unwrap();
        assert!(nothing.message.contains("printed nothing"));
        let message = parse_url("host=h password=geheim").err().unwrap().message;
        assert!(message.contains("is no URL"), "{message}");
        assert!(!message.contains("geheim"), "{message}");
        let malformed = "postgres://a:geheim@h:port/shop";
        let message = parse_url(malformed).err().unwrap().message;
        assert!(!message.contains("geheim"), "{message}");
    }

    #[test]
    fn name_of_clones_depends_on_the_output_only_and_fits_names_of_others() {
        let name = clone_name(Path::new("/a/Monday's.upgrade"));
        assert_eq!(name, clone_name(Path::new("/a/Monday's.upgrade")));
        assert_ne!(name, clone_name(Path::new("/b/Monday's.upgrade")));
        assert!(name.starts_with("rehearse-mondays-"), "{name}");
        assert!(name.len() <= 63 - "-old".len(), "{name}");
    }
}
