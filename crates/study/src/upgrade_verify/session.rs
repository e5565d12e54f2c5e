//! Session that verifies a server.

use connect::login::{LoginError, QueryConnection};

/// Role that can verify a server, as the end of a sentence.
pub(super) const ROLE_ADVICE: &str = "a role that is no superuser, and a member of the captured roles, of pg_read_all_data and of pg_monitor";

/// Database and role of the session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VerifierSession {
    pub(super) database: String,
    /// Whether it has the rights of `pg_read_all_data`.
    pub(super) reads_all_data: bool,
    role: RoleRights,
}

/// Rights of the role that connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoleRights {
    Superuser,
    Limited,
}

impl VerifierSession {
    /// Reads them from the server.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(super) fn read(connection: &mut QueryConnection<'_>) -> Result<Self, LoginError> {
        let rows = connection.query(
            "SELECT pg_catalog.current_database(), EXISTS (SELECT FROM pg_catalog.pg_roles a WHERE a.rolname = 'pg_read_all_data' \
             AND pg_catalog.pg_has_role(a.oid, 'USAGE')), \
             (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = session_user)",
        )?;
        let mut values = rows.into_iter().flatten();
        let mut next = || values.next().flatten().unwrap_or_default();
        Ok(VerifierSession {
            database: next(),
            reads_all_data: next() == "t",
            role: match next().as_str() {
                "t" => RoleRights::Superuser,
                _ => RoleRights::Limited,
            },
        })
    }

    /// Returns the note on plans that were made under other roles. `SET LOCAL ROLE` does not bind functions that the planner
    /// executes: they can reset the role.
    pub(super) fn note_on_plans(&self, sets_role: bool) -> Option<String> {
        let is_at_risk = sets_role && self.role == RoleRights::Superuser;
        is_at_risk.then(|| {
            format!(
                "plans were made under captured roles in a session of a superuser: a function that the planner executes can take \
                 the superuser's rights; use {ROLE_ADVICE}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superuser_who_plans_under_other_roles_is_noted_and_another_role_is_not() {
        // `pg_read_all_data` is there from version 14 on.
        let (_sandbox, endpoint) = test_support::server().major(15).start();
        let target = replay::Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let read = |user: &str, setup: &str| {
            let target = replay::Target {
                user: Some(user.to_owned()),
                ..target.clone()
            };
            let dialer = connect::login::Dialer::new(&target).unwrap();
            let login = replay::LoginMap::default().login(&target, "", "", "rehearse");
            let mut connection = dialer.open_query_connection(&login).unwrap();
            connection.query(setup).unwrap();
            VerifierSession::read(&mut connection).unwrap()
        };
        let superuser = read(
            "postgres",
            "CREATE ROLE app; CREATE ROLE verifier LOGIN; GRANT app, pg_read_all_data TO verifier; \
             CREATE ROLE limited LOGIN; SET ROLE app",
        );
        let verifier = read("verifier", "SELECT 1");
        assert_eq!(superuser.database, "postgres");
        assert!(verifier.reads_all_data);
        assert!(!read("limited", "SELECT 1").reads_all_data);
        let note = superuser.note_on_plans(true).unwrap();
        assert!(note.contains("no superuser"), "{note}");
        // Texts of notes are cut there.
        assert!(note.len() < 300, "{note}");
        for (session, sets_role) in [(&superuser, false), (&verifier, true), (&verifier, false)] {
            assert_eq!(session.note_on_plans(sets_role), None);
        }
    }
}
