//! Where a session stands, as the statements that lead there.
//!
//! Outside of a transaction these are the [`Items`]. Inside of one it is every statement since its
//! beginning, too; what they did reaches the items when the transaction ends, or does not, if it is
//! rolled back.

use std::sync::Arc;

use super::effects::Effect;
use super::items::Items;
use super::parts::Part;
use crate::event::{Event, EventKind};

/// The most statements of one open transaction that are held.
const TRANSACTION_EVENTS_MAX: usize = 10_000;
/// The most bytes of SQL and parameters that are held of one open transaction.
const TRANSACTION_BYTES_MAX: usize = 4 << 20;

/// What a statement did, until its transaction ends.
#[derive(Debug, Clone)]
struct Staged {
    effects: Vec<Effect>,
    event: Event,
}

/// A transaction that is open.
#[derive(Debug, Clone, Default)]
struct Transaction {
    /// That of a text with several statements, without a BEGIN.
    implicit: bool,
    failed: bool,
    /// What began it.
    begin: Option<Event>,
    /// What was held of it, and not yet given out.
    held: Vec<Event>,
    held_bytes: usize,
    staged: Vec<Staged>,
    savepoints: Vec<(String, usize)>,
    /// The slice has its beginning: what follows need not be held.
    given_out: bool,
}

/// One session's state. See the module's text.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionState {
    items: Items,
    transaction: Option<Transaction>,
    /// The slice has the session: only its transactions are followed.
    given_out: bool,
    /// Something was too much to hold.
    cut: bool,
}

/// What is given out of a state: the statements that lead to it.
pub(super) struct Leading {
    pub(super) events: Vec<Event>,
    pub(super) transaction: bool,
    pub(super) temporary_objects: u64,
    pub(super) cut: bool,
}

/// One statement of an event, with what it does.
pub(super) struct Step<'a> {
    pub(super) part: Part<'a>,
    pub(super) effects: Vec<Effect>,
}

impl SessionState {
    /// Whether a statement does something that the session holds.
    pub(super) fn carries(&self, effects: &[Effect]) -> bool {
        self.items.carries(effects)
    }

    /// Takes in an event that is a statement. `holds` says which of its parts lead to the state
    /// that a transaction has, as far as the slice goes.
    pub(super) fn take(
        &mut self,
        event: &Event,
        steps: &[Step<'_>],
        holds: impl Fn(usize) -> bool,
    ) {
        let failed = event.outcome.sqlstate.is_some();
        let ends = |step: &Step<'_>| {
            matches!(
                step.effects[..],
                [Effect::Commit { .. } | Effect::Rollback { .. }]
            )
        };
        // Which one of several failed is in no log. The last, most likely, but for what ends
        // transactions, which hardly ever fails; what stands behind it was not done.
        let failing = steps
            .iter()
            .rposition(|step| !ends(step))
            .unwrap_or(steps.len().saturating_sub(1));
        for (place, step) in steps.iter().enumerate() {
            if failed && place > failing {
                break;
            }
            let failed = failed && place == failing;
            self.step(event, step, steps.len() > 1, failed, holds(place));
        }
        if self.transaction.as_ref().is_some_and(|open| open.implicit) {
            self.end(!failed);
        }
    }

    fn step(
        &mut self,
        event: &Event,
        step: &Step<'_>,
        is_one_of_several: bool,
        failed: bool,
        holds: bool,
    ) {
        let held = || part_of(event, &step.part, is_one_of_several);
        if failed && let Some(open) = &mut self.transaction {
            open.failed = true;
        }
        if let [Effect::Commit { chain } | Effect::Rollback { chain }] = step.effects[..] {
            let commits = matches!(step.effects[0], Effect::Commit { .. });
            let Some(open) = &self.transaction else {
                return;
            };
            let (begin, given_out) = (open.begin.clone(), open.given_out);
            self.end(commits && !open.failed);
            if let (true, false, Some(begin)) = (chain, failed, begin) {
                // It begins the next one: with the text that began the last.
                let begin = Event {
                    kind: begin.kind,
                    ..event.clone()
                };
                self.transaction = Some(Transaction {
                    held: if given_out {
                        Vec::new()
                    } else {
                        vec![begin.clone()]
                    },
                    begin: Some(begin),
                    given_out,
                    ..Transaction::default()
                });
            }
            return;
        }
        if self.transaction.is_none() {
            let begins = step.effects.first() == Some(&Effect::Begin);
            if !begins && !is_one_of_several {
                if !failed && !step.effects.is_empty() {
                    self.items.apply(&step.effects, held());
                }
                return;
            }
            if failed && begins {
                return;
            }
            self.transaction = Some(Transaction {
                implicit: true,
                given_out: false,
                ..Transaction::default()
            });
        }
        let given_out = self.given_out;
        let open = self.transaction.as_mut().expect("just begun");
        match step.effects.first() {
            Some(Effect::Begin) => {
                open.implicit = false;
                open.begin.get_or_insert_with(held);
            }
            Some(Effect::Savepoint(name)) if !failed => {
                open.savepoints.push((name.clone(), open.staged.len()));
            }
            Some(Effect::Release(name)) if !failed => {
                if let Some(at) = open.savepoint(name) {
                    open.savepoints.truncate(at);
                }
            }
            Some(Effect::RollbackTo(name)) if !failed => {
                if let Some(at) = open.savepoint(name) {
                    open.savepoints.truncate(at + 1);
                    let from = open.savepoints[at].1;
                    let undone = open.staged.split_off(from);
                    open.staged
                        .extend(undone.into_iter().filter_map(without_transactional));
                    open.failed = false;
                }
            }
            // A given-out session needs no more than its temporary names.
            Some(_)
                if !failed
                    && !open.failed
                    && !step.effects.iter().all(Effect::is_of_transaction) =>
            {
                self.items.will_be_temporary(&step.effects);
                let mut event = held();
                if given_out {
                    event.kind = EventKind::Cancel;
                }
                if open.staged.len() < TRANSACTION_EVENTS_MAX {
                    open.staged.push(Staged {
                        effects: step.effects.clone(),
                        event,
                    });
                } else {
                    self.cut = true;
                }
            }
            _ => {}
        }
        if !open.given_out && holds {
            let event = held();
            let bytes = open.held_bytes + bytes_of(&event);
            let is_full =
                open.held.len() >= TRANSACTION_EVENTS_MAX || bytes > TRANSACTION_BYTES_MAX;
            // What carries state is held as long as the list is not twice as long.
            let carries = !step.effects.is_empty()
                && open.held.len() < 2 * TRANSACTION_EVENTS_MAX
                && bytes < 2 * TRANSACTION_BYTES_MAX;
            if is_full && !carries {
                self.cut = true;
            } else {
                open.held_bytes = bytes;
                open.held.push(event);
            }
        }
    }

    /// What is held outside of transactions.
    pub(super) fn items(&self) -> &Items {
        &self.items
    }

    /// Whether a transaction is open.
    pub(super) fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether a transaction is open of which the slice has something.
    pub(super) fn in_kept_transaction(&self) -> bool {
        self.transaction.as_ref().is_some_and(|open| open.given_out)
    }

    /// Whether it is the failure that makes the open transaction's COMMIT a ROLLBACK.
    pub(super) fn fails_transaction(&self, event: &Event) -> bool {
        event.outcome.sqlstate.is_some()
            && self
                .transaction
                .as_ref()
                .is_some_and(|open| !open.failed && !open.implicit)
    }

    /// Whether much is held of the open transaction.
    pub(super) fn holds_much(&self) -> bool {
        self.transaction.as_ref().is_some_and(|open| {
            open.held.len() >= TRANSACTION_EVENTS_MAX / 10
                || open.held_bytes >= TRANSACTION_BYTES_MAX / 10
        })
    }

    /// An execution by message carries the text of this name: it need not be prepared before.
    pub(super) fn executed(&mut self, name: &str) {
        self.items.executed(name);
    }

    /// The open transaction is in the slice from here on; hands out what was held of it.
    pub(super) fn give_out_transaction(&mut self) -> Vec<Event> {
        let Some(open) = &mut self.transaction else {
            return Vec::new();
        };
        open.given_out = true;
        open.held_bytes = 0;
        joined(std::mem::take(&mut open.held))
    }

    /// The session is in the slice from here on; hands out what leads to its state.
    pub(super) fn give_out(&mut self) -> Leading {
        self.given_out = true;
        let (mut events, items_cut) = self.items.give_out();
        if let Some(open) = &self.transaction
            && let (Some(last), Some(first)) = (events.last_mut(), open.held.first())
            && last.sequence == first.sequence
            && let EventKind::Simple { sql } = &mut last.kind
        {
            // One text ended a transaction and began the next: the two are apart in it.
            *sql = format!("{sql}; commit").into();
        }
        let transaction = self.transaction.as_mut().is_some_and(|open| {
            open.given_out = true;
            events.append(&mut open.held);
            !open.implicit
        });
        Leading {
            events: joined(events),
            transaction,
            temporary_objects: self.items.temporary_objects(),
            cut: std::mem::take(&mut self.cut) || items_cut,
        }
    }

    /// The open transaction ends, if there is one.
    pub(super) fn end(&mut self, commits: bool) {
        let Some(open) = self.transaction.take() else {
            return;
        };
        for staged in open.staged {
            let done = match commits {
                true => Some(staged),
                false => without_transactional(staged),
            };
            if let Some(Staged { effects, event }) = done {
                self.items.apply(&effects, event);
            }
        }
        if !commits {
            self.items.rolled_back();
        }
    }
}

impl Transaction {
    fn savepoint(&self, name: &str) -> Option<usize> {
        self.savepoints.iter().rposition(|(this, _)| this == name)
    }
}

fn without_transactional(staged: Staged) -> Option<Staged> {
    let effects: Vec<Effect> = staged
        .effects
        .into_iter()
        .filter(|effect| !effect.is_transactional())
        .collect();
    (!effects.is_empty()).then_some(Staged {
        effects,
        event: staged.event,
    })
}

/// The event, with this one of its statements alone.
pub(super) fn part_of(event: &Event, part: &Part<'_>, is_one_of_several: bool) -> Event {
    let mut event = event.clone();
    if let (true, EventKind::Simple { sql }) = (is_one_of_several, &mut event.kind) {
        *sql = Arc::from(part.text);
    }
    event
}

/// Statements of one event, which follow each other, are one text again.
pub(super) fn joined(events: Vec<Event>) -> Vec<Event> {
    let mut joined: Vec<Event> = Vec::with_capacity(events.len());
    for event in events {
        if let Some(last) = joined.last_mut()
            && last.sequence == event.sequence
            && let (EventKind::Simple { sql: before }, EventKind::Simple { sql }) =
                (&mut last.kind, &event.kind)
        {
            *before = format!("{before}; {sql}").into();
            continue;
        }
        joined.push(event);
    }
    joined
}

/// About what an event takes in memory.
pub(super) fn bytes_of(event: &Event) -> usize {
    let values = match &event.kind {
        EventKind::Execute { parameters, .. } => parameters
            .iter()
            .map(|value| 16 + value.as_ref().map_or(0, |value| value.as_bytes().len()))
            .sum(),
        _ => 0,
    };
    let particulars = event.particulars.as_ref();
    let values = values + particulars.map_or(0, |particulars| particulars.bytes());
    size_of::<Event>() + event.kind.sql().map_or(0, |sql| sql.len()) + values
}
