//! Parts of a database that an export has, and those that it lists as missing.

use connect::Target;
use connect::login::Login;
use planner_copy::{PlannerExport, export};
use postgres::{Client, NoTls};
use sandbox::Endpoint;

use super::{connect, copy, login, target_url};

fn export_as(endpoint: &Endpoint, user: &str) -> PlannerExport {
    let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
    let login = Login {
        user: user.into(),
        ..login()
    };
    export(&target, &login, None).unwrap()
}

/// Values without a `min` of their type, and a column with the name of a function.
const ENDS: &str = "
    CREATE EXTENSION citext;
    CREATE TABLE names (name citext COLLATE \"C\", key uuid, format int);
    INSERT INTO names VALUES ('Zed', '00000000-0000-0000-0000-000000000003', 9),
        ('adam', '00000000-0000-0000-0000-000000000001', 10), ('zoe', '00000000-0000-0000-0000-000000000002', 11),
        (NULL, NULL, NULL);
    CREATE INDEX ON names (name); CREATE INDEX ON names (key); CREATE INDEX ON names (format);
    ANALYZE names";

#[test]
fn ends_of_an_index_are_in_the_order_of_its_type_also_without_a_minimum() {
    let (_sandbox, endpoint) = test_support::server().major(15).start();
    connect(&endpoint).batch_execute(ENDS).unwrap();
    let exported = export_as(&endpoint, "postgres");
    let ends = |name: &str| {
        let mut columns = exported.statistics.iter();
        let column = columns.find(|one| one.column.as_deref() == Some(name));
        column.unwrap().range.clone().unwrap()
    };
    let pair = |low: &str, high: &str| (low.to_owned(), high.to_owned());
    assert_eq!(ends("name"), pair("adam", "zoe"));
    assert_eq!(
        ends("key"),
        pair(
            "00000000-0000-0000-0000-000000000001",
            "00000000-0000-0000-0000-000000000003"
        )
    );
    assert_eq!(ends("format"), pair("9", "11"));
}

/// A partitioned index and a constraint that only some partitions have, and an index that could not be built.
const INVALID: &str = "
    CREATE TABLE days (day int, kind int) PARTITION BY RANGE (day);
    CREATE TABLE day_1 PARTITION OF days FOR VALUES FROM (0) TO (10);
    CREATE TABLE day_2 PARTITION OF days FOR VALUES FROM (10) TO (20);
    INSERT INTO days SELECT i % 20, i FROM generate_series(1, 2000) i;
    CREATE INDEX day_1_kind ON day_1 (kind);
    CREATE INDEX days_kind ON ONLY days (kind);
    ALTER TABLE ONLY days ADD CONSTRAINT days_key UNIQUE (day, kind);
    CREATE INDEX days_day ON days (day);
    CREATE MATERIALIZED VIEW sums AS SELECT kind, day FROM days;
    CREATE INDEX sums_kind ON sums (kind);
    CREATE INDEX sums_day ON sums (day);
    UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'sums_kind'::regclass;
    ANALYZE; CHECKPOINT";

#[test]
fn invalid_indexes_are_listed_and_are_on_no_partition_of_the_copy() {
    let (sandbox, endpoint) = test_support::server().major(15).start();
    connect(&endpoint).batch_execute(INVALID).unwrap();
    let exported = export_as(&endpoint, "postgres");
    for subject in [
        "index public.days_kind",
        "constraint days_key on public.days",
        "index of a materialized view public.sums_kind",
    ] {
        let mut parts = exported.not_exported.iter();
        let part = parts.find(|one| one.subject == subject);
        assert!(
            part.is_some_and(|one| one.reason.contains("invalid")),
            "{subject}: {:?}",
            exported.not_exported
        );
    }
    let server = copy(&exported, sandbox.installation(), "SELECT 1");
    assert!(server.left_out.is_empty(), "{:?}", server.left_out);
    let mut client = Client::connect(&target_url(server.target()), NoTls).unwrap();
    let sql = "SELECT indexname::text FROM pg_indexes WHERE schemaname = 'public'";
    let rows = client.query(sql, &[]).unwrap();
    let mut indexes: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    indexes.sort();
    let expected = [
        "day_1_day_idx",
        "day_1_kind",
        "day_2_day_idx",
        "days_day",
        "sums_day",
    ];
    assert_eq!(indexes, expected);
}

/// Statistics that `pg_stats` does not show. The type of an extension gets an analysis of its own after `ANALYZE`.
const HIDDEN: &str = "
    CREATE EXTENSION citext;
    CREATE DOMAIN period AS int4range;
    CREATE TABLE stays (id int, during int4range, booked period, price int, name citext);
    INSERT INTO stays SELECT i, int4range(i, i + 5), int4range(i, i + 5), i, 'n' || i FROM generate_series(1, 500) i;
    CREATE INDEX stays_price ON stays (price);
    ANALYZE stays;
    CREATE FUNCTION own_analysis(internal) RETURNS boolean LANGUAGE internal AS 'array_typanalyze';
    UPDATE pg_type SET typanalyze = 'own_analysis'::regproc WHERE typname = 'citext';
    CREATE ROLE reader LOGIN;
    GRANT SELECT ON stays TO reader;
    CHECKPOINT";

#[test]
fn statistics_that_pg_stats_does_not_show_are_listed_for_a_role_that_is_no_superuser() {
    for &major in test_support::versions(&[18, 15]) {
        let (_sandbox, endpoint) = test_support::server().major(major).start();
        connect(&endpoint).batch_execute(HIDDEN).unwrap();
        let columns = |user: &str| -> Vec<String> {
            let parts = export_as(&endpoint, user).not_exported.into_iter();
            let columns = parts.filter(|one| one.reason.starts_with("pg_stats does not show"));
            columns.map(|one| one.subject).collect()
        };
        let expected: &[&str] = match major >= 17 {
            true => &["statistics of public.stays.name"],
            false => &[
                "statistics of public.stays.booked",
                "statistics of public.stays.during",
                "statistics of public.stays.name",
            ],
        };
        assert_eq!(columns("reader"), expected, "{major}");
        assert!(columns("postgres").is_empty(), "{major}");
    }
}

#[test]
fn role_with_the_right_that_is_named_exports_the_heights_of_indexes() {
    let (_sandbox, endpoint) = test_support::server().major(15).start();
    let mut admin = connect(&endpoint);
    admin.batch_execute(HIDDEN).unwrap();
    let right = "GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean)";
    let mut refused = export_as(&endpoint, "reader").not_exported.into_iter();
    let heights = refused.find(|one| one.subject == "heights of indexes");
    let reason = heights.unwrap().reason;
    assert!(reason.contains(right), "{reason}");
    admin.batch_execute(&format!("{right} TO reader")).unwrap();
    let exported = export_as(&endpoint, "reader");
    let mut parts = exported.not_exported.iter();
    assert!(!parts.any(|one| one.subject == "heights of indexes"));
    let mut relations = exported.relations.iter();
    let index = relations.find(|one| one.name == "stays_price").unwrap();
    assert!(index.metapage.is_some());
}
