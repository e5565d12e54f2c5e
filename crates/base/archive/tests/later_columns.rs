//! A column that came with a later format reads as null in a file that lacks it; any other column
//! that is missing is damage.

use archive::{
    Archive, ArchiveWriter, Column, ColumnType, OnFailure, Parts, TableOptions, TableReader,
};

const OLD: &[Column] = &[Column::required("a", ColumnType::U64)];
const NEW: &[Column] = &[
    Column::required("a", ColumnType::U64),
    Column::later("b", ColumnType::Bool),
    Column::later("c", ColumnType::Text),
];
const OTHER: &[Column] = &[
    Column::required("a", ColumnType::U64),
    Column::nullable("b", ColumnType::Bool),
];

#[test]
fn column_added_later_reads_as_null_in_older_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.thing");
    let writer = ArchiveWriter::create(&path, "thing", 1, OnFailure::Remove).unwrap();
    let options = TableOptions {
        parts: Parts::One,
        group_rows: 10,
    };
    let mut table = writer.table("rows", OLD, options).unwrap();
    for number in 0..3 {
        table.u64(number);
        table.end_row().unwrap();
    }
    let files = table.finish().unwrap();
    let paths = vec![path.join(&files[0].name)];
    writer.finish(files, serde_json::Value::Null).unwrap();

    let archive = Archive::open(&path, "thing", 2).unwrap();
    let rows: Vec<_> = archive
        .table("rows", NEW)
        .unwrap()
        .rows(|batch, row| {
            let text = batch.text(2, row).map(str::to_owned);
            Ok((batch.u64(0, row), batch.bool(1, row), text))
        })
        .map(Result::unwrap)
        .collect();
    let read = |number| (Some(number), None, None);
    assert_eq!(rows, [read(0), read(1), read(2)]);

    let Err(error) = TableReader::open(paths, OTHER) else {
        panic!("a nullable column of the first format is missing");
    };
    assert!(error.to_string().contains("no column b"), "{error}");
}
