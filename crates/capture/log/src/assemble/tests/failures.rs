//! Tests to which statement a failure is attributed.

use super::{log, short};
use crate::SkipReason;
use workload::EventKind;

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
    assert_eq!(account.skipped[&SkipReason::ErrorOutsideStatement].lines, 1);
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
    assert!(matches!(
        collected.events[1].kind,
        EventKind::Prepare { .. }
    ));
    assert_eq!(collected.events[1].outcome.sqlstate, None);
    assert_eq!(account.skipped[&SkipReason::ErrorOutsideStatement].lines, 1);
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
