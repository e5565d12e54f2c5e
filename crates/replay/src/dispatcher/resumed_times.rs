//! Due times of the events that a run to resume has not completed.

use workload::Event;

use super::LEAD_NS;
use super::due_shift::DueShift;
use crate::paused_clock::PausedClock;
use crate::resume::PreviousRun;

/// Due times after the end of a previous run, whose clock is paused while its events are skipped.
pub(super) struct ResumedTimes<'d> {
    previous: &'d PreviousRun,
    clock: &'d PausedClock,
    start_ns: i64,
    clock_is_paused: bool,
    shift_is_set: bool,
}

impl<'d> ResumedTimes<'d> {
    pub(super) fn new(previous: &'d PreviousRun, clock: &'d PausedClock, start_ns: i64) -> Self {
        ResumedTimes {
            previous,
            clock,
            start_ns,
            clock_is_paused: true,
            shift_is_set: false,
        }
    }

    /// Returns the due time of the next event that is not skipped. Time resumes at the end of the previous run, or when
    /// the first remaining event is due. Repeated events are due at once.
    pub(super) fn due_ns(
        &mut self,
        event: &Event,
        captured_due_ns: i64,
        shift: &mut DueShift,
    ) -> i64 {
        let due_ns = if self.previous.is_repeated(event) {
            self.previous.elapsed_ns()
        } else {
            if !std::mem::replace(&mut self.shift_is_set, true) {
                shift.not_before(captured_due_ns, self.previous.elapsed_ns());
            }
            shift.shifted(captured_due_ns)
        };
        if std::mem::take(&mut self.clock_is_paused) {
            self.clock.resume_at(self.start_ns + due_ns - LEAD_NS);
        }
        due_ns
    }
}
