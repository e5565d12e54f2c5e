use std::ops::Range;

use proptest::prelude::*;
use protocol::Format;
use protocol::backend::row_description;
use protocol::backend::row_description::FieldDescription;
use protocol::backend::{DataRow, RowDescription, data_row};
use protocol::frontend::{Bind, Parse, Query, tag};
use protocol::next_frame;
use sql::{Fingerprint, Fingerprinter, ValueToken};
use workload::{Event, EventKind, FirstRows, Parameter, WireDetails};

use super::expected_rows::ReplayedValue;
use super::tracker::Tracked;
use super::*;
use crate::test_events::simple;

const TEXT: u32 = 25;
const INT4: u32 = 23;
const INT8: u32 = 20;
const FLOAT8: u32 = 701;
const UUID: u32 = 2950;

const UUIDS: [&str; 2] = [
    "0191d8a0-6b7c-7abc-8def-0123456789ab",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
];

fn text(value: &str) -> Option<Parameter> {
    Some(Parameter::from(value))
}

/// Events of sessions that do one thing after another, each in a millisecond.
#[derive(Default)]
struct Script {
    events: Vec<(Event, Option<Fingerprint>)>,
    fingerprinter: Fingerprinter,
}

impl Script {
    /// Adds a statement with its parameters and the first row of its result.
    fn add(
        &mut self,
        session: u64,
        sql: &str,
        parameters: &[&str],
        row: &[(&str, &str)],
    ) -> &mut Self {
        let count = self.events.len() as i64;
        let kind = match parameters {
            [] => EventKind::Simple { sql: sql.into() },
            _ => EventKind::Execute {
                statement: "".into(),
                portal: "".into(),
                sql: sql.into(),
                parameters: parameters.iter().map(|value| text(value)).collect(),
            },
        };
        let first_rows = (!row.is_empty()).then(|| FirstRows {
            columns: row.iter().map(|(name, _)| Box::from(*name)).collect(),
            values: row.iter().map(|(_, value)| text(value)).collect(),
        });
        let of_session = self
            .events
            .iter()
            .filter(|(event, _)| event.session == session);
        let sequence = of_session.count() as u64;
        let mut event = simple(session, sequence, 2_000 * count, 1_000, sql);
        event.kind = kind;
        let details = WireDetails {
            first_rows,
            ..WireDetails::default()
        };
        event.wire_details = Some(details.into());
        self.events
            .push((event, Some(self.fingerprinter.fingerprint(sql))));
        self
    }

    fn provenance(&self, keys: &KeyColumns) -> Provenance {
        let mut pass = ProvenancePass::default();
        let mut cache = PlacesCache::default();
        for (event, fingerprint) in &self.events {
            let places = cache.get(event, *fingerprint, keys).unwrap();
            pass.add(event, fingerprint.unwrap(), &places);
        }
        pass.decide(keys, None)
    }

    /// Returns what each event has to do with generated values.
    fn track(&self, keys: &KeyColumns) -> Vec<Tracked> {
        let provenance = self.provenance(keys);
        let mut tracker = ValueTracker::new(&provenance, 0);
        let mut cache = PlacesCache::default();
        let events = self.events.iter();
        events
            .map(|(event, fingerprint)| {
                let places = cache.get(event, *fingerprint, keys).unwrap();
                tracker.track(event, *fingerprint, &places, 0)
            })
            .collect()
    }
}

/// Returns the sessions and sequence numbers of the executions from which the values of an event come.
fn numbers(tracked: &Tracked) -> Vec<(ValueToken, u64)> {
    let used = tracked.used.iter();
    used.map(|used| (used.token.clone(), used.number)).collect()
}

fn returned(tracked: &Tracked) -> Vec<u64> {
    let values = tracked
        .expected
        .iter()
        .flat_map(|row| row.values.iter().flatten());
    values.map(|(_, number)| *number).collect()
}

const INSERT: &str = "INSERT INTO orders (who) VALUES ($1) RETURNING id";
const PAY: &str = "UPDATE orders SET paid = $1 WHERE id = $2";

#[test]
fn numbers_of_two_sequences_are_told_apart() {
    let mut script = Script::default();
    for n in 1..=10 {
        let number = (1_000 + n).to_string();
        script
            .add(1, INSERT, &["ann"], &[("id", &number)])
            .add(
                1,
                "SELECT nextval('payments')",
                &[],
                &[("nextval", &number)],
            )
            .add(1, PAY, &[&number, &number], &[]);
    }
    let tracked = script.track(&KeyColumns::default().with_key("orders", "id"));
    for step in tracked.chunks(3) {
        let (order, payment) = (returned(&step[0])[0], returned(&step[1])[0]);
        let expected = [
            (ValueToken::Parameter(0), payment),
            (ValueToken::Parameter(1), order),
        ];
        assert_eq!(numbers(&step[2]), expected);
    }
}

#[test]
fn value_of_another_session_has_its_source() {
    let mut script = Script::default();
    script
        .add(1, INSERT, &["ann"], &[("id", "7")])
        .add(2, "SELECT * FROM orders WHERE id = 7", &[], &[])
        // It finds what the first has generated.
        .add(
            3,
            "UPDATE orders SET who = 'x' WHERE who = 'ann' RETURNING id",
            &[],
            &[("id", "7")],
        )
        .add(3, "DELETE FROM orders WHERE id = $1", &["7"], &[])
        .add(
            2,
            "INSERT INTO items (order_id, sku) VALUES ($1, $2)",
            &["7", "7"],
            &[],
        );
    let tracked = script.track(&KeyColumns::default().with_key("orders", "id"));
    let first = returned(&tracked[0])[0];
    assert_eq!(numbers(&tracked[1]), [(ValueToken::Literal(32..33), first)]);
    let source = tracked[1].sources[0];
    assert_eq!((source.session, source.sequence), (1, 0));
    // Its own result is the latest to know.
    assert_eq!(
        numbers(&tracked[3]),
        [(ValueToken::Parameter(0), returned(&tracked[2])[0])]
    );
    assert!(tracked[3].sources.is_empty());
    // The item's number is not an order's.
    assert_eq!(numbers(&tracked[4]), [(ValueToken::Parameter(0), first)]);
}

#[test]
fn number_that_is_equal_by_chance_is_kept() {
    let mut script = Script::default();
    let insert = "INSERT INTO items (order_id, product_id, pieces) VALUES ($1, $2, $3)";
    for n in 1..=200 {
        let number = n.to_string();
        let (product, pieces) = ((n * 7 % 50 + 1).to_string(), (n % 5 + 1).to_string());
        script.add(1, INSERT, &["ann"], &[("id", &number)]).add(
            1,
            insert,
            &[&number, &product, &pieces],
            &[],
        );
    }
    for keys in [
        KeyColumns::default(),
        KeyColumns::default()
            .with_reference("items", "order_id", "orders", "id")
            .with_reference("items", "product_id", "products", "id"),
    ] {
        for step in script.track(&keys).chunks(2) {
            let order = returned(&step[0])[0];
            assert_eq!(numbers(&step[1]), [(ValueToken::Parameter(0), order)]);
        }
    }
}

#[test]
fn parameters_of_generated_numbers_hold_any_number() {
    let mut script = Script::default();
    script
        .add(1, INSERT, &["ann"], &[("id", "7")])
        .add(1, PAY, &["5", "7"], &[]);
    let (update, fingerprint) = &mut script.events[1];
    let EventKind::Execute { parameters, .. } = &mut update.kind else {
        unreachable!()
    };
    *parameters = [5i16, 7]
        .map(|number| Some(Parameter::from(&number.to_be_bytes()[..])))
        .into();
    let details = WireDetails {
        parameter_types: vec![21, 21],
        ..WireDetails::default()
    };
    update.wire_details = Some(details.into());
    let (mut update, fingerprint) = (update.clone(), *fingerprint);
    let keys = KeyColumns::default();
    let provenance = script.provenance(&keys);
    let mut tracker = ValueTracker::new(&provenance, 0);
    let places = PlacesCache::default().get(&update, fingerprint, &keys);
    tracker.widen_numbers(&mut update, &places.unwrap());
    assert_eq!(update.wire_details.unwrap().parameter_types, [21, INT8]);
    let EventKind::Execute { parameters, .. } = update.kind else {
        unreachable!()
    };
    let expected = [&5i16.to_be_bytes()[..], &7i64.to_be_bytes()[..]];
    assert_eq!(
        parameters,
        expected.map(|bytes| Some(Parameter::from(bytes)))
    );
}

#[test]
fn given_and_computed_values_are_not_generated() {
    let mut script = Script::default();
    script
        .add(
            1,
            "INSERT INTO a (id) VALUES ($1) RETURNING id",
            &["5000"],
            &[("id", "5000")],
        )
        .add(
            1,
            "SELECT count(*) FROM a FOR UPDATE",
            &[],
            &[("count", "5000")],
        )
        .add(1, "DELETE FROM a WHERE id = $1", &["5000"], &[]);
    let tracked = script.track(&KeyColumns::default().with_key("a", "id"));
    assert_eq!(numbers(&tracked[2]), []);
}

#[test]
fn uuids_and_snapshots_are_followed_anywhere() {
    let snapshot = "00000003-0000001B-1";
    let mut script = Script::default();
    script
        .add(
            1,
            "INSERT INTO a DEFAULT VALUES RETURNING token",
            &[],
            &[("token", UUIDS[0])],
        )
        .add(
            1,
            "SELECT pg_export_snapshot()",
            &[],
            &[("pg_export_snapshot", snapshot)],
        )
        .add(2, "SELECT f($1)", &[&UUIDS[0].to_uppercase()], &[])
        .add(
            2,
            &format!("SET TRANSACTION SNAPSHOT '{snapshot}'"),
            &[],
            &[],
        );
    let tracked = script.track(&KeyColumns::default());
    assert_eq!(
        numbers(&tracked[2]),
        [(ValueToken::Parameter(0), returned(&tracked[0])[0])]
    );
    assert_eq!(tracked[3].used[0].number, returned(&tracked[1])[0]);
    assert_eq!(tracked[3].sources[0].session, 1);
}

#[test]
fn elements_of_arrays_and_members_of_documents_are_followed() {
    let keys = KeyColumns::default().with_key("orders", "id");
    let mut script = Script::default();
    let insert = "INSERT INTO orders (note) VALUES ('n') RETURNING id";
    let find = "SELECT note FROM orders WHERE id = ANY($1)";
    let log = "INSERT INTO log (entry) VALUES ($1)";
    script.add(1, insert, &[], &[("id", "1001")]);
    script.add(1, insert, &[], &[("id", "1002")]);
    script.add(2, find, &["{1002,7,1001}"], &[]);
    // The same number as a quantity is none of an order.
    let entry = r#"{"order_id": 1001, "quantity": 1001, "orders": [{"order_id": 1002}]}"#;
    script.add(2, log, &[entry], &[]);
    script.add(2, log, &["1001 orders"], &[]);
    let tracked = script.track(&keys);
    let parts = |at: usize| -> Vec<(Value, Range<usize>, u64)> {
        let used = tracked[at].used.iter();
        used.map(|one| (one.captured, one.part.clone().unwrap(), one.number))
            .collect()
    };
    let [first, second] = [1001, 1002].map(Value::Integer);
    assert_eq!(parts(2), [(second, 1..5, 1), (first, 8..12, 0)]);
    assert_eq!(tracked[2].sources.len(), 2);
    let at = |text: &str, from: usize| entry[from..].find(text).unwrap() + from;
    let (one, other) = (at("1001", 0), at("1002", 0));
    assert_eq!(
        parts(3),
        [(first, one..one + 4, 0), (second, other..other + 4, 1)]
    );
    assert_eq!(tracked[4].used, []);
}

#[test]
fn smaller_integers_of_arrays_are_widened() {
    let keys = KeyColumns::default().with_key("orders", "id");
    let mut script = Script::default();
    script.add(
        1,
        "INSERT INTO orders (note) VALUES ('n') RETURNING id",
        &[],
        &[("id", "1001")],
    );
    script.add(
        1,
        "SELECT 1 FROM orders WHERE id = ANY($1)",
        &["{1001}"],
        &[],
    );
    let provenance = script.provenance(&keys);
    let mut tracker = ValueTracker::new(&provenance, 0);
    let (mut event, fingerprint) = script.events[1].clone();
    let of = |elements: &[i64], bytes: usize, type_oid: u32| {
        let mut array = Vec::new();
        for number in [1, 0, type_oid, elements.len() as u32, 1] {
            array.extend(number.to_be_bytes());
        }
        for element in elements {
            array.extend((bytes as u32).to_be_bytes());
            array.extend(&element.to_be_bytes()[8 - bytes..]);
        }
        array
    };
    let mut details = WireDetails::clone(event.wire_details.as_ref().unwrap());
    details.parameter_types = vec![1005];
    event.wire_details = Some(details.into());
    let EventKind::Execute { parameters, .. } = &mut event.kind else {
        panic!("{event:?}");
    };
    parameters[0] = Some(Parameter::from(&of(&[1001, -3], 2, 21)[..]));
    let places = PlacesCache::default()
        .get(&event, fingerprint, &keys)
        .unwrap();
    tracker.widen_numbers(&mut event, &places);
    assert_eq!(event.wire_details.unwrap().parameter_types[..], [1016]);
    let EventKind::Execute { parameters, .. } = &event.kind else {
        panic!("{:?}", event.kind);
    };
    assert_eq!(
        parameters[0],
        Some(Parameter::from(&of(&[1001, -3], 8, 20)[..]))
    );
}

#[test]
fn copies_of_a_workload_are_kept_apart() {
    let copy = crate::event_stream::COPY_SESSION_OFFSET;
    let mut script = Script::default();
    for session in [1, copy + 1] {
        script.add(session, INSERT, &["ann"], &[("id", "7")]);
    }
    for session in [2, copy + 2] {
        script.add(session, "DELETE FROM orders WHERE id = $1", &["7"], &[]);
    }
    let tracked = script.track(&KeyColumns::default());
    for n in 0..2 {
        assert_eq!(tracked[n + 2].used[0].number, returned(&tracked[n])[0]);
    }
}

/// The pairs of a captured row and one that came, of these types and forms.
fn pairs(
    captured: &[Value],
    fields: &[(u32, Format)],
    row: &[Option<&[u8]>],
) -> Vec<(Value, Value)> {
    let numbered = captured
        .iter()
        .zip(0..)
        .map(|(value, number)| Some((*value, number)));
    let mut expected = ExpectedRows::new(captured.len(), numbered.collect());
    let fields = fields.iter().map(|&(type_oid, format)| FieldDescription {
        name: b"id",
        table_oid: 0,
        column_number: 0,
        type_oid,
        type_bytes: 0,
        type_modifier: -1,
        format,
    });
    let mut out = Vec::new();
    row_description::encode(fields, &mut out).unwrap();
    expected.set_formats(&RowDescription::decode(&out[5..]).unwrap());
    out.clear();
    data_row::encode(row.iter().copied(), &mut out).unwrap();
    let mut pairs = Vec::new();
    expected.pair_row(&DataRow::decode(&out[5..]).unwrap(), &mut pairs);
    let pair = |one: ReplayedValue| (one.captured, one.replayed);
    pairs.into_iter().map(pair).collect()
}

#[test]
fn rows_are_paired_in_their_order() {
    let values = [1001, 1002, 1003].map(|number| Some((Value::Integer(number), number as u64)));
    let mut expected = ExpectedRows::new(1, values.into());
    let field = FieldDescription {
        name: b"id",
        table_oid: 0,
        column_number: 0,
        type_oid: INT8,
        type_bytes: 8,
        type_modifier: -1,
        format: Format::Text,
    };
    let mut out = Vec::new();
    row_description::encode([field], &mut out).unwrap();
    expected.set_formats(&RowDescription::decode(&out[5..]).unwrap());
    let mut pairs = Vec::new();
    for text in ["6001", "6002", "6003"] {
        assert!(!expected.is_over());
        out.clear();
        data_row::encode([Some(text.as_bytes())], &mut out).unwrap();
        assert_eq!(expected.expects_one_row(), text == "6003");
        expected.pair_row(&DataRow::decode(&out[5..]).unwrap(), &mut pairs);
    }
    assert!(expected.is_over());
    let found: Vec<_> = pairs.iter().map(|one| (one.number, one.replayed)).collect();
    let number = |at: i64| (1000 + at as u64, Value::Integer(6000 + at));
    assert_eq!(found, [number(1), number(2), number(3)]);
}

#[test]
fn expected_row_decodes_values_by_the_described_type() {
    let number = Value::Integer;
    let int8 = 6001i64.to_be_bytes();
    let uuid = Value::of_text(UUIDS[0].as_bytes()).unwrap();
    let other = Value::of_text(UUIDS[1].as_bytes()).unwrap();
    let other_bytes = other.binary(16).unwrap();
    let captured = [
        number(1001),
        number(1001),
        number(1001),
        uuid,
        uuid,
        number(1005),
        number(1006),
    ];
    let fields = [
        (INT4, Format::Text),
        (INT8, Format::Binary),
        (FLOAT8, Format::Binary),
        (UUID, Format::Binary),
        (TEXT, Format::Text),
        // A number in a text is no key.
        (TEXT, Format::Text),
        (INT4, Format::Text),
    ];
    let row: [Option<&[u8]>; 7] = [
        Some(b"6000"),
        Some(&int8),
        Some(&int8),
        Some(&other_bytes),
        Some(UUIDS[1].as_bytes()),
        Some(b"6005"),
        None,
    ];
    let expected = [
        (number(1001), number(6000)),
        (number(1001), number(6001)),
        (uuid, other),
        (uuid, other),
    ];
    assert_eq!(pairs(&captured, &fields, &row), expected);
    // Rows with other columns, and rows without a description.
    assert_eq!(pairs(&captured, &fields[..6], &row[..6]), []);
    assert_eq!(pairs(&captured, &[], &row), []);
}

/// The messages of an event, as the replay encodes them.
fn messages(kind: EventKind) -> Vec<u8> {
    crate::encode::messages(&kind).unwrap().bytes
}

fn execution(name: &str, sql: &str, parameters: Vec<Option<Parameter>>) -> EventKind {
    EventKind::Execute {
        statement: name.into(),
        portal: "".into(),
        sql: sql.into(),
        parameters,
    }
}

fn used(token: ValueToken) -> UsedValue {
    UsedValue {
        part: None,
        token,
        captured: Value::Integer(1001),
        number: 0,
    }
}

/// The texts and parameters in messages.
fn sent(bytes: &[u8]) -> (Vec<String>, Vec<Option<Vec<u8>>>) {
    let (mut texts, mut parameters, mut rest) = (Vec::new(), Vec::new(), bytes);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    while let Some(frame) = next_frame(rest, 1 << 30).unwrap() {
        rest = &rest[frame.message_bytes()..];
        match frame.tag {
            tag::BIND => {
                let bind = Bind::decode(frame.body).unwrap();
                parameters = bind
                    .parameters
                    .iter()
                    .map(|value| value.map(<[u8]>::to_vec))
                    .collect();
            }
            tag::PARSE => texts.push(text(Parse::decode(frame.body).unwrap().sql)),
            tag::QUERY => texts.push(text(Query::decode(frame.body).unwrap().sql)),
            _ => {}
        }
    }
    assert!(rest.is_empty());
    (texts, parameters)
}

#[test]
fn parameters_keep_their_formats() {
    let binary = |bytes: &[u8]| Some(Parameter::from(bytes));
    let number = Value::Integer(60_001);
    let uuid = Value::of_text(UUIDS[1].as_bytes()).unwrap();
    for (given, value, expected) in [
        (text("1001"), number, Some(&b"60001"[..])),
        (text(UUIDS[0]), uuid, Some(UUIDS[1].as_bytes())),
        (
            binary(&1001i32.to_be_bytes()),
            number,
            Some(&60_001i32.to_be_bytes()[..]),
        ),
        (
            binary(&1001i64.to_be_bytes()),
            number,
            Some(&60_001i64.to_be_bytes()[..]),
        ),
        (binary(UUIDS[0].as_bytes()), uuid, Some(UUIDS[1].as_bytes())),
        // 60,001 is no int2.
        (binary(&1001i16.to_be_bytes()), number, None),
    ] {
        let bytes = messages(execution("s", "SELECT $1", vec![given.clone()]));
        let replaced = replace_values(&bytes, &[(&used(ValueToken::Parameter(0)), value)]);
        match expected {
            None => assert_eq!(replaced, None),
            Some(expected) => {
                let replaced = replaced.unwrap();
                assert_eq!(replaced.count, 1);
                assert_eq!(
                    sent(&replaced.bytes).1,
                    [Some(expected.to_vec())],
                    "{given:?}"
                );
            }
        }
    }
}

#[test]
fn values_within_parameters_leave_the_rest_as_it_is() {
    let header = |type_oid: u32| [1, 0, type_oid, 1, 1].map(u32::to_be_bytes).concat();
    let element = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let array = |number: i64| [header(20), element(&number.to_be_bytes())].concat();
    let small = [header(21), element(&1001i16.to_be_bytes())].concat();
    let document = |text: &str| [&[1][..], text.as_bytes()].concat();
    for (given, part, expected) in [
        (text("{1001,1001}"), 6..10, Some(b"{1001,60001}".to_vec())),
        (
            text(r#"{"id": 1001, "n": 1001}"#),
            7..11,
            Some(br#"{"id": 60001, "n": 1001}"#.to_vec()),
        ),
        (
            Some(Parameter::from(&document("[1001]")[..])),
            2..6,
            Some(document("[60001]")),
        ),
        (
            Some(Parameter::from(&array(1001)[..])),
            24..32,
            Some(array(60_001)),
        ),
        // 60,001 is no int2.
        (Some(Parameter::from(&small[..])), 24..26, None),
    ] {
        let bytes = messages(execution("s", "SELECT $1", vec![given.clone()]));
        let mut used = used(ValueToken::Parameter(0));
        used.part = Some(part);
        let replaced = replace_values(&bytes, &[(&used, Value::Integer(60_001))]);
        let sent = replaced.map(|replaced| sent(&replaced.bytes).1);
        assert_eq!(sent, expected.map(|one| vec![Some(one)]), "{given:?}");
    }
}

#[test]
fn literals_keep_their_spelling() {
    let sql = "SELECT * FROM a WHERE id = 1001 AND b = '1001' AND c = 1001";
    let values = [
        used(ValueToken::Literal(40..46)),
        used(ValueToken::Literal(27..31)),
    ];
    let values: Vec<_> = values
        .iter()
        .map(|used| (used, Value::Integer(7)))
        .collect();
    let expected = "SELECT * FROM a WHERE id = 7 AND b = '7' AND c = 1001";
    for kind in [
        EventKind::Simple { sql: sql.into() },
        execution("", sql, vec![]),
        execution("s", sql, vec![]),
    ] {
        let is_simple = matches!(kind, EventKind::Simple { .. });
        let replaced = replace_values(&messages(kind), &values).unwrap();
        assert_eq!(sent(&replaced.bytes).0, [expected]);
        assert_eq!(replaced.count, 2);
        assert_eq!(replaced.parse_growth, if is_simple { 0 } else { -6 });
    }
}

proptest! {
    #[test]
    fn value_round_trips_in_both_formats(number in 1i64.., uuid in any::<[u8; 16]>(), snapshot in any::<[u32; 3]>()) {
        for (value, bytes) in [(Value::Integer(number), 8), (Value::Uuid(uuid), 16)] {
            prop_assert_eq!(Value::of_text(&value.text()), Some(value));
            prop_assert_eq!(Value::of_binary(&value.binary(bytes).unwrap()), Some(value));
        }
        let snapshot = Value::Snapshot(snapshot);
        prop_assert_eq!(Value::of_text(&snapshot.text()), Some(snapshot));
    }

    #[test]
    fn any_bytes_are_accepted(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let literal = used(ValueToken::Literal(3..9));
        let parameter = used(ValueToken::Parameter(0));
        let values = [(&literal, Value::Integer(1)), (&parameter, Value::Integer(1))];
        let _ = replace_values(&bytes, &values);
        let _ = Value::of_text(&bytes);
        let _ = Value::of_binary(&bytes);
    }
}
