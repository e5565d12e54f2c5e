//! Options of a replay's pace, copies, safety and selection.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clock::Factor;
use transform::{ContextPattern, StatementKind, TimeBound};

use super::slice::SliceArgs;

/// Longest ramp: a week.
const RAMP_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Largest number of copies. Each copy reads the workload separately.
const COPIES_MAX: u64 = 100;

/// Pace and copies of a replay.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pace")]
pub struct PaceArgs {
    /// Run a closed loop: send a statement when its session's previous one is done and the
    /// captured think time has passed. `keep` keeps think time, `drop` removes it, a FACTOR
    /// scales it [default: send each statement at its captured time].
    #[arg(long, value_name = "keep|drop|FACTOR", value_parser = think_time)]
    pub think_time: Option<Factor>,
    /// Keep this order between sessions: none (`session`), of the commits that a statement
    /// followed in the capture (`commit`), or of what it depends on (`dependencies`) [default:
    /// dependencies if several sessions wrote and the capture has their results (proxy, pcap)
    /// or durations (log), otherwise session].
    #[arg(long, value_name = "session|commit|dependencies|global")]
    pub order: Option<ReplayOrder>,
    /// Restart this private server, which --target names, with its clock at the captured time. It needs libfaketime, and
    /// --speed 1 [default: the machine's clock].
    #[arg(long, value_name = "SANDBOX", conflicts_with_all = ["think_time", "max_idle", "ramp_up", "resume", "against"])]
    pub captured_clock: Option<String>,
    /// Shorten periods without traffic to this much captured time.
    #[arg(long, value_name = "DURATION", value_parser = clock::parse_duration)]
    pub max_idle: Option<Duration>,
    /// Start at a tenth of the speed and reach full speed after this long.
    #[arg(long, value_name = "DURATION", value_parser = ramp)]
    pub ramp_up: Option<Duration>,
    /// Replay the workload this many times, one after another.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub loops: u32,
    /// Replay each session this many times concurrently: 3x. 0.5x replays half of the sessions,
    /// always the same ones.
    #[arg(long, value_name = "FACTOR", default_value = "1x", value_parser = scale)]
    pub copies: Factor,
    /// Delay each copy relative to the previous one by this much captured time.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = clock::parse_duration)]
    pub copy_delay: Duration,
}

/// Ordering between the sessions of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReplayOrder {
    /// Order within each session only.
    Session,
    /// Wait for the commits that a statement followed in the capture.
    Commit,
    /// Wait for the executions of other sessions on which a statement depends: those that generated its values,
    /// wrote or read the same rows, or changed the schema. Also follows generated values, as --remap-generated does.
    Dependencies,
    /// Wait for all statements that were due earlier: a session that waits for the server blocks
    /// all others. Only for comparison, as real clients do not queue like that.
    Global,
}

/// Safety of the target.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Safety")]
pub struct SafetyArgs {
    /// Make the server reject all writes (default_transaction_read_only).
    #[arg(long)]
    pub read_only: bool,
    /// Connect every session as this role, and refuse the role if it has a right to write.
    /// Implies --read-only.
    #[arg(long, value_name = "ROLE", conflicts_with_all = ["as_user", "map_user", "set_role"])]
    pub read_only_role: Option<String>,
    /// Cancel statements that take longer than this.
    #[arg(long, value_name = "DURATION", value_parser = clock::parse_duration)]
    pub statement_timeout: Option<Duration>,
    /// Retry failed connections, and reopen lost ones, for this long. 0s disables both.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = patience)]
    pub retry_for: Duration,
    /// Checkpoint the unfinished run at this interval. A replay that is killed loses at most
    /// this much.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = clock::parse_duration)]
    pub checkpoint: Duration,
    /// Resume this run, which was stopped or killed, without repeating its statements. Leave the
    /// target as it was, give the same options, and write the complete run to another -o.
    #[arg(long, value_name = "NAME.run")]
    pub resume: Option<PathBuf>,
    /// Allow a replay on the server that the workload was captured on; repeat its address here.
    #[arg(long, value_name = "HOST:PORT")]
    pub allow_captured_server: Option<String>,
    /// Plan the replay, test the logins, have the target parse the statements, report what would be sent,
    /// and execute nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Measure this machine for a few seconds against a server of its own, read what the workload needs, and report
    /// whether one machine is enough. The target is sent no statement of the workload.
    #[arg(long, conflicts_with_all = ["dry_run", "resume", "shard", "think_time", "follow", "against"])]
    pub calibrate: bool,
}

/// Part of the workload to replay. The options are those of `slice`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection (see `rehearse slice --help`)")]
pub struct PartArgs {
    /// Replay statements sent at or after this time.
    #[arg(long, value_name = "TIME", value_parser = TimeBound::parse)]
    pub from: Option<TimeBound>,
    /// Replay statements sent before this time.
    #[arg(long, value_name = "TIME", value_parser = TimeBound::parse)]
    pub to: Option<TimeBound>,
    /// Replay sessions on this database.
    #[arg(long, value_name = "NAME")]
    pub filter_database: Vec<String>,
    /// Exclude sessions on this database.
    #[arg(long, value_name = "NAME")]
    pub not_database: Vec<String>,
    /// Replay sessions of this user.
    #[arg(long, value_name = "NAME")]
    pub filter_user: Vec<String>,
    /// Exclude sessions of this user.
    #[arg(long, value_name = "NAME")]
    pub not_user: Vec<String>,
    /// Replay sessions of this application.
    #[arg(long, value_name = "NAME")]
    pub application: Vec<String>,
    /// Exclude sessions of this application.
    #[arg(long, value_name = "NAME")]
    pub not_application: Vec<String>,
    /// Replay statements whose normalised text contains this text.
    #[arg(long, value_name = "PATTERN")]
    pub statement: Vec<String>,
    /// Exclude statements whose normalised text contains this text.
    #[arg(long, value_name = "PATTERN")]
    pub not_statement: Vec<String>,
    /// Replay statements of this kind: read, write, or a class such as select.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kind: Vec<StatementKind>,
    /// Exclude statements of this kind.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub not_kind: Vec<StatementKind>,
    /// Replay statements whose comment names this: route=/orders/*.
    #[arg(long, value_name = "KEY=VALUE")]
    pub context: Vec<ContextPattern>,
    /// Exclude statements whose comment names this.
    #[arg(long, value_name = "KEY=VALUE")]
    pub not_context: Vec<ContextPattern>,
}

impl PartArgs {
    /// Converts the options to those of `slice`.
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
            context: this.context,
            not_context: this.not_context,
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

/// Parses a duration that may be zero.
fn patience(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" => Ok(Duration::ZERO),
        _ => clock::parse_duration(text),
    }
}

fn ramp(text: &str) -> Result<Duration, String> {
    let ramp = clock::parse_duration(text)?;
    if ramp > RAMP_MAX {
        return Err(format!(
            "'{text}' is too long for a ramp; give at most 7 days"
        ));
    }
    Ok(ramp)
}
