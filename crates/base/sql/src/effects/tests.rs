use super::super::statement_splitter::split_statements;
use super::*;

fn of(sql: &str) -> Vec<Effect> {
    of_bound(sql, &[])
}

fn of_bound(sql: &str, values: &[&str]) -> Vec<Effect> {
    let values: Vec<Option<&str>> = values.iter().copied().map(Some).collect();
    let found: Vec<Effect> = split_statements(sql)
        .iter()
        .flat_map(|statement| read_effects(statement, &values))
        .collect();
    assert!(found.is_empty() || may_have_effects(sql), "{sql}");
    found
}

fn set_of(settings: &[&str]) -> Effect {
    Effect::Set(settings.iter().map(|name| (*name).to_owned()).collect())
}

fn reset_of(settings: &[&str]) -> Effect {
    Effect::Reset(settings.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn transactions() {
    let name = |name: &str| name.to_owned();
    for (sql, effect) in [
        ("BEGIN", Effect::Begin),
        ("begin isolation level serializable", Effect::Begin),
        ("START TRANSACTION READ ONLY", Effect::Begin),
        ("COMMIT", Effect::Commit { chain: false }),
        ("end work", Effect::Commit { chain: false }),
        ("commit and chain", Effect::Commit { chain: true }),
        ("commit and no chain", Effect::Commit { chain: false }),
        ("prepare transaction 'x'", Effect::Commit { chain: false }),
        ("abort", Effect::Rollback { chain: false }),
        (
            "rollback transaction and chain",
            Effect::Rollback { chain: true },
        ),
        ("savepoint A", Effect::Savepoint(name("a"))),
        ("savepoint \"A\"", Effect::Savepoint(name("A"))),
        ("release a", Effect::Release(name("a"))),
        ("release savepoint a", Effect::Release(name("a"))),
        ("rollback to a", Effect::RollbackTo(name("a"))),
        (
            "rollback work to savepoint a",
            Effect::RollbackTo(name("a")),
        ),
        ("set local a = 1", Effect::Local),
        ("set transaction read only", Effect::Local),
        ("set constraints all deferred", Effect::Local),
    ] {
        assert_eq!(of(sql), [effect], "{sql}");
    }
    assert_eq!(of("commit prepared 'x'"), []);
    assert_eq!(of("rollback prepared 'x'"), []);
    assert_eq!(of("start me up"), []);
}

#[test]
fn settings() {
    for (sql, effect) in [
        ("set search_path to a, b", set_of(&["search_path"])),
        ("SET Work_Mem = '1MB'", set_of(&["work_mem"])),
        ("set session work_mem = 1", set_of(&["work_mem"])),
        ("set myapp.\"user\" = 'x'", set_of(&["myapp.user"])),
        ("set work_mem to default", reset_of(&["work_mem"])),
        ("set time zone 'UTC'", set_of(&["timezone"])),
        ("set time zone default", reset_of(&["timezone"])),
        ("set names 'UTF8'", set_of(&["client_encoding"])),
        ("set schema 'a'", set_of(&["search_path"])),
        ("set role app", set_of(&["role"])),
        ("reset role", reset_of(&["role"])),
        (
            "set session authorization x",
            set_of(&["session_authorization", "role"]),
        ),
        (
            "set session authorization default",
            reset_of(&["session_authorization", "role"]),
        ),
        (
            "reset session authorization",
            reset_of(&["session_authorization", "role"]),
        ),
        (
            "set session characteristics as transaction isolation level read committed, read only",
            set_of(&[
                "default_transaction_isolation",
                "default_transaction_read_only",
            ]),
        ),
        (
            "set session characteristics as transaction isolation level read committed",
            set_of(&["default_transaction_isolation"]),
        ),
        ("reset work_mem", reset_of(&["work_mem"])),
        ("reset all", Effect::ResetAll),
        ("select set_config('a.b', 'x', false)", set_of(&["a.b"])),
        (
            "select pg_catalog.set_config('Search_Path', '', false)",
            set_of(&["search_path"]),
        ),
        ("select set_config('a', 'x', true)", Effect::Local),
    ] {
        assert_eq!(of(sql), [effect], "{sql}");
    }
    assert_eq!(
        of_bound(
            "select set_config($1, $2, $3), set_config($4, $2, $5)",
            &["a", "v", "f", "b", "t"]
        ),
        [set_of(&["a"]), Effect::Local]
    );
    assert_eq!(of("show work_mem"), []);
    assert_eq!(of("update t set a = 1"), []);
    assert_eq!(
        of("with x as (delete from t) select set_config('a', 'b', false)"),
        []
    );
    assert_eq!(of("select 'set_config(a)'"), []);
}

fn named(name: &str) -> String {
    name.to_owned()
}

fn temporary(name: &str, if_missing: bool) -> Effect {
    Effect::Temporary {
        name: named(name),
        if_missing,
    }
}

fn altered(name: &str, renamed: Option<&str>) -> Effect {
    Effect::Alter {
        name: named(name),
        renamed: renamed.map(named),
    }
}

/// Checks that each text has this one effect.
fn assert_effects<const N: usize>(expected: [(&str, Effect); N]) {
    for (sql, effect) in expected {
        assert_eq!(of(sql), [effect], "{sql}");
    }
}

#[test]
fn effects_on_prepared_statements_are_read() {
    assert_effects([
        ("prepare P (int) as select $1", Effect::Prepare(named("p"))),
        ("deallocate p", Effect::Deallocate(Some(named("p")))),
        ("deallocate prepare p", Effect::Deallocate(Some(named("p")))),
        ("deallocate all", Effect::Deallocate(None)),
    ]);
}

#[test]
fn effects_on_channels_are_read() {
    assert_effects([
        ("listen c", Effect::Listen(named("c"))),
        ("unlisten c", Effect::Unlisten(Some(named("c")))),
        ("unlisten *", Effect::Unlisten(None)),
    ]);
}

#[test]
fn effects_on_cursors_are_read() {
    assert_effects([
        (
            "declare c cursor with hold for select 1",
            Effect::HoldCursor(named("c")),
        ),
        (
            "declare c no scroll cursor for select 'with hold'",
            Effect::Local,
        ),
        ("declare c cursor without hold for select 1", Effect::Local),
        ("close c", Effect::CloseCursor(Some(named("c")))),
        ("close all", Effect::CloseCursor(None)),
    ]);
}

#[test]
fn effects_on_temporary_objects_are_read() {
    assert_effects([
        ("create temp table t (a int)", temporary("t", false)),
        (
            "create local temporary table if not exists t as select 1",
            temporary("t", true),
        ),
        ("create table pg_temp.t (a int)", temporary("t", false)),
        (
            "create or replace function pg_temp.f() returns int language sql as 'select 1'",
            temporary("f", false),
        ),
        ("create temp view v as select 1", temporary("v", false)),
        ("create temp sequence s", temporary("s", false)),
        ("select * into temp t from x", temporary("t", false)),
        ("create temp table t (a int) on commit drop", Effect::Local),
    ]);
}

#[test]
fn effects_on_altered_and_dropped_tables_are_read() {
    assert_effects([
        (
            "create unique index concurrently if not exists i on only s.t (a)",
            altered("t", None),
        ),
        ("alter table if exists only t add b int", altered("t", None)),
        ("alter table t rename to u", altered("t", Some("u"))),
        (
            "drop table if exists a, s.b cascade",
            Effect::Drop(vec![named("a"), named("b")]),
        ),
    ]);
}

#[test]
fn effects_on_advisory_locks_are_read() {
    assert_effects([
        ("select pg_advisory_lock(1, 2)", Effect::Lock(named("1,2"))),
        (
            "select pg_try_advisory_lock_shared(hashtext('a'))",
            Effect::Lock(named("shared hashtext('a')")),
        ),
        (
            "select pg_advisory_unlock_shared(7)",
            Effect::Unlock(named("shared 7")),
        ),
        ("select pg_advisory_unlock_all()", Effect::UnlockAll),
        ("select pg_advisory_xact_lock(1)", Effect::Local),
    ]);
    assert_eq!(
        of_bound("select pg_advisory_lock($1)", &["42"]),
        of("select pg_advisory_lock(42)")
    );
}

#[test]
fn effects_of_load_and_discard_are_read() {
    assert_effects([
        ("load 'auto_explain'", Effect::Load(named("'auto_explain'"))),
        ("discard all", Effect::DiscardAll),
        ("discard temp", Effect::DiscardTemporary),
    ]);
}

#[test]
fn other_and_incomplete_texts_have_no_effect() {
    for sql in [
        "discard plans",
        "create table t (a int)",
        "create role x",
        "select 1",
        "",
        "drop",
        "set",
        "reset",
        "declare",
        "create",
        "alter table",
        "select pg_advisory_lock(",
    ] {
        let found = of(sql);
        assert!(
            found.is_empty() || sql.contains("advisory"),
            "{sql}: {found:?}"
        );
    }
}

#[test]
fn may_have_effects_is_false_for_most_texts() {
    for sql in [
        "select * from t where a = 1;",
        "(SELECT 1) union (select 2)",
        "update t set a = 'x'",
        "with x as (select 1) insert into t select * from x",
        "fetch 10 from c",
    ] {
        assert!(!may_have_effects(sql), "{sql}");
    }
    for sql in [
        "/* a */ begin",
        "update t set a = 1; commit",
        "SELECT SET_CONFIG($1, $2, $3)",
        "",
    ] {
        assert!(may_have_effects(sql), "{sql}");
    }
}
