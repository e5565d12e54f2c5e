//! Where a session stands at the server: its transaction, and what it holds outside of one. A new
//! connection is brought there by [`Standing::messages`].
//!
//! Sessions that hold nothing keep nothing: what a statement bears on was read when it was planned.

use pgwire::backend::TransactionStatus;
use pgwire::frontend::{Bind, Parse, Query, tag};
use pgwire::{Format, next_frame};
use workload::rewrite::Held;
use workload::{EventKind, Parameter, Sqlstate};

use crate::encode;
use crate::job::Messages;

/// Where one session stands.
#[derive(Debug)]
pub(crate) struct Standing {
    /// As the server said last.
    pub(crate) transaction: TransactionStatus,
    /// The transaction that the capture has open here went with the connection: what belongs to it
    /// is not sent.
    pub(crate) transaction_lost: bool,
    held: Option<Box<Held>>,
    committed: bool,
}

impl Default for Standing {
    fn default() -> Self {
        Standing {
            transaction: TransactionStatus::Idle,
            transaction_lost: false,
            held: None,
            committed: false,
        }
    }
}

impl Standing {
    /// Of a session that goes on where another replay left it.
    pub(crate) fn left(held: Option<Box<Held>>, transaction_lost: bool) -> Self {
        let mut standing = Standing {
            transaction_lost,
            held,
            ..Standing::default()
        };
        if let Some(held) = &mut standing.held {
            held.transaction_ended(false);
        }
        standing
    }

    pub(crate) fn in_transaction(&self) -> bool {
        self.transaction != TransactionStatus::Idle
    }

    /// A statement was done; its tag.
    #[inline]
    pub(crate) fn command(&mut self, command_tag: &[u8]) {
        if self.held.is_some() {
            match command_tag {
                b"COMMIT" => self.committed = true,
                b"ROLLBACK" => self.committed = false,
                _ => {}
            }
        }
    }

    /// The server is ready for the next one.
    #[inline]
    pub(crate) fn ready(&mut self, transaction: TransactionStatus) {
        self.transaction = transaction;
    }

    /// What was sent has been answered. `bytes` are its messages if it bears on what the session
    /// holds.
    pub(crate) fn answered(
        &mut self,
        bytes: Option<&[u8]>,
        sqlstate: Option<Sqlstate>,
        in_transaction_before: bool,
    ) {
        if let Some(kind) = bytes.and_then(statement) {
            let held = self.held.get_or_insert_default();
            held.take(kind, sqlstate, in_transaction_before);
        }
        if let Some(held) = &mut self.held
            && self.transaction == TransactionStatus::Idle
            && held.waits_for_commit()
        {
            held.transaction_ended(self.committed);
        }
    }

    /// The connection is gone. `begun`: what was in flight would have left a transaction open.
    pub(crate) fn lost(&mut self, begun: bool) {
        self.transaction_lost |= begun || self.in_transaction();
        self.transaction = TransactionStatus::Idle;
        if let Some(held) = &mut self.held {
            held.transaction_ended(false);
        }
    }

    /// Whether its connection can be another session's now, and another connection its.
    pub(crate) fn may_change_connection(&self) -> bool {
        !self.in_transaction()
            && !self
                .held
                .as_ref()
                .is_some_and(|held| held.hangs_on_connection())
    }

    /// What a new connection is to be sent, one statement after the other.
    pub(crate) fn messages(&self) -> Vec<Messages> {
        let held = self.held.iter();
        held.flat_map(|held| held.statements())
            .filter_map(|kind| encode::messages(&kind))
            .collect()
    }
}

/// The statement that messages are of.
fn statement(mut bytes: &[u8]) -> Option<EventKind> {
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
    fn messages_are_read_back_as_the_statement_that_they_are_of() {
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
            assert_eq!(statement(&messages.bytes), Some(kind));
        }
        assert_eq!(statement(b"not messages"), None);
    }

    #[test]
    fn a_session_that_set_something_in_a_committed_transaction_holds_it() {
        let mut standing = Standing::default();
        let set = encode::messages(&EventKind::Simple {
            sql: "set a.b = 1".into(),
        })
        .unwrap();
        for (end, holds) in [(&b"ROLLBACK"[..], 0), (b"COMMIT", 1)] {
            standing.ready(TransactionStatus::InTransaction);
            standing.answered(Some(&set.bytes), None, true);
            standing.command(end);
            standing.ready(TransactionStatus::Idle);
            standing.answered(None, None, true);
            assert_eq!(standing.messages().len(), holds);
        }
        standing.ready(TransactionStatus::InTransaction);
        standing.lost(false);
        assert!(standing.transaction_lost && !standing.in_transaction());
        assert_eq!(standing.messages(), [set]);
    }
}
