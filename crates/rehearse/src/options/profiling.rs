//! Options of CPU profiles, and of what is made of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cpu_profile::ProfileOptions;

use study::profile_samples::SampleChoice;

/// A CPU profile beside a replay.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "A CPU profile of the server, where it is on this machine")]
pub struct ProfilingArgs {
    /// Record what the server's processes do, with perf, and keep it in the run.
    #[arg(long)]
    pub profile: bool,
    /// Samples a second of processor time.
    #[arg(long, value_name = "HZ", default_value_t = cpu_profile::FREQUENCY_HZ, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub profile_frequency: u32,
    /// Do not have the kernel count the server's processor time at each switch between processes as well, which takes
    /// about 1 % of short statements.
    #[arg(long)]
    pub profile_no_task_clock: bool,
}

impl ProfilingArgs {
    /// The profile that is asked for.
    pub fn wanted(&self) -> Option<ProfileOptions> {
        self.profile.then(|| ProfileOptions {
            frequency_hz: self.profile_frequency,
            task_clock: !self.profile_no_task_clock,
            ..ProfileOptions::default()
        })
    }
}

/// `rehearse profile`
#[derive(Debug, Args)]
pub struct Profile {
    /// The server, on this machine: postgres://HOST:PORT or 'host=… port=…' with libpq's parameters.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// How long: 30s, 10m; Ctrl-C ends it earlier.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = clock::duration_of)]
    pub duration: Duration,
    /// The run to make, NAME.run, which has the profile and no executions.
    #[arg(short, long, value_name = "NAME.run")]
    pub output: PathBuf,
    /// Samples a second of processor time.
    #[arg(long, value_name = "HZ", default_value_t = cpu_profile::FREQUENCY_HZ, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub frequency: u32,
    /// Do not have the kernel count the server's processor time at each switch between processes as well, which takes
    /// about 1 % of short statements.
    #[arg(long)]
    pub no_task_clock: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which samples of a profile.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which samples")]
pub struct ChoiceArgs {
    /// Those of this statement only; its fingerprint, as `rehearse cpu` and `summary` print it.
    #[arg(long, value_name = "FINGERPRINT")]
    pub statement: Option<String>,
    /// Those of this role's backends only.
    #[arg(long, value_name = "ROLE")]
    pub filter_user: Option<String>,
    /// Those of this database's backends only.
    #[arg(long, value_name = "DATABASE")]
    pub filter_database: Option<String>,
    /// The server's own processes as well: checkpointer, autovacuum and the like.
    #[arg(long)]
    pub all_processes: bool,
}

impl From<&ChoiceArgs> for SampleChoice {
    fn from(args: &ChoiceArgs) -> Self {
        SampleChoice {
            statement: args.statement.clone(),
            user: args.filter_user.clone(),
            database: args.filter_database.clone(),
            all_processes: args.all_processes,
        }
    }
}

/// `rehearse cpu`
#[derive(Debug, Args)]
pub struct Cpu {
    /// A run with a profile.
    #[arg(value_name = "NAME.run")]
    pub run: PathBuf,
    /// Which samples.
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// How many statements to show.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `rehearse flame`
#[derive(Debug, Args)]
pub struct Flame {
    /// A run with a profile (with --off-cpu, one that was observed); with two, the second is shown, coloured by
    /// what it has more or less than the first.
    #[arg(value_names = ["BEFORE.run", "AFTER.run"], num_args = 1..=2, required = true)]
    pub runs: Vec<PathBuf>,
    /// The picture, NAME.svg, or a page with it, NAME.html; `.folded` is the stacks as text.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// What sessions waited for, by type, event and statement, from the samples of --observe: no stacks.
    #[arg(long)]
    pub off_cpu: bool,
    /// Which samples.
    #[command(flatten)]
    pub choice: ChoiceArgs,
}
