//! Round trip of all column types, with nulls, empty lists and nulls within lists, over row groups and files
//! of any length.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use archive::{
    Archive, ArchiveWriter, Batch, Column, ColumnType, OnFailure, Parts, TableOptions, TableWriter,
};
use proptest::prelude::*;

const COLUMNS: &[Column] = &[
    Column::required("u64", ColumnType::U64),
    Column::nullable("i64", ColumnType::I64),
    Column::nullable("u32", ColumnType::U32).low_cardinality(),
    Column::nullable("f64", ColumnType::F64),
    Column::nullable("bool", ColumnType::Bool),
    Column::required("text", ColumnType::Text),
    Column::nullable("maybe_text", ColumnType::Text),
    Column::nullable("texts", ColumnType::TextList),
    Column::nullable("bytes", ColumnType::Bytes),
    Column::required("bytes_list", ColumnType::BytesList),
    Column::nullable("numbers", ColumnType::U32List),
    Column::required("flag", ColumnType::Bool),
    Column::nullable("name", ColumnType::Text).low_cardinality(),
];

/// From here on a row may be as the one before.
const REPEATED_FROM: usize = 4;

const NAMES: [&str; 3] = ["", "simple", "execute"];

#[derive(Debug, Clone, PartialEq)]
struct Row {
    u64: u64,
    i64: Option<i64>,
    u32: Option<u32>,
    f64: Option<f64>,
    bool: Option<bool>,
    text: String,
    maybe_text: Option<String>,
    texts: Option<Vec<Option<String>>>,
    bytes: Option<Vec<u8>>,
    bytes_list: Vec<Option<Vec<u8>>>,
    numbers: Option<Vec<u32>>,
    flag: bool,
    name: Option<&'static str>,
}

impl Row {
    /// Whether its columns from [`REPEATED_FROM`] on are those of another.
    fn starts_with_columns_of(&self, other: &Row) -> bool {
        let first = self.clone();
        let Row {
            u64, i64, u32, f64, ..
        } = other.clone();
        Row {
            u64,
            i64,
            u32,
            f64,
            ..first
        } == *other
    }

    /// The same in columns of this mask.
    fn take_over(&mut self, other: &Row, columns: u16) {
        let other = other.clone();
        let is = |place: u16| columns & 1 << place != 0;
        macro_rules! take {
            ($($place:literal $field:ident),*) => { $(if is($place) { self.$field = other.$field; })* };
        }
        take!(0 u64, 1 i64, 2 u32, 3 f64, 4 bool, 5 text, 6 maybe_text, 7 texts);
        take!(8 bytes, 9 bytes_list, 10 numbers, 11 flag, 12 name);
    }

    fn write(&self, before: Option<&Row>, table: &mut TableWriter) {
        table.u64(self.u64);
        table.i64(self.i64);
        table.u32(self.u32);
        table.f64(self.f64);
        let is_repeated = before.is_some_and(|before| self.starts_with_columns_of(before));
        if is_repeated && table.same_as_before(COLUMNS.len() - REPEATED_FROM) {
            return table.end_row().unwrap();
        }
        table.bool(self.bool);
        table.text(self.text.as_str());
        table.text(self.maybe_text.as_deref());
        let texts = self.texts.as_ref();
        table.text_list(texts.map(|texts| texts.iter().map(Option::as_deref)));
        table.bytes(self.bytes.as_deref());
        table.bytes_list(Some(self.bytes_list.iter().map(Option::as_deref)));
        let numbers = self.numbers.as_ref();
        table.u32_list(numbers.map(|numbers| numbers.iter().copied()));
        table.bool(self.flag);
        table.name(self.name);
        table.end_row().unwrap();
    }

    fn read(batch: &Batch, row: usize) -> Self {
        let list = batch.bytes_list(9, row).unwrap();
        Row {
            u64: batch.u64(0, row).unwrap(),
            i64: batch.i64(1, row),
            u32: batch.u32(2, row),
            f64: batch.f64(3, row),
            bool: batch.bool(4, row),
            text: batch.text(5, row).unwrap().to_owned(),
            maybe_text: batch.text(6, row).map(str::to_owned),
            texts: batch.text_list(7, row),
            bytes: batch.bytes(8, row).map(<[u8]>::to_owned),
            bytes_list: list.into_iter().map(|bytes| bytes.map(Vec::from)).collect(),
            numbers: batch.u32_list(10, row),
            flag: batch.bool(11, row).unwrap(),
            name: (batch.text(12, row))
                .map(|name| NAMES.into_iter().find(|known| *known == name).unwrap()),
        }
    }
}

fn row() -> impl Strategy<Value = Row> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..9);
    let numbers = (
        any::<u64>(),
        any::<Option<i64>>(),
        prop::option::of(0..7_u32),
        prop::option::of(-1e9..1e9_f64),
        any::<Option<bool>>(),
    );
    let texts = (
        "\\PC{0,9}",
        prop::option::of("[aä]{0,3}"),
        prop::option::of(prop::collection::vec(prop::option::of("\\PC{0,3}"), 0..4)),
    );
    let others = (
        prop::option::of(bytes()),
        prop::collection::vec(prop::option::of(bytes()), 0..4),
        prop::option::of(prop::collection::vec(any::<u32>(), 0..4)),
        any::<bool>(),
        prop::option::of(prop::sample::select(&NAMES[..])),
    );
    (numbers, texts, others).prop_map(
        |(
            (u64, i64, u32, f64, bool),
            (text, maybe_text, texts),
            (bytes, bytes_list, numbers, flag, name),
        )| Row {
            u64,
            i64,
            u32,
            f64,
            bool,
            text,
            maybe_text,
            texts,
            bytes,
            bytes_list,
            numbers,
            flag,
            name,
        },
    )
}

/// Rows, marked or not: some come again and again, and some columns have the same in all of them.
fn rows() -> impl Strategy<Value = Vec<(Row, bool)>> {
    let times = prop_oneof![4 => Just(1), 1 => 2..30_usize];
    let drawn = prop::collection::vec((row(), prop::bool::weighted(0.1), times), 0..60);
    (drawn, any::<u16>()).prop_map(|(drawn, alike)| {
        let first = drawn.first().map(|(row, ..)| row.clone());
        let row = |(mut row, is_marked, times): (Row, bool, usize)| {
            if let Some(first) = &first {
                row.take_over(first, alike);
            }
            std::iter::repeat_n((row, is_marked), times)
        };
        drawn.into_iter().flat_map(row).collect()
    })
}

/// Writes these rows, with a flush after each marked one, and reads them.
fn write_and_read(rows: &[(Row, bool)], options: TableOptions) -> Vec<Row> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.thing");
    write(&path, rows, options, false);
    let archive = Archive::open(&path, "thing", 1).unwrap();
    let table = archive.table("rows", COLUMNS).unwrap();
    table
        .rows(|batch, row| Ok(Row::read(batch, row)))
        .map(Result::unwrap)
        .collect()
}

/// Writes these rows with and without a thread, and checks that the tables have the same bytes.
fn assert_same_files(rows: &[(Row, bool)], options: TableOptions) {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = ["a.thing", "b.thing"].map(|name| directory.path().join(name));
    write(&one, rows, options, false);
    write(&other, rows, options, true);
    let files = |path: &Path| -> BTreeMap<OsString, Vec<u8>> {
        let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
        entries
            .filter(|entry| entry.file_name() != "manifest.json")
            .map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap()))
            .collect()
    };
    assert!(files(&one) == files(&other));
}

fn write(path: &Path, rows: &[(Row, bool)], options: TableOptions, is_in_thread: bool) {
    let writer = ArchiveWriter::create(path, "thing", 1, OnFailure::Remove).unwrap();
    let mut table = writer.table("rows", COLUMNS, options).unwrap();
    if is_in_thread {
        table = table.encode_in_thread().unwrap();
    }
    let mut before = None;
    for (row, is_flushed) in rows {
        row.write(before.replace(row), &mut table);
        if *is_flushed {
            table.flush().unwrap();
        }
    }
    let files = table.finish().unwrap();
    let counted: u64 = files.iter().map(|file| file.rows).sum();
    assert_eq!(counted, rows.len() as u64);
    writer.finish(files, serde_json::Value::Null).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn written_rows_are_read_back(
        rows in rows(),
        group_rows in 1..40_usize,
        part_rows in prop::option::of(1..40_u64),
    ) {
        let parts = part_rows.map_or(Parts::One, Parts::Rows);
        let read = write_and_read(&rows, TableOptions { parts, group_rows });
        let expected: Vec<Row> = rows.into_iter().map(|(row, _)| row).collect();
        prop_assert_eq!(read, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn table_encoded_in_a_thread_has_the_same_bytes(
        rows in rows(),
        group_rows in 1..40_usize,
        part_rows in prop::option::of(1..40_u64),
    ) {
        let parts = part_rows.map_or(Parts::One, Parts::Rows);
        assert_same_files(&rows, TableOptions { parts, group_rows });
    }
}

/// More rows than are gathered, encoded or decoded at a time, and texts that outgrow a dictionary.
#[test]
fn many_rows_are_read_back() {
    let rows: Vec<(Row, bool)> = (0..20_000_u64)
        .map(|number| {
            let row = Row {
                u64: u64::MAX - number,
                i64: (number % 3 == 0).then_some(-(number as i64)),
                u32: (number % 5_000 > 10).then_some(number as u32 % 9),
                f64: None,
                bool: Some(number % 2 == 0),
                text: format!("{number:0>200}"),
                maybe_text: (number > 15_000).then(|| "the same".to_owned()),
                texts: (number % 7 == 0)
                    .then(|| vec![None, Some(number.to_string()), Some(String::new())]),
                bytes: (number == 12_345).then(|| vec![0, 255]),
                bytes_list: vec![Some(number.to_le_bytes().to_vec()); number as usize % 3],
                numbers: Some((0..number as u32 % 4).collect()),
                flag: number % 11 == 0,
                name: Some(NAMES[number as usize / 4_000 % 3]),
            };
            (row, false)
        })
        .collect();
    let options = TableOptions {
        parts: Parts::One,
        group_rows: 9_000,
    };
    let read = write_and_read(&rows, options);
    assert_same_files(&rows, options);
    assert_eq!(read.len(), rows.len());
    for (read, (written, _)) in read.iter().zip(&rows) {
        assert_eq!(read, written);
    }
}

#[test]
fn table_encoded_in_a_thread_reports_a_failure_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.thing");
    let writer = ArchiveWriter::create(&path, "thing", 1, OnFailure::Remove).unwrap();
    let options = TableOptions {
        parts: Parts::One,
        group_rows: 10,
    };
    const NUMBERS: &[Column] = &[Column::required("number", ColumnType::U64)];
    let table = writer.table("rows", NUMBERS, options).unwrap();
    let mut table = table.encode_in_thread().unwrap();
    // A directory has the name of the file.
    std::fs::create_dir(writer.directory().join("rows.parquet")).unwrap();
    let failed = (0..1_000_000_u64).find_map(|number| {
        table.u64(number);
        table.end_row().err()
    });
    assert!(failed.unwrap().to_string().contains("rows.parquet"));
}

#[test]
#[should_panic(expected = "column u64 of U64 was given Text")]
fn row_in_wrong_column_order_panics() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.thing");
    let writer = ArchiveWriter::create(&path, "thing", 1, OnFailure::Remove).unwrap();
    let options = TableOptions {
        parts: Parts::One,
        group_rows: 10,
    };
    let mut table = writer.table("rows", COLUMNS, options).unwrap();
    table.text("one");
}
