use super::*;
use crate::capture_bytes;
use capture_sink::EventCounter;
use std::fmt::Write as _;

/// Judges a log with the prefix of [`log`].
fn fitness(lines: &str) -> LogQuality {
    fitness_with("%m [%p] %c ", lines)
}

fn fitness_with(prefix: &str, lines: &str) -> LogQuality {
    let mut sink = EventCounter::default();
    let bytes = lines.to_owned().into_bytes();
    let report = capture_bytes(bytes, None, Some(prefix), &mut sink).unwrap();
    assert!(report.reconciliation.adds_up());
    // The serialised account of a workload gives the same.
    let json = serde_json::to_value(&report.reconciliation).unwrap();
    let kept: Reconciliation = serde_json::from_value(json).unwrap();
    let fitness = LogQuality::judge(&report.reconciliation);
    assert_eq!(LogQuality::judge(&kept), fitness);
    fitness
}

/// A log of one session: these texts, a millisecond apart.
fn log(texts: &[&str]) -> String {
    let mut log = String::new();
    for (index, text) in texts.iter().enumerate() {
        let text = text.replace("\n", "\n2026-03-01 09:00:00.000 UTC [7] 5f.7 ");
        let (s, ms) = (index / 1_000, index % 1_000);
        writeln!(log, "2026-03-01 09:00:{s:02}.{ms:03} UTC [7] 5f.7 {text}").unwrap();
    }
    log
}

const AUTHORIZED: &str = "LOG:  connection authorized: user=a database=b";
const GONE: &str = "LOG:  disconnection: session time: 0:00:00.005 user=a database=b host=[local]";

/// With a beginning and an end.
fn whole(texts: &[&str]) -> String {
    log(&[&[AUTHORIZED], texts, &[GONE]].concat())
}

fn names(fitness: &LogQuality) -> Vec<&'static str> {
    fitness
        .findings
        .iter()
        .flat_map(|finding| finding.settings().iter().map(|(name, _)| *name))
        .collect()
}

#[test]
fn the_best_log_lacks_nothing() {
    let fitness = fitness(&whole(&[
        "LOG:  duration: 0.100 ms  statement: BEGIN",
        "LOG:  duration: 1.000 ms  execute <unnamed>: select $1\nDETAIL:  Parameters: $1 = '1'",
        "LOG:  duration: 0.100 ms  statement: COMMIT",
    ]));
    assert_eq!(fitness.findings, []);
    let yes = Extent::Yes;
    let all = LogUses {
        replay: yes,
        latencies: yes,
        pacing: yes,
        sessions: yes,
        failures: yes,
    };
    assert_eq!(fitness.uses, all);
    assert_eq!(fitness.tallies.replayable(), 3);
    assert_eq!(fitness.tallies.shortest_us, Some(100));
}

#[test]
fn a_log_of_log_duration_alone_cannot_be_replayed() {
    let fitness = fitness(&whole(&["LOG:  duration: 0.100 ms"; 5]));
    assert_eq!(
        fitness.findings,
        [Finding::DurationsWithoutStatement { lines: 5 }]
    );
    assert_eq!(fitness.uses.replay, Extent::No);
    assert_eq!(
        names(&fitness),
        ["log_min_duration_statement", "log_statement"]
    );
}

#[test]
fn a_server_as_installed_logs_only_failures() {
    let fitness = fitness(&log(&["ERROR:  division by zero\nSTATEMENT:  select 1/0"]));
    assert_eq!(fitness.uses.replay, Extent::No);
    assert_eq!(fitness.uses.failures, Extent::No, "no code is shown");
    assert_eq!(fitness.findings[0], Finding::OnlyFailures { failed: 1 });
}

#[test]
fn a_threshold_is_inferred_from_many_statements_only() {
    let slow: Vec<String> = (0..100)
        .map(|n| format!("LOG:  duration: {}.5 ms  statement: select {n}", 100 + n))
        .collect();
    let slow: Vec<&str> = slow.iter().map(String::as_str).collect();
    let fitness_of = |texts: &[&str]| fitness(&whole(texts));
    let found = fitness_of(&slow);
    assert_eq!(
        found.findings,
        [Finding::SlowOnly {
            shortest_us: 100_500,
            statements: 100
        }]
    );
    assert_eq!(found.uses.replay, Extent::Partly);
    assert_eq!(found.uses.latencies, Extent::Partly);
    assert_eq!(fitness_of(&slow[..9]).findings, []);
    let fast = ["LOG:  duration: 0.020 ms  statement: select 0"];
    assert_eq!(fitness_of(&[&slow[..], &fast[..]].concat()).findings, []);
    // If statements are logged at their start, none is missing; only durations are.
    let started = ["LOG:  statement: select 0"; 10];
    let found = fitness_of(&[&slow[..], &started[..]].concat());
    assert_eq!(
        found.findings,
        [Finding::DurationsUnknown {
            statements: 10,
            of: 110
        }]
    );
}

#[test]
fn log_statement_mod_shows_no_reads() {
    let writes = ["LOG:  statement: insert into t values (1)"; 20];
    let found = fitness(&whole(&writes));
    assert_eq!(found.findings[0], Finding::WritesOnly { statements: 20 });
    assert_eq!(found.uses.replay, Extent::Partly);
    assert_eq!(found.uses.latencies, Extent::No);
    let read = ["LOG:  statement: select 1"];
    let found = fitness(&whole(&[&writes[..], &read[..]].concat()));
    assert_eq!(
        names(&found),
        ["log_min_duration_statement", "log_statement"]
    );
    assert_eq!(found.uses.replay, Extent::Yes);
}

#[test]
fn ends_without_beginnings_show_that_statements_are_missing() {
    let ended = ["LOG:  duration: 0.100 ms  statement: COMMIT"; 21];
    let found = fitness(&whole(&ended));
    assert_eq!(
        found.findings,
        [Finding::Gaps {
            unmatched: 20,
            boundaries: 21
        }]
    );
}

#[test]
fn values_that_are_missing_or_cut_are_told_apart() {
    let found = fitness(&whole(&[
        "LOG:  duration: 0.100 ms  execute a: select $1",
        "LOG:  duration: 0.100 ms  execute b: select $1, $2\nDETAIL:  Parameters: $1 = 'abcdef...', $2 = 'x'",
        "ERROR:  division by zero\nSTATEMENT:  select 1/$1",
    ]));
    assert_eq!(
        found.findings[..3],
        [
            Finding::ValuesMissing {
                statements: 1,
                of: 2
            },
            Finding::ValuesMissingOnFailure { statements: 1 },
            Finding::ValuesCut {
                statements: 1,
                of: 1,
                values: 1,
                of_values: 2
            },
        ]
    );
    assert_eq!(found.tallies.replayable(), 0);
    assert_eq!(found.uses.replay, Extent::No);
}

#[test]
fn sessions_without_their_ends() {
    let one = "LOG:  duration: 0.100 ms  statement: select 1";
    let found = fitness(&log(&[one]));
    assert_eq!(
        found.findings,
        [
            Finding::NoBeginnings { sessions: 1 },
            Finding::NoEnds { sessions: 1 },
            Finding::Nameless { sessions: 1, of: 1 }
        ]
    );
    assert_eq!(found.uses.sessions, Extent::No);
    let other = log(&[AUTHORIZED, one, GONE]).replace("[7] 5f.7", "[8] 6f.8");
    let found = fitness(&(log(&[one]) + &other));
    assert_eq!(
        found.findings[..2],
        [
            Finding::BeganBefore { sessions: 1, of: 2 },
            Finding::StillOpen { sessions: 1, of: 2 }
        ]
    );
    assert_eq!(found.uses.sessions, Extent::Partly);
}

#[test]
fn what_a_prefix_lacks() {
    let lines = "2026-03-01 09:00:00 UTC:10.0.0.1(5):u@d:[7]:LOG:  duration: 0.100 ms  statement: select 1\n";
    let found = fitness_with("%t:%r:%u@%d:[%p]:", lines);
    assert!(found.findings.contains(&Finding::WholeSeconds), "{found:?}");
    assert!(found.findings.contains(&Finding::SessionsByProcess));
    assert_eq!(found.uses.pacing, Extent::Partly);
    assert!(names(&found).contains(&"log_line_prefix"));
}

#[test]
fn lines_that_are_lost() {
    let good = "LOG:  duration: 0.100 ms  statement: select 1";
    let mut log = whole(&[good; 10]);
    log.push_str("imuxsock lost 17 messages from pid 7 due to rate-limiting\n");
    log.push_str("\tloose\n");
    log.push_str("nothing that is known\n");
    log.push_str("2026-03-01 09:00:00.500 UTC [9] 5f.9 STATEMENT:  select 2\n");
    let found = fitness(&log);
    assert_eq!(
        found.findings,
        [
            Finding::RateLimited { lines: 1 },
            Finding::Interleaved { lines: 2 },
            Finding::Unreadable { lines: 1, of: 16 }
        ]
    );
    assert_eq!(found.uses.replay, Extent::Partly);
}

#[test]
fn a_language_that_changes_within_the_log_is_told() {
    let mut log = whole(&["LOG:  duration: 0.100 ms  statement: select 1"; 10]);
    log.push_str("2026-03-01 09:00:00.500 UTC [9] 5f.9 LOG:  Dauer: 0.1 ms  Anweisung: select 2\n");
    log.push_str("2026-03-01 09:00:00.500 UTC [9] 5f.9 FEHLER:  Division durch Null\n");
    let found = fitness(&log);
    assert_eq!(found.findings, [Finding::Translated { lines: 2 }]);
    assert_eq!(names(&found), ["lc_messages"]);
}

#[test]
fn harmless_losses_are_named_and_do_not_count() {
    let begin = "LOG:  duration: 0.1 ms  statement: BEGIN";
    let log = whole(&[
        begin,
        "LOG:  duration: 0.1 ms  execute fetch from a/b: select 1",
        "ERROR:  current transaction is aborted\nSTATEMENT:  select $1",
        "LOG:  duration: 0.1 ms  statement: ROLLBACK",
    ]);
    let log = log.replace("5f.7 LOG", "5f.7 00000 LOG");
    let log = log
        .replace("5f.7 ERROR", "5f.7 25P02 ERROR")
        .replace("5f.7 STAT", "5f.7 25P02 STAT");
    let found = fitness_with("%m [%p] %c %e ", &log);
    assert_eq!(
        found.findings,
        [
            Finding::Fetches { statements: 1 },
            Finding::Refused { statements: 1 }
        ]
    );
    assert_eq!(found.uses.replay, Extent::Yes);
}
