//! Counts plans and calls, to see whether preparing statements avoids planning.

use std::time::{Duration, Instant};

use postgres::Client;

use crate::error::reason;
use crate::{Connect, LabError};

/// The form in which a statement is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A text with its values.
    Simple,
    /// Prepared once for each session, then executed with values.
    Prepared,
}

/// Counts of `pg_stat_statements`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanCounts {
    /// Number of consecutive sessions.
    pub sessions: u32,
    /// Number of times that the statement was planned.
    pub plans: u64,
    /// Number of times that it was executed.
    pub calls: u64,
}

/// Runs sessions that read single accounts, and returns the server's counts. The server must track planning.
///
/// # Errors
/// If the server refuses.
pub fn count_plans(
    client: &mut Client,
    connect: &Connect<'_>,
    protocol: Protocol,
    (sessions, calls): (u32, u32),
) -> Result<PlanCounts, LabError> {
    let failed = LabError::server("plans cannot be counted");
    client
        .batch_execute("SELECT pg_stat_statements_reset()")
        .map_err(&failed)?;
    for number in 0..sessions {
        let result = || -> Result<(), postgres::Error> {
            let mut session = connect("counted")?;
            match protocol {
                Protocol::Simple => (1..=calls).try_for_each(|number| {
                    session.batch_execute(&account_query(u64::from(number)))
                }),
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
    Ok(PlanCounts {
        sessions,
        plans: row.get::<_, i64>(0) as u64,
        calls: row.get::<_, i64>(1) as u64,
    })
}

/// Returns the text of a read of a single account, with its value.
pub fn account_query(number: u64) -> String {
    format!("SELECT abalance FROM pgbench_accounts WHERE aid = {number}")
}

/// Returns the text of a read of a single account joined with its branch.
pub fn account_join_query(number: u64) -> String {
    format!(
        "SELECT abalance, bbalance FROM pgbench_accounts JOIN pgbench_branches USING (bid) WHERE aid = {number}"
    )
}

/// Runs concurrent sessions that read with literal values, made of account numbers, up to a number of reads or for a
/// duration. Returns the number of reads.
///
/// # Errors
/// If one breaks off.
pub fn run_load(
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
