use super::*;

fn simple(sql: &str) -> EventKind {
    EventKind::Simple { sql: sql.into() }
}

fn texts(state: &SessionState) -> Vec<String> {
    let sql = |kind: EventKind| kind.sql().unwrap().to_string();
    state.restoring_statements().into_iter().map(sql).collect()
}

#[test]
fn session_state_recorded_at_a_server_drops_what_was_rolled_back() {
    let mut state = SessionState::default();
    state.record(simple("set a.b = 1"), None, false);
    state.record(simple("set a.c = 1"), Some(Sqlstate(*b"42602")), false);
    assert_eq!(texts(&state), ["set a.b = 1"]);
    state.record(simple("set a.b = 2"), None, true);
    state.record(simple("prepare p as select 1"), None, true);
    assert!(state.in_transaction());
    // If the connection is lost now, prepared statements need to be restored, too.
    assert_eq!(texts(&state), ["set a.b = 1", "prepare p as select 1"]);
    state.command_complete(b"ROLLBACK");
    state.idle();
    assert_eq!(texts(&state), ["set a.b = 1", "prepare p as select 1"]);
    // In a pipeline, the tag of COMMIT arrives before the statement before it is recorded.
    state.command_complete(b"COMMIT");
    state.record(simple("set a.b = 3"), None, true);
    state.idle();
    state.record(simple("deallocate p"), None, false);
    // The deallocated statement was between the two settings. Both settings may be restored.
    assert_eq!(texts(&state), ["set a.b = 1", "set a.b = 3"]);
    state.record(simple("set a.b = 4"), None, false);
    assert_eq!(texts(&state), ["set a.b = 4"]);
    assert!(!state.is_bound_to_connection() && !state.has_temporary_objects());
    state.record(simple("create temp table t (a int)"), None, false);
    assert!(state.is_bound_to_connection() && state.has_temporary_objects());
    state.record(simple("discard all"), None, false);
    assert!(!state.is_bound_to_connection() && !state.has_temporary_objects());
    assert_eq!(texts(&state), Vec::<String>::new());
}

/// Follows these statements; one that ends in `!` failed.
fn followed(statements: &[&str]) -> SessionState {
    let mut state = SessionState::default();
    for sql in statements {
        let (sql, failed) = match sql.strip_suffix('!') {
            Some(sql) => (sql, true),
            None => (*sql, false),
        };
        let sqlstate = failed.then_some(Sqlstate(*b"22012"));
        let event = Tracked::default().event(simple(sql), sqlstate);
        state.follow(&event);
    }
    state
}

#[test]
fn session_state_followed_in_a_workload_reads_transactions_from_the_text() {
    for (statements, in_transaction, settings) in [
        (&["begin", "select 1"][..], true, &[][..]),
        (&["begin!"], false, &[]),
        (&["begin", "set a.b = 1", "commit"], false, &["set a.b = 1"]),
        (&["begin", "set a.b = 1", "rollback"], false, &[]),
        (
            &["begin", "set a.b = 1", "commit and chain"],
            true,
            &["set a.b = 1"],
        ),
        // COMMIT of a failed transaction is a ROLLBACK.
        (
            &["begin", "set a.b = 1", "select 1 / 0!", "commit"],
            false,
            &[],
        ),
        (&["begin; set a.b = 1; commit"], false, &["set a.b = 1"]),
        (
            &["prepare transaction 'x'", "commit prepared 'x'"],
            false,
            &[],
        ),
        (&["set a.b = 1", "reset all"], false, &[]),
        (&["set a.b = 1!", "set local a.c = 1"], false, &[]),
    ] {
        let state = followed(statements);
        assert_eq!(state.in_transaction(), in_transaction, "{statements:?}");
        let sql = |kind: &EventKind| kind.sql().unwrap().to_string();
        let set: Vec<String> = state.settings().map(sql).collect();
        assert_eq!(set, settings, "{statements:?}");
    }
}

#[test]
fn session_state_follows_temporary_objects_also_of_an_open_transaction() {
    for (statements, expected) in [
        (&["create temp table t (a int)"][..], true),
        (&["create temp table t (a int)!"], false),
        (&["begin", "create temp table t (a int)"], true),
        (&["begin", "create temp table t (a int)", "rollback"], false),
        (&["create temp table t (a int)", "drop table t"], false),
        (&["create temp table t (a int) on commit drop"], false),
        (&["select 1 into temp t"], true),
        (&["create table t (a int)"], false),
    ] {
        let state = followed(statements);
        assert_eq!(state.has_temporary_objects(), expected, "{statements:?}");
    }
}
