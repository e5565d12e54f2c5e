//! What the clients of a trial do, and for how long.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clock::Speed;
use replay::Options;
use serde::{Deserialize, Serialize};
use workload::WorkloadReader;

use crate::dealt::Dealt;
use crate::design::{Cell, Mode, Pace};
use crate::error::ExperimentError;
use crate::script::{Script, Sending};

/// How long a trial is, behind its warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// So long.
    Time(Duration),
    /// So many statements of all clients together, and then to their end; of a script whole transactions.
    Statements(u64),
    /// The workload from its beginning to its end, once.
    Whole,
}

/// What is done.
#[derive(Debug, Clone)]
pub enum Work {
    /// A built-in script, on tables of a scale.
    Script(Script, u32),
    /// A workload.
    Workload,
}

/// What the clients of a trial do.
#[derive(Debug, Clone)]
pub struct Load {
    /// What runs name as their workload.
    reader: WorkloadReader,
    work: Work,
    /// Of a workload that is dealt to clients, by mode.
    dealt: BTreeMap<Mode, Dealt>,
    /// What every replay has: logins, limits.
    base: Options,
    /// What is left out at the beginning of each trial.
    pub warm_up: Duration,
    /// How long it is measured.
    pub length: Length,
}

impl Load {
    /// A built-in script; `path` is where its statements are written as a workload, if they are not
    /// there yet.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn of_script(
        script: Script,
        scale: u32,
        path: &Path,
        base: Options,
        warm_up: Duration,
        length: Length,
    ) -> Result<Self, ExperimentError> {
        let reader = match path.exists() {
            true => WorkloadReader::open(path)?,
            false => script.write(path)?,
        };
        Ok(Load {
            reader,
            work: Work::Script(script, scale),
            dealt: BTreeMap::new(),
            base,
            warm_up,
            length,
        })
    }

    /// A workload, dealt to clients in these modes, if the design has numbers of clients.
    ///
    /// # Errors
    /// Where it cannot be read, or is too large to be dealt.
    pub fn of_workload(
        reader: WorkloadReader,
        dealt_in: &[Mode],
        base: Options,
        warm_up: Duration,
        length: Length,
    ) -> Result<Self, ExperimentError> {
        let mut dealt = BTreeMap::new();
        for &mode in dealt_in {
            dealt.insert(mode, Dealt::read(&reader, mode)?);
        }
        Ok(Load {
            reader,
            work: Work::Workload,
            dealt,
            base,
            warm_up,
            length,
        })
    }

    /// What it is of.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// The workload that runs name.
    pub fn reader(&self) -> &WorkloadReader {
        &self.reader
    }

    /// What every replay has.
    pub fn base(&self) -> &Options {
        &self.base
    }

    /// The workload in a mode, where it is dealt to clients.
    pub fn dealt(&self, mode: Mode) -> Option<&Dealt> {
        self.dealt.get(&mode)
    }

    /// Whether it changes what is on the server, so that this has to be restored.
    pub fn writes(&self) -> bool {
        match self.work {
            Work::Script(script, _) => script.writes(),
            Work::Workload => self.reader.info().writes > 0,
        }
    }

    /// How many statements make a transaction, whose times are then measured: a script's; of a
    /// workload each statement counts for itself.
    pub fn statements_of_one(&self) -> u64 {
        match self.work {
            Work::Script(script, _) => script.statements(),
            Work::Workload => 1,
        }
    }

    /// The options of the replay of a trial. Trials with the same seed do the same.
    pub(crate) fn options(&self, cell: &Cell, seed: u64) -> Options {
        let clients = cell.clients.unwrap_or(1);
        let mut options = Options {
            speed: Speed::Max,
            ..self.base.clone()
        };
        match &self.work {
            Work::Script(script, scale) => {
                let sending = Sending {
                    mode: cell.mode,
                    clients,
                    scale: *scale,
                    seed,
                    rate: None,
                };
                let each = match self.length {
                    Length::Statements(count) => {
                        Some(count.div_ceil(script.statements() * u64::from(clients)))
                    }
                    Length::Time(_) | Length::Whole => None,
                };
                if let Pace::Rate(_) = cell.pace {
                    options.speed = Speed::ONE;
                }
                options.feed = Some(script.feed(sending.at(cell.pace), each));
            }
            Work::Workload => match (cell.pace, self.dealt.get(&cell.mode), cell.clients) {
                (Pace::Speed(speed), _, clients) => {
                    options.speed = speed;
                    options.connections_max = clients;
                }
                (_, Some(dealt), Some(clients)) => {
                    let rounds = match self.length {
                        Length::Whole => Some(1),
                        Length::Time(_) | Length::Statements(_) => None,
                    };
                    options.feed = Some(dealt.feed(clients, rounds));
                }
                // As the capture had them, at full speed.
                _ => {}
            },
        }
        options
    }

    /// When a trial that is not over by itself ends.
    pub(crate) fn ends_after(&self) -> Option<Duration> {
        match self.length {
            Length::Time(time) => Some(self.warm_up + time),
            Length::Statements(_) | Length::Whole => None,
        }
    }

    /// After how many statements a trial without an end of its own ends.
    pub(crate) fn ends_behind(&self) -> Option<u64> {
        match (self.length, &self.work) {
            (Length::Statements(count), Work::Workload) => Some(count),
            _ => None,
        }
    }
}
