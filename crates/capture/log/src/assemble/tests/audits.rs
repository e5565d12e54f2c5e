//! Tests which lines of pgAudit become statements.

use super::log;
use crate::SkipReason;
use workload::{EventKind, Unreplayable};

/// Formats the statements with their duration and mark; also returns the number of skipped lines.
fn audited(lines: &str) -> (Vec<String>, u64) {
    let (collected, account) = log(lines);
    let statements = collected
        .events
        .iter()
        .filter(|event| event.kind.is_statement());
    let text = |event: &workload::Event| {
        let mut text = format!(
            "{} {}",
            event.kind.name(),
            event.kind.sql().expect("a statement")
        );
        if let EventKind::Execute { parameters, .. } = &event.kind {
            let values = parameters.iter().flatten();
            values.for_each(|value| text += &format!(" [{}]", value.readable().expect("text")));
        }
        if let Some(duration_us) = event.outcome.duration_us {
            text += &format!(" {duration_us}us");
        }
        if event.outcome.sqlstate.is_some() {
            text += " failed";
        }
        text += event.unreplayable.map_or("", Unreplayable::name);
        text
    };
    let skipped = account.skipped.get(&SkipReason::Audit);
    (
        statements.map(text).collect(),
        skipped.map_or(0, |skipped| skipped.lines),
    )
}

#[test]
fn audit_line_is_a_statement_if_nothing_else_logs_it() {
    let lines = "
        10.000 1 LOG:  AUDIT: SESSION,1,1,READ,SELECT,,,select f(),<none>
        10.000 1 LOG:  AUDIT: SESSION,1,2,FUNCTION,EXECUTE,FUNCTION,public.f,select f(),<none>
        10.000 1 LOG:  AUDIT: SESSION,1,3,WRITE,INSERT,,,insert into t values (9),<none>
        11.000 1 LOG:  AUDIT: OBJECT,2,1,WRITE,INSERT,TABLE,public.t,\"insert into t values ($1,$2)\",\"1,\"\"a,b\"\"\"
        11.000 1 LOG:  AUDIT: SESSION,2,1,WRITE,INSERT,TABLE,public.t,\"insert into t values ($1,$2)\",\"1,\"\"a,b\"\"\"
        12.000 1 LOG:  AUDIT: SESSION,3,1,WRITE,INSERT,,,insert into t values ($1),
        13.000 1 LOG:  AUDIT: SESSION,4,1,WRITE,INSERT,,,insert into t values ($1),<not logged>
        14.000 1 LOG:  AUDIT: SESSION,5,1,MISC,BEGIN,,,begin; insert into u values (1); commit,<none>
        14.000 1 LOG:  AUDIT: SESSION,6,1,WRITE,INSERT,,,begin; insert into u values (1); commit,<none>
        14.000 1 LOG:  AUDIT: SESSION,7,1,MISC,COMMIT,,,begin; insert into u values (1); commit,<none>
        15.000 1 LOG:  AUDIT: SESSION,8,1,WRITE,INSERT,,,\"prepare p as insert into t values ($1);\",7
        15.000 1 LOG:  AUDIT: SESSION,8,2,MISC,EXECUTE,,,execute p(7);,<none>
        16.000 1 LOG:  AUDIT: SESSION,10,1,WRITE,INSERT,,,insert into t values (3),<none>
        16.001 1 ERROR:  duplicate key value violates unique constraint
        16.001 1 STATEMENT:  insert into t values (3)
        17.000 1 LOG:  AUDIT: SESSION,11,1,WRITE,INSERT,,,\"prepare p as insert into t values ($1);\",7
        18.000 1 LOG:  AUDIT: SESSION,12,1,WRITE,INSERT,,,<not logged>,<not logged>
    ";
    let (statements, skipped) = audited(lines);
    assert_eq!(
        statements,
        [
            "simple select f()",
            "execute insert into t values ($1,$2) [1] [a,b]",
            // NULL and the empty text look the same.
            "execute insert into t values ($1)parameters_missing",
            "execute insert into t values ($1)parameters_missing",
            "simple begin; insert into u values (1); commit",
            "simple execute p(7);",
            "simple insert into t values (3) failed",
            "execute prepare p as insert into t values ($1);statement_unknown",
        ]
    );
    assert_eq!(skipped, 1);
    let (_, account) = log(lines);
    assert_eq!((account.tallies.audited, account.tallies.unaudited), (8, 1));
    assert!(!account.tallies.reads_at_start);
}

#[test]
fn audit_line_of_a_statement_that_is_logged_otherwise_is_skipped() {
    // log_statement = all
    let (statements, skipped) = audited(
        "10.000 1 LOG:  statement: select 1
        10.000 1 LOG:  AUDIT: SESSION,1,1,READ,SELECT,,,select 1,<none>
        10.000 1 LOG:  duration: 5.000 ms
        11.000 1 LOG:  statement: execute p(1)
        11.000 1 LOG:  AUDIT: SESSION,2,1,READ,SELECT,,,prepare p as select $1,1
        11.000 1 LOG:  AUDIT: SESSION,2,2,MISC,EXECUTE,,,execute p(1),<none>
        12.000 1 LOG:  execute S: select 2
        12.000 1 LOG:  AUDIT: SESSION,3,1,READ,SELECT,,,select 2,<none>
        13.000 1 LOG:  AUDIT: SESSION,4,1,READ,SELECT,,,select 2,<none>",
    );
    assert_eq!(
        statements,
        [
            "simple select 1 5000us",
            "simple execute p(1)",
            "execute select 2",
            "simple select 2",
        ]
    );
    assert_eq!(skipped, 4);
    // Durations, of all and of slow ones.
    let (statements, skipped) = audited(
        "10.000 1 LOG:  AUDIT: SESSION,1,1,READ,SELECT,,,select 1,<none>
        10.001 1 LOG:  duration: 1.000 ms  statement: select 1
        11.000 1 LOG:  duration: 1.000 ms  parse <unnamed>: select $1
        11.000 1 LOG:  duration: 1.000 ms  bind <unnamed>: select $1
        11.000 1 DETAIL:  parameters: $1 = ''
        11.000 1 LOG:  AUDIT: SESSION,2,1,READ,SELECT,,,select $1,
        11.000 1 LOG:  duration: 1.000 ms  execute <unnamed>: select $1
        11.000 1 DETAIL:  parameters: $1 = ''
        12.000 1 LOG:  AUDIT: SESSION,3,1,READ,SELECT,,,select $1,x
        12.900 1 LOG:  duration: 900.000 ms  execute S: select $1
        12.900 1 DETAIL:  parameters: $1 = 'x'",
    );
    assert_eq!(
        statements,
        [
            "simple select 1 1000us",
            "execute select $1 [] 3000us",
            "execute select $1 [x] 900000us",
        ]
    );
    assert_eq!(skipped, 3);
}

#[test]
fn audited_prepare_is_recognised_after_a_comment() {
    let lines = "
        10.000 1 LOG:  AUDIT: SESSION,1,1,MISC,PREPARE,,,/* page */ prepare p as select $1,<none>
        11.000 1 LOG:  AUDIT: SESSION,2,1,READ,SELECT,,,/* page */ prepare p as select $1,7
        11.000 1 LOG:  AUDIT: SESSION,2,2,MISC,EXECUTE,,,/* now */ execute p(7),<none>
        12.000 1 LOG:  AUDIT: SESSION,3,1,READ,SELECT,,,/* page */ prepare p as select $1,8
        13.000 1 LOG:  AUDIT: SESSION,4,1,READ,SELECT,,,/* page */ select $1,9
    ";
    let (statements, _) = audited(lines);
    assert_eq!(
        statements[1..],
        [
            "simple /* now */ execute p(7)",
            "execute /* page */ prepare p as select $1statement_unknown",
            "execute /* page */ select $1 [9]",
        ]
    );
    // The execution that is not logged cannot be replayed, and is counted.
    let (_, account) = log(lines);
    assert_eq!(account.tallies.textless, 1);
}
