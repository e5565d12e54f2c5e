//! A copy plans as the server with the data does: same nodes, same costs, same estimates.

#[path = "equal_plans/changed_schema.rs"]
mod changed_schema;
#[path = "equal_plans/exported_parts.rs"]
mod exported_parts;
#[path = "equal_plans/untrusted_code.rs"]
mod untrusted_code;

use connect::Target;
use connect::login::Login;
use planner_copy::{CopyRequest, OWNER, PlannerCopyError, PlannerExport, PlannerServer, export};
use postgres::{Client, NoTls};
use sandbox::{Dirs, Endpoint, Installation};

const SCHEMA: &str = "
    CREATE SCHEMA \"Odd shop\";
    CREATE TYPE mood AS ENUM ('bad', 'good', 'best');
    CREATE DOMAIN amount AS numeric(10, 2) CHECK (VALUE >= 0);
    CREATE FUNCTION first_letter(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower(substr($1, 1, 1))';
    CREATE TABLE customers (gone text, id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL,
        country text, feeling mood, tags text[], profile jsonb, CHECK (id > 0));
    ALTER TABLE customers DROP COLUMN gone;
    INSERT INTO customers (name, country, feeling, tags, profile)
        SELECT 'name ' || i, CASE WHEN i % 10 < 8 THEN 'DE' ELSE 'c' || i % 50 END,
            (ARRAY['bad', 'good', 'best'])[1 + i % 3]::mood, ARRAY['t' || i % 40, 'u' || i % 7],
            jsonb_build_object('age', i % 90) FROM generate_series(1, 20000) i;
    CREATE INDEX customers_country ON customers (country);
    CREATE INDEX customers_letter ON customers (first_letter(name), id);
    CREATE INDEX customers_tags ON customers USING gin (tags);
    CREATE INDEX customers_best ON customers (id) WHERE feeling = 'best';
    CREATE INDEX customers_hash ON customers USING hash (name);
    CREATE TABLE orders (id bigserial PRIMARY KEY, customer int REFERENCES customers, placed timestamptz NOT NULL,
        total amount, status text) WITH (fillfactor = 80);
    INSERT INTO orders (customer, placed, total, status)
        SELECT 1 + (i * 7919) % 20000, '2026-01-01'::timestamptz + i * interval '1 minute', i % 1000,
            CASE WHEN i % 100 = 0 THEN 'open' ELSE 'done' END FROM generate_series(1, 150000) i;
    CREATE INDEX orders_customer ON orders (customer);
    CREATE INDEX orders_placed ON orders (placed);
    CREATE INDEX orders_brin ON orders USING brin (total);
    CREATE TABLE events (at date NOT NULL, kind int, customer int, code int) PARTITION BY RANGE (at);
    CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
    CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
    CREATE TABLE \"Odd shop\".\"Events \"\"3\" PARTITION OF events FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
    CREATE INDEX events_1_kind ON events_1 (kind);
    INSERT INTO events SELECT '2026-01-01'::date + i % 90, i % 20, i % 20000, i % 20 FROM generate_series(1, 60000) i;
    CREATE TABLE parent (a int);
    CREATE TABLE child (b int) INHERITS (parent);
    INSERT INTO parent SELECT i FROM generate_series(1, 500) i;
    INSERT INTO child SELECT i, i FROM generate_series(1, 5000) i;
    CREATE STATISTICS events_codes (ndistinct, dependencies) ON kind, code FROM events_1;
    CREATE VIEW german AS SELECT id, name FROM customers WHERE country = 'DE';
    CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(total) AS total FROM orders GROUP BY customer;
    CREATE INDEX totals_total ON totals (total);
    VACUUM ANALYZE customers; VACUUM ANALYZE orders; ANALYZE events; ANALYZE events_1; ANALYZE events_2;
    ANALYZE parent; ANALYZE child; ANALYZE totals;
    INSERT INTO orders (customer, placed, total, status)
        SELECT 1, '2026-06-01'::timestamptz + i * interval '1 minute', 5, 'open' FROM generate_series(1, 3000) i";

/// Combinations of values, from version 12 on.
const COMBINATIONS: &str =
    "CREATE STATISTICS customers_pairs (mcv) ON country, feeling FROM customers; ANALYZE customers";

const STATEMENTS: [&str; 28] = [
    "SELECT * FROM customers WHERE country = 'DE' AND feeling = 'bad' AND id > 3",
    "SELECT * FROM customers WHERE id = 17",
    "SELECT * FROM customers WHERE country = 'DE'",
    "SELECT * FROM customers WHERE country = 'c8'",
    BY_AN_EXPRESSION,
    "SELECT * FROM customers WHERE name = 'name 77'",
    "SELECT * FROM customers WHERE tags @> ARRAY['t3', 'u2']",
    "SELECT * FROM customers WHERE feeling = 'best' AND id BETWEEN 10 AND 400",
    "SELECT feeling, count(*) FROM customers GROUP BY feeling",
    "SELECT * FROM orders WHERE placed > '2026-05-01'",
    "SELECT * FROM orders WHERE placed > '2026-06-02'",
    BEYOND_ALL_VALUES,
    "SELECT * FROM orders WHERE total BETWEEN 3 AND 4",
    "SELECT * FROM orders ORDER BY placed DESC LIMIT 20",
    "SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer = c.id WHERE c.id = 99",
    "SELECT c.country, sum(o.total) FROM customers c JOIN orders o ON o.customer = c.id GROUP BY 1 ORDER BY 2",
    "SELECT * FROM orders o WHERE status = 'open' AND EXISTS (SELECT FROM customers c WHERE c.id = o.customer AND c.country = 'c9')",
    "SELECT count(*) FROM events WHERE at = '2026-02-07' AND kind = 3",
    "SELECT count(*) FROM events WHERE at >= '2026-02-20' AND customer = 12",
    "SELECT count(*) FROM events_1 WHERE kind = 3 AND code = 3",
    "SELECT kind, code FROM events_1 GROUP BY kind, code",
    "SELECT * FROM parent WHERE a = 44",
    "SELECT * FROM german WHERE id < 5000 ORDER BY name",
    "SELECT * FROM totals WHERE total > 3000 ORDER BY total LIMIT 5",
    "SELECT * FROM totals t JOIN customers c ON c.id = t.customer WHERE c.country LIKE 'c1%'",
    "UPDATE orders SET status = 'late' WHERE placed < '2026-01-02' AND status = 'open'",
    "INSERT INTO orders (customer, placed) SELECT id, now() FROM customers WHERE country = 'c7'",
    "DELETE FROM events WHERE at < '2026-01-03'",
];

/// Role without the rights of a superuser, which may read all but one column.
const READER: &str = "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA public, \"Odd shop\" TO reader; \
     GRANT SELECT ON ALL TABLES IN SCHEMA public, \"Odd shop\" TO reader; \
     CREATE TABLE secrets (id int, code text); INSERT INTO secrets SELECT i, 'code' || i FROM generate_series(1, 99) i; \
     ANALYZE secrets; GRANT SELECT (id) ON secrets TO reader";

const BY_AN_EXPRESSION: &str = "SELECT * FROM customers WHERE first_letter(name) = 'n' AND id < 50";
const BEYOND_ALL_VALUES: &str = "SELECT * FROM orders WHERE placed < '2025-06-02'";

fn login() -> Login {
    Login {
        user: "postgres".into(),
        database: "postgres".into(),
        application: "test".into(),
        role: None,
        settings: [].into(),
    }
}

fn connect(endpoint: &Endpoint) -> Client {
    test_support::connect(endpoint)
}

fn explain(client: &mut Client, sql: &str) -> String {
    let rows = client.query(&format!("EXPLAIN {sql}"), &[]).unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    lines.join("\n")
}

fn copy(export: &PlannerExport, installation: &Installation, change: &str) -> PlannerServer {
    try_copy(export, installation, &[], change).unwrap()
}

fn try_copy(
    export: &PlannerExport,
    installation: &Installation,
    settings: &[(String, String)],
    change: &str,
) -> Result<PlannerServer, PlannerCopyError> {
    let change = change.to_owned();
    PlannerServer::create(CopyRequest {
        export,
        installation,
        dirs: &Dirs::from_environment().unwrap(),
        settings,
        change: &mut |target: &Target| {
            let url = target_url(target).replace("user=postgres", &format!("user={OWNER}"));
            let mut client = Client::connect(&url, NoTls).unwrap();
            client
                .batch_execute(&change)
                .map_err(|error| error.to_string())
        },
    })
}

fn target_url(target: &Target) -> String {
    let server = &target.servers[0];
    let Some(connect::Host::Unix(directory)) = &server.host else {
        panic!("{server:?}");
    };
    format!(
        "host={} port={} user=postgres dbname=postgres",
        directory.display(),
        server.port
    )
}

/// Bytes that the files of a directory take on the disk.
fn used_bytes(directory: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let known = entry.path().symlink_metadata().unwrap();
        bytes += match known.is_dir() {
            true => used_bytes(&entry.path()),
            false => known.blocks() * 512,
        };
    }
    bytes
}

#[test]
fn copy_of_each_version_plans_with_the_costs_of_the_original() {
    // A version takes ten seconds.
    let all: &[u16] = match test_support::is_set("REHEARSE_TEST_UPGRADES") {
        true => &[10, 11, 12, 13, 14, 16, 17, 18, 15],
        false => &[10, 12, 14, 18, 15],
    };
    for &major in test_support::versions(all) {
        let mut sandbox = test_support::server().major(major).create();
        let endpoint = sandbox.start().unwrap();
        let mut original = connect(&endpoint);
        for statement in SCHEMA.split_inclusive(';') {
            original.batch_execute(statement).unwrap();
        }
        if major >= 12 {
            original.batch_execute(COMBINATIONS).unwrap();
        }
        original.batch_execute(READER).unwrap();
        // Metapages are read from files.
        original.batch_execute("CHECKPOINT").unwrap();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let exported = export(&target, &login(), None).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("shop.planner");
        exported.write(&file).unwrap();
        assert!(exported.write(&file).is_err(), "a file is never replaced");
        let exported = PlannerExport::read(&file).unwrap();

        let reader = Login {
            user: "reader".into(),
            ..login()
        };
        let mut visible = export(&target, &reader, None).unwrap();
        let subjects: Vec<&str> = visible
            .not_exported
            .iter()
            .map(|one| &*one.subject)
            .collect();
        let mut expected = vec![
            "statistics of public.customers_letter",
            "statistics of public.secrets",
            "heights of indexes",
        ];
        if major >= 14 {
            // Only the owner of a table sees them.
            expected.extend([
                "data of the extended statistics public.customers_pairs",
                "data of the extended statistics public.events_codes",
            ]);
            visible
                .extended_statistics
                .clone_from(&exported.extended_statistics);
        }
        assert_eq!(subjects, expected, "{major}: {:?}", visible.not_exported);
        assert!(visible.not_exported[1].reason.contains("code"));

        // Without the heights of indexes costs differ.
        visible.relations.clone_from(&exported.relations);
        for (exported, unseen) in [(&exported, None), (&visible, Some(BY_AN_EXPRESSION))] {
            let server = copy(exported, sandbox.installation(), "SELECT 1");
            assert!(server.left_out.is_empty(), "{major}: {:?}", server.left_out);
            let mut copied = Client::connect(&target_url(server.target()), NoTls).unwrap();
            let mut differing = Vec::new();
            for statement in STATEMENTS {
                if unseen == Some(statement) {
                    continue;
                }
                let expected = explain(&mut original, statement);
                let found = explain(&mut copied, statement);
                // Before 12 the planner reads rows to learn that a constant is beyond all values.
                if found != expected && !(major < 12 && statement == BEYOND_ALL_VALUES) {
                    differing.push(format!(
                        "{major}: {statement}\n{expected}\n--- copy\n{found}"
                    ));
                }
            }
            assert!(differing.is_empty(), "{}", differing.join("\n\n"));
        }
        let server = copy(&exported, sandbox.installation(), "SELECT 1");
        let mut copied = Client::connect(&target_url(server.target()), NoTls).unwrap();
        let wrong = "SELECT * FROM customers";
        assert_ne!(
            explain(&mut copied, wrong),
            explain(&mut original, STATEMENTS[0])
        );
    }
}

#[test]
fn setting_of_a_list_has_an_element_for_each_name_and_other_texts_are_refused() {
    let (sandbox, endpoint) = test_support::server().major(15).start();
    let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
    let exported = export(&target, &login(), None).unwrap();
    let search_path = |value: &str| {
        let settings = [("search_path".to_owned(), value.to_owned())];
        try_copy(&exported, sandbox.installation(), &settings, "SELECT 1")
    };
    let server = search_path("app,public").unwrap();
    let mut client = Client::connect(&target_url(server.target()), NoTls).unwrap();
    let row = client.query_one("SHOW search_path", &[]).unwrap();
    assert_eq!(row.get::<_, &str>(0), "app, public");
    let refusal = search_path("old app").err().unwrap();
    assert!(matches!(refusal, PlannerCopyError::Usage(_)), "{refusal:?}");
    let text = refusal.to_string();
    assert!(text.contains("separate names by commas"), "{text}");
}

#[test]
fn copy_of_a_terabyte_takes_no_space_for_its_tables() {
    let mut sandbox = test_support::server().major(15).create();
    let endpoint = sandbox.start().unwrap();
    connect(&endpoint)
        .batch_execute(
            "CREATE TABLE big (id bigint PRIMARY KEY, note text);
             INSERT INTO big SELECT i, 'x' FROM generate_series(1, 1000) i; ANALYZE big",
        )
        .unwrap();
    let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
    let mut exported = export(&target, &login(), None).unwrap();
    let small = copy(&exported, sandbox.installation(), "SELECT 1");
    let small_bytes = used_bytes(small.data_dir());
    for relation in &mut exported.relations {
        // A terabyte for the table, and 80 GiB for its index.
        let pages = if relation.kind == "r" {
            1 << 27
        } else {
            10 << 20
        };
        (relation.pages, relation.relpages, relation.reltuples) = (pages, pages as i32, 1e10);
        relation.metapage = None;
    }
    let server = copy(
        &exported,
        sandbox.installation(),
        "CREATE INDEX big_note ON big (note)",
    );
    let bytes = used_bytes(server.data_dir()).saturating_sub(small_bytes);
    assert!(bytes < 100 << 20, "{bytes} bytes");
    let mut client = Client::connect(&target_url(server.target()), NoTls).unwrap();
    let row = client
        .query_one(
            "SELECT pg_relation_size('big'), pg_relation_size('big_note') / pg_relation_size('big_pkey')::float8",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 1 << 40);
    // 10^10 rows with 6 bytes each, since all keys are equal.
    assert!((0.7..0.9).contains(&row.get::<_, f64>(1)), "{row:?}");
    let plan = explain(&mut client, "SELECT * FROM big WHERE id = 7");
    assert!(
        plan.starts_with("Index Scan using big_pkey on big  (cost=0.5"),
        "{plan}"
    );
}
