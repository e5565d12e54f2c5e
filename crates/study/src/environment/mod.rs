//! Servers that are brought to a named state before each trial.
//!
//! - [`Condition`]: a state, as settings, SQL and major version;
//! - [`Environment`]: a server that can be set up in each of its conditions;
//! - [`SandboxEnvironment`]: a private server, restored from snapshots and restarted;
//! - [`TargetEnvironment`]: any other server, whose owner says how its data are restored;
//! - [`PairEnvironment`]: two such servers;
//! - [`SandboxLease`]: a private server that is changed and given back as it was.

mod lease;
mod new_server;
mod pair;
mod printing_command;
mod process_group;
mod sandbox;
mod shell;
mod target;
mod template_settings;

use std::time::Duration;

use ::sandbox::Endpoint;
pub(crate) use planner_copy::{quote_identifier, quote_literal};
use replay::Target;

use crate::change_script::ChangeScript;
use crate::error::ExperimentError;

pub(crate) use lease::ask;
pub use lease::{LeasePurpose, SandboxLease, refuse_leased, restore_interrupted};
pub use new_server::{FindInstallation, NewServerRequest};
pub use pair::PairEnvironment;
pub(crate) use printing_command::PrintingCommand;
pub use sandbox::{NewServer, SandboxEnvironment, create_server};
pub use shell::run_stoppable_command;
pub use target::{DataSource, TargetEnvironment, of_side};
pub(crate) use template_settings::{MissingReason, MissingSetting};

/// Time limit of all statements on one administrative connection. An index may be built there.
pub(crate) const STATEMENTS_TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A state of the server that trials run in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// Settings in addition to the server's own.
    pub settings: Vec<(String, String)>,
    /// SQL that is applied to the initial data.
    pub scripts: Vec<ChangeScript>,
    /// Whether the state is one of the other server, such as one of another major version.
    pub is_other_server: bool,
}

/// State of the server after the last trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// The initial state is restored.
    Restore,
    /// The state of the last trial is kept.
    Leave,
}

/// A server that can be set up in several conditions, which are known by their index.
pub trait Environment {
    /// Refuses conditions that cannot be set up. Changes nothing.
    ///
    /// # Errors
    /// With the first such condition.
    fn check(&mut self) -> Result<(), ExperimentError> {
        Ok(())
    }

    /// Sets up each condition once, so that one that fails is known before the first trial.
    ///
    /// # Errors
    /// With the server's message to the first that fails.
    fn prepare(&mut self) -> Result<(), ExperimentError>;

    /// Brings the server to the state of a condition. Returns how to connect, and the first process of a private server.
    ///
    /// # Errors
    /// If that fails.
    fn set_up(&mut self, condition: usize) -> Result<(Target, Option<i32>), ExperimentError>;

    /// Leaves the server as [`AtEnd`] says. Does nothing if the server was not touched.
    ///
    /// # Errors
    /// If that fails.
    fn release(&mut self) -> Result<(), ExperimentError>;
}

/// Merges settings: a later one replaces an earlier one of the same name.
pub(crate) fn merge_settings<'s>(
    all: impl IntoIterator<Item = &'s (String, String)>,
) -> Vec<(String, String)> {
    let mut merged: Vec<(String, String)> = Vec::new();
    for (name, value) in all {
        merged.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        merged.push((name.clone(), value.clone()));
    }
    merged
}

/// Returns a database of a server that was started here, by its socket, which needs no password for any role.
pub(crate) fn server_target(
    endpoint: &Endpoint,
    database: &str,
) -> Result<Target, ExperimentError> {
    let socket = endpoint.socket_url(database);
    let url = socket.unwrap_or_else(|| endpoint.url(database));
    Ok(Target::parse(&url, |_| None)?)
}
