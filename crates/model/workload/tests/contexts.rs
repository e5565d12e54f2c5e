//! Contexts that comments of statements name.

use std::path::Path;

use workload::{
    ContextKey, ContextText, Event, EventKind, NoRedaction, Outcome, Provenance, WorkloadReader,
    WorkloadWriter, WriterOptions,
};

fn simple(sequence: u64, sql: &str) -> Event {
    Event {
        session: 1,
        sequence,
        due_us: sequence as i64,
        kind: EventKind::Simple { sql: sql.into() },
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 1,
        prelude: false,
        wire_details: None,
    }
}

fn write(path: &Path, texts: impl IntoIterator<Item = String>) -> WorkloadReader {
    let mut writer = WorkloadWriter::create(path, WriterOptions::default(), NoRedaction).unwrap();
    for (sequence, sql) in texts.into_iter().enumerate() {
        let event = simple(sequence as u64, &sql);
        writer.event(&event.borrowed()).unwrap();
    }
    writer.finish(Provenance::default()).unwrap();
    WorkloadReader::open(path).unwrap()
}

fn contexts(reader: &WorkloadReader) -> Vec<ContextText> {
    (reader.contexts().unwrap().map(Result::unwrap)).collect()
}

#[test]
fn statements_that_differ_in_their_trace_are_one_statement_with_its_contexts() {
    let directory = tempfile::tempdir().unwrap();
    let texts: Vec<String> = (1..=1_000)
        .map(|number| {
            let route = number % 2;
            let sql = format!("SELECT * FROM t WHERE a = {number} AND b = 'x'");
            let trace = format!("00-{number:032x}-{number:016x}-01");
            match number % 3 {
                0 => format!("{sql} /*route='/{route}',traceparent='{trace}'*/;"),
                1 => format!("/*route='/{route}',traceparent='{trace}'*/ {sql}"),
                _ => format!("{sql} /*traceparent='{trace}'*/"),
            }
        })
        .collect();
    let reader = write(&directory.path().join("a.workload"), texts.clone());
    let statements: Vec<_> = reader.statements().unwrap().map(Result::unwrap).collect();
    assert_eq!(statements.len(), 1);
    assert_eq!(statements[0].sql, "select * from t where a = $1 and b = $2");
    let routes: Vec<_> = contexts(&reader)
        .iter()
        .map(|one| one.context.value(ContextKey::Route).map(str::to_owned))
        .collect();
    assert_eq!(routes, [Some("/1".to_owned()), Some("/0".to_owned())]);
    // The texts are those that were sent.
    let sent: Vec<String> = (reader.events().unwrap())
        .map(|event| event.unwrap().0.kind.sql().unwrap().to_string())
        .collect();
    assert_eq!(sent, texts);
}

#[test]
fn contexts_past_the_limit_are_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let texts = (0..70_000).map(|number| format!("SELECT 1 /*route='/posts/{number}'*/"));
    let reader = write(&directory.path().join("a.workload"), texts);
    assert_eq!(contexts(&reader).len(), 1 << 16);
    assert_eq!(reader.info().statements, 70_000);
    assert_eq!(reader.statements().unwrap().count(), 1);
}
