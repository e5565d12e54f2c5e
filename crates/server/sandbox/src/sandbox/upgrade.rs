//! Major upgrade of a private server by pg_upgrade.

use std::path::Path;
use std::process::Output;

use super::{Options, Sandbox, Stop, private_dir};
use crate::dirs::Dirs;
use crate::error::{Error, ErrorContext, Result};
use crate::installation::Installation;
use crate::server::SUPERUSER;

/// Programs of the old version that pg_upgrade needs. Source: `check_bin_dir` in src/bin/pg_upgrade/exec.c.
const OLD_PROGRAMS: [&str; 4] = ["postgres", "pg_controldata", "pg_ctl", "pg_resetwal"];
/// Programs of the new version that pg_upgrade needs in addition to those of the old version.
const NEW_PROGRAMS: [&str; 7] = [
    "pg_upgrade",
    "initdb",
    "pg_dump",
    "pg_dumpall",
    "pg_restore",
    "psql",
    "vacuumdb",
];
/// First version whose `initdb` enables data checksums by default.
pub const CHECKSUMS_BY_DEFAULT_MAJOR: u16 = 18;
/// First version whose pg_upgrade has `--socketdir`.
const SOCKET_DIRECTORY: u16 = 13;
/// Number of lines of a list of objects, or of errors in a log, that is quoted.
const LINES_MAX: usize = 20;
/// Condition of an extension that was created without a postmaster, as [`Options::statement_statistics`] does. It has an
/// identifier below `FirstNormalObjectId`, so pg_dump takes it for a part of the server and does not dump it. Source:
/// `GetNewObjectId` in src/backend/access/transam/varsup.c.
const IS_BUILT_IN: &str = "extname = 'pg_stat_statements' AND oid < 16384";

/// Result of `pg_upgrade --check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PgUpgradeCheck {
    /// The server can be upgraded.
    Accepted,
    /// It cannot be upgraded, with the messages of pg_upgrade and its lists of objects, a line each.
    Refused(Vec<String>),
}

/// Refuses two installations of which one lacks programs that pg_upgrade needs.
///
/// # Errors
/// With the programs that are missing.
pub fn check_upgrade_programs(old: &Installation, new: &Installation) -> Result<()> {
    let of_new = OLD_PROGRAMS.into_iter().chain(NEW_PROGRAMS);
    let all = (OLD_PROGRAMS.into_iter().map(|name| old.program(name)))
        .chain(of_new.map(|name| new.program(name)));
    let missing: Vec<String> = all
        .filter(|program| !program.is_file())
        .map(|program| program.display().to_string())
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::UpgradePrograms {
            missing: missing.join(", "),
            old: old.major,
            new: new.major,
        }),
    }
}

impl Sandbox {
    /// Returns whether pg_upgrade accepts a copy of this server's data for another version. This one is stopped meanwhile.
    ///
    /// # Errors
    /// If programs are missing, or a server cannot be created.
    pub fn check_upgrade(&mut self, to: &Installation, places: &Dirs) -> Result<PgUpgradeCheck> {
        let (old, new, _) = self.upgrade_clusters(to, Vec::new(), places)?;
        let output = run_pg_upgrade(&old, &new, &["--check"])?;
        Ok(match output.status.success() {
            true => PgUpgradeCheck::Accepted,
            false => PgUpgradeCheck::Refused(messages(&new, &output)),
        })
    }

    /// Creates a private server of another version with a copy of this one's data, by pg_upgrade. It is not started yet.
    /// This one is stopped meanwhile.
    ///
    /// # Errors
    /// If programs are missing, a server cannot be created, or pg_upgrade fails.
    pub fn upgrade(
        &mut self,
        to: &Installation,
        settings: Vec<(String, String)>,
        places: &Dirs,
    ) -> Result<Self> {
        let (old, mut new, databases) = self.upgrade_clusters(to, settings, places)?;
        // The copy is deleted, so its files can be linked.
        let output = run_pg_upgrade(&old, &new, &["--link"])?;
        if !output.status.success() {
            return Err(Error::Upgrade {
                old: self.installation.version.clone(),
                new: to.version.clone(),
                said: messages(&new, &output).join("\n"),
            });
        }
        new.marker.statement_statistics = self.marker.statement_statistics;
        new.marker.write(&new.root)?;
        if !databases.is_empty() {
            new.start()?;
            for database in &databases {
                psql(
                    (&new, &new),
                    database,
                    "CREATE EXTENSION IF NOT EXISTS pg_stat_statements",
                )?;
            }
            new.stop(Stop::Fast)?;
        }
        Ok(new)
    }

    /// Creates a copy of this server, and an empty one of the other version. Both were started once, so that their
    /// settings are written, and are stopped. Also returns the databases of the copy that lost pg_stat_statements, since
    /// pg_upgrade would fail.
    fn upgrade_clusters(
        &mut self,
        to: &Installation,
        settings: Vec<(String, String)>,
        places: &Dirs,
    ) -> Result<(Self, Self, Vec<String>)> {
        check_upgrade_programs(&self.installation, to)?;
        let mut old = self.copy(places)?;
        let has_checksums = self.installation.major >= CHECKSUMS_BY_DEFAULT_MAJOR;
        let initdb = match to.major >= CHECKSUMS_BY_DEFAULT_MAJOR && !has_checksums {
            true => vec!["--no-data-checksums".to_owned()],
            false => Vec::new(),
        };
        let options = Options {
            settings,
            initdb,
            ..Options::default()
        };
        let mut new = Self::create(to, options, places)?;
        new.start()?;
        new.stop(Stop::Fast)?;
        old.start()?;
        let databases = drop_statement_statistics((&new, &old))?;
        old.stop(Stop::Fast)?;
        Ok((old, new, databases))
    }
}

/// Drops pg_stat_statements if it was created without a postmaster. Returns the databases that had it.
fn drop_statement_statistics(servers: (&Sandbox, &Sandbox)) -> Result<Vec<String>> {
    let all = "SELECT datname FROM pg_database WHERE datallowconn ORDER BY 1";
    let is_built_in = format!("SELECT count(*) FROM pg_extension WHERE {IS_BUILT_IN}");
    let mut databases = Vec::new();
    for database in psql(servers, "postgres", all)?.lines() {
        if psql(servers, database, &is_built_in)?.trim() == "1" {
            psql(servers, database, "DROP EXTENSION pg_stat_statements")?;
            databases.push(database.to_owned());
        }
    }
    Ok(databases)
}

/// Executes a statement by the psql of one server's installation on another server. Returns its output without titles.
fn psql(
    (programs, server): (&Sandbox, &Sandbox),
    database: &str,
    statement: &str,
) -> Result<String> {
    let endpoint = server.endpoint();
    let mut command = programs.cluster().command("psql");
    command.args([
        "-X",
        "-q",
        "-A",
        "-t",
        "-v",
        "ON_ERROR_STOP=1",
        "-c",
        statement,
    ]);
    // An argument with '=' would be a connection string.
    command.env("PGDATABASE", database).env("PGUSER", SUPERUSER);
    command.env("PGHOST", endpoint.socket_dir.unwrap_or_default());
    command.env("PGPORT", endpoint.port.to_string());
    let program = programs.installation.program("psql");
    let output = command.output().context("run", &program)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Error::Upgrade {
            old: server.installation.version.clone(),
            new: programs.installation.version.clone(),
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
    }
}

fn run_pg_upgrade(old: &Sandbox, new: &Sandbox, options: &[&str]) -> Result<Output> {
    // Before version 15, pg_upgrade writes its files here.
    let directory = new.root.join("pg_upgrade");
    private_dir(&directory)?;
    new.run_as.change_owner(&directory)?;
    let mut command = new.cluster().command("pg_upgrade");
    command.current_dir(&directory).args(options);
    command.args(["-U", SUPERUSER]);
    command.arg("-b").arg(&old.installation.bin_dir);
    command.arg("-B").arg(&new.installation.bin_dir);
    command.arg("-d").arg(&old.data).arg("-D").arg(&new.data);
    let sockets = new.marker.socket_dir.as_deref();
    if let Some(sockets) = sockets.filter(|_| new.installation.major >= SOCKET_DIRECTORY) {
        command.arg("--socketdir").arg(sockets);
    }
    let program = new.installation.program("pg_upgrade");
    command.output().context("run", &program)
}

/// Returns the messages of pg_upgrade without those on checks that succeeded, the lists of objects that it wrote, and the
/// errors in its logs, which are deleted with the servers.
fn messages(new: &Sandbox, output: &Output) -> Vec<String> {
    let printed = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let is_shown = |line: &&str| {
        let is_rule = line.bytes().all(|byte| byte == b'-');
        !is_rule && !line.ends_with(" ok") && !line.starts_with("Performing Consistency Checks")
    };
    let lines = printed.iter().flat_map(|text| text.lines().map(str::trim));
    let mut messages: Vec<String> = lines.filter(is_shown).map(str::to_owned).collect();
    for directory in [
        new.root.join("pg_upgrade"),
        new.data.join("pg_upgrade_output.d"),
    ] {
        add_lists(&directory, &mut messages);
    }
    messages
}

/// Adds the lists in a directory, which are text files, and the errors in logs. Of a long one, the number of lines that are
/// left out is stated.
fn add_lists(directory: &Path, messages: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_lists(&path, messages);
        }
        let is_list = path.extension().is_some_and(|extension| extension == "txt");
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        if !is_list && !is_log {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let is_shown = |line: &&str| is_list || line.contains("ERROR:") || line.contains("FATAL:");
        let lines: Vec<&str> = text.lines().filter(is_shown).map(str::trim).collect();
        messages.extend(lines.iter().take(LINES_MAX).map(|&line| line.to_owned()));
        let left_out = lines.len().saturating_sub(LINES_MAX);
        if left_out > 0 {
            messages.push(format!("… and {left_out} more lines"));
        }
    }
}
