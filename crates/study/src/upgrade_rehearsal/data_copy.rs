//! Dump of the old server, and its restore into private servers.

use std::path::{Path, PathBuf};

use connect::Target;

use crate::environment::run_shell_command;
use crate::failure::Failure;

/// Dump in a rehearsal's directory.
pub(super) struct DataCopy {
    directory: PathBuf,
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
    pub(super) fn in_directory(directory: &Path) -> Self {
        DataCopy {
            directory: directory.join("dump"),
        }
    }

    /// Dumps the roles and the database of the target, unless a complete dump is there.
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
        let command = format!(
            "set -e; cd {folder}; pg_dumpall --globals-only --no-role-passwords --no-tablespaces --file=globals.sql; \
             pg_dump --format=custom --no-publications --no-subscriptions --file=data.dump.partial; \
             mv data.dump.partial data.dump"
        );
        Ok(run_shell_command(&command, target, "the dump")?)
    }

    /// Returns a command that fills the server that libpq's variables name. Its messages stay in files, which
    /// [`Self::errors`] reads. Both servers get `pg_stat_statements`, which counts the work of statements.
    pub(super) fn load_command(&self, side: CopySide) -> String {
        let (folder, side) = (quoted(&self.directory), side.name());
        format!(
            "cd {folder} || exit 1; psql -X -q -d postgres -f globals.sql >/dev/null 2>globals-{side}.log; \
             psql -X -q -c 'CREATE EXTENSION IF NOT EXISTS pg_stat_statements' >/dev/null 2>&1; \
             pg_restore --no-tablespaces -d \"$PGDATABASE\" data.dump 2>restore-{side}.log; \
             psql -X -q -c 'VACUUM ANALYZE'"
        )
    }

    /// Returns the errors of the restore, one line each. Roles that exist are none.
    pub(super) fn errors(&self, side: CopySide) -> Vec<String> {
        let mut errors = Vec::new();
        for part in ["globals", "restore"] {
            let file = self.directory.join(format!("{part}-{}.log", side.name()));
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let lines = text.lines().filter_map(|line| {
                let (_, message) = line.split_once("ERROR:")?;
                Some(message.trim().to_owned())
            });
            errors.extend(lines.filter(|line| !line.ends_with("already exists")));
        }
        errors
    }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
