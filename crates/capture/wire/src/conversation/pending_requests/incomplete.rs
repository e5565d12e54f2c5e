//! Bind and Describe messages without an Execute: future events that are dropped if the server accepts the messages.

use std::rc::Rc;

use workload::{Boundary, MessageSet};

use super::{PendingEvent, PendingRequests, Request, Statement, Step};

impl PendingRequests {
    /// Adds a future event for the last Bind or Describe, if the server may still refuse it or has refused it.
    pub(in super::super) fn add_incomplete(&mut self, mut pending: PendingEvent) {
        let number = self.first + self.pending.len() as u64;
        let group = self
            .steps
            .iter_mut()
            .rev()
            .take_while(|step| !step.is_sync());
        let mut is_unanswered = false;
        for step in group {
            match step {
                Step::Bind(own) | Step::Describe(_, own) if own.is_none() => {
                    *own = Some(number);
                    is_unanswered = true;
                }
                _ => break,
            }
        }
        if !is_unanswered {
            pending.answered = true;
            pending.sqlstate = self.error.take();
            if pending.sqlstate.is_none() {
                return;
            }
        }
        let last = self.pending.iter().enumerate().rev();
        let mut last = last.filter(|(_, before)| before.is_statement() && !before.is_dropped());
        if self.has_event
            && let Some((index, before)) = last.next()
        {
            pending.follows = Some((self.first + index as u64, before.boundary));
        }
        pending.awaited = self.awaited_steps == 0;
        self.pending.push_back(pending);
    }

    /// Returns the event of the last message, if that is a Parse of this statement.
    pub(in super::super) fn parse_of(&self, statement: &Rc<Statement>) -> Option<u64> {
        let last = self.pending.back()?;
        let number = self.first + self.pending.len() as u64 - 1;
        match &last.request {
            Request::Prepare { statement: parsed } if Rc::ptr_eq(parsed, statement) => {
                (last.boundary == Boundary::Nothing).then_some(number)
            }
            _ => None,
        }
    }

    /// Replaces the statement of requests that the server will answer.
    pub(in super::super) fn replace_statement(
        &mut self,
        wrong: &Rc<Statement>,
        right: &Rc<Statement>,
    ) {
        for pending in self.pending.iter_mut().filter(|pending| !pending.answered) {
            match &mut pending.request {
                Request::Execute { statement, .. }
                | Request::Fetch {
                    statement: Some(statement),
                    ..
                } if Rc::ptr_eq(statement, wrong) => *statement = right.clone(),
                _ => (),
            }
        }
    }

    /// Handles the answer to a Bind or Describe, which the server accepted.
    pub(in super::super) fn complete_incomplete(&mut self, is: fn(&Step) -> bool) {
        let Some(Step::Bind(Some(number)) | Step::Describe(_, Some(number))) =
            self.take_answered(is)
        else {
            return;
        };
        if let Some(pending) = self.get(number)
            && pending.messages != MessageSet::Complete
        {
            pending.answered = true;
        }
    }
}
