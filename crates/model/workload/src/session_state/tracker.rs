//! Session state as the statements that restore it, with transactions and savepoints.
//!
//! Outside of a transaction these are the statements that made the [`SessionObjects`]. In a transaction,
//! effects are staged until it ends, and a rollback drops the effects that it undoes. For a slice, the
//! statements since the start of the transaction are retained as well.

use std::sync::Arc;

use super::objects::SessionObjects;
use crate::event::{Event, EventKind};
use sql::{Effect, SqlStatement, may_have_effects, read_effects, split_statements};

/// Maximum number of retained statements of one open transaction.
const TRANSACTION_EVENTS_MAX: usize = 10_000;
/// Maximum bytes of SQL and parameters retained of one open transaction.
const TRANSACTION_BYTES_MAX: usize = 4 << 20;

/// Effects of a statement whose transaction is still open.
#[derive(Debug, Clone)]
struct Staged {
    effects: Vec<Effect>,
    event: Event,
}

/// An open transaction.
#[derive(Debug, Clone, Default)]
struct Transaction {
    /// The implicit transaction of a text with several statements and no BEGIN.
    implicit: bool,
    failed: bool,
    /// The statement that began it.
    begin: Option<Event>,
    /// Retained statements that were not taken yet.
    retained: Vec<Event>,
    retained_bytes: usize,
    staged: Vec<Staged>,
    staged_bytes: usize,
    /// Names of savepoints, with the number of effects staged before each.
    savepoints: Vec<(String, usize)>,
    /// The retained statements were taken; later ones are not retained.
    is_taken: bool,
}

/// Follows the state of one session through its transactions.
#[derive(Debug, Clone, Default)]
pub struct SessionStateTracker {
    objects: SessionObjects,
    transaction: Option<Transaction>,
    /// The statements were taken. Only transactions are followed since.
    is_taken: bool,
    /// Statements were dropped because of the limits.
    is_truncated: bool,
}

/// Statements that restore the state of a session, with its open transaction.
#[derive(Debug)]
pub struct RestoringStatements {
    /// The statements, in their order.
    pub events: Vec<Event>,
    /// They leave a transaction block open.
    pub in_transaction: bool,
    /// Number of temporary objects. They are recreated without their rows.
    pub temporary_objects: u64,
    /// Statements were dropped because of the limits.
    pub is_truncated: bool,
}

/// One statement of an event, with its effects.
#[derive(Debug)]
pub struct AnalyzedStatement<'a> {
    /// The statement.
    pub statement: SqlStatement<'a>,
    /// Its effects, in their order.
    pub effects: Vec<Effect>,
}

impl SessionStateTracker {
    /// Whether these effects change something that the session keeps, or its transaction.
    pub fn is_changed_by(&self, effects: &[Effect]) -> bool {
        self.objects.are_changed_by(effects)
    }

    /// Records an event with its statements. `retain` selects, by index, the statements that a slice needs to
    /// restore the open transaction.
    pub fn record(
        &mut self,
        event: &Event,
        statements: &[AnalyzedStatement<'_>],
        retain: impl Fn(usize) -> bool,
    ) {
        let failed = event.outcome.sqlstate.is_some();
        let ends = |one: &AnalyzedStatement<'_>| {
            matches!(
                one.effects[..],
                [Effect::Commit { .. } | Effect::Rollback { .. }]
            )
        };
        // A log does not say which of several statements failed. It is most likely the last that does not end
        // a transaction. The statements after it were not executed.
        let failing = statements
            .iter()
            .rposition(|one| !ends(one))
            .unwrap_or(statements.len().saturating_sub(1));
        for (index, one) in statements.iter().enumerate() {
            if failed && index > failing {
                break;
            }
            let recorded = Recorded {
                event,
                one,
                is_one_of_several: statements.len() > 1,
                failed: failed && index == failing,
            };
            self.record_statement(&recorded, retain(index));
        }
        if self.transaction.as_ref().is_some_and(|open| open.implicit) {
            self.end(!failed);
        }
    }

    fn record_statement(&mut self, recorded: &Recorded<'_>, retain: bool) {
        let effects = &recorded.one.effects[..];
        if recorded.failed
            && let Some(open) = &mut self.transaction
        {
            open.failed = true;
        }
        if let [Effect::Commit { chain } | Effect::Rollback { chain }] = *effects {
            let commits = matches!(effects[0], Effect::Commit { .. });
            self.end_statement(recorded, commits, chain);
            return;
        }
        if self.transaction.is_none() {
            let begins = effects.first() == Some(&Effect::Begin);
            if !begins && !recorded.is_one_of_several {
                if !recorded.failed && !effects.is_empty() {
                    self.objects.apply(effects, recorded.event());
                }
                return;
            }
            if recorded.failed && begins {
                return;
            }
            self.transaction = Some(Transaction {
                implicit: true,
                ..Transaction::default()
            });
        }
        self.stage(recorded);
        if retain {
            self.retain(recorded);
        }
    }

    /// Records a COMMIT or ROLLBACK.
    fn end_statement(&mut self, recorded: &Recorded<'_>, commits: bool, chain: bool) {
        let Some(open) = &self.transaction else {
            return;
        };
        let (begin, is_taken) = (open.begin.clone(), open.is_taken);
        self.end(commits && !open.failed);
        if let (true, false, Some(begin)) = (chain, recorded.failed, begin) {
            // It begins the next transaction, with the text that began the last.
            let begin = Event {
                kind: begin.kind,
                ..recorded.event.clone()
            };
            self.transaction = Some(Transaction {
                retained: (!is_taken).then(|| begin.clone()).into_iter().collect(),
                begin: Some(begin),
                is_taken,
                ..Transaction::default()
            });
        }
    }

    /// Stages the effects of a statement in the open transaction.
    fn stage(&mut self, recorded: &Recorded<'_>) {
        let (effects, failed) = (&recorded.one.effects, recorded.failed);
        let Some(open) = &mut self.transaction else {
            return;
        };
        match effects.first() {
            Some(Effect::Begin) => {
                open.implicit = false;
                open.begin.get_or_insert_with(|| recorded.event());
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
            Some(_)
                if !failed && !open.failed && !effects.iter().all(Effect::is_transaction_local) =>
            {
                self.objects.add_uncommitted_temporary(effects);
                let mut event = recorded.event();
                if self.is_taken {
                    // Only the names of its temporary objects are needed.
                    event.kind = EventKind::Cancel;
                }
                if open.staged.len() < TRANSACTION_EVENTS_MAX {
                    open.staged_bytes += event_bytes(&event);
                    open.staged.push(Staged {
                        effects: effects.clone(),
                        event,
                    });
                } else {
                    self.is_truncated = true;
                }
            }
            _ => {}
        }
    }

    /// Retains a statement of the open transaction.
    fn retain(&mut self, recorded: &Recorded<'_>) {
        let Some(open) = self.transaction.as_mut().filter(|open| !open.is_taken) else {
            return;
        };
        let event = recorded.event();
        let bytes = open.retained_bytes + event_bytes(&event);
        let is_full =
            open.retained.len() >= TRANSACTION_EVENTS_MAX || bytes > TRANSACTION_BYTES_MAX;
        // Statements with effects may use twice the limits.
        let is_needed = !recorded.one.effects.is_empty()
            && open.retained.len() < 2 * TRANSACTION_EVENTS_MAX
            && bytes < 2 * TRANSACTION_BYTES_MAX;
        if is_full && !is_needed {
            self.is_truncated = true;
        } else {
            open.retained_bytes = bytes;
            open.retained.push(event);
        }
    }

    /// The objects that the session keeps across transactions.
    pub(super) fn objects(&self) -> &SessionObjects {
        &self.objects
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether a transaction is open whose statements were taken.
    pub fn in_taken_transaction(&self) -> bool {
        self.transaction.as_ref().is_some_and(|open| open.is_taken)
    }

    /// Whether this failure turns the COMMIT of the open transaction into a ROLLBACK.
    pub fn fails_transaction(&self, event: &Event) -> bool {
        event.outcome.sqlstate.is_some()
            && self
                .transaction
                .as_ref()
                .is_some_and(|open| !open.failed && !open.implicit)
    }

    /// Whether a tenth of the limits is used by retained statements.
    pub fn retains_much(&self) -> bool {
        self.transaction.as_ref().is_some_and(|open| {
            open.retained.len() >= TRANSACTION_EVENTS_MAX / 10
                || open.retained_bytes >= TRANSACTION_BYTES_MAX / 10
        })
    }

    /// Forgets the preparation of this name by message: its execution carries the text.
    pub fn forget_message_prepared(&mut self, name: &str) {
        self.objects.forget_message_prepared(name);
    }

    /// Estimates the memory of the statements that it holds, in bytes. A text that several of them share counts for each.
    pub fn held_bytes(&self) -> usize {
        let open = self.transaction.as_ref();
        let in_transaction = open.map_or(0, |open| open.retained_bytes + open.staged_bytes);
        self.objects.held_bytes() + in_transaction
    }

    /// Takes the retained statements of the open transaction. Later ones are not retained.
    pub fn take_transaction(&mut self) -> Vec<Event> {
        let Some(open) = &mut self.transaction else {
            return Vec::new();
        };
        open.is_taken = true;
        open.retained_bytes = 0;
        join_statements(std::mem::take(&mut open.retained))
    }

    /// Takes the statements that restore the state, including the retained ones of the open transaction.
    /// Afterwards only transactions are followed.
    pub fn take_statements(&mut self) -> RestoringStatements {
        self.is_taken = true;
        let (mut events, are_objects_truncated) = self.objects.take_statements();
        if let Some(open) = &self.transaction
            && let (Some(last), Some(first)) = (events.last_mut(), open.retained.first())
            && last.sequence == first.sequence
            && let EventKind::Simple { sql } = &mut last.kind
        {
            // One text ended a transaction and began the next. The COMMIT keeps the two apart.
            *sql = format!("{sql}; commit").into();
        }
        let in_transaction = self.transaction.as_mut().is_some_and(|open| {
            open.is_taken = true;
            events.append(&mut open.retained);
            !open.implicit
        });
        RestoringStatements {
            events: join_statements(events),
            in_transaction,
            temporary_objects: self.objects.temporary_count(),
            is_truncated: std::mem::take(&mut self.is_truncated) || are_objects_truncated,
        }
    }

    /// Ends the open transaction, if there is one.
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
                self.objects.apply(&effects, event);
            }
        }
        if !commits {
            self.objects.remove_uncommitted_temporary();
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

/// One statement of an event that is being recorded.
struct Recorded<'a> {
    event: &'a Event,
    one: &'a AnalyzedStatement<'a>,
    is_one_of_several: bool,
    failed: bool,
}

impl Recorded<'_> {
    /// The event with this statement alone.
    fn event(&self) -> Event {
        match self.is_one_of_several {
            true => with_statement(self.event, &self.one.statement),
            false => self.event.clone(),
        }
    }
}

/// Splits the text of an event into its statements, and reads their effects.
pub fn analyze_statements<'a>(kind: &EventKind, sql: &'a str) -> Vec<AnalyzedStatement<'a>> {
    if !matches!(kind, EventKind::Prepare { .. }) && !may_have_effects(sql) {
        return vec![AnalyzedStatement {
            statement: SqlStatement {
                text: sql,
                words: Vec::new(),
            },
            effects: Vec::new(),
        }];
    }
    let values: Vec<Option<&str>> = match kind {
        EventKind::Execute { parameters, .. } => {
            let values = parameters.iter();
            values.map(|value| value.as_ref()?.readable()).collect()
        }
        _ => Vec::new(),
    };
    let mut statements: Vec<AnalyzedStatement<'a>> = split_statements(sql)
        .into_iter()
        .map(|statement| AnalyzedStatement {
            effects: match kind {
                EventKind::Simple { .. } | EventKind::Execute { .. } => {
                    read_effects(&statement, &values)
                }
                EventKind::Prepare { statement, .. } if !statement.is_empty() => {
                    vec![Effect::MessagePrepared(statement.to_string())]
                }
                _ => Vec::new(),
            },
            statement,
        })
        .collect();
    if !matches!(kind, EventKind::Simple { .. }) {
        // A message prepares one statement; the server refuses several.
        statements.truncate(1);
    }
    statements
}

/// Returns the event with this one of its statements alone.
pub fn with_statement(event: &Event, statement: &SqlStatement<'_>) -> Event {
    let mut event = event.clone();
    if let EventKind::Simple { sql } = &mut event.kind {
        *sql = Arc::from(statement.text);
    }
    event
}

/// Joins consecutive statements of one event into one text.
pub fn join_statements(events: Vec<Event>) -> Vec<Event> {
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

/// Estimates the memory of an event, in bytes.
pub(super) fn event_bytes(event: &Event) -> usize {
    let values = match &event.kind {
        EventKind::Execute { parameters, .. } => parameters
            .iter()
            .map(|value| 16 + value.as_ref().map_or(0, |value| value.as_bytes().len()))
            .sum(),
        _ => 0,
    };
    let particulars = event.wire_details.as_ref();
    let values = values + particulars.map_or(0, |particulars| particulars.bytes());
    size_of::<Event>() + event.kind.sql().map_or(0, |sql| sql.len()) + values
}
