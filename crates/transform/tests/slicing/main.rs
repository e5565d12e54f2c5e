//! Tests slices: their events, their preludes, and that nothing is lost.

mod preludes;
mod session_model;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use session_model::Model;
use sql::Pattern;
use transform::{Filter, PatternFilter, Slice, SliceError, Slicer, TimeBound};
use workload::{Event, EventKind, ExclusionReason, Outcome, Session, SliceAccount, Sqlstate};

const STEP_US: i64 = 10;

fn event(session: u64, sequence: u64, due_us: i64, kind: EventKind) -> Event {
    Event {
        session,
        sequence,
        due_us,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: session as u32,
        line: sequence,
        prelude: false,
        wire_details: None,
    }
}

fn simple(sql: &str) -> EventKind {
    EventKind::Simple {
        sql: Arc::from(sql),
    }
}

fn connect(user: &str) -> EventKind {
    EventKind::Connect {
        database: "shop".into(),
        user: user.into(),
        application: "".into(),
    }
}

/// Builds a session's events, a step apart from `start_us`, with the failures that the model
/// predicts.
fn session(id: u64, user: &str, start_us: i64, texts: &[String], ends: bool) -> Vec<Event> {
    let mut model = Model::default();
    let mut events = vec![event(id, 0, start_us, connect(user))];
    for text in texts {
        let sequence = events.len() as u64;
        let due_us = start_us + sequence as i64 * STEP_US;
        let mut event = event(id, sequence, due_us, simple(text));
        if model.send(text).is_err() {
            event.outcome.sqlstate = Some(Sqlstate(*b"XX000"));
        }
        events.push(event);
    }
    if ends {
        let sequence = events.len() as u64;
        let due_us = start_us + sequence as i64 * STEP_US;
        events.push(event(id, sequence, due_us, EventKind::Disconnect));
    }
    events
}

struct Cut {
    events: Vec<Event>,
    sessions: Vec<Session>,
    account: SliceAccount,
}

/// Pushes events through a slicer as a capture does.
fn cut(slice: Slice, events: &[Event]) -> Result<Cut, SliceError> {
    let mut slicer = Slicer::new(slice, Some(0));
    let (mut kept, mut sessions) = (Vec::new(), Vec::new());
    let mut last: BTreeMap<u64, Event> = BTreeMap::new();
    for event in events {
        last.insert(event.session, event.clone());
        let result: Result<(), ()> = slicer.handle_event(event.clone(), &mut |event| {
            kept.push(event);
            Ok(())
        });
        result.unwrap();
    }
    for (id, last) in last {
        sessions.extend(slicer.finish_session(Session {
            id,
            database: "shop".into(),
            user: "".into(),
            application: "".into(),
            client: "".into(),
            start_us: 0,
            end_us: last.due_us,
            start_seen: true,
            end_seen: last.kind == EventKind::Disconnect,
            statements: 0,
        }));
    }
    Ok(Cut {
        events: kept,
        sessions,
        account: slicer.finish()?,
    })
}

fn stretch(from_us: i64, to_us: i64) -> Slice {
    Slice {
        from: Some(TimeBound::Wall(from_us)),
        to: Some(TimeBound::Offset(to_us)),
        ..Slice::default()
    }
}

fn sql(event: &Event) -> &str {
    event.kind.sql().map_or("", |sql| sql)
}

#[test]
fn what_a_slice_says_of_its_sessions() {
    let texts: Vec<String> = ["set a = 1", "begin", "insert x", "insert y", "commit"]
        .map(str::to_owned)
        .to_vec();
    let mut events = session(0, "app", 0, &texts, true);
    // Idle within, and then another session that begins within.
    events.extend(session(1, "app", 5, &[], false));
    events.extend(session(2, "app", 35, &["select 1".to_owned()], true));
    let found = cut(stretch(31, 49), &events).unwrap();
    let account = &found.account;
    assert!(account.adds_up(), "{account:?}");
    assert_eq!((account.events, account.kept, account.prelude), (11, 3, 4));
    assert_eq!(account.left_out[&ExclusionReason::After], 3);
    assert_eq!(account.left_out[&ExclusionReason::Before], 1);
    assert_eq!(account.sessions, 3);
    assert_eq!(account.sessions_kept, 2);
    assert_eq!(account.sessions_before, 1);
    assert_eq!(account.transactions_resumed, 1);
    assert_eq!(account.transactions_open, 1);
    let said: Vec<(u64, u64, i64, bool, &str)> = found
        .events
        .iter()
        .map(|event| {
            (
                event.session,
                event.sequence,
                event.due_us,
                event.prelude,
                sql(event),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            (0, 0, 31, true, ""),
            (0, 1, 31, true, "set a = 1"),
            (0, 2, 31, true, "begin"),
            (0, 3, 31, true, "insert x"),
            (0, 4, 40, false, "insert y"),
            (2, 0, 35, false, ""),
            (2, 1, 45, false, "select 1"),
        ]
    );
    let [first, second] = &found.sessions[..] else {
        panic!("{:?}", found.sessions)
    };
    assert_eq!(
        (first.id, first.statements, first.start_us, first.end_us),
        (0, 4, 31, 49)
    );
    assert_eq!((first.start_seen, first.end_seen), (true, false));
    assert_eq!(
        (second.id, second.statements, second.end_seen),
        (2, 1, false)
    );
}

#[test]
fn filters_of_statements_keep_what_sessions_hold() {
    let texts = [
        "set a = 1",
        "begin",
        "insert x",
        "commit",
        "begin",
        "savepoint s",
        "select 1",
        "insert x",
        "rollback to s",
        "commit",
        "begin",
        "set b = 1",
        "commit",
        "insert y",
    ]
    .map(str::to_owned);
    let events = session(0, "app", 0, &texts, true);
    let filter = Filter {
        kinds: vec!["select".parse().unwrap()],
        ..Filter::default()
    };
    let found = cut(
        Slice {
            filter,
            ..Slice::default()
        },
        &events,
    )
    .unwrap();
    let kept: Vec<&str> = found.events.iter().map(sql).collect();
    assert_eq!(
        kept,
        [
            "",
            "set a = 1",
            "begin",
            "savepoint s",
            "select 1",
            "rollback to s",
            "commit",
            "begin",
            "set b = 1",
            "commit",
            ""
        ]
    );
    let account = found.account;
    assert!(account.adds_up(), "{account:?}");
    assert_eq!(account.kept_for_state, 8);
    assert_eq!(account.left_out[&ExclusionReason::Kind], 3);
    // The first transaction ended before the first select.
    assert_eq!(account.left_out[&ExclusionReason::Superseded], 2);
    assert_eq!(account.prelude, 0);
}

#[test]
fn a_failure_that_rolled_a_transaction_back_is_kept() {
    let texts = [
        "insert a",
        "begin",
        "insert b",
        "select 1/0",
        "select 2/0",
        "commit",
        "begin",
        "select 3/0",
        "insert c",
        "commit",
        "select 4/0",
        "insert d",
    ]
    .map(str::to_owned);
    let mut events = session(0, "app", 0, &texts, true);
    for event in &mut events {
        if sql(event).contains("/0") {
            event.outcome.sqlstate = Some(Sqlstate(*b"22012"));
        }
    }
    let filter = Filter {
        kinds: vec!["insert".parse().unwrap()],
        ..Filter::default()
    };
    let slice = Slice {
        filter,
        ..Slice::default()
    };
    let found = cut(slice, &events).unwrap();
    let kept: Vec<&str> = found.events.iter().map(sql).collect();
    assert_eq!(
        kept,
        [
            "",
            "insert a",
            "begin",
            "insert b",
            "select 1/0",
            "commit",
            "begin",
            "select 3/0",
            "insert c",
            "commit",
            "insert d",
            ""
        ]
    );
    assert!(found.account.adds_up(), "{:?}", found.account);
}

#[test]
fn calls_within_calls_are_looked_at_in_good_time() {
    // A regression test: it took minutes.
    let text = format!("select {}1", "set_config(".repeat(20_000));
    let events = session(0, "app", 0, &[text, "select 1".to_owned()], true);
    let found = cut(stretch(0, i64::MAX), &events).unwrap();
    assert!(found.account.adds_up());
    assert_eq!(found.account.kept, 4);
}

#[test]
fn a_long_open_transaction_is_cut_and_said_to_be() {
    let mut texts = vec!["begin".to_owned()];
    texts.extend((0..10_100).map(|n| format!("insert {n}")));
    texts.push("set a = 1".to_owned());
    texts.push("insert z".to_owned());
    let events = session(0, "app", 0, &texts, false);
    let found = cut(stretch(texts.len() as i64 * STEP_US, i64::MAX), &events).unwrap();
    assert!(found.account.adds_up());
    assert_eq!(found.account.preludes_cut, 1);
    // Including the session's beginning, its BEGIN and its SET.
    assert_eq!(found.account.prelude, 10_000 + 2);
    let texts: Vec<&str> = found.events.iter().rev().take(2).map(sql).collect();
    assert_eq!(texts, ["insert z", "set a = 1"]);
    assert!(!found.sessions[0].start_seen);
}

#[test]
fn an_empty_slice_says_what_there_is() {
    let events = session(
        0,
        "app",
        1_772_357_400_000_000,
        &["select 1".to_owned()],
        false,
    );
    let said = |slice: Slice| cut(slice, &events).err().unwrap().to_string();
    let of_user = |name: &str| Slice {
        filter: Filter {
            users: PatternFilter {
                included: vec![Pattern::name(name)],
                ..PatternFilter::default()
            },
            ..Filter::default()
        },
        ..Slice::default()
    };
    assert_eq!(
        said(of_user("nobody")),
        "the slice would be empty: no session is of the user asked for; the users that are there are 'app'"
    );
    assert_eq!(
        said(Slice {
            to: Some(TimeBound::parse("2026-03-01 09:00").unwrap()),
            ..of_user("app")
        }),
        "the slice would be empty: no statement of these sessions is due before 2026-03-01 09:00:00 UTC; \
         there are events from 2026-03-01 09:30:00 UTC to 2026-03-01 09:30:00.00001 UTC"
    );
    assert!(
        said(stretch(2_000_000, 1_000_000))
            .starts_with("--from 1970-01-01 00:00:02 UTC is not before --to")
    );
    let filter = Filter {
        statements: PatternFilter {
            included: vec![Pattern::statement("from orders").unwrap()],
            ..PatternFilter::default()
        },
        ..Filter::default()
    };
    let slice = Slice {
        filter,
        ..Slice::default()
    };
    assert_eq!(
        said(slice),
        "the slice would be empty: none of the 1 statements is one that the patterns ask for; \
         `rehearse inspect` shows which there are"
    );
    let nothing = cut(Slice::default(), &[]).err().unwrap();
    assert_eq!(nothing, SliceError::NoEvents);
}

/// A statement of the model.
fn statement() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("x"), Just("y")];
    let settings = prop_oneof![Just("search_path"), Just("a"), Just("b")];
    prop_oneof![
        3 => Just("begin".to_owned()),
        2 => Just("commit".to_owned()),
        1 => Just("rollback".to_owned()),
        2 => (name.clone(), 0..3).prop_map(|(name, which)| match which {
            0 => format!("savepoint {name}"),
            1 => format!("rollback to {name}"),
            _ => format!("release {name}"),
        }),
        4 => (settings.clone(), 0..4).prop_map(|(name, value)| format!("set {name} = {value}")),
        1 => (settings.clone(), 0..4).prop_map(|(name, value)| format!("set local {name} = {value}")),
        1 => settings.prop_map(|name| format!("reset {name}")),
        1 => prop_oneof![Just("set role r"), Just("set role q"), Just("reset role"), Just("reset all"),
            Just("discard all")].prop_map(str::to_owned),
        3 => (name.clone(), 0..7).prop_map(|(name, which)| match which {
            0 | 1 => format!("prepare {name} as select 1"),
            2 => format!("deallocate {name}"),
            3 => format!("listen {name}"),
            4 => format!("unlisten {name}"),
            5 => format!("declare {name} cursor with hold for select 1"),
            _ => format!("close {name}"),
        }),
        2 => (name.clone(), 0..3).prop_map(|(name, which)| match which {
            0 => format!("create temp table {name} (a int)"),
            1 => format!("alter table {name} add b int"),
            _ => format!("drop table {name}"),
        }),
        2 => (name, 0..2).prop_map(|(name, which)| match which {
            0 => format!("select pg_advisory_lock({name})"),
            _ => format!("select pg_advisory_unlock({name})"),
        }),
        1 => Just("select 1/0".to_owned()),
        1 => Just("select 1".to_owned()),
        3 => (0..9).prop_map(|n| format!("insert {n}")),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => statement(),
        1 => Just("commit and chain".to_owned()),
        2 => prop::collection::vec(statement(), 2..4).prop_map(|parts| parts.join("; ")),
    ]
}

/// Removes texts of which another statement fails than a log suggests: the last that does not end a
/// transaction.
fn plausible(texts: Vec<String>) -> Vec<String> {
    let mut model = Model::default();
    let mut plausible = Vec::new();
    for text in texts {
        let mut tried = model.clone();
        if let Err(failing) = tried.send(&text) {
            let parts: Vec<&str> = text.split("; ").collect();
            let ends = |part: &&str| ["commit", "rollback", "commit and chain"].contains(part);
            let last = parts.iter().rposition(|part| !ends(part));
            if failing != last.unwrap_or(parts.len() - 1) {
                continue;
            }
        }
        model = tried;
        plausible.push(text);
    }
    plausible
}

/// Several sessions whose events interleave.
fn traffic() -> impl Strategy<Value = Vec<Event>> {
    let one = (
        prop::collection::vec(text(), 0..25),
        0_i64..200,
        any::<bool>(),
        any::<bool>(),
    );
    prop::collection::vec(one, 1..4).prop_map(|sessions| {
        let mut events: Vec<Event> = Vec::new();
        for (id, (texts, start_us, ends, other)) in sessions.into_iter().enumerate() {
            let texts = plausible(texts);
            let user = if other { "other" } else { "app" };
            events.extend(session(id as u64, user, start_us, &texts, ends));
        }
        events.sort_by_key(|event| (event.due_us, event.session, event.sequence));
        events
    })
}

/// Source positions of a slice's events, without the prelude.
fn places(events: &[Event]) -> Vec<(u32, u64)> {
    let within = events.iter().filter(|event| !event.prelude);
    within.map(|event| (event.source, event.line)).collect()
}

fn numbers_count_up(events: &[Event]) {
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for event in events {
        let next = next.entry(event.session).or_default();
        assert_eq!(event.sequence, *next);
        assert_eq!(*next == 0, matches!(event.kind, EventKind::Connect { .. }));
        *next += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(test_support::cases(2_000)))]

    /// Checks that a prelude restores the state before the slice, and repeats only the writes of
    /// the open transaction.
    #[test]
    fn a_prelude_leads_to_the_same_state(texts in prop::collection::vec(text(), 0..30)) {
        let texts = plausible(texts);
        let mut whole = Model::default();
        for text in &texts {
            let _ = whole.send(text);
        }
        let mut texts = texts;
        texts.push("select 1".to_owned());
        let events = session(0, "app", 0, &texts, false);
        let from_us = texts.len() as i64 * STEP_US;
        let found = cut(stretch(from_us, i64::MAX), &events).unwrap();
        let mut sliced = Model::default();
        for event in found.events.iter().filter(|event| event.prelude && event.kind.is_statement()) {
            let _ = sliced.send(sql(event));
        }
        prop_assert_eq!(&sliced.written, &Vec::<String>::new());
        let whole = whole.beside(&sliced);
        prop_assert_eq!(sliced, whole);
    }

    /// Checks that two consecutive slices are the slice of both, apart from the second's prelude.
    #[test]
    fn slices_that_follow_each_other_are_one(events in traffic(), mut at in [0_i64..400, 0_i64..400, 0_i64..400]) {
        at.sort_unstable();
        let [a, b, c] = at;
        let cut_places = |from, to| cut(stretch(from, to), &events).map_or(Vec::new(), |cut| places(&cut.events));
        // The end of an idle session is in the whole slice only if the session did something
        // before.
        let mut parts = [cut_places(a, b), cut_places(b, c)].concat();
        let mut whole = cut_places(a, c);
        parts.sort_unstable();
        whole.sort_unstable();
        let is_end = |place: &(u32, u64)| events.iter().any(|event| {
            (event.source, event.line) == *place && event.kind == EventKind::Disconnect
        });
        whole.retain(|place| !is_end(place));
        parts.retain(|place| !is_end(place));
        prop_assert_eq!(parts, whole);
    }

    /// Checks that every event is accounted for, and that kept events are numbered without gaps.
    #[test]
    fn nothing_gets_lost(
        events in traffic(),
        from_us in prop::option::of(0_i64..300),
        length_us in prop::option::of(1_i64..300),
        user in prop::option::of(Just("app")),
        kind in prop::option::of(prop_oneof![Just("select"), Just("insert"), Just("write"), Just("transaction")]),
        pattern in prop::option::of(Just("insert*$1")),
    ) {
        let slice = Slice {
            from: from_us.map(TimeBound::Wall),
            to: length_us.map(|length_us| TimeBound::Wall(from_us.unwrap_or(0) + length_us)),
            filter: Filter {
                users: PatternFilter { included: user.into_iter().map(Pattern::name).collect(), ..PatternFilter::default() },
                kinds: kind.into_iter().map(|kind| kind.parse().unwrap()).collect(),
                statements: PatternFilter {
                    included: pattern.and_then(Pattern::statement).into_iter().collect(),
                    ..PatternFilter::default()
                },
                ..Filter::default()
            },
        };
        let Ok(found) = cut(slice, &events) else { return Ok(()) };
        let account = &found.account;
        prop_assert!(account.adds_up(), "{:?}", account);
        prop_assert_eq!(account.events, events.len() as u64);
        prop_assert_eq!(account.kept + account.prelude, found.events.len() as u64);
        let prelude = found.events.iter().filter(|event| event.prelude).count();
        prop_assert_eq!(account.prelude, prelude as u64);
        prop_assert_eq!(account.sessions_kept, found.sessions.len() as u64);
        numbers_count_up(&found.events);
        let statements: u64 = found.sessions.iter().map(|session| session.statements).sum();
        prop_assert_eq!(statements, found.events.iter().filter(|event| event.kind.is_statement()).count() as u64);
        // All events of a selected kind within the slice are there.
        let wanted = |event: &Event| kind == Some("insert") && pattern.is_none() && user.is_none()
            && from_us.is_none() && length_us.is_none() && sql(event).starts_with("insert");
        let there = places(&found.events);
        for event in events.iter().filter(|event| wanted(event)) {
            prop_assert!(there.contains(&(event.source, event.line)));
        }
    }
}
