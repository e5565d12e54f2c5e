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
    /// Scans and joins on both, of the execution that is slowest on the new one; `None` if all plans are the same.
    pub(crate) other_plans: Option<[String; 2]>,
}

impl WorkOfBoth {
    /// Returns the work of the same parameter sets.
    pub(super) fn new(old: &MeasuredSets, new: &MeasuredSets) -> Self {
        let slowest = new.slowest();
        let has_other_plan = old.shapes() != new.shapes();
        WorkOfBoth {
            old: old.work(),
            new: new.work(),
            other_plans: has_other_plan
                .then(|| [old, new].map(|one| summary(&one.times[slowest].plan))),
        }
    }
}
