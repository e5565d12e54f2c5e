use super::*;

fn places(sql: &str) -> Vec<(String, PlaceRole, String)> {
    let found = ValuePlaces::of(sql, LexicalRules::default());
    let name = |name: Option<String>| name.unwrap_or_else(|| "?".to_owned());
    let described = found.places.into_iter().map(|place| {
        let value = match place.token {
            ValueToken::Parameter(index) => format!("${}", index + 1),
            ValueToken::Literal(range) => sql[range].to_owned(),
        };
        let column = format!("{}.{}", name(place.table), name(place.column));
        (value, place.role, column)
    });
    described.collect()
}

fn expect(sql: &str, expected: &[(&str, PlaceRole, &str)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(value, role, column)| ((*value).to_owned(), *role, (*column).to_owned()))
        .collect();
    assert_eq!(places(sql), expected, "{sql}");
}

#[test]
fn values_of_conditions_have_their_columns() {
    use PlaceRole::{Assigned, Compared, Other};
    expect(
        "UPDATE app.o SET paid = $1, note='x', n = n + 1 WHERE id = $2 AND total > 5",
        &[
            ("$1", Assigned, "o.paid"),
            ("'x'", Assigned, "o.note"),
            ("1", Other, "?.?"),
            ("$2", Compared, "o.id"),
            ("5", Other, "?.?"),
        ],
    );
    expect(
        "SELECT * FROM orders AS o JOIN items i ON i.order_id = o.id WHERE o.id = 7 AND $1 = i.sku \
         AND i.no IN (1, $2) AND i.x NOT IN (3) AND lower(o.a) = 'b' AND o.c::text = '4' AND d = $3 LIMIT 10",
        &[
            ("7", Compared, "orders.id"),
            ("$1", Compared, "items.sku"),
            ("1", Compared, "items.no"),
            ("$2", Compared, "items.no"),
            ("3", Other, "?.?"),
            ("'b'", Other, "?.?"),
            ("'4'", Other, "?.?"),
            ("$3", Compared, "?.d"),
            ("10", Other, "?.?"),
        ],
    );
}

#[test]
fn arrays_that_a_column_is_compared_with_have_its_place() {
    use PlaceRole::{Compared, ComparedElements, Other};
    expect(
        "UPDATE o SET n = abs($3) WHERE o.id = ANY($1::int8[]) AND ref = SOME ('{a}') AND x <> ALL ($2)",
        &[
            ("$3", Other, "?.?"),
            ("$1", ComparedElements, "o.id"),
            ("'{a}'", ComparedElements, "o.ref"),
            ("$2", Other, "?.?"),
        ],
    );
    expect(
        "SELECT * FROM o WHERE o.id = ANY (ARRAY[1, $2]::int[]) AND a[3] = 4 AND b = ARRAY[5] AND c <> ALL (ARRAY[6])",
        &[
            ("1", Compared, "o.id"),
            ("$2", Compared, "o.id"),
            ("3", Other, "?.?"),
            ("4", Other, "?.?"),
            ("5", Other, "?.?"),
            ("6", Other, "?.?"),
        ],
    );
    let others = "SELECT * FROM o WHERE id = ANY(f($1)) OR id::text = ANY($2)";
    expect(others, &[("$1", Other, "?.?"), ("$2", Other, "?.?")]);
}

#[test]
fn negated_comparison_does_not_limit_the_rows() {
    for (sql, expected) in [
        ("SELECT 1 FROM o WHERE NOT (id = ANY ($1))", true),
        ("SELECT 1 FROM o WHERE NOT id = 1", true),
        (
            "SELECT 1 FROM o WHERE id = 1 AND a IS NOT NULL AND b NOT IN (2)",
            false,
        ),
        (
            "SELECT 1 FROM o WHERE id = 1 AND NOT EXISTS (SELECT 1)",
            false,
        ),
    ] {
        let found = ValuePlaces::of(sql, LexicalRules::default());
        assert_eq!(found.has_alternatives, expected, "{sql}");
    }
}

#[test]
fn long_list_takes_linear_time() {
    // At quadratic cost it takes minutes.
    let list = vec!["1"; 500_000].join(",");
    let sql = format!("SELECT f({list}) FROM t WHERE id IN ({list})");
    let found = ValuePlaces::of(&sql, LexicalRules::default());
    let compared = found
        .places
        .iter()
        .filter(|place| place.role == PlaceRole::Compared);
    assert_eq!(compared.count(), 500_000);
}

#[test]
fn inserted_values_have_their_columns() {
    use PlaceRole::{Assigned, Inserted, Other};
    expect(
        "INSERT INTO s.items (order_id, \"No\", at, n) VALUES ($1, 2::int, now(), abs(3)), (4, $2, DEFAULT, 5) \
         ON CONFLICT (order_id) DO UPDATE SET n = 6 RETURNING id",
        &[
            ("$1", Inserted, "items.order_id"),
            ("2", Inserted, "items.No"),
            ("3", Other, "?.?"),
            ("4", Inserted, "items.order_id"),
            ("$2", Inserted, "items.No"),
            ("5", Inserted, "items.n"),
            ("6", Assigned, "items.n"),
        ],
    );
    expect(
        "INSERT INTO t VALUES (1, f(2))",
        &[("1", Inserted, "t.?"), ("2", Other, "?.?")],
    );
}

#[test]
fn tables_have_their_greatest_use() {
    use TableUse::{Locked, Read, Written};
    for (sql, expected) in [
        (
            "SELECT 1 FROM a, b x WHERE x.id = 1",
            vec![("a", Read), ("b", Read)],
        ),
        (
            "SELECT * FROM q WHERE id = 1 FOR NO KEY UPDATE SKIP LOCKED",
            vec![("q", Locked)],
        ),
        (
            "DELETE FROM ONLY a USING b WHERE a.id = b.id",
            vec![("a", Written), ("b", Read)],
        ),
        (
            "WITH n AS (INSERT INTO a (x) SELECT y FROM b RETURNING x) UPDATE c SET x = 1 FROM n",
            vec![("a", Written), ("b", Read), ("c", Written), ("n", Read)],
        ),
        ("BEGIN; UPDATE a SET b = 1; COMMIT", vec![("a", Written)]),
        ("SELECT * FROM generate_series(1, 2)", vec![]),
    ] {
        let found = ValuePlaces::of(sql, LexicalRules::default()).tables;
        let found: Vec<_> = found
            .iter()
            .map(|(name, of)| (name.as_str(), *of))
            .collect();
        assert_eq!(found, expected, "{sql}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_has_places_within_it(sql in "([a-z.,()=;' $0-9:*]|insert into |values |from |where |set ){0,60}") {
        for place in ValuePlaces::of(&sql, LexicalRules::default()).places {
            if let ValueToken::Literal(range) = place.token {
                proptest::prop_assert!(sql.get(range).is_some());
            }
        }
    }
}
