//! Tables whose bytes were altered, with a manifest that does not help: the reader gets the file alone.

use std::fs;
use std::path::Path;

use archive::{
    ArchiveError, ArchiveWriter, Column, ColumnType, OnFailure, Parts, TableOptions, TableReader,
};

const COLUMNS: &[Column] = &[
    Column::nullable("number", ColumnType::I64),
    Column::nullable("name", ColumnType::Text).low_cardinality(),
];

const OPTIONS: TableOptions = TableOptions {
    parts: Parts::One,
    group_rows: 1_000,
};

/// Writes a table of one file and returns its content.
fn write(directory: &Path) -> Vec<u8> {
    let path = directory.join("a.thing");
    let writer = ArchiveWriter::create(&path, "thing", 1, OnFailure::Remove).unwrap();
    let mut table = writer.table("rows", COLUMNS, OPTIONS).unwrap();
    for row in 0..300_i64 {
        table.i64((row % 3 != 0).then_some(row));
        table.text((row % 5 != 0).then_some("same"));
        table.end_row().unwrap();
    }
    let files = table.finish().unwrap();
    let file = path.join(&files[0].name);
    writer.finish(files, serde_json::Value::Null).unwrap();
    fs::read(file).unwrap()
}

fn read(path: &Path) -> Result<usize, ArchiveError> {
    let table = TableReader::open(vec![path.to_owned()], COLUMNS)?;
    let mut rows = table.rows(|batch, row| Ok((batch.i64(0, row), batch.text(1, row).is_some())));
    rows.try_fold(0, |count, row| row.map(|_| count + 1))
}

/// The library panics at a number of more than ten bytes, which this makes of every number in turn.
#[test]
fn altered_bytes_are_damage_and_never_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let whole = write(directory.path());
    let path = directory.path().join("altered.parquet");
    let mut undecodable = 0;
    for at in 0..whole.len() {
        let mut altered = whole.clone();
        let end = whole.len().min(at + 12);
        altered[at..end].fill(0xff);
        fs::write(&path, altered).unwrap();
        match read(&path) {
            Ok(_) => {}
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("altered.parquet is damaged"), "{at}: {text}");
                undecodable += usize::from(text.contains("cannot be decoded"));
            }
        }
    }
    assert!(undecodable > 0, "no altered byte reached such a number");
}
