//! Tests the invariants of rewritings: nothing is lost, sessions keep their order, order-dependent
//! statements are not moved.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use sql::statement_texts;
use workload::{EventKind, Outcome, Parameter, Sqlstate};

fn event(session: u64, due_us: i64, kind: EventKind) -> Event {
    Event {
        session,
        sequence: 0,
        due_us,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        wire_details: None,
    }
}

pub(super) fn connect(session: u64, due_us: i64) -> Event {
    let text = |text: &str| Arc::<str>::from(text);
    event(
        session,
        due_us,
        EventKind::Connect {
            database: text("d"),
            user: text("u"),
            application: text(""),
        },
    )
}

pub(super) fn simple(session: u64, due_us: i64, sql: &str) -> Event {
    event(session, due_us, EventKind::Simple { sql: sql.into() })
}

fn execute(session: u64, due_us: i64, sql: &str, values: &[&str]) -> Event {
    event(
        session,
        due_us,
        EventKind::Execute {
            statement: "s1".into(),
            portal: "".into(),
            sql: sql.into(),
            parameters: values
                .iter()
                .map(|value| Some(Parameter::from(*value)))
                .collect(),
        },
    )
}

fn record(id: u64) -> Session {
    Session {
        id,
        database: "d".into(),
        user: "u".into(),
        application: "".into(),
        client: "".into(),
        start_us: 0,
        end_us: 0,
        start_seen: true,
        end_seen: true,
        statements: 0,
    }
}

fn rewritten(rewriting: &str, events: &[Event]) -> (Vec<Event>, RewriteAccount) {
    let mut rewriter = Rewriter::new(&rewriting.parse().unwrap());
    if rewriter.needs_survey() {
        for one in events {
            rewriter.survey(one);
        }
    }
    let mut out = Vec::new();
    let mut give = |event| {
        out.push(event);
        Ok::<(), Infallible>(())
    };
    for one in events {
        rewriter.handle_event(one.clone(), &mut give).unwrap();
    }
    let account = rewriter.finish(&mut give).unwrap();
    for session in 0..8 {
        let own = out.iter().filter(|one| one.session == session);
        let statements = own.filter(|one| one.kind.is_statement()).count();
        let made = rewriter.rewrite_session(record(session));
        assert_eq!(made.map_or(0, |made| made.statements), statements as u64);
    }
    (out, account)
}

fn texts(events: &[Event]) -> Vec<String> {
    let text = |event: &Event| {
        let sql = event.kind.sql().map_or("", |sql| sql);
        format!("{} {} {sql}", event.session, event.due_us)
    };
    let statements = events.iter().filter(|one| one.kind.is_statement());
    statements.map(text).collect()
}

#[test]
fn inserts_of_one_shape_are_put_together_across_sessions() {
    let events = [
        connect(1, 0),
        connect(2, 0),
        simple(1, 10, "INSERT INTO t (a) VALUES (1)"),
        simple(2, 20, "INSERT  INTO t (a) VALUES (f(2))"),
        simple(2, 25, "INSERT INTO other (a) VALUES (2)"),
        simple(1, 30, "INSERT INTO t (a) VALUES (3)"),
        execute(1, 40, "INSERT INTO t VALUES ($1, $2)", &["a", "b"]),
        execute(2, 50, "INSERT INTO t VALUES ($1, $2)", &["c", "d"]),
    ];
    let (out, account) = rewritten("batch-inserts=3", &events);
    assert_eq!(
        texts(&out),
        [
            "1 30 INSERT INTO t (a) VALUES (1), (f(2)), (3)",
            "2 50 INSERT INTO other (a) VALUES (2)",
            "2 50 INSERT INTO t VALUES ($1, $2), ($3, $4)",
        ]
    );
    let EventKind::Execute {
        statement,
        parameters,
        ..
    } = &out.last().unwrap().kind
    else {
        panic!("{out:?}");
    };
    assert_eq!(&**statement, "s1_x2");
    let values: Vec<&str> = parameters
        .iter()
        .map(|one| one.as_ref().unwrap().readable().unwrap())
        .collect();
    assert_eq!(values, ["a", "b", "c", "d"]);
    assert_eq!(
        (account.merged, account.batches, account.unchanged),
        (5, 2, 1)
    );
    assert_eq!((account.statements, account.statements_after()), (6, 3));
}

#[test]
fn a_session_that_does_anything_else_has_its_rows_first() {
    let insert = "insert into t values (1)";
    let events = [
        connect(1, 0),
        connect(2, 0),
        simple(1, 10, insert),
        simple(2, 20, insert),
        simple(1, 30, "select count(*) from t"),
        simple(2, 40, insert),
        event(2, 50, EventKind::Disconnect),
    ];
    let (out, _) = rewritten("batch-inserts=50", &events);
    assert_eq!(
        texts(&out),
        [
            "1 30 insert into t values (1), (1)",
            "1 30 select count(*) from t",
            "2 50 insert into t values (1)",
        ]
    );
    assert_eq!(out.last().unwrap().kind, EventKind::Disconnect);
}

#[test]
fn a_batch_waits_no_longer_than_it_may() {
    let insert = "insert into t values (1)";
    let events = [
        connect(1, 0),
        simple(1, 1_000, insert),
        simple(1, 90_000, insert),
        simple(1, 101_001, insert),
    ];
    let (out, _) = rewritten("batch-inserts=50,window=100ms", &events);
    assert_eq!(
        texts(&out),
        [
            "1 101000 insert into t values (1), (1)",
            "1 101001 insert into t values (1)"
        ]
    );
}

#[test]
fn transactions_errors_and_settings_are_honoured() {
    let insert = "insert into t values (1)";
    let mut failed = simple(1, 60, insert);
    failed.outcome.sqlstate = Sqlstate::parse("23505");
    let events = [
        connect(1, 0),
        connect(2, 0),
        simple(1, 10, "begin"),
        simple(1, 20, insert),
        simple(2, 25, insert),
        simple(1, 30, insert),
        simple(1, 35, "insert into u values (1)"),
        simple(1, 40, insert),
        simple(1, 50, "commit"),
        failed,
        simple(1, 65, "set search_path = other"),
        simple(1, 70, insert),
        simple(2, 80, insert),
    ];
    let (out, account) = rewritten("batch-inserts=50", &events);
    assert_eq!(
        texts(&out),
        [
            "1 10 begin",
            // Within the block the order of tables stays, and rows of other sessions are not
            // added.
            "1 35 insert into t values (1), (1)",
            "1 40 insert into u values (1)",
            "1 50 insert into t values (1)",
            "1 50 commit",
            "1 60 insert into t values (1)",
            "1 65 set search_path = other",
            "2 80 insert into t values (1), (1)",
            "1 80 insert into t values (1)",
        ]
    );
    assert_eq!(account.left_alone["it failed in the capture"], 1);
    assert!(account.adds_up());
}

#[test]
fn what_matches_is_dropped_and_a_cache_answers_what_was_just_asked() {
    let events = [
        connect(1, 0),
        connect(2, 0),
        simple(1, 0, "select * from t where a = 1"),
        simple(2, 50_000, "select * from t where a = 1"),
        simple(2, 60_000, "select * from t where a = 2"),
        simple(2, 70_000, "update t set b = 1 where a = 1"),
        simple(2, 100_000, "select * from t where a = 1"),
        simple(2, 110_000, "select nextval('s')"),
        simple(2, 120_000, "select nextval('s')"),
        simple(2, 130_000, "begin"),
        simple(2, 140_000, "select * from t where a = 1"),
    ];
    let (out, account) = rewritten("cache=100ms", &events);
    assert_eq!((account.cached, out.len()), (1, events.len() - 1));
    assert!(!texts(&out).contains(&"2 50000 select * from t where a = 1".to_owned()));
    let (out, account) = rewritten("drop=from t where a = 5", &events);
    assert_eq!(account.dropped, 0, "{out:?}");
    let (out, account) = rewritten("drop=FROM t*where a = $1", &events);
    assert_eq!(account.dropped, 5, "{out:?}");
    assert_eq!(out.last().unwrap().sequence, 4);
}

#[test]
fn what_a_session_repeats_is_prepared_with_what_differs_as_parameters() {
    let events = [
        connect(1, 0),
        connect(2, 0),
        simple(1, 10, "select * from q where state = 'due' and id = 7"),
        simple(2, 20, "select * from q where state = 'due' and id = 8"),
        simple(1, 30, "select * from q where state = 'due' and id = 9"),
        // Another type makes another statement; this session sends it once.
        simple(
            1,
            40,
            "select * from q where state = 'due' and id = 9999999999",
        ),
        simple(1, 50, "begin"),
        simple(
            1,
            60,
            "select date_trunc('day', at), count(*) from q where n = 1 group by date_trunc('day', at)",
        ),
        simple(
            1,
            70,
            "select date_trunc('hour', at), count(*) from q where n = 1 group by date_trunc('hour', at)",
        ),
    ];
    let (out, account) = rewritten("prepare", &events);
    let prepared: Vec<&Event> = out
        .iter()
        .filter(|one| matches!(one.kind, EventKind::Execute { .. }))
        .collect();
    let [first, second] = prepared.as_slice() else {
        panic!("{out:?}");
    };
    for (event, value) in [(first, "7"), (second, "9")] {
        let EventKind::Execute {
            statement,
            sql,
            parameters,
            ..
        } = &event.kind
        else {
            unreachable!();
        };
        assert_eq!(&**sql, "select * from q where state = 'due' and id = $1");
        assert!(statement.starts_with("repeated_"));
        assert_eq!(parameters, &[Some(Parameter::from(value))]);
        assert_eq!(event.wire_details.as_ref().unwrap().parameter_types, [23]);
    }
    assert_eq!((account.reworded, account.unchanged), (2, 5));
    assert_eq!(account.left_alone["its session does not repeat it"], 2);
    assert_eq!(
        account.left_alone["a value that occurs twice in a statement with GROUP BY"],
        2
    );
    assert!(account.adds_up());
    // The inverse restores the same values in the text, of the same types.
    let (back, account) = rewritten("unprepare", &out);
    assert_eq!(account.reworded, 2);
    assert!(
        texts(&back)
            .contains(&"1 30 select * from q where state = 'due' and id = '9'::int4".to_owned())
    );
    let (once, account) = rewritten("prepare=3", &events);
    assert_eq!((once.len(), account.reworded), (events.len(), 0));
}

#[test]
fn sessions_of_a_pool_take_a_connection_for_a_transaction_and_wait_where_none_is_free() {
    let set = |session, due_us| simple(session, due_us, "set search_path = app");
    let events = [
        connect(1, 0),
        set(1, 1),
        connect(2, 2),
        set(2, 3),
        connect(3, 4),
        set(3, 5),
        // Another start means another pool; one session keeps its own connection.
        connect(4, 6),
        connect(5, 7),
        simple(4, 8, "select 4"),
        simple(5, 9, "listen news"),
        simple(1, 10, "begin"),
        simple(2, 11, "begin"),
        simple(3, 12, "select 3"),
        simple(3, 13, "select 33"),
        simple(1, 20, "select 1"),
        simple(1, 30, "commit"),
        simple(2, 40, "select 2"),
        event(2, 50, EventKind::Disconnect),
        simple(1, 60, "select 11"),
        event(1, 70, EventKind::Disconnect),
        event(3, 80, EventKind::Disconnect),
    ];
    let (out, account) = rewritten("pool=2", &events);
    assert_eq!(
        texts(&out),
        [
            "1 0 set search_path = app",
            "2 0 set search_path = app",
            "4 8 select 4",
            "5 9 listen news",
            "1 10 begin",
            "2 11 begin",
            "1 20 select 1",
            "1 30 commit",
            "1 30 select 3",
            "1 30 select 33",
            "2 40 select 2",
            // A transaction that a client leaves open is rolled back, as a pooler does.
            "2 50 ROLLBACK",
            "2 60 select 11",
        ]
    );
    assert_eq!(account.left_alone["its session listens"], 1);
    assert_eq!((account.moved, account.opened, account.added), (9, 3, 3));
    assert_eq!(account.unchanged, 1);
    assert!(account.adds_up());
    let ends = out.iter().filter(|one| one.kind == EventKind::Disconnect);
    let ends: Vec<u64> = ends.map(|one| one.session).collect();
    assert_eq!(ends, [1, 2, 4]);
    // Sticky: a session returns to its previous connection.
    let (out, _) = rewritten("pool=2,sticky", &events);
    assert!(texts(&out).contains(&"1 60 select 11".to_owned()));
}

#[test]
fn rewritings_are_read_as_they_are_written() {
    for text in [
        "batch-inserts=50",
        "batch-inserts=2,window=200ms",
        "batch-inserts=2,copy",
        "batch-inserts=2,window=200ms,copy",
        "drop=update x*where",
        "cache=100ms",
        "cache=90s",
        "prepare",
        "prepare=5",
        "unprepare",
        "pool=20",
        "pool=20,sticky",
    ] {
        assert_eq!(text.parse::<Rewrite>().unwrap().to_string(), text);
    }
    assert_eq!(
        "cache=250".parse::<Rewrite>().unwrap().to_string(),
        "cache=250ms"
    );
    for (text, sentence) in [
        ("batch-inserts=1", "from 2 to"),
        ("batch-inserts=5,x=2", "window="),
        ("batch-inserts=5,copy,copy", "for COPY"),
        ("cache=", "is no duration"),
        ("drop=*", "names no statement"),
        ("batch=5", "is no rewriting"),
        ("prepare=0", "five times or more"),
        ("unprepare=1", "takes no value"),
        ("pool=0", "from 1 to"),
        ("pool=3,often", "sticky"),
    ] {
        let error = text.parse::<Rewrite>().unwrap_err();
        assert!(error.contains(sentence), "{error}");
    }
}

#[test]
fn rows_of_one_shape_become_one_copy_with_parameters_or_without() {
    let events = [
        connect(0, 0),
        connect(1, 0),
        simple(0, 10, "INSERT INTO t (a, b) VALUES (1, 'x')"),
        execute(
            1,
            20,
            "insert into t (a, b) values ($1, $2)",
            &["2", "y\tz"],
        ),
        simple(0, 30, "INSERT INTO t (a, b) VALUES (3, now())"),
        simple(1, 40, "INSERT INTO t (a, b) VALUES (4, NULL)"),
    ];
    let (out, account) = rewritten("batch-inserts=10,copy", &events);
    let sent: Vec<&str> = out
        .iter()
        .filter_map(|one| one.kind.sql().map(|sql| &**sql))
        .collect();
    assert_eq!(
        account.left_alone["an expression: a COPY takes values only"],
        1
    );
    assert!(account.adds_up());
    assert!(
        sent.contains(&"INSERT INTO t (a, b) VALUES (3, now())"),
        "{sent:?}"
    );
    let copies: Vec<String> = out
        .iter()
        .filter(|one| one.kind.sql().is_some_and(|sql| sql.starts_with("COPY")))
        .map(copied)
        .collect();
    // A row without plain values is sent unchanged, after the other rows of its session; a
    // single row stays an insert.
    assert_eq!(copies, ["1\tx\n2\ty\\tz\n"]);
}

/// Generates clients' actions: sessions, pauses, and some statements.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let one = (0u64..4, 0i64..300_000, 0usize..9, 0u32..1_000);
    proptest::collection::vec(one, 0..120).prop_map(|all| {
        let mut now_us = 0;
        let mut events: Vec<Event> = (0..4).map(|session| connect(session, 0)).collect();
        for (session, gap_us, what, value) in all {
            now_us += gap_us;
            events.push(match what {
                0..2 => simple(
                    session,
                    now_us,
                    &format!("insert into t (a) values ({value})"),
                ),
                2 => execute(
                    session,
                    now_us,
                    "insert into t (a) values ($1)",
                    &[&value.to_string()],
                ),
                3 => simple(
                    session,
                    now_us,
                    &format!("insert into u (a) values ({value})"),
                ),
                4 | 5 => execute(
                    session,
                    now_us,
                    "insert into t values ($1) on conflict do nothing",
                    &[&value.to_string()],
                ),
                6 => simple(session, now_us, "begin"),
                7 => simple(session, now_us, "commit"),
                _ => simple(session, now_us, &format!("select {value}")),
            });
        }
        events
    })
}

/// Each inserted row with its table, and each session's other statements in order.
type Done = (BTreeMap<(String, String), u32>, BTreeMap<u64, Vec<String>>);

fn done(events: &[Event]) -> Done {
    let (mut rows, mut others) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        let Some(sql) = event.kind.sql() else {
            continue;
        };
        if sql.starts_with("COPY") {
            let copied = copied(event);
            for value in copied.lines() {
                let row = (sql[5..6].to_owned(), value.to_owned());
                *rows.entry(row).or_default() += 1;
            }
            continue;
        }
        if !sql.starts_with("insert") {
            let own: &mut Vec<String> = others.entry(event.session).or_default();
            own.push(sql.to_string());
            continue;
        }
        let table = sql[12..13].to_owned();
        let values: Vec<String> = match &event.kind {
            EventKind::Execute { parameters, .. } => {
                assert_eq!(sql.matches('$').count(), parameters.len());
                let values = parameters.iter().flatten();
                values
                    .map(|one| one.readable().unwrap().to_owned())
                    .collect()
            }
            _ => sql[sql.find("values").unwrap() + 6..]
                .split(',')
                .map(|one| one.trim().trim_matches(['(', ')']).to_owned())
                .collect(),
        };
        for value in values {
            *rows.entry((table.clone(), value)).or_default() += 1;
        }
    }
    (rows, others)
}

/// Returns the data of a COPY.
fn copied(event: &Event) -> String {
    let copy = event.wire_details.as_ref().unwrap().copy.as_ref().unwrap();
    String::from_utf8(copy.data.to_vec()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_row_is_still_inserted_and_sessions_keep_their_order(
        events in events(), rows in 2u32..7, window in 1u64..400, copy in any::<bool>(),
    ) {
        let copy = if copy { ",copy" } else { "" };
        let (out, account) = rewritten(&format!("batch-inserts={rows},window={window}ms{copy}"), &events);
        prop_assert_eq!(done(&out), done(&events));
        prop_assert!(account.adds_up());
        let statements = out.iter().filter(|one| one.kind.is_statement()).count() as u64;
        prop_assert_eq!(account.statements_after(), statements);
        for session in 0..4 {
            let own: Vec<&Event> = out.iter().filter(|one| one.session == session).collect();
            prop_assert!(own.windows(2).all(|two| two[0].due_us <= two[1].due_us));
            prop_assert!((0..).zip(&own).all(|(place, one)| one.sequence == place));
        }
        for event in &out {
            let Some(sql) = event.kind.sql() else { continue };
            prop_assert_eq!(statement_texts(sql).len(), 1);
            prop_assert!(sql.matches("), (").count() < rows as usize);
            if sql.starts_with("COPY") {
                let lines = copied(event).lines().count();
                prop_assert!((2..=rows as usize).contains(&lines), "{}", lines);
            }
        }
    }

    #[test]
    fn a_pool_sends_each_transaction_whole_and_all_that_was_sent(events in events(), size in 1u32..5) {
        let (out, account) = rewritten(&format!("pool={size}"), &events);
        prop_assert!(account.adds_up());
        let statements = out.iter().filter(|one| one.kind.is_statement()).count() as u64;
        prop_assert_eq!(account.statements_after(), statements);
        let texts = |events: &[Event]| {
            let mut all: Vec<String> = events.iter().filter_map(|one| one.kind.sql().map(|sql| sql.to_string())).collect();
            all.retain(|sql| sql != "ROLLBACK");
            all.sort_unstable();
            all
        };
        prop_assert_eq!(texts(&out), texts(&events));
        let sessions: std::collections::BTreeSet<u64> = out.iter().map(|one| one.session).collect();
        prop_assert!(sessions.len() <= size as usize);
        prop_assert!(out.windows(2).all(|two| two[0].due_us <= two[1].due_us));
        // Each client's inserts of a block are together between its BEGIN and its end: blocks on
        // a connection never overlap.
        for session in sessions {
            let own: Vec<&Event> = out.iter().filter(|one| one.session == session).collect();
            prop_assert!((0..).zip(&own).all(|(place, one)| one.sequence == place));
        }
    }

    #[test]
    fn what_is_written_is_there_before_its_session_goes_on(events in events()) {
        let (out, _) = rewritten("batch-inserts=5,window=200ms", &events);
        // The number of rows that each session had inserted before each of its other statements
        // must not decrease.
        let before = |events: &[Event]| {
            let mut inserted = 0usize;
            let mut seen: BTreeMap<(u64, usize), usize> = BTreeMap::new();
            let mut own: BTreeMap<u64, usize> = BTreeMap::new();
            for event in events {
                let Some(sql) = event.kind.sql() else { continue };
                if sql.starts_with("insert") {
                    inserted += sql.matches("), (").count() + 1;
                } else {
                    let place = own.entry(event.session).or_default();
                    seen.insert((event.session, *place), inserted);
                    *place += 1;
                }
            }
            seen
        };
        let of_session = |session: u64, all: &[Event]| -> Vec<Event> {
            all.iter().filter(|one| one.session == session).cloned().collect()
        };
        for session in 0..4 {
            let alone = of_session(session, &events);
            let least = before(&alone);
            let all = before(&out);
            for (place, count) in least {
                prop_assert!(all[&place] >= count, "{place:?}");
            }
        }
    }
}
