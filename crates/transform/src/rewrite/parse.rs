//! Parses rewritings: `batch-inserts=50,window=1s,copy`, `drop=PATTERN`, `cache=100ms`,
//! `prepare=5`, `unprepare`, `pool=20,sticky`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Rewrite;
use sql::Pattern;

/// Maximum number of rows of a batch.
const ROWS_MAX: u32 = 10_000;
/// Maximum number of connections of a pool.
const POOL_MAX: u32 = 100_000;
/// Default maximum time that the first row of a batch waits.
const WINDOW: Duration = Duration::from_secs(1);
/// Default number of executions from which a session prepares a statement.
const TIMES: u32 = 2;

impl FromStr for Rewrite {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        match name.trim() {
            "batch-inserts" => parse_batch(text, value),
            "drop" => Pattern::statement(value).map(Rewrite::Drop).ok_or_else(|| {
                format!("'{text}' names no statement; give drop='update orders*where', a text that the normalised statement holds, with * for any text")
            }),
            "cache" => Ok(Rewrite::Cache(parse_duration(text, value)?)),
            "prepare" if value.is_empty() => Ok(Rewrite::Prepare { times: TIMES }),
            "prepare" => match value.trim().parse() {
                Ok(times @ 1..) => Ok(Rewrite::Prepare { times }),
                _ => Err(format!(
                    "'{text}' says not what is prepared; give prepare, for what a session repeats, or prepare=5, for what it sends five times or more"
                )),
            },
            "unprepare" if value.is_empty() => Ok(Rewrite::Unprepare),
            "unprepare" => Err(format!("'{text}': unprepare takes no value")),
            "pool" => parse_pool(text, value),
            _ => Err(format!(
                "'{text}' is no rewriting; give batch-inserts=ROWS, drop=PATTERN, cache=DURATION, prepare, unprepare or pool=CONNECTIONS"
            )),
        }
    }
}

fn parse_batch(text: &str, value: &str) -> Result<Rewrite, String> {
    let wrong = || {
        format!(
            "'{text}' makes no batches; give batch-inserts=50, from 2 to {ROWS_MAX} rows, and perhaps how long the first may wait, or copy, for COPY and not INSERT: batch-inserts=50,window=200ms,copy"
        )
    };
    let mut parts = value.split(',').map(str::trim);
    let rows = parts.next().unwrap_or_default();
    let (mut window, mut copy) = (None, false);
    for part in parts {
        match part.strip_prefix("window=") {
            Some(given) if window.is_none() => window = Some(given),
            None if part == "copy" && !copy => copy = true,
            _ => return Err(wrong()),
        }
    }
    let rows = rows.parse().map_err(|_| wrong())?;
    if !(2..=ROWS_MAX).contains(&rows) {
        return Err(wrong());
    }
    let window = window.map_or(Ok(WINDOW), |window| parse_duration(text, window))?;
    Ok(Rewrite::BatchInserts { rows, window, copy })
}

fn parse_pool(text: &str, value: &str) -> Result<Rewrite, String> {
    let wrong = || {
        format!(
            "'{text}' makes no pool; give pool=20, from 1 to {POOL_MAX} connections, or pool=20,sticky, with which a session keeps to its connection while that is free"
        )
    };
    let (size, sticky) = match value.split_once(',') {
        None => (value, false),
        Some((size, how)) => match how.trim() {
            "sticky" => (size, true),
            "round-robin" => (size, false),
            _ => return Err(wrong()),
        },
    };
    let size = size.trim().parse().map_err(|_| wrong())?;
    match (1..=POOL_MAX).contains(&size) {
        true => Ok(Rewrite::Pool { size, sticky }),
        false => Err(wrong()),
    }
}

/// Parses `200ms`, `1m30s`; a number without a unit is in milliseconds.
fn parse_duration(text: &str, value: &str) -> Result<Duration, String> {
    let value = value.trim();
    let is_number = !value.is_empty() && value.bytes().all(|one| one.is_ascii_digit());
    let with_unit = if is_number {
        format!("{value}ms")
    } else {
        value.to_owned()
    };
    let time = clock::parse_duration(&with_unit).map_err(|error| format!("{text}: {error}"))?;
    match time <= Duration::from_secs(86_400) {
        true => Ok(time),
        false => Err(format!("{text}: that is more than a day; give less")),
    }
}

fn format_duration(time: Duration) -> String {
    match time.as_micros() {
        us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
        us if us % 1_000 == 0 => format!("{}ms", us / 1_000),
        us => format!("{us}us"),
    }
}

impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rewrite::BatchInserts { rows, window, copy } => {
                write!(f, "batch-inserts={rows}")?;
                if *window != WINDOW {
                    write!(f, ",window={}", format_duration(*window))?;
                }
                f.write_str(if *copy { ",copy" } else { "" })
            }
            Rewrite::Drop(pattern) => write!(f, "drop={}", pattern.given()),
            Rewrite::Cache(time) => write!(f, "cache={}", format_duration(*time)),
            Rewrite::Prepare { times } if *times == TIMES => f.write_str("prepare"),
            Rewrite::Prepare { times } => write!(f, "prepare={times}"),
            Rewrite::Unprepare => f.write_str("unprepare"),
            Rewrite::Pool { size, sticky } => {
                write!(f, "pool={size}{}", if *sticky { ",sticky" } else { "" })
            }
        }
    }
}
