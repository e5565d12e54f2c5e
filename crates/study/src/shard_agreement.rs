//! Facts on which the workers of a divided replay must agree, and by which they declare that they are ready.

use std::collections::BTreeMap;

use connect::login::{Dialer, Login};
use replay::Target;
use run::ShardDivision;
use serde::{Deserialize, Serialize};

/// Identity of a server's data. All roles may call the function.
const IDENTITY_SQL: &str = "SELECT system_identifier::text FROM pg_catalog.pg_control_system()";
/// Version of a server.
const VERSION_SQL: &str = "SELECT current_setting('server_version')";

/// Returns the identity of a target's data with its version; its address with the version if it does not give the identity.
///
/// # Errors
/// If the target cannot be asked.
pub(crate) fn describe_target(target: &Target, login: &Login) -> Result<String, String> {
    let unknown = |reason: &dyn std::fmt::Display| {
        format!(
            "the target {} cannot be identified ({reason}); check the target",
            target.address()
        )
    };
    let dialer = Dialer::new(target).map_err(|error| unknown(&error))?;
    let mut connection = (dialer.open_query_connection(login)).map_err(|error| unknown(&error))?;
    let mut first_value = |sql: &str| -> Result<String, String> {
        let rows = connection.query(sql).map_err(|error| error.to_string())?;
        let value = rows.first().and_then(|row| row.first().cloned().flatten());
        value.ok_or_else(|| "the answer is empty".to_owned())
    };
    let version = first_value(VERSION_SQL).map_err(|error| unknown(&error))?;
    let identity = first_value(IDENTITY_SQL).map_or_else(
        |_| target.address(),
        |identifier| format!("server {identifier}"),
    );
    Ok(format!("{identity}, version {version}"))
}

/// Facts on which all workers must agree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Agreement {
    /// Version of the program.
    pub(crate) program: String,
    /// Identity of the target's data and its version; the address if the target does not give the identity.
    pub(crate) target: String,
    pub(crate) workload: String,
    pub(crate) shards: u64,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) division: ShardDivision,
    /// Statements of each shard.
    pub(crate) statements: Vec<u64>,
}

impl Agreement {
    /// Describes the first difference from another worker; `None` if there is none.
    pub(crate) fn difference(&self, other: &Agreement) -> Option<String> {
        let differs = |name: &str, own: &dyn std::fmt::Debug, others: &dyn std::fmt::Debug| {
            Some(format!("{name} is {others:?} there and {own:?} here"))
        };
        if self.program != other.program {
            return differs("the version of the program", &self.program, &other.program);
        }
        if self.target != other.target {
            return differs("the target", &self.target, &other.target);
        }
        if self.workload != other.workload {
            return differs("the id of the workload", &self.workload, &other.workload);
        }
        if self.shards != other.shards {
            return differs("the number of shards", &self.shards, &other.shards);
        }
        let names = self.options.keys().chain(other.options.keys());
        for name in names {
            let (own, others) = (self.options.get(name), other.options.get(name));
            if own != others {
                let text =
                    |value: Option<&String>| value.map_or("not given", |value| value).to_owned();
                return differs(name, &text(own), &text(others));
            }
        }
        (self.division != other.division || self.statements != other.statements).then(|| {
            "the sessions are divided otherwise, since the schema of the target differs or changed"
                .to_owned()
        })
    }
}

/// A worker that is ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Random name of its process.
    pub(crate) worker: String,
    /// Time on the target's clock, in microseconds since 1970-01-01 UTC.
    pub(crate) at_us: i64,
    pub(crate) clock_uncertainty_us: f64,
    pub(crate) agreement: Agreement,
}
