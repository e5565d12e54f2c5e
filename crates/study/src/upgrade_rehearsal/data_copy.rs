//! Dump of the old server, and its restore into private servers.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use connect::Target;

use super::watched_script::PRELUDE;
use super::{copied_settings, database_definition, isolation};
use crate::environment::run_stoppable_command;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Functions of the shell for a restore. Messages are parsed, so they must be in English. Limits that roles and the database have do
/// not hold for the restore.
///
/// `pg_restore` exits with 1 after errors of statements, and after its own errors. Only in the first case, its last line has the
/// number of errors, and each has a message of the server. Source: `pg_restore.c` and `warn_or_exit_horribly`.
const FUNCTIONS: &str = r#"umask 077
export LC_ALL=C PGOPTIONS='-c statement_timeout=0 -c lock_timeout=0 -c default_transaction_read_only=off'
fail() { echo "$1: $(tail -n 3 "$2")" >&2; exit 1; }
# An archive that cannot be read to its end would stop each resumed rehearsal.
unreadable() {
  if pg_restore --file=/dev/null data.dump 2>/dev/null; then fail "$1" "$2"; fi
  rm -f data.dump
  fail "$1; the dump was damaged, and was removed: --resume makes it again" "$2"
}
restore() {
  log=$1-$side.log; shift
  run pg_restore --no-tablespaces --use-list="restore-$side.list" "$@" -d "$connection" data.dump 2>"$log"
  status=$?
  test $status = 0 && return
  ignored=$(sed -n '$s/.*errors ignored on restore: \([0-9]*\)$/\1/p' "$log")
  test $status = 1 && test "$ignored" = "$(grep -c '^pg_restore: .*ERROR:' "$log")" && return
  unreadable "pg_restore could not restore the dump (exit status $status)" "$log"
}
"#;

/// File of the statements for a database in which `VACUUM ANALYZE` fails.
const ANALYZE_FILE: &str = "analyze.sql";

/// Statements that vacuum and analyze each table. Foreign tables are switched off, so a table with foreign children cannot
/// be analyzed. `psql` executes each row as a statement.
const ANALYZE: &str = r"WITH RECURSIVE parents AS (
  SELECT i.inhparent AS oid FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE c.relkind = 'f'
  UNION SELECT i.inhparent FROM pg_inherits i JOIN parents p ON p.oid = i.inhrelid)
SELECT CASE relkind WHEN 'p' THEN '' ELSE 'VACUUM ' END
  || CASE WHEN oid IN (SELECT oid FROM parents) THEN '' ELSE 'ANALYZE ' END || oid::regclass
FROM pg_class WHERE relkind IN ('r', 'm', 'p') AND relpersistence <> 't'
  AND NOT (relkind = 'p' AND oid IN (SELECT oid FROM parents)) \gexec
";

/// Dump in a rehearsal's directory.
pub(super) struct DataCopy {
    directory: PathBuf,
    /// Whether the settings of the old server are copied.
    has_settings: bool,
}

/// Side of a rehearsal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopySide {
    Old,
    New,
}

/// Errors of both restores, a message for each time that it occurred.
#[derive(Debug, Default)]
pub(super) struct RestoreErrors {
    /// On both sides.
    pub(super) both: Vec<String>,
    /// On the old side only.
    pub(super) old: Vec<String>,
    /// On the new side only.
    pub(super) new: Vec<String>,
}

impl CopySide {
    pub(super) fn name(self) -> &'static str {
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

    /// Dumps the roles, the database and the settings of the target, unless a complete dump is there. Only the owner can
    /// read it. Returns whether it was dumped now.
    ///
    /// The unfinished file has a name of this process: a program of a killed rehearsal may still write its own.
    ///
    /// # Errors
    /// If a file cannot be written, the server refuses, or a stop is requested.
    pub(super) fn dump(&self, target: &Target, interrupt: &Interrupt) -> Result<bool, Failure> {
        let failed = |error| {
            Failure::could_not(format!("cannot make {}: {error}", self.directory.display()))
        };
        let mut builder = fs::DirBuilder::new();
        (builder.mode(0o700).recursive(true).create(&self.directory)).map_err(failed)?;
        let files = [
            (isolation::FILE, isolation::script()),
            (ANALYZE_FILE, ANALYZE.to_owned()),
        ];
        for (name, text) in files {
            fs::write(self.directory.join(name), text).map_err(failed)?;
        }
        if self.directory.join("data.dump").exists() {
            return Ok(false);
        }
        run_stoppable_command(&self.dump_command(), target, "the dump", interrupt)?;
        Ok(true)
    }

    /// Returns the command that dumps the server that libpq's variables name.
    fn dump_command(&self) -> String {
        let folder = quoted(&self.directory);
        let settings = match self.has_settings {
            true => copied_settings::DUMP,
            false => "",
        };
        format!(
            "{PRELUDE}set -e; umask 077; cd {folder}; rm -f data.dump.partial*; \
             run pg_dumpall --globals-only --no-role-passwords --no-tablespaces --file=globals.sql; \
             {} {settings} run pg_dump --format=custom --no-publications --no-subscriptions --file=data.dump.partial.$$; \
             mv data.dump.partial.$$ data.dump",
            database_definition::DUMP
        )
    }

    /// Writes the script that restores the dump on a side, and returns the command that executes it on the server that libpq's
    /// variables name.
    ///
    /// # Errors
    /// If the script cannot be written.
    pub(super) fn load_command(&self, side: CopySide, database: &str) -> Result<String, Failure> {
        let file = self.directory.join(format!("restore-{}.sh", side.name()));
        fs::write(&file, self.load_script(side, database)).map_err(|error| {
            Failure::could_not(format!("cannot write {}: {error}", file.display()))
        })?;
        // The script looks at its parent, so no shell may be between.
        Ok(format!("exec sh {}", quoted(&file)))
    }

    /// Writes the script that completes the upgrade of the new server, and returns the command that executes it on the server
    /// that libpq's variables name. pg_upgrade keeps neither settings of `ALTER SYSTEM` nor, before version 18, statistics.
    /// `vacuumdb` is that of the new version: from 18 on it analyzes only what has no statistics.
    ///
    /// # Errors
    /// If the script cannot be written.
    pub(super) fn upgraded_command(
        &self,
        database: &str,
        vacuumdb: &Path,
    ) -> Result<String, Failure> {
        let settings = match self.has_settings {
            true => copied_settings::load(CopySide::New.name()),
            false => String::new(),
        };
        let (folder, program) = (quoted(&self.directory), quoted(vacuumdb));
        let script = format!(
            "cd {folder} || exit 1\n{FUNCTIONS}{settings}\n\
             missing=$({program} --help | grep -o -e --missing-stats-only)\n\
             {program} --analyze-only $missing -d {} >/dev/null 2>analyze-new.log || fail 'vacuumdb failed' analyze-new.log",
            quoted_connection(database)
        );
        let file = self.directory.join("upgraded-new.sh");
        fs::write(&file, script).map_err(|error| {
            Failure::could_not(format!("cannot write {}: {error}", file.display()))
        })?;
        Ok(format!("sh {}", quoted(&file)))
    }

    /// Returns a script that fills the database of this name on the server that libpq's variables name. Errors of single
    /// statements stay in files, which [`Self::errors`] reads. Any other end of a program is a failure of the script.
    ///
    /// Both servers get `pg_stat_statements`, which counts the work of statements. It is created after the dump, which may
    /// have it in another schema.
    fn load_script(&self, side: CopySide, database: &str) -> String {
        let (folder, side) = (quoted(&self.directory), side.name());
        let settings = match self.has_settings {
            true => copied_settings::load(side),
            false => String::new(),
        };
        let connection = quoted_connection(database);
        let (user_mapping, isolate) = (isolation::USER_MAPPING, isolation::FILE);
        let isolated = isolated_file(side);
        format!(
            "side={side}; connection={connection}\ncd {folder} || exit 1\n{PRELUDE}{FUNCTIONS}\
             psql -X -q -d postgres -f globals.sql >/dev/null 2>globals-{side}.log || fail 'psql could not load the roles' globals-{side}.log\n\
             {}\
             pg_restore --list data.dump 2>list-{side}.log | grep -v '{user_mapping}' >restore-{side}.list\n\
             test -s list-{side}.log && unreadable 'pg_restore could not read the dump' list-{side}.log\n\
             restore definitions --section=pre-data\n\
             psql -X -q -A -t -f {isolate} >{isolated} 2>isolation-{side}.log || \
             fail 'psql could not switch off connections to other systems' isolation-{side}.log\n\
             restore data --section=data --section=post-data\n\
             psql -X -q -c 'CREATE EXTENSION IF NOT EXISTS pg_stat_statements' >/dev/null 2>&1\n\
             {settings}\n\
             run psql -X -q -c 'VACUUM ANALYZE' 2>analyze-{side}.log && exit 0\n\
             run psql -X -q -f {ANALYZE_FILE} >/dev/null 2>analyze-{side}.log || fail 'VACUUM ANALYZE failed' analyze-{side}.log",
            database_definition::load(side)
        )
    }

    /// Returns the errors of the restores of both sides. The same error counts as often as it occurred.
    pub(super) fn errors(&self) -> RestoreErrors {
        let mut errors = RestoreErrors {
            old: self.errors_of(CopySide::Old),
            ..RestoreErrors::default()
        };
        for error in self.errors_of(CopySide::New) {
            match errors.old.iter().position(|old| *old == error) {
                Some(at) => errors.both.push(errors.old.remove(at)),
                None => errors.new.push(error),
            }
        }
        errors
    }

    /// Returns the errors of a side, one line each. A role that exists is none.
    fn errors_of(&self, side: CopySide) -> Vec<String> {
        let is_known =
            |line: &String| line.starts_with("role ") && line.ends_with("already exists");
        let mut errors = self.messages("globals", side);
        errors.retain(|line| !is_known(line));
        for part in ["definitions", "data", "analyze"] {
            errors.extend(self.messages(part, side));
        }
        errors
    }

    /// Returns differences between the private servers and the old one, in sentences: what was switched off, and what a side
    /// refused of the database's definition.
    pub(super) fn differences(&self) -> Vec<String> {
        let isolated = self.directory.join(isolated_file(CopySide::Old.name()));
        let printed = fs::read_to_string(isolated).unwrap_or_default();
        let mut sentences = isolation::sentences(&printed);
        for side in [CopySide::Old, CopySide::New] {
            let refused = self.messages("database", side).into_iter();
            sentences.extend(refused.map(|message| {
                format!(
                    "the {} private server refuses the locale, encoding, owner or privileges of the database, and keeps its own: {message}",
                    side.name()
                )
            }));
        }
        sentences.extend(self.settings_left_out());
        sentences
    }

    /// Returns the settings of the old server that a side does not have, in sentences.
    fn settings_left_out(&self) -> Vec<String> {
        if !self.has_settings {
            return Vec::new();
        }
        let file = self.directory.join(copied_settings::LEFT_OUT_FILE);
        let left_out = fs::read_to_string(file).unwrap_or_default();
        let left_out: Vec<&str> = left_out.lines().collect();
        let mut sentences = Vec::new();
        if !left_out.is_empty() {
            sentences.push(format!(
                "settings of the old server that were not copied, since they depend on the size of the machine or have other characters than names: {}",
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
        let text = fs::read_to_string(file).unwrap_or_default();
        let of_program = |line: &&str| line.starts_with("psql:") || line.starts_with("pg_restore:");
        let lines = text.lines().filter(of_program).filter_map(|line| {
            let (_, message) = line.split_once("ERROR:")?;
            Some(message.trim().to_owned())
        });
        lines.collect()
    }
}

/// Returns the file of what was switched off on a side.
fn isolated_file(side: &str) -> String {
    format!("isolated-{side}.txt")
}

/// Returns a connection string for a database, quoted for a shell. A name with '=' alone would be a connection string.
fn quoted_connection(database: &str) -> String {
    let escaped = database.replace('\\', "\\\\").replace('\'', "\\'");
    quoted_text(&format!("dbname='{escaped}'"))
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    quoted_text(&path.display().to_string())
}

fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SUMMARY: &str = "pg_restore: warning: errors ignored on restore: ";
    const ERROR: &str =
        "pg_restore: error: could not execute query: ERROR:  type \"t\" does not exist";

    /// Runs the restore with programs that print `messages` and exit with `status`.
    fn load(program: &str, messages: &str, status: i32) -> (Result<(), String>, RestoreErrors) {
        let directory = tempfile::tempdir().unwrap();
        load_in(directory.path(), program, (messages, status), false)
    }

    /// Runs the restore in a directory. A damaged dump cannot be read to its end.
    fn load_in(
        directory: &Path,
        program: &str,
        (messages, status): (&str, i32),
        is_damaged: bool,
    ) -> (Result<(), String>, RestoreErrors) {
        let damaged = i32::from(is_damaged);
        let copy = DataCopy::in_directory(directory, false);
        fs::create_dir(&copy.directory).unwrap();
        fs::write(copy.directory.join("data.dump"), "").unwrap();
        for name in ["psql", "pg_restore"] {
            let path = directory.join(name);
            let text = match name == program {
                // The list of the dump is read without errors.
                true => format!(
                    "#!/bin/sh\ncase $1 in --list) exit 0;; --file*) exit {damaged};; esac\n\
                     cat >&2 <<'END'\n{messages}\nEND\nexit {status}\n"
                ),
                false => "#!/bin/sh\n".to_owned(),
            };
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let programs = quoted(directory);
        let load = copy.load_command(CopySide::New, "shop").unwrap();
        let target = Target::parse("postgres://u@h/d", |_| None).unwrap();
        let command = format!("PATH={programs}:$PATH\n{load}");
        let done = run_stoppable_command(&command, &target, "the restore", &Interrupt::default());
        (done.map_err(|error| error.to_string()), copy.errors())
    }

    #[test]
    fn restore_that_ignores_as_many_errors_as_it_prints_succeeds_and_counts_them() {
        let (done, errors) = load("pg_restore", &format!("{ERROR}\n{ERROR}\n{SUMMARY}2"), 1);
        assert_eq!(done, Ok(()));
        // Definitions and data are restored in two steps.
        assert_eq!(errors.new, ["type \"t\" does not exist"; 4]);
    }

    #[test]
    fn restore_that_ends_early_is_a_failure_with_its_message() {
        let end = "pg_restore: error: could not read from input file: end of file";
        for (messages, status) in [
            (end.to_owned(), 1),
            (format!("{ERROR}\n{end}"), 1),
            (
                format!(
                    "{ERROR}\npg_restore: error: could not execute query: no connection to the server\n{SUMMARY}2"
                ),
                1,
            ),
            ("pg_restore: command not found".to_owned(), 127),
            ("killed".to_owned(), 137),
        ] {
            let (done, _) = load("pg_restore", &messages, status);
            let failed = done.unwrap_err();
            let last = messages.lines().last().unwrap();
            assert!(
                failed.contains(last) && failed.contains("could not restore"),
                "{failed}"
            );
        }
        let (done, _) = load(
            "psql",
            "psql: error: FATAL:  the database system is in recovery mode",
            2,
        );
        assert!(done.unwrap_err().contains("in recovery mode"));
    }

    #[test]
    fn damaged_dump_is_removed_and_a_whole_one_is_kept_after_a_failed_restore() {
        let end = "pg_restore: error: could not read from input file: end of file";
        for is_damaged in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let (done, _) = load_in(directory.path(), "pg_restore", (end, 1), is_damaged);
            let failed = done.unwrap_err();
            assert!(failed.contains("end of file"), "{failed}");
            assert_eq!(failed.contains("--resume makes it again"), is_damaged);
            let dump = directory.path().join("dump/data.dump");
            assert_eq!(dump.exists(), !is_damaged);
        }
    }

    #[test]
    fn dump_leaves_the_file_that_a_program_of_a_killed_rehearsal_still_writes() {
        let directory = tempfile::tempdir().unwrap();
        let copy = DataCopy::in_directory(directory.path(), false);
        fs::create_dir(&copy.directory).unwrap();
        let name = copy.directory.join("data.dump.partial.1");
        let mut other = fs::File::create(&name).unwrap();
        for program in ["pg_dumpall", "pg_dump", "psql"] {
            let path = directory.path().join(program);
            let write =
                "for word; do case $word in --file=*) echo own >${word#--file=};; esac; done";
            fs::write(&path, format!("#!/bin/sh\n{write}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let command = copy.dump_command();
        let command = format!("PATH={}:$PATH\n{command}", quoted(directory.path()));
        let target = Target::parse("postgres://u@h/d", |_| None).unwrap();
        run_stoppable_command(&command, &target, "the dump", &Interrupt::default()).unwrap();
        other.write_all(b"other").unwrap();
        let text = fs::read_to_string(copy.directory.join("data.dump")).unwrap();
        assert_eq!((text.as_str(), name.exists()), ("own\n", false));
    }

    #[test]
    fn errors_of_both_sides_are_compared_with_their_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let copy = DataCopy::in_directory(directory.path(), false);
        fs::create_dir(&copy.directory).unwrap();
        let write = |name: &str, text: &str| fs::write(copy.directory.join(name), text).unwrap();
        let globals = "psql:globals.sql:1: ERROR:  role \"postgres\" already exists\npsql:globals.sql:2: ERROR:  a\n";
        write("globals-old.log", globals);
        write("globals-new.log", globals);
        let exists = "pg_restore: error: could not execute query: ERROR:  relation \"x\" already exists\nCommand was: RAISE 'ERROR: no'\n";
        write("definitions-old.log", exists);
        write("definitions-new.log", &exists.repeat(3));
        write(
            "data-old.log",
            "pg_restore: error: COPY failed for table \"y\": ERROR:  b\n",
        );
        let errors = copy.errors();
        let relation = "relation \"x\" already exists";
        assert_eq!(errors.both, ["a", relation]);
        assert_eq!(errors.new, [relation; 2]);
        assert_eq!(errors.old, ["b"]);
    }
}
