//! Masked exports: no value of the data, the same shares, and lists in order.

use planner_copy::{ColumnStatistics, PlannerExport};
use replay::Target;
use transform::mask::{Mask, MaskKey};

use super::export_planner;

/// Words that only rows have.
const CANARIES: [&str; 9] = [
    "Hartmann",
    "Kowalski",
    "Lissabon",
    "Reykjavik",
    "violett",
    "77001",
    "Zagreb",
    "P4012345",
    "10370371S",
];

const SCHEMA: &str = "
    CREATE TYPE mood AS ENUM ('gloomy', 'cheerful');
    CREATE DOMAIN amount AS numeric(12, 2) CHECK (VALUE >= 0);
    CREATE TABLE people (id int PRIMARY KEY, name text, city text COLLATE \"C\", feeling mood, tags text[], words tsvector,
        born date, balance amount, stay int4range, profile jsonb, address inet, code varchar(20), flags bit(4),
        plate char(8), passport text);
    CREATE INDEX people_name ON people (name);
    CREATE INDEX people_balance ON people (balance);
    INSERT INTO people SELECT i, CASE WHEN i % 3 = 0 THEN 'Hartmann' WHEN i % 5 = 0 THEN 'Kowalski' ELSE 'Muster ' || i END,
        CASE WHEN i % 2 = 0 THEN 'Lissabon' WHEN i % 7 = 0 THEN 'Reykjavik' ELSE 'Ort ' || i END,
        (ARRAY['gloomy', 'cheerful'])[1 + i % 2]::mood, ARRAY['violett', 'farbe' || i % 50],
        to_tsvector('simple', 'violett wort' || i % 40), '1950-01-01'::date + i,
        CASE WHEN i % 4 = 0 THEN 77001.25 ELSE i * 1.5 END, int4range(i * 11, i * 13 + 50),
        jsonb_build_object('Zagreb', 'Reykjavik', 'n', i % 9), ('10.1.' || i % 250 || '.7')::inet, 'K' || i, (i % 16)::bit(4),
        chr(65 + i % 26) || i, CASE WHEN i % 3 = 0 THEN 'P4012345' WHEN i % 3 = 1 THEN '10370371S' ELSE 'T' || i END
        FROM generate_series(1, 4000) i;
    CREATE STATISTICS people_pairs (mcv) ON name, feeling FROM people;
    ANALYZE people; CHECKPOINT";

fn column<'e>(export: &'e PlannerExport, name: &str) -> &'e ColumnStatistics {
    let mut all = export.statistics.iter();
    all.find(|one| one.column.as_deref() == Some(name)).unwrap()
}

fn values(column: &ColumnStatistics, kind: i16) -> &str {
    let mut slots = column.slots.iter();
    let slot = slots.find(|slot| slot.kind == kind);
    let slot = slot.unwrap_or_else(|| panic!("no slot {kind}: {column:?}"));
    slot.values.as_deref().unwrap()
}

#[test]
fn masked_export_has_no_value_of_the_rows_and_keeps_shares_and_orders() {
    let (_sandbox, endpoint) = test_support::server().major(15).start();
    let mut client = test_support::connect(&endpoint);
    client.batch_execute(SCHEMA).unwrap();
    let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let [plain, masked] =
        ["plain.planner", "masked.planner"].map(|name| directory.path().join(name));
    let mask = Mask::new(MaskKey::parse("3f".repeat(32).as_bytes()).unwrap());
    export_planner(&target, &plain, None).unwrap();
    let report = export_planner(&target, &masked, Some(&mask)).unwrap();
    assert_eq!(report.mask_key.as_deref(), Some(mask.key().fingerprint()));
    // Masked bits are no bits.
    let left_out: Vec<&str> = report
        .not_exported
        .iter()
        .map(|(subject, _)| &**subject)
        .collect();
    assert_eq!(
        left_out,
        ["statistics of the kind 1 of public.people.flags"]
    );

    let [plain, masked] = [plain, masked].map(|path| PlannerExport::read(&path).unwrap());
    let text = format!("{masked:?}");
    let unmasked = format!("{plain:?}");
    for canary in CANARIES {
        assert!(unmasked.contains(canary), "{canary}");
        assert!(!text.contains(canary), "{canary}: {text}");
    }
    // Labels are schema, and stay.
    assert_eq!(
        values(column(&masked, "feeling"), 1),
        values(column(&plain, "feeling"), 1)
    );
    for (name, kind) in [("name", 1), ("city", 1), ("balance", 1), ("address", 1)] {
        let [before, after] = [&plain, &masked].map(|export| values(column(export, name), kind));
        assert_eq!(after, mask.replace(before), "{name}");
    }
    assert_eq!(shares(&plain), shares(&masked));
    // The share of the most common element is at its new place.
    let mut slots = column(&masked, "tags").slots.iter();
    let elements = slots.find(|slot| slot.kind == 4).unwrap();
    let place = |text: &str, value: &str| {
        text.trim_matches(['{', '}'])
            .split(',')
            .position(|one| one == value)
            .unwrap()
    };
    let at = place(
        elements.values.as_deref().unwrap(),
        &mask.replace("violett"),
    );
    assert_eq!(place(elements.numbers.as_deref().unwrap(), "1"), at);
    let pairs = masked.extended_statistics[0].combinations.as_ref().unwrap();
    let pair = [Some(mask.replace("Hartmann")), Some("gloomy".to_owned())];
    assert!(pairs.iter().any(|one| one.values == pair), "{pairs:?}");
    lists_are_ascending(&masked, &endpoint);
}

/// Returns the numbers that masking keeps.
fn shares(export: &PlannerExport) -> Vec<(f64, f64, Vec<Option<String>>)> {
    let columns = export
        .statistics
        .iter()
        .filter(|one| one.column.as_deref() != Some("flags"));
    // Shares of elements move with the elements.
    let of_slots = |one: &ColumnStatistics| {
        let slots = one.slots.iter().filter(|slot| slot.kind != 4);
        slots.map(|slot| slot.numbers.clone()).collect()
    };
    columns
        .map(|one| (one.null_fraction, one.distinct, of_slots(one)))
        .collect()
}

fn lists_are_ascending(masked: &PlannerExport, endpoint: &::sandbox::Endpoint) {
    let mut client = test_support::connect(endpoint);
    let mut is_ascending = |values: &str, type_name: &str, collation: &str| -> bool {
        let sql = format!(
            "SELECT bool_and(v::{type_name} >= b::{type_name} {collation}) FROM (SELECT v, lag(v) OVER (ORDER BY o) AS b \
             FROM unnest($1::text::text[]) WITH ORDINALITY AS t (v, o)) x WHERE b IS NOT NULL"
        );
        client.query_one(&sql, &[&values]).unwrap().get(0)
    };
    for (name, kind, type_name, collation) in [
        ("id", 2, "int", ""),
        ("name", 2, "text", ""),
        ("city", 2, "text", "COLLATE \"C\""),
        ("balance", 2, "numeric", ""),
        ("born", 2, "date", ""),
        ("tags", 4, "text", ""),
        ("plate", 2, "bpchar", ""),
        ("stay", 6, "float8", ""),
        ("stay", 7, "int4range", ""),
    ] {
        let values = values(column(masked, name), kind);
        assert!(
            is_ascending(values, type_name, collation),
            "{name}: {values}"
        );
    }
    let ends = column(masked, "balance").range.as_ref().unwrap();
    assert!(is_ascending(
        &format!("{{{},{}}}", ends.0, ends.1),
        "numeric",
        ""
    ));
}
