//! What clients would have done otherwise: a workload rewritten, so that a change of the application can be
//! measured before it is written.
//!
//! A [`Rewriter`] is pushed events in the order of time and pushes on what is to be sent instead. Sessions keep
//! their order, and every statement that was met is accounted for ([`RewriteAccount`]): it is unchanged,
//! in another form, merged into a batch, or not sent.
//!
//! Who drives: the program, between a [`crate::WorkloadReader`] and a [`crate::WorkloadWriter`]. Memory: what
//! waits for its batch, what a cache would hold, and some bytes for each session. Deliberately
//! absent: a grammar of SQL; what its words do not say plainly is left alone, and counted with its
//! reason.

mod account;
mod batch;
mod cached;
mod given;
mod insert;
mod numbering;
mod standing;

use std::time::Duration;

pub use account::{RewriteAccount, RewriteNote};

use crate::event::Event;
use crate::fingerprint::Fingerprinter;
use crate::rewrite::Pattern;
use batch::Batches;
use cached::Cache;
use numbering::Numbering;

/// How a workload is rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewriting {
    /// Single-row inserts of one shape become inserts of up to so many rows.
    BatchInserts {
        /// The most rows of one.
        rows: u32,
        /// How long the first row waits for others.
        window: Duration,
    },
    /// Statements that match are not sent.
    Drop(Pattern),
    /// A read that was sent so shortly before, with the same text and values, is not sent.
    Cache(Duration),
}

enum Way {
    Batch(Batches),
    Drop(Pattern, Fingerprinter),
    Cache(Cache),
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
                Rewriting::BatchInserts { rows, window } => {
                    Way::Batch(Batches::new(*rows, *window))
                }
                Rewriting::Drop(pattern) => Way::Drop(pattern.clone(), Fingerprinter::new()),
                Rewriting::Cache(time) => Way::Cache(Cache::new(*time)),
            },
            numbering: Numbering::default(),
            account: RewriteAccount::default(),
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
        if let Way::Batch(batches) = &mut self.way {
            batches.finish(account, &mut |event| give(numbering.number(event)))?;
        }
        Ok(self.account.clone())
    }

    /// Statements that a session has now.
    pub fn statements_of(&self, session: u64) -> u64 {
        self.numbering.statements_of(session)
    }
}

#[cfg(test)]
mod tests;
