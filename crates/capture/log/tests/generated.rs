//! Checks that the generator's logs are read as a server's are: no line is unreadable, the three
//! formats give the same events, and their number is that of the clients' statements.

#[path = "../examples/generate_log"]
mod generate_log {
    pub mod client;
    pub mod entry;
    pub mod generator;
    pub mod line_format;
    pub mod mixed;
    pub mod pgbench;
}
mod normal;
mod parallel;
#[allow(dead_code, reason = "other tests need the rest")]
mod wrapping;

use capture_log::{LogReport, SkipReason, capture_bytes};
use capture_sink::EventCollector;
use generate_log::client::Logging;
use generate_log::generator::{Generated, Length, Options, Profile, generate};
use generate_log::line_format::LineFormat;
use normal::{check_laws, normal_form};

const SETTINGS: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

struct Read {
    bytes: Vec<u8>,
    generated: Generated,
    collected: EventCollector,
    report: LogReport,
}

fn read(options: &Options) -> Read {
    let mut bytes = Vec::new();
    let generated = generate(options, &mut bytes).unwrap();
    assert_eq!(generated.bytes, bytes.len() as u64);
    let mut collected = EventCollector::default();
    // Given, since a log's beginning need not show all properties of a prefix.
    let prefix = (options.format == LineFormat::Stderr).then_some(options.prefix.as_str());
    let report = capture_bytes(bytes.clone(), None, prefix, &mut collected).unwrap();
    let account = &report.reconciliation;
    assert!(account.adds_up(), "{account:?}");
    assert_eq!(account.unreadable.lines, 0, "{account:#?}");
    check_laws(&collected);
    Read {
        bytes,
        generated,
        collected,
        report,
    }
}

/// The log as syslog writes it.
fn wrapped(log: &str) -> String {
    wrapping::syslog(&wrapping::reports(log), wrapping::SYSLOG)
}

fn statements(collected: &EventCollector) -> u64 {
    let statements = collected.events.iter();
    statements.filter(|event| event.kind.is_statement()).count() as u64
}

fn in_three_formats(profile: Profile, logging: Logging, major: u16) {
    let options = |format| Options {
        length: Length::Entries(2_500),
        format,
        profile,
        logging,
        sessions: 12,
        prefix: "%m [%p] %c %l %v %e %q%u@%d %a %r ".to_owned(),
        major,
        ..Options::default()
    };
    let mut forms = Vec::new();
    for format in [LineFormat::Stderr, LineFormat::Csv, LineFormat::Json] {
        let name = format!("{profile:?} {logging:?} {major} {format:?}");
        let Read {
            generated,
            collected,
            report,
            ..
        } = read(&options(format));
        let sent = generated.sent;
        assert_eq!(statements(&collected), sent.statements, "{name}");
        assert_eq!(report.sessions, sent.sessions, "{name}");
        let failures = collected.events.iter();
        let failures = failures.filter(|event| event.outcome.sqlstate.is_some());
        assert_eq!(failures.count() as u64, sent.failures, "{name}");
        if profile == Profile::Mixed {
            assert!(report.reconciliation.skipped[&SkipReason::Forged].lines > 0);
            assert!(sent.failures > 5, "{sent:?}");
        }
        forms.push((normal_form(&collected), name));
    }
    for (form, name) in &forms[1..] {
        assert!(*form == forms[0].0, "{name}");
    }
}

#[test]
fn what_pgbench_does_is_read_in_three_formats() {
    for (started, ended) in SETTINGS {
        in_three_formats(Profile::Pgbench, Logging { started, ended }, 15);
    }
}

#[test]
fn what_applications_do_is_read_in_three_formats() {
    for (started, ended) in SETTINGS {
        for major in [13, 15, 18] {
            in_three_formats(Profile::Mixed, Logging { started, ended }, major);
        }
    }
}

#[test]
fn a_seed_gives_the_same_log_again_and_another_seed_another() {
    let options = |seed| Options {
        length: Length::Bytes(100_000),
        profile: Profile::Mixed,
        seed,
        ..Options::default()
    };
    let first = read(&options(1)).bytes;
    assert!(first == read(&options(1)).bytes);
    assert!(first != read(&options(2)).bytes);
    assert!(first.len() >= 100_000);
}
