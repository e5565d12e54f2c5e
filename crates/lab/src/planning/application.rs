//! A small application, far from any performance limit.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::reason;
use crate::{Connect, LabError};

/// The frequent statement.
const READ: &str = "SELECT abalance FROM pgbench_accounts WHERE aid = $1";
/// The infrequent statement.
const SUM: &str = "SELECT sum(bbalance) FROM pgbench_branches WHERE bid <= $1";
/// Number of reads between two sums.
const READS: u32 = 10;

/// Reads accounts at a rate on one connection, and sums branches now and then. Returns the number of accounts read.
///
/// # Errors
/// If it breaks off.
pub fn run_application(connect: &Connect<'_>, per_s: f64, time: Duration) -> Result<u64, LabError> {
    let broke = |error: postgres::Error| LabError::Client {
        number: 0,
        reason: reason(&error),
    };
    let mut client = connect("shop").map_err(broke)?;
    let read = client.prepare(READ).map_err(broke)?;
    let sum = client.prepare(SUM).map_err(broke)?;
    let begun = Instant::now();
    for number in 0u32.. {
        let due = Duration::from_secs_f64(f64::from(number) / per_s);
        if due >= time {
            return Ok(u64::from(number));
        }
        thread::sleep(due.saturating_sub(begun.elapsed()));
        let account = (number.wrapping_mul(7_919) % 100_000 + 1) as i32;
        client.query(&read, &[&account]).map_err(broke)?;
        if number % READS == 0 {
            client.query(&sum, &[&1i32]).map_err(broke)?;
        }
    }
    Ok(0)
}
