//! Leaves parameter types to the server if the target does not have them.
//!
//! Clients name the types of parameters by OID when they prepare a statement. After a dump and restore, user-defined
//! types have other OIDs than in the capture. A capture does not have the names of types. So if the target's database
//! lacks one of the OIDs that the sessions of a database use, all its user-defined types are left unspecified, and the
//! server infers them. A physical copy and `pg_upgrade` keep all OIDs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use connect::Target;

use crate::connect::Dialer;
use crate::login::{Login, LoginMap};

/// First OID of user-defined objects (`FirstNormalObjectId`).
const FIRST_USER_OID: u32 = 16_384;

const TYPES_SQL: &str = "SELECT oid FROM pg_catalog.pg_type WHERE oid >= 16384";

/// User-defined types of one database.
#[derive(Debug)]
enum DatabaseTypes {
    /// They could not be asked for, so types are sent as captured.
    Unknown,
    /// All that were used so far exist.
    Known(HashSet<u32>),
    /// One that was used does not exist.
    Unspecified,
}

/// User-defined types of the target's databases, each asked for when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct UserTypes {
    by_database: BTreeMap<Rc<str>, DatabaseTypes>,
    /// Captured database of each open session.
    sessions: HashMap<u64, Rc<str>>,
    /// Number of statements whose types were left unspecified.
    unspecified: u64,
}

impl UserTypes {
    /// Follows the start of a session.
    pub(crate) fn begin(&mut self, session: u64, database: &str) {
        self.sessions.insert(session, database.into());
    }

    /// Follows the end of a session.
    pub(crate) fn end(&mut self, session: u64) {
        self.sessions.remove(&session);
    }

    /// Number of statements whose types were left unspecified.
    pub(crate) fn unspecified(&self) -> u64 {
        self.unspecified
    }

    /// Returns the types to send for captured ones; 0 is an unspecified type.
    pub(crate) fn choose_types<'t>(
        &mut self,
        session: u64,
        types: &'t [u32],
        (target, logins): (&Target, &LoginMap),
    ) -> Cow<'t, [u32]> {
        let is_user_type = |oid: &u32| *oid >= FIRST_USER_OID;
        if !types.iter().any(is_user_type) {
            return Cow::Borrowed(types);
        }
        let database = self.sessions.get(&session).cloned().unwrap_or_default();
        let known = self.by_database.entry(database).or_insert_with_key(|name| {
            DatabaseTypes::ask(target, &logins.login(target, "", name, ""))
        });
        if let DatabaseTypes::Known(oids) = known
            && !types
                .iter()
                .filter(|oid| is_user_type(oid))
                .all(|oid| oids.contains(oid))
        {
            *known = DatabaseTypes::Unspecified;
        }
        match known {
            DatabaseTypes::Unknown | DatabaseTypes::Known(_) => Cow::Borrowed(types),
            DatabaseTypes::Unspecified => {
                self.unspecified += 1;
                let type_to_send = |oid: &u32| if is_user_type(oid) { 0 } else { *oid };
                types.iter().map(type_to_send).collect()
            }
        }
    }
}

impl DatabaseTypes {
    fn ask(target: &Target, login: &Login) -> Self {
        let Some(answer) = Dialer::new(target)
            .ok()
            .and_then(|dialer| dialer.ask(login, TYPES_SQL).ok())
        else {
            return DatabaseTypes::Unknown;
        };
        let oid = |row: &Vec<Option<String>>| row.first()?.as_deref()?.parse().ok();
        DatabaseTypes::Known(answer.rows.iter().filter_map(oid).collect())
    }
}
