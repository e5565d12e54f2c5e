//! Dump of the old server, and its restore into private servers.

use std::path::{Path, PathBuf};

use connect::Target;

use super::copied_settings;
use crate::environment::run_shell_command;
use crate::failure::Failure;

/// Dump in a rehearsal's directory.
pub(super) struct DataCopy {
    directory: PathBuf,
    /// Whether the settings of the old server are copied.
    has_settings: bool,
}

/// Side of the restore.
#[derive(Debug, Clone, Copy)]
pub(super) enum CopySide {
    Old,
    New,
}

impl CopySide {
    fn name(self) -> &'static str {
        match self {
            CopySide::Old => "old",
            CopySide::New => "new",
        }
    }
}

impl DataCopy {
    /// Names the dump in a rehearsal's directory.
    pub(super) fn in_directory(directory: &Path, has_settings: bool) -> Self {
        DataCopy {
            directory: directory.join("dump"),
            has_settings,
        }
    }

    /// Dumps the roles, the database and the settings of the target, unless a complete dump is there.
    ///
    /// # Errors
    /// If a file cannot be written, or the server refuses.
    pub(super) fn dump(&self, target: &Target) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.directory).map_err(|error| {
            Failure::could_not(format!("cannot make {}: {error}", self.directory.display()))
        })?;
        if self.directory.join("data.dump").exists() {
            return Ok(());
        }
        let folder = quoted(&self.directory);
        let settings = match self.has_settings {
            true => copied_settings::DUMP,
            false => "",
        };
        let command = format!(
            "set -e; cd {folder}; pg_dumpall --globals-only --no-role-passwords --no-tablespaces --file=globals.sql; \
             {settings} pg_dump --format=custom --no-publications --no-subscriptions --file=data.dump.partial; \
             mv data.dump.partial data.dump"
        );
        Ok(run_shell_command(&command, target, "the dump")?)
    }

    /// Returns a command that fills the server that libpq's variables name. Its messages stay in files, which
    /// [`Self::errors`] reads. Both servers get `pg_stat_statements`, which counts the work of statements.
    pub(super) fn load_command(&self, side: CopySide) -> String {
        let (folder, side) = (quoted(&self.directory), side.name());
        let settings = match self.has_settings {
            true => copied_settings::load(side),
            false => String::new(),
        };
        format!(
            "cd {folder} || exit 1; psql -X -q -d postgres -f globals.sql >/dev/null 2>globals-{side}.log; \
             psql -X -q -c 'CREATE EXTENSION IF NOT EXISTS pg_stat_statements' >/dev/null 2>&1; \
             pg_restore --no-tablespaces -d \"$PGDATABASE\" data.dump 2>restore-{side}.log; \
             {settings} psql -X -q -c 'VACUUM ANALYZE'"
        )
    }

    /// Returns the errors of the restore, one line each. Roles that exist are none.
    pub(super) fn errors(&self, side: CopySide) -> Vec<String> {
        let mut errors = Vec::new();
        for part in ["globals", "restore"] {
            let lines = self.messages(part, side).into_iter();
            errors.extend(lines.filter(|line| !line.ends_with("already exists")));
        }
        errors
    }

    /// Returns the settings of the old server that a side does not have, in sentences.
    pub(super) fn settings_left_out(&self) -> Vec<String> {
        if !self.has_settings {
            return Vec::new();
        }
        let file = self.directory.join(copied_settings::LEFT_OUT_FILE);
        let left_out = std::fs::read_to_string(file).unwrap_or_default();
        let left_out: Vec<&str> = left_out.lines().collect();
        let mut sentences = Vec::new();
        if !left_out.is_empty() {
            sentences.push(format!(
                "settings of the old server that were not copied, since they depend on the size of the machine: {}",
                left_out.join(", ")
            ));
        }
        for side in [CopySide::Old, CopySide::New] {
            let refused = self.messages("settings", side).into_iter();
            sentences.extend(refused.map(|message| {
                format!(
                    "the {} version refuses a copied setting: {message}",
                    side.name()
                )
            }));
        }
        sentences
    }

    /// Returns the messages of errors in a log, one line each.
    fn messages(&self, part: &str, side: CopySide) -> Vec<String> {
        let file = self.directory.join(format!("{part}-{}.log", side.name()));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            let (_, message) = line.split_once("ERROR:")?;
            Some(message.trim().to_owned())
        });
        lines.collect()
    }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
