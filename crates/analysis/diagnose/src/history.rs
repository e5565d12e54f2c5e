//! What sessions did, one thing after the other: repetitions, transactions, who came and went.
//!
//! Reads executions or events once, in the order of their ends; holds some numbers for each live session and
//! each statement.

use std::collections::{BTreeMap, HashMap};

use run::{Execution, Outcome, StatementKind};
use sql::{Fingerprint, StatementClass};
use workload::{Event, EventKind, Sqlstate};

/// The same statement so often, one after the other, is a repetition.
pub(super) const REPETITION_MIN: u64 = 5;
/// Sessions that are followed at once.
const SESSIONS_MAX: usize = 100_000;

/// One thing that a session did. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Which session.
    pub session: u64,
    /// The statement; `None` for coming and going.
    pub fingerprint: Option<Fingerprint>,
    /// It came.
    pub connect: bool,
    /// It went.
    pub disconnect: bool,
    /// When it was sent.
    pub sent_ns: i64,
    /// When it was done.
    pub done_ns: i64,
    /// When it was due.
    pub due_ns: i64,
    /// Rows that came or were written, where that is known.
    pub rows: Option<u64>,
    /// The error that it ended in.
    pub failed: Option<Sqlstate>,
}

impl Step {
    /// Of a run; `None` for what was never sent.
    pub fn of_execution(execution: &Execution) -> Option<Self> {
        let sent_ns = execution.sent_ns?;
        Some(Step {
            session: execution.session,
            fingerprint: execution.fingerprint,
            connect: execution.kind == StatementKind::Connect,
            disconnect: execution.kind == StatementKind::Disconnect,
            sent_ns,
            done_ns: execution.done_ns.unwrap_or(sent_ns),
            due_ns: execution.due_ns.min(sent_ns),
            rows: (execution.outcome == Outcome::Done).then_some(execution.rows),
            failed: match execution.outcome {
                Outcome::Failed(sqlstate) => Some(sqlstate),
                _ => None,
            },
        })
    }

    /// Of a workload.
    pub fn of_event(event: &Event, fingerprint: Option<Fingerprint>) -> Self {
        let sent_ns = event.due_us * 1_000;
        let took_us = event.outcome.duration_us.unwrap_or(0);
        Step {
            session: event.session,
            fingerprint,
            connect: matches!(event.kind, EventKind::Connect { .. }),
            disconnect: matches!(event.kind, EventKind::Disconnect),
            sent_ns,
            done_ns: sent_ns.saturating_add(
                i64::try_from(took_us)
                    .unwrap_or(i64::MAX)
                    .saturating_mul(1_000),
            ),
            due_ns: sent_ns,
            rows: event.outcome.rows,
            failed: event.outcome.sqlstate,
        }
    }
}

/// A statement's sums over all sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct StatementSums {
    pub(super) calls: u64,
    pub(super) service_ns: f64,
    pub(super) response_ns: f64,
    pub(super) rows: Option<u64>,
    pub(super) sessions: Sessions,
    pub(super) failed: BTreeMap<Sqlstate, u64>,
    pub(super) repetition: Repetition,
}

/// How many sessions sent it, as far as one has to know: one, or more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Sessions {
    #[default]
    None,
    One(u64),
    More,
}

impl Sessions {
    fn add(&mut self, session: u64) {
        *self = match *self {
            Sessions::None => Sessions::One(session),
            Sessions::One(known) if known == session => Sessions::One(known),
            _ => Sessions::More,
        };
    }
}

/// How often a statement was sent again and again by one session.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Repetition {
    /// How many such rows of calls there were.
    pub series: u64,
    /// Calls in them.
    pub calls: u64,
    /// The longest.
    pub longest: u64,
    /// From the first call's sending to the last one's end, all series together, in nanoseconds.
    pub ns: f64,
    /// Rows that these calls gave.
    pub rows: u64,
    /// The statement that stood before most of the last series.
    pub behind: Option<Fingerprint>,
    /// Series whose length is the number of rows of the statement before them.
    pub one_for_each_row: u64,
}

/// Transactions that a client opened and ended by statements of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TransactionAccount {
    /// How many were ended.
    pub count: u64,
    /// Statements in them, without the beginning and the end.
    pub statements: u64,
    /// From the beginning's end to the end's end, in nanoseconds.
    pub ns: f64,
    /// Of that, the client had the word: neither statement ran.
    pub idle_ns: f64,
    /// The longest single time in which the client had the word.
    pub idle_longest_ns: f64,
    /// The statement before that.
    pub idle_behind: Option<Fingerprint>,
}

/// Coming and going.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SessionAccount {
    /// Sessions that came while it was looked.
    pub came: u64,
    /// From the request to the session, all together, in nanoseconds; 0 where nobody measured it.
    pub connecting_ns: f64,
    /// Statements of all sessions.
    pub statements: u64,
    /// The most sessions at a time that were seen.
    pub most: u64,
}

#[derive(Debug, Clone, Default)]
struct Live {
    last: Option<(Fingerprint, Option<u64>)>,
    run: Option<Run>,
    /// In a transaction since, with the end of the last statement in it.
    transaction: Option<Open>,
}

#[derive(Debug, Clone)]
struct Open {
    from_ns: i64,
    last_done_ns: i64,
    statements: u64,
    last: Option<Fingerprint>,
    /// The tables that it has written so far, in order.
    written: Vec<Fingerprint>,
}

#[derive(Debug, Clone)]
struct Run {
    fingerprint: Fingerprint,
    calls: u64,
    from_ns: i64,
    until_ns: i64,
    rows: u64,
    behind: Option<(Fingerprint, Option<u64>)>,
}

/// Which beginning or end of a transaction a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Boundary {
    Begin,
    End,
}

/// What sessions did.
#[derive(Debug, Default)]
pub struct History {
    classes: HashMap<Fingerprint, (StatementClass, Option<Boundary>)>,
    live: HashMap<u64, Live>,
    pub(super) statements: HashMap<Fingerprint, StatementSums>,
    /// Statements without a fingerprint have their time here as well.
    pub(super) service_ns: f64,
    pub(super) response_ns: f64,
    pub(super) transactions: TransactionAccount,
    pub(super) sessions: SessionAccount,
    /// Pairs of statements that write, in the order in which transactions sent them first.
    pub(super) orders: HashMap<(Fingerprint, Fingerprint), u64>,
    first_ns: Option<i64>,
    last_ns: i64,
}

impl History {
    /// Told which statements there are.
    pub fn new<'t>(texts: impl IntoIterator<Item = &'t workload::StatementText>) -> Self {
        let boundary = |sql: &str| {
            let first = sql.split([' ', ';']).next().unwrap_or_default();
            match first {
                "begin" | "start" => Some(Boundary::Begin),
                "commit" | "end" | "abort" => Some(Boundary::End),
                "rollback" if !sql.contains(" to ") => Some(Boundary::End),
                _ => None,
            }
        };
        History {
            classes: texts
                .into_iter()
                .map(|text| {
                    let boundary = match text.class {
                        StatementClass::Transaction => boundary(&text.sql),
                        _ => None,
                    };
                    (text.fingerprint, (text.class, boundary))
                })
                .collect(),
            ..History::default()
        }
    }

    /// Takes one thing; those of a session in their order.
    pub fn add(&mut self, step: &Step) {
        self.first_ns.get_or_insert(step.sent_ns);
        self.first_ns = self.first_ns.map(|first| first.min(step.sent_ns));
        self.last_ns = self.last_ns.max(step.done_ns);
        if step.connect {
            self.sessions.came += 1;
            self.sessions.connecting_ns += (step.done_ns - step.sent_ns).max(0) as f64;
            return;
        }
        if step.disconnect {
            if let Some(live) = self.live.remove(&step.session) {
                self.end_run(live.run);
            }
            return;
        }
        let took_ns = (step.done_ns - step.sent_ns).max(0) as f64;
        let response_ns = (step.done_ns - step.due_ns).max(0) as f64;
        self.service_ns += took_ns;
        self.response_ns += response_ns;
        self.sessions.statements += 1;
        let Some(fingerprint) = step.fingerprint else {
            return;
        };
        let sums = self.statements.entry(fingerprint).or_default();
        sums.calls += 1;
        sums.service_ns += took_ns;
        sums.response_ns += response_ns;
        if let Some(rows) = step.rows {
            *sums.rows.get_or_insert(0) += rows;
        }
        sums.sessions.add(step.session);
        if let Some(sqlstate) = step.failed {
            *sums.failed.entry(sqlstate).or_default() += 1;
        }
        if !self.live.contains_key(&step.session) && self.live.len() >= SESSIONS_MAX {
            return;
        }
        let (class, boundary) = match self.classes.get(&fingerprint) {
            Some(known) => *known,
            None => (StatementClass::Other, None),
        };
        let live = self.live.entry(step.session).or_default();
        let ended = live.repeat(fingerprint, step);
        live.last = Some((fingerprint, step.rows));
        match (boundary, &mut live.transaction) {
            (Some(Boundary::Begin), open) => {
                *open = Some(Open {
                    from_ns: step.done_ns,
                    last_done_ns: step.done_ns,
                    statements: 0,
                    last: None,
                    written: Vec::new(),
                });
            }
            (end, Some(open)) => {
                let idle_ns = (step.sent_ns - open.last_done_ns).max(0) as f64;
                let account = &mut self.transactions;
                account.idle_ns += idle_ns;
                if idle_ns > account.idle_longest_ns {
                    account.idle_longest_ns = idle_ns;
                    account.idle_behind = open.last;
                }
                open.last_done_ns = open.last_done_ns.max(step.done_ns);
                if end.is_some() {
                    account.count += 1;
                    account.statements += open.statements;
                    account.ns += (step.done_ns - open.from_ns).max(0) as f64;
                    live.transaction = None;
                } else {
                    open.statements += 1;
                    open.last = Some(fingerprint);
                    let writes = matches!(
                        class,
                        StatementClass::Update | StatementClass::Delete | StatementClass::Merge
                    );
                    if writes && !open.written.contains(&fingerprint) && open.written.len() < 16 {
                        for before in &open.written {
                            *self.orders.entry((*before, fingerprint)).or_default() += 1;
                        }
                        open.written.push(fingerprint);
                    }
                }
            }
            (_, None) => {}
        }
        self.sessions.most = self.sessions.most.max(self.live.len() as u64);
        self.end_run(ended);
    }

    /// All was taken.
    pub(super) fn finish(&mut self) {
        let live: Vec<Live> = self.live.drain().map(|(_, live)| live).collect();
        for one in live {
            self.end_run(one.run);
        }
    }

    /// From the first sending to the last end, in seconds.
    pub(super) fn span_s(&self) -> f64 {
        let first_ns = self.first_ns.unwrap_or(0);
        (self.last_ns - first_ns).max(0) as f64 / 1e9
    }

    fn end_run(&mut self, run: Option<Run>) {
        let Some(run) = run.filter(|run| run.calls >= REPETITION_MIN) else {
            return;
        };
        let sums = self.statements.entry(run.fingerprint).or_default();
        let repetition = &mut sums.repetition;
        repetition.series += 1;
        repetition.calls += run.calls;
        repetition.longest = repetition.longest.max(run.calls);
        repetition.ns += (run.until_ns - run.from_ns).max(0) as f64;
        repetition.rows += run.rows;
        if let Some((behind, rows)) = run.behind {
            repetition.behind = Some(behind);
            repetition.one_for_each_row += u64::from(rows == Some(run.calls));
        }
    }
}

impl Live {
    /// Goes on with a row of the same calls, or begins another; gives the one that ended.
    fn repeat(&mut self, fingerprint: Fingerprint, step: &Step) -> Option<Run> {
        if let Some(run) = self
            .run
            .as_mut()
            .filter(|run| run.fingerprint == fingerprint)
        {
            run.calls += 1;
            run.until_ns = step.done_ns;
            run.rows += step.rows.unwrap_or(0);
            return None;
        }
        self.run.replace(Run {
            fingerprint,
            calls: 1,
            from_ns: step.sent_ns,
            until_ns: step.done_ns,
            rows: step.rows.unwrap_or(0),
            behind: self.last,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::StatementText;

    fn text(id: u64, class: StatementClass, sql: &str) -> StatementText {
        StatementText {
            fingerprint: Fingerprint(id),
            class,
            sql: sql.to_owned(),
        }
    }

    fn step(id: u64, at_ms: i64, took_ms: i64, rows: u64) -> Step {
        Step {
            session: 1,
            fingerprint: Some(Fingerprint(id)),
            connect: false,
            disconnect: false,
            sent_ns: at_ms * 1_000_000,
            done_ns: (at_ms + took_ms) * 1_000_000,
            due_ns: at_ms * 1_000_000,
            rows: Some(rows),
            failed: None,
        }
    }

    #[test]
    fn repetitions_and_transactions_are_counted() {
        let texts = [
            text(1, StatementClass::Select, "select id from orders"),
            text(
                2,
                StatementClass::Select,
                "select * from items where o = $1",
            ),
            text(3, StatementClass::Transaction, "begin"),
            text(4, StatementClass::Transaction, "commit"),
        ];
        let mut history = History::new(&texts);
        history.add(&step(3, 0, 1, 0));
        history.add(&step(1, 2, 2, 6));
        for call in 0..6 {
            history.add(&step(2, 10 + 2 * call, 1, 1));
        }
        history.add(&step(4, 30, 1, 0));
        history.finish();
        let repetition = history.statements[&Fingerprint(2)].repetition;
        assert_eq!(
            (
                repetition.series,
                repetition.calls,
                repetition.one_for_each_row
            ),
            (1, 6, 1)
        );
        assert_eq!(repetition.behind, Some(Fingerprint(1)));
        let transactions = history.transactions;
        assert_eq!((transactions.count, transactions.statements), (1, 7));
        // 1, 6, five times 1, and 9 ms until the commit.
        assert_eq!(transactions.idle_ns, 21e6);
        assert_eq!(transactions.idle_longest_ns, 9e6);
    }
}
