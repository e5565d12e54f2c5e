//! Analyses the sequence of each session's statements: repetitions, transactions, connections.
//!
//! Reads executions or events once, in order of completion. Memory is bounded by the number of live
//! sessions and of statements.

use std::collections::{BTreeMap, HashMap};

use run::{Execution, Outcome, StatementKind};
use sql::{Fingerprint, StatementClass};
use workload::{Event, EventKind, Sqlstate};

/// Minimum number of consecutive calls of the same statement that count as a repetition.
pub(super) const REPETITION_MIN: u64 = 5;
/// Maximum number of sessions that are followed at the same time.
const SESSIONS_MAX: usize = 100_000;

/// Step of a session. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionStep {
    /// Number of the session.
    pub session: u64,
    /// Statement; `None` for connecting and disconnecting.
    pub fingerprint: Option<Fingerprint>,
    /// Whether the session connected.
    pub connect: bool,
    /// Whether the session disconnected.
    pub disconnect: bool,
    /// Time of sending.
    pub sent_ns: i64,
    /// Time of completion.
    pub done_ns: i64,
    /// Due time.
    pub due_ns: i64,
    /// Rows returned or written, if known.
    pub rows: Option<u64>,
    /// Error, if it failed.
    pub failed: Option<Sqlstate>,
}

impl SessionStep {
    /// Creates a step from an execution of a run; `None` if it was never sent.
    pub fn from_execution(execution: &Execution) -> Option<Self> {
        let sent_ns = execution.sent_ns?;
        Some(SessionStep {
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

    /// Creates a step from an event of a workload.
    pub fn from_event(event: &Event, fingerprint: Option<Fingerprint>) -> Self {
        let sent_ns = event.due_us * 1_000;
        let took_us = event.outcome.duration_us.unwrap_or(0);
        SessionStep {
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

/// Totals of a statement over all sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct StatementSums {
    pub(super) calls: u64,
    pub(super) service_ns: f64,
    pub(super) response_ns: f64,
    pub(super) rows: Option<u64>,
    pub(super) sessions: SenderCount,
    pub(super) failed: BTreeMap<Sqlstate, u64>,
    pub(super) repetition: Repetition,
}

/// Sessions that sent a statement: one known session, or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SenderCount {
    #[default]
    None,
    One(u64),
    More,
}

impl SenderCount {
    fn add(&mut self, session: u64) {
        *self = match *self {
            SenderCount::None => SenderCount::One(session),
            SenderCount::One(known) if known == session => SenderCount::One(known),
            _ => SenderCount::More,
        };
    }
}

/// Repetitions of a statement by one session.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Repetition {
    /// Number of series of consecutive calls.
    pub series: u64,
    /// Calls in all series.
    pub calls: u64,
    /// Length of the longest series.
    pub longest: u64,
    /// Time from the first call's sending to the last call's completion, summed over all series, in
    /// nanoseconds.
    pub ns: f64,
    /// Rows returned by these calls.
    pub rows: u64,
    /// Statement that preceded most of the last series.
    pub preceding: Option<Fingerprint>,
    /// Number of series whose length equals the number of rows of the preceding statement.
    pub one_for_each_row: u64,
}

/// Explicit transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TransactionAccount {
    /// Number of transactions that ended.
    pub count: u64,
    /// Statements in them, without BEGIN and COMMIT or ROLLBACK.
    pub statements: u64,
    /// Time from the completion of BEGIN to the completion of the end, in nanoseconds.
    pub ns: f64,
    /// Part of it in which no statement ran and the server waited for the client.
    pub idle_ns: f64,
    /// Longest single wait for the client.
    pub idle_longest_ns: f64,
    /// Statement before the longest wait.
    pub idle_after: Option<Fingerprint>,
}

/// Connections and sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SessionAccount {
    /// Sessions that connected during the observation.
    pub connected: u64,
    /// Total time of connecting, in nanoseconds; 0 if it was not measured.
    pub connecting_ns: f64,
    /// Statements of all sessions.
    pub statements: u64,
    /// Maximum number of concurrent sessions.
    pub max_concurrent: u64,
}

#[derive(Debug, Clone, Default)]
struct LiveSession {
    last: Option<(Fingerprint, Option<u64>)>,
    series: Option<CallSeries>,
    /// Open transaction, if there is one.
    transaction: Option<OpenTransaction>,
}

#[derive(Debug, Clone)]
struct OpenTransaction {
    from_ns: i64,
    last_done_ns: i64,
    statements: u64,
    last: Option<Fingerprint>,
    /// Writing statements so far, in order.
    written: Vec<Fingerprint>,
}

#[derive(Debug, Clone)]
struct CallSeries {
    fingerprint: Fingerprint,
    calls: u64,
    from_ns: i64,
    until_ns: i64,
    rows: u64,
    preceding: Option<(Fingerprint, Option<u64>)>,
}

/// Beginning or end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Boundary {
    Begin,
    End,
}

/// Sequence of each session's statements, and the totals over all sessions.
#[derive(Debug, Default)]
pub struct History {
    classes: HashMap<Fingerprint, (StatementClass, Option<Boundary>)>,
    live: HashMap<u64, LiveSession>,
    pub(super) statements: HashMap<Fingerprint, StatementSums>,
    /// Service time of all statements, including those without a fingerprint.
    pub(super) service_ns: f64,
    pub(super) response_ns: f64,
    pub(super) transactions: TransactionAccount,
    pub(super) sessions: SessionAccount,
    /// Pairs of writing statements, in the order of their first execution in a transaction.
    pub(super) orders: HashMap<(Fingerprint, Fingerprint), u64>,
    first_ns: Option<i64>,
    last_ns: i64,
}

impl History {
    /// Creates a history, given the statements' texts.
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

    /// Adds a step. Steps of a session must come in order.
    pub fn add(&mut self, step: &SessionStep) {
        self.first_ns.get_or_insert(step.sent_ns);
        self.first_ns = self.first_ns.map(|first| first.min(step.sent_ns));
        self.last_ns = self.last_ns.max(step.done_ns);
        if step.connect {
            self.sessions.connected += 1;
            self.sessions.connecting_ns += (step.done_ns - step.sent_ns).max(0) as f64;
            return;
        }
        if step.disconnect {
            if let Some(live) = self.live.remove(&step.session) {
                self.end_series(live.series);
            }
            return;
        }
        self.add_totals(step);
        let Some(fingerprint) = step.fingerprint else {
            return;
        };
        if !self.live.contains_key(&step.session) && self.live.len() >= SESSIONS_MAX {
            return;
        }
        let live = self.live.entry(step.session).or_default();
        let ended = live.repeat(fingerprint, step);
        live.last = Some((fingerprint, step.rows));
        self.add_to_transaction(fingerprint, step);
        self.sessions.max_concurrent = self.sessions.max_concurrent.max(self.live.len() as u64);
        self.end_series(ended);
    }

    /// Adds a statement to the totals.
    fn add_totals(&mut self, step: &SessionStep) {
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
    }

    /// Follows the transaction of a live session.
    fn add_to_transaction(&mut self, fingerprint: Fingerprint, step: &SessionStep) {
        let Some(live) = self.live.get_mut(&step.session) else {
            return;
        };
        let (class, boundary) = match self.classes.get(&fingerprint) {
            Some(known) => *known,
            None => (StatementClass::Other, None),
        };
        if boundary == Some(Boundary::Begin) {
            live.transaction = Some(OpenTransaction {
                from_ns: step.done_ns,
                last_done_ns: step.done_ns,
                statements: 0,
                last: None,
                written: Vec::new(),
            });
            return;
        }
        let Some(open) = &mut live.transaction else {
            return;
        };
        let idle_ns = (step.sent_ns - open.last_done_ns).max(0) as f64;
        let account = &mut self.transactions;
        account.idle_ns += idle_ns;
        if idle_ns > account.idle_longest_ns {
            account.idle_longest_ns = idle_ns;
            account.idle_after = open.last;
        }
        open.last_done_ns = open.last_done_ns.max(step.done_ns);
        if boundary.is_some() {
            account.count += 1;
            account.statements += open.statements;
            account.ns += (step.done_ns - open.from_ns).max(0) as f64;
            live.transaction = None;
            return;
        }
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

    /// Ends all open series.
    pub(super) fn finish(&mut self) {
        let live: Vec<LiveSession> = self.live.drain().map(|(_, live)| live).collect();
        for one in live {
            self.end_series(one.series);
        }
    }

    /// Returns the time from the first sending to the last completion, in seconds.
    pub(super) fn span_s(&self) -> f64 {
        let first_ns = self.first_ns.unwrap_or(0);
        (self.last_ns - first_ns).max(0) as f64 / 1e9
    }

    fn end_series(&mut self, run: Option<CallSeries>) {
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
        if let Some((preceding_statement, rows)) = run.preceding {
            repetition.preceding = Some(preceding_statement);
            repetition.one_for_each_row += u64::from(rows == Some(run.calls));
        }
    }
}

impl LiveSession {
    /// Continues the series of equal calls, or starts a new one and returns the previous.
    fn repeat(&mut self, fingerprint: Fingerprint, step: &SessionStep) -> Option<CallSeries> {
        if let Some(run) = self
            .series
            .as_mut()
            .filter(|run| run.fingerprint == fingerprint)
        {
            run.calls += 1;
            run.until_ns = step.done_ns;
            run.rows += step.rows.unwrap_or(0);
            return None;
        }
        self.series.replace(CallSeries {
            fingerprint,
            calls: 1,
            from_ns: step.sent_ns,
            until_ns: step.done_ns,
            rows: step.rows.unwrap_or(0),
            preceding: self.last,
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

    fn step(id: u64, at_ms: i64, took_ms: i64, rows: u64) -> SessionStep {
        SessionStep {
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
        assert_eq!(repetition.preceding, Some(Fingerprint(1)));
        let transactions = history.transactions;
        assert_eq!((transactions.count, transactions.statements), (1, 7));
        // 1 ms, 6 ms, five times 1 ms, and 9 ms until the commit.
        assert_eq!(transactions.idle_ns, 21e6);
        assert_eq!(transactions.idle_longest_ns, 9e6);
    }
}
