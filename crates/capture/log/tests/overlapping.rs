//! Pieces of one log that overlap, cut at any line and given in any order, give the events of the
//! whole log.

mod normal;

use std::path::{Path, PathBuf};

use capture_log::{Input, LogError, LogFormat, LogOptions, LogReport, capture};
use capture_sink::EventCollector;
use normal::{check_laws, normal_form};
use proptest::prelude::*;

const LOGS: [(LogFormat, &str, &str); 6] = [
    (
        LogFormat::Stderr,
        include_str!("fixtures/both.log"),
        "%m [%p] %c %l %u@%d %e %r %a ",
    ),
    (LogFormat::Csv, include_str!("fixtures/both.csv"), ""),
    (LogFormat::Json, include_str!("fixtures/both.json"), ""),
    (LogFormat::Csv, include_str!("fixtures/server18.csv"), ""),
    (
        LogFormat::Stderr,
        include_str!("fixtures/cut.log"),
        "%m [%p] %c %l %u@%d %e %r %a ",
    ),
    (LogFormat::Json, include_str!("fixtures/server15.json"), ""),
];

fn read(paths: &[&Path], log: usize) -> Result<(String, LogReport), LogError> {
    let (format, _, prefix) = LOGS[log];
    let mut collected = EventCollector::default();
    let options = LogOptions {
        inputs: paths
            .iter()
            .map(|path| Input::Path(path.to_path_buf()))
            .collect(),
        format: Some(format),
        prefix: (!prefix.is_empty()).then(|| prefix.to_owned()),
        ..LogOptions::default()
    };
    let report = capture(options, &mut collected)?;
    assert!(report.reconciliation.adds_up(), "{report:?}");
    check_laws(&collected);
    Ok((normal_form(&collected), report))
}

fn write(directory: &Path, name: &str, lines: &[&str]) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, lines.concat()).unwrap();
    path
}

#[test]
fn a_beginning_of_a_log_and_the_log_give_the_log() {
    let step = if test_support::is_full_tier() { 1 } else { 7 };
    let directory = tempfile::tempdir().unwrap();
    for (log, (_, text, _)) in LOGS.iter().enumerate() {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let whole = write(directory.path(), "whole", &lines);
        let (wanted, _) = read(&[&whole], log).unwrap();
        for to in (1..=lines.len()).step_by(step) {
            let head = write(directory.path(), "head", &lines[..to]);
            for paths in [[&head, &whole], [&whole, &head]] {
                let (found, report) = match read(&paths.map(PathBuf::as_path), log) {
                    // So little may be no log that can be recognised.
                    Err(LogError::NotALog { .. } | LogError::PrefixMatchesNothing { .. })
                        if to < 10 =>
                    {
                        continue;
                    }
                    read => read.unwrap(),
                };
                assert!(
                    found == wanted,
                    "log {log} up to line {to}: {found}\nbut\n{wanted}\n{:?}",
                    report.reconciliation
                );
            }
        }
    }
}

/// The first lines share a millisecond: their time does not say which piece begins first.
#[test]
fn pieces_that_begin_together_give_the_log() {
    let directory = tempfile::tempdir().unwrap();
    for (log, (_, text, _)) in LOGS.iter().enumerate() {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let whole = write(directory.path(), "whole", &lines);
        let (wanted, _) = read(&[&whole], log).unwrap();
        for from in 1..8 {
            let head = write(directory.path(), "head", &lines[..from + 20]);
            let tail = write(directory.path(), "tail", &lines[from..]);
            for paths in [[&head, &tail], [&tail, &head]] {
                let (found, _) = read(&paths.map(PathBuf::as_path), log).unwrap();
                assert!(
                    found == wanted,
                    "log {log} from line {from}: {found}\nbut\n{wanted}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(test_support::cases(200)))]

    #[test]
    fn pieces_that_overlap_give_the_log(
        log in 0usize..LOGS.len(), one in 0usize..100_000, other in 0usize..100_000, turned: bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let lines: Vec<&str> = LOGS[log].1.split_inclusive('\n').collect();
        let (one, other) = (one % lines.len(), other % lines.len());
        // Enough in both to see that they are of one server.
        let (from, to) = (one.min(other), one.max(other));
        prop_assume!(to >= from + 20);
        let whole = write(directory.path(), "whole", &lines);
        let head = write(directory.path(), "head", &lines[..to]);
        let tail = write(directory.path(), "tail", &lines[from..]);
        let (wanted, _) = read(&[&whole], log).unwrap();
        let paths = match turned {
            true => [&tail, &head],
            false => [&head, &tail],
        };
        let (found, _) = read(&paths.map(PathBuf::as_path), log).unwrap();
        prop_assert!(found == wanted, "log {log}, {from} to {to}: {found}\nbut\n{wanted}");
    }
}
