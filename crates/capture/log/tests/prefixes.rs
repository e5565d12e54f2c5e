//! Checks prefixes that change within a file, and given prefixes that are wrong.

use std::fmt::Write;

use capture_log::{LogError, LogReport, SkipReason, capture_bytes};
use capture_sink::EventCollector;

fn captured(text: &str, prefix: Option<&str>) -> Result<(Vec<String>, LogReport), LogError> {
    let mut collected = EventCollector::default();
    let report = capture_bytes(Vec::from(text), None, prefix, &mut collected)?;
    assert!(report.reconciliation.adds_up());
    let sessions = &collected.sessions;
    let found = collected.events.iter().filter_map(|event| {
        let sql = event.kind.sql()?;
        let session = sessions
            .iter()
            .find(|session| session.id == event.session)?;
        Some(format!("{}@{} {sql}", session.user, session.database))
    });
    let mut found: Vec<String> = found.collect();
    found.sort_by_key(|statement| statement.rsplit(' ').next().map(str::to_owned));
    Ok((found, report))
}

/// Writes statements of a session, with this text after the process.
fn statements(text: &mut String, pid: u32, names: &str, words: &[&str]) {
    for (number, word) in words.iter().enumerate() {
        writeln!(
            text,
            "2026-03-01 09:00:0{number}.000 UTC [{pid}] {names}LOG:  duration: 1.000 ms  statement: select '{word}'"
        )
        .unwrap();
    }
}

const CHECKPOINT: &str = "2026-03-01 09:00:05.000 UTC [3] LOG:  checkpoint starting: time\n";

#[test]
fn a_prefix_that_changes_is_read_on_with_the_new_one() {
    let plain = ["a", "b", "c", "d"];
    let named = ["e", "f", "g", "h", "i"];
    for (first, second) in [
        ("", "app@shop "),
        ("app@shop ", ""),
        ("app@shop ", "[user=app,db=shop] "),
    ] {
        let mut text = String::new();
        statements(&mut text, 7, first, &plain);
        text.push_str(CHECKPOINT);
        statements(&mut text, 8, second, &named);
        let (found, report) = captured(&text, None).unwrap();
        let name = |names: &str| if names.is_empty() { "@" } else { "app@shop" };
        let expected: Vec<String> = plain
            .iter()
            .map(|word| format!("{} select '{word}'", name(first)))
            .chain(
                named
                    .iter()
                    .map(|word| format!("{} select '{word}'", name(second))),
            )
            .collect();
        assert_eq!(found, expected, "{first:?} {second:?}");
        assert_eq!(report.reconciliation.unreadable.lines, 0);
        assert!(
            report.sources[0]
                .notes
                .iter()
                .any(|note| note.contains("was changed: from line"))
        );
    }
}

#[test]
fn announced_prefixes_are_followed_one_after_the_other() {
    let announce = |names: &str, prefix: &str| {
        format!(
            "2026-03-01 09:00:00.000 UTC [1] {names}LOG:  parameter \"log_line_prefix\" changed to \"{prefix}\"\n"
        )
    };
    let mut text = String::new();
    statements(&mut text, 7, "app@shop ", &["a", "b", "c"]);
    text += &announce("user=,db= ", "%m [%p] user=%u,db=%d ");
    statements(&mut text, 7, "user=app,db=shop ", &["d", "e", "f"]);
    text += &announce("app=,user=,db= ", "%m [%p] app=%a,user=%u,db=%d ");
    statements(&mut text, 7, "app=psql,user=app,db=shop ", &["g", "h", "i"]);
    let (found, report) = captured(&text, None).unwrap();
    assert_eq!(found.len(), 9, "{found:?}");
    assert_eq!(report.reconciliation.unreadable.lines, 0);
    let notes = report.sources[0].notes.join("\n");
    assert_eq!(
        notes.matches("was changed: from line").count(),
        2,
        "{notes}"
    );
}

#[test]
fn a_statement_before_a_changed_prefix_is_not_cut() {
    let mut text = String::new();
    statements(&mut text, 7, "", &["a", "b", "c"]);
    // The new prefix does not begin with a time.
    for word in ["d", "e", "f"] {
        writeln!(
            text,
            "pid=7 2026-03-01 09:00:06.000 UTC LOG:  duration: 1.000 ms  statement: select '{word}'"
        )
        .unwrap();
    }
    let mut collected = EventCollector::default();
    let report = capture_bytes(text, None, None, &mut collected).unwrap();
    let statements = collected
        .events
        .iter()
        .filter(|event| event.kind.sql().is_some());
    assert_eq!(statements.clone().count(), 6);
    for event in statements {
        assert_eq!(event.unreplayable, None, "{:?}", event.kind.sql());
    }
    assert_eq!(report.reconciliation.unreadable.lines, 0);
}

#[test]
fn a_prefix_that_the_server_announces_is_read_from_there_on() {
    let mut text = String::new();
    statements(&mut text, 7, "app@shop ", &["a", "b", "c"]);
    text.push_str("2026-03-01 09:00:05.000 UTC [3] LOG:  parameter \"log_line_prefix\" changed to \"%m [%p] %q%u@%d %a \"\n");
    // Its fields alone do not tell it from the old one with a database called 'shop psql'.
    statements(&mut text, 8, "app@shop psql ", &["d", "e"]);
    // A process that has not seen the change yet.
    statements(&mut text, 7, "app@shop ", &["f"]);
    statements(&mut text, 8, "app@shop psql ", &["g"]);
    let (found, report) = captured(&text, None).unwrap();
    let expected =
        ["a", "b", "c", "d", "e", "f", "g"].map(|word| format!("app@shop select '{word}'"));
    assert_eq!(found, expected, "{:?}", report.sources[0].notes);
}

#[test]
fn a_statement_never_belongs_to_a_process_without_a_client() {
    let mut text = String::new();
    statements(&mut text, 7, "", &["a", "b", "c"]);
    text.push_str(CHECKPOINT);
    let error = captured(&text, Some("%m [%p] %q%u@%d "))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("at line 1 it makes a client's message"),
        "{error}"
    );
    assert!(error.contains("'%m [%p] ' had written them"), "{error}");
    let (found, report) = captured(&text, None).unwrap();
    assert_eq!(found.len(), 3);
    assert!(
        !report
            .reconciliation
            .skipped
            .contains_key(&SkipReason::BackgroundProcess)
    );
}

#[test]
fn a_given_prefix_that_a_connection_line_contradicts_is_refused() {
    let mut text = String::from(
        "2026-03-01 09:00:00.000 UTC [7] shop app LOG:  connection authorized: user=app database=shop\n",
    );
    statements(&mut text, 7, "shop app ", &["a", "b"]);
    let error = captured(&text, Some("%m [%p] %u %d "))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("reads the user 'shop' in a line that says 'app'"),
        "{error}"
    );
    assert!(error.contains("'%m [%p] %d %u '"), "{error}");
    let (found, _) = captured(&text, None).unwrap();
    assert_eq!(found, ["app@shop select 'a'", "app@shop select 'b'"]);
}

/// Writes executions of a prepared statement with their values, with this text after the process.
fn executions(text: &mut String, pid: u32, names: &str, values: std::ops::Range<u32>) {
    for value in values {
        for (number, line) in [
            (
                2 * value + 1,
                "LOG:  duration: 1.000 ms  execute s1: select $1",
            ),
            (
                2 * value + 2,
                &format!("DETAIL:  parameters: $1 = '{value}'"),
            ),
        ] {
            let time = format!("2026-03-01 09:{:02}:{:02}.000 UTC", value / 60, value % 60);
            writeln!(text, "{time} [{pid}] {number} {names}{line}").unwrap();
        }
    }
}

fn replayable(text: String) -> (usize, Vec<String>) {
    let mut collected = EventCollector::default();
    let report = capture_bytes(text, None, None, &mut collected).unwrap();
    assert_eq!(report.reconciliation.unreadable.lines, 0);
    let statements = collected.events.iter();
    let whole =
        statements.filter(|event| event.kind.sql().is_some() && event.unreplayable.is_none());
    (whole.count(), report.sources[0].notes.clone())
}

#[test]
fn entries_with_an_earlier_prefix_keep_their_values() {
    let mut text = String::new();
    executions(&mut text, 7, "app@shop ", 0..5);
    executions(&mut text, 8, "[user=app,db=shop] ", 5..10);
    // A process that has not seen the change yet.
    executions(&mut text, 7, "app@shop ", 10..20);
    executions(&mut text, 8, "[user=app,db=shop] ", 20..25);
    executions(&mut text, 7, "app@shop ", 25..30);
    let (whole, notes) = replayable(text);
    assert_eq!(whole, 30, "{notes:?}");
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn what_a_statement_raised_changes_no_prefix() {
    let own = [
        "CONTEXT:  PL/pgSQL function f() line 1 at RAISE",
        "STATEMENT:  select f()",
    ];
    for forged in [
        "connection authorized: user=mallory database=t application_name=mallory",
        "disconnection: session time: 0:00:00.005 user=mallory database=t host=127.0.0.1 port=1",
        "connection received: host=127.0.0.1 port=1",
        "parameter \"log_line_prefix\" changed to \"%m [%p] %l app@shop job %x \"",
        "checkpoint starting: time",
        "received SIGHUP, reloading configuration files",
    ] {
        for following in [&own[..], &own[1..], &["DETAIL:  x", own[1]]] {
            let mut text = String::new();
            for job in [7, 8] {
                executions(&mut text, job, &format!("app@shop job {job} "), 0..5);
            }
            let start = "2026-03-01 09:00:05.000 UTC [8] 11 app@shop job 8 ";
            writeln!(text, "{start}LOG:  {forged}").unwrap();
            for line in following {
                writeln!(text, "{start}{line}").unwrap();
            }
            // One session writes many lines in a row.
            executions(&mut text, 8, "app@shop job 8 ", 10..310);
            executions(&mut text, 7, "app@shop slow ", 310..340);
            let (whole, notes) = replayable(text);
            assert_eq!(whole, 340, "{forged} {following:?}: {notes:?}");
            let changed = notes.iter().any(|note| note.contains("was changed"));
            assert!(!changed, "{forged} {following:?}: {notes:?}");
        }
    }
}
