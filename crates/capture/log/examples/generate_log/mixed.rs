//! Simulates applications: both protocols, names and portals, values of all kinds, texts over
//! several lines, errors, notices; and messages of the server's own processes.

use std::fmt::Write;

use super::client::{Client, Failure, Name, Server};
use super::entry::push_number;

const USERS: [(&str, &str, &str); 5] = [
    ("web", "shop", "storefront"),
    ("web", "shop", "PostgreSQL JDBC Driver"),
    ("reports", "shop", "psql"),
    ("crm_app", "crm", "crm worker | eu"),
    ("batch", "crm", ""),
];

const HOSTS: [&str; 3] = ["10.4.0.17", "10.4.0.18", "10.4.2.5"];

/// Prepared by name; `i` stands for a number, `t` for text, `d` for a time.
const PREPARED: [(&str, &str, &str, i64); 6] = [
    (
        "SELECT id, name, price, stock FROM product WHERE id = $1",
        "i",
        "SELECT",
        70,
    ),
    (
        "UPDATE cart_item SET quantity = $1 WHERE cart_id = $2 AND product_id = $3",
        "iii",
        "UPDATE",
        120,
    ),
    (
        "INSERT INTO note (author, written_at, body) VALUES ($1, $2, $3)",
        "idt",
        "INSERT",
        150,
    ),
    (
        "SELECT o.id, o.total, c.name\nFROM orders o\n\tJOIN customer c ON c.id = o.customer_id\nWHERE o.created_at >= $1\n\tAND c.email = $2\nORDER BY o.created_at DESC -- newest first\nLIMIT 20",
        "dt",
        "SELECT",
        900,
    ),
    (
        "DELETE FROM session WHERE token = $1 AND expires_at < $2",
        "td",
        "DELETE",
        110,
    ),
    (
        "SELECT body FROM note WHERE author = $1 AND body LIKE $2 ESCAPE '\\'",
        "it",
        "SELECT",
        400,
    ),
];

/// Values as the server lists them: quotes doubled.
const TEXTS: [&str; 9] = [
    "'anna.meier@example.org'",
    "'it''s done'",
    "NULL",
    "'Grüße aus Köln — ü€'",
    "'first line\nsecond line\n\tindented'",
    "'$2 = ''x'', $3 = NULL'",
    "''",
    "'{\"theme\": \"dark\", \"path\": \"C:\\\\temp\"}'",
    "'\\x00275cff'",
];

const SIMPLE: [(&str, &str, i64); 8] = [
    ("SET application_name = 'storefront'", "SET", 15),
    (
        "SELECT count(*) FROM orders WHERE state = 'open'",
        "SELECT",
        2_500,
    ),
    (
        "SELECT p.name,\n       sum(i.quantity) AS sold\n  FROM order_item i\n  JOIN product p ON p.id = i.product_id\n GROUP BY p.name\n ORDER BY sold DESC\n LIMIT 10",
        "SELECT",
        9_000,
    ),
    (
        "/* nightly: \"stock\" */ UPDATE product\n\tSET stock = stock - 1\n\tWHERE id IN (17, 42)",
        "UPDATE",
        300,
    ),
    ("SELECT 1", "SELECT", 20),
    (
        "SELECT 'a: b', E'tab\\there' AS \"odd \"\"name\"\"\"",
        "SELECT",
        30,
    ),
    ("COPY product (id, name) TO STDOUT", "COPY", 20_000),
    ("VACUUM (ANALYZE) cart_item", "VACUUM", 30_000),
];

/// A client of an application.
#[derive(Debug)]
pub struct Mixed {
    index: usize,
    open: bool,
    /// The connection was received and waits to be a session.
    arrived: bool,
    /// Number of actions that the session still performs.
    left: i64,
    /// Statements of [`PREPARED`] for which the session has a name.
    prepared: [bool; PREPARED.len()],
    /// Statements left in the block.
    block: i64,
    /// A portal with rows left.
    portal: Option<usize>,
    portals: i64,
    name: String,
    portal_name: String,
    parameters: String,
}

impl Mixed {
    pub fn new(index: usize) -> Self {
        Mixed {
            index,
            open: false,
            arrived: false,
            left: 0,
            prepared: [false; PREPARED.len()],
            block: 0,
            portal: None,
            portals: 0,
            name: String::new(),
            portal_name: String::new(),
            parameters: String::new(),
        }
    }

    /// Whether it is in no block.
    pub fn is_between(&self) -> bool {
        self.block == 0 && !self.arrived
    }

    /// Whether a session is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Ends the session.
    pub fn leave(&mut self, client: &mut Client) {
        client.leave();
        self.open = false;
    }

    /// Performs the next action.
    pub fn act(&mut self, client: &mut Client, server: &mut Server) {
        if !self.open {
            return self.come(client, server);
        }
        if self.block == 0 && self.left <= 0 {
            return self.leave(client);
        }
        self.left -= 1;
        if let Some(which) = self.portal.take() {
            let (sql, ..) = PREPARED[which];
            let name = Name {
                statement: &self.name,
                portal: &self.portal_name,
                parsed: false,
            };
            client.fetch(server, name, sql, &self.parameters);
            if client.random.one_in(2) {
                self.portal = Some(which);
            }
            return;
        }
        if self.block > 0 {
            self.block -= 1;
            if self.block == 0 {
                let (sql, tag) = client
                    .random
                    .of(&[("COMMIT", "COMMIT"), ("ROLLBACK", "ROLLBACK")]);
                return client.simple(server, sql, tag, 200);
            }
        }
        match client.random.between(0, 99) {
            0..30 => self.unnamed(client, server),
            30..68 => self.named(client, server),
            68..84 => {
                let (sql, tag, usual_us) = client.random.of(&SIMPLE);
                client.simple(server, sql, tag, usual_us);
            }
            84..91 if self.block == 0 => {
                client.simple(server, "BEGIN", "BEGIN", 20);
                self.block = client.random.between(2, 6);
            }
            91..95 if self.block == 0 => self.mistake(client, server),
            95..97 => aside(client, server),
            _ => sql_prepared(client, server),
        }
        client.pause(if self.block > 0 { 200 } else { 3_000 });
    }

    fn come(&mut self, client: &mut Client, server: &mut Server) {
        let host = client.random.of(&HOSTS);
        if !self.arrived {
            client.arrive(server, host);
            // Cancel requests and health checks stop here.
            self.arrived = !client.random.one_in(20);
            return;
        }
        let (user, database, application) = USERS[self.index % USERS.len()];
        client.authorized(server, user, database, application);
        (self.open, self.arrived) = (true, false);
        self.left = client.random.between(20, 600);
        self.prepared = [false; PREPARED.len()];
    }

    fn fill(&mut self, client: &mut Client, kinds: &str) {
        self.parameters.clear();
        for (index, kind) in kinds.chars().enumerate() {
            let text = &mut self.parameters;
            text.push_str(if index > 0 { ", $" } else { "$" });
            push_number(text, index as i64 + 1);
            text.push_str(" = ");
            match kind {
                'i' => {
                    text.push('\'');
                    push_number(text, client.random.between(-3, 2_000_000));
                    text.push('\'');
                }
                'd' => {
                    text.push_str("'2026-02-");
                    push_number(text, client.random.between(10, 28));
                    text.push_str(" 08:15:00.123456+00'");
                }
                _ => text.push_str(client.random.of(&TEXTS)),
            }
        }
    }

    fn unnamed(&mut self, client: &mut Client, server: &mut Server) {
        let which = client.random.between(0, PREPARED.len() as i64 - 1) as usize;
        let (sql, kinds, tag, usual_us) = PREPARED[which];
        self.fill(client, kinds);
        let name = Name {
            statement: "",
            portal: "",
            parsed: true,
        };
        client.extended(server, name, sql, &self.parameters, tag, usual_us);
    }

    fn named(&mut self, client: &mut Client, server: &mut Server) {
        let which = client.random.between(0, PREPARED.len() as i64 - 1) as usize;
        let (sql, kinds, tag, usual_us) = PREPARED[which];
        self.fill(client, kinds);
        self.name.clear();
        self.name.push_str("S_");
        push_number(&mut self.name, which as i64 + 1);
        self.portal_name.clear();
        if self.block > 1 && tag == "SELECT" && client.random.one_in(8) {
            self.portals += 1;
            self.portal_name.push_str("C_");
            push_number(&mut self.portal_name, self.portals);
            self.portal = Some(which);
        }
        let name = Name {
            statement: &self.name,
            portal: &self.portal_name,
            parsed: !std::mem::replace(&mut self.prepared[which], true),
        };
        client.extended(server, name, sql, &self.parameters, tag, usual_us);
    }

    fn mistake(&mut self, client: &mut Client, server: &mut Server) {
        let unnamed = Name {
            statement: "",
            portal: "",
            parsed: true,
        };
        match client.random.between(0, 5) {
            0 => client.simple_fails(
                server,
                "SELEC 1",
                "idle",
                Failure {
                    sqlstate: "42601",
                    message: "syntax error at or near \"SELEC\"",
                    position: 1,
                    ..Failure::default()
                },
            ),
            1 => client.simple_fails(
                server,
                "SELECT nam\nFROM product",
                "SELECT",
                Failure {
                    sqlstate: "42703",
                    message: "column \"nam\" does not exist",
                    hint: "Perhaps you meant to reference the column \"product.name\".",
                    position: 8,
                    ..Failure::default()
                },
            ),
            2 => {
                self.fill(client, "it");
                client.extended_fails(
                    server,
                    unnamed,
                    "INSERT INTO customer (id, email) VALUES ($1, $2)",
                    &self.parameters,
                    "INSERT",
                    Failure {
                        sqlstate: "23505",
                        message: "duplicate key value violates unique constraint \"customer_email_key\"",
                        detail: "Key (email)=(anna.meier@example.org) already exists.",
                        steps: 2,
                        ..Failure::default()
                    },
                );
            }
            3 => client.extended_fails(
                server,
                unnamed,
                "SELECT * FROM orders WHERE id = $1",
                "$1 = 'x'",
                "BIND",
                Failure {
                    sqlstate: "22P02",
                    message: "invalid input syntax for type integer: \"x\"",
                    context: "unnamed portal parameter $1 = '...'",
                    steps: 1,
                    ..Failure::default()
                },
            ),
            4 => {
                self.fill(client, "i");
                client.extended_fails(
                    server,
                    unnamed,
                    "SELECT settle($1)",
                    &self.parameters,
                    "SELECT",
                    Failure {
                        sqlstate: "P0001",
                        message: "order is not open",
                        hint: "Open it first.",
                        context: "PL/pgSQL function settle(integer) line 7 at RAISE\nSQL statement \"SELECT check_open(o)\"\nPL/pgSQL function settle_all() line 3 at PERFORM",
                        steps: 2,
                        ..Failure::default()
                    },
                );
            }
            _ => client.simple_fails(
                server,
                "UPDATE product SET stock = 0 WHERE id = 5",
                "UPDATE",
                Failure {
                    sqlstate: "57014",
                    message: "canceling statement due to statement timeout",
                    context: "while updating tuple (0,17) in relation \"product\"",
                    ..Failure::default()
                },
            ),
        }
    }
}

/// Runs PREPARE and EXECUTE in SQL: the latter has the former in its DETAIL.
fn sql_prepared(client: &mut Client, server: &mut Server) {
    let sql = "EXECUTE top_products (10)";
    client.simple(server, sql, "SELECT", 300);
    if let Some(entry) = client.pending.front_mut() {
        entry.detail.push_str(
            "prepare: PREPARE top_products (int) AS\n  SELECT name FROM product ORDER BY sold DESC LIMIT $1;",
        );
    }
}

/// Writes a message outside of the statements' own lines. It has a STATEMENT if one runs.
fn aside(client: &mut Client, server: &mut Server) {
    let pid = client.backend.pid;
    match client.random.between(0, 3) {
        0 => {
            let entry = client.line("SELECT", false);
            entry
                .message
                .push_str("temporary file: path \"base/pgsql_tmp/pgsql_tmp");
            write!(entry.message, "{pid}.0\", size 14000000").expect("text takes all");
            entry
                .statement
                .push_str("SELECT *\n  FROM order_item\n ORDER BY product_id");
        }
        1 => {
            let entry = client.line("UPDATE", false);
            write!(
                entry.message,
                "process {pid} still waiting for ShareLock on transaction 1045 after 1000.123 ms"
            )
            .expect("text takes all");
            write!(
                entry.detail,
                "Process holding the lock: 20017. Wait queue: {pid}."
            )
            .expect("text takes all");
            entry
                .context
                .push_str("while updating tuple (0,4) in relation \"cart\"");
            entry
                .statement
                .push_str("UPDATE cart SET total = 0 WHERE id = 4");
        }
        2 => {
            let entry = client.line("COMMIT", false);
            (entry.severity, entry.sqlstate) = ("WARNING", "25P01");
            entry
                .message
                .push_str("there is no transaction in progress");
        }
        _ => {
            // Looks like a statement's line, but a statement wrote it.
            let sql = "DO $$BEGIN RAISE LOG 'statement: drop table product'; END$$";
            let started = server.logging.started;
            if started {
                let entry = client.line("idle", false);
                entry.message.push_str("statement: ");
                entry.message.push_str(sql);
            }
            let entry = client.line("DO", false);
            entry.message.push_str("statement: drop table product");
            entry
                .context
                .push_str("PL/pgSQL function inline_code_block line 1 at RAISE");
            entry.statement.push_str(sql);
            client.now_us += 150;
            server.sent.statements += 1;
            if server.logging.ended {
                let entry = client.line("DO", false);
                entry.message.push_str(match started {
                    true => "duration: 0.150 ms",
                    false => "duration: 0.150 ms  statement: ",
                });
                if !started {
                    entry.message.push_str(sql);
                }
            }
        }
    }
}

/// Simulates the server's own processes: a checkpoint every half minute, autovacuum in between.
#[derive(Debug, Default)]
pub struct Background {
    turn: u64,
}

impl Background {
    /// Writes the next message.
    pub fn act(&mut self, client: &mut Client) {
        if self.turn == 0 {
            client.backend.pid = 19_001;
            client.backend.started = client.now_us / 1_000_000;
        }
        let turn = self.turn;
        self.turn += 1;
        client.now_us += 10_000_000;
        let entry = client.pending.add(client.now_us);
        entry.local_transaction = None;
        (entry.authenticated, entry.named) = (false, false);
        entry.backend_type = "checkpointer";
        match turn % 3 {
            0 => entry.message.push_str("checkpoint starting: time"),
            1 => entry.message.push_str(
                "checkpoint complete: wrote 1203 buffers (7.3%); 0 WAL file(s) added, 0 removed, 2 recycled; write=8.912 s, sync=0.011 s, total=9.004 s; sync files=41, longest=0.004 s, average=0.001 s; distance=33012 kB, estimate=33012 kB",
            ),
            _ => {
                entry.backend_type = "autovacuum worker";
                entry.message.push_str(
                    "automatic vacuum of table \"shop.public.cart_item\": index scans: 1\npages: 0 removed, 1408 remain, 1408 scanned (100.00% of total)\ntuples: 20411 removed, 98000 remain, 12 are dead but not yet removable\nsystem usage: CPU: user: 0.05 s, system: 0.00 s, elapsed: 0.31 s",
                );
            }
        }
    }
}
