//! Simulates pgbench's built-in transaction, over the simple protocol or prepared.

use super::client::{Client, Name, Server};
use super::entry::push_number;

/// Number of transactions after which a client reconnects.
const TRANSACTIONS: u32 = 5_000;

/// SQL with its parameters left out, the kind of each parameter, tag, and usual time.
const STATEMENTS: [(&str, &str, &str, &str, i64); 7] = [
    ("P_0", "BEGIN;", "", "BEGIN", 20),
    (
        "P_1",
        "UPDATE pgbench_accounts SET abalance = abalance + ? WHERE aid = ?;",
        "da",
        "UPDATE",
        140,
    ),
    (
        "P_2",
        "SELECT abalance FROM pgbench_accounts WHERE aid = ?;",
        "a",
        "SELECT",
        60,
    ),
    (
        "P_3",
        "UPDATE pgbench_tellers SET tbalance = tbalance + ? WHERE tid = ?;",
        "dt",
        "UPDATE",
        80,
    ),
    (
        "P_4",
        "UPDATE pgbench_branches SET bbalance = bbalance + ? WHERE bid = ?;",
        "db",
        "UPDATE",
        80,
    ),
    (
        "P_5",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP);",
        "tbad",
        "INSERT",
        60,
    ),
    ("P_6", "END;", "", "COMMIT", 400),
];

/// One client of pgbench.
#[derive(Debug)]
pub struct Pgbench {
    /// `-M prepared`; else `-M simple`.
    prepared: bool,
    /// `pgbench_accounts`, `_tellers`, `_branches`, and the change of the balance.
    row: [i64; 4],
    statement: usize,
    /// Transactions of this session; `None` before it began.
    transactions: Option<u32>,
    sql: String,
    parameters: String,
}

impl Pgbench {
    pub fn new(prepared: bool) -> Self {
        Pgbench {
            prepared,
            row: [0; 4],
            statement: 0,
            transactions: None,
            sql: String::new(),
            parameters: String::new(),
        }
    }

    /// Whether it is between two transactions.
    pub fn is_between(&self) -> bool {
        self.statement == 0
    }

    /// Whether a session is open.
    pub fn is_open(&self) -> bool {
        self.transactions.is_some()
    }

    /// Performs the next action.
    pub fn act(&mut self, client: &mut Client, server: &mut Server) {
        let Some(transactions) = self.transactions else {
            client.arrive(server, "127.0.0.1");
            client.authorized(server, "postgres", "postgres", "pgbench");
            self.transactions = Some(0);
            return;
        };
        if transactions == TRANSACTIONS {
            return self.leave(client);
        }
        if self.statement == 0 {
            let random = &mut client.random;
            self.row = [
                random.between(1, 10_000_000),
                random.between(1, 1_000),
                random.between(1, 100),
                random.between(-5_000, 5_000),
            ];
        }
        let (name, text, places, tag, usual_us) = STATEMENTS[self.statement];
        self.sql.clear();
        self.parameters.clear();
        let mut numbers = places.chars();
        for (index, part) in text.split('?').enumerate() {
            if index > 0 {
                let place = numbers.next().expect("a place for each");
                let number = self.row["atbd".find(place).expect("one of these")];
                if self.prepared {
                    self.sql.push('$');
                    push_number(&mut self.sql, index as i64);
                    self.parameters
                        .push_str(if index > 1 { ", $" } else { "$" });
                    push_number(&mut self.parameters, index as i64);
                    self.parameters.push_str(" = '");
                    push_number(&mut self.parameters, number);
                    self.parameters.push('\'');
                } else {
                    push_number(&mut self.sql, number);
                }
            }
            self.sql.push_str(part);
        }
        if self.prepared {
            let name = Name {
                statement: name,
                portal: "",
                parsed: transactions == 0,
            };
            client.extended(server, name, &self.sql, &self.parameters, tag, usual_us);
        } else {
            client.simple(server, &self.sql, tag, usual_us);
        }
        client.pause(40);
        self.statement = (self.statement + 1) % STATEMENTS.len();
        if self.statement == 0 {
            self.transactions = Some(transactions + 1);
        }
    }

    /// Ends the session.
    pub fn leave(&mut self, client: &mut Client) {
        client.leave();
        self.transactions = None;
    }
}
