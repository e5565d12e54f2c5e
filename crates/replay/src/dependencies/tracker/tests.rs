use super::*;
use crate::encode::Encoder;
use crate::generated::PlacesCache;
use crate::login::LoginMap;
use crate::test_events::simple as event;
use connect::Target;

/// Returns the executions on which the last event depends. Events are session, start, duration and text.
fn dependencies(script: &[(u64, i64, u64, &str)]) -> Vec<EventId> {
    let events = script
        .iter()
        .map(|(session, due_us, duration_us, sql)| event(*session, 0, *due_us, *duration_us, sql));
    dependencies_of(events)
}

/// Returns the executions on which the last event depends. Sequence numbers are set here.
fn dependencies_of(events: impl IntoIterator<Item = Event>) -> Vec<EventId> {
    let keys = KeyColumns::default()
        .with_key("a", "id")
        .with_key("lines", "a_id,no")
        .with_reference("lines", "a_id", "a", "id");
    let target = Target::parse("host=h", |_| None).unwrap();
    let logins = LoginMap::default();
    let mut encoder = Encoder::new(&target, &logins, None);
    let values = FollowedValues {
        keys,
        ..FollowedValues::default()
    };
    let keys = &values.keys;
    let mut tracker = DependencyTracker::new(&values);
    let mut cache = PlacesCache::default();
    let mut sequences: HashMap<u64, u64> = HashMap::new();
    let mut found = Vec::new();
    for mut event in events {
        let sequence = sequences.entry(event.session).or_default();
        event.sequence = *sequence;
        *sequence += 1;
        let effect = encoder.session_effect(&event);
        let places = cache.get(&event, None, keys);
        found = tracker.track(&event, places.as_deref(), effect, &[]);
    }
    found.sort_unstable();
    found
}

#[test]
fn duplicate_key_follows_the_insert_that_the_client_saw_end_later() {
    let insert = "INSERT INTO a (id) VALUES (7)";
    let mut inserted = event(1, 0, 0, 20, insert);
    inserted.outcome.rows = Some(1);
    let mut duplicate = event(2, 0, 5, 10, insert);
    duplicate.outcome.sqlstate = Some(workload::Sqlstate(*b"23505"));
    assert_eq!(
        dependencies_of([inserted.clone(), duplicate.clone()]),
        [(1, 0)]
    );
    // Another error shows no order.
    duplicate.outcome.sqlstate = Some(workload::Sqlstate(*b"40P01"));
    assert_eq!(dependencies_of([inserted, duplicate]), []);
}

#[test]
fn statement_depends_on_the_commit_of_the_same_row() {
    let write = [
        (1, 0, 5, "BEGIN"),
        (1, 10, 5, "UPDATE a SET n = 1 WHERE id = 7"),
        (1, 20, 5, "COMMIT"),
    ];
    for (due_us, sql, expected) in [
        (30, "SELECT * FROM a WHERE id = 7", vec![(1, 2)]),
        (30, "UPDATE a SET n = 2 WHERE id = 7", vec![(1, 2)]),
        (
            30,
            "INSERT INTO lines (a_id, no) VALUES (7, 1)",
            vec![(1, 2)],
        ),
        (30, "SELECT * FROM a WHERE id = 8", vec![]),
        (30, "SELECT * FROM b WHERE id = 7", vec![]),
        // Any row.
        (30, "SELECT * FROM a WHERE n = 1", vec![(1, 2)]),
        (30, "TRUNCATE a", vec![(1, 2)]),
        // The row was locked, and the commit was not over.
        (18, "UPDATE a SET n = 2 WHERE id = 7", vec![(1, 1)]),
        // It was still running.
        (12, "UPDATE a SET n = 2 WHERE id = 7", vec![]),
    ] {
        let mut script = write.to_vec();
        script.push((2, due_us, 1, sql));
        script.sort_by_key(|(_, due_us, ..)| *due_us);
        let until = script
            .iter()
            .position(|(session, ..)| *session == 2)
            .unwrap();
        // Later events of the transaction are not known yet.
        assert_eq!(
            dependencies(&script[..=until]),
            expected,
            "{sql} at {due_us}"
        );
    }
}

#[test]
fn statement_with_an_array_of_keys_depends_on_these_rows() {
    let write = (1, 0, 5, "UPDATE a SET n = 1 WHERE id = 7");
    let depends = |sql: &str| !dependencies(&[write, (2, 10, 1, sql)]).is_empty();
    for (array, expected) in [
        ("'{6, 7}'", true),
        ("'{6,8}'::bigint[]", false),
        ("ARRAY[6, 7]", true),
        ("ARRAY[6, 8]::bigint[]", false),
        // It cannot be read, and may have any key.
        ("'{{6},{8}}'", true),
    ] {
        for sql in [
            format!("SELECT * FROM a WHERE id = ANY ({array})"),
            format!("UPDATE a SET n = 2 WHERE id = ANY ({array})"),
        ] {
            assert_eq!(depends(&sql), expected, "{sql}");
        }
    }
    assert!(depends("SELECT * FROM a WHERE NOT (id = ANY ('{6,8}'))"));
    assert!(depends("SELECT * FROM a WHERE id = ANY ('{6,8}') OR n = 1"));
    // And the other way round.
    let read = (1, 0, 5, "SELECT * FROM a WHERE id = ANY ('{6,8}')");
    let delete = |id| format!("DELETE FROM a WHERE id = {id}");
    assert_eq!(dependencies(&[read, (2, 10, 1, &delete(8))]), [(1, 0)]);
    assert_eq!(dependencies(&[read, (2, 10, 1, &delete(7))]), []);
}

#[test]
fn write_depends_on_the_reads_before_it() {
    let read = (1, 0, 5, "SELECT * FROM a WHERE id = 7");
    assert_eq!(
        dependencies(&[read, (2, 10, 1, "DELETE FROM a WHERE id = 7")]),
        [(1, 0)]
    );
    assert_eq!(
        dependencies(&[read, (2, 10, 1, "DELETE FROM a WHERE id = 8")]),
        []
    );
    assert_eq!(
        dependencies(&[read, (2, 10, 1, "SELECT * FROM a WHERE id = 7")]),
        []
    );
    let read = (1, 0, 5, "SELECT * FROM a WHERE n > 7");
    assert_eq!(
        dependencies(&[read, (2, 10, 1, "DELETE FROM a WHERE id = 8")]),
        [(1, 0)]
    );
}

#[test]
fn new_rows_of_different_keys_are_independent() {
    let first = (1, 0, 5, "INSERT INTO a (id, n) VALUES (1, 5)");
    assert_eq!(
        dependencies(&[first, (2, 10, 1, "INSERT INTO a (id, n) VALUES (2, 5)")]),
        []
    );
    assert_eq!(
        dependencies(&[first, (2, 10, 1, "INSERT INTO a (id, n) VALUES (1, 6)")]),
        [(1, 0)]
    );
    let line = (1, 0, 5, "INSERT INTO lines (a_id, no) VALUES (1, 1)");
    let other = "UPDATE lines SET x = 1 WHERE a_id = 1 AND no = 2";
    let same = "UPDATE lines SET x = 1 WHERE a_id = 1 AND no = 1";
    let all = "SELECT * FROM lines WHERE a_id = 1";
    for (sql, expected) in [(other, vec![]), (same, vec![(1, 0)]), (all, vec![(1, 0)])] {
        assert_eq!(dependencies(&[line, (2, 10, 1, sql)]), expected, "{sql}");
    }
}

#[test]
fn rows_of_one_insert_have_a_key_each() {
    let lines = (
        1,
        0,
        5,
        "INSERT INTO lines (a_id, no) VALUES (1, 1), (1, 2)",
    );
    for (sql, expected) in [
        (
            "UPDATE lines SET x = 1 WHERE a_id = 1 AND no = 2",
            vec![(1, 0)],
        ),
        ("UPDATE lines SET x = 1 WHERE a_id = 1 AND no = 3", vec![]),
        (
            "UPDATE lines SET x = 1 WHERE a_id = 1 AND no IN (3, 2)",
            vec![(1, 0)],
        ),
    ] {
        assert_eq!(dependencies(&[lines, (2, 10, 1, sql)]), expected, "{sql}");
    }
}

#[test]
fn comparison_with_an_alternative_does_not_limit_the_rows() {
    let write = (1, 0, 5, "UPDATE a SET n = 1 WHERE id = 7");
    let reads = "SELECT * FROM a WHERE id = 8 OR n = 1";
    assert_eq!(dependencies(&[write, (2, 10, 1, reads)]), [(1, 0)]);
}

#[test]
fn schema_changes_follow_and_precede_everything() {
    let use_of_b = (1, 0, 5, "SELECT 1");
    let change = (2, 10, 5, "ALTER TABLE b ADD c int");
    assert_eq!(dependencies(&[use_of_b, change]), [(1, 0)]);
    assert_eq!(dependencies(&[change, (3, 20, 5, "SELECT 2")]), [(2, 0)]);
    let temporary = (2, 10, 5, "CREATE TEMP TABLE c (d int)");
    assert_eq!(dependencies(&[use_of_b, temporary]), []);
}

#[test]
fn prepared_transaction_is_visible_when_it_is_committed() {
    let script = [
        (1, 0, 1, "BEGIN"),
        (1, 2, 1, "UPDATE a SET n = 1 WHERE id = 7"),
        (1, 4, 1, "PREPARE TRANSACTION 'x'"),
        (2, 10, 1, "COMMIT PREPARED 'x'"),
        (3, 20, 1, "SELECT * FROM a WHERE id = 7"),
    ];
    assert_eq!(dependencies(&script[..4]), [(1, 2)]);
    assert_eq!(dependencies(&script), [(2, 0)]);
}

#[test]
fn who_takes_what_others_have_not_locked_follows_those_that_took_before() {
    let take = "SELECT id FROM a WHERE n = 0 ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1";
    let begin = (1, 0, 1, "BEGIN");
    assert_eq!(
        dependencies(&[begin, (1, 2, 3, take), (2, 10, 3, take)]),
        [(1, 1)]
    );
    // The first to end took first.
    assert_eq!(
        dependencies(&[begin, (1, 2, 9, take), (2, 10, 3, take)]),
        [(1, 1)]
    );
    assert_eq!(
        dependencies(&[begin, (1, 2, 30, take), (2, 10, 3, take)]),
        []
    );
    let waits = "SELECT id FROM a WHERE n = 0 ORDER BY id FOR UPDATE LIMIT 1";
    assert_eq!(
        dependencies(&[begin, (1, 2, 3, waits), (2, 10, 3, "SELECT 1")]),
        []
    );
}
