//! Leaves parameter types to the server if the target does not have them.
//!
//! Clients name the types of parameters by OID when they prepare a statement. After a dump and restore, user-defined
//! types have other OIDs than in the capture. A capture does not have the names of types. So if the target's database
//! lacks one of the OIDs that the sessions of a database use, all its user-defined types are left unspecified, and the
//! server infers them. A physical copy and `pg_upgrade` keep all OIDs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use connect::Target;
use workload::{ArchiveError, FIRST_USER_OID, WorkloadReader};

use crate::connect::Dialer;
use crate::login::{Login, LoginMap, is_from_wire};

const TYPES_SQL: &str = "SELECT oid FROM pg_catalog.pg_type WHERE oid >= 16384";

/// User-defined types of one database.
#[derive(Debug, Clone)]
enum DatabaseTypes {
    /// They could not be asked for, so types are sent as captured.
    Unknown,
    /// All that were used so far exist.
    Known(Arc<HashSet<u32>>),
    /// One that was used does not exist.
    Unspecified,
}

/// User-defined types of the target's databases.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserTypes {
    /// By captured database.
    by_database: BTreeMap<Arc<str>, DatabaseTypes>,
    /// Captured database of each open session.
    sessions: HashMap<u64, Arc<str>>,
    unspecified: u64,
    unknown: u64,
}

impl UserTypes {
    /// Asks the target for the types of all databases of a capture from the wire; others name no types.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub(crate) fn load(
        reader: &WorkloadReader,
        dialer: &Dialer,
        target: &Target,
        logins: &LoginMap,
    ) -> Result<Self, ArchiveError> {
        let mut types = UserTypes::default();
        if !is_from_wire(reader)? {
            return Ok(types);
        }
        for used in reader.logins()? {
            let login = logins.login(target, &used.user, &used.database, "");
            (types.by_database)
                .entry((*used.database).into())
                .or_insert_with(|| DatabaseTypes::ask(dialer, &login));
        }
        Ok(types)
    }

    /// Follows the start of a session.
    pub(crate) fn begin(&mut self, session: u64, database: &str) {
        if let Some((database, _)) = self.by_database.get_key_value(database) {
            self.sessions.insert(session, database.clone());
        }
    }

    /// Follows the end of a session.
    pub(crate) fn end(&mut self, session: u64) {
        self.sessions.remove(&session);
    }

    /// Returns entries for the run's manifest: the number of statements whose types were left unspecified, and of
    /// those whose types may be others on the target, since it could not be asked.
    pub(crate) fn notes(&self) -> impl Iterator<Item = (String, String)> {
        let counts = [
            ("types_unspecified", self.unspecified),
            ("types_unknown", self.unknown),
        ];
        let some = counts.into_iter().filter(|(_, count)| *count > 0);
        some.map(|(name, count)| (name.to_owned(), count.to_string()))
    }

    /// Returns the types to send for captured ones; 0 is an unspecified type.
    pub(crate) fn choose_types<'t>(&mut self, session: u64, types: &'t [u32]) -> Cow<'t, [u32]> {
        let is_user_type = |oid: &u32| *oid >= FIRST_USER_OID;
        if !types.iter().any(is_user_type) {
            return Cow::Borrowed(types);
        }
        let database = self.sessions.get(&session);
        let known = database.and_then(|database| self.by_database.get_mut(database));
        let Some(known) = known.filter(|known| !matches!(known, DatabaseTypes::Unknown)) else {
            self.unknown += 1;
            return Cow::Borrowed(types);
        };
        if let DatabaseTypes::Known(oids) = known {
            let mut used = types.iter().filter(|oid| is_user_type(oid));
            if used.all(|oid| oids.contains(oid)) {
                return Cow::Borrowed(types);
            }
            *known = DatabaseTypes::Unspecified;
        }
        self.unspecified += 1;
        let type_to_send = |oid: &u32| if is_user_type(oid) { 0 } else { *oid };
        types.iter().map(type_to_send).collect()
    }
}

impl DatabaseTypes {
    fn ask(dialer: &Dialer, login: &Login) -> Self {
        let Ok(answer) = dialer.ask(login, TYPES_SQL) else {
            return DatabaseTypes::Unknown;
        };
        let oid = |row: &Vec<Option<String>>| row.first()?.as_deref()?.parse().ok();
        let oids: HashSet<u32> = answer.rows.iter().filter_map(oid).collect();
        DatabaseTypes::Known(oids.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_left_to_the_server_from_the_first_that_it_lacks() {
        let known = DatabaseTypes::Known(Arc::new([16_400, 16_401].into()));
        let mut types = UserTypes::default();
        types.by_database.insert("a".into(), known.clone());
        types.by_database.insert("b".into(), known);
        types.by_database.insert("c".into(), DatabaseTypes::Unknown);
        for (session, database) in [(1, "a"), (2, "b"), (3, "c")] {
            types.begin(session, database);
        }
        assert_eq!(*types.choose_types(1, &[23, 16_400]), [23, 16_400]);
        assert_eq!(*types.choose_types(1, &[23, 16_999, 16_400]), [23, 0, 0]);
        assert_eq!(*types.choose_types(1, &[16_400]), [0]);
        assert_eq!(*types.choose_types(2, &[16_401]), [16_401]);
        assert_eq!(*types.choose_types(3, &[16_999]), [16_999]);
        assert_eq!(*types.choose_types(3, &[23]), [23]);
        let notes: Vec<_> = types.notes().collect();
        let note = |name: &str, count: &str| (name.to_owned(), count.to_owned());
        assert_eq!(
            notes,
            [note("types_unspecified", "2"), note("types_unknown", "1")]
        );
    }
}
