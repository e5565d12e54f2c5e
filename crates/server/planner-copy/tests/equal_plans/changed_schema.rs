//! Indexes and views that a change of the schema creates again.

use connect::Target;
use planner_copy::{PlannerExport, export};
use postgres::{Client, NoTls};
use sandbox::Endpoint;

use super::{connect, copy, explain, login, target_url};

/// Executes the statements separately, and exports.
fn export_of(endpoint: &Endpoint, schema: &str) -> PlannerExport {
    let mut original = connect(endpoint);
    for statement in schema.split_inclusive(';') {
        original.batch_execute(statement).unwrap();
    }
    let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
    export(&target, &login(), None).unwrap()
}

/// Returns the number of blocks of an index.
fn blocks(client: &mut Client, index: &str) -> i64 {
    let sql = "SELECT pg_relation_size($1::text::regclass) / current_setting('block_size')::int";
    client.query_one(sql, &[&index]).unwrap().get(0)
}

const ORDERS: &str = "
    CREATE TABLE orders (id int PRIMARY KEY, placed int, status text, tags text[]);
    INSERT INTO orders SELECT i, i, CASE WHEN i % 1000 = 0 THEN 'open' ELSE 'done' END, ARRAY['t' || i % 40]
        FROM generate_series(1, 100000) i;
    CREATE INDEX orders_open ON orders (placed) WHERE status = 'open';
    CREATE INDEX orders_tags ON orders USING gin (tags);
    CREATE INDEX orders_placed ON orders (placed);
    VACUUM ANALYZE orders; CHECKPOINT";

/// The first two get another definition, the last one does not.
const OTHER_INDEXES: &str = "
    DROP INDEX orders_open; CREATE INDEX orders_open ON orders (placed);
    DROP INDEX orders_tags; CREATE INDEX orders_tags ON orders (placed, id);
    DROP INDEX orders_placed; CREATE INDEX orders_placed ON orders (placed)";

#[test]
fn index_with_another_definition_under_the_former_name_has_a_size_of_its_own() {
    let (sandbox, endpoint) = test_support::server().major(15).start();
    let exported = export_of(&endpoint, ORDERS);
    let mut original = connect(&endpoint);
    let of_export = blocks(&mut original, "orders_placed");
    original.batch_execute(OTHER_INDEXES).unwrap();
    let server = copy(&exported, sandbox.installation(), OTHER_INDEXES);
    assert!(server.left_out.is_empty(), "{:?}", server.left_out);
    let mut copied = Client::connect(&target_url(server.target()), NoTls).unwrap();
    for index in ["orders_open", "orders_tags"] {
        let sizes = [&mut original, &mut copied].map(|client| blocks(client, index));
        let ratio = sizes[1] as f64 / sizes[0] as f64;
        assert!((0.9..1.1).contains(&ratio), "{index}: {sizes:?}");
    }
    assert_eq!(blocks(&mut copied, "orders_placed"), of_export);
    // The first block of the former GIN index would make the planner refuse each statement.
    explain(&mut copied, "SELECT * FROM orders WHERE placed = 7");
}

const STATUSES: &str = "
    CREATE TABLE orders (id int PRIMARY KEY, placed int, status varchar(20));
    INSERT INTO orders SELECT i, i, CASE WHEN i % 1000 = 0 THEN 'open' ELSE 'done' END FROM generate_series(1, 100000) i;
    CREATE INDEX orders_open ON orders (placed) WHERE status = 'open';
    VACUUM ANALYZE orders; CHECKPOINT";

#[test]
fn partial_index_keeps_its_size_if_the_type_of_a_column_in_its_condition_changes() {
    let (sandbox, endpoint) = test_support::server().major(15).start();
    let exported = export_of(&endpoint, STATUSES);
    let of_export = blocks(&mut connect(&endpoint), "orders_open");
    let change = "ALTER TABLE orders ALTER COLUMN status TYPE text";
    let server = copy(&exported, sandbox.installation(), change);
    assert!(server.left_out.is_empty(), "{:?}", server.left_out);
    let mut copied = Client::connect(&target_url(server.target()), NoTls).unwrap();
    assert_eq!(blocks(&mut copied, "orders_open"), of_export);
}

const FILLED: &str = "
    CREATE TABLE filled (a int, b text) WITH (autovacuum_enabled = off);
    INSERT INTO filled SELECT i, 'xxxxxxxx' FROM generate_series(1, 50000) i; CHECKPOINT";

#[test]
fn index_on_a_table_that_was_never_vacuumed_has_a_size_and_is_listed() {
    let (sandbox, endpoint) = test_support::server().major(15).start();
    let exported = export_of(&endpoint, FILLED);
    let change = "CREATE INDEX filled_a ON filled (a)";
    let server = copy(&exported, sandbox.installation(), change);
    let [note] = &server.left_out[..] else {
        panic!("{:?}", server.left_out);
    };
    assert_eq!(note.subject, "size of the index public.filled_a");
    assert!(note.reason.contains("no VACUUM or ANALYZE"), "{note:?}");
    let mut original = connect(&endpoint);
    original.batch_execute(change).unwrap();
    let mut copied = Client::connect(&target_url(server.target()), NoTls).unwrap();
    let sizes = [&mut original, &mut copied].map(|client| blocks(client, "filled_a"));
    let ratio = sizes[1] as f64 / sizes[0] as f64;
    assert!((0.4..2.5).contains(&ratio), "{sizes:?}");
}

const POLICIES: &str = "
    CREATE ROLE app;
    CREATE TABLE orders (id int PRIMARY KEY, tenant int, note text);
    INSERT INTO orders SELECT i, i % 100, 'x' FROM generate_series(1, 20000) i;
    CREATE INDEX orders_tenant ON orders (tenant);
    CREATE VIEW open_orders AS SELECT * FROM orders WHERE note <> '';
    CREATE POLICY mine ON orders USING (tenant = 7);
    ALTER TABLE orders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    ALTER TABLE orders OWNER TO app;
    ALTER VIEW open_orders OWNER TO app;
    VACUUM ANALYZE orders; CHECKPOINT";

#[test]
fn view_reads_a_table_with_the_policies_of_its_owner_also_if_a_change_creates_it_again() {
    let (sandbox, endpoint) = test_support::server().major(15).start();
    let exported = export_of(&endpoint, POLICIES);
    let statement = "SELECT * FROM open_orders WHERE id > 5";
    let expected = explain(&mut connect(&endpoint), statement);
    assert!(expected.contains("tenant = 7"), "{expected}");
    let plan_after = |change: &str| {
        let server = copy(&exported, sandbox.installation(), change);
        assert!(server.left_out.is_empty(), "{:?}", server.left_out);
        let mut copied = Client::connect(&target_url(server.target()), NoTls).unwrap();
        explain(&mut copied, statement)
    };
    for change in [
        "SELECT 1",
        "DROP VIEW open_orders; CREATE VIEW open_orders AS SELECT * FROM orders WHERE note <> ''",
    ] {
        assert_eq!(plan_after(change), expected, "{change}");
    }
    // An API schema that is deployed again.
    let of_api =
        "CREATE SCHEMA api; CREATE VIEW api.open_orders AS SELECT * FROM orders WHERE note <> ''";
    let exported_api = export_of(
        &endpoint,
        &format!("{of_api}; ALTER VIEW api.open_orders OWNER TO app"),
    );
    let statement_of_api = "SELECT * FROM api.open_orders WHERE id > 5";
    let expected_of_api = explain(&mut connect(&endpoint), statement_of_api);
    assert!(expected_of_api.contains("tenant = 7"), "{expected_of_api}");
    let change = format!("DROP SCHEMA api CASCADE; {of_api}");
    let server = copy(&exported_api, sandbox.installation(), &change);
    assert!(server.left_out.is_empty(), "{:?}", server.left_out);
    let mut copied = Client::connect(&target_url(server.target()), NoTls).unwrap();
    assert_eq!(explain(&mut copied, statement_of_api), expected_of_api);
    // Policies do not apply to this role.
    let plan = plan_after("ALTER VIEW open_orders OWNER TO postgres");
    assert!(!plan.contains("tenant = 7"), "{plan}");
}
