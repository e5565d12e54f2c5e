//! What clients would have done otherwise: a workload rewritten, so that a change of the application can be
//! measured before it is written.
//!
//! A [`Rewriter`] is pushed events in the order of time and pushes on what is to be sent instead. Sessions keep
//! their order, and every statement that was met is accounted for ([`RewriteAccount`]): it is unchanged,
//! in another form, merged into a batch, or not sent.
//!
//! Who drives: the program, between a [`workload::WorkloadReader`] and a [`workload::WorkloadWriter`]. Memory: what
//! waits for its batch, what a cache would hold, and some bytes for each session. Deliberately
//! absent: a grammar of SQL; what its words do not say plainly is left alone, and counted with its
//! reason.

mod batch;
mod cached;
mod connection_state;
mod copied;
mod given;
mod insert;
mod literals;
mod numbering;
mod pooled;
mod prepared;
mod session_context;
mod unprepared;

use std::time::Duration;

use batch::Batches;
use cached::Cache;
use numbering::Numbering;
use pooled::Pooling;
use prepared::Preparing;
use sql::{Fingerprinter, Pattern};
use workload::{Event, RewriteAccount, Session};

/// How a workload is rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewriting {
    /// Single-row inserts of one shape become inserts of up to so many rows, or COPYs.
    BatchInserts {
        /// The most rows of one.
        rows: u32,
        /// How long the first row waits for others.
        window: Duration,
        /// They become `COPY … FROM STDIN`, and not inserts.
        copy: bool,
    },
    /// Statements that match are not sent.
    Drop(Pattern),
    /// A read that was sent so shortly before, with the same text and values, is not sent.
    Cache(Duration),
    /// Simple statements that a session sends so often or more become prepared ones.
    Prepare {
        /// From so many on.
        times: u32,
    },
    /// Prepared statements become simple ones, with their values in the text.
    Unprepare,
    /// Sessions share so many connections, each for a transaction.
    Pool {
        /// The most connections of sessions of one database, user and settings.
        size: u32,
        /// A session takes the connection that it had last, where that is free; otherwise they go round.
        sticky: bool,
    },
}

enum Way {
    Batch(Batches),
    Drop(Pattern, Fingerprinter),
    Cache(Cache),
    Prepare(Preparing),
    Unprepare,
    Pool(Pooling),
}

/// Rewrites. See the module's text.
pub struct Rewriter {
    way: Way,
    numbering: Numbering,
    account: RewriteAccount,
}

impl Rewriter {
    /// One that does this.
    pub fn new(rewriting: &Rewriting) -> Self {
        Rewriter {
            way: match rewriting {
                Rewriting::BatchInserts { rows, window, copy } => {
                    Way::Batch(Batches::new(*rows, *window, *copy))
                }
                Rewriting::Drop(pattern) => Way::Drop(pattern.clone(), Fingerprinter::new()),
                Rewriting::Cache(time) => Way::Cache(Cache::new(*time)),
                Rewriting::Prepare { times } => Way::Prepare(Preparing::new(*times)),
                Rewriting::Unprepare => Way::Unprepare,
                Rewriting::Pool { size, sticky } => Way::Pool(Pooling::new(*size, *sticky)),
            },
            numbering: Numbering::default(),
            account: RewriteAccount::default(),
        }
    }

    /// Whether it has to see all events first: each is then given to [`Self::survey`] before any to
    /// [`Self::event`].
    pub fn surveys(&self) -> bool {
        matches!(self.way, Way::Prepare(_) | Way::Pool(_))
    }

    /// Takes note of an event of the first pass.
    pub fn survey(&mut self, event: &Event) {
        match &mut self.way {
            Way::Prepare(preparing) => preparing.survey(event),
            Way::Pool(pooling) => pooling.survey(event),
            Way::Batch(_) | Way::Drop(..) | Way::Cache(_) | Way::Unprepare => {}
        }
    }

    /// Takes the next event; those of a session come in their order, and all in the order of time.
    ///
    /// # Errors
    /// Where `give` fails.
    pub fn event<E>(
        &mut self,
        event: Event,
        give: &mut dyn FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let (account, numbering) = (&mut self.account, &mut self.numbering);
        if event.kind.is_statement() {
            account.statements += 1;
        }
        let mut out = |event: Event| give(numbering.number(event));
        match &mut self.way {
            Way::Batch(batches) => batches.event(event, account, &mut out),
            Way::Drop(pattern, fingerprinter) => {
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
            Way::Cache(cache) => match cache.answers(&event) {
                true => {
                    account.cached += 1;
                    Ok(())
                }
                false => {
                    account.unchanged += u64::from(event.kind.is_statement());
                    out(event)
                }
            },
            Way::Prepare(preparing) => {
                let other = preparing.prepared(&event);
                reworded(event, other, account, &mut out)
            }
            Way::Unprepare => {
                let other = unprepared::unprepared(&event);
                reworded(event, other, account, &mut out)
            }
            Way::Pool(pooling) => pooling.event(event, account, &mut out),
        }
    }

    /// No event is left: what waits is given.
    ///
    /// # Errors
    /// Where `give` fails.
    pub fn finish<E>(
        &mut self,
        give: &mut dyn FnMut(Event) -> Result<(), E>,
    ) -> Result<RewriteAccount, E> {
        let (account, numbering) = (&mut self.account, &mut self.numbering);
        let mut out = |event: Event| give(numbering.number(event));
        match &mut self.way {
            Way::Batch(batches) => batches.finish(account, &mut out)?,
            Way::Pool(pooling) => pooling.finish(account, &mut out)?,
            Way::Drop(..) | Way::Cache(_) | Way::Prepare(_) | Way::Unprepare => {}
        }
        Ok(self.account.clone())
    }

    /// The record of a session as it is now, when all events were given; `None` where there is no such session any
    /// more. Its times are by the clock of the events.
    pub fn session(&self, record: Session) -> Option<Session> {
        let record = match &self.way {
            Way::Pool(pooling) => pooling.session(record)?,
            _ => record,
        };
        Some(Session {
            statements: self.numbering.statements_of(record.id),
            ..record
        })
    }
}

/// Gives the other form of a statement, if it has one.
fn reworded<E>(
    event: Event,
    other: Option<Result<Event, insert::Why>>,
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
