//! Work of a statement alone on both servers. It is kept for statements that are not worse alone: replays may suspect them later.

use serde::{Deserialize, Serialize};

use super::result::TrialWork;
use super::summary;
use super::trial::MeasuredSets;

/// Work of a statement alone on the old server, and on the new one with the missing statistics and indexes in place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkOfBoth {
    pub(crate) old: TrialWork,
    pub(crate) new: TrialWork,
    /// Scans and joins on both, of the slowest execution on the new one among those with another plan; `None` if all plans are the
    /// same.
    pub(crate) other_plans: Option<[String; 2]>,
}

impl WorkOfBoth {
    /// Returns the work of the same parameter sets.
    pub(super) fn new(old: &MeasuredSets, new: &MeasuredSets) -> Self {
        let all = old.times.iter().zip(&new.times);
        let other = all.filter(|(old, new)| old.plan.shape() != new.plan.shape());
        let slowest = other.max_by(|(_, a), (_, b)| a.total_ms().total_cmp(&b.total_ms()));
        WorkOfBoth {
            old: old.work(),
            new: new.work(),
            other_plans: slowest.map(|(old, new)| [summary(&old.plan), summary(&new.plan)]),
        }
    }
}

/// Observation of a statement alone by a search.
#[derive(Debug)]
pub(crate) enum SeenAlone<'a> {
    /// It was not compared, for this reason.
    Not(String),
    /// It was planned, with the same plans on both servers.
    SamePlans,
    /// It was executed.
    Executed(&'a WorkOfBoth),
}

impl SeenAlone<'_> {
    /// Returns the work on the old server and on the new one.
    pub(crate) fn works(&self) -> Option<[TrialWork; 2]> {
        match self {
            SeenAlone::Executed(work) => Some([work.old, work.new]),
            SeenAlone::Not(_) | SeenAlone::SamePlans => None,
        }
    }

    /// Whether it has the plans of the old server.
    pub(crate) fn has_old_plan(&self) -> bool {
        match self {
            SeenAlone::Not(_) => false,
            SeenAlone::SamePlans => true,
            SeenAlone::Executed(work) => work.other_plans.is_none(),
        }
    }
}
