//! The demo's traffic: what a shop's programs do to its database, for some seconds.
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

/// How much traffic there is to be.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// Client programs, each with one session at a time.
    pub sessions: usize,
    /// For how long; each finishes what it is doing.
    pub duration: Duration,
    /// The same seed makes the same choices.
    pub seed: u64,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Driven {
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

impl AddAssign for Driven {
    fn add_assign(&mut self, other: Self) {
        self.statements += other.statements;
        self.failed += other.failed;
        self.sessions += other.sessions;
        self.histories += other.histories;
    }
}

impl fmt::Display for Driven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} statements in {} sessions; {} read an order history, {} failed, as they were \
             meant to.",
            self.statements, self.sessions, self.histories, self.failed
        )
    }
}

/// Why the traffic ended before its time.
#[derive(Debug)]
pub struct TrafficError {
    program: usize,
    reason: Unforeseen,
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client program {}: ", self.program)?;
        match &self.reason {
            Unforeseen::Error(error) => match error.as_db_error() {
                Some(said) => write!(f, "{} ({})", said.message(), said.code().code()),
                None => error.fmt(f),
            },
            Unforeseen::Success(code) => {
                write!(
                    f,
                    "a statement that must fail with {} succeeded",
                    code.code()
                )
            }
            Unforeseen::NoParcel => f.write_str("no parcel is waiting any more"),
        }
    }
}

impl std::error::Error for TrafficError {}

/// What the programs are not made for.
#[derive(Debug)]
enum Unforeseen {
    /// An error that was not provoked.
    Error(postgres::Error),
    /// A statement went through that must fail with this.
    Success(SqlState),
    /// The warehouse has no work left.
    NoParcel,
}

impl From<postgres::Error> for Unforeseen {
    fn from(error: postgres::Error) -> Self {
        Unforeseen::Error(error)
    }
}

type Result<T, E = Unforeseen> = std::result::Result<T, E>;

/// Opens a connection under an `application_name`.
pub type Connect<'a> = dyn Fn(&str) -> Result<Client, postgres::Error> + Sync + 'a;

/// Drives the shop, and returns when all programs are done.
pub fn drive(connect: &Connect<'_>, options: Traffic) -> Result<Driven, TrafficError> {
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
        let mut all = Driven::default();
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

/// A client program of the shop, on its thread.
struct Program<'a> {
    connect: &'a Connect<'a>,
    number: usize,
    programs: usize,
    until: Instant,
    broken: &'a AtomicBool,
    random: Xoshiro256PlusPlus,
    keys: NewKeys,
    session: Option<Session>,
    driven: Driven,
}

/// A connection, and what was prepared on it.
struct Session {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
}

impl<'a> Program<'a> {
    fn new(
        connect: &'a Connect<'a>,
        options: Traffic,
        number: usize,
        until: Instant,
        broken: &'a AtomicBool,
    ) -> Self {
        // Hashed by the generator's seeding: neighbouring seeds give unlike sequences.
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
            driven: Driven::default(),
        }
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.until && !self.broken.load(Ordering::Relaxed)
    }

    fn run(&mut self) -> Result<()> {
        // Not all at once.
        self.pause(200);
        let role = Role::of(self.number);
        while self.goes_on() {
            self.open(role)?;
            match role {
                Role::Web => {
                    while self.goes_on() {
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
                    while self.goes_on() {
                        self.pack()?;
                        self.pause(120);
                    }
                }
                Role::Reports => {
                    while self.goes_on() {
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
            self.simple("SET statement_timeout = '30s'")?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        match self.session.take() {
            Some(session) => Ok(session.client.close()?),
            None => Ok(()),
        }
    }

    /// Waits within what the program is doing, for a random time of this mean in milliseconds.
    fn think(&mut self, mean_ms: u32) {
        let wait = self.some_time(mean_ms);
        thread::sleep(wait);
    }

    /// The same after it, but not beyond the traffic's end.
    fn pause(&mut self, mean_ms: u32) {
        let left = self.until.saturating_duration_since(Instant::now());
        let wait = self.some_time(mean_ms).min(left);
        thread::sleep(wait);
    }

    fn some_time(&mut self, mean_ms: u32) -> Duration {
        let even: f64 = self.random.random();
        // At most five times the mean, so that no program is gone for long.
        let exponential = (-(1.0 - even).ln()).min(5.0);
        Duration::from_secs_f64(exponential * f64::from(mean_ms) / 1000.0)
    }

    fn client(&mut self) -> &mut Client {
        self.driven.statements += 1;
        &mut self.session.as_mut().expect("a session is open").client
    }

    /// Sends a simple query.
    fn simple(&mut self, sql: &str) -> Result<(), postgres::Error> {
        self.client().simple_query(sql).map(drop)
    }

    /// Executes by the unnamed statement.
    fn unnamed(
        &mut self,
        sql: &str,
        parameters: &[(Parameter<'_>, Type)],
    ) -> Result<Vec<Row>, postgres::Error> {
        self.client().query_typed(sql, parameters)
    }

    /// Executes by a named statement that is prepared once a connection.
    fn named(
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

    /// Executes by a named statement that is prepared for this once, and closed.
    fn once(
        &mut self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, postgres::Error> {
        self.client().query(sql, parameters)
    }

    /// Takes an outcome that must be a failure.
    fn refused<T>(&mut self, code: &SqlState, outcome: Result<T, postgres::Error>) -> Result<()> {
        match outcome {
            Ok(_) => Err(Unforeseen::Success(code.clone())),
            Err(error) if error.code() == Some(code) => {
                self.driven.failed += 1;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}
