//! Rewrites a workload as if its clients behaved differently, so that a change of the application
//! can be measured before it is written.
//!
//! A [`Rewriter`] receives events in time order and passes on the events to send instead. Sessions
//! keep their order, and every statement is accounted for ([`RewriteAccount`]): unchanged, in
//! another form, merged into a batch, or not sent.
//!
//! The program runs it between a [`workload::WorkloadReader`] and a [`workload::WorkloadWriter`].
//! Memory holds waiting batches, the keys of a simulated cache, and some bytes for each session.
//! There is no grammar of SQL: a statement whose keywords are ambiguous stays unchanged and is
//! counted with the reason.

mod batch;
mod cache_reads;
mod connection_state;
mod insert;
mod inserts_to_copy;
mod literals;
mod numbering;
mod parse;
mod pool_sessions;
mod prepare_statements;
mod session_context;
mod unprepare;

use std::time::Duration;

use batch::Batches;
use cache_reads::ReadCache;
use numbering::Numbering;
use pool_sessions::SessionPooler;
use prepare_statements::StatementPreparer;
use sql::{Fingerprinter, Pattern};
use workload::{Event, RewriteAccount, Session};

/// Transformation of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewrite {
    /// Merges single-row inserts of one shape into inserts of several rows, or COPYs.
    BatchInserts {
        /// Maximum number of rows of a batch.
        rows: u32,
        /// Maximum time that the first row waits for others.
        window: Duration,
        /// Whether batches become `COPY … FROM STDIN` instead of inserts.
        copy: bool,
    },
    /// Drops matching statements.
    Drop(Pattern),
    /// Drops a read that was sent less than this duration before, with the same text and values.
    Cache(Duration),
    /// Prepares simple statements that a session repeats.
    Prepare {
        /// Minimum number of repetitions.
        times: u32,
    },
    /// Turns prepared statements into simple ones, with their values in the text.
    Unprepare,
    /// Lets sessions share connections, each for one transaction.
    Pool {
        /// Maximum number of connections for sessions of one database, user and settings.
        size: u32,
        /// Whether a session takes its previous connection if that is free; otherwise round robin.
        sticky: bool,
    },
}

enum Transformer {
    Batch(Batches),
    Drop(Pattern, Fingerprinter),
    Cache(ReadCache),
    Prepare(StatementPreparer),
    Unprepare,
    Pool(SessionPooler),
}

/// Rewrites a workload; see the module documentation.
pub struct Rewriter {
    transformer: Transformer,
    numbering: Numbering,
    account: RewriteAccount,
}

impl Rewriter {
    /// Creates a rewriter.
    pub fn new(rewriting: &Rewrite) -> Self {
        Rewriter {
            transformer: match rewriting {
                Rewrite::BatchInserts { rows, window, copy } => {
                    Transformer::Batch(Batches::new(*rows, *window, *copy))
                }
                Rewrite::Drop(pattern) => Transformer::Drop(pattern.clone(), Fingerprinter::new()),
                Rewrite::Cache(time) => Transformer::Cache(ReadCache::new(*time)),
                Rewrite::Prepare { times } => Transformer::Prepare(StatementPreparer::new(*times)),
                Rewrite::Unprepare => Transformer::Unprepare,
                Rewrite::Pool { size, sticky } => {
                    Transformer::Pool(SessionPooler::new(*size, *sticky))
                }
            },
            numbering: Numbering::default(),
            account: RewriteAccount::default(),
        }
    }

    /// Returns whether it needs a first pass: each event is then passed to [`Self::survey`] before
    /// any is passed to [`Self::handle_event`].
    pub fn needs_survey(&self) -> bool {
        matches!(
            self.transformer,
            Transformer::Prepare(_) | Transformer::Pool(_)
        )
    }

    /// Records an event of the first pass.
    pub fn survey(&mut self, event: &Event) {
        match &mut self.transformer {
            Transformer::Prepare(preparing) => preparing.survey(event),
            Transformer::Pool(pooling) => pooling.survey(event),
            Transformer::Batch(_)
            | Transformer::Drop(..)
            | Transformer::Cache(_)
            | Transformer::Unprepare => {}
        }
    }

    /// Handles the next event. All events come in time order, and those of a session in their
    /// order.
    ///
    /// # Errors
    /// If `give` fails.
    pub fn handle_event<E>(
        &mut self,
        event: Event,
        give: &mut dyn FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let (account, numbering) = (&mut self.account, &mut self.numbering);
        if event.kind.is_statement() {
            account.statements += 1;
        }
        let mut out = |event: Event| give(numbering.number(event));
        match &mut self.transformer {
            Transformer::Batch(batches) => batches.handle_event(event, account, &mut out),
            Transformer::Drop(pattern, fingerprinter) => {
                let sql = event.kind.sql();
                let is_dropped =
                    sql.is_some_and(|sql| pattern.matches_statement(fingerprinter.normalise(sql)));
                match is_dropped {
                    true => {
                        account.dropped += 1;
                        Ok(())
                    }
                    false => {
                        account.unchanged += u64::from(event.kind.is_statement());
                        out(event)
                    }
                }
            }
            Transformer::Cache(cache) => match cache.is_hit(&event) {
                true => {
                    account.cached += 1;
                    Ok(())
                }
                false => {
                    account.unchanged += u64::from(event.kind.is_statement());
                    out(event)
                }
            },
            Transformer::Prepare(preparing) => {
                let other = preparing.prepare(&event);
                emit_rewritten(event, other, account, &mut out)
            }
            Transformer::Unprepare => {
                let other = unprepare::unprepare(&event);
                emit_rewritten(event, other, account, &mut out)
            }
            Transformer::Pool(pooling) => pooling.handle_event(event, account, &mut out),
        }
    }

    /// Finishes: passes on all waiting events.
    ///
    /// # Errors
    /// If `give` fails.
    pub fn finish<E>(
        &mut self,
        give: &mut dyn FnMut(Event) -> Result<(), E>,
    ) -> Result<RewriteAccount, E> {
        let (account, numbering) = (&mut self.account, &mut self.numbering);
        let mut out = |event: Event| give(numbering.number(event));
        match &mut self.transformer {
            Transformer::Batch(batches) => batches.finish(account, &mut out)?,
            Transformer::Pool(pooling) => pooling.finish(account, &mut out)?,
            Transformer::Drop(..)
            | Transformer::Cache(_)
            | Transformer::Prepare(_)
            | Transformer::Unprepare => {}
        }
        Ok(self.account.clone())
    }

    /// Returns the rewritten record of a session, after all events; `None` if the session no longer
    /// exists. Its times are by the clock of the events.
    pub fn rewrite_session(&self, record: Session) -> Option<Session> {
        let record = match &self.transformer {
            Transformer::Pool(pooling) => pooling.rewrite_session(record)?,
            _ => record,
        };
        Some(Session {
            statements: self.numbering.statements_of(record.id),
            ..record
        })
    }
}

/// Passes on the other form of a statement, if it has one.
fn emit_rewritten<E>(
    event: Event,
    other: Option<Result<Event, insert::Reason>>,
    account: &mut RewriteAccount,
    give: &mut dyn FnMut(Event) -> Result<(), E>,
) -> Result<(), E> {
    match other {
        Some(Ok(other)) => {
            account.reworded += 1;
            give(other)
        }
        other => {
            if let Some(Err(why)) = other {
                *account.left_alone.entry(why.to_owned()).or_default() += 1;
            }
            account.unchanged += u64::from(event.kind.is_statement());
            give(event)
        }
    }
}

#[cfg(test)]
mod tests;
