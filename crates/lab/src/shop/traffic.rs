//! Traffic of the demo: the shop's programs query its database for a duration.
//!
//! Choices, each for a reason:
//! - **One thread a client program, on the synchronous client library.** The shop's programs are
//!   no part of Rehearse, so the traffic is not made by its own wire code.
//! - **Every way of sending a statement**: simple (also several statements in one message),
//!   extended unnamed, named and kept for the connection, named for once, and SQL's own
//!   `PREPARE`/`EXECUTE`. The same order history is sent in two of them.
//! - **Nothing later depends on a value that the server made up.** New rows have keys computed of
//!   the program's number and a counter ([`NewKeys`]), each program changes only customers of its
//!   own, stocks are only counted down and far from empty, and parcels are found again by who
//!   took them. A replay thus gives the same errors and almost the same rows.
//! - **Products are locked in the order of their ids**, so there are no deadlocks.
//! - **Failures are provoked, and each must fail with its SQLSTATE**; any other error, and a
//!   failure that does not come, ends the traffic and is returned.
//! - **Think times are exponential, within transactions too.** The rate they come to leaves the
//!   machine more than half idle with all indexes, so that a replay without one still keeps up.

mod choices;
mod pages;

use choices::{NewKeys, Role};
use postgres::error::SqlState;
use postgres::types::{ToSql, Type};
use postgres::{Client, Row, Statement};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use std::fmt;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Parameters of the traffic.
#[derive(Debug, Clone, Copy)]
pub struct TrafficOptions {
    /// Client programs, each with one session at a time.
    pub sessions: usize,
    /// Duration. Each program completes its present action.
    pub duration: Duration,
    /// Seed of the random choices.
    pub seed: u64,
}

/// Counts of the traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrafficCounts {
    /// Statements sent, failed ones included. A simple message counts once, whatever it holds,
    /// and preparing does not count unless it failed.
    pub statements: u64,
    /// Statements that failed, each as it was meant to.
    pub failed: u64,
    /// Connections opened.
    pub sessions: u64,
    /// Statements that read a customer's order history, which need [`crate::shop::tables::INDEX_TO_DROP`].
    pub histories: u64,
}

impl AddAssign for TrafficCounts {
    fn add_assign(&mut self, other: Self) {
        self.statements += other.statements;
        self.failed += other.failed;
        self.sessions += other.sessions;
        self.histories += other.histories;
    }
}

impl fmt::Display for TrafficCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} statements in {} sessions; {} read an order history, {} failed, as they were \
             meant to.",
            self.statements, self.sessions, self.histories, self.failed
        )
    }
}

/// The reason why the traffic ended early.
#[derive(Debug)]
pub struct TrafficError {
    program: usize,
    reason: UnexpectedOutcome,
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client program {}: ", self.program)?;
        match &self.reason {
            UnexpectedOutcome::Error(error) => match error.as_db_error() {
                Some(said) => write!(f, "{} ({})", said.message(), said.code().code()),
                None => error.fmt(f),
            },
            UnexpectedOutcome::Success(code) => {
                write!(
                    f,
                    "a statement that must fail with {} succeeded",
                    code.code()
                )
            }
            UnexpectedOutcome::NoParcel => f.write_str("no parcel is waiting any more"),
        }
    }
}

impl std::error::Error for TrafficError {}

/// An outcome that a program does not handle.
#[derive(Debug)]
enum UnexpectedOutcome {
    /// An error that was not provoked.
    Error(postgres::Error),
    /// A statement succeeded that must fail with this SQLSTATE.
    Success(SqlState),
    /// The warehouse has no parcels left.
    NoParcel,
}

impl From<postgres::Error> for UnexpectedOutcome {
    fn from(error: postgres::Error) -> Self {
        UnexpectedOutcome::Error(error)
    }
}

type Result<T, E = UnexpectedOutcome> = std::result::Result<T, E>;

/// Opens a connection with the given `application_name`.
pub type Connect<'a> = dyn Fn(&str) -> Result<Client, postgres::Error> + Sync + 'a;

/// Runs the programs of the shop, and returns when all have ended.
pub fn run_traffic(
    connect: &Connect<'_>,
    options: TrafficOptions,
) -> Result<TrafficCounts, TrafficError> {
    let broken = AtomicBool::new(false);
    let until = Instant::now() + options.duration;
    let run = |number: usize| {
        let mut program = Program::new(connect, options, number, until, &broken);
        match program.run() {
            Ok(()) => Ok(program.driven),
            Err(reason) => {
                broken.store(true, Ordering::Relaxed);
                Err(TrafficError {
                    program: number,
                    reason,
                })
            }
        }
    };
    thread::scope(|scope| {
        let run = &run;
        let programs: Vec<_> = (0..options.sessions)
            .map(|number| scope.spawn(move || run(number)))
            .collect();
        let mut all = TrafficCounts::default();
        let mut trouble = None;
        for program in programs {
            match program.join() {
                Ok(Ok(driven)) => all += driven,
                Ok(Err(error)) => trouble = trouble.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        trouble.map_or(Ok(all), Err)
    })
}

type Parameter<'a> = &'a (dyn ToSql + Sync);

/// A client program of the shop, in its own thread.
struct Program<'a> {
    connect: &'a Connect<'a>,
    number: usize,
    programs: usize,
    until: Instant,
    broken: &'a AtomicBool,
    random: Xoshiro256PlusPlus,
    keys: NewKeys,
    session: Option<Session>,
    driven: TrafficCounts,
}

/// A connection, with its prepared statements.
struct Session {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
}

impl<'a> Program<'a> {
    fn new(
        connect: &'a Connect<'a>,
        options: TrafficOptions,
        number: usize,
        until: Instant,
        broken: &'a AtomicBool,
    ) -> Self {
        // The generator hashes its seed, so neighbouring seeds give unrelated sequences.
        let seed = options
            .seed
            .wrapping_mul(1 << 20)
            .wrapping_add(number as u64);
        Self {
            connect,
            number,
            programs: options.sessions,
            until,
            broken,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            keys: NewKeys::of(number),
            session: None,
            driven: TrafficCounts::default(),
        }
    }

    fn is_running(&self) -> bool {
        Instant::now() < self.until && !self.broken.load(Ordering::Relaxed)
    }

    fn run(&mut self) -> Result<()> {
        // Programs start at different times.
        self.pause(200);
        let role = Role::of(self.number);
        while self.is_running() {
            self.open(role)?;
            match role {
                Role::Web => {
                    while self.is_running() {
                        self.visit()?;
                        self.pause(60);
                    }
                }
                Role::App => {
                    for _ in 0..self.random.random_range(3..12) {
                        self.visit()?;
                        self.pause(45);
                    }
                }
                Role::Warehouse => {
                    while self.is_running() {
                        self.pack()?;
                        self.pause(120);
                    }
                }
                Role::Reports => {
                    while self.is_running() {
                        self.report()?;
                        self.pause(1200);
                    }
                }
            }
            self.close()?;
            self.pause(60);
        }
        Ok(())
    }

    fn open(&mut self, role: Role) -> Result<()> {
        let client = (self.connect)(role.application())?;
        self.driven.sessions += 1;
        self.session = Some(Session {
            client,
            prepared: HashMap::new(),
        });
        if role == Role::Web {
            self.send_simple("SET statement_timeout = '30s'")?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        match self.session.take() {
            Some(session) => Ok(session.client.close()?),
            None => Ok(()),
        }
    }

    /// Waits within an action, for a random time with this mean in milliseconds.
    fn think(&mut self, mean_ms: u32) {
        let wait = self.random_pause(mean_ms);
        thread::sleep(wait);
    }

    /// Waits after an action in the same way, but not beyond the end of the traffic.
    fn pause(&mut self, mean_ms: u32) {
        let left = self.until.saturating_duration_since(Instant::now());
        let wait = self.random_pause(mean_ms).min(left);
        thread::sleep(wait);
    }

    fn random_pause(&mut self, mean_ms: u32) -> Duration {
        let even: f64 = self.random.random();
        // At most five times the mean, which bounds the longest pause.
        let exponential = (-(1.0 - even).ln()).min(5.0);
        Duration::from_secs_f64(exponential * f64::from(mean_ms) / 1000.0)
    }

    fn client(&mut self) -> &mut Client {
        self.driven.statements += 1;
        &mut self.session.as_mut().expect("a session is open").client
    }

    /// Sends a simple query.
    fn send_simple(&mut self, sql: &str) -> Result<(), postgres::Error> {
        self.client().simple_query(sql).map(drop)
    }

    /// Executes with the unnamed statement.
    fn execute_unnamed(
        &mut self,
        sql: &str,
        parameters: &[(Parameter<'_>, Type)],
    ) -> Result<Vec<Row>, postgres::Error> {
        self.client().query_typed(sql, parameters)
    }

    /// Executes with a named statement that is prepared once for each connection.
    fn execute_named(
        &mut self,
        sql: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, postgres::Error> {
        self.driven.statements += 1;
        let session = self.session.as_mut().expect("a session is open");
        let statement = match session.prepared.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                let statement = session.client.prepare(sql)?;
                session.prepared.insert(sql, statement.clone());
                statement
            }
        };
        session.client.query(&statement, parameters)
    }

    /// Executes with a named statement that is prepared for one use and closed.
    fn execute_once(
        &mut self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, postgres::Error> {
        self.client().query(sql, parameters)
    }

    /// Checks that a statement failed with this SQLSTATE.
    fn expect_error<T>(
        &mut self,
        code: &SqlState,
        outcome: Result<T, postgres::Error>,
    ) -> Result<()> {
        match outcome {
            Ok(_) => Err(UnexpectedOutcome::Success(code.clone())),
            Err(error) if error.code() == Some(code) => {
                self.driven.failed += 1;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}
