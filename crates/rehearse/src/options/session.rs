//! Options of the connections in an experiment's replays.

use std::time::Duration;

use clap::Args;
use replay::{LoginMap, Options};

/// Connections of the sessions.
#[derive(Debug, Clone, Default, Args)]
pub struct SessionArgs {
    /// Connect every session as this role.
    #[arg(long, value_name = "ROLE")]
    pub as_user: Option<String>,
    /// Connect every session to this database.
    #[arg(long, value_name = "DATABASE")]
    pub as_database: Option<String>,
    /// Cancel statements that take longer than this.
    #[arg(long, value_name = "DURATION", value_parser = clock::parse_duration)]
    pub statement_timeout: Option<Duration>,
    /// Send and receive with this many threads [default: a quarter of the cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
}

impl SessionArgs {
    /// Returns the options of every replay.
    pub fn replay_options(&self) -> Options {
        let mut options = Options {
            statement_timeout: self.statement_timeout,
            logins: LoginMap {
                user: self.as_user.clone(),
                database: self.as_database.clone(),
                ..LoginMap::default()
            },
            ..Options::default()
        };
        if let Some(workers) = self.workers {
            options.workers = workers.into();
        }
        options
    }

    /// Returns the options by name, as a manifest stores them.
    pub fn described(&self) -> impl Iterator<Item = (&'static str, Option<String>)> {
        let span = |time: Duration| clock::duration_text(time.as_nanos() as i64);
        [
            ("as-user", self.as_user.clone()),
            ("as-database", self.as_database.clone()),
            ("statement-timeout", self.statement_timeout.map(span)),
            ("workers", self.workers.map(|count| count.to_string())),
        ]
        .into_iter()
    }
}
