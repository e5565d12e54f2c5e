//! The design of a sweep: its factors, and the order of trials.

use std::fmt;
use std::str::FromStr;

use clock::Speed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{Condition, merge_settings};
use crate::trial_order::randomised_blocks;

/// Protocol mode in which statements are sent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The captured mode.
    Captured,
    /// A Query message, whose text has the values.
    Simple,
    /// Parse, Bind and Execute each time, of an unnamed statement.
    Extended,
    /// A named statement, prepared once for each session; then Bind and Execute.
    Prepared,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 4] = [Mode::Captured, Mode::Simple, Mode::Extended, Mode::Prepared];

    /// Returns the name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Captured => "captured",
            Mode::Simple => "simple",
            Mode::Extended => "extended",
            Mode::Prepared => "prepared",
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Mode::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| {
            format!("'{text}' is no protocol mode; give captured, simple, extended or prepared")
        })
    }
}

/// When statements are due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// A closed loop: each statement is due when the client's previous one is done.
    Closed,
    /// An open loop of a script: transactions a second of all clients, as a Poisson process.
    Rate(f64),
    /// An open loop of a workload: its captured times, divided by this factor.
    Speed(
        #[serde(with = "as_text")]
        #[schemars(with = "String")]
        Speed,
    ),
}

mod as_text {
    use super::*;
    use serde::{Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(speed: &Speed, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(speed)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(text: D) -> Result<Speed, D::Error> {
        String::deserialize(text)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Closed => f.write_str("closed loop"),
            Pace::Rate(per_s) => write!(f, "{per_s}/s"),
            Pace::Speed(speed) => write!(f, "speed {speed}"),
        }
    }
}

/// A setting of the server or its sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value, as in `postgresql.conf`, without quotes around it.
    pub value: String,
}

impl Setting {
    /// Returns name and value.
    pub fn pair(&self) -> (String, String) {
        (self.name.clone(), self.value.clone())
    }
}

/// A level of the settings: several that are set together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Variant {
    /// Name of the level; empty if it is the only one and has no settings.
    pub name: String,
    /// The settings.
    pub settings: Vec<Setting>,
}

impl Variant {
    /// Returns the state of the server in which the variant is tested.
    pub fn condition(&self) -> Condition {
        let settings: Vec<_> = self.settings.iter().map(Setting::pair).collect();
        Condition {
            settings: merge_settings(&settings),
            ..Condition::default()
        }
    }
}

/// One combination of levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// How many clients; `None`: as many as the workload has.
    pub clients: Option<u32>,
    /// When statements are due.
    pub pace: Pace,
    /// In which form they are sent.
    pub mode: Mode,
    /// Which of the design's variants, from 0.
    pub variant: usize,
}

/// One trial of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Number in the order, from 1.
    pub number: u32,
    /// Repetition, from 1.
    pub block: u32,
    /// The combination of levels.
    pub cell: Cell,
}

/// Factors of the experiment, and the number of repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Levels of clients; empty: as many as the workload has.
    pub clients: Vec<u32>,
    /// Levels of pace; at least one.
    pub paces: Vec<Pace>,
    /// Levels of the protocol's mode; at least one.
    pub modes: Vec<Mode>,
    /// Levels of settings; at least one.
    pub variants: Vec<Variant>,
    /// Number of trials of each combination.
    pub repeat: u32,
    /// Seed of the order and of the values of scripts.
    pub seed: u64,
}

impl Design {
    /// All combinations of levels, in their order.
    pub fn cells(&self) -> Vec<Cell> {
        let clients: Vec<Option<u32>> = match self.clients.is_empty() {
            true => vec![None],
            false => self.clients.iter().copied().map(Some).collect(),
        };
        let mut cells = Vec::new();
        for variant in 0..self.variants.len() {
            for &mode in &self.modes {
                for &pace in &self.paces {
                    for &clients in &clients {
                        cells.push(Cell {
                            clients,
                            pace,
                            mode,
                            variant,
                        });
                    }
                }
            }
        }
        cells
    }

    /// All trials, in the order in which they are performed.
    pub fn trials(&self) -> Vec<Trial> {
        let cells = self.cells();
        let blocks = randomised_blocks(cells.len(), self.repeat, self.seed);
        let of_blocks = (1..).zip(blocks);
        let in_order = of_blocks.flat_map(|(block, places)| {
            let cells = &cells;
            places
                .into_iter()
                .map(move |place| (block, cells[place].clone()))
        });
        (1..)
            .zip(in_order)
            .map(|(number, (block, cell))| Trial {
                number,
                block,
                cell,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design() -> Design {
        Design {
            clients: vec![1, 4, 8],
            paces: vec![
                Pace::Closed,
                Pace::Rate(250.0),
                Pace::Speed("1.5".parse().unwrap()),
            ],
            modes: vec![Mode::Simple, Mode::Prepared],
            variants: vec![Variant::default(), Variant::default()],
            repeat: 3,
            seed: 11,
        }
    }

    #[test]
    fn every_combination_comes_once_a_block() {
        let design = design();
        let cells = design.cells();
        assert_eq!(cells.len(), 3 * 3 * 2 * 2);
        let trials = design.trials();
        assert_eq!(trials.len(), cells.len() * 3);
        for block in 1..=3 {
            let of_block: Vec<&Cell> = trials
                .iter()
                .filter(|trial| trial.block == block)
                .map(|trial| &trial.cell)
                .collect();
            assert_eq!(of_block.len(), cells.len());
            assert!(cells.iter().all(|cell| of_block.contains(&cell)));
            assert_ne!(of_block, cells.iter().collect::<Vec<_>>());
        }
        let numbers: Vec<u32> = trials.iter().map(|trial| trial.number).collect();
        assert_eq!(numbers, (1..=108).collect::<Vec<_>>());
        assert_eq!(trials, design.trials());
    }

    #[test]
    fn a_design_is_read_back_as_it_was_written() {
        let text = serde_json::to_string(&design()).unwrap();
        assert_eq!(serde_json::from_str::<Design>(&text).unwrap(), design());
        assert!(text.contains(r#"{"speed":"1.5"}"#), "{text}");
    }

    #[test]
    fn without_levels_of_clients_there_is_one() {
        let none = Design {
            clients: Vec::new(),
            paces: vec![Pace::Closed],
            ..design()
        };
        assert_eq!(none.cells().len(), 4);
        assert!(none.cells().iter().all(|cell| cell.clients.is_none()));
    }
}
