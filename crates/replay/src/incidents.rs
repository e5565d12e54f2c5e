//! What went wrong with connections, and what was mended: counted where it happens, which is seldom,
//! and told in the run's manifest.

use std::collections::BTreeMap;
use std::sync::Mutex;

use run::RunInfo;
use workload::Sqlstate;

use crate::meter::{Counted, Happening, Happenings};

/// The counts, for all threads.
#[derive(Debug, Default)]
pub(crate) struct Incidents {
    counts: Mutex<Counts>,
    /// What a log should tell.
    pub(crate) happenings: Happenings,
}

#[derive(Debug, Default)]
struct Counts {
    lost: BTreeMap<Sqlstate, u64>,
    reopened: u64,
    tried_again: u64,
    restore_errors: u64,
    cancels_failed: u64,
    cancels_repeated: u64,
    handed_over: u64,
    learnt: u64,
    remapped: u64,
    given_up: Option<String>,
}

impl Incidents {
    /// A connection went that the workload had not ended.
    pub(crate) fn lost(&self, sqlstate: Sqlstate) {
        *self.counts().lost.entry(sqlstate).or_default() += 1;
        self.happenings.tell(Happening::ConnectionLost { sqlstate });
    }

    /// A lost connection was opened again, and its session brought to where it was; so many of the
    /// statements for that failed.
    pub(crate) fn reopened(&self, restore_errors: u64) {
        let mut counts = self.counts();
        counts.reopened += 1;
        counts.restore_errors += restore_errors;
        self.happenings
            .tell(Happening::ConnectionReopened { restore_errors });
    }

    /// Of the statements that brought a connection to where its new session was, so many failed.
    pub(crate) fn restore_errors(&self, count: u64) {
        if count > 0 {
            self.counts().restore_errors += count;
        }
    }

    /// A connection could not be opened, and will be tried again.
    pub(crate) fn tried_again(&self) {
        self.counts().tried_again += 1;
        self.happenings.tell(Happening::ConnectionTriedAgain);
    }

    /// A cancel request did not reach the server.
    pub(crate) fn cancel_failed(&self) {
        self.counts().cancels_failed += 1;
        self.happenings.tell(Happening::CancelFailed);
    }

    /// A cancel request was sent again, since what it was for went on.
    pub(crate) fn cancel_repeated(&self) {
        self.counts().cancels_repeated += 1;
    }

    /// A session took over the connection of another.
    pub(crate) fn handed_over(&self) {
        self.counts().handed_over += 1;
    }

    /// Values that the server made up were learnt.
    pub(crate) fn learnt(&self, count: u64) {
        self.counts().learnt += count;
    }

    /// Parameters were sent with values that were learnt.
    pub(crate) fn remapped(&self, count: u64) {
        self.counts().remapped += count;
    }

    /// The replay ends for this reason, which is the target's.
    pub(crate) fn given_up(&self, reason: String) {
        self.happenings.tell(Happening::GivenUp {
            reason: reason.clone(),
        });
        self.counts().given_up.get_or_insert(reason);
    }

    /// The counts for whoever measures the tool.
    pub(crate) fn counted(&self) -> Vec<Counted> {
        let counts = self.counts();
        [
            (
                "connections_reopened",
                "Lost connections that were opened again.",
                counts.reopened,
            ),
            (
                "connections_tried_again",
                "Connections that could not be opened and were tried again.",
                counts.tried_again,
            ),
            (
                "restore_errors",
                "Statements that failed of those that bring a reopened session to where it was.",
                counts.restore_errors,
            ),
            (
                "cancels_failed",
                "Cancel requests that did not reach the target.",
                counts.cancels_failed,
            ),
            (
                "cancels_repeated",
                "Cancel requests that were sent again, since what they were for went on.",
                counts.cancels_repeated,
            ),
            (
                "connections_handed_over",
                "Connections that another session took over.",
                counts.handed_over,
            ),
        ]
        .map(|(name, help, value)| Counted { name, help, value })
        .into()
    }

    /// Lost connections by SQLSTATE.
    pub(crate) fn lost_by(&self) -> Vec<(String, u64)> {
        self.counts().lost_by().collect()
    }

    /// Writes the counts into a run's manifest.
    pub(crate) fn fill(&self, info: &mut RunInfo) {
        let counts = self.counts();
        info.connections_lost = counts.lost_by().collect();
        info.connections_reopened = counts.reopened;
        info.given_up = counts.given_up.clone();
        let mut note = |name: &str, count: u64| {
            if count > 0 {
                info.options.insert(name.to_owned(), count.to_string());
            }
        };
        note("connections_tried_again", counts.tried_again);
        note("restore_errors", counts.restore_errors);
        note("connections_handed_over", counts.handed_over);
        note("cancels_failed", counts.cancels_failed);
        note("cancels_repeated", counts.cancels_repeated);
        if info.options.contains_key("remap_generated") {
            // None is told, too: it was asked for.
            for (name, count) in [("learnt", counts.learnt), ("remapped", counts.remapped)] {
                info.options.insert(name.to_owned(), count.to_string());
            }
        }
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Counts {
    fn lost_by(&self) -> impl Iterator<Item = (String, u64)> {
        let named = |(sqlstate, count): (&Sqlstate, &u64)| (sqlstate.to_string(), *count);
        self.lost.iter().map(named)
    }
}
