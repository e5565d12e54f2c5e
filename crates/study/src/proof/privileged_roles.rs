//! Refusal of replays whose roles can execute programs or access files of the server.
//!
//! A workload has statements that the captured server refused, such as `COPY … TO PROGRAM` of an attacker. The private
//! server executes them if the session's role has more rights there. Texts of statements cannot be checked for that,
//! since a block can execute a text that it computes. So the roles are checked.
//!
//! Sources: PostgreSQL documentation, `COPY` (superusers and members of `pg_execute_server_program`,
//! `pg_read_server_files`, `pg_write_server_files`), *Predefined Roles*, and `CREATE ROLE` before 16 (a role with
//! CREATEROLE can grant itself each of them).

use std::collections::{BTreeMap, BTreeSet};

use replay::{LoginMap, Target};
use workload::{ArchiveError, WorkloadReader};

use crate::environment::{Environment, SandboxEnvironment, ask};
use crate::error::ExperimentError;

/// Maximum number of roles that a message names.
const NAMED_MAX: usize = 4;

/// Roles, each with its rights to reach out of the database, or an empty text. A role has the rights of all roles of which
/// it is a member, also without inheriting. Functions on files are granted explicitly since PostgreSQL 11; older servers
/// check for superusers in the function.
const RIGHTS_SQL: &str = "WITH RECURSIVE reach AS ( \
     SELECT oid AS login, oid FROM pg_catalog.pg_roles \
     UNION SELECT reach.login, m.roleid FROM pg_catalog.pg_auth_members m JOIN reach ON m.member = reach.oid), \
     rights AS (SELECT reach.login, v.name FROM reach JOIN pg_catalog.pg_roles r ON r.oid = reach.oid, \
         LATERAL (VALUES ('SUPERUSER', r.rolsuper), \
             ('CREATEROLE', r.rolcreaterole \
                 AND pg_catalog.current_setting('server_version_num')::pg_catalog.int4 < 160000), \
             ('membership in ' || r.rolname::pg_catalog.text, r.rolname IN ('pg_execute_server_program', \
                 'pg_read_server_files', 'pg_write_server_files'))) v(name, has) WHERE v.has \
     UNION SELECT reach.login, 'EXECUTE on ' || p.proname::pg_catalog.text \
         FROM reach, pg_catalog.pg_proc p \
         WHERE p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND p.proacl IS NOT NULL \
         AND p.proname IN ('lo_export', 'lo_import', 'pg_file_rename', 'pg_file_sync', 'pg_file_unlink', \
             'pg_file_write', 'pg_ls_dir', 'pg_read_binary_file', 'pg_read_file', 'pg_stat_file') \
         AND pg_catalog.has_function_privilege(reach.oid, p.oid, 'EXECUTE')) \
     SELECT r.rolname, CASE WHEN r.rolsuper THEN 'SUPERUSER' ELSE coalesce((SELECT \
         pg_catalog.string_agg(rights.name, ', ') FROM rights WHERE rights.login = r.oid), '') END \
     FROM pg_catalog.pg_roles r";

/// A private server that is set up only if no role of the replay can execute programs or access files there.
pub(super) struct UnprivilegedEnvironment {
    inner: SandboxEnvironment,
    logins: LoginMap,
    /// Captured roles, with an empty one for sessions of an unknown role.
    captured: BTreeSet<String>,
}

impl UnprivilegedEnvironment {
    /// Reads the roles of a workload's sessions.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub(super) fn new(
        inner: SandboxEnvironment,
        logins: LoginMap,
        whole: &WorkloadReader,
    ) -> Result<Self, ArchiveError> {
        let users = whole.logins()?.iter().map(|used| used.user.clone());
        Ok(UnprivilegedEnvironment {
            inner,
            logins,
            captured: users.collect(),
        })
    }

    fn refuse_privileged(&self, target: &Target) -> Result<(), ExperimentError> {
        let rows = ask(target, RIGHTS_SQL)?.into_iter();
        let pair = |row: Vec<Option<String>>| {
            let [name, rights] = <[_; 2]>::try_from(row).ok()?;
            Some((name?, rights?))
        };
        let known: BTreeMap<String, String> = rows.filter_map(pair).collect();
        let login = |user: &String| self.logins.login(target, user, "", "").user.to_string();
        let used: BTreeSet<String> = self.captured.iter().map(login).collect();
        refusal(&used, &known).map_or(Ok(()), |why| Err(ExperimentError::Failed(why)))
    }
}

impl Environment for UnprivilegedEnvironment {
    fn check(&mut self) -> Result<(), ExperimentError> {
        self.inner.check()
    }

    fn prepare(&mut self) -> Result<(), ExperimentError> {
        self.inner.prepare()
    }

    fn set_up(&mut self, condition: usize) -> Result<(Target, Option<i32>), ExperimentError> {
        let (target, postmaster) = self.inner.set_up(condition)?;
        self.refuse_privileged(&target)?;
        Ok((target, postmaster))
    }

    fn release(&mut self) -> Result<(), ExperimentError> {
        self.inner.release()
    }
}

/// Returns the reason why these roles are refused. `known`: the roles of the server with their rights. A role that is not
/// found there is refused too, since the server may know it under a name that it truncated.
fn refusal(used: &BTreeSet<String>, known: &BTreeMap<String, String>) -> Option<String> {
    let refused = used.iter().filter_map(|role| match known.get(role) {
        Some(rights) if rights.is_empty() => None,
        Some(rights) => Some(format!("\"{role}\" ({rights})")),
        None => Some(format!("\"{role}\" (does not exist)")),
    });
    let refused: Vec<String> = refused.collect();
    if refused.is_empty() {
        return None;
    }
    let more = match refused.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = refused[..refused.len().min(NAMED_MAX)].join(", ");
    Some(format!(
        "the sessions would connect as {named}{more}, and statements of the workload could execute programs or access files with such rights; give `role`, one that the private server has without them (CREATE ROLE NAME LOGIN, with the grants on the tables), or use `rehearse prove` in a terminal"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_roles_with_rights_and_unknown_ones_and_counts_the_rest() {
        let known = [("app", ""), ("postgres", "SUPERUSER")];
        let known = known.map(|(name, rights)| (name.to_owned(), rights.to_owned()));
        let known = BTreeMap::from(known);
        let of = |names: &[&str]| {
            let used = names.iter().map(|name| (*name).to_owned());
            refusal(&used.collect(), &known)
        };
        assert_eq!(of(&["app"]), None);
        let refused = of(&["app", "postgres"]).unwrap();
        assert!(
            refused.contains("as \"postgres\" (SUPERUSER), and"),
            "{refused}"
        );
        let refused = of(&["a", "b", "c", "d", "e"]).unwrap();
        assert!(refused.contains("\"a\" (does not exist)"), "{refused}");
        assert!(
            refused.contains("\"d\" (does not exist) and 1 more"),
            "{refused}"
        );
    }
}
