//! Questions to the catalogue of each database that a workload uses.

use connect::Target;
use connect::login::Row;
use workload::{ArchiveError, WorkloadReader};

use crate::connect::Dialer;
use crate::login::{Login, LoginMap};

/// One login for each database of the target that a workload uses.
#[derive(Debug, Default)]
pub(crate) struct TargetDatabases(Vec<Login>);

impl TargetDatabases {
    /// Returns the databases of the sessions of a workload.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub(crate) fn read(
        reader: &WorkloadReader,
        target: &Target,
        logins: &LoginMap,
    ) -> Result<Self, ArchiveError> {
        let mut databases: Vec<Login> = Vec::new();
        for used in reader.logins()? {
            let login = logins.login(target, &used.user, &used.database, "");
            if !databases
                .iter()
                .any(|other| other.database == login.database)
            {
                databases.push(login);
            }
        }
        Ok(Self(databases))
    }

    /// Sends a query to each database, and passes on the rows. Returns the databases that did not answer, each with the
    /// reason.
    pub(crate) fn ask(
        &self,
        dialer: &Dialer,
        sql: &str,
        mut add: impl FnMut(&Row, &Login),
    ) -> Vec<String> {
        let mut unknown = Vec::new();
        for login in &self.0 {
            match dialer.ask(login, sql) {
                Ok(answer) => answer.rows.iter().for_each(|row| add(row, login)),
                Err(error) => unknown.push(format!("{}: {error}", login.database)),
            }
        }
        unknown
    }
}
