//! Round trip of evidence, and its tables as comma-separated values.

use run::{Artefact, ExtensionFact, Facts, Moment, RelationFact, RunReader, RunWriter};

use super::{info, statement};

fn artefact(name: &str, content: Option<&str>) -> Artefact {
    Artefact {
        name: name.to_owned(),
        how: "asked".to_owned(),
        content: content.map(str::to_owned),
        missing: content.is_none().then(|| "not there".to_owned()),
    }
}

#[test]
fn evidence_is_read_as_it_was_gathered_and_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let statements = || std::iter::once(Ok(statement()));
    let before = [
        artefact("a", Some("text\nof two lines")),
        artefact("b", None),
    ];
    let after = [artefact("a", Some(""))];

    let mut writer = RunWriter::create(&path, &info(), statements()).unwrap();
    writer.evidence(Moment::Before, &before).unwrap();
    // Killed here.
    drop(writer);
    let (recovered, _) = run::recover(&directory.path().join("a.run.partial")).unwrap();
    let reader = RunReader::open(&recovered).unwrap();
    assert_eq!(reader.evidence(Moment::Before).unwrap().unwrap(), before);
    assert_eq!(reader.evidence(Moment::After).unwrap(), None);

    let path = directory.path().join("b.run");
    let mut writer = RunWriter::create(&path, &info(), statements()).unwrap();
    writer.evidence(Moment::Before, &before).unwrap();
    writer.evidence(Moment::After, &after).unwrap();
    writer.finish(info(), 0).unwrap();
    let reader = RunReader::open(&path).unwrap();
    assert_eq!(reader.evidence(Moment::Before).unwrap().unwrap(), before);
    assert_eq!(reader.evidence(Moment::After).unwrap().unwrap(), after);
}

#[test]
fn tables_are_written_as_values_that_any_program_reads() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let mut writer = RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
    let facts = Facts {
        extensions: vec![ExtensionFact {
            database: "a, \"b\"\nc".to_owned(),
            name: "plain".to_owned(),
            version: "1".to_owned(),
        }],
        relations: vec![RelationFact {
            name: "r".to_owned(),
            bytes: Some(7),
            options: vec!["a=\"1\"".to_owned(), "b".to_owned()],
            ..RelationFact::default()
        }],
        ..Facts::default()
    };
    writer.facts(&facts).unwrap();
    writer.finish(info(), 0).unwrap();
    let reader = RunReader::open(&path).unwrap();
    let csv = |table: &str, left_out: &[&str]| {
        let mut out = Vec::new();
        let rows = reader.write_csv(table, left_out, &mut out).unwrap();
        (rows, String::from_utf8(out).unwrap())
    };
    let (rows, text) = csv("extensions", &[]);
    assert_eq!(rows, 1);
    assert_eq!(
        text,
        "database,name,version\r\n\"a, \"\"b\"\"\nc\",plain,1\r\n"
    );
    assert_eq!(
        csv("extensions", &["database"]).1,
        "name,version\r\nplain,1\r\n"
    );
    let (_, text) = csv(
        "relations",
        &[
            "column_names",
            "columns",
            "column_collations",
            "column_statistics",
        ],
    );
    let row = text.lines().nth(1).unwrap();
    assert_eq!(
        row,
        ",,r,,,,7,,,\"{\"\"a=\\\"\"1\\\"\"\"\",\"\"b\"\"}\",,,,"
    );
    // Every table that a run has can be had so.
    for table in reader.tables() {
        csv(table, &[]);
    }
    assert!(reader.write_csv("nothing", &[], &mut Vec::new()).is_err());
}
