//! Writes a log as PostgreSQL does, of any length, reproducible by a seed:
//!
//! ```sh
//! cargo run --release -p capture-log --example generate_log -- --bytes 1GiB --format stderr --output
//! big.log
//! ```
//!
//! It serves benchmarks, and memory measurements on logs larger than a disk (`--output -`). It prints
//! the number of bytes, entries, sessions, statements and failures on standard error.

mod client;
mod entry;
mod generator;
mod line_format;
mod mixed;
mod pgbench;

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use client::Logging;
use generator::{Length, Options, Profile, generate};
use line_format::LineFormat;

const USAGE: &str = "generate_log [--bytes 1GiB | --entries N] [--format stderr|csvlog|jsonlog] [--profile pgbench|mixed]
  [--logging started|ended|both] [--sessions 32] [--seed 1] [--postgres-version 15]
  [--prefix '%m [%p] '] [--output FILE|-]
  started: log_statement = all; ended: log_min_duration_statement = 0";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("generate_log: {error}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    let mut out = "-".to_owned();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        match word.as_str() {
            "--bytes" => options.length = Length::Bytes(bytes(&value)?),
            "--format" => {
                options.format = match value.as_str() {
                    "stderr" => LineFormat::Stderr,
                    "csvlog" => LineFormat::Csv,
                    "jsonlog" => LineFormat::Json,
                    _ => return Err(format!("no format {value}").into()),
                }
            }
            "--profile" => {
                options.profile = match value.as_str() {
                    "pgbench" => Profile::Pgbench,
                    "mixed" => Profile::Mixed,
                    _ => return Err(format!("no profile {value}").into()),
                }
            }
            "--logging" => {
                let (started, ended) = match value.as_str() {
                    "started" => (true, false),
                    "ended" => (false, true),
                    "both" => (true, true),
                    _ => return Err(format!("no logging {value}").into()),
                };
                options.logging = Logging { started, ended };
            }
            "--entries" => options.length = Length::Entries(value.parse()?),
            "--sessions" => options.sessions = value.parse()?,
            "--seed" => options.seed = value.parse()?,
            "--postgres-version" => options.major = value.parse()?,
            "--prefix" => options.prefix = value,
            "--output" => out = value,
            _ => return Err(format!("no option {word}").into()),
        }
    }
    let mut file: Box<dyn Write> = match out.as_str() {
        "-" => Box::new(std::io::stdout().lock()),
        path => Box::new(File::create(path)?),
    };
    let generated = generate(&options, &mut file)?;
    eprintln!("{generated:?}");
    Ok(())
}

/// A number of bytes, with KiB, MiB or GiB.
fn bytes(text: &str) -> Result<u64, Box<dyn std::error::Error>> {
    for (unit, factor) in [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)] {
        if let Some(number) = text.strip_suffix(unit) {
            return Ok(number.parse::<u64>()? * factor);
        }
    }
    Ok(text.parse()?)
}
