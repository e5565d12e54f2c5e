//! Preludes of sessions that are cut: the statements that bring a session to where it was.

use super::{STEP_US, cut, session, sql, stretch};

/// Returns the texts of the prelude of one session that is cut after these texts.
fn prelude_of(texts: &[&str]) -> Vec<String> {
    let mut texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    texts.push("select 'end'".to_owned());
    let events = session(0, "app", 0, &texts, false);
    let cut = cut(stretch(texts.len() as i64 * STEP_US, 1_000_000), &events).unwrap();
    assert!(cut.account.adds_up());
    assert_eq!(sql(cut.events.last().unwrap()), "select 'end'");
    let prelude = cut.events.iter().filter(|event| event.prelude).skip(1);
    prelude.map(|event| sql(event).to_owned()).collect()
}

/// Checks the prelude after each list of texts.
fn assert_preludes(expected: &[(&[&str], &[&str])]) {
    for (before, prelude) in expected {
        assert_eq!(prelude_of(before), *prelude, "{before:?}");
    }
}

#[test]
fn prelude_restores_settings() {
    assert_preludes(&[
        (
            &["set a = 1", "set b = 1", "set a = 2"],
            &["set b = 1", "set a = 2"],
        ),
        (&["set a = 1", "reset a"], &[]),
        (&["set a = 1", "discard all"], &[]),
        (&["set a = 1", "set role x", "reset all"], &["set role x"]),
        (
            &["set role admin", "set a = 1", "set role app"],
            &["set role admin", "set a = 1", "set role app"],
        ),
    ]);
}

#[test]
fn prelude_restores_an_open_transaction() {
    assert_preludes(&[
        (&["begin", "set a = 1", "rollback"], &[]),
        (
            &["begin", "set a = 1", "insert x", "commit"],
            &["set a = 1"],
        ),
        (&["begin", "set local a = 1", "commit"], &[]),
        (
            &["begin", "set local a = 1", "insert x"],
            &["begin", "set local a = 1", "insert x"],
        ),
        (
            &[
                "begin",
                "set a = 1",
                "savepoint s",
                "set a = 2",
                "rollback to s",
                "commit",
            ],
            &["set a = 1"],
        ),
        (&["begin", "select 1/0", "set a = 1", "commit"], &[]),
        (
            &["begin; insert x", "commit; begin; insert y"],
            &["begin; insert y"],
        ),
        (
            &["begin", "insert x", "commit and chain", "insert y"],
            &["begin", "insert y"],
        ),
    ]);
}

#[test]
fn prelude_restores_prepared_statements() {
    assert_preludes(&[
        (
            &[
                "prepare p as select 1",
                "begin",
                "prepare q as select 1",
                "rollback",
            ],
            &["prepare p as select 1", "prepare q as select 1"],
        ),
        (
            &[
                "set search_path = a",
                "prepare p as select 1",
                "set search_path = b",
            ],
            &[
                "set search_path = a",
                "prepare p as select 1",
                "set search_path = b",
            ],
        ),
        (&["prepare p as select 1", "deallocate p"], &[]),
    ]);
}

#[test]
fn prelude_has_the_effective_statements_of_a_text() {
    assert_preludes(&[
        (
            &["set a = 1; insert x; set b = 1"],
            &["set a = 1; set b = 1"],
        ),
        (&["set a = 1; select 1/0"], &[]),
    ]);
}

#[test]
fn prelude_restores_temporary_tables() {
    assert_preludes(&[
        (
            &[
                "create temp table t (a int)",
                "alter table t add b int",
                "insert x",
            ],
            &["create temp table t (a int)", "alter table t add b int"],
        ),
        (&["create temp table t (a int)", "drop table t"], &[]),
    ]);
}

#[test]
fn prelude_restores_channels_cursors_and_locks() {
    assert_preludes(&[
        (
            &["listen c", "listen c", "listen d", "unlisten d"],
            &["listen c"],
        ),
        (&["declare c cursor with hold for select 1", "close c"], &[]),
        (
            &[
                "select pg_advisory_lock(1)",
                "select pg_advisory_lock(1)",
                "select pg_advisory_unlock(1)",
            ],
            &["select pg_advisory_lock(1)"],
        ),
    ]);
}
