//! What a proof is of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::design::Setting;

/// The manifest's kind.
pub const PROOF_KIND: &str = "proof";
/// The version of the format that this build writes.
pub(super) const FORMAT: u32 = 1;

/// One thing that is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A script of SQL, carried out on the restored state.
    Sql {
        /// As it was given.
        path: String,
        /// What was in it.
        text: String,
    },
    /// Settings of the server, or of its sessions where the server is not ours.
    Settings(Vec<Setting>),
    /// The workload is rewritten; as it was given, such as `batch-inserts=50`.
    Rewrite(String),
    /// Another major version.
    Server(u16),
}

impl Change {
    /// In few words, as it was given.
    pub fn name(&self) -> String {
        match self {
            Change::Sql { path, .. } => path.clone(),
            Change::Settings(settings) => {
                let pairs: Vec<String> = settings
                    .iter()
                    .map(|one| format!("{}={}", one.name, one.value))
                    .collect();
                pairs.join("; ")
            }
            Change::Rewrite(given) => given.clone(),
            Change::Server(major) => format!("PostgreSQL {major}"),
        }
    }
}

/// What is set beside the unchanged: a change by itself, or all together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofSide {
    /// What it is called.
    pub name: String,
    /// What is changed; nothing for the unchanged.
    pub changes: Vec<Change>,
}

impl ProofSide {
    /// Settings of all its changes; of one that is named twice, the last.
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = Vec::new();
        for change in &self.changes {
            let Change::Settings(settings) = change else {
                continue;
            };
            for one in settings {
                all.retain(|(name, _)| !name.eq_ignore_ascii_case(&one.name));
                all.push((one.name.clone(), one.value.clone()));
            }
        }
        all
    }

    /// The major version that it is on, where that is another one.
    pub fn server(&self) -> Option<u16> {
        self.changes.iter().find_map(|change| match change {
            Change::Server(major) => Some(*major),
            _ => None,
        })
    }

    /// How its workload is rewritten, in the order in which it was given.
    pub fn rewrites(&self) -> Vec<&str> {
        let of = |change: &'_ Change| matches!(change, Change::Rewrite(_));
        let rewrites = self.changes.iter().filter(|change| of(change));
        rewrites
            .map(|change| match change {
                Change::Rewrite(given) => given.as_str(),
                _ => "",
            })
            .collect()
    }
}

/// Everything that is settled before the first run, and by which a killed proof is known again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProofPlan {
    /// [`PROOF_KIND`].
    pub kind: String,
    /// The version of the format.
    pub format: u32,
    /// The program's version.
    pub rehearse: String,
    /// The unchanged first, then what is changed.
    pub sides: Vec<ProofSide>,
    /// Which number is to get better.
    pub goal: String,
    /// Differences up to this share count as none.
    pub margin: f64,
    /// How long all may take, in seconds.
    pub within_s: f64,
    /// No more blocks than that, whatever the time.
    pub blocks_max: u32,
    /// Runs of the unchanged before the first block.
    pub noise_runs: u32,
    /// What the order is made of.
    pub seed: u64,
    /// Everything else that shapes runs, by option.
    pub options: BTreeMap<String, String>,
    /// What a sandbox has been set besides.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// When it was begun, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
}

impl ProofPlan {
    /// What is different in another one, as options; nothing if runs of both belong together.
    pub(super) fn differences(&self, other: &ProofPlan) -> Vec<String> {
        let mut names: Vec<String> = [
            ("the changes", self.sides != other.sides),
            ("--goal", self.goal != other.goal),
            ("--margin", self.margin != other.margin),
            ("--within", self.within_s != other.within_s),
            ("--blocks", self.blocks_max != other.blocks_max),
            ("--noise-runs", self.noise_runs != other.noise_runs),
            ("--seed", self.seed != other.seed),
        ]
        .into_iter()
        .filter(|(_, differs)| *differs)
        .map(|(name, _)| name.to_owned())
        .collect();
        let mut all: Vec<&String> = self.options.keys().chain(other.options.keys()).collect();
        all.sort_unstable();
        all.dedup();
        let differs = |name: &&&String| self.options.get(**name) != other.options.get(**name);
        names.extend(all.iter().filter(differs).map(|name| format!("--{name}")));
        names
    }
}
