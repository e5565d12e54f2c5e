//! pgbench's built-in scripts and tables, in three protocol modes, without an installed pgbench. The statements are those of
//! its documentation (PostgreSQL documentation, pgbench, "What is the transaction actually performed in pgbench?").

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use replay::{ClientEvents, LoadSource};
use serde::{Deserialize, Serialize};
use sql::{Fingerprint, Fingerprinter};
use statistics::SplitMix64;
use workload::{
    ArchiveError, Event, EventKind, NoRedaction, Outcome, Parameter, Provenance, Session,
    WorkloadReader, WorkloadWriter, WriterOptions,
};

use super::design::Mode;

/// Rows of `pgbench_accounts` at scale 1.
const ACCOUNTS: u64 = 100_000;
/// Rows of `pgbench_tellers` at scale 1.
const TELLERS: u64 = 10;
/// Limit of the absolute value of amounts.
const DELTA: u64 = 5_000;
/// `application_name` of its sessions.
const APPLICATION: &str = "rehearse sweep";

/// One of pgbench's built-in scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Script {
    /// Reads one row by its key.
    SelectOnly,
    /// A transaction that does not update the small tables.
    SimpleUpdate,
    /// A transaction of five statements, similar to TPC-B.
    TpcbLike,
}

/// A value that is drawn for each transaction.
#[derive(Debug, Clone, Copy)]
enum Value {
    Account,
    Branch,
    Teller,
    Delta,
}

type Template = (&'static str, &'static [Value]);

const BEGIN: Template = ("BEGIN", &[]);
const END: Template = ("END", &[]);
const ADD: Template = (
    "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
    &[Value::Delta, Value::Account],
);
const LOOK: Template = (
    "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
    &[Value::Account],
);
const NOTE: Template = (
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
    &[Value::Teller, Value::Branch, Value::Account, Value::Delta],
);
const SELECT_ONLY: [Template; 1] = [LOOK];
const SIMPLE_UPDATE: [Template; 5] = [BEGIN, ADD, LOOK, NOTE, END];
const TPCB_LIKE: [Template; 7] = [
    BEGIN,
    ADD,
    LOOK,
    (
        "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2",
        &[Value::Delta, Value::Teller],
    ),
    (
        "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2",
        &[Value::Delta, Value::Branch],
    ),
    NOTE,
    END,
];

impl Script {
    /// All scripts.
    pub const ALL: [Script; 3] = [Script::SelectOnly, Script::SimpleUpdate, Script::TpcbLike];

    /// Returns pgbench's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Script::SelectOnly => "select-only",
            Script::SimpleUpdate => "simple-update",
            Script::TpcbLike => "tpcb-like",
        }
    }

    /// Reports whether it changes tables.
    pub fn writes(self) -> bool {
        self != Script::SelectOnly
    }

    fn templates(self) -> &'static [Template] {
        match self {
            Script::SelectOnly => &SELECT_ONLY,
            Script::SimpleUpdate => &SIMPLE_UPDATE,
            Script::TpcbLike => &TPCB_LIKE,
        }
    }

    /// Returns the number of statements of a transaction.
    pub fn statements(self) -> u64 {
        self.templates().len() as u64
    }

    /// Returns the statements that create and fill the tables at a scale. Each is a transaction.
    pub fn tables(scale: u32) -> Vec<String> {
        let scale = u64::from(scale);
        let (accounts, tellers) = (scale * ACCOUNTS, scale * TELLERS);
        vec![
            "CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))".to_owned(),
            "CREATE TABLE pgbench_tellers (tid int NOT NULL, bid int, tbalance int, filler char(84)) WITH (fillfactor = 100)".to_owned(),
            "CREATE TABLE pgbench_accounts (aid int NOT NULL, bid int, abalance int, filler char(84)) WITH (fillfactor = 100)".to_owned(),
            "CREATE TABLE pgbench_branches (bid int NOT NULL, bbalance int, filler char(88)) WITH (fillfactor = 100)".to_owned(),
            format!("INSERT INTO pgbench_branches (bid, bbalance) SELECT bid, 0 FROM generate_series(1, {scale}) AS bid"),
            format!("INSERT INTO pgbench_tellers (tid, bid, tbalance) SELECT tid, (tid - 1) / {TELLERS} + 1, 0 FROM generate_series(1, {tellers}) AS tid"),
            format!("INSERT INTO pgbench_accounts (aid, bid, abalance, filler) SELECT aid, (aid - 1) / {ACCOUNTS} + 1, 0, '' FROM generate_series(1, {accounts}) AS aid"),
            "ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid)".to_owned(),
            "ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid)".to_owned(),
            "ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)".to_owned(),
            "VACUUM ANALYZE pgbench_branches".to_owned(),
            "VACUUM ANALYZE pgbench_tellers".to_owned(),
            "VACUUM ANALYZE pgbench_accounts".to_owned(),
            "VACUUM ANALYZE pgbench_history".to_owned(),
            "CHECKPOINT".to_owned(),
        ]
    }

    /// Opens a workload with one session of one transaction. Writes it first if it does not exist. Runs name it as
    /// their workload, since it has the script's statements.
    ///
    /// # Errors
    /// If it cannot be written or read back.
    pub fn workload(self, path: &Path) -> Result<WorkloadReader, ArchiveError> {
        if path.exists() {
            return WorkloadReader::open(path);
        }
        let mut writer = WorkloadWriter::create(path, WriterOptions::default(), NoRedaction)?;
        let stream = self.stream(ScriptOptions {
            mode: Mode::Prepared,
            clients: 1,
            scale: 1,
            seed: 0,
            rate: None,
        });
        let events = stream(0).take(self.statements() as usize + 1);
        let mut last = 0;
        for (event, _) in events {
            last = event.sequence;
            writer.event(&event.borrowed())?;
        }
        let end = event(0, last + 1, 0, EventKind::Disconnect);
        writer.event(&end.borrowed())?;
        writer.session(Session {
            id: 0,
            database: "".into(),
            user: "".into(),
            application: APPLICATION.into(),
            client: "".into(),
            start_us: 0,
            end_us: 0,
            start_seen: true,
            end_seen: true,
            statements: self.statements(),
        })?;
        writer.finish(Provenance {
            source_kind: "script".to_owned(),
            options: [("script".to_owned(), self.name().to_owned())].into(),
            ..Provenance::default()
        })?;
        WorkloadReader::open(path)
    }

    /// Returns the events of clients, without end or for a number of transactions of each.
    pub(super) fn feed(self, sending: ScriptOptions, transactions: Option<u64>) -> LoadSource {
        let stream = self.stream(sending);
        let most = transactions.map(|count| (count * self.statements()).saturating_add(1));
        LoadSource::new(sending.clients, move |client| match most {
            None => stream(client),
            // The connect, and whole transactions.
            Some(most) => {
                Box::new(stream(client).take(usize::try_from(most).unwrap_or(usize::MAX)))
            }
        })
    }

    fn stream(
        self,
        sending: ScriptOptions,
    ) -> impl Fn(u32) -> ClientEvents + Send + Sync + 'static {
        let mut fingerprinter = Fingerprinter::new();
        let statements: Arc<[Statement]> = (0..)
            .zip(self.templates())
            .map(|(place, (sql, values))| Statement {
                sql: (*sql).into(),
                name: format!("s{place}").into(),
                values,
                fingerprint: fingerprinter.fingerprint(sql),
            })
            .collect();
        move |client| {
            Box::new(Stream {
                sending,
                statements: statements.clone(),
                client,
                // The seeds are far apart, so that clients have different values.
                random: SplitMix64::new(
                    sending.seed
                        ^ (u64::from(client) + 1)
                            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                            .rotate_left(17),
                ),
                sequence: 0,
                due_us: 0.0,
                values: TransactionValues::default(),
            })
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Script::ALL.into_iter().find(|script| script.name() == text);
        found.ok_or_else(|| {
            format!("'{text}' is no built-in script; give select-only, simple-update or tpcb-like")
        })
    }
}

/// How clients send a script.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScriptOptions {
    pub(super) mode: Mode,
    pub(super) clients: u32,
    pub(super) scale: u32,
    pub(super) seed: u64,
    /// Transactions a second of all clients; `None`: a closed loop.
    pub(super) rate: Option<f64>,
}

struct Statement {
    sql: Arc<str>,
    name: Arc<str>,
    values: &'static [Value],
    fingerprint: Fingerprint,
}

/// The values of one transaction.
#[derive(Debug, Clone, Copy, Default)]
struct TransactionValues {
    account: u64,
    branch: u64,
    teller: u64,
    delta: i64,
}

impl TransactionValues {
    fn text(&self, value: Value) -> String {
        match value {
            Value::Account => self.account.to_string(),
            Value::Branch => self.branch.to_string(),
            Value::Teller => self.teller.to_string(),
            Value::Delta => self.delta.to_string(),
        }
    }
}

/// The events of one client.
struct Stream {
    sending: ScriptOptions,
    statements: Arc<[Statement]>,
    client: u32,
    random: SplitMix64,
    sequence: u64,
    due_us: f64,
    values: TransactionValues,
}

impl Stream {
    fn begin_transaction(&mut self) {
        let scale = u64::from(self.sending.scale.max(1));
        self.values = TransactionValues {
            account: self.random.below(scale * ACCOUNTS) + 1,
            branch: self.random.below(scale) + 1,
            teller: self.random.below(scale * TELLERS) + 1,
            delta: self.random.below(2 * DELTA + 1) as i64 - DELTA as i64,
        };
        if let Some(rate) = self.sending.rate {
            // Arrivals of a Poisson process: the intervals are exponentially distributed. The number is above 0 and
            // at most 1.
            let chance = (self.random.next_u64() >> 11) as f64 + 1.0;
            let gap_s = -(chance / (1u64 << 53) as f64).ln();
            self.due_us += gap_s * 1e6 * f64::from(self.sending.clients) / rate;
        }
    }

    fn kind(&self, statement: &Statement) -> EventKind {
        let parameters = || {
            let values = statement.values.iter();
            values
                .map(|value| Some(Parameter::from(self.values.text(*value))))
                .collect()
        };
        match self.sending.mode {
            Mode::Simple => EventKind::Simple {
                sql: with_values(statement, &self.values).into(),
            },
            Mode::Extended => EventKind::Execute {
                statement: "".into(),
                portal: "".into(),
                sql: statement.sql.clone(),
                parameters: parameters(),
            },
            // A script was not captured. Prepared statements are what most drivers use by default.
            Mode::Prepared | Mode::Captured => EventKind::Execute {
                statement: statement.name.clone(),
                portal: "".into(),
                sql: statement.sql.clone(),
                parameters: parameters(),
            },
        }
    }
}

/// Replaces parameters, of which there are fewer than ten, by their values.
fn with_values(statement: &Statement, values: &TransactionValues) -> String {
    let mut text = String::with_capacity(statement.sql.len() + 16);
    let mut rest = &*statement.sql;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let number = usize::from(rest.as_bytes()[at + 1] - b'0');
        text.push_str(&values.text(statement.values[number - 1]));
        rest = &rest[at + 2..];
    }
    text.push_str(rest);
    text
}

fn event(session: u64, sequence: u64, due_us: i64, kind: EventKind) -> Event {
    Event {
        session,
        sequence,
        due_us,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        wire_details: None,
    }
}

impl Iterator for Stream {
    type Item = (Event, Option<Fingerprint>);

    fn next(&mut self) -> Option<Self::Item> {
        let sequence = self.sequence;
        self.sequence += 1;
        let session = u64::from(self.client);
        if sequence == 0 {
            let kind = EventKind::Connect {
                database: "".into(),
                user: "".into(),
                application: APPLICATION.into(),
            };
            return Some((event(session, 0, 0, kind), None));
        }
        let place = (sequence - 1) as usize % self.statements.len();
        if place == 0 {
            self.begin_transaction();
        }
        let statement = &self.statements[place];
        let next = event(session, sequence, self.due_us as i64, self.kind(statement));
        Some((next, Some(statement.fingerprint)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sending(mode: Mode, rate: Option<f64>) -> ScriptOptions {
        ScriptOptions {
            mode,
            clients: 4,
            scale: 3,
            seed: 5,
            rate,
        }
    }

    fn texts(script: Script, mode: Mode, count: usize) -> Vec<String> {
        let stream = script.stream(sending(mode, None));
        stream(1)
            .take(count)
            .filter_map(|(event, _)| event.kind.sql().map(|sql| sql.to_string()))
            .collect()
    }

    #[test]
    fn a_transaction_has_the_same_values_in_all_its_statements() {
        let all = texts(Script::TpcbLike, Mode::Simple, 1 + 14);
        assert_eq!(all.len(), 14);
        assert_eq!((&*all[0], &*all[6], &*all[7]), ("BEGIN", "END", "BEGIN"));
        let last = |text: &str| text.rsplit(' ').next().unwrap().to_owned();
        assert_eq!(last(&all[1]), last(&all[2]));
        assert_ne!(last(&all[1]), last(&all[8]));
        let account: u64 = last(&all[2]).parse().unwrap();
        assert!((1..=300_000).contains(&account));
        assert!(!all.iter().any(|text| text.contains('$')), "{all:?}");
    }

    #[test]
    fn all_modes_send_the_same_statements() {
        let mut fingerprinter = Fingerprinter::new();
        for script in Script::ALL {
            for mode in [Mode::Simple, Mode::Extended, Mode::Prepared] {
                let stream = script.stream(sending(mode, None));
                for (event, fingerprint) in stream(0).skip(1).take(21) {
                    let sql = event.kind.sql().unwrap();
                    assert_eq!(fingerprint, Some(fingerprinter.fingerprint(sql)), "{sql}");
                }
            }
            assert_eq!(
                texts(script, Mode::Extended, 22),
                texts(script, Mode::Prepared, 22)
            );
        }
    }

    #[test]
    fn clients_differ_and_the_same_seed_is_the_same_again() {
        let of = |client: u32| -> Vec<Event> {
            let stream = Script::SelectOnly.stream(sending(Mode::Prepared, None));
            stream(client).take(200).map(|(event, _)| event).collect()
        };
        let kinds = |events: &[Event]| -> Vec<EventKind> {
            events.iter().map(|event| event.kind.clone()).collect()
        };
        assert_eq!(of(2), of(2));
        assert_ne!(kinds(&of(2)), kinds(&of(3)));
        // The feed requires that a session's number determines its client.
        assert!(of(3).iter().all(|event| event.session % 4 == 3));
    }

    #[test]
    fn a_rate_is_kept_on_average() {
        let stream = Script::SimpleUpdate.stream(sending(Mode::Simple, Some(1_000.0)));
        let events: Vec<Event> = stream(0)
            .take(1 + 5 * 20_000)
            .map(|(event, _)| event)
            .collect();
        let last_us = events.last().unwrap().due_us as f64;
        // 250 a second of each client: 20,000 transactions take 80 s, within 5 standard errors.
        assert!(
            (last_us / 1e6 - 80.0).abs() < 5.0 * 80.0 / 20_000f64.sqrt(),
            "{last_us}"
        );
        assert!(events.windows(2).all(|two| two[0].due_us <= two[1].due_us));
        // A transaction is due as a whole.
        assert!(
            events[1..6]
                .iter()
                .all(|event| event.due_us == events[1].due_us)
        );
    }

    #[test]
    fn it_is_a_workload_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.workload");
        let reader = Script::TpcbLike.workload(&path).unwrap();
        assert_eq!(reader.info().statements, 7);
        let known: Vec<Fingerprint> = reader
            .statements()
            .unwrap()
            .map(|one| one.unwrap().fingerprint)
            .collect();
        let stream = Script::TpcbLike.stream(sending(Mode::Simple, None));
        for (_, fingerprint) in stream(0).skip(1).take(7) {
            assert!(known.contains(&fingerprint.unwrap()));
        }
    }
}
