//! How the sessions of an experiment's replays connect.

use std::time::Duration;

use clap::Args;
use replay::{LoginMap, Options};

/// How sessions connect.
#[derive(Debug, Clone, Default, Args)]
pub struct SessionArgs {
    /// Connect every session as this role.
    #[arg(long)]
    pub as_user: Option<String>,
    /// Connect every session to this database.
    #[arg(long)]
    pub as_database: Option<String>,
    /// Let the server end statements that take longer.
    #[arg(long, value_name = "DURATION", value_parser = clock::duration_of)]
    pub statement_timeout: Option<Duration>,
    /// Threads that send and receive [default: a quarter of the cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
}

impl SessionArgs {
    /// The options of every replay.
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

    /// The options by name, as a manifest keeps them.
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
