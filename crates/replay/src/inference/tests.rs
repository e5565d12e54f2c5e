use std::collections::HashSet;

use sql::Fingerprinter;
use workload::{Event, EventKind, Parameter};

use super::*;
use crate::generated::{KeyColumns, PlacesCache};
use crate::test_events::simple;

const UUIDS: [&str; 2] = [
    "0191d8a0-6b7c-7abc-8def-0123456789ab",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
];

/// Events of a log with a line each. A statement takes a millisecond.
#[derive(Default)]
struct Log {
    events: Vec<Event>,
    /// Values that the target has.
    existing: HashSet<String>,
    now_us: i64,
}

impl Log {
    /// Adds a statement of a session, after the one before it has ended.
    fn add(&mut self, session: u64, sql: &str, parameters: &[&str]) -> &mut Self {
        self.now_us += 3_000;
        self.add_at(self.now_us, session, sql, parameters)
    }

    /// Adds a statement that begins at a time.
    fn add_at(&mut self, due_us: i64, session: u64, sql: &str, parameters: &[&str]) -> &mut Self {
        let of_session = self.events.iter().filter(|event| event.session == session);
        let mut event = simple(session, of_session.count() as u64, due_us, 1_000, sql);
        if !parameters.is_empty() {
            event.kind = EventKind::Execute {
                statement: "".into(),
                portal: "".into(),
                sql: sql.into(),
                parameters: parameters
                    .iter()
                    .map(|value| Some(Parameter::from(*value)))
                    .collect(),
            };
        }
        event.line = 1 + self.events.len() as u64;
        self.events.push(event);
        self
    }

    fn infer(&self) -> InferredResults {
        let existing = |_: &ColumnName, values: &[String]| {
            let there = values.iter().filter(|value| self.existing.contains(*value));
            Some(there.cloned().collect())
        };
        self.infer_with(existing)
    }

    fn infer_with(
        &self,
        existing: impl Fn(&ColumnName, &[String]) -> Option<Vec<String>>,
    ) -> InferredResults {
        let keys = KeyColumns::default()
            .with_key("orders", "id")
            .with_key("orders", "ref")
            .with_reference("items", "order_id", "orders", "id");
        let columns = GeneratedColumns::default()
            .with_identity("orders", "id")
            .with_uuid("orders", "ref");
        let mut pass = InferencePass::new(&keys, &columns);
        let mut cache = PlacesCache::default();
        let mut fingerprinter = Fingerprinter::default();
        for event in &self.events {
            let sql = event.kind.sql().unwrap();
            let fingerprint = Some(fingerprinter.fingerprint(sql));
            let places = cache.get(event, fingerprint, &keys).unwrap();
            pass.add(event, &places);
        }
        pass.decide(existing, 1_000)
    }

    /// Returns the inferred values of each statement that has one, in the order of the log.
    fn values(&self) -> Vec<(u64, Vec<String>)> {
        let inferred = self.infer();
        let mut found = Vec::new();
        for event in &self.events {
            let mut event = event.clone();
            inferred.add_to(&mut event);
            if let Some(details) = &event.wire_details {
                let rows = details.first_rows.as_ref().unwrap();
                let text = |value: &Option<Parameter>| match value {
                    Some(Parameter::Text(text)) => text.to_string(),
                    _ => "?".to_owned(),
                };
                found.push((event.session, rows.values.iter().map(text).collect()));
            }
        }
        found
    }
}

fn found(values: &[(u64, &[&str])]) -> Vec<(u64, Vec<String>)> {
    let values = values.iter();
    values
        .map(|(session, values)| {
            let values = values.iter().map(|value| (*value).to_owned());
            (*session, values.collect())
        })
        .collect()
}

const INSERT: &str = "INSERT INTO orders (note) VALUES ($1) RETURNING id";
const ITEM: &str = "INSERT INTO items (order_id, no) VALUES ($1, $2)";

#[test]
fn value_that_its_session_uses_next_is_its_own() {
    let mut log = Log::default();
    log.add(1, INSERT, &["a"]).add(1, ITEM, &["101", "7"]);
    log.add(2, INSERT, &["b"])
        .add(2, "SELECT * FROM orders WHERE id = 102", &[]);
    assert_eq!(log.values(), found(&[(1, &["101"]), (2, &["102"])]));
    assert_eq!(log.infer().counts().ambiguous, 0);
}

#[test]
fn values_of_statements_at_the_same_time_are_known_by_their_uses() {
    let mut log = Log::default();
    log.add_at(0, 1, INSERT, &["a"])
        .add_at(100, 2, INSERT, &["b"]);
    log.add_at(5_000, 1, ITEM, &["102", "1"])
        .add_at(6_000, 2, ITEM, &["101", "1"]);
    assert_eq!(log.values(), found(&[(1, &["102"]), (2, &["101"])]));
}

#[test]
fn calls_of_statements_that_return_nothing_count() {
    let mut log = Log::default();
    log.add(1, INSERT, &["a"]).add(1, ITEM, &["101", "1"]);
    // It takes 102, and fails only then.
    log.add(2, "INSERT INTO orders (note) VALUES ($1)", &["b"]);
    log.add(3, INSERT, &["c"]);
    log.add(4, INSERT, &["d"]).add(4, ITEM, &["104", "1"]);
    // Another session uses it.
    log.add(1, ITEM, &["103", "1"]);
    assert_eq!(
        log.values(),
        found(&[(1, &["101"]), (3, &["103"]), (4, &["104"])])
    );
    // It gives the value itself, and takes none.
    log.add(
        5,
        "INSERT INTO orders (id, note) VALUES ($1, $2) RETURNING id",
        &["7", "e"],
    );
    log.add(5, INSERT, &["f"]).add(5, ITEM, &["105", "1"]);
    assert_eq!(log.values()[3], (5, vec!["105".to_owned()]));
}

#[test]
fn values_that_only_other_sessions_use_are_inferred_from_their_order() {
    let mut log = Log::default();
    for number in 0..6 {
        log.add(1, INSERT, &["a"]);
        log.add(2, ITEM, &[&(501 + number).to_string(), "1"]);
    }
    let values: Vec<String> = log
        .values()
        .into_iter()
        .map(|(_, values)| values[0].clone())
        .collect();
    assert_eq!(values, ["501", "502", "503", "504", "505", "506"]);
}

#[test]
fn values_that_two_statements_may_have_exchanged_are_counted() {
    let mut log = Log::default();
    log.add(1, INSERT, &["a"]).add(1, ITEM, &["101", "1"]);
    let at_us = log.now_us + 3_000;
    log.add_at(at_us, 2, INSERT, &["b"])
        .add_at(at_us + 100, 3, INSERT, &["c"]);
    log.now_us = at_us + 100;
    // Only others use them.
    log.add(4, ITEM, &["102", "1"]).add(4, ITEM, &["103", "1"]);
    let expected: [(u64, &[&str]); 3] = [(1, &["101"]), (2, &["102"]), (3, &["103"])];
    assert_eq!(log.values(), found(&expected));
    let counts = InferenceCounts {
        inferred: 3,
        by_order: 2,
        ..InferenceCounts::default()
    };
    assert_eq!(log.infer().counts(), counts);
}

#[test]
fn first_value_is_not_guessed() {
    let mut log = Log::default();
    for _ in 0..5 {
        log.add(1, INSERT, &["a"]);
    }
    // It is used long after, so each of the five may have made it.
    log.add(2, ITEM, &["777", "1"]);
    assert_eq!(log.values(), []);
    assert_eq!(log.infer().counts().ambiguous, 5);
}

#[test]
fn value_that_the_target_has_was_not_made() {
    let mut log = Log::default();
    log.existing.insert("57".to_owned());
    log.add(1, INSERT, &["a"]).add(1, ITEM, &["57", "1"]);
    assert_eq!(log.values(), []);
    log.add(1, INSERT, &["b"]).add(1, ITEM, &["102", "1"]);
    assert_eq!(log.values(), found(&[(1, &["101"]), (1, &["102"])]));
}

#[test]
fn number_that_is_equal_by_chance_is_no_use() {
    let mut log = Log::default();
    // Quantities and notes are no keys.
    log.add(1, INSERT, &["a"])
        .add(1, "UPDATE stock SET pieces = $1", &["101"]);
    log.add(1, INSERT, &["b"])
        .add(1, "UPDATE stock SET pieces = $1", &["55"]);
    assert_eq!(log.values(), []);
}

#[test]
fn place_without_a_column_carries_values_if_all_agree_with_the_order() {
    let mut log = Log::default();
    for number in 0..12 {
        log.add(1, INSERT, &["a"]);
        let value = (301 + number).to_string();
        log.add(1, "SELECT audit($1, $2)", &[&value, "5"]);
    }
    let inferred = log.infer();
    assert_eq!(
        (inferred.counts().inferred, inferred.carriers.len()),
        (12, 1)
    );
    let mut log = Log::default();
    for number in 0..12 {
        log.add(1, INSERT, &["a"]);
        log.add(
            1,
            "SELECT audit($1)",
            &[&(301 + number * 5 % 12).to_string()],
        );
    }
    let inferred = log.infer();
    assert_eq!(
        (inferred.counts().inferred, inferred.carriers.len()),
        (0, 0)
    );
}

#[test]
fn rows_of_one_statement_and_sequence_calls_have_their_values() {
    let mut log = Log::default();
    log.add(1, INSERT, &["a"]).add(1, ITEM, &["101", "1"]);
    log.add(
        1,
        "INSERT INTO orders (note) VALUES ('b'), ('c') RETURNING note, id",
        &[],
    );
    log.add(1, ITEM, &["102", "1"]).add(1, ITEM, &["103", "1"]);
    log.add(1, "SELECT nextval('orders_id_seq') AS next", &[]);
    log.add(1, "INSERT INTO orders (id) VALUES ($1)", &["104"]);
    log.add(1, "INSERT INTO orders DEFAULT VALUES", &[]);
    log.add(1, "SELECT lastval()", &[])
        .add(1, ITEM, &["105", "1"]);
    let expected: [(u64, &[&str]); 4] = [
        (1, &["101"]),
        (1, &["?", "102", "?", "103"]),
        (1, &["104"]),
        (1, &["105"]),
    ];
    assert_eq!(log.values(), found(&expected));
}

#[test]
fn unknown_number_of_calls_separates_what_is_known() {
    let mut log = Log::default();
    log.add(1, INSERT, &["a"]).add(1, ITEM, &["101", "1"]);
    log.add(1, "INSERT INTO orders (note) SELECT note FROM old", &[]);
    log.add(1, INSERT, &["b"]).add(1, ITEM, &["160", "1"]);
    assert_eq!(log.values(), found(&[(1, &["101"]), (1, &["160"])]));
}

#[test]
fn uuid_is_known_by_the_row_that_is_read_with_it() {
    let insert = "INSERT INTO orders (note) VALUES ($1) RETURNING id, ref";
    let mut log = Log::default();
    log.add(1, insert, &["a"]).add(1, ITEM, &["101", "1"]);
    log.add(2, insert, &["b"]).add(2, ITEM, &["102", "1"]);
    for (uuid, id) in [(UUIDS[1], "102"), (UUIDS[0], "101")] {
        log.add(3, "SELECT id FROM orders WHERE ref = $1", &[uuid]);
        log.add(3, ITEM, &[id, "2"]);
    }
    let expected: [(u64, &[&str]); 2] = [(1, &["101", UUIDS[0]]), (2, &["102", UUIDS[1]])];
    assert_eq!(log.values(), found(&expected));
    // The same one with two rows is of neither.
    log.add(3, "SELECT id FROM orders WHERE ref = $1", &[UUIDS[1]]);
    log.add(3, ITEM, &["101", "3"]);
    let expected: [(u64, &[&str]); 2] = [(1, &["101", UUIDS[0]]), (2, &["102"])];
    let mut values = log.values();
    values[1].1.truncate(1);
    assert_eq!(values, found(&expected));
}

#[test]
fn uuid_of_another_session_is_not_taken_for_ones_own() {
    let insert = "INSERT INTO orders (note) VALUES ($1) RETURNING ref";
    let mut log = Log::default();
    log.add(1, insert, &["a"]).add(2, insert, &["b"]);
    log.add(1, "DELETE FROM orders WHERE ref = $1", &[UUIDS[0]]);
    assert_eq!(log.values(), []);
    assert_eq!(log.infer().counts().ambiguous, 1);
    // In the same transaction, it is.
    let mut log = Log::default();
    log.add(1, "BEGIN", &[]).add(1, insert, &["a"]);
    log.add(1, "DELETE FROM orders WHERE ref = $1", &[UUIDS[0]]);
    assert_eq!(log.values(), found(&[(1, &[UUIDS[0]])]));
}

#[test]
fn values_are_ambiguous_if_the_target_refuses_the_query() {
    let insert = "INSERT INTO orders (note) VALUES ($1) RETURNING id, ref";
    let mut log = Log::default();
    log.add(1, insert, &["a"]).add(1, ITEM, &["101", "1"]);
    log.add(1, "DELETE FROM orders WHERE ref = $1", &[UUIDS[0]]);
    // It returns no value, so none is missing.
    log.add(1, "INSERT INTO orders (note) VALUES ($1)", &["b"]);
    let ambiguous = InferenceCounts {
        ambiguous: 2,
        ..InferenceCounts::default()
    };
    assert_eq!(log.infer_with(|_, _| None).counts(), ambiguous);
}

#[test]
fn value_of_an_insert_that_may_conflict_is_ambiguous_if_it_is_used() {
    let insert = "INSERT INTO orders (note) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id";
    let mut log = Log::default();
    log.add(1, INSERT, &["a"]).add(1, ITEM, &["101", "1"]);
    // It takes 102 whether it inserts or not.
    log.add(2, insert, &["b"]);
    log.add(1, INSERT, &["c"]).add(1, ITEM, &["103", "1"]);
    let expected = found(&[(1, &["101"]), (1, &["103"])]);
    assert_eq!(log.values(), expected);
    assert_eq!(log.infer().counts().ambiguous, 0);
    log.add(3, ITEM, &["102", "1"]);
    assert_eq!(log.values(), expected);
    assert_eq!(log.infer().counts().ambiguous, 1);
}

#[test]
fn values_near_the_limits_of_bigint_are_no_values_of_a_sequence() {
    let mut log = Log::default();
    for value in [i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
        log.add(1, INSERT, &["a"]);
        log.add(2, ITEM, &[&value.to_string(), "1"]);
    }
    for value in [i64::MIN, i64::MAX] {
        log.add(1, INSERT, &["a"]);
        log.add(1, ITEM, &[&value.to_string(), "1"]);
    }
    assert_eq!(log.values(), []);
    assert_eq!(log.infer().counts().inferred, 0);
}

#[test]
fn session_is_forgotten_at_its_end() {
    let (keys, columns) = (KeyColumns::default(), GeneratedColumns::default());
    let mut pass = InferencePass::new(&keys, &columns);
    for session in 0..3 {
        let event = simple(session, 0, 0, 0, "SELECT 1");
        pass.add(
            &event,
            &PlacesCache::default().get(&event, None, &keys).unwrap(),
        );
        assert_eq!(pass.open_sessions(), 1);
        pass.end_session(session);
    }
    assert_eq!(pass.open_sessions(), 0);
}
