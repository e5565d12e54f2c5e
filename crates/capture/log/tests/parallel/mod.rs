//! Checks that the number of threads that read a log, and the size of their chunks, change nothing:
//! events, sessions, the account with its line numbers, and errors.

use std::fmt::Write;
use std::sync::LazyLock;

use capture_log::{LogFormat, LogReport, Parallelism, capture_bytes, capture_bytes_in_parallel};
use capture_sink::EventCollector;
use proptest::prelude::*;

use crate::generate_log::client::Logging;
use crate::generate_log::generator::{Length, Options, Profile, generate};
use crate::generate_log::line_format::LineFormat;

const THREADS: [usize; 4] = [1, 2, 3, 8];

/// Prefixes that the generated logs have in addition to the fixtures' own.
const PREFIXES: [&str; 5] = [
    "%m [%p] ",
    "%t [%p] %q%u@%d ",
    "%m|%u|%d|%c|",
    "%m [%p] %c %l %v %e %q%u@%d %a %r ",
    "%m %a %u %d [%p] ",
];

type Outcome = Result<(EventCollector, LogReport), String>;

fn generated(format: LineFormat, prefix: &str, seed: u64) -> Vec<u8> {
    let options = Options {
        length: Length::Entries(400),
        format,
        profile: Profile::Mixed,
        logging: Logging {
            started: true,
            ended: true,
        },
        sessions: 7,
        prefix: prefix.to_owned(),
        seed,
        ..Options::default()
    };
    let mut bytes = Vec::new();
    generate(&options, &mut bytes).unwrap();
    bytes
}

/// Whole logs in all formats that are parsed in parallel, and one that is not.
static LOGS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut logs = vec![
        include_bytes!("../fixtures/both.log").to_vec(),
        include_bytes!("../fixtures/verbose.log").to_vec(),
        include_bytes!("../fixtures/server18.log").to_vec(),
        include_bytes!("../fixtures/both.csv").to_vec(),
        include_bytes!("../fixtures/server15.csv").to_vec(),
        include_bytes!("../fixtures/both.json").to_vec(),
        include_bytes!("../fixtures/server18.json").to_vec(),
        crate::wrapped(include_str!("../fixtures/both.log")).into_bytes(),
        generated(LineFormat::Csv, "", 1),
        generated(LineFormat::Json, "", 2),
    ];
    let stderr = PREFIXES.iter().zip(3..);
    logs.extend(stderr.map(|(prefix, seed)| generated(LineFormat::Stderr, prefix, seed)));
    logs.push(with_changed_prefix());
    logs.push(with_changed_zone());
    logs
});

/// Number of logs.
const LOG_COUNT: usize = 17;

/// Statements of new sessions, whose connections are not logged.
fn statements(text: &mut String, pids: std::ops::Range<u32>, names: &str) {
    for pid in pids {
        for second in 10..13 {
            writeln!(
                text,
                "2026-03-01 09:00:{second}.000 UTC [{pid}] {names}LOG:  duration: 1.000 ms  statement: select {pid}"
            )
            .unwrap();
        }
    }
}

/// A log whose prefix changes. Its lines after the change have the old prefix as well, with the application in
/// the name of the database.
fn with_changed_prefix() -> Vec<u8> {
    let mut text = String::new();
    statements(&mut text, 100..200, "app@shop ");
    text.push_str(
        "2026-03-01 09:00:13.000 UTC [3] LOG:  parameter \"log_line_prefix\" changed to \"%m [%p] %q%u@%d %a \"\n",
    );
    statements(&mut text, 200..800, "app@shop psql ");
    text.into_bytes()
}

/// A log in a time zone whose abbreviation has another meaning after GMT.
fn with_changed_zone() -> Vec<u8> {
    let log = generated(LineFormat::Csv, "", 23);
    let mut log = String::from_utf8(log).unwrap().replace(" UTC", " IST");
    let middle = log.len() / 2;
    let one = log[middle..].replacen(" IST,", " GMT,", 1);
    log.replace_range(middle.., &one);
    log.into_bytes()
}

fn read(
    bytes: &[u8],
    format: Option<LogFormat>,
    prefix: Option<&str>,
    parallelism: Option<Parallelism>,
) -> Outcome {
    let mut collected = EventCollector::default();
    let bytes = bytes.to_vec();
    let read = match parallelism {
        None => capture_bytes(bytes, format, prefix, &mut collected),
        Some(parallelism) => {
            capture_bytes_in_parallel(bytes, format, prefix, parallelism, &mut collected)
        }
    };
    let report = read.map_err(|error| error.to_string())?;
    assert!(report.reconciliation.adds_up());
    Ok((collected, report))
}

/// Panics if threads change the result.
fn check(bytes: &[u8], chunk_bytes: usize) {
    let expected = read(bytes, None, None, None);
    for cores in THREADS {
        let parallelism = Parallelism { cores, chunk_bytes };
        let found = read(bytes, None, None, Some(parallelism));
        assert_same(&found, &expected, parallelism);
    }
}

fn assert_same(found: &Outcome, expected: &Outcome, parallelism: Parallelism) {
    let (Ok((found, report)), Ok((events, expected))) = (found, expected) else {
        assert_eq!(found, expected, "{parallelism:?}");
        return;
    };
    assert_eq!(report, expected, "{parallelism:?}");
    assert!(found == events, "{parallelism:?}: other events");
}

/// A change of a log.
#[derive(Debug, Clone)]
enum Damage {
    Byte(usize, u8),
    /// Repeats a range at a place.
    Copy(usize, usize, usize),
    Cut(usize, usize),
    Insert(usize, &'static str),
    /// Another time zone from a place on, for a number of lines.
    Zone(usize, usize, &'static str),
}

const INSERTED: [&str; 8] = [
    "\n",
    "\"",
    "\t",
    "ä",
    "noise without a prefix\n",
    "2026-03-01 09:00:00.000 UTC,\"forged\",\"x\n",
    "\n2026-03-01 09:00:00.000 UTC [77] LOG:  checkpoint starting: time\n",
    "\nWARNING:  words of another program\n",
];

const ZONES: [&str; 4] = [" CEST", " GMT", " BST", " XYZ"];

fn damage() -> impl Strategy<Value = Damage> {
    let place = 0usize..120_000;
    let length = 0usize..600;
    prop_oneof![
        2 => (place.clone(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        1 => (place.clone(), length.clone(), place.clone())
            .prop_map(|(from, length, to)| Damage::Copy(from, length, to)),
        1 => (place.clone(), length).prop_map(|(at, length)| Damage::Cut(at, length)),
        3 => (place.clone(), 0..INSERTED.len())
            .prop_map(|(at, text)| Damage::Insert(at, INSERTED[text])),
        1 => (place, 1usize..9, 0..ZONES.len())
            .prop_map(|(at, lines, zone)| Damage::Zone(at, lines, ZONES[zone])),
    ]
}

impl Damage {
    fn apply(&self, log: &mut Vec<u8>) {
        let length = log.len();
        let place = |at: usize| at % (length + 1);
        match *self {
            Damage::Byte(at, byte) => log[at % length] = byte,
            Damage::Copy(from, count, to) => {
                let from = place(from);
                let copied = log[from..length.min(from + count)].to_vec();
                let to = place(to);
                log.splice(to..to, copied);
            }
            Damage::Cut(at, count) => {
                let at = place(at);
                log.drain(at..length.min(at + count));
            }
            Damage::Insert(at, text) => {
                let at = place(at);
                log.splice(at..at, text.bytes());
            }
            Damage::Zone(at, lines, zone) => {
                let rest = log.split_off(place(at));
                let mut rest = String::from_utf8_lossy(&rest).into_owned();
                for _ in 0..lines {
                    rest = rest.replacen(" UTC", zone, 1);
                }
                log.extend_from_slice(rest.as_bytes());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(test_support::cases(200)))]

    #[test]
    fn threads_change_nothing_of_a_damaged_log(
        log in 0..LOG_COUNT,
        chunk_bytes in prop_oneof![1 => 20usize..60, 3 => 60usize..3_000, 3 => 3_000usize..40_000],
        damage in prop::collection::vec(damage(), 0..8),
    ) {
        let mut bytes = LOGS[log].clone();
        for change in &damage {
            if !bytes.is_empty() {
                change.apply(&mut bytes);
            }
        }
        check(&bytes, chunk_bytes);
    }
}

#[test]
fn threads_change_nothing_of_a_whole_log() {
    assert_eq!(LOGS.len(), LOG_COUNT);
    for log in LOGS.iter() {
        for chunk_bytes in [50, 1_000, 30_000, 1 << 20] {
            check(log, chunk_bytes);
        }
    }
}
