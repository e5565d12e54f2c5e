//! Plans against calls: does preparing take planning's half away?

use std::time::{Duration, Instant};

use postgres::Client;

use crate::error::reason;
use crate::{Connect, LabError};

/// The form in which a statement is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A text with its values.
    Simple,
    /// Prepared once a session, then carried out with values.
    Prepared,
}

/// What `pg_stat_statements` counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Plans {
    /// Sessions, one after the other.
    pub sessions: u32,
    /// How often the statement was planned.
    pub plans: u64,
    /// How often it was carried out.
    pub calls: u64,
}

/// Has sessions read single accounts, and says what the server counted. It has to count planning.
///
/// # Errors
/// Where the server refuses.
pub fn plans(
    client: &mut Client,
    connect: &Connect<'_>,
    protocol: Protocol,
    (sessions, calls): (u32, u32),
) -> Result<Plans, LabError> {
    let failed = LabError::server("plans cannot be counted");
    client
        .batch_execute("SELECT pg_stat_statements_reset()")
        .map_err(&failed)?;
    for number in 0..sessions {
        let result = || -> Result<(), postgres::Error> {
            let mut session = connect("counted")?;
            match protocol {
                Protocol::Simple => (1..=calls)
                    .try_for_each(|number| session.batch_execute(&account(u64::from(number)))),
                Protocol::Prepared => {
                    let read =
                        session.prepare("SELECT abalance FROM pgbench_accounts WHERE aid = $1")?;
                    (1..=calls).try_for_each(|account| {
                        session.query(&read, &[&(account as i32)]).map(drop)
                    })
                }
            }
        };
        result().map_err(|error| LabError::Client {
            number: number as usize,
            reason: reason(&error),
        })?;
    }
    let row = client
        .query_one(
            "SELECT coalesce(sum(plans), 0)::bigint, coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query LIKE 'SELECT abalance FROM pgbench_accounts%'",
            &[],
        )
        .map_err(&failed)?;
    Ok(Plans {
        sessions,
        plans: row.get::<_, i64>(0) as u64,
        calls: row.get::<_, i64>(1) as u64,
    })
}

/// A read of a single account, as a text with its value.
pub fn account(number: u64) -> String {
    format!("SELECT abalance FROM pgbench_accounts WHERE aid = {number}")
}

/// A read of a single account with its branch: a join, as applications send them.
pub fn account_with_branch(number: u64) -> String {
    format!(
        "SELECT abalance, bbalance FROM pgbench_accounts JOIN pgbench_branches USING (bid) WHERE aid = {number}"
    )
}

/// Has sessions read at once, as texts with their values, which are made of accounts' numbers: so many reads in all, or for
/// as long as it may take. Returns how many.
///
/// # Errors
/// Where one breaks off.
pub fn busy(
    connect: &Connect<'_>,
    sessions: u32,
    read: fn(u64) -> String,
    (reads, time): (u64, Duration),
) -> Result<u64, LabError> {
    let each = reads / u64::from(sessions.max(1));
    let begun = Instant::now();
    let session = |number: u32| -> Result<u64, postgres::Error> {
        let mut client = connect("busy")?;
        let mut calls = 0;
        while calls < each && begun.elapsed() < time {
            let account = (calls * 7_919 + u64::from(number)) % 100_000 + 1;
            client.batch_execute(&read(account))?;
            calls += 1;
        }
        Ok(calls)
    };
    let results: Vec<Result<u64, postgres::Error>> = std::thread::scope(|scope| {
        let session = &session;
        let all: Vec<_> = (0..sessions)
            .map(|number| scope.spawn(move || session(number)))
            .collect();
        all.into_iter()
            .map(|one| one.join().expect("a session does not panic"))
            .collect()
    });
    let mut calls = 0;
    for (number, result) in results.into_iter().enumerate() {
        calls += result.map_err(|error| LabError::Client {
            number,
            reason: reason(&error),
        })?;
    }
    Ok(calls)
}
