//! Options of CPU profiles and of the commands that read them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use cpu_profile::ProfileOptions;

use study::profile_samples::SampleFilter;

/// CPU profile during a replay.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "CPU profile of a server on this machine")]
pub struct ProfilingArgs {
    /// Record a CPU profile of the server's processes with perf, and keep it in the run.
    #[arg(long)]
    pub profile: bool,
    /// Take this many samples per second of CPU time.
    #[arg(long, value_name = "HZ", default_value_t = cpu_profile::FREQUENCY_HZ, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub profile_frequency: u32,
    /// Do not count the server's CPU time at each context switch. Counting takes about 1 % of
    /// short statements.
    #[arg(long)]
    pub profile_no_task_clock: bool,
}

impl ProfilingArgs {
    /// Returns the options of the profile, if one is requested.
    pub fn wanted(&self) -> Option<ProfileOptions> {
        self.profile.then(|| ProfileOptions {
            frequency_hz: self.profile_frequency,
            task_clock: !self.profile_no_task_clock,
            ..ProfileOptions::default()
        })
    }
}

/// Options of `rehearse profile`.
#[derive(Debug, Args)]
pub struct Profile {
    /// Profile this server on this machine: postgres://HOST:PORT or 'host=… port=…' with libpq's
    /// parameters.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// Record for this long: 30s, 10m. Ctrl-C stops it earlier.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = clock::parse_duration)]
    pub duration: Duration,
    /// Write the profile to this run, NAME.run, which has no executions.
    #[arg(short, long, value_name = "NAME.run")]
    pub output: PathBuf,
    /// Take this many samples per second of CPU time.
    #[arg(long, value_name = "HZ", default_value_t = cpu_profile::FREQUENCY_HZ, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub frequency: u32,
    /// Do not count the server's CPU time at each context switch. Counting takes about 1 % of
    /// short statements.
    #[arg(long)]
    pub no_task_clock: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Selection of a profile's samples.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection of samples")]
pub struct SelectionArgs {
    /// Select samples of this statement, by its fingerprint as `rehearse cpu` and `show` print
    /// it.
    #[arg(long, value_name = "FINGERPRINT")]
    pub statement: Option<String>,
    /// Select samples of this role's backends.
    #[arg(long, value_name = "ROLE")]
    pub filter_user: Option<String>,
    /// Select samples of this database's backends.
    #[arg(long, value_name = "DATABASE")]
    pub filter_database: Option<String>,
    /// Include the server's own processes: checkpointer, autovacuum and others.
    #[arg(long)]
    pub all_processes: bool,
}

impl From<&SelectionArgs> for SampleFilter {
    fn from(args: &SelectionArgs) -> Self {
        SampleFilter {
            statement: args.statement.clone(),
            user: args.filter_user.clone(),
            database: args.filter_database.clone(),
            all_processes: args.all_processes,
        }
    }
}

/// Options of `rehearse cpu`.
#[derive(Debug, Args)]
pub struct Cpu {
    /// Read this run, which has a profile.
    #[arg(value_name = "NAME.run")]
    pub run: PathBuf,
    /// Selection of samples.
    #[command(flatten)]
    pub choice: SelectionArgs,
    /// Show this many statements.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Formats of a profile's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FlameFormat {
    /// Flame graph as a picture with a search.
    Svg,
    /// Flame graph as a page.
    Html,
    /// Stacks with their numbers of samples, or milliseconds of waiting, as text.
    Folded,
    /// Profile for pprof: compressed protocol buffers.
    Pprof,
    /// Profile for speedscope: JSON.
    Speedscope,
}

impl FlameFormat {
    /// Returns the format that the name of a file stands for.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let endings = [
            (".svg", FlameFormat::Svg),
            (".html", FlameFormat::Html),
            (".htm", FlameFormat::Html),
            (".folded", FlameFormat::Folded),
            (".pb.gz", FlameFormat::Pprof),
            (".pprof", FlameFormat::Pprof),
            (".json", FlameFormat::Speedscope),
        ];
        let found = endings.into_iter().find(|(end, _)| name.ends_with(end));
        found.map(|(_, format)| format)
    }
}

/// Options of `rehearse flame`.
#[derive(Debug, Args)]
pub struct Flame {
    /// Draw the profile of this run (with --off-cpu, its wait samples). Of two runs, draw the
    /// second, coloured by its difference from the first.
    #[arg(value_names = ["BEFORE.run", "AFTER.run"], num_args = 1..=2, required = true)]
    pub runs: Vec<PathBuf>,
    /// Write to this file: a graph NAME.svg, a page NAME.html, the stacks as text NAME.folded, or the profile for pprof
    /// NAME.pb.gz or for speedscope NAME.speedscope.json.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Write in this format [default: as the name of the file ends].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<FlameFormat>,
    /// Draw waits by type, event and statement, from the samples of --observe. They have no
    /// stacks.
    #[arg(long)]
    pub off_cpu: bool,
    /// Selection of samples.
    #[command(flatten)]
    pub choice: SelectionArgs,
}
