//! How a replay goes: its pace, its copies, its safety, and which part of the workload it is of.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clock::Factor;
use transform::{Moment, StatementKind};

use super::slice::SliceArgs;

/// A week: a replay that is still ramping up then is another replay.
const RAMP_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Each copy beside another is a reader of its own.
const COPIES_MAX: u64 = 100;

/// Pace and copies.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pace")]
pub struct PaceArgs {
    /// A closed loop: a statement comes when its session's previous one is done and the captured
    /// think time has passed: `keep`, `drop`, or a FACTOR to multiply it with. Without it each
    /// statement comes at its captured time.
    #[arg(long, value_name = "keep|drop|FACTOR", value_parser = think_time)]
    pub think_time: Option<Factor>,
    /// In which order: each session in its own, or `commit`: a statement waits for the commits that
    /// it followed in the capture, whoever made them.
    #[arg(long, value_name = "session|commit", default_value = "session")]
    pub order: ReplayOrder,
    /// Cut silence, in which nothing was sent and nothing ran, to this long in captured time.
    #[arg(long, value_name = "DURATION", value_parser = clock::duration_of)]
    pub max_idle: Option<Duration>,
    /// Begin at a tenth of the speed and reach the whole of it after this long.
    #[arg(long, value_name = "DURATION", value_parser = ramp)]
    pub ramp_up: Option<Duration>,
    /// Replay the workload this many times, one after the other.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub loops: u32,
    /// Replay each session this many times, side by side: 3x; 0.5x is a half of the sessions,
    /// always the same ones.
    #[arg(long, value_name = "FACTOR", default_value = "1x", value_parser = scale)]
    pub copies: Factor,
    /// How much later than the one before it each of those copies comes, in captured time.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = clock::duration_of)]
    pub copy_delay: Duration,
}

/// What a statement waits for, beside its time and its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReplayOrder {
    /// Nothing.
    Session,
    /// The commits that it followed in the capture.
    Commit,
    /// All that was due before it: one session that waits for the server holds up the others. No users
    /// queue like that; it is there to be compared with.
    Global,
}

/// What keeps a database safe.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Safety")]
pub struct SafetyArgs {
    /// Let the server refuse everything that writes (default_transaction_read_only).
    #[arg(long)]
    pub read_only: bool,
    /// Let the server end statements that take longer.
    #[arg(long, value_name = "DURATION", value_parser = clock::duration_of)]
    pub statement_timeout: Option<Duration>,
    /// How long the target may be away, or not answer: so long connections are tried again, and
    /// lost ones opened anew. 0s: neither.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = patience)]
    pub retry_for: Duration,
    /// How often the unfinished run is made safe: a replay that is killed loses at most this much.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = clock::duration_of)]
    pub checkpoint: Duration,
    /// Go on with a replay that was stopped or killed: what this run has is not done again. The
    /// target must be as it was left; give the same options, and another -o for the whole.
    #[arg(long, value_name = "NAME.run")]
    pub resume: Option<PathBuf>,
    /// Replay although the target is the server that the workload was captured on; name it a
    /// second time here, as HOST:PORT.
    #[arg(long, value_name = "HOST:PORT")]
    pub allow_captured_server: Option<String>,
    /// Plan everything, try the logins, say what would be sent, and send nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Which part of the workload: as for `slice`, but that --as-user and --as-database say who connects.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which part (see `rehearse slice --help`)")]
pub struct PartArgs {
    /// Replay what was sent from then on.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub from: Option<Moment>,
    /// Replay what was sent before then.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub to: Option<Moment>,
    /// Replay the sessions that were on this database.
    #[arg(long, value_name = "NAME")]
    pub filter_database: Vec<String>,
    /// Leave out the sessions that were on this database.
    #[arg(long, value_name = "NAME")]
    pub not_database: Vec<String>,
    /// Replay the sessions that were this user's.
    #[arg(long, value_name = "NAME")]
    pub filter_user: Vec<String>,
    /// Leave out the sessions that were this user's.
    #[arg(long, value_name = "NAME")]
    pub not_user: Vec<String>,
    /// Replay the sessions of this application.
    #[arg(long, value_name = "NAME")]
    pub application: Vec<String>,
    /// Leave out the sessions of this application.
    #[arg(long, value_name = "NAME")]
    pub not_application: Vec<String>,
    /// Replay the statements whose normalised text holds this.
    #[arg(long, value_name = "PATTERN")]
    pub statement: Vec<String>,
    /// Leave out such statements.
    #[arg(long, value_name = "PATTERN")]
    pub not_statement: Vec<String>,
    /// Replay the statements of this kind: read, write, or a class such as select.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kind: Vec<StatementKind>,
    /// Leave out such statements.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub not_kind: Vec<StatementKind>,
}

impl PartArgs {
    /// The same, as `slice` takes it.
    pub fn slice(&self) -> SliceArgs {
        let this = self.clone();
        SliceArgs {
            from: this.from,
            to: this.to,
            filter_database: this.filter_database,
            not_database: this.not_database,
            filter_user: this.filter_user,
            not_user: this.not_user,
            application: this.application,
            not_application: this.not_application,
            statement: this.statement,
            not_statement: this.not_statement,
            kind: this.kind,
            not_kind: this.not_kind,
        }
    }
}

fn think_time(text: &str) -> Result<Factor, String> {
    match text {
        "keep" => Ok(Factor::ONE),
        "drop" => Ok(Factor::ZERO),
        other => other.parse().map_err(|_| {
            format!("'{other}' is no think time; give keep, drop, or a factor such as 0.5")
        }),
    }
}

fn scale(text: &str) -> Result<Factor, String> {
    let factor: Option<Factor> = text.strip_suffix('x').unwrap_or(text).parse().ok();
    factor
        .filter(|&factor| {
            factor > Factor::ZERO
                && factor.whole() + u64::from(factor.rest_millionths() > 0) <= COPIES_MAX
        })
        .ok_or_else(|| {
            format!("'{text}' is no scale; give a factor above 0 and up to {COPIES_MAX}, such as 3x or 0.5x")
        })
}

/// None at all is one, too.
fn patience(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" => Ok(Duration::ZERO),
        _ => clock::duration_of(text),
    }
}

fn ramp(text: &str) -> Result<Duration, String> {
    let ramp = clock::duration_of(text)?;
    if ramp > RAMP_MAX {
        return Err(format!(
            "'{text}' is too long for a ramp; give at most 7 days"
        ));
    }
    Ok(ramp)
}
