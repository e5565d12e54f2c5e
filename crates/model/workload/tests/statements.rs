//! Normal forms of the statements of a workload.

use std::sync::Arc;

use workload::{
    Event, EventKind, NoRedaction, Outcome, Provenance, WireDetails, WorkloadReader,
    WorkloadWriter, WriterOptions,
};

fn event(session: u64, sequence: u32, kind: EventKind) -> Event {
    Event {
        session,
        sequence: sequence.into(),
        due_us: i64::from(sequence),
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 1,
        prelude: false,
        wire_details: None,
    }
}

/// A text of two columns if a backslash escapes, and of three if not.
const TEXT: &str = r"select 'O\'Brien', 'Ann'";

#[test]
fn normal_form_reads_backslashes_as_the_session_of_the_text_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let mut writer = WorkloadWriter::create(&path, WriterOptions::default(), NoRedaction).unwrap();
    let simple = |sql: &str| EventKind::Simple { sql: sql.into() };
    for (session, reported) in [(1, "off"), (2, "on"), (3, "on")] {
        let kind = EventKind::Connect {
            database: "shop".into(),
            user: "app".into(),
            application: "".into(),
        };
        let name = "reported.standard_conforming_strings";
        let connect = Event {
            wire_details: Some(Arc::new(WireDetails {
                settings: vec![(name.into(), reported.into())],
                ..WireDetails::default()
            })),
            ..event(session, 0, kind)
        };
        writer.event(&connect.borrowed()).unwrap();
    }
    let off = simple("SET standard_conforming_strings = off");
    let on = simple("SET standard_conforming_strings TO 'on'");
    for (session, sequence, kind) in [
        (1, 1, simple(TEXT)),
        (3, 1, off),
        (3, 2, simple(TEXT)),
        (1, 3, on),
        (2, 3, simple(TEXT)),
        (1, 4, simple(TEXT)),
        (3, 4, simple(TEXT)),
    ] {
        writer
            .event(&event(session, sequence, kind).borrowed())
            .unwrap();
    }
    writer.finish(Provenance::default()).unwrap();
    let reader = WorkloadReader::open(&path).unwrap();
    let texts: Vec<String> = (reader.statements().unwrap())
        .map(|text| text.unwrap().sql)
        .collect();
    let escaped = texts.iter().filter(|text| *text == "select $1, $2");
    assert_eq!(escaped.count(), 1, "{texts:?}");
    // The other reading, and two spellings of SET.
    assert_eq!(texts.len(), 4, "{texts:?}");
}
