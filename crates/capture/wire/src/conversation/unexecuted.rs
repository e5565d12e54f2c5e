//! Follows a Bind or Describe until an Execute follows it.
//!
//! A Bind or Describe that the server accepts is no event, since its only effect is the answer. One that it refuses
//! aborts the transaction. If an Execute follows in the same group of messages, the error is that of its event.
//! Otherwise the refused message becomes an event of its own, with an incomplete [`MessageSet`]. Whether the server
//! refuses it may be known only later, so such an event is kept until the answer and dropped if the server accepts.

use std::rc::Rc;

use protocol::frontend::{Describe, Target};
use workload::{MessageSet, Unreplayable};

use super::connection::Connection;
use super::named_objects::{Statement, UnexecutedMessage, UnexecutedRequest, decode_name};
use super::pending_requests::{DescribeTarget, PendingEvent, Request, Step};

impl Connection {
    /// Handles Describe.
    pub(super) fn handle_describe(&mut self, describe: &Describe<'_>, at_us: i64, place: u64) {
        let (target, own, request) = match describe.target {
            Target::Statement(named) => {
                let named = decode_name(named);
                let prepared = self.names.prepared(&named);
                let known = prepared.map(|prepared| prepared.statement.clone());
                let own = (known.as_ref()).and_then(|known| self.requests.parse_of(known));
                let statement = known.clone().unwrap_or_else(|| {
                    let unknown = Statement::unknown(&named, Unreplayable::StatementUnknown);
                    Rc::new(unknown)
                });
                let request = UnexecutedRequest::DescribeStatement { statement };
                (DescribeTarget::Statement(known), own, request)
            }
            Target::Portal(named) => {
                let portal = self.names.portal_name(&decode_name(named));
                let request = UnexecutedRequest::DescribePortal { portal };
                (DescribeTarget::Portal, None, request)
            }
        };
        let is_part = match (&self.unexecuted, &request) {
            (
                Some(UnexecutedMessage {
                    request: UnexecutedRequest::Bind { portal: bound },
                    ..
                }),
                UnexecutedRequest::DescribePortal { portal },
            ) => bound == portal,
            _ => own.is_some(),
        };
        if !is_part {
            self.end_unexecuted();
            self.unexecuted = Some(UnexecutedMessage {
                request,
                at_us,
                place,
            });
        }
        self.requests.add_step(Step::Describe(target, own));
    }

    /// Handles the beginning of a Bind: an error of a Describe before it belongs to the execution after both.
    pub(super) fn begin_bind(&mut self) {
        match self.unexecuted.as_ref().map(|last| &last.request) {
            Some(UnexecutedRequest::Bind { .. }) => self.end_unexecuted(),
            _ => self.unexecuted = None,
        }
    }

    /// Handles an Execute of this portal.
    pub(super) fn execute_unexecuted(&mut self, executed: &str) {
        match self.unexecuted.as_ref().map(|last| &last.request) {
            Some(UnexecutedRequest::Bind { portal }) if **portal != *executed => {
                self.end_unexecuted();
            }
            _ => self.unexecuted = None,
        }
    }

    /// Handles another message after a Bind or Describe: it becomes an event, if the server refuses it.
    pub(super) fn end_unexecuted(&mut self) {
        let Some(last) = self.unexecuted.take() else {
            return;
        };
        let (at_us, place) = (last.at_us, last.place);
        let pending = match last.request {
            UnexecutedRequest::Bind { portal: name } => {
                let Some(portal) = self.names.portal(&name) else {
                    return;
                };
                let unreplayable = portal.unreplayable;
                let result_formats = Some(portal.result_formats.clone());
                let request = Request::Execute {
                    statement: portal.statement.clone(),
                    portal: name,
                    parameters: portal.parameters.clone().unwrap_or_default(),
                };
                PendingEvent {
                    result_formats,
                    unreplayable,
                    messages: MessageSet::Bind,
                    ..self.new_event(request, at_us, place)
                }
            }
            UnexecutedRequest::DescribeStatement { statement } => PendingEvent {
                unreplayable: statement.unreplayable,
                messages: MessageSet::Describe,
                ..self.new_event(Request::Prepare { statement }, at_us, place)
            },
            UnexecutedRequest::DescribePortal { portal } => {
                let statement = self.names.portal(&portal);
                let statement = statement.map(|portal| portal.statement.clone());
                PendingEvent {
                    messages: MessageSet::Describe,
                    ..self.new_event(Request::Fetch { statement, portal }, at_us, place)
                }
            }
        };
        self.requests.add_incomplete(pending);
    }
}
