//! Options of `rehearse compare --follow`.

use std::time::Duration;

use clap::Args;

/// Comparison of a workload or series with a run that is being written.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Following a run")]
pub struct FollowArgs {
    /// Compare the captured executions of a workload or series with the run that replays it, while the run is being
    /// written: `compare NAME.series NAME.run --follow`. Ends with the run, or with Ctrl-C.
    #[arg(long, conflicts_with_all = ["before", "after", "noise", "dry_run"])]
    pub follow: bool,
    /// Cut time into windows of this length. Each gives one sign for each statement.
    #[arg(long, value_name = "DURATION", requires = "follow", default_value = "10s", value_parser = window)]
    pub window: Duration,
    /// Treat times up to this percentage above the reference as no difference.
    #[arg(
        long,
        value_name = "PERCENT",
        requires = "follow",
        default_value_t = 20.0
    )]
    pub tolerance: f64,
    /// Treat this much additional time as no difference: the network and the client, which a captured duration may
    /// exclude [default: 1ms; with --baseline, 0].
    #[arg(long, value_name = "DURATION", requires = "follow", value_parser = allowance)]
    pub allowance: Option<Duration>,
    /// Compare with each statement's ratio in its first DURATION, instead of with the captured times: 10m.
    #[arg(long, value_name = "DURATION", requires = "follow", value_parser = clock::parse_duration)]
    pub baseline: Option<Duration>,
    /// Limit the probability of any false difference in the whole comparison to this percentage.
    #[arg(
        long,
        value_name = "PERCENT",
        requires = "follow",
        default_value_t = 5.0
    )]
    pub error_rate: f64,
    /// Renew the page, the progress and the JSON line of progress at this interval.
    #[arg(long, value_name = "DURATION", requires = "follow", default_value = "10s", value_parser = clock::parse_duration)]
    pub interval: Duration,
    /// End after this time, even if the run is still being written.
    #[arg(long, value_name = "DURATION", requires = "follow", value_parser = clock::parse_duration)]
    pub duration: Option<Duration>,
}

/// Replay of a series that is being captured.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Following a series")]
pub struct FollowSeriesArgs {
    /// Replay a series that is still being captured, at a fixed delay after the captured times, until it is complete or
    /// Ctrl-C.
    #[arg(long, conflicts_with_all = [
        "against", "dry_run", "resume", "order", "think_time", "max_idle", "ramp_up", "captured_clock",
        "remap_generated", "max_connections", "retry_for", "shard",
    ])]
    pub follow: bool,
    /// Replay each statement this long after its captured time [default: the least that the series allows, which is the
    /// length of a part and the time for completing it].
    #[arg(long, value_name = "DURATION", requires = "follow", value_parser = clock::parse_duration)]
    pub delay: Option<Duration>,
    /// Let a session lag by at most this much. One that lags more skips what is overdue, and is on time again.
    #[arg(long, value_name = "DURATION", requires = "follow", default_value = "60s", value_parser = clock::parse_duration)]
    pub max_lag: Duration,
    /// End after this time, even if the series is still being captured.
    #[arg(long, value_name = "DURATION", requires = "follow", value_parser = clock::parse_duration)]
    pub duration: Option<Duration>,
}

/// Shortest window, and longest.
const WINDOWS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3_600)];

fn window(text: &str) -> Result<Duration, String> {
    let length = clock::parse_duration(text)?;
    let [shortest, longest] = WINDOWS;
    match (shortest..=longest).contains(&length) {
        true => Ok(length),
        false => Err(format!("{text} is no length of a window; give 100ms to 1h")),
    }
}

fn allowance(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" => Ok(Duration::ZERO),
        _ => clock::parse_duration(text),
    }
}
