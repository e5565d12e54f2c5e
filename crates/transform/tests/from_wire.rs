//! Checks that wire details are read as they were written: through the window, through late runs,
//! through slices; and that workloads of format 2 are still readable.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use transform::{Slice, Slicer};
use workload::{
    Boundary, CopyIn, Event, EventKind, FirstRows, MessageSet, NoRedaction, Outcome, Parameter,
    Provenance, ResultFormat, Unreplayable, WireDetails, WorkloadReader, WorkloadWriter,
    WriterOptions,
};

const START_US: i64 = 1_700_000_000_000_000;

fn value() -> impl Strategy<Value = Option<Parameter>> {
    prop_oneof![
        Just(None),
        "\\PC{0,8}".prop_map(|text| Some(Parameter::from(text))),
        prop::collection::vec(any::<u8>(), 0..9)
            .prop_map(|bytes| Some(Parameter::from(&bytes[..]))),
    ]
}

fn particulars() -> impl Strategy<Value = WireDetails> {
    let format = prop_oneof![Just(ResultFormat::Text), Just(ResultFormat::Binary)];
    let copy = (
        prop::collection::vec(any::<u8>(), 0..300),
        prop::option::of("\\PC{0,9}"),
    );
    let row = prop::collection::vec(("\\PC{0,5}", value()), 0..4);
    (
        prop::collection::vec(any::<u32>(), 0..4),
        prop::collection::vec(format, 0..4),
        prop::option::of(any::<u32>()),
        prop::option::of(copy),
        any::<bool>(),
        prop::sample::select(&Boundary::ALL[..]),
        prop::option::of(row),
        prop::option::of(any::<u64>()),
    )
        .prop_map(
            |(parameter_types, result_formats, rows_max, copy, awaited, boundary, row, digest)| {
                let types_count = parameter_types.len();
                WireDetails {
                    parameter_types,
                    result_formats,
                    rows_max,
                    copy: copy.map(|(data, failed)| CopyIn {
                        data: data.into(),
                        failed: failed.map(Into::into),
                    }),
                    parsed: awaited,
                    messages: MessageSet::Complete,
                    awaited,
                    boundary,
                    first_rows: row.map(|row| FirstRows {
                        columns: row.iter().map(|(name, _)| name.as_str().into()).collect(),
                        values: row.into_iter().map(|(_, value)| value).collect(),
                    }),
                    result_digest: digest,
                    settings: vec![("TimeZone".into(), "UTC".into()); types_count],
                }
            },
        )
}

fn kind() -> impl Strategy<Value = EventKind> {
    let (statement, portal, sql): (Arc<str>, Arc<str>, Arc<str>) =
        ("s".into(), "c".into(), "select $1".into());
    prop_oneof![
        Just(EventKind::Simple { sql: sql.clone() }),
        Just(EventKind::Prepare {
            statement: statement.clone(),
            sql: sql.clone()
        }),
        Just(EventKind::Fetch {
            statement: statement.clone(),
            portal: portal.clone(),
            sql: sql.clone()
        }),
        prop::collection::vec(value(), 0..5).prop_map(move |parameters| EventKind::Execute {
            statement: statement.clone(),
            portal: portal.clone(),
            sql: sql.clone(),
            parameters,
        }),
    ]
}

prop_compose! {
    fn event()(
        kind in kind(),
        after_us in 0i64..1_000,
        particulars in prop::option::weighted(0.7, particulars()),
    ) -> Event {
        Event {
            session: 0,
            sequence: 0,
            due_us: after_us,
            kind,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: particulars.map(Arc::new),
        }
    }
}

fn write(path: &Path, events: &[Event], memory_bytes: usize) {
    let mut writer = WorkloadWriter::create(
        path,
        WriterOptions {
            memory_bytes,
            ..WriterOptions::default()
        },
        NoRedaction,
    )
    .unwrap();
    for event in events {
        writer.event(&event.borrowed()).unwrap();
    }
    writer.finish(Provenance::default()).unwrap();
}

fn read(path: &Path) -> Vec<Event> {
    let reader = WorkloadReader::open(path).unwrap();
    reader.verify().unwrap();
    let events = reader.events().unwrap();
    events.map(|item| item.unwrap().0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn all_of_it_comes_back(
        events in prop::collection::vec(event(), 1..120),
        plain_first in 0usize..60,
        memory_bytes in 2_000usize..60_000,
    ) {
        let mut events = events;
        // Up to here the events may be a log's: its first files have no columns for more.
        for event in events.iter_mut().take(plain_first) {
            event.wire_details = None;
            if let EventKind::Execute { parameters, .. } = &mut event.kind {
                parameters.retain(|value| !matches!(value, Some(Parameter::Binary(_))));
            }
        }
        for (number, event) in (0..).zip(&mut events) {
            // Every event is a session of its own, so that they may come in any order.
            event.session = number;
            event.due_us += START_US;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.workload");
        write(&path, &events, memory_bytes);
        let first_us = events.iter().map(|event| event.due_us).min().unwrap();
        for event in &mut events {
            event.due_us -= first_us;
        }
        events.sort_by_key(|event| (event.due_us, event.session));
        prop_assert_eq!(read(&path), events);
    }
}

/// Builds an event with all wire details.
fn full(sequence: u64, kind: EventKind) -> Event {
    Event {
        session: 1,
        sequence,
        due_us: START_US + sequence as i64 * 1_000,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        wire_details: Some(Arc::new(WireDetails {
            parameter_types: vec![23],
            result_formats: vec![ResultFormat::Binary],
            rows_max: Some(10),
            copy: Some(CopyIn {
                data: b"1\t2\n"[..].into(),
                failed: Some("no more".into()),
            }),
            parsed: true,
            messages: MessageSet::Bind,
            awaited: false,
            boundary: Boundary::Flush,
            first_rows: Some(FirstRows {
                columns: vec!["a".into(), "b".into()],
                values: vec![None, Some(Parameter::from(&b"\0\x01"[..]))],
            }),
            result_digest: Some(7),
            settings: Vec::new(),
        })),
    }
}

#[test]
fn a_slice_keeps_all_of_it() {
    let (statement, portal, sql): (Arc<str>, Arc<str>, Arc<str>) =
        ("s".into(), "c".into(), "select $1".into());
    let connect = EventKind::Connect {
        database: "shop".into(),
        user: "app".into(),
        application: "".into(),
    };
    let execute = EventKind::Execute {
        statement: statement.clone(),
        portal: portal.clone(),
        sql: sql.clone(),
        parameters: vec![Some(Parameter::from(&b"\0\0\0\x07"[..])), None],
    };
    let fetch = EventKind::Fetch {
        statement,
        portal,
        sql,
    };
    let events: Vec<Event> = (0..)
        .zip([connect, execute, fetch])
        .map(|(sequence, kind)| full(sequence, kind))
        .collect();
    let mut kept = Vec::new();
    let mut slicer = Slicer::new(Slice::default(), Some(START_US));
    for event in &events {
        slicer
            .handle_event(event.clone(), &mut |event: Event| {
                kept.push(event);
                Ok::<(), std::convert::Infallible>(())
            })
            .unwrap();
    }
    assert!(slicer.finish().unwrap().adds_up());
    assert_eq!(kept, events);
}

#[test]
fn a_workload_of_format_2_says_nothing_of_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format2.workload");
    let manifest = std::fs::read_to_string(path.join("manifest.json")).unwrap();
    assert!(manifest.contains("\"format\": 2"), "{manifest}");
    let events = read(&path);
    assert_eq!(events.len(), 57);
    assert!(events.iter().all(|event| event.wire_details.is_none()));
    let fetches = events
        .iter()
        .filter(|event| event.unreplayable == Some(Unreplayable::PortalFetch));
    assert_eq!(fetches.count(), 2);
    let values: Vec<&Option<Parameter>> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Execute { parameters, .. } => Some(parameters),
            _ => None,
        })
        .flatten()
        .collect();
    assert!(values.iter().any(|value| value.is_none()));
    let is_text = |value: &&&Option<Parameter>| matches!(value, Some(Parameter::Text(_)));
    assert!(values.iter().filter(is_text).count() > 5, "{values:?}");
    // A copy has the same content, and no more columns than it needs.
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy.workload");
    write(&copy, &events, 1 << 20);
    assert_eq!(read(&copy), events);
}
