//! Messages between the system and its instances, which are separate processes: parameters at the start, then
//! reports. Each is a line of JSON.

use std::io::{BufRead, Write};
use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::tally::Counts;

/// Parameters of an instance. The line goes to its standard input, which is private, because the URL may contain a
/// password.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct InstanceParameters {
    /// URL of the queue's server.
    pub(super) url: String,
    /// Number of the instance.
    pub(super) number: usize,
    /// The statement that claims.
    pub(super) claim: String,
    /// Number of links that its channel holds.
    pub(super) channel: usize,
    pub(super) workers: usize,
    /// Maximum rate of its limiter, in links a second.
    pub(super) rate_per_s: f64,
    /// Address of the links' server.
    pub(super) links: SocketAddr,
}

/// A periodic report of an instance; the last one is sent when it ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Number of links that it has claimed and not finished.
    pub(super) held: i64,
    /// Present rate of its limiter, in links a second.
    pub(super) target_per_s: f64,
    /// Counts so far.
    pub(super) counts: Counts,
    /// Reason why a thread failed.
    pub(super) failure: Option<String>,
    /// Whether this is the last report.
    pub(super) is_last: bool,
}

/// Writes a message as a line.
pub(super) fn write_message(message: &impl Serialize, to: &mut impl Write) -> std::io::Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    to.write_all(line.as_bytes())?;
    to.flush()
}

/// Reads the next message; `None` at the end, which may be within a line if the other process died.
pub(super) fn read_message<M: DeserializeOwned>(
    from: &mut impl BufRead,
) -> std::io::Result<Option<M>> {
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
    fn read_message_returns_whole_lines_only() {
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
        write_message(&report, &mut line).unwrap();
        let whole = line.len();
        write_message(&report, &mut line).unwrap();
        for cut in whole..line.len() {
            let mut heard = &line[..cut];
            assert_eq!(read_message(&mut heard).unwrap(), Some(report.clone()));
            assert_eq!(read_message::<Report>(&mut heard).unwrap(), None);
        }
    }
}
