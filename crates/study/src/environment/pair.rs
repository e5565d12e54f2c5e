//! Conditions set up at two servers that are not private: the old one, and another that conditions name.

use replay::Target;

use super::{Condition, Environment, TargetEnvironment};
use crate::error::ExperimentError;

/// Two servers that the user named. Each condition is set up at one of them.
pub struct PairEnvironment {
    first: TargetEnvironment,
    other: TargetEnvironment,
    /// Whether each condition is of the other server.
    is_other: Vec<bool>,
}

impl PairEnvironment {
    /// Sets up conditions at the servers that `make` returns, for the first server and for the other. Each is given the
    /// conditions with their index. Those of the other server are without changes.
    pub fn new(
        conditions: &[Condition],
        make: impl Fn(bool, Vec<Condition>) -> TargetEnvironment,
    ) -> Self {
        let of = |wanted: bool| {
            let own = conditions.iter().map(|one| match one.is_other_server {
                is_other if is_other == wanted => Condition {
                    is_other_server: false,
                    ..one.clone()
                },
                _ => Condition::default(),
            });
            make(wanted, own.collect())
        };
        PairEnvironment {
            first: of(false),
            other: of(true),
            is_other: conditions.iter().map(|one| one.is_other_server).collect(),
        }
    }

    fn both(
        &mut self,
        mut action: impl FnMut(&mut TargetEnvironment) -> Result<(), ExperimentError>,
    ) -> Result<(), ExperimentError> {
        let first = action(&mut self.first);
        action(&mut self.other).and(first)
    }
}

impl Environment for PairEnvironment {
    fn check(&mut self) -> Result<(), ExperimentError> {
        self.both(TargetEnvironment::check)
    }

    fn prepare(&mut self) -> Result<(), ExperimentError> {
        self.first.prepare()?;
        self.other.prepare()
    }

    fn set_up(&mut self, condition: usize) -> Result<(Target, Option<i32>), ExperimentError> {
        match self.is_other[condition] {
            true => self.other.set_up(condition),
            false => self.first.set_up(condition),
        }
    }

    fn release(&mut self) -> Result<(), ExperimentError> {
        self.both(TargetEnvironment::release)
    }
}
