//! Simulates one client's backend: the lines that the server writes for each of the client's
//! actions, as `postgres.c` of versions 13 to 18 does under the settings of [`Logging`].

use super::entry::{Backend, Pending, push_milliseconds};

/// The settings that decide which lines a statement has.
#[derive(Debug, Clone, Copy)]
pub struct Logging {
    /// `log_statement = all`: a line when a statement starts.
    pub started: bool,
    /// `log_min_duration_statement = 0`: lines when a statement, or a step of it, has ended.
    pub ended: bool,
}

/// Counts of the clients' actions, which a capture must find.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Sessions that began.
    pub sessions: u64,
    /// Statements, those that failed among them.
    pub statements: u64,
    /// Statements that failed.
    pub failures: u64,
}

/// State that all backends of the server share.
#[derive(Debug)]
pub struct Server {
    pub major: u16,
    pub logging: Logging,
    pub pid: u32,
    pub port: u16,
    pub transaction: u32,
    pub sent: Sent,
}

/// Numbers from a seed: splitmix64 (Steele, Lea and Flood, 2014).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    pub fn one_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }

    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.next() % choices.len() as u64) as usize]
    }

    /// Returns a duration in microseconds around `usual`: mostly near it, one in a hundred far
    /// above.
    pub fn duration(&mut self, usual: i64) -> i64 {
        let near = usual / 2 + self.between(0, usual.max(1));
        match self.one_in(100) {
            true => near * self.between(5, 80),
            false => near,
        }
    }
}

/// Name of a statement of the extended protocol, and whether it is parsed now.
#[derive(Debug, Clone, Copy)]
pub struct Name<'a> {
    pub statement: &'a str,
    pub portal: &'a str,
    pub parsed: bool,
}

/// The error that ends a statement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Failure<'a> {
    pub sqlstate: &'static str,
    pub message: &'a str,
    pub detail: &'a str,
    pub hint: &'a str,
    pub context: &'a str,
    pub position: u32,
    /// Number of successful steps of the extended protocol before it: parse, bind.
    pub steps: u8,
}

/// One client and its backend.
#[derive(Debug)]
pub struct Client {
    pub backend: Backend,
    pub pending: Pending,
    pub random: Random,
    /// The server's time at this client's last action, in microseconds since 1970.
    pub now_us: i64,
    /// In a transaction block.
    pub in_block: bool,
    local_transaction: u32,
    transaction: u32,
}

impl Client {
    pub fn new(seed: u64, now_us: i64) -> Self {
        Client {
            backend: Backend::default(),
            pending: Pending::default(),
            random: Random(seed),
            now_us,
            in_block: false,
            local_transaction: 0,
            transaction: 0,
        }
    }

    /// Starts a process for a connection from `host` and writes its first line.
    pub fn arrive(&mut self, server: &mut Server, host: &'static str) {
        server.pid = (server.pid + 1 + (self.random.next() % 3) as u32) % 4_194_304;
        server.port = server.port.checked_add(2).unwrap_or(32_768);
        self.backend = Backend {
            pid: server.pid,
            started: self.now_us / 1_000_000,
            slot: 3 + server.pid % 97,
            host,
            port: server.port,
            ..Backend::default()
        };
        let port = self.backend.port;
        let entry = self.pending.add(self.now_us);
        entry.message.push_str("connection received: host=");
        entry.message.push_str(host);
        entry.message.push_str(&format!(" port={port}"));
        entry.backend_type = "not initialized";
        (entry.authenticated, entry.named) = (false, false);
        (entry.tag, entry.local_transaction) = ("", None);
        self.now_us += self.random.between(300, 1_500);
    }

    /// Makes the connection a session.
    pub fn authorized(
        &mut self,
        server: &mut Server,
        user: &'static str,
        database: &'static str,
        application: &'static str,
    ) {
        self.backend.user = user;
        self.backend.database = database;
        self.backend.application = application;
        server.sent.sessions += 1;
        (self.in_block, self.transaction) = (false, 0);
        self.local_transaction = self.random.between(1, 50_000) as u32;
        if server.major >= 14 {
            let entry = self.pending.add(self.now_us);
            entry.message = format!(
                "connection authenticated: identity=\"{user}\" method=scram-sha-256 (/etc/postgresql/pg_hba.conf:104)"
            );
            (entry.tag, entry.named) = ("authentication", false);
            entry.local_transaction = Some(self.local_transaction);
        }
        let entry = self.pending.add(self.now_us);
        entry.message = format!("connection authorized: user={user} database={database}");
        if !application.is_empty() {
            entry.message.push_str(" application_name=");
            entry.message.push_str(application);
        }
        (entry.tag, entry.named) = ("authentication", false);
        entry.local_transaction = Some(self.local_transaction);
        self.now_us += self.random.between(400, 2_000);
    }

    /// Ends the session.
    pub fn leave(&mut self) {
        let Backend {
            user,
            database,
            host,
            port,
            started,
            ..
        } = self.backend;
        let lived_us = self.now_us - started * 1_000_000;
        let seconds = lived_us / 1_000_000;
        let entry = self.pending.add(self.now_us);
        entry.local_transaction = None;
        entry.message = format!(
            "disconnection: session time: {}:{:02}:{:02}.{:03} user={user} database={database} host={host} port={port}",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
            lived_us / 1_000 % 1_000,
        );
        self.now_us += self.random.between(1_000, 50_000);
    }

    fn idle(&self) -> &'static str {
        match self.in_block {
            true => "idle in transaction",
            false => "idle",
        }
    }

    /// Takes a transaction slot unless the block has one.
    fn begins(&mut self) {
        if !self.in_block {
            self.local_transaction += 1;
            self.transaction = 0;
        }
    }

    /// Updates the state after a statement: it may have opened or ended a block, or written.
    fn ran(&mut self, server: &mut Server, tag: &'static str) {
        match tag {
            "BEGIN" => self.in_block = true,
            "COMMIT" | "ROLLBACK" => self.in_block = false,
            "INSERT" | "UPDATE" | "DELETE" | "COPY" if self.transaction == 0 => {
                server.transaction += 1;
                self.transaction = server.transaction;
            }
            _ => (),
        }
    }

    /// Adds a line of this backend, with `tag` on its `%i`, at the current time.
    pub fn line(&mut self, tag: &'static str, ended: bool) -> &mut super::entry::Entry {
        let entry = self.pending.add(self.now_us);
        entry.tag = tag;
        // After the end of a transaction its slot reads 0.
        let over = ended && !self.in_block;
        entry.local_transaction = Some(if over { 0 } else { self.local_transaction });
        entry.transaction = if over { 0 } else { self.transaction };
        entry
    }

    fn duration(text: &mut String, duration_us: i64) {
        text.push_str("duration: ");
        push_milliseconds(text, duration_us);
        text.push_str(" ms");
    }

    /// Runs a simple query that succeeds.
    pub fn simple(&mut self, server: &mut Server, sql: &str, tag: &'static str, usual_us: i64) {
        server.sent.statements += 1;
        self.begins();
        let duration_us = self.random.duration(usual_us);
        if server.logging.started {
            let idle = self.idle();
            let entry = self.line(idle, false);
            entry.message.push_str("statement: ");
            entry.message.push_str(sql);
        }
        self.now_us += duration_us;
        self.ran(server, tag);
        if server.logging.ended {
            let alone = server.logging.started;
            let entry = self.line(tag, true);
            Self::duration(&mut entry.message, duration_us);
            if !alone {
                entry.message.push_str("  statement: ");
                entry.message.push_str(sql);
            }
        }
    }

    /// Runs parse (if it is parsed now), bind and execute, with parameters as the server lists
    /// them.
    pub fn extended(
        &mut self,
        server: &mut Server,
        name: Name<'_>,
        sql: &str,
        parameters: &str,
        tag: &'static str,
        usual_us: i64,
    ) {
        server.sent.statements += 1;
        self.begins();
        self.steps(server, name, sql, parameters, 2);
        self.execute(server, "execute ", name, sql, parameters, tag, usual_us);
    }

    /// Fetches more rows of a portal that an execution left open.
    pub fn fetch(&mut self, server: &mut Server, name: Name<'_>, sql: &str, parameters: &str) {
        server.sent.statements += 1;
        let what = "execute fetch from ";
        self.execute(server, what, name, sql, parameters, "SELECT", 300);
    }

    /// Runs the steps before an execution, the first `count` of parse and bind.
    fn steps(&mut self, server: &Server, name: Name<'_>, sql: &str, parameters: &str, count: u8) {
        let steps: [(&'static str, &'static str, bool); 2] = [
            ("  parse ", "PARSE", name.parsed),
            ("  bind ", "BIND", true),
        ];
        for (step, tag, _) in steps.into_iter().take(count.into()).filter(|step| step.2) {
            let duration_us = self.random.duration(60);
            self.now_us += duration_us;
            if server.logging.ended {
                let entry = self.line(tag, false);
                Self::duration(&mut entry.message, duration_us);
                entry.message.push_str(step);
                push_name(&mut entry.message, name, tag == "BIND");
                entry.message.push_str(sql);
                if tag == "BIND" {
                    push_parameters(&mut entry.detail, server.major, parameters);
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one line")]
    fn execute(
        &mut self,
        server: &mut Server,
        what: &str,
        name: Name<'_>,
        sql: &str,
        parameters: &str,
        tag: &'static str,
        usual_us: i64,
    ) {
        let major = server.major;
        let duration_us = self.random.duration(usual_us);
        if server.logging.started {
            let entry = self.line(tag, false);
            entry.message.push_str(what);
            push_name(&mut entry.message, name, true);
            entry.message.push_str(sql);
            push_parameters(&mut entry.detail, major, parameters);
        }
        self.now_us += duration_us;
        self.ran(server, tag);
        if server.logging.ended {
            let alone = server.logging.started;
            let entry = self.line(tag, true);
            Self::duration(&mut entry.message, duration_us);
            if !alone {
                entry.message.push_str("  ");
                entry.message.push_str(what);
                push_name(&mut entry.message, name, true);
                entry.message.push_str(sql);
                push_parameters(&mut entry.detail, major, parameters);
            }
        }
    }

    /// Runs a simple query that fails. A text with a syntax error is not logged at its start.
    pub fn simple_fails(
        &mut self,
        server: &mut Server,
        sql: &str,
        tag: &'static str,
        failure: Failure<'_>,
    ) {
        server.sent.statements += 1;
        server.sent.failures += 1;
        self.begins();
        if server.logging.started && failure.sqlstate != "42601" {
            let idle = self.idle();
            let entry = self.line(idle, false);
            entry.message.push_str("statement: ");
            entry.message.push_str(sql);
        }
        self.now_us += self.random.duration(200);
        self.fails(sql, tag, failure);
    }

    /// Runs a statement of the extended protocol that fails after `failure.steps` steps.
    pub fn extended_fails(
        &mut self,
        server: &mut Server,
        name: Name<'_>,
        sql: &str,
        parameters: &str,
        tag: &'static str,
        failure: Failure<'_>,
    ) {
        server.sent.statements += 1;
        server.sent.failures += 1;
        self.begins();
        self.steps(server, name, sql, parameters, failure.steps);
        if server.logging.started && failure.steps == 2 {
            let major = server.major;
            let entry = self.line(tag, false);
            entry.message.push_str("execute ");
            push_name(&mut entry.message, name, true);
            entry.message.push_str(sql);
            push_parameters(&mut entry.detail, major, parameters);
        }
        self.now_us += self.random.duration(200);
        self.fails(sql, tag, failure);
    }

    fn fails(&mut self, sql: &str, tag: &'static str, failure: Failure<'_>) {
        let entry = self.line(tag, false);
        entry.severity = "ERROR";
        entry.sqlstate = failure.sqlstate;
        entry.message.push_str(failure.message);
        entry.detail.push_str(failure.detail);
        entry.hint.push_str(failure.hint);
        entry.context.push_str(failure.context);
        entry.statement.push_str(sql);
        entry.position = failure.position;
    }

    /// Advances the time by a pause of the client.
    pub fn pause(&mut self, usual_us: i64) {
        self.now_us += self.random.duration(usual_us);
    }
}

fn push_name(text: &mut String, name: Name<'_>, has_portal: bool) {
    text.push_str(match name.statement {
        "" => "<unnamed>",
        statement => statement,
    });
    if has_portal && !name.portal.is_empty() {
        text.push('/');
        text.push_str(name.portal);
    }
    text.push_str(": ");
}

fn push_parameters(text: &mut String, major: u16, parameters: &str) {
    if !parameters.is_empty() {
        text.push_str(if major >= 17 {
            "Parameters: "
        } else {
            "parameters: "
        });
        text.push_str(parameters);
    }
}
