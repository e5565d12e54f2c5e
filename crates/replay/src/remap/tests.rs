use std::sync::Arc;

use proptest::prelude::*;
use protocol::Format;
use protocol::backend::row_description;
use protocol::backend::row_description::FieldDescription;
use protocol::backend::{DataRow, data_row};
use protocol::frontend::{Bind, tag};
use protocol::next_frame;
use workload::{FirstRow, Outcome, WireDetails};

use super::*;

const TEXT: u32 = 25;
const INT4: u32 = 23;
const INT8: u32 = 20;
const FLOAT8: u32 = 701;
const UUID: u32 = 2950;

const UUIDS: [&str; 2] = [
    "0191d8a0-6b7c-7abc-8def-0123456789ab",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
];

fn event(sql: &str, columns: &[&str], values: Vec<Option<Parameter>>) -> Event {
    Event {
        session: 1,
        sequence: 1,
        due_us: 0,
        kind: EventKind::Simple { sql: sql.into() },
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        wire_details: Some(
            WireDetails {
                first_row: Some(FirstRow {
                    columns: columns.iter().map(|name| Box::from(*name)).collect(),
                    values,
                }),
                ..WireDetails::default()
            }
            .into(),
        ),
    }
}

fn text(value: &str) -> Option<Parameter> {
    Some(Parameter::from(value))
}

fn expected(sql: &str, column: &str, value: &str) -> Option<Value> {
    let expected = ExpectedRow::of(&event(sql, &[column], vec![text(value)]))?;
    expected.values[0]
}

/// The pairs of a captured row and one that came, of these types and forms.
fn pairs(
    captured: Vec<Option<Parameter>>,
    fields: &[(u32, Format)],
    row: &[Option<&[u8]>],
) -> Vec<(Value, Value)> {
    let columns = vec!["id"; captured.len()];
    let event = event(
        "INSERT INTO t DEFAULT VALUES RETURNING *",
        &columns,
        captured,
    );
    let mut expected = ExpectedRow::of(&event).unwrap();
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
    expected.pairs(&DataRow::decode(&out[5..]).unwrap())
}

#[test]
fn expected_row_contains_generated_values_only() {
    let insert = "insert into t default values Returning id";
    let number = |number| Some(Value::Integer(number));
    assert_eq!(expected(insert, "id", "100"), number(100));
    assert_eq!(expected(insert, "id", "99"), None);
    assert_eq!(
        expected("SELECT nextval('s')", "nextval", "500"),
        number(500)
    );
    let select = "SELECT id FROM t";
    assert_eq!(expected(select, "id", "1000"), number(1000));
    assert_eq!(expected(select, "id", "999"), None);
    assert_eq!(expected("SELECT count(*) FROM t", "count", "5000"), None);
    for no_number in [
        "",
        "01001",
        "+1001",
        "-1001",
        "1001.0",
        " 1001",
        "99999999999999999999",
    ] {
        assert_eq!(expected(insert, "id", no_number), None, "{no_number:?}");
    }
    for uuid in UUIDS {
        let found = expected(select, "token", uuid).unwrap();
        assert_eq!(found.text(), uuid.as_bytes());
        assert_eq!(expected(select, "token", &uuid.to_uppercase()), Some(found));
        assert_eq!(expected(select, "token", &uuid.replace('-', "_")), None);
    }
    assert_eq!(ExpectedRow::of(&event(insert, &["id"], vec![None])), None);
}

#[test]
fn expected_row_decodes_values_by_the_described_type() {
    let number = Value::Integer;
    let int8 = 6001i64.to_be_bytes();
    let uuid = Value::of_text(UUIDS[0].as_bytes()).unwrap();
    let other = Value::of_text(UUIDS[1].as_bytes()).unwrap();
    let other_bytes = other.binary(16).unwrap();
    let captured_uuid = Parameter::Binary(uuid.binary(16).unwrap().into());
    let captured = vec![
        text("1001"),
        Some(Parameter::Binary(1001i64.to_be_bytes().into())),
        Some(Parameter::Binary(1001f64.to_be_bytes().into())),
        Some(captured_uuid),
        text(UUIDS[0]),
        text("1005"),
        text("1006"),
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
    assert_eq!(
        pairs(captured.clone(), &fields, &row),
        [
            (number(1001), number(6000)),
            (number(1001), number(6001)),
            (uuid, other),
            (uuid, other),
        ]
    );
    // Rows with other columns, and rows without a description.
    assert_eq!(pairs(captured.clone(), &fields[..6], &row[..6]), []);
    assert_eq!(pairs(captured, &[], &row), []);
}

#[test]
fn remap_drops_the_oldest_pair_and_equal_values() {
    let mut remap = Remap::default();
    let number = Value::Integer;
    for n in 0..1_024 {
        remap.learn(number(n), number(n + 5_000));
    }
    assert_eq!(remap.unreported, 1_024);
    // Learnt anew, it is the youngest.
    remap.learn(number(0), number(7_000));
    remap.learn(number(9_999), number(1));
    assert_eq!(remap.map(number(0)), Some(number(7_000)));
    assert_eq!(remap.map(number(1)), None);
    assert_eq!(remap.map(number(2)), Some(number(5_002)));
    assert_eq!(remap.replayed.len(), 1_024);
    assert_eq!(remap.order.len(), 1_024);
    remap.learn(number(2), number(2));
    assert_eq!(remap.map(number(2)), None);
    assert_eq!(remap.order.len(), 1_023);
    assert_eq!(remap.unreported, 1_026);
}

fn remap() -> Remap {
    let mut remap = Remap::default();
    remap.learn(Value::Integer(1001), Value::Integer(60_001));
    remap.learn(Value::Integer(24_930), Value::Integer(24_931));
    let uuids = UUIDS.map(|uuid| Value::of_text(uuid.as_bytes()).unwrap());
    remap.learn(uuids[0], uuids[1]);
    remap
}

/// The messages of an Execute, as the replay encodes them.
fn messages(name: &str, types: Vec<u32>, parameters: Vec<Option<Parameter>>) -> Vec<u8> {
    let login = crate::LoginMap::default();
    let target = crate::Target::parse("postgres://x@h/d", |_| None).unwrap();
    let mut event = event("", &[], Vec::new());
    event.kind = EventKind::Execute {
        statement: name.into(),
        portal: Arc::from(""),
        sql: "UPDATE t SET n = 1 WHERE id = $1".into(),
        parameters,
    };
    event.wire_details = Some(
        WireDetails {
            parameter_types: types,
            ..WireDetails::default()
        }
        .into(),
    );
    let job = crate::encode::Encoder::new(&target, &login, None).job(event, None, 0);
    match job.action {
        crate::job::Action::Send(messages) => messages.bytes,
        other => panic!("{other:?}"),
    }
}

type Parameters = Vec<Option<Vec<u8>>>;

/// The messages as tags and bodies, and the parameters of the Bind.
fn taken_apart(bytes: &[u8]) -> (Vec<(u8, &[u8])>, Parameters) {
    let (mut frames, mut parameters, mut rest) = (Vec::new(), Vec::new(), bytes);
    while let Some(frame) = next_frame(rest, 1 << 30).unwrap() {
        rest = &rest[frame.message_bytes()..];
        if frame.tag == tag::BIND {
            let bind = Bind::decode(frame.body).unwrap();
            parameters = bind
                .parameters
                .iter()
                .map(|v| v.map(<[u8]>::to_vec))
                .collect();
            frames.push((frame.tag, &b""[..]));
        } else {
            frames.push((frame.tag, frame.body));
        }
    }
    assert!(rest.is_empty());
    (frames, parameters)
}

#[test]
fn rewrite_bind_keeps_the_format_of_parameters() {
    let binary = |bytes: &[u8]| Some(Parameter::from(bytes));
    let int4 = |n: i32| n.to_be_bytes();
    let uuid = Value::of_text(UUIDS[0].as_bytes()).unwrap();
    let other = Value::of_text(UUIDS[1].as_bytes()).unwrap();
    let (uuid, other) = (uuid.binary(16).unwrap(), other.binary(16).unwrap());
    for (declared, given, sent) in [
        (0, text("1001"), Some(&b"60001"[..])),
        (0, text(UUIDS[0]), Some(UUIDS[1].as_bytes())),
        (FLOAT8, text("1001"), None),
        (0, text("11001"), None),
        (0, text("a 1001"), None),
        (0, binary(&int4(1001)), Some(&int4(60_001))),
        (
            0,
            binary(&1001i64.to_be_bytes()),
            Some(&60_001i64.to_be_bytes()),
        ),
        (
            INT8,
            binary(&1001i64.to_be_bytes()),
            Some(&60_001i64.to_be_bytes()),
        ),
        (FLOAT8, binary(&1001i64.to_be_bytes()), None),
        // 60,001 is no int2.
        (21, binary(&1001i16.to_be_bytes()), None),
        (21, binary(b"ab"), Some(b"ac")),
        // Two letters of a text that have the form of a number.
        (0, binary(b"ab"), None),
        (TEXT, binary(&int4(1001)), None),
        (0, binary(&uuid), Some(&other)),
        (TEXT, binary(UUIDS[0].as_bytes()), Some(UUIDS[1].as_bytes())),
        (0, None, None),
    ] {
        let bytes = messages("s", vec![declared], vec![given.clone()]);
        let came = rewrite_bind(&bytes, &remap());
        assert_eq!(came.is_some(), sent.is_some(), "{declared} {given:?}");
        if let (Some((came, count)), Some(sent)) = (came, sent) {
            assert_eq!(count, 1);
            assert_eq!(taken_apart(&came).1, [Some(sent.to_vec())]);
        }
    }
}

#[test]
fn rewrite_bind_ignores_simple_queries() {
    let query = crate::encode::text("UPDATE t SET n = 1 WHERE id = 1001").unwrap();
    assert_eq!(rewrite_bind(&query.bytes, &remap()), None);
    assert_eq!(rewrite_bind(b"B\0\0", &remap()), None);
}

fn some_parameter() -> impl Strategy<Value = Option<Parameter>> {
    prop_oneof![
        Just(None),
        Just(text("1001")),
        Just(text(UUIDS[0])),
        "[ -~]{0,40}".prop_map(|value| text(&value)),
        proptest::collection::vec(any::<u8>(), 0..20)
            .prop_map(|bytes| Some(Parameter::Binary(bytes.into()))),
        Just(Some(Parameter::Binary(1001i32.to_be_bytes().into()))),
    ]
}

proptest! {
    #[test]
    fn rewrite_bind_replaces_learned_values_only(
        name in "[a-z]{0,4}",
        parameters in proptest::collection::vec(some_parameter(), 0..12),
    ) {
        let bytes = messages(&name, Vec::new(), parameters.clone());
        prop_assert_eq!(rewrite_bind(&bytes, &Remap::default()), None);
        let (frames, before) = taken_apart(&bytes);
        let Some((changed, count)) = rewrite_bind(&bytes, &remap()) else {
            let known = [text("1001"), text(UUIDS[0])];
            prop_assert!(!parameters.iter().any(|parameter| known.contains(parameter)));
            return Ok(());
        };
        let (frames_after, after) = taken_apart(&changed);
        prop_assert_eq!(frames, frames_after);
        let differ = before.iter().zip(&after).filter(|(before, after)| before != after);
        prop_assert_eq!(differ.count() as u64, count);
        prop_assert_eq!(before.len(), after.len());
        // The other way round it is what it was.
        let mut back = Remap::default();
        for (captured, replayed) in &remap().replayed {
            back.learn(*replayed, *captured);
        }
        let (restored, _) = rewrite_bind(&changed, &back).unwrap();
        prop_assert_eq!(restored, bytes);
    }

    #[test]
    fn value_round_trips_in_both_formats(number in 1i64.., uuid in any::<[u8; 16]>()) {
        for (value, bytes) in [(Value::Integer(number), 8), (Value::Uuid(uuid), 16)] {
            prop_assert_eq!(Value::of_text(&value.text()), Some(value));
            prop_assert_eq!(Value::of_binary(&value.binary(bytes).unwrap()), Some(value));
        }
    }

    #[test]
    fn value_accepts_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = rewrite_bind(&bytes, &remap());
        let _ = Value::of_text(&bytes);
        let _ = Value::of_binary(&bytes);
    }
}
