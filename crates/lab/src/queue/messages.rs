//! What an instance is told when it begins, and what it says while it works: a line of JSON each, since an instance is
//! a process of its own.

use std::io::{BufRead, Write};
use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::tally::Counts;

/// What an instance is told. The line goes to its standard input, where nobody else reads it: the address may have a
/// password in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Task {
    /// Where the queue is.
    pub(super) url: String,
    /// Which instance it is.
    pub(super) number: usize,
    /// The statement that claims.
    pub(super) claim: String,
    /// Links that its channel holds.
    pub(super) channel: usize,
    pub(super) workers: usize,
    /// How many a second its limiter lets through at most.
    pub(super) rate_per_s: f64,
    /// Where links are fetched.
    pub(super) links: SocketAddr,
}

/// What an instance says of itself, again and again, and once more when it ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Links that it has claimed and not done.
    pub(super) held: i64,
    /// How many a second its limiter lets through now.
    pub(super) target_per_s: f64,
    /// What it did so far.
    pub(super) counts: Counts,
    /// Why a part of it broke off.
    pub(super) failure: Option<String>,
    /// It says nothing more: these are its counts.
    pub(super) is_last: bool,
}

/// A message as a line.
pub(super) fn say(message: &impl Serialize, to: &mut impl Write) -> std::io::Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    to.write_all(line.as_bytes())?;
    to.flush()
}

/// The next message; `None` at the end, which may lie within a line where the other one died.
pub(super) fn hear<M: DeserializeOwned>(from: &mut impl BufRead) -> std::io::Result<Option<M>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(Some(serde_json::from_str(line)?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard_and_a_line_that_is_cut_off_is_not() {
        let report = Report {
            held: 7,
            target_per_s: 12.5,
            counts: Counts {
                claimed: 40,
                ..Counts::default()
            },
            failure: Some("the server\nis gone".to_owned()),
            is_last: true,
        };
        let mut line = Vec::new();
        say(&report, &mut line).unwrap();
        let whole = line.len();
        say(&report, &mut line).unwrap();
        for cut in whole..line.len() {
            let mut heard = &line[..cut];
            assert_eq!(hear(&mut heard).unwrap(), Some(report.clone()));
            assert_eq!(hear::<Report>(&mut heard).unwrap(), None);
        }
    }
}
