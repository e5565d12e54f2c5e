//! The plan of a proof, and the records of its runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hidden_command::hide_secrets;
use super::numbers::ProofNumbers;
use crate::change_script::ChangeScript;
use crate::environment::{Condition, merge_settings};
use crate::error::ExperimentError;
use crate::journal::Plan;
use crate::sweep::Setting;

/// A single change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A script of SQL, applied to the initial data.
    Sql {
        /// The path as it was given.
        path: String,
        /// The content of the file.
        text: String,
    },
    /// A command for the shell, applied to the initial data.
    Command(String),
    /// Settings of a private server, or of the sessions at any other.
    Settings(Vec<Setting>),
    /// A rewriting of the workload, as it was given, such as `batch-inserts=50`.
    Rewrite(String),
    /// Another major version.
    Server(u16),
    /// Another server of the user, by a name for reports.
    Target(String),
}

impl Change {
    /// Returns a short name, as the change was given. Passwords in URLs and values of variables in a command are hidden,
    /// since reports and messages to a chat have the name.
    pub fn name(&self) -> String {
        match self {
            Change::Sql { path, .. } => path.clone(),
            Change::Settings(settings) => {
                let pair = |one: &Setting| format!("{}={}", one.name, one.value);
                settings.iter().map(pair).collect::<Vec<_>>().join("; ")
            }
            Change::Rewrite(given) => given.clone(),
            Change::Command(given) => hide_secrets(given),
            Change::Server(major) => format!("PostgreSQL {major}"),
            Change::Target(name) => name.clone(),
        }
    }
}

/// A side of the comparison: no change, a single change, or all changes combined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofSide {
    /// The name.
    pub name: String,
    /// The changes; none on the unchanged side.
    pub changes: Vec<Change>,
}

impl ProofSide {
    /// Returns the server condition that the side is replayed on.
    ///
    /// # Errors
    /// If a script has nothing to send.
    pub fn condition(&self) -> Result<Condition, ExperimentError> {
        let (mut settings, mut condition) = (Vec::new(), Condition::default());
        for change in &self.changes {
            match change {
                Change::Sql { path, text } => {
                    condition.scripts.push(ChangeScript::new(path, text)?);
                }
                Change::Command(command) => {
                    condition
                        .scripts
                        .push(ChangeScript::Command(command.clone()));
                }
                Change::Settings(all) => settings.extend(all.iter().map(Setting::pair)),
                Change::Rewrite(_) => {}
                Change::Server(_) | Change::Target(_) => condition.is_other_server = true,
            }
        }
        condition.settings = merge_settings(&settings);
        Ok(condition)
    }

    /// Returns the rewritings of the workload, in the order in which they were given.
    pub fn rewrites(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().filter_map(|change| match change {
            Change::Rewrite(given) => Some(given.as_str()),
            _ => None,
        })
    }
}

/// Everything that is fixed before the first run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProofPlan {
    /// The unchanged side first.
    pub sides: Vec<ProofSide>,
    /// The number that is to get better.
    pub goal: String,
    /// Differences up to this share count as none.
    pub margin: f64,
    /// Time limit of all runs, in seconds.
    pub within_s: f64,
    /// Limit of blocks, whatever the time.
    pub blocks_max: u32,
    /// Number of runs of the unchanged side before the first block.
    pub noise_runs: u32,
    /// Seed of the order.
    pub seed: u64,
}

/// A run of a proof.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofTrial {
    /// Number in the order, from 1.
    pub number: u32,
    /// Block, from 1; 0 for a run of the unchanged side before the first block.
    pub block: u32,
    /// Side; 0 is the unchanged one.
    pub side: usize,
}

/// Decision that is made once the duration of a run and the noise between runs are known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Limit of blocks.
    pub blocks: u32,
    /// Standard deviation of the goal's logarithm between unchanged runs; `None` if there is a single run.
    pub deviation: Option<f64>,
    /// Duration of a run, including the set-up, in seconds.
    pub run_s: f64,
    /// Number of blocks after which there was no time for another.
    #[serde(default)]
    pub ended: Option<u32>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProofRecord {
    /// The run.
    #[serde(rename = "place")]
    pub trial: ProofTrial,
    /// Start time, in microseconds since 1970-01-01 UTC. Setting up the server is part of the run.
    pub started_wall_us: i64,
    /// Duration in seconds, including the set-up.
    pub took_s: f64,
    /// Measurements of the run.
    pub numbers: ProofNumbers,
}

impl ProofRecord {
    /// Returns the average duration of an attempt, including the set-up, in seconds.
    pub(crate) fn attempt_s(&self) -> f64 {
        self.took_s / f64::from(1 + self.numbers.stalls.repeats)
    }
}

impl Plan for ProofPlan {
    const KIND: &'static str = "proof";
    const COMMAND: &'static str = "prove";
    const DIRECTORIES: &'static [&'static str] = &["rewritten"];
    type Record = ProofRecord;
    type Decision = Decision;

    fn number(record: &ProofRecord) -> u32 {
        record.trial.number
    }

    fn differences(&self, other: &Self) -> Vec<&'static str> {
        let options = [
            ("the changes", self.sides != other.sides),
            ("--goal", self.goal != other.goal),
            ("--margin", self.margin != other.margin),
            ("--time-budget", self.within_s != other.within_s),
            ("--blocks", self.blocks_max != other.blocks_max),
            ("--noise-runs", self.noise_runs != other.noise_runs),
            ("--seed", self.seed != other.seed),
        ];
        let differing = options.into_iter().filter(|(_, differs)| *differs);
        differing.map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_command_hides_passwords() {
        let name = |command: &str| Change::Command(command.to_owned()).name();
        assert_eq!(name("alembic upgrade head"), "alembic upgrade head");
        assert_eq!(
            name("PGPASSWORD=geheim flyway -url=x migrate"),
            "PGPASSWORD=… flyway -url=x migrate"
        );
        let with_url = name("migrate postgres://app:geheim@db/shop up");
        assert!(!with_url.contains("geheim"), "{with_url}");
        assert!(with_url.ends_with(" up"), "{with_url}");
    }
}
