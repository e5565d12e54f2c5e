//! Options of a replay that is divided among several workers.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

/// Most shards.
const SHARDS_MAX: u64 = 1_000;
/// Variable with the number of a worker that a Kubernetes Indexed Job started, from 0.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Division among several workers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Several workers")]
pub struct ShardArgs {
    /// Replay share I of N of the sessions, as one of N processes that start together, and write to
    /// the same -o. I is from 0 to N-1 [default of I: JOB_COMPLETION_INDEX].
    #[arg(long, value_name = "[I]/N", conflicts_with_all = ["against", "restore", "captured_clock"])]
    pub shard: Option<ShardNumber>,
    /// Wait this long for the other workers before the start.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = clock::parse_duration)]
    pub start_timeout: Duration,
    /// Refuse to start if the clock of the target is known less exactly than this (half of the
    /// shortest round trip).
    #[arg(long, value_name = "DURATION", default_value = "5ms", value_parser = clock::parse_duration)]
    pub clock_tolerance: Duration,
}

/// Number of a worker, if it is given, and the number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardNumber {
    number: Option<u64>,
    count: u64,
}

impl FromStr for ShardNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, count) = text.split_once('/').unwrap_or(("", text));
        let invalid = || {
            format!(
                "'{text}' is not a valid shard; give I/N, such as 0/4 to 3/4 for four workers, or /4 with {INDEX_VARIABLE}"
            )
        };
        let count: u64 = count.parse().map_err(|_| invalid())?;
        if !(1..=SHARDS_MAX).contains(&count) {
            return Err(format!("give 1 to {SHARDS_MAX} shards"));
        }
        let number = match number {
            "" => None,
            number => Some(number.parse().map_err(|_| invalid())?),
        };
        check(number, count)?;
        Ok(ShardNumber { number, count })
    }
}

fn check(number: Option<u64>, count: u64) -> Result<(), String> {
    match number {
        Some(number) if number >= count => Err(format!(
            "there is no shard {number} of {count}: shards are numbered from 0, to {}",
            count - 1
        )),
        _ => Ok(()),
    }
}

impl fmt::Display for ShardNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "{number}/{}", self.count),
            None => write!(f, "/{}", self.count),
        }
    }
}

impl ShardNumber {
    /// Returns the number of the shard and the number of shards. `variable` reads the environment.
    ///
    /// # Errors
    /// If the number is neither given nor in the environment.
    pub fn resolve(self, variable: impl Fn(&str) -> Option<String>) -> Result<(u64, u64), String> {
        let number = match (self.number, variable(INDEX_VARIABLE)) {
            (Some(number), _) => number,
            (None, Some(text)) => text.parse().map_err(|_| {
                format!(
                    "{INDEX_VARIABLE} is '{text}', which is no number; give --shard I/{}",
                    self.count
                )
            })?,
            (None, None) => {
                return Err(format!(
                    "--shard {self} does not say which shard, and {INDEX_VARIABLE} is not set; give --shard I/{}, with I from 0",
                    self.count
                ));
            }
        };
        check(Some(number), self.count)?;
        Ok((number, self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_has_a_number_from_zero_or_that_of_the_job() {
        let resolve = |text: &str, index: Option<&str>| {
            let shard: ShardNumber = text.parse()?;
            shard.resolve(|_| index.map(str::to_owned))
        };
        assert_eq!(resolve("3/8", Some("5")), Ok((3, 8)));
        assert_eq!(resolve("/8", Some("5")), Ok((5, 8)));
        assert_eq!(resolve("8", Some("0")), Ok((0, 8)));
        for (text, index) in [
            ("8/8", None),
            ("/8", None),
            ("/8", Some("8")),
            ("/8", Some("x")),
            ("a/8", None),
            ("0/0", None),
            ("0/1001", None),
            ("-1/4", None),
            ("", None),
        ] {
            assert!(resolve(text, index).is_err(), "{text} {index:?}");
        }
        let message = resolve("8/8", None).unwrap_err();
        assert!(message.contains("numbered from 0, to 7"), "{message}");
    }
}
