//! Measures diagnoses of generated applications with planted troubles, with the built program.
//!
//! `cargo run -p lab --example planted_troubles -- [--seeds 1-3] [--kinds A,B] [--version 15] [--experiments]
//! [--keep DIR] [--again] [--list] [--program PATH]`. The program is built before (`cargo build -p rehearse`).
//! `docs/benchmarks/diagnosis.md` has the method and the results.

#[path = "harness.rs"]
mod harness;

use std::path::PathBuf;
use std::time::Duration;

use harness::case::{CaseOptions, judge_again, run_case};
use harness::kinds::{KINDS, Kind};
use harness::program::{Outcome, Program};
use harness::table::Table;

/// Options of the command line.
struct Options {
    seeds: Vec<u64>,
    kinds: Vec<&'static Kind>,
    case: CaseOptions,
    /// Whether runs that were kept are diagnosed again, without measuring changes.
    is_again: bool,
}

fn main() -> Outcome<()> {
    let Some(options) = read_options()? else {
        for kind in KINDS {
            println!("{}", kind.name);
        }
        return Ok(());
    };
    let mut table = Table::default();
    for kind in &options.kinds {
        if !kind.supports(options.case.major) {
            println!("{}: not on this version", kind.name);
            continue;
        }
        for seed in &options.seeds {
            let done = match options.is_again {
                true => judge_again(kind, *seed, &options.case),
                false => run_case(kind, *seed, &options.case),
            };
            match done {
                Ok(result) => {
                    println!(
                        "{} (seed {seed}): cause {}, change {}, {:.0} s\n{}",
                        kind.name,
                        if result.is_cause_first {
                            "right"
                        } else {
                            "MISSED"
                        },
                        if result.is_change_right {
                            "right"
                        } else {
                            "WRONG"
                        },
                        result.whole_s,
                        result.notes
                    );
                    table.add(kind.name, &result);
                }
                Err(error) => {
                    println!("{} (seed {seed}): FAILED: {error}", kind.name);
                    table.add_failure(kind.name);
                }
            }
        }
    }
    println!("\n{}", table.render());
    Ok(())
}

/// Reads the options; `None` asks for the list of kinds.
fn read_options() -> Outcome<Option<Options>> {
    let mut options = Options {
        seeds: vec![1],
        kinds: KINDS.iter().collect(),
        is_again: false,
        case: CaseOptions {
            program: Program(built_program()?),
            major: Some(15),
            experiments: false,
            load: Duration::from_secs(6),
            measurement: Duration::from_secs(4),
            keep: None,
        },
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--list" => return Ok(None),
            "--again" => options.is_again = true,
            "--experiments" => options.case.experiments = true,
            _ => {
                let value = arguments.next().ok_or(format!("{name} needs a value"))?;
                match name.as_str() {
                    "--seeds" => options.seeds = read_seeds(&value)?,
                    "--kinds" => options.kinds = read_kinds(&value)?,
                    "--version" => options.case.major = Some(value.parse()?),
                    "--keep" => options.case.keep = Some(PathBuf::from(value)),
                    "--program" => options.case.program = Program(PathBuf::from(value)),
                    _ => return Err(format!("unknown option {name}").into()),
                }
            }
        }
    }
    Ok(Some(options))
}

fn read_seeds(text: &str) -> Outcome<Vec<u64>> {
    let mut seeds = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((first, last)) => seeds.extend(first.parse()?..=last.parse::<u64>()?),
            None => seeds.push(part.parse()?),
        }
    }
    Ok(seeds)
}

fn read_kinds(text: &str) -> Outcome<Vec<&'static Kind>> {
    text.split(',')
        .map(|name| {
            let mut all = KINDS.iter();
            let found = all.find(|kind| kind.name == name);
            found.ok_or_else(|| format!("no kind is called {name}; see --list").into())
        })
        .collect()
}

/// The program that was built with this example.
fn built_program() -> Outcome<PathBuf> {
    let own = std::env::current_exe()?;
    let directory = own.ancestors().nth(2).ok_or("no directory")?;
    Ok(directory.join("rehearse"))
}
