//! A sweep as the user requests it.

use std::path::PathBuf;
use std::time::Duration;

use clock::Speed;
use replay::Options;

use super::{Design, Length, Mode, Pace, Script, SweepJournal, levels};
use crate::environment::NewServerRequest;
use crate::failure::Failure;
use crate::keys;

/// Default duration of a trial's measurement.
const TIME: Duration = Duration::from_secs(10);

/// Request of a sweep.
#[derive(Debug, Clone)]
pub struct SweepRequest {
    /// Workload to replay, unless a script is given.
    pub workload: Option<PathBuf>,
    /// Built-in script.
    pub script: Option<Script>,
    /// Scale factor of the script's tables on a new server.
    pub pgbench_scale: u32,
    /// Directory to write.
    pub output: PathBuf,
    /// Whether to resume a sweep that was stopped or killed.
    pub resume: bool,
    /// Whether the run of every trial is kept.
    pub keep_runs: bool,
    /// Server of the trials.
    pub place: SweepPlace,
    /// Factors and their levels.
    pub factors: SweepFactors,
    /// Duration of trials.
    pub length: SweepLength,
    /// Options of every replay.
    pub replay: Options,
    /// Options of the sessions by name, for the manifest.
    pub session_options: Vec<(&'static str, Option<String>)>,
}

/// Server of a sweep's trials, and how its data are restored.
#[derive(Debug, Clone, Default)]
pub struct SweepPlace {
    /// Private server to create.
    pub new_server: Option<NewServerRequest>,
    /// Name of a private server.
    pub sandbox: Option<String>,
    /// URL of any other server.
    pub target: Option<String>,
    /// Address of the target, if the user confirmed that it may be the captured server.
    pub allow_captured_server: Option<String>,
    /// Shell command that restores the data of the target.
    pub restore: Option<String>,
    /// Whether each trial finds the data that the previous one left.
    pub no_restore: bool,
}

/// Factors of a sweep, and their levels.
#[derive(Debug, Clone, Default)]
pub struct SweepFactors {
    /// Numbers of clients.
    pub clients: Vec<u32>,
    /// Speeds of a workload.
    pub speeds: Vec<Speed>,
    /// Transactions of a script per second.
    pub rates: Vec<f64>,
    /// Protocol modes.
    pub modes: Vec<Mode>,
    /// Settings with their values: `NAME=VALUE,…`.
    pub settings: Vec<String>,
    /// Groups of settings as one level each: `NAME: A=B; C=D`.
    pub variants: Vec<String>,
    /// Trials of each combination.
    pub trials: u32,
    /// Seed of the order of trials; random if it is `None`.
    pub seed: Option<u64>,
}

/// Duration of a sweep's trials.
#[derive(Debug, Clone, Default)]
pub struct SweepLength {
    /// Time of each trial after its warm-up.
    pub time: Option<Duration>,
    /// Statements of each trial.
    pub statements: Option<u64>,
    /// Duration of the start of each trial, which is not measured.
    pub warm_up: Duration,
    /// Time for all trials.
    pub time_budget: Option<Duration>,
}

impl SweepRequest {
    /// Returns whether the load changes data on the server.
    pub(super) fn writes(&self) -> Result<bool, Failure> {
        match (self.script, &self.workload) {
            (Some(script), _) => Ok(script.writes()),
            (None, Some(path)) => Ok(keys::open_workload(path)?.info().writes > 0),
            (None, None) => Ok(false),
        }
    }

    /// Returns the duration of a trial.
    pub(super) fn trial_length(&self) -> Length {
        match (self.length.time, self.length.statements) {
            (Some(time), _) => Length::Time(time),
            (None, Some(count)) => Length::Statements(count),
            (None, None) if !self.factors.speeds.is_empty() => Length::Whole,
            (None, None) => Length::Time(TIME),
        }
    }

    /// Returns the design of the trials, with the seed of a previous part of the sweep.
    pub(super) fn design(&self, previous: Option<&SweepJournal>) -> Result<Design, Failure> {
        let factors = &self.factors;
        let is_script = self.script.is_some();
        let modes = self.modes()?;
        let paces = self.paces()?;
        if matches!(paces[0], Pace::Speed(_)) && modes != [Mode::Captured] {
            return Err(Failure::usage(
                "at --speed a workload is sent as it was captured; leave --mode out, or --speed for a closed loop of --clients",
            ));
        }
        let clients = match (factors.clients.as_slice(), is_script) {
            ([], true) => vec![1],
            (clients, _) => clients.to_vec(),
        };
        if !is_script && clients.is_empty() && modes != [Mode::Captured] {
            return Err(Failure::usage(
                "other modes than the captured one need --clients, which deals the workload to N clients",
            ));
        }
        if is_repeated(&clients) || is_repeated(&modes) || is_repeated(&paces) {
            return Err(Failure::usage(
                "a level is named twice; name each once, and give --trials for more trials of each",
            ));
        }
        let seed = factors
            .seed
            .or(previous.map(|journal| journal.plan().design.seed))
            .unwrap_or_else(|| rand::random::<u32>().into());
        Ok(Design {
            clients,
            paces,
            modes,
            variants: levels::parse_variants(&factors.settings, &factors.variants)?,
            repeat: factors.trials,
            seed,
        })
    }

    fn modes(&self) -> Result<Vec<Mode>, Failure> {
        let is_script = self.script.is_some();
        if !is_script && !self.factors.rates.is_empty() {
            return Err(Failure::usage(
                "--rate is for scripts; a workload has times of its own, which --speed makes faster or slower",
            ));
        }
        match (self.factors.modes.as_slice(), is_script) {
            ([], true) => Ok(vec![Mode::Prepared]),
            ([], false) => Ok(vec![Mode::Captured]),
            (modes, true) if modes.contains(&Mode::Captured) => Err(Failure::usage(
                "a script was not captured; give --mode simple, extended or prepared",
            )),
            (modes, false) if modes.contains(&Mode::Simple) => Err(Failure::usage(
                "--mode simple is for scripts: the parameters of a workload are not put into its texts; give captured, extended or prepared",
            )),
            (modes, _) => Ok(modes.to_vec()),
        }
    }

    fn paces(&self) -> Result<Vec<Pace>, Failure> {
        let (rates, speeds) = (&self.factors.rates, &self.factors.speeds);
        let paces: Vec<Pace> = match (rates.as_slice(), speeds.as_slice()) {
            ([], []) => vec![Pace::Closed],
            ([], speeds) => speeds.iter().map(|&speed| Pace::Speed(speed)).collect(),
            (rates, _) => rates.iter().map(|&rate| Pace::Rate(rate)).collect(),
        };
        match paces.contains(&Pace::Speed(Speed::Max)) {
            true => Err(Failure::usage(
                "--speed max is a closed loop: leave --speed out, and give --clients for how many sessions there are at once",
            )),
            false => Ok(paces),
        }
    }
}

fn is_repeated<T: PartialEq>(levels: &[T]) -> bool {
    let mut places = 1..levels.len();
    places.any(|place| levels[..place].contains(&levels[place]))
}
