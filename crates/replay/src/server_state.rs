//! State of a session at the server: its transaction, and the state that a new connection must be given.
//!
//! It wraps the workload's [`SessionState`], and the server decides instead of the workload: the status of the
//! transaction comes from ReadyForQuery, COMMIT or ROLLBACK from the command tag, and the statements from the messages
//! that were sent. A statement may fail here that succeeded in the capture, and values may be remapped.

use protocol::backend::TransactionStatus;
use protocol::frontend::{Bind, Parse, Query, tag};
use protocol::{Format, next_frame};
use workload::{EventKind, Parameter, SessionState, Sqlstate};

use crate::encode;
use crate::job::Messages;

/// State of one session at the server.
#[derive(Debug)]
pub(crate) struct ServerState {
    /// The status that the server reported last.
    pub(crate) transaction: TransactionStatus,
    /// The captured transaction that is open here was lost with the connection: its statements are not sent.
    pub(crate) transaction_lost: bool,
    state: SessionState,
}

impl Default for ServerState {
    fn default() -> Self {
        ServerState {
            transaction: TransactionStatus::Idle,
            transaction_lost: false,
            state: SessionState::default(),
        }
    }
}

impl ServerState {
    /// Creates the state of a session that continues where another replay left it.
    pub(crate) fn resumed(mut state: SessionState, transaction_lost: bool) -> Self {
        state.roll_back();
        ServerState {
            transaction_lost,
            state,
            ..ServerState::default()
        }
    }

    pub(crate) fn in_transaction(&self) -> bool {
        self.transaction != TransactionStatus::Idle
    }

    /// Takes the tag of a completed command.
    #[inline]
    pub(crate) fn command_complete(&mut self, command_tag: &[u8]) {
        self.state.command_complete(command_tag);
    }

    /// Takes the status of the transaction when the server is ready for the next statement.
    #[inline]
    pub(crate) fn ready(&mut self, transaction: TransactionStatus) {
        self.transaction = transaction;
    }

    /// Records an answered statement. `messages` are its bytes, if its effect changes the session's state.
    pub(crate) fn answered(
        &mut self,
        messages: Option<&[u8]>,
        sqlstate: Option<Sqlstate>,
        in_transaction_before: bool,
    ) {
        if let Some(kind) = messages.and_then(decode_statement) {
            self.state.record(kind, sqlstate, in_transaction_before);
        }
        if self.transaction == TransactionStatus::Idle {
            self.state.idle();
        }
    }

    /// The connection was lost. `begun`: the statements in flight would have left a transaction open.
    pub(crate) fn lost(&mut self, begun: bool) {
        self.transaction_lost |= begun || self.in_transaction();
        self.transaction = TransactionStatus::Idle;
        self.state.roll_back();
    }

    /// Whether the session can continue on another connection.
    pub(crate) fn may_change_connection(&self) -> bool {
        !self.in_transaction() && !self.state.is_bound_to_connection()
    }

    /// Encodes the statements that restore the state on a new connection.
    pub(crate) fn restoring_messages(&self) -> Vec<Messages> {
        let statements = self.state.restoring_statements().into_iter();
        statements
            .filter_map(|kind| encode::messages(&kind))
            .collect()
    }
}

/// Decodes messages into the statement that they were encoded from.
fn decode_statement(mut bytes: &[u8]) -> Option<EventKind> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut parsed = None;
    while let Ok(Some(frame)) = next_frame(bytes, bytes.len()) {
        match frame.tag {
            tag::QUERY => {
                let sql = text(Query::decode(frame.body).ok()?.sql).into();
                return Some(EventKind::Simple { sql });
            }
            tag::PARSE => {
                let parse = Parse::decode(frame.body).ok()?;
                parsed = Some((text(parse.statement), text(parse.sql)));
            }
            tag::BIND => {
                let bind = Bind::decode(frame.body).ok()?;
                let (statement, sql) = parsed?;
                return Some(EventKind::Execute {
                    statement: statement.into(),
                    portal: text(bind.portal).into(),
                    sql: sql.into(),
                    parameters: bind
                        .parameters
                        .iter()
                        .enumerate()
                        .map(|(place, value)| {
                            let is_binary =
                                bind.parameter_formats.of(place) == Some(Format::Binary);
                            value.map(|value| match is_binary {
                                true => Parameter::from(value),
                                false => Parameter::from(text(value)),
                            })
                        })
                        .collect(),
                });
            }
            _ => {}
        }
        bytes = &bytes[frame.message_bytes()..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_statement_returns_the_statement_that_was_encoded() {
        let kinds = [
            EventKind::Simple {
                sql: "set a.b = 'ü'".into(),
            },
            EventKind::Execute {
                statement: "s".into(),
                portal: "".into(),
                sql: "select set_config($1, $2, false)".into(),
                parameters: vec![Some("a.b".into()), None],
            },
        ];
        for kind in kinds {
            let messages = encode::messages(&kind).unwrap();
            assert_eq!(decode_statement(&messages.bytes), Some(kind));
        }
        assert_eq!(decode_statement(b"not messages"), None);
    }

    #[test]
    fn server_state_keeps_a_setting_of_a_committed_transaction_only() {
        let mut state = ServerState::default();
        let set = encode::messages(&EventKind::Simple {
            sql: "set a.b = 1".into(),
        })
        .unwrap();
        for (end, holds) in [(&b"ROLLBACK"[..], 0), (b"COMMIT", 1)] {
            state.ready(TransactionStatus::InTransaction);
            state.answered(Some(&set.bytes), None, true);
            state.command_complete(end);
            state.ready(TransactionStatus::Idle);
            state.answered(None, None, true);
            assert_eq!(state.restoring_messages().len(), holds);
        }
        state.ready(TransactionStatus::InTransaction);
        state.lost(false);
        assert!(state.transaction_lost && !state.in_transaction());
        assert_eq!(state.restoring_messages(), [set]);
    }
}
