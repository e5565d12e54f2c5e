//! Tests of sizes without a server.

use super::*;

fn index(definition: &str) -> CurrentRelation {
    CurrentRelation {
        oid: 1,
        name: ("s".to_owned(), "t_a".to_owned()),
        kind: "i".to_owned(),
        file: None,
        method: "btree".to_owned(),
        is_partial: false,
        table: Some(2),
        key_width: 8.0,
        distinct: String::new(),
        definition: definition.to_owned(),
        row_width: 0.0,
    }
}

fn record(kind: &str, (pages, relpages, reltuples): (u32, i32, f64)) -> RelationSize {
    RelationSize {
        schema: "s".to_owned(),
        name: "t_a".to_owned(),
        kind: kind.to_owned(),
        pages,
        relpages,
        reltuples,
        relallvisible: 0,
        method: None,
        metapage: None,
        key_width: None,
    }
}

#[test]
fn index_that_a_change_creates_with_another_definition_does_not_get_the_former_size() {
    let full = "CREATE INDEX t_a ON s.t USING btree (a)";
    let former = record("i", (12, 12, 9.0));
    let is_recreated = |definition| index(full).is_recreated(&former, definition);
    assert!(is_recreated(Some(full)), "a rebuilt index");
    assert!(!is_recreated(Some(
        "CREATE INDEX t_a ON s.t USING btree (a) WHERE (b = 1)"
    )));
    assert!(!is_recreated(None));
    let partial =
        |condition: &str| format!("CREATE INDEX t_a ON s.t USING btree (a) WHERE {condition}");
    assert!(
        index(&partial("(b = 'x'::text)"))
            .is_recreated(&former, Some(&partial("((b)::text = 'x'::text)"))),
        "a column with another type"
    );
    assert!(
        !index(full).is_recreated(&record("r", (9, 9, 9.0)), Some("")),
        "an index with the name of a former table"
    );
    let table = || CurrentRelation {
        kind: "r".to_owned(),
        ..index("")
    };
    assert!(table().is_recreated(&record("p", (0, 0, 9.0)), Some("")));
    assert!(!table().is_recreated(&former, Some(full)));
}

#[test]
fn first_block_of_another_method_is_not_written() {
    let mut former = record("i", (12, 12, 9.0));
    former.method = Some("btree".to_owned());
    let first = |method: &str| {
        let relation = CurrentRelation {
            method: method.to_owned(),
            ..index("")
        };
        of_record(relation, (&former, None), 8192).first
    };
    assert!(matches!(first("btree"), FirstBlocks::Btree { .. }));
    assert_eq!(first("brin"), FirstBlocks::Unchanged);
}

#[test]
fn rows_of_a_table_that_was_never_vacuumed_come_from_its_size_and_make_an_index_uncertain() {
    let count = |sizes| row_count(&record("r", sizes), 50.0, 8192);
    // 8,168 bytes of a block with 78 bytes for each row.
    assert_eq!(count((1_000, 0, -1.0)), RowCount::FromWidth(104_000.0));
    assert_eq!(count((1_000, 0, 0.0)), RowCount::FromWidth(104_000.0));
    assert_eq!(count((1_000, 500, 5_000.0)), RowCount::Counted(10_000.0));
    // VACUUM or ANALYZE found it empty.
    assert_eq!(count((1_000, 1_000, 0.0)), RowCount::Counted(0.0));
    assert_eq!(count((0, 0, -1.0)).rows(), 0.0);
    let notes = uncertainties_of_new_index(&index(""), count((1_000, 0, -1.0)));
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].reason.contains("no VACUUM or ANALYZE"),
        "{notes:?}"
    );
    assert!(uncertainties_of_new_index(&index(""), RowCount::Counted(9.0)).is_empty());
    assert!(of_new_index(index(""), 104_000.0, 8192).pages > 200);
}

fn pages(rows: f64, width: f64, distinct: &str) -> u32 {
    let relation = CurrentRelation {
        key_width: width,
        distinct: distinct.to_owned(),
        ..index("")
    };
    of_new_index(relation, rows, 8192).pages
}

/// Sizes of indexes that PostgreSQL 13 to 18 created.
#[test]
fn new_index_with_equal_keys_has_about_the_size_that_servers_give_it() {
    for (rows, width, distinct, expected) in [
        // char(3) with four values.
        (100_000.0, 4.0, "4", 87),
        // The same without deduplication.
        (100_000.0, 4.0, "", 278),
        // Text with three values.
        (600_000.0, 5.0, "3", 511),
        // Unknown, and unique.
        (100_000.0, 4.0, "0", 278),
        (100_000.0, 4.0, "-1", 278),
    ] {
        let found = pages(rows, width, distinct);
        let ratio = f64::from(found) / f64::from(expected);
        assert!((0.95..1.05).contains(&ratio), "{found} for {expected}");
    }
}

#[test]
fn number_of_keys_of_several_columns_is_at_most_that_of_the_rows() {
    assert_eq!(distinct_keys("3 -0.5", 10.0), 10.0);
    assert_eq!(distinct_keys("3 2", 10.0), 6.0);
    assert_eq!(distinct_keys("3 0", 10.0), 10.0);
}
