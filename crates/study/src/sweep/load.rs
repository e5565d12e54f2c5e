//! The load of a trial's clients, and its duration.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Speed;
use replay::Options;
use workload::WorkloadReader;

use super::design::{Cell, Mode, Pace};
use super::script::{Script, ScriptOptions};
use super::session_pool::SessionPool;
use crate::error::ExperimentError;

/// Duration of the measured part of a trial, after its warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// For a duration.
    Time(Duration),
    /// For a number of statements of all clients together. Transactions of a script are completed.
    Statements(u64),
    /// The workload from its beginning to its end, once.
    Whole,
}

/// Source of the statements.
#[derive(Debug, Clone)]
pub enum Work {
    /// A built-in script, on tables of a scale.
    Script(Script, u32),
    /// A workload. It is dealt to clients in these modes, if the design varies their number.
    Workload(BTreeMap<Mode, SessionPool>),
}

/// The load of a trial's clients.
#[derive(Debug, Clone)]
pub struct Load {
    /// The workload that runs name as theirs.
    pub reader: WorkloadReader,
    /// Source of the statements.
    pub work: Work,
    /// The options of every replay: logins, limits.
    pub options: Options,
    /// Duration of the start of each trial, which is not measured.
    pub warm_up: Duration,
    /// Duration of the measured part.
    pub length: Length,
}

impl Work {
    /// Opens a workload, dealt to clients in these modes.
    ///
    /// # Errors
    /// If it cannot be read, or is too large to be dealt.
    pub fn workload(reader: &WorkloadReader, modes: &[Mode]) -> Result<Self, ExperimentError> {
        let pool = |mode: &Mode| Ok((*mode, SessionPool::read(reader, *mode)?));
        let pools: Result<_, ExperimentError> = modes.iter().map(pool).collect();
        Ok(Work::Workload(pools?))
    }
}

impl Load {
    /// Reports whether it changes data on the server, which then have to be restored.
    pub fn writes(&self) -> bool {
        match self.work {
            Work::Script(script, _) => script.writes(),
            Work::Workload(_) => self.reader.info().writes > 0,
        }
    }

    /// Returns the number of statements of a transaction, the unit of measured times. In a workload each statement
    /// counts separately.
    pub fn statements_of_one(&self) -> u64 {
        match self.work {
            Work::Script(script, _) => script.statements(),
            Work::Workload(_) => 1,
        }
    }

    /// Returns the options of a trial's replay. Trials with the same seed are the same.
    pub(super) fn replay_options(&self, cell: &Cell, seed: u64) -> Options {
        let mut options = Options {
            speed: Speed::Max,
            ..self.options.clone()
        };
        match &self.work {
            Work::Script(script, scale) => {
                let clients = cell.clients.unwrap_or(1);
                let rate = match cell.pace {
                    Pace::Rate(rate) => Some(rate),
                    Pace::Closed | Pace::Speed(_) => None,
                };
                let transactions = match self.length {
                    Length::Statements(count) => {
                        Some(count.div_ceil(script.statements() * u64::from(clients)))
                    }
                    Length::Time(_) | Length::Whole => None,
                };
                if rate.is_some() {
                    options.speed = Speed::ONE;
                }
                let sending = ScriptOptions {
                    mode: cell.mode,
                    clients,
                    scale: *scale,
                    seed,
                    rate,
                };
                options.load_source = Some(script.feed(sending, transactions));
            }
            Work::Workload(pools) => match (cell.pace, pools.get(&cell.mode), cell.clients) {
                (Pace::Speed(speed), _, clients) => {
                    options.speed = speed;
                    options.connections_max = clients;
                }
                (_, Some(pool), Some(clients)) => {
                    let rounds = match self.length {
                        Length::Whole => Some(1),
                        Length::Time(_) | Length::Statements(_) => None,
                    };
                    options.load_source = Some(pool.feed(clients, rounds));
                }
                // The order of the capture, at full speed.
                _ => {}
            },
        }
        options
    }

    /// Returns the time after which a trial ends.
    pub(super) fn ends_after(&self) -> Option<Duration> {
        match self.length {
            Length::Time(time) => Some(self.warm_up + time),
            Length::Statements(_) | Length::Whole => None,
        }
    }

    /// Returns the number of statements after which a trial ends that has no time limit.
    pub(super) fn statements_max(&self) -> Option<u64> {
        match (self.length, &self.work) {
            (Length::Statements(count), Work::Workload(_)) => Some(count),
            _ => None,
        }
    }
}
