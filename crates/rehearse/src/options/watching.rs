//! Options for observing a server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Observation of a replay's target.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Observation")]
pub struct WatchArgs {
    /// Record the target during the replay: statement statistics, waits, locks, counters, and
    /// its machine if it is this one.
    #[arg(long)]
    pub observe: bool,
    /// Do not read pg_stat_statements before and after the replay. `compare` then has no work of
    /// statements to compare, only their plans and times.
    #[arg(long, conflicts_with = "observe")]
    pub no_statement_statistics: bool,
    /// Sampling and custom query.
    #[command(flatten)]
    pub looks: LookArgs,
}

/// Sampling and custom query, with or without a replay.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Observation")]
pub struct LookArgs {
    /// Sample wait events this many times per second.
    #[arg(long, value_name = "N", default_value_t = observe::DEFAULT_SAMPLE_RATE_HZ, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub sample_rate: u32,
    /// Run this query repeatedly, such as for a queue's length and age. Each numeric column is a
    /// series: "SELECT count(*) AS stalled FROM jobs WHERE due < now()".
    #[arg(long, value_name = "SQL")]
    pub custom_query: Option<String>,
    /// Run that query at this interval, whatever it takes: 200ms (10ms at least) [default: each
    /// second, for at most a twentieth of the time].
    #[arg(long, value_name = "DURATION", requires = "custom_query", value_parser = queue_every_of)]
    pub custom_query_every: Option<Duration>,
}

/// Shortest interval of a custom query. Shorter ones would load the server.
const QUEUE_EVERY_LEAST: Duration = Duration::from_millis(10);

fn queue_every_of(text: &str) -> Result<Duration, String> {
    let every = clock::parse_duration(text)?;
    match every < QUEUE_EVERY_LEAST {
        true => Err(format!(
            "{text} is too often; give 10ms or more, such as 200ms"
        )),
        false => Ok(every),
    }
}

/// Options of `rehearse observe`.
#[derive(Debug, Args)]
pub struct Observe {
    /// Observe this server: postgres://HOST:PORT/DATABASE or 'host=… port=…', as --target of a
    /// replay. Nothing is written there.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// Observe for this long: 30s, 5m, 1h [default: until Ctrl-C].
    #[arg(long, value_name = "DURATION", value_parser = clock::parse_duration)]
    pub duration: Option<Duration>,
    /// Write the observation to this run, NAME.run [default: print the summary only].
    #[arg(short, long, value_name = "NAME.run")]
    pub output: Option<PathBuf>,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    /// Sampling and custom query.
    #[command(flatten)]
    pub looks: LookArgs,
}
