//! Queues the requests of a client that the server has not answered yet, in order.
//!
//! There are two queues. [`Step`]s are the messages that the server answers one by one.
//! [`PendingEvent`]s are future events: one for each query, execution, fetch, and statement that was
//! prepared and not executed in the same group. A step has the number of its event, if it has one.
//!
//! An event leaves the queue when it is answered and its boundary is known: at the first answer to
//! another event, or when the server is ready.

mod event;
mod incomplete;

use std::collections::VecDeque;
use std::rc::Rc;

use workload::{Boundary, Sqlstate};

use super::named_objects::{KeptRows, Statement};
pub(super) use event::{
    CopyData, EventRecording, PendingEvent, Preparation, READ_BYTES_MAX, Request,
};

/// A message that the server answers.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Query(u64),
    /// The Parse's own event, or that of the execution that it is part of.
    Parse(u64),
    /// The Bind's own event, if no Execute followed ([`super::unexecuted`]).
    Bind(Option<u64>),
    /// The event that an error of the Describe belongs to, if it is not the next one.
    Describe(DescribeTarget, Option<u64>),
    Execute(u64),
    Close(CloseTarget),
    Function(u64),
    Sync {
        /// Its group has an event, which is not complete before the Sync.
        ends_event: bool,
    },
}

impl Step {
    fn event(&self) -> Option<u64> {
        match self {
            Step::Query(number)
            | Step::Parse(number)
            | Step::Execute(number)
            | Step::Function(number) => Some(*number),
            Step::Bind(_) | Step::Describe(..) | Step::Close(_) | Step::Sync { .. } => None,
        }
    }

    /// The event that its error belongs to, if it is known before an Execute follows.
    fn event_of_error(&self) -> Option<u64> {
        match self {
            Step::Bind(number) | Step::Describe(_, number) => *number,
            step => step.event(),
        }
    }

    /// Returns whether it changes the statement of a name.
    fn changes_name(&self) -> bool {
        matches!(self, Step::Parse(_) | Step::Close(CloseTarget::Statement))
    }

    fn is_sync(&self) -> bool {
        matches!(self, Step::Sync { .. })
    }

    fn ends_in_ready(&self) -> bool {
        self.is_sync() || matches!(self, Step::Query(_) | Step::Function(_))
    }

    /// Returns whether an event waits for its answer.
    fn is_awaited(&self) -> bool {
        let ends_event = matches!(self, Step::Sync { ends_event: true });
        ends_event || self.event().is_some()
    }
}

/// Subject of a Describe.
#[derive(Debug, Clone)]
pub(super) enum DescribeTarget {
    /// `None` if the statement is unknown.
    Statement(Option<Rc<Statement>>),
    Portal,
}

/// Subject of a Close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseTarget {
    Statement,
    Portal,
}

/// COPY data that came before the server asked for it: some clients do not wait.
#[derive(Debug)]
struct EarlyCopyData {
    /// The last event at that time.
    number: u64,
    copy: CopyData,
    /// Number of steps before the end of the data, once the client has sent all of it.
    ended: Option<u64>,
}

/// The unanswered requests of a connection.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    steps: VecDeque<Step>,
    pending: VecDeque<PendingEvent>,
    /// Number of the first element of `pending`.
    first: u64,
    /// Number of the group of messages up to the next Sync.
    pub(super) group: u64,
    /// The server skips messages up to the next Sync.
    skipping: bool,
    /// The error for which it skips them, if its execution has not been requested yet.
    error: Option<Sqlstate>,
    /// The event whose COPY data the server accepts.
    copying: Option<u64>,
    /// Number of answered steps that change the statement of a name.
    name_changes: usize,
    /// Number of steps that events wait for.
    awaited_steps: usize,
    /// The group has an event.
    has_event: bool,
    /// Number of all steps so far.
    step_count: u64,
    /// COPY data that came before the server asked for it.
    early: Option<EarlyCopyData>,
    /// The event answered last, which is held until nothing more can belong to it.
    held_back: Option<u64>,
    /// Time from which the server could process the next request.
    free_us: i64,
}

impl PendingRequests {
    /// The step that the server answers next.
    pub(super) fn next_step(&self) -> Option<&Step> {
        self.steps.front()
    }

    /// The next event that the server will answer.
    pub(super) fn next_unanswered(&mut self) -> Option<&mut PendingEvent> {
        let number = self.steps.iter().find_map(Step::event)?;
        self.get(number)
    }

    /// Destination of the client's COPY data; `None` if nothing requested any.
    pub(super) fn copy_destination(&mut self) -> Option<&mut CopyData> {
        if let Some(number) = self.copying {
            return self.get(number)?.copy.as_deref_mut();
        }
        if self.steps.is_empty() {
            return None;
        }
        // It belongs to the last request, if the server will accept it.
        let number = (self.first + self.pending.len() as u64).checked_sub(1)?;
        let early = self.early.get_or_insert_with(|| EarlyCopyData {
            number,
            copy: CopyData {
                unwanted: self
                    .pending
                    .back()
                    .is_none_or(|last| last.recording != EventRecording::Recorded),
                ..CopyData::default()
            },
            ended: None,
        });
        Some(&mut early.copy)
    }

    /// Returns whether no request waits to become an event.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn get(&mut self, number: u64) -> Option<&mut PendingEvent> {
        let index = number.checked_sub(self.first)?;
        self.pending.get_mut(index as usize)
    }

    /// The event that the server is answering.
    pub(super) fn current_event(&mut self) -> Option<&mut PendingEvent> {
        let number = self.steps.front()?.event()?;
        self.get(number)
    }

    /// Adds a future event and its step. Returns the event's number.
    pub(super) fn add_event(&mut self, mut pending: PendingEvent, step: fn(u64) -> Step) -> u64 {
        let number = self.first + self.pending.len() as u64;
        pending.awaited = self.awaited_steps == 0 && !self.skipping;
        // A Query is complete without a Sync.
        self.has_event |= !matches!(step(number), Step::Query(_));
        if self.skipping {
            pending.answered = true;
            pending.sqlstate = self.error.take();
        } else {
            self.push(step(number));
        }
        self.pending.push_back(pending);
        number
    }

    /// Adds a cancel request, which has no answer.
    pub(super) fn add_cancel(&mut self, mut pending: PendingEvent) {
        pending.answered = true;
        pending.boundary = Boundary::Sync;
        self.pending.push_back(pending);
    }

    /// Returns whether the server skips all messages up to the next Sync.
    pub(super) fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// Returns how many steps that change the statement of a name left the queue since the last call.
    pub(super) fn take_name_changes(&mut self) -> usize {
        std::mem::take(&mut self.name_changes)
    }

    /// Adds a message that is no event.
    pub(super) fn add_step(&mut self, step: Step) {
        if !self.skipping {
            self.push(step);
        }
    }

    fn push(&mut self, step: Step) {
        self.awaited_steps += usize::from(step.is_awaited());
        self.steps.push_back(step);
        self.step_count += 1;
    }

    fn pop(&mut self) -> Option<Step> {
        let step = self.steps.pop_front()?;
        self.name_changes += usize::from(step.changes_name());
        self.awaited_steps -= usize::from(step.is_awaited());
        Some(step)
    }

    /// Makes the Parse of `number` part of the event that executes it.
    pub(super) fn merge_into(&mut self, number: u64, into: u64) {
        let Some(prepared) = self.get(number) else {
            return;
        };
        if prepared.merged_into.is_some() {
            return;
        }
        prepared.merged_into = Some(into);
        let (awaited, sqlstate) = (prepared.awaited, prepared.sqlstate);
        let preparation = prepared.preparation;
        if let Some(into) = self.get(into) {
            into.preparation = preparation;
            into.awaited = awaited;
            into.sqlstate = into.sqlstate.or(sqlstate);
        }
    }

    /// Adds a Sync or Flush.
    pub(super) fn set_boundary(&mut self, boundary: Boundary) {
        if self.copying.is_some() {
            // The server ignores it (54.2.6, COPY Operations).
            return;
        }
        let last = self.pending.iter_mut().rev();
        for pending in last.filter(|pending| pending.is_statement()) {
            if pending.boundary != Boundary::Sync {
                pending.boundary = boundary;
            }
            // The server may accept incomplete messages, which are then no event.
            if !pending.is_dropped() {
                break;
            }
        }
        if boundary == Boundary::Sync {
            self.group += 1;
            self.skipping = false;
            self.error = None;
            let ends_event = std::mem::take(&mut self.has_event);
            self.push(Step::Sync { ends_event });
        }
    }

    /// Takes the step for which `is` holds, which the server has answered. Earlier steps had no
    /// visible answer.
    pub(super) fn take_answered(&mut self, is: fn(&Step) -> bool) -> Option<Step> {
        let index = self.steps.iter().position(is)?;
        // The server answers in order, so earlier steps are complete.
        self.skip_steps(index);
        self.pop()
    }

    /// Removes the first `steps` steps, which had no visible answer.
    fn skip_steps(&mut self, steps: usize) {
        for _ in 0..steps {
            let number = self.pop().and_then(|step| step.event_of_error());
            if let Some(pending) = number.and_then(|number| self.get(number)) {
                pending.answered = true;
            }
        }
    }

    /// Completes the answer to event `number`.
    pub(super) fn complete(&mut self, number: u64, at_us: i64) {
        if let Some(pending) = self.get(number) {
            pending.answered = true;
            pending.done_us = Some(at_us);
            self.held_back = Some(number);
        }
    }

    /// Handles a prepared statement.
    pub(super) fn complete_parse(&mut self, at_us: i64) {
        let Some(Step::Parse(number)) = self.take_answered(|step| matches!(step, Step::Parse(_)))
        else {
            return;
        };
        match self.get(number) {
            Some(pending) if pending.merged_into.is_some() => {
                pending.answered = true;
                self.held_back = None;
            }
            _ => self.complete(number, at_us),
        }
    }

    /// Handles ReadyForQuery: all requests up to here are answered.
    pub(super) fn complete_all(&mut self, at_us: i64) {
        let last = match self.take_answered(Step::ends_in_ready) {
            Some(Step::Query(number) | Step::Function(number)) => Some(number),
            Some(Step::Sync { .. }) => self.held_back,
            _ => None,
        };
        if let Some(number) = last {
            self.complete(number, at_us);
        }
        self.held_back = None;
        self.copying = None;
        self.drop_early();
    }

    /// Drops early COPY data once the requests that could have used it are answered.
    fn drop_early(&mut self) {
        let number = self.early.as_ref().map(|early| early.number);
        if let Some(number) = number
            && self.get(number).is_none_or(|pending| pending.answered)
        {
            self.early = None;
        }
    }

    /// Handles an error: assigns it to a request, and skips up to the next Sync.
    pub(super) fn fail(&mut self, sqlstate: Sqlstate, at_us: i64) -> bool {
        self.copying = None;
        let Some(step) = self.steps.front() else {
            return false;
        };
        let own = match step {
            Step::Sync { .. } => self.held_back,
            step => step.event_of_error(),
        };
        // Any other error of Bind or Describe belongs to the next execution of its group.
        let group = self.steps.iter().take_while(|step| !step.is_sync());
        let number = own.or_else(|| group.filter_map(Step::event_of_error).next());
        let number = number.map(|number| match self.get(number) {
            Some(pending) => pending.merged_into.unwrap_or(number),
            None => number,
        });
        if let Some(number) = number
            && let Some(pending) = self.get(number)
        {
            pending.sqlstate.get_or_insert(sqlstate);
            if let Some((before, boundary)) = pending.follows
                && let Some(before) = self.get(before)
            {
                // Its group continued with this one.
                before.boundary = boundary;
            }
        }
        if self.steps.front().is_some_and(Step::ends_in_ready) {
            return number.is_some();
        }
        if let Some(number) = number {
            self.complete(number, at_us);
        }
        let passed = self.steps.iter().position(Step::is_sync);
        self.skipping = passed.is_none();
        self.error = (number.is_none() && self.skipping).then_some(sqlstate);
        self.skip_steps(passed.unwrap_or(self.steps.len()));
        self.drop_early();
        number.is_some()
    }

    /// Handles the server's request for COPY data.
    pub(super) fn begin_copy(&mut self) {
        let Some(number) = self.steps.front().and_then(Step::event) else {
            return;
        };
        let early = self.early.take().filter(|early| early.number == number);
        let ended = early.as_ref().and_then(|early| early.ended);
        if matches!(self.steps.front(), Some(Step::Execute(_))) {
            // The server reads and ignores a Sync before the end of the data.
            let steps_after = ended.map_or(0, |ended| self.step_count - ended);
            let before = self.steps.len().saturating_sub(steps_after as usize);
            let mut at = 0;
            self.steps.retain(|step| {
                at += 1;
                at == 1 || at > before || !step.is_sync()
            });
            self.awaited_steps = self.steps.iter().filter(|step| step.is_awaited()).count();
            let mut next = self.steps.iter().skip(1);
            let boundary = match next.find(|step| step.is_sync() || step.event().is_some()) {
                Some(Step::Sync { .. }) => Boundary::Sync,
                _ => Boundary::Nothing,
            };
            if let Some(pending) = self.get(number) {
                pending.boundary = boundary;
            }
        }
        if ended.is_none() {
            self.copying = Some(number);
        }
        if let Some(pending) = self.get(number)
            && pending.copy.is_none()
        {
            let unwanted = pending.recording != EventRecording::Recorded;
            pending.copy = Some(Box::new(early.map_or_else(
                || CopyData {
                    unwanted,
                    ..CopyData::default()
                },
                |early| early.copy,
            )));
        }
    }

    /// Handles the end of the client's COPY data.
    pub(super) fn end_copy(&mut self) {
        if let Some(copy) = self.copy_destination() {
            copy.ended = true;
        }
        if self.copying.take().is_none()
            && let Some(early) = &mut self.early
        {
            early.ended.get_or_insert(self.step_count);
        }
    }

    /// Returns the next complete event, with the time from which the server could process it.
    pub(super) fn take_complete(&mut self) -> Option<(PendingEvent, i64)> {
        loop {
            let front = self.pending.front()?;
            if !front.answered || self.held_back == Some(self.first) {
                return None;
            }
            if !front.is_dropped() && self.is_awaiting_boundary() {
                return None;
            }
            let pending = self.take_first()?;
            if !pending.0.is_dropped() {
                return Some(pending);
            }
        }
    }

    /// Returns whether the boundary of the first event is unknown and may still come.
    fn is_awaiting_boundary(&self) -> bool {
        let front = &self.pending[0];
        let mut later = self.pending.iter().skip(1);
        let is_last = !later.any(|later| later.is_statement() && !later.is_dropped());
        // After an error, the server skips everything up to a Sync.
        let is_unknown = match front.boundary {
            Boundary::Nothing => true,
            Boundary::Flush => front.sqlstate.is_some(),
            Boundary::Sync => false,
        };
        is_unknown && front.is_statement() && is_last
    }

    fn take_first(&mut self) -> Option<(PendingEvent, i64)> {
        let pending = self.pending.pop_front()?;
        self.first += 1;
        let begun_us = pending.due_us.max(self.free_us);
        if let Some(done_us) = pending.done_us {
            self.free_us = done_us;
        }
        Some((pending, begun_us))
    }

    /// Sets the time from which the server could process requests: it has answered the start-up at
    /// this time, and earlier requests begin only now.
    pub(super) fn set_free_since(&mut self, at_us: i64) {
        self.free_us = self.free_us.max(at_us);
    }

    pub(super) fn in_progress(&mut self) -> impl Iterator<Item = (&mut PendingEvent, i64)> {
        let free_us = self.free_us;
        self.pending
            .iter_mut()
            .filter(|pending| !pending.is_dropped())
            .map(move |pending| {
                let begun_us = pending.due_us.max(free_us);
                (pending, begun_us)
            })
    }

    /// Removes the next request with its partial answer, since no more of it will come.
    pub(super) fn take_in_progress(&mut self) -> Option<(PendingEvent, i64)> {
        self.steps.clear();
        self.early = None;
        self.copying = None;
        self.held_back = None;
        self.skipping = false;
        (self.awaited_steps, self.has_event) = (0, false);
        loop {
            let pending = self.take_first()?;
            if !pending.0.is_dropped() {
                return Some(pending);
            }
        }
    }
}
