//! Options of a capture without end: a series of workloads.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use study::Failure;
use workload::series::{Retention, SERIES_EXTENSION};

/// Options of a capture that writes a series.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Series")]
pub struct RollArgs {
    /// Write a series of workloads, NAME.series, and begin a part at each multiple of this duration (UTC): 1m, 15m, 1h.
    /// Each part has the state of the sessions that continue in it.
    #[arg(long, value_name = "DURATION", value_parser = parse_roll)]
    pub roll: Option<Duration>,
    /// Remove parts that ended this long before the end of the newest one: 24h, 168h.
    #[arg(long, value_name = "DURATION", requires = "roll", value_parser = clock::parse_duration)]
    pub keep_for: Option<Duration>,
    /// Remove the oldest parts while all complete ones are larger than this: 500MB, 50GiB. The newest stays.
    #[arg(long, value_name = "SIZE", requires = "roll", value_parser = parse_size)]
    pub keep_size: Option<u64>,
    /// Continue the series if it exists. The time since its end is a gap, and its sessions end there.
    #[arg(long, requires = "roll")]
    pub append: bool,
}

impl RollArgs {
    /// Returns the limits of the retention.
    pub fn retention(&self) -> Retention {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Retention {
            for_us: self.keep_for.map(micros),
            bytes: self.keep_size,
        }
    }

    /// Returns the kind of artefact that the capture writes.
    pub fn artefact(&self) -> &'static str {
        match self.roll {
            Some(_) => "series",
            None => "workload",
        }
    }

    /// Checks that no part of the traffic is selected, since a series has all of it.
    ///
    /// # Errors
    /// If a slice is given.
    pub fn refuse_slice(&self, is_slice: bool) -> Result<(), Failure> {
        match self.roll.is_some() && is_slice {
            true => Err(Failure::usage(
                "options that select a part of the traffic cannot be given with --roll, since a series has all of it; leave them out, and make a workload of the part with `rehearse slice NAME.series`",
            )),
            false => Ok(()),
        }
    }

    /// Checks that the output has the name of a series.
    ///
    /// # Errors
    /// If not, with a correct option.
    pub fn check_series_name(&self, output: &Path) -> Result<(), Failure> {
        let has_name = output
            .extension()
            .is_some_and(|extension| extension == SERIES_EXTENSION);
        if !has_name {
            return Err(Failure::usage(format!(
                "with --roll, the capture writes a series, whose name ends in .series; give -o {}",
                output.with_extension(SERIES_EXTENSION).display()
            )));
        }
        if archive::is_object_url(output) {
            return Err(Failure::usage(format!(
                "{} cannot be written: a series is kept on this machine, since its parts are removed and joined there; give a path, and copy complete parts to the store",
                output.display()
            )));
        }
        let parent = output.parent().unwrap_or(Path::new(""));
        match parent.as_os_str().is_empty() || parent.is_dir() {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "there is no directory {}, where {} is to be made; make it first, or give another -o",
                parent.display(),
                output.display()
            ))),
        }
    }
}

fn parse_roll(text: &str) -> Result<Duration, String> {
    let duration = clock::parse_duration(text)?;
    match duration.as_micros() % 1_000_000 {
        0 => Ok(duration),
        _ => Err(format!(
            "'{text}' is not whole seconds; give a duration such as 15m"
        )),
    }
}

/// Parses a size in bytes: a number with B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB or TiB (powers of 1024).
fn parse_size(text: &str) -> Result<u64, String> {
    let refuse = || format!("'{text}' is no size; give one such as 500MB or 50GiB");
    let digits = text
        .trim()
        .trim_end_matches(|sign: char| sign.is_ascii_alphabetic());
    let unit = text.trim()[digits.len()..].to_ascii_lowercase();
    let (base, power) = match unit.as_str() {
        "b" => (1, 1),
        "kb" => (1000_u64, 1),
        "mb" => (1000, 2),
        "gb" => (1000, 3),
        "tb" => (1000, 4),
        "kib" => (1024, 1),
        "mib" => (1024, 2),
        "gib" => (1024, 3),
        "tib" => (1024, 4),
        _ => return Err(refuse()),
    };
    let number: u64 = digits.trim().parse().map_err(|_| refuse())?;
    let bytes = number.checked_mul(base.pow(power));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_size_reads_decimal_and_binary_units() {
        assert_eq!(parse_size("500MB"), Ok(500_000_000));
        assert_eq!(parse_size("50GiB"), Ok(50 << 30));
        assert_eq!(parse_size("7 kib"), Ok(7 << 10));
        assert_eq!(parse_size("9B"), Ok(9));
        for refused in ["", "50", "0GB", "-1GB", "1.5GB", "GiB", "99999999999TiB"] {
            assert!(parse_size(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn parse_roll_takes_whole_seconds() {
        assert_eq!(parse_roll("15m"), Ok(Duration::from_secs(900)));
        assert!(parse_roll("1500ms").is_err() && parse_roll("0s").is_err());
    }
}
