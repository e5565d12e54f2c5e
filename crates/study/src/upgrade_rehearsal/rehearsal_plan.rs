//! Identity of a rehearsal, and its directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use archive::DirectoryLock;
use connect::Target;
use serde::{Deserialize, Serialize};
use workload::WorkloadReader;

use super::{RehearsalServers, UpgradeRequest, unfinished};
use crate::baseline_run::choose_database;
use crate::failure::Failure;
use crate::upgrade_inspect::UpgradeMethod;

/// File of the identity.
const FILE: &str = "upgrade.json";
/// Number of letters of the directory's name in names of servers and clones.
const LETTERS_MAX: usize = 20;
/// Access rights of the directory.
const DIRECTORY_MODE: u32 = 0o700;

/// Identity of a rehearsal, in its directory.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RehearsalPlan {
    workload: String,
    /// Address, database and role of the old server.
    from: String,
    /// New major version, if it was given.
    to: Option<u16>,
    /// Address, database and role of the user's upgraded server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Way in which the user upgraded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upgrade_method: Option<String>,
    /// Whether private servers have default settings.
    #[serde(default)]
    has_default_settings: bool,
    /// Database of the workload that is rehearsed.
    pub(super) database: String,
    /// Private server of the old version.
    pub(super) sandbox: String,
    /// Options of the replays, by name; none in a directory of an earlier version of this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    options: Option<BTreeMap<String, String>>,
}

impl RehearsalPlan {
    /// Names the options that differ from those of the rehearsal that was begun.
    fn differences(&self, begun: &Self) -> Vec<String> {
        let parts = [
            (self.workload == begun.workload, "workload"),
            (
                self.from == begun.from,
                "old server, database or role (--from)",
            ),
            (self.to == begun.to, "version (--to)"),
            (
                self.target == begun.target,
                "new server, database or role (--target), or command (--clone-command, --upgrade-command)",
            ),
            (
                self.upgrade_method == begun.upgrade_method,
                "way of the upgrade (--method)",
            ),
            (
                self.has_default_settings == begun.has_default_settings,
                "choice of --default-settings",
            ),
            (self.database == begun.database, "database of the workload"),
        ];
        let others = parts.into_iter().filter(|(is_equal, _)| !is_equal);
        let mut named: Vec<String> = others.map(|(_, name)| name.to_owned()).collect();
        if let (Some(given), Some(known)) = (&self.options, &begun.options) {
            let names: BTreeSet<&String> = given.keys().chain(known.keys()).collect();
            let other = names
                .into_iter()
                .filter(|name| given.get(*name) != known.get(*name));
            named.extend(other.map(|name| format!("choice of --{name}")));
        }
        named
    }

    fn is_continued_by(&self, other: &Self) -> bool {
        other.differences(self).is_empty()
    }
}

/// Returns the address, database and role of a server.
pub(super) fn place_of(target: &Target) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    format!(
        "{} database={} user={}",
        target.address(),
        text(&target.database),
        text(&target.user)
    )
}

/// Returns the name of the directory without its extension, of small letters and digits.
pub(super) fn plain_name(output: &Path) -> String {
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    let letters = stem.chars().filter(char::is_ascii_alphanumeric);
    letters
        .take(LETTERS_MAX)
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

/// Creates the directory, or reads the plan of the rehearsal that is resumed.
pub(super) fn begin(
    request: &UpgradeRequest<'_>,
    whole: &WorkloadReader,
) -> Result<RehearsalPlan, Failure> {
    let output = request.output;
    let file = output.join(FILE);
    let cloned = match &request.servers {
        RehearsalServers::Own(own) => own.cloned.as_ref(),
        RehearsalServers::Private { .. } => None,
    };
    let plan = RehearsalPlan {
        workload: whole.id().to_owned(),
        from: cloned.map_or_else(|| place_of(request.from), |one| one.production.clone()),
        to: request.to(),
        target: match &request.servers {
            RehearsalServers::Own(own) => Some(match cloned {
                Some(cloned) => cloned.commands.clone(),
                None => place_of(&own.target),
            }),
            RehearsalServers::Private { .. } => None,
        },
        upgrade_method: match &request.servers {
            RehearsalServers::Own(own) => Some(format!("{:?}", own.method)),
            RehearsalServers::Private {
                method: UpgradeMethod::Dump,
                ..
            } => None,
            RehearsalServers::Private { method, .. } => Some(format!("{method:?}")),
        },
        has_default_settings: matches!(
            request.servers,
            RehearsalServers::Private {
                has_default_settings: true,
                ..
            }
        ),
        database: choose_database(whole, request.replay.logins.database.as_deref())?,
        sandbox: format!(
            "upgrade-{}-{:08x}",
            plain_name(output),
            rand::random::<u32>()
        ),
        options: Some(replay_options(request)),
    };
    if let Ok(text) = fs::read_to_string(&file) {
        let known: RehearsalPlan = serde_json::from_str(&text).map_err(|error| {
            Failure::could_not(format!("{} is damaged: {error}", file.display()))
        })?;
        if !request.resume {
            let Failure { kind, mut message } = exists(output);
            // The server of a rehearsal that runs is left alone.
            if let Ok(_lock) = lock(output)
                && let Some(kept) = unfinished::stop_killed(output, &known.sandbox)
            {
                message = format!("{message}. {kept}");
            }
            return Err(Failure { kind, message });
        }
        return match known.is_continued_by(&plan) {
            false => Err(Failure::usage(format!(
                "{} is the rehearsal of another {}; give the same options to --resume, or another -o",
                output.display(),
                plan.differences(&known).join(", ")
            ))),
            true => Ok(known),
        };
    }
    if output.symlink_metadata().is_ok() {
        return Err(exists(output));
    }
    let failed = |error: io::Error| {
        Failure::could_not(format!("cannot write to {}: {error}", output.display()))
    };
    let text = serde_json::to_string_pretty(&plan).expect("plain data");
    create(output, &text).map_err(failed)?;
    Ok(plan)
}

/// Returns the options of the replays that must stay, by name.
fn replay_options(request: &UpgradeRequest<'_>) -> BTreeMap<String, String> {
    let speed = ("speed", Some(request.replay.speed.to_string()));
    let options = [speed].into_iter().chain(request.session_options.clone());
    options
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Locks the directory until the lock is dropped: two processes would restore into the same servers.
///
/// # Errors
/// If another process has the lock, or the directory cannot be opened.
pub(super) fn lock(output: &Path) -> Result<DirectoryLock, Failure> {
    let lock = DirectoryLock::try_exclusive(output).map_err(|error| {
        Failure::could_not(format!("cannot open {}: {error}", output.display()))
    })?;
    lock.ok_or_else(|| {
        Failure::could_not(format!(
            "cannot rehearse in {}: another process does so; wait for its end, or stop it",
            output.display()
        ))
    })
}

/// Creates the directory with its plan, complete or not at all. Only its owner can enter it, since it gets a dump.
fn create(output: &Path, plan: &str) -> io::Result<()> {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = output.with_file_name(name);
    if let Some(parent) = output.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::remove_dir_all(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::DirBuilder::new()
            .mode(DIRECTORY_MODE)
            .create(&partial)?,
    }
    fs::write(partial.join(FILE), plan)?;
    fs::rename(&partial, output)
}

pub(super) fn exists(output: &Path) -> Failure {
    Failure::usage(format!(
        "cannot write to {}: it already exists; give another -o, or --resume to continue a rehearsal",
        output.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn directory_is_for_its_owner_only_and_replaces_the_rest_of_a_killed_start() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("a/x.upgrade");
        fs::create_dir_all(parent.path().join("a/x.upgrade.partial/rest")).unwrap();
        create(&output, "{}").unwrap();
        let mode = fs::metadata(&output).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(fs::read_to_string(output.join(FILE)).unwrap(), "{}");
        assert!(!output.join("rest").exists());
        assert!(!parent.path().join("a/x.upgrade.partial").exists());
    }

    #[test]
    fn directory_of_a_rehearsal_that_runs_is_refused_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock(directory.path()).unwrap();
        let refused = lock(directory.path()).unwrap_err();
        assert!(refused.message.contains("another process"), "{refused:?}");
        drop(first);
        // A process that another test starts has the lock, too, until it executes its program.
        let is_free = || lock(directory.path()).is_ok();
        let wait = || std::thread::sleep(std::time::Duration::from_millis(10));
        assert!((0..3_000).any(|_| is_free() || {
            wait();
            false
        }));
    }

    fn plan(target: &str, method: &str) -> RehearsalPlan {
        let place = |url: &str| place_of(&Target::parse(url, |_| None).unwrap());
        RehearsalPlan {
            workload: "7".to_owned(),
            from: place("postgres://a@127.0.0.1:1/shop"),
            to: Some(18),
            target: Some(place(target)),
            upgrade_method: Some(method.to_owned()),
            has_default_settings: false,
            database: "shop".to_owned(),
            sandbox: "x".to_owned(),
            options: None,
        }
    }

    #[test]
    fn plan_with_another_database_role_or_method_names_what_differs() {
        let begun = plan("postgres://a@127.0.0.1:2/shop", "PgUpgrade");
        assert_eq!(begun.differences(&begun), [""; 0]);
        let others = [
            "postgres://a@127.0.0.1:2/other",
            "postgres://b@127.0.0.1:2/shop",
        ];
        for other in others {
            assert_eq!(
                plan(other, "PgUpgrade").differences(&begun),
                [
                    "new server, database or role (--target), or command (--clone-command, --upgrade-command)"
                ]
            );
        }
        assert_eq!(
            plan("postgres://a@127.0.0.1:2/shop", "Dump").differences(&begun),
            ["way of the upgrade (--method)"]
        );
    }

    #[test]
    fn plan_with_another_speed_names_it_unless_an_earlier_version_began_the_rehearsal() {
        let place = "postgres://a@127.0.0.1:2/shop";
        let with = |speed: &str| RehearsalPlan {
            options: Some(BTreeMap::from([("speed".to_owned(), speed.to_owned())])),
            ..plan(place, "Dump")
        };
        assert_eq!(with("max").differences(&with("1")), ["choice of --speed"]);
        assert_eq!(with("1").differences(&with("1")), [""; 0]);
        assert!(plan(place, "Dump").is_continued_by(&with("max")));
    }
}
