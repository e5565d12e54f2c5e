//! What is looked at while a server works.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Watching the target of a replay.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Watching the target")]
pub struct WatchArgs {
    /// Keep what the target counts and waits for meanwhile: its statistics of statements, who waits for
    /// what, locks, its counters, and its machine where that is this one.
    #[arg(long)]
    pub observe: bool,
    /// What to look at.
    #[command(flatten)]
    pub looks: LookArgs,
}

/// What to look at, in a replay or without one.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Watching the target")]
pub struct LookArgs {
    /// How often a second it is looked who waits for what.
    #[arg(long, value_name = "N", default_value_t = observe::HZ, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub sample_rate: u32,
    /// A query of your own that is asked again and again, such as a queue's length and age; each column with
    /// a number is a series: "SELECT count(*) AS stalled FROM jobs WHERE due < now()".
    #[arg(long, value_name = "SQL")]
    pub custom_query: Option<String>,
    /// How often that query is asked, whatever it takes: 200ms (10ms at least). Without it, each second, and for a twentieth
    /// of the time at most.
    #[arg(long, value_name = "DURATION", requires = "custom_query", value_parser = queue_every_of)]
    pub custom_query_every: Option<Duration>,
}

/// More often, the answers would be all that the server does.
const QUEUE_EVERY_LEAST: Duration = Duration::from_millis(10);

fn queue_every_of(text: &str) -> Result<Duration, String> {
    let every = clock::duration_of(text)?;
    match every < QUEUE_EVERY_LEAST {
        true => Err(format!(
            "{text} is too often; give 10ms or more, such as 200ms"
        )),
        false => Ok(every),
    }
}

/// `rehearse observe`
#[derive(Debug, Args)]
pub struct Observe {
    /// The server: postgres://HOST:PORT/DATABASE or 'host=… port=…', as --target of a replay. Nothing is
    /// written there.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// For how long: 30s, 5m, 1h. Without it, until Ctrl-C.
    #[arg(long, value_name = "DURATION", value_parser = clock::duration_of)]
    pub duration: Option<Duration>,
    /// The run to keep what was seen in, NAME.run. Without it, only the summary is left.
    #[arg(short, long, value_name = "NAME.run")]
    pub output: Option<PathBuf>,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    /// What to look at.
    #[command(flatten)]
    pub looks: LookArgs,
}
