//! Tests to which statement a failure is attributed.

use super::{log, short};
use crate::SkipReason;
use workload::{EventKind, Unreplayable};

#[test]
fn fact_10_a_failure_is_joined_to_its_statement() {
    let (collected, account) = log("
        10.000 1 LOG:  statement: select 1/0
        10.001 1 ERROR:  division by zero
        10.001 1 STATEMENT:  select 1/0
        11.000 1 LOG:  statement: select 1
        12.000 1 ERROR:  syntax error at or near \"selec\" at character 1
        12.000 1 STATEMENT:  selec
        13.000 1 ERROR:  column \"x\" does not exist at character 8
        13.000 1 STATEMENT:  select x = $1
        14.000 1 ERROR:  division by zero
        14.000 1 CONTEXT:  unnamed portal with parameters: $1 = '0'
        14.000 1 STATEMENT:  select 1/$1::int
        15.000 9 ERROR:  invalid page in block 7 of relation base/1/2
        15.000 9 CONTEXT:  automatic vacuum of table \"a.b.c\"
    ");
    assert_eq!(
        short(&collected)[1..],
        [
            "0 simple 10000 select 1/0 ?????",
            "0 simple 11000 select 1",
            "0 simple 12000 selec ?????",
            "0 prepare 13000 select x = $1 ?????",
            "0 execute 14000 select 1/$1::int ?????",
        ]
    );
    assert_eq!(collected.events[5].unreplayable, None);
    assert_eq!(account.skipped[&SkipReason::ErrorOutsideStatement].lines, 2);
}

#[test]
fn fact_11_a_cancel_is_an_event_behind_its_statement_and_a_timeout_is_none() {
    let (collected, account) = log("
        10.000 1 LOG:  statement: select pg_sleep(9)
        11.000 2 LOG:  connection received: host=127.0.0.1 port=5
        11.001 1 ERROR:  canceling statement due to user request
        11.001 1 STATEMENT:  select pg_sleep(9)
        12.000 1 LOG:  statement: select pg_sleep(8)
        13.000 1 ERROR:  canceling statement due to statement timeout
        13.000 1 STATEMENT:  select pg_sleep(8)
    ");
    assert_eq!(
        short(&collected)[1..],
        [
            "0 simple 10000 select pg_sleep(9) ?????",
            "0 cancel 11001",
            "0 simple 12000 select pg_sleep(8) ?????",
        ]
    );
    assert_eq!(
        account.skipped[&SkipReason::ConnectionWithoutSession].lines,
        1
    );
}

#[test]
fn fact_10_a_nameless_failure_is_not_put_upon_a_statement_that_was_only_slow() {
    let failure =
        "10.200 1 ERROR:  insert or update on table \"c\" violates foreign key constraint \"f\"";
    let slow = "10.199 1 LOG:  duration: 150.000 ms  execute S: select pg_sleep($1)";
    let (collected, account) = log(&format!("{slow}\n{failure}"));
    assert_eq!(collected.events[1].outcome.sqlstate, None);
    assert_eq!(
        collected.events[2].unreplayable,
        Some(Unreplayable::TextMissing)
    );
    assert_eq!(account.tallies.textless, 1);
    // If everything is logged, the failure belongs to the last one.
    let bind = "10.049 1 LOG:  duration: 0.100 ms  bind S: select pg_sleep($1)";
    let (collected, _) = log(&format!("{bind}\n{slow}\n{failure}"));
    assert!(collected.events[1].outcome.sqlstate.is_some());
}

#[test]
fn fact_10_a_nameless_failure_follows_its_execution_at_once_unless_that_wrote() {
    let failed = |sql: &str, second: &str| {
        let (collected, _) = log(&format!(
            "10.001 1 LOG:  duration: 0.100 ms  bind S: {sql}
            10.002 1 LOG:  duration: 0.100 ms  execute S: {sql}
            {second} 1 ERROR:  insert or update on table \"c\" violates foreign key constraint \"f\""
        ));
        collected.events[1].outcome.sqlstate.is_some()
    };
    assert!(failed("select insert_row($1)", "10.003"));
    // Others may lie between, if a transaction is not sampled.
    assert!(!failed("select insert_row($1)", "10.200"));
    assert!(failed("insert into c values ($1)", "10.200"));
}

#[test]
fn fact_10_a_nameless_failure_is_of_what_was_just_parsed_and_not_of_what_was_prepared_before() {
    // If transactions are sampled, a Parse may be all that is logged of a session.
    let log_with = |at: &str| {
        log(&format!(
            "10.001 1 LOG:  duration: 0.100 ms  parse S: select pg_sleep($1)
            {at} 1 ERROR:  insert or update on table \"c\" violates foreign key constraint \"f\""
        ))
    };
    let (collected, account) = log_with("10.002");
    assert!(collected.events[1].outcome.sqlstate.is_some());
    assert!(account.skipped.is_empty(), "{account:?}");
    let (collected, account) = log_with("10.300");
    assert_eq!(
        collected.events[1].unreplayable,
        Some(Unreplayable::TextMissing)
    );
    assert!(matches!(
        collected.events[2].kind,
        EventKind::Prepare { .. }
    ));
    assert_eq!(collected.events[2].outcome.sqlstate, None);
    assert_eq!(account.tallies.textless, 1);
}

#[test]
fn fact_10_a_failed_bind_is_due_when_it_failed_and_not_when_its_statement_was_prepared() {
    let (collected, _) = log("
        10.001 1 LOG:  duration: 1.000 ms  parse S: select 1/$1
        10.002 1 ERROR:  division by zero
        10.002 1 STATEMENT:  select 1/$1
        20.001 1 LOG:  duration: 1.000 ms  parse T: select 2/$1
        40.000 1 ERROR:  division by zero
        40.000 1 STATEMENT:  select 2/$1
    ");
    assert_eq!(
        short(&collected),
        [
            "0 connect 10000",
            "0 execute 10000 select 1/$1 ?????",
            "0 execute 40000 select 2/$1 ?????",
        ]
    );
}

#[test]
fn a_failed_bind_is_not_the_execution_before_it() {
    let (collected, _) = log("
        10.001 1 LOG:  execute S_1: insert into t values ($1)
        10.001 1 DETAIL:  parameters: $1 = '1'
        15.001 1 ERROR:  invalid input syntax for type integer: \"x\"
        15.001 1 CONTEXT:  unnamed portal parameter $1 = 'x'
        15.001 1 STATEMENT:  insert into t values ($1)
    ");
    assert_eq!(
        short(&collected),
        [
            "0 connect 10001",
            "0 execute 10001 insert into t values ($1)",
            "0 execute 15001 insert into t values ($1) ?????",
        ]
    );
}

/// Formats the statements with their code and mark.
fn fates(lines: &str) -> Vec<String> {
    let (collected, _) = log(lines);
    let statements = collected
        .events
        .iter()
        .filter(|event| event.kind.is_statement());
    let text = |event: &workload::Event| {
        let code = event.outcome.sqlstate.map_or("", |_| " failed");
        let mark = event.unreplayable.map_or("", workload::Unreplayable::name);
        let sql = event.kind.sql().expect("a statement");
        format!("{} {sql}{code} {mark}", event.kind.name())
            .trim_end()
            .to_owned()
    };
    statements.map(text).collect()
}

#[test]
fn error_about_an_unknown_name_is_not_of_the_statement_before_it() {
    for (message, expected) in [
        (
            "prepared statement \"nosuch\" does not exist",
            "execute  failed statement_unknown",
        ),
        (
            "portal \"nosuch\" does not exist",
            "fetch  failed statement_unknown",
        ),
        (
            "invalid large-object descriptor: 7",
            "simple  failed text_missing",
        ),
    ] {
        for running in [
            "10.001 1 LOG:  execute S: insert into t values (1)",
            "10.001 1 LOG:  duration: 1.000 ms  bind S: insert into t values (1)
             10.001 1 LOG:  duration: 1.000 ms  execute S: insert into t values (1)",
        ] {
            let lines = format!(
                "09.000 1 ERROR:  division by zero\n09.000 1 STATEMENT:  select 1/0
                09.500 1 LOG:  statement: begin
                {running}\n10.002 1 ERROR:  {message}"
            );
            let expected = ["execute insert into t values (1)", expected];
            assert_eq!(fates(&lines)[2..], expected, "{message}");
        }
    }
}

#[test]
fn error_of_a_message_is_not_sent_as_a_simple_query() {
    for (message, context, expected) in [
        (
            "prepared statement \"s\" already exists",
            "",
            "prepare insert into t values ($1) failed",
        ),
        (
            "bind message supplies 2 parameters, but prepared statement \"\" requires 1",
            "",
            "execute insert into t values ($1) failed bind_failed",
        ),
        (
            "invalid input syntax for type integer: \"x\"",
            "unnamed portal parameter $1 = 'x'",
            "execute insert into t values ($1) failed",
        ),
        (
            "invalid input syntax for type integer: \"x\"",
            "unnamed portal parameter $1",
            "execute insert into t values ($1) failed parameters_missing",
        ),
        (
            "there is no parameter $1 at character 9",
            "",
            "simple insert into t values ($1) failed",
        ),
    ] {
        let mut lines = format!("10.000 1 ERROR:  {message}\n");
        if !context.is_empty() {
            lines += &format!("10.000 1 CONTEXT:  {context}\n");
        }
        lines += "10.000 1 STATEMENT:  insert into t values ($1)\n";
        assert_eq!(fates(&lines), [expected], "{message}");
    }
    let two = fates(
        "10.000 1 ERROR:  invalid input syntax for type integer: \"x\"
        10.000 1 CONTEXT:  portal \"p\" parameter $2 = 'x'
        10.000 1 STATEMENT:  insert into t values ($1, $2)",
    );
    assert_eq!(
        two,
        ["execute insert into t values ($1, $2) failed bind_failed"]
    );
}

/// Extended executions that wrote, the last of which failed, with the virtual transaction of each.
fn pipeline(of: &[(&str, &str, &str)]) -> Vec<String> {
    let mut text = String::new();
    for (second, transaction, sql) in of {
        let start = format!("2026-03-01 09:00:{second} UTC [1] {transaction} ");
        match sql.strip_suffix('!') {
            Some(sql) => text.push_str(&format!(
                "{start}ERROR:  duplicate key value violates unique constraint\n{start}STATEMENT:  {sql}\n"
            )),
            None => text.push_str(&format!("{start}LOG:  duration: 0.010 ms  execute S: {sql}\n")),
        }
    }
    let mut collected = capture_sink::EventCollector::default();
    crate::capture_bytes(text, None, Some("%m [%p] %v "), &mut collected).unwrap();
    let statements = collected
        .events
        .iter()
        .filter(|event| event.kind.is_statement());
    statements
        .map(|event| {
            event
                .unreplayable
                .map_or("", workload::Unreplayable::name)
                .to_owned()
        })
        .collect()
}

#[test]
fn virtual_transaction_shows_which_statements_an_error_undid() {
    let insert = "insert into t values (1)";
    let failed = "insert into t values (2)!";
    assert_eq!(
        pipeline(&[
            ("10.000", "3/7", insert),
            ("10.000", "3/8", insert),
            ("10.900", "3/8", "select f()"),
            ("10.900", "3/8", failed),
            ("10.900", "3/9", insert),
        ]),
        ["", "rolled_back", "rolled_back", "rolled_back", ""]
    );
    // One after the other, or a Bind of an unknown name outside of a transaction.
    let other = pipeline(&[("10.000", "3/7", insert), ("10.000", "3/8", failed)]);
    assert_eq!(other, ["", ""]);
    let other = pipeline(&[("10.000", "3/7", insert), ("10.000", "0/0", failed)]);
    assert_eq!(other, ["", ""]);
    // A block decides by its own end.
    let block = pipeline(&[
        ("10.000", "3/7", "begin"),
        ("10.000", "3/7", insert),
        ("10.000", "3/7", failed),
    ]);
    assert_eq!(block, ["", "", ""]);
}

#[test]
fn without_virtual_transactions_an_error_directly_after_a_write_leaves_its_fate_open() {
    let lines = |pause: &str, sql: &str| {
        fates(&format!(
            "10.000 1 LOG:  duration: 0.010 ms  execute S: {sql}
            10.001 1 LOG:  duration: 0.010 ms  execute T: select 1
            {pause} 1 ERROR:  duplicate key value violates unique constraint
            {pause} 1 STATEMENT:  insert into t values (2)"
        ))
    };
    assert_eq!(
        lines("10.002", "insert into t values (1)"),
        [
            "execute insert into t values (1) fate_unknown",
            "execute select 1",
            "simple insert into t values (2) failed fate_unknown",
        ]
    );
    let failed = "simple insert into t values (2) failed";
    let expected = [
        "execute insert into t values (1)",
        "execute select 1",
        failed,
    ];
    assert_eq!(lines("10.100", "insert into t values (1)"), expected);
    assert_eq!(
        lines("10.002", "select 2"),
        ["execute select 2", "execute select 1", failed]
    );
    // A simple query is its own transaction.
    let simple = "10.000 1 LOG:  duration: 0.010 ms  statement: insert into t values (1)
        10.000 1 ERROR:  duplicate key value violates unique constraint
        10.000 1 STATEMENT:  insert into t values (2)";
    assert_eq!(fates(simple), ["simple insert into t values (1)", failed]);
}

#[test]
fn pipeline_that_is_too_long_to_be_held_is_counted_when_it_fails() {
    let mut lines = String::new();
    for _ in 0..1_200 {
        lines += "10.000 1 LOG:  duration: 0.010 ms  execute S: insert into t values (1)\n";
    }
    lines += "10.000 1 ERROR:  no\n10.000 1 STATEMENT:  insert into t values (1)\n";
    let (_, account) = log(&lines);
    assert_eq!(account.tallies.fate_lost, 200);
    assert_eq!(account.tallies.fate_unknown, 1_001);
    assert_eq!(account.tallies.replayable(), 0);
}

#[test]
fn unused_parse_does_not_overtake_statements_that_an_error_may_undo() {
    let (collected, _) = log("
        10.000 1 LOG:  duration: 0.000 ms  execute s1: insert into t values (1)
        10.002 1 LOG:  duration: 0.000 ms  execute s1: insert into t values (1)
        10.004 1 LOG:  duration: 0.000 ms  parse <unnamed>: select 3
        10.006 1 LOG:  duration: 0.000 ms  parse <unnamed>: select 4
        10.008 1 LOG:  duration: 0.000 ms  execute <unnamed>: select 5
    ");
    assert_eq!(
        short(&collected)[1..],
        [
            "0 execute 10000 insert into t values (1) 0us",
            "0 execute 10002 insert into t values (1) 0us",
            "0 prepare 10004 select 3 0us",
            "0 prepare 10006 select 4 0us",
            "0 execute 10008 select 5 0us",
        ]
    );
}

#[test]
fn error_about_a_cached_plan_in_an_execute_is_of_a_simple_query() {
    for (sql, unreplayable) in [
        ("execute p", None),
        ("/* page */ EXECUTE p", None),
        ("-- page\\nexecute p(1)", None),
        ("select * from t", Some(Unreplayable::BindFailed)),
        (
            "/* execute */ select * from t",
            Some(Unreplayable::BindFailed),
        ),
    ] {
        let (collected, _) = log(&format!(
            "10.000 1 ERROR:  cached plan must not change result type
            10.000 1 STATEMENT:  {sql}"
        ));
        let event = &collected.events[1];
        let is_simple = matches!(event.kind, EventKind::Simple { .. });
        assert_eq!(is_simple, unreplayable.is_none(), "{sql}: {event:?}");
        assert_eq!(event.unreplayable, unreplayable, "{sql}");
    }
}

#[test]
fn prepare_that_failed_and_its_executions_are_replayed_as_they_were() {
    let (collected, account) = log("
        10.000 1 ERROR:  relation \"nix\" does not exist at character 28
        10.000 1 STATEMENT:  PREPARE p AS SELECT * FROM nix WHERE id = $1
        11.000 1 ERROR:  could not determine data type of parameter $1
        11.000 1 STATEMENT:  PREPARE q AS SELECT $2
        12.000 1 ERROR:  prepared statement \"p\" does not exist
        12.000 1 STATEMENT:  EXECUTE p(1)
    ");
    assert_eq!(
        short(&collected)[1..],
        [
            "0 simple 10000 PREPARE p AS SELECT * FROM nix WHERE id = $1 ?????",
            "0 simple 11000 PREPARE q AS SELECT $2 ?????",
            "0 simple 12000 EXECUTE p(1) 26000",
        ]
    );
    assert!(
        collected
            .events
            .iter()
            .all(|event| event.unreplayable.is_none())
    );
    assert!(account.adds_up());
}
