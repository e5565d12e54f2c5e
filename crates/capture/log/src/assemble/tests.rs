//! Each test draws the log that it is about. Entries come through the stderr reader.

use workload::{EventKind, ServerEventKind, Session};

use crate::{Reconciliation, SkipReason, capture_bytes};
use capture_sink::EventCollector;

mod audits;
mod failures;
mod held;
mod temporary_files;

/// Captures lines of the form `SECONDS PID rest`, where rest starts with the severity; others are
/// unchanged.
fn log(lines: &str) -> (EventCollector, Reconciliation) {
    let mut text = String::new();
    for line in lines
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.is_empty())
    {
        let mut words = line.splitn(3, ' ');
        let (second, pid, rest) = (
            words.next().unwrap(),
            words.next().unwrap(),
            words.next().unwrap(),
        );
        let rest = rest.replace("\\n", "\n\t");
        text.push_str(&format!("2026-03-01 09:00:{second} UTC [{pid}] {rest}\n"));
    }
    let mut collected = EventCollector::default();
    let report = capture_bytes(text, None, Some("%m [%p] "), &mut collected).unwrap();
    assert!(
        report.reconciliation.adds_up(),
        "{:?}",
        report.reconciliation
    );
    (collected, report.reconciliation)
}

/// Formats kind, session, due time in ms of the minute, and duration in µs.
fn short(collected: &EventCollector) -> Vec<String> {
    let one = |event: &workload::Event| {
        let due_ms = (event.due_us / 1_000).rem_euclid(60_000);
        let mut text = format!("{} {} {due_ms}", event.session, event.kind.name());
        if let Some(sql) = event.kind.sql() {
            text.push_str(&format!(" {sql}"));
        }
        if let Some(duration_us) = event.outcome.duration_us {
            text.push_str(&format!(" {duration_us}us"));
        }
        if let Some(code) = event.outcome.sqlstate {
            text.push_str(&format!(" {code}"));
        }
        text
    };
    collected.events.iter().map(one).collect()
}

#[test]
fn fact_01_a_line_at_the_end_is_due_at_its_start() {
    let (collected, _) = log("
        10.000 1 LOG:  duration: 5.000 ms  statement: select 'short'
        12.000 2 LOG:  duration: 8000.000 ms  statement: select 'long'
    ");
    assert_eq!(
        short(&collected),
        [
            "0 connect 9995",
            "1 connect 4000",
            "0 simple 9995 select 'short' 5000us",
            "1 simple 4000 select 'long' 8000000us",
        ]
    );
}

#[test]
fn fact_02_parse_bind_execute_and_a_bare_duration_are_one_event() {
    let (collected, _) = log("
        10.001 1 LOG:  duration: 1.000 ms  parse S: select $1
        10.003 1 LOG:  duration: 0.500 ms  bind S: select $1
        10.003 1 DETAIL:  parameters: $1 = 'x'
        10.003 1 LOG:  execute S: select $1
        10.003 1 DETAIL:  parameters: $1 = 'x'
        10.010 1 LOG:  duration: 7.000 ms
    ");
    assert_eq!(short(&collected)[1..], ["0 execute 10000 select $1 8500us"]);
    let EventKind::Execute { parameters, .. } = &collected.events[1].kind else {
        panic!()
    };
    assert_eq!(parameters[..], [Some("x".into())]);
}

#[test]
fn fact_02_a_statement_prepared_long_before_is_due_when_it_is_bound() {
    let (collected, _) = log("
        10.001 1 LOG:  duration: 1.000 ms  parse S: select 1
        20.000 1 LOG:  duration: 0.500 ms  bind S: select 1
        20.002 1 LOG:  duration: 2.000 ms  execute S: select 1
        21.000 1 LOG:  duration: 1.000 ms  parse T: select 2
        22.000 1 LOG:  duration: 1.000 ms  statement: select 3
        23.000 1 LOG:  duration: 1.000 ms  execute T: select 2
    ");
    // The last one's parse counts, despite the action between.
    assert_eq!(
        short(&collected)[1..],
        [
            "0 execute 19999 select 1 3500us",
            "0 simple 21999 select 3 1000us",
            "0 execute 22999 select 2 2000us",
        ]
    );
}

#[test]
fn fact_03_bare_durations_without_a_statement_are_skipped() {
    let (collected, account) = log("
        10.000 1 LOG:  duration: 1.000 ms
        11.000 1 LOG:  duration: 1.000 ms
        12.000 1 LOG:  duration: 1.000 ms
        13.000 1 LOG:  duration: 1.000 ms
    ");
    assert!(collected.events.is_empty() && collected.sessions.is_empty());
    assert_eq!(
        account.skipped[&SkipReason::DurationWithoutStatement].lines,
        4
    );
    assert!(
        SkipReason::DurationWithoutStatement
            .explanation()
            .contains("log_min_duration_statement = 0")
    );
}

#[test]
fn fact_06_a_fetch_is_no_second_execution() {
    let (collected, _) = log("
        10.000 1 LOG:  execute S/C: select 1
        10.100 1 LOG:  duration: 1.000 ms
        11.000 1 LOG:  execute fetch from S/C: select 1
        11.100 1 LOG:  duration: 2.000 ms
        12.000 1 LOG:  duration: 3.000 ms  execute fetch from S/C: select 1
    ");
    assert_eq!(
        short(&collected)[1..],
        [
            "0 execute 10000 select 1 1000us",
            "0 fetch 11000 select 1 2000us",
            "0 fetch 11997 select 1 3000us",
        ]
    );
    assert_eq!(
        collected.events[2].unreplayable,
        Some(workload::Unreplayable::PortalFetch)
    );
}

#[test]
fn fact_07_a_name_with_other_sql_is_prepared_anew() {
    let (collected, _) = log("
        10.000 1 LOG:  duration: 1.000 ms  parse S: select 1
        11.000 1 LOG:  duration: 1.000 ms  parse S: select 2
        12.000 1 LOG:  duration: 1.000 ms  execute S: select 2
    ");
    assert_eq!(
        short(&collected)[1..],
        [
            "0 prepare 9999 select 1 1000us",
            "0 execute 11999 select 2 2000us"
        ]
    );
}

#[test]
fn fact_12_a_forged_line_is_no_event() {
    let (collected, account) = log("
        10.000 1 LOG:  statement: drop table t
        10.000 1 CONTEXT:  PL/pgSQL function inline_code_block line 1 at RAISE
        10.000 1 STATEMENT:  do $$ … $$
        11.000 1 LOG:  duration: 1.000 ms  statement: drop table t
        11.000 1 STATEMENT:  do $$ … $$
        12.000 1 LOG:  statement: drop table t
        12.000 2 LOG:  checkpoint starting: time
        12.000 1 STATEMENT:  do $$ … $$
    ");
    assert!(
        collected
            .events
            .iter()
            .all(|event| !event.kind.is_statement()),
        "{:?}",
        short(&collected)
    );
    assert_eq!(account.skipped[&SkipReason::Forged].lines, 7);
}

#[test]
fn fact_16_sessions_of_one_process_number_are_cut_at_connect_and_disconnect() {
    let (collected, _) = log("
        10.000 1 LOG:  statement: select 1
        11.000 1 LOG:  connection received: host=[local]
        11.001 1 LOG:  connection authorized: user=u database=d application_name=a
        11.002 1 LOG:  statement: select 2
        12.000 1 LOG:  disconnection: session time: 0:00:01.000 user=u database=d host=[local]
        13.000 1 LOG:  statement: select 3
    ");
    assert_eq!(
        short(&collected),
        [
            "0 connect 10000",
            "0 simple 10000 select 1",
            "1 connect 11000",
            "1 simple 11002 select 2",
            "1 disconnect 12000",
            "2 connect 13000",
            "2 simple 13000 select 3",
        ]
    );
    let seen: Vec<_> = collected
        .sessions
        .iter()
        .map(|session| (session.id, session.start_seen, session.end_seen))
        .collect();
    assert_eq!(
        seen,
        [(0, false, false), (1, true, true), (2, false, false)]
    );
    let Session {
        user,
        database,
        application,
        client,
        ..
    } = &collected.sessions[1];
    assert_eq!(
        [&**user, database, application, client],
        ["u", "d", "a", "[local]"]
    );
}

#[test]
fn fact_16_sessions_are_cut_where_their_start_or_line_numbers_change() {
    for (prefix, one, other) in [
        ("%m %c ", "68b1a2c3.7", "68b1a2ff.7"),
        ("%m [%p] %l ", "[7] 5", "[7] 1"),
    ] {
        let line = |session: &str, sql: &str| {
            format!("2026-03-01 09:00:00.000 UTC {session} LOG:  statement: {sql}\n")
        };
        let mut collected = EventCollector::default();
        let text = line(one, "select 1") + &line(other, "select 2");
        capture_bytes(text, None, Some(prefix), &mut collected).unwrap();
        assert_eq!(collected.sessions.len(), 2, "{prefix}");
    }
}

#[test]
fn fact_21_replication_and_refused_connections_are_no_sessions() {
    let (collected, account) = log("
        10.000 1 LOG:  connection received: host=1.2.3.4 port=5
        10.001 1 LOG:  replication connection authorized: user=r application_name=walreceiver
        10.002 1 LOG:  received replication command: IDENTIFY_SYSTEM
        10.003 1 LOG:  statement: SELECT pg_catalog.set_config('search_path', '', false);
        10.004 1 LOG:  disconnection: session time: 0:00:00.005 user=r database= host=1.2.3.4 port=5
        11.000 2 LOG:  connection received: host=1.2.3.4 port=6
        11.001 2 FATAL:  password authentication failed for user \"x\"
        11.001 2 DETAIL:  Connection matched pg_hba.conf line 1
    ");
    assert!(
        collected.events.is_empty() && collected.sessions.is_empty(),
        "{:?}",
        short(&collected)
    );
    assert_eq!(account.skipped[&SkipReason::Replication].lines, 5);
    assert_eq!(
        account.skipped[&SkipReason::ConnectionWithoutSession].lines,
        3
    );
}

#[test]
fn fact_21_version_18_says_more_of_a_connection() {
    let (collected, account) = log("
        10.000 1 LOG:  connection received: host=[local]
        10.001 1 LOG:  connection authenticated: user=\"u\" method=trust (pg_hba.conf:1)
        10.002 1 LOG:  connection authorized: user=u database=d
        10.003 1 LOG:  connection ready: setup total=1.2 ms, fork=0.3 ms, authentication=0.1 ms
    ");
    assert_eq!(short(&collected), ["0 connect 10000"]);
    assert_eq!(account.lines_in_events, 4);
}

#[test]
fn fatal_ends_the_session_where_it_does() {
    let (collected, _) = log("
        10.000 1 LOG:  statement: select pg_sleep(9)
        11.000 1 FATAL:  terminating connection due to administrator command
        11.000 1 STATEMENT:  select pg_sleep(9)
        12.000 2 LOG:  statement: select 2
        13.000 2 FATAL:  terminating connection due to administrator command
    ");
    assert_eq!(
        short(&collected),
        [
            "0 connect 10000",
            "1 connect 12000",
            "1 simple 12000 select 2",
            "0 simple 10000 select pg_sleep(9) ?????",
            "0 disconnect 11000",
            "1 disconnect 13000",
        ]
    );
    assert!(collected.sessions.iter().all(|session| session.end_seen));
}

#[test]
fn a_server_that_starts_anew_ends_all_sessions() {
    let (collected, _) = log("
        10.000 1 LOG:  statement: select 1
        11.000 9 LOG:  all server processes terminated; reinitializing
        12.000 1 LOG:  statement: select 2
    ");
    assert_eq!(collected.sessions.len(), 2);
}

#[test]
fn time_never_goes_back_within_a_session() {
    let (collected, _) = log("
        10.500 1 LOG:  statement: select 1
        10.600 1 LOG:  duration: 900.000 ms  execute <unnamed>: select 2
        10.550 1 LOG:  statement: select 3
    ");
    assert!(
        collected
            .events
            .windows(2)
            .all(|pair| pair[0].due_us <= pair[1].due_us),
        "{:?}",
        short(&collected)
    );
}

#[test]
fn a_driver_that_never_reuses_a_name_does_not_fill_the_memory() {
    let mut text = String::new();
    for number in 0..9_000 {
        text.push_str(&format!(
            "10.000 1 LOG:  duration: 1.000 ms  parse s{number}: select {number}\n"
        ));
    }
    let (collected, account) = log(&text);
    assert_eq!(collected.events.len(), 9_001);
    assert_eq!(account.lines_in_events, 9_000);
}

#[test]
fn fact_03_bare_durations_go_to_the_execution_that_they_stand_before_and_no_further() {
    // log_statement = mod, log_duration = on: a SELECT's duration, then that of the bind of a
    // name that was prepared before.
    let (collected, account) = log("
        09.000 1 LOG:  statement: truncate t
        09.001 1 LOG:  duration: 0.900 ms
        10.001 1 LOG:  duration: 0.400 ms
        10.002 1 LOG:  duration: 0.300 ms
        10.002 1 LOG:  execute S: insert into t values ($1)
        10.002 1 DETAIL:  parameters: $1 = '1'
        10.003 1 LOG:  duration: 0.200 ms
        10.004 1 LOG:  duration: 900.000 ms
        10.006 1 LOG:  duration: 0.300 ms
        10.006 1 LOG:  execute S: insert into t values ($1)
        10.006 1 DETAIL:  parameters: $1 = '2'
        10.007 1 LOG:  duration: 0.100 ms
        20.000 1 LOG:  duration: 0.050 ms
        30.000 1 LOG:  execute S: insert into t values ($1)
        30.000 1 DETAIL:  parameters: $1 = '3'
        30.001 1 LOG:  duration: 0.100 ms
    ");
    assert_eq!(
        short(&collected),
        [
            "0 connect 9000",
            "0 simple 9000 truncate t 900us",
            "0 execute 10000 insert into t values ($1) 900us",
            "0 execute 10005 insert into t values ($1) 400us",
            "0 execute 30000 insert into t values ($1) 100us",
        ]
    );
    let unexplained = &account.skipped[&SkipReason::DurationWithoutStatement];
    assert_eq!(unexplained.lines, 2);
}

#[test]
fn fact_22_of_sampled_steps_those_with_other_values_are_of_another_execution() {
    let (collected, _) = log("
        10.001 1 LOG:  duration: 0.100 ms  bind S: select $1
        10.001 1 DETAIL:  parameters: $1 = '1'
        10.003 1 LOG:  duration: 0.200 ms  execute S: select $1
        10.003 1 DETAIL:  parameters: $1 = '2'
        10.005 1 LOG:  duration: 0.100 ms  bind S: select $1
        10.005 1 DETAIL:  parameters: $1 = '3'
        10.005 1 LOG:  duration: 0.200 ms  execute S: select $1
        10.005 1 DETAIL:  parameters: $1 = '3'
    ");
    let parameters: Vec<_> = collected
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Execute { parameters, .. } => Some((
                parameters[0].as_ref()?.readable()?,
                event.outcome.duration_us,
            )),
            _ => None,
        })
        .collect();
    assert_eq!(
        parameters,
        [("1", None), ("2", Some(200)), ("3", Some(300))]
    );
}

fn with_prefix(prefix: &str, text: &'static str) -> (EventCollector, Reconciliation) {
    let mut collected = EventCollector::default();
    let report = capture_bytes(text, None, Some(prefix), &mut collected).unwrap();
    assert!(report.reconciliation.adds_up());
    assert_eq!(report.reconciliation.unreadable.lines, 0);
    (collected, report.reconciliation)
}

#[test]
fn fact_17_transaction_numbers_are_no_order_of_commits() {
    // The transaction with the higher number commits first, and the COMMIT lines show none at all.
    let (mut collected, _) = with_prefix(
        "%m [%p] %v %x ",
        "2026-03-01 09:00:10.001 UTC [1] 3/7 901 LOG:  duration: 0.100 ms  statement: insert 1
2026-03-01 09:00:10.002 UTC [2] 4/9 902 LOG:  duration: 0.100 ms  statement: insert 2
2026-03-01 09:00:10.004 UTC [2] 0/0 0 LOG:  duration: 0.100 ms  statement: COMMIT
2026-03-01 09:00:10.009 UTC [1] 0/0 0 LOG:  duration: 0.100 ms  statement: COMMIT
",
    );
    collected.events.sort_by_key(|event| event.due_us);
    assert_eq!(
        short(&collected),
        [
            "0 connect 10000",
            "0 simple 10000 insert 1 100us",
            "1 connect 10001",
            "1 simple 10001 insert 2 100us",
            "1 simple 10003 COMMIT 100us",
            "0 simple 10008 COMMIT 100us",
        ]
    );
}

#[test]
fn fact_22_parallel_workers_and_autovacuum_are_no_sessions() {
    let (collected, account) = with_prefix(
        "%m [%p] %b/%P/ ",
        "2026-03-01 09:00:10.001 UTC [1] client backend// LOG:  duration: 900.000 ms  statement: select 1/sum(a) from t
2026-03-01 09:00:10.500 UTC [8] parallel worker/1/ ERROR:  division by zero
2026-03-01 09:00:10.500 UTC [8] parallel worker/1/ STATEMENT:  select 1/a from t
2026-03-01 09:00:10.501 UTC [1] client backend// ERROR:  division by zero
2026-03-01 09:00:10.501 UTC [1] client backend// CONTEXT:  parallel worker
2026-03-01 09:00:10.501 UTC [1] client backend// STATEMENT:  select 1/a from t
2026-03-01 09:00:11.000 UTC [9] autovacuum worker// LOG:  automatic analyze of table \"shop.public.t\"
2026-03-01 09:00:11.001 UTC [9] autovacuum worker// ERROR:  canceling autovacuum task
",
    );
    assert_eq!(
        short(&collected),
        [
            "0 connect 9101",
            "0 simple 9101 select 1/sum(a) from t 900000us",
            "0 simple 10501 select 1/a from t ?????",
        ]
    );
    // Statements before the first slow one are unknown.
    assert!(!collected.sessions[0].start_seen);
    assert_eq!(account.skipped[&SkipReason::ParallelWorker].lines, 2);
    let did: Vec<_> = collected
        .server_events
        .iter()
        .map(|event| event.kind)
        .filter(|kind| kind.is_activity())
        .collect();
    assert_eq!(
        did,
        [
            ServerEventKind::Autoanalyze,
            ServerEventKind::AutovacuumCancelled
        ]
    );
}

#[test]
fn a_late_line_of_what_a_process_said_aside_takes_no_statement_back() {
    let wait =
        "10.500 7 LOG:  process 7 still waiting for ShareLock on transaction 9 after 100.000 ms";
    let lines = |aside: &str| {
        log(&format!(
            "10.001 7 LOG:  statement: update t set a = 1
            {aside}
            10.500 8 LOG:  statement: select 1
            10.500 7 STATEMENT:  update t set a = 1"
        ))
    };
    let (collected, account) = lines(wait);
    assert_eq!(collected.events.len(), 4);
    assert_eq!(account.skipped[&SkipReason::Detached].lines, 1);
    // Without it the line is of the statement's own entry, which a RAISE wrote then.
    let (collected, account) = lines("");
    assert_eq!(collected.events.len(), 3);
    assert_eq!(account.skipped[&SkipReason::Forged].lines, 2);
}

#[test]
fn a_process_number_that_comes_back_behind_fatal_is_another_session() {
    let (collected, _) = log("
        10.001 7 LOG:  statement: select 1
        11.001 7 FATAL:  terminating connection due to administrator command
        40.001 7 LOG:  statement: select 2
    ");
    assert_eq!(collected.sessions.len(), 2);
    assert!(collected.sessions[0].end_seen);
    let (collected, _) = log("
        10.001 7 LOG:  statement: select 1
        11.001 7 FATAL:  terminating connection due to administrator command
        11.002 7 LOG:  disconnection: session time: 0:00:01.001 user=a database=b host=[local]
    ");
    assert_eq!(collected.sessions.len(), 1);
}

#[test]
fn a_name_is_looked_for_where_a_name_can_be() {
    // It took a minute once.
    let text = format!("{}{}", "ab/".repeat(100_000), ": ".repeat(40));
    let (collected, _) = log(&format!(
        "10.001 7 LOG:  execute C_1: select 1
        10.002 7 LOG:  execute <unnamed>/C_2: values ('{text}')"
    ));
    assert_eq!(
        short(&collected)[2],
        format!("0 execute 10002 values ('{text}')")
    );
}

#[test]
fn a_duration_of_more_than_lifetimes_is_none() {
    let (collected, _) = log("
        10.001 7 LOG:  duration: 18446744073709551.615 ms  statement: select 1
        10.002 7 LOG:  duration: 1.000 ms  statement: select 2
    ");
    assert_eq!(collected.events.len(), 2);
}

#[test]
fn fact_24_what_was_copied_from_the_client_is_in_no_log() {
    let (collected, _) = log("
        10.500 1 LOG:  duration: 400.000 ms  statement: copy t from stdin
        11.001 1 LOG:  duration: 1.000 ms  statement: copy t to stdout
    ");
    let found: Vec<_> = collected.events[1..]
        .iter()
        .map(|event| (event.unreplayable, event.outcome.duration_us))
        .collect();
    assert_eq!(
        found,
        [
            (Some(workload::Unreplayable::CopyDataMissing), Some(400_000)),
            (None, Some(1_000)),
        ]
    );
}
