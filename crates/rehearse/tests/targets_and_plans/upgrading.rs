//! `rehearse upgrade inspect`: planted faults of old servers and of upgraded copies, and an upgrade without any.

use serde_json::Value;

use super::observed::holds_to_schema;
use super::{rehearse, run};
use sandbox::{Endpoint, Sandbox};

fn server(major: u16, settings: &[(&str, &str)]) -> (Sandbox, Endpoint) {
    test_support::server()
        .major(major)
        .settings(settings)
        .start()
}

/// Returns the findings of an inspection as `check severity name`, one for each object.
fn inspect(options: &[&str]) -> (Vec<String>, Value) {
    let output = rehearse(&[&["upgrade", "inspect", "--json"], options].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let value: Value = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    holds_to_schema("upgrade-inspect", &value);
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let mut found = Vec::new();
    for finding in value["findings"].as_array().unwrap() {
        let (check, severity) = (word(&finding["check"]), word(&finding["severity"]));
        for object in finding["objects"].as_array().unwrap() {
            found.push(format!("{check} {severity} {}", word(&object["name"])));
        }
    }
    (found, value)
}

fn without(found: Vec<String>, checks: &[&str]) -> Vec<String> {
    let is_left_out = |line: &String| checks.iter().any(|check| line.starts_with(check));
    found
        .into_iter()
        .filter(|line| !is_left_out(line))
        .collect()
}

/// Checks that depend on the builds that the machine has.
const OF_BUILDS: [&str; 2] = ["changed_defaults", "unknown_collations"];

#[test]
fn upgrade_inspect_old_server_with_planted_faults_lists_each_and_nothing_else() {
    let (_sandbox, old) = server(
        15,
        &[
            ("wal_level", "logical"),
            ("max_prepared_transactions", "2"),
            ("vacuum_defer_cleanup_age", "3"),
            ("ssl_ecdh_curve", "prime256v1"),
            ("work_mem", "5MB"),
        ],
    );
    run(
        &old,
        "CREATE TABLE t (id int, name text, r regproc, a aclitem[]);
        INSERT INTO t SELECT n, n::text FROM generate_series(1, 300) n;
        CREATE STATISTICS t_s ON id, name FROM t;
        ANALYZE t;
        CREATE VIEW writers AS SELECT buffers_backend FROM pg_stat_bgwriter;
        CREATE MATERIALIZED VIEW counted AS SELECT buffers_backend FROM pg_stat_bgwriter WITH NO DATA;
        CREATE TABLE rows_of_system (x pg_class);
        CREATE VIEW sessions AS SELECT pid, state FROM pg_stat_activity;
        ALTER TABLE t ADD CONSTRAINT positive CHECK (id > 0) NOT VALID;
        CREATE PUBLICATION all_of_t FOR TABLE t;
        CREATE UNLOGGED TABLE scratch (x int);
        CREATE EXTENSION btree_gist;
        CREATE ROLE app;
        ALTER ROLE app SET force_parallel_mode = on;
        SELECT pg_create_physical_replication_slot('standby');
        SELECT lo_create(0);
        CREATE DATABASE closed ALLOW_CONNECTIONS false",
    );
    run(
        &old,
        "CREATE INDEX t_name ON t (name);
        UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_name'::regclass",
    );
    let mut client = postgres::Client::connect(&old.url("postgres"), postgres::NoTls).unwrap();
    client
        .batch_execute("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'left'")
        .unwrap();
    let url = old.url("postgres");
    let (found, value) = inspect(&["--from", &url, "--to", "18"]);
    let expected = [
        "removed_settings blocks force_parallel_mode",
        "removed_settings blocks vacuum_defer_cleanup_age",
        "cluster_properties blocks data_checksums",
        "unstable_types blocks public.rows_of_system.x",
        "unstable_types blocks public.t.a",
        "unstable_types blocks public.t.r",
        "system_views blocks public.counted",
        "system_views blocks public.writers",
        "databases blocks closed",
        "prepared_transactions blocks left",
        "extension_versions mend_after btree_gist",
        "extended_statistics mend_after public.t_s",
        "replication_slots mend_after standby",
        "invalid_indexes note public.t_name",
        "unvalidated_constraints note positive",
        "replica_identity note public.t",
        "unlogged_tables note public.scratch",
        "large_objects note large objects",
    ];
    assert_eq!(without(found, &OF_BUILDS), expected, "{value:#}");
    assert_eq!(value["unchecked"], Value::Array(Vec::new()));
    let text = value.to_string();
    for part in [
        "renamed debug_parallel_query in 16",
        "DROP MATERIALIZED VIEW public.counted",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A dump carries the text of these types, and no statistics.
    let (found, _) = inspect(&["--from", &url, "--to", "18", "--method", "dump"]);
    assert!(found.contains(&"unstable_types note public.t.r".to_owned()));
    assert!(found.contains(&"statistics mend_after all tables".to_owned()));
    assert!(
        !found.iter().any(|line| line.starts_with("databases")),
        "{found:?}"
    );
    let output = rehearse(&[
        "upgrade",
        "inspect",
        "--from",
        &url,
        "--to",
        "18",
        "--fail-on",
        "blocks",
        "--markdown",
        "-",
    ]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let markdown = String::from_utf8_lossy(&output.stdout);
    assert!(markdown.starts_with("<!-- rehearse upgrade inspect -->"));
    assert!(
        markdown.contains("DROP VIEW public&#46;writers"),
        "{markdown}"
    );
}

#[test]
fn upgrade_inspect_version_10_finds_types_oids_and_objects_that_later_versions_removed() {
    let (_sandbox, old) = server(10, &[]);
    run(
        &old,
        "CREATE DOMAIN moment AS abstime;
        CREATE TABLE t (at moment, i information_schema.sql_identifier) WITH OIDS;
        CREATE TABLE plain (id int);
        CREATE VIEW recent AS SELECT at::abstime FROM t;
        CREATE OPERATOR !!! (LEFTARG = int8, PROCEDURE = numeric_fac);
        CREATE AGGREGATE gather (anyelement) (SFUNC = array_append, STYPE = anyarray, INITCOND = '{}')",
    );
    let url = old.url("postgres");
    let (found, value) = inspect(&["--from", &url, "--to", "18"]);
    for line in [
        "removed_types blocks public.recent.at",
        "removed_types blocks public.t.at",
        "unstable_types blocks public.t.i",
        "tables_with_oids blocks public.t",
        "refused_objects blocks public.!!!(bigint,NONE)",
        "refused_objects blocks public.gather(anyelement)",
    ] {
        assert!(found.contains(&line.to_owned()), "{line}: {found:?}");
    }
    assert_eq!(value["unchecked"], Value::Array(Vec::new()));
    let (found, _) = inspect(&["--from", &url, "--to", "11"]);
    let blocking = found.iter().filter(|line| line.contains(" blocks "));
    assert_eq!(blocking.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn upgrade_inspect_upgraded_copy_lists_what_it_lacks_and_a_complete_one_nothing() {
    const SCHEMA: &str = "CREATE TABLE t (id int PRIMARY KEY, a int, b int);
        INSERT INTO t SELECT n, n % 10, n % 10 FROM generate_series(1, 300) n;
        CREATE STATISTICS t_ab (dependencies) ON a, b FROM t;
        CREATE TABLE empty (id int);
        CREATE TABLE parts (n int) PARTITION BY RANGE (n);
        CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000);
        INSERT INTO parts SELECT n FROM generate_series(1, 300) n";
    let set = [("work_mem", "7MB")];
    let (_one, old) = server(15, &set);
    let (_two, complete) = server(15, &set);
    let (_three, poor) = server(18, &[]);
    for endpoint in [&old, &complete] {
        run(endpoint, SCHEMA);
        run(
            endpoint,
            "CREATE INDEX t_a ON t (a); CREATE EXTENSION pg_trgm; CREATE EXTENSION pg_buffercache; ALTER DATABASE postgres SET jit = off;
            CREATE STATISTICS t_ids ON id, a FROM t; ANALYZE;
            CREATE ROLE app; ALTER ROLE app SET search_path = app, public",
        );
    }
    run(&poor, SCHEMA);
    let from = old.url("postgres");
    let (found, value) = inspect(&["--from", &from, "--target", &complete.url("postgres")]);
    assert_eq!(found, Vec::<String>::new(), "{value:#}");
    let (found, value) = inspect(&[
        "--from",
        &from,
        "--to",
        "18",
        "--target",
        &poor.url("postgres"),
    ]);
    let expected = [
        "differing_settings mend_after search_path",
        "differing_settings mend_after jit",
        "differing_settings mend_after work_mem",
        "missing_extensions mend_after pg_buffercache",
        "missing_extensions mend_after pg_trgm",
        "statistics mend_after public.parts",
        "statistics mend_after public.parts_1",
        "statistics mend_after public.t",
        "extended_statistics mend_after public.t_ab",
        "missing_objects mend_after public.t_a",
        "missing_objects mend_after public.t_ids",
        "cluster_properties note data_checksums",
    ];
    assert_eq!(without(found, &OF_BUILDS), expected, "{value:#}");
    let text = value.to_string();
    assert!(text.contains("ALTER SYSTEM SET work_mem = '7MB'"), "{text}");
    for statement in [
        "ALTER DATABASE \\\"postgres\\\" SET jit = 'off'",
        "ALTER ROLE \\\"app\\\" SET search_path = 'app', 'public'",
        "CREATE INDEX t_a ON public.t USING btree (a)",
        "CREATE STATISTICS public.t_ids ON id, a FROM public.t; ANALYZE public.t",
    ] {
        assert!(text.contains(statement), "{statement}: {text}");
    }
}

#[test]
fn upgrade_inspect_copy_of_version_13_needs_analyze_for_created_statistics_but_not_for_emptied_tables()
 {
    const SCHEMA: &str = "CREATE TABLE t (a int, b int);
        INSERT INTO t SELECT n % 10, n % 10 FROM generate_series(1, 300) n;
        CREATE TABLE queue (id int); INSERT INTO queue VALUES (1); DELETE FROM queue; ANALYZE;
        CREATE STATISTICS t_ab (dependencies) ON a, b FROM t";
    let (_one, old) = server(13, &[]);
    let (_two, copy) = server(13, &[]);
    for endpoint in [&old, &copy] {
        run(endpoint, SCHEMA);
    }
    let (from, target) = (old.url("postgres"), copy.url("postgres"));
    let (found, _) = inspect(&["--from", &from, "--target", &target]);
    assert_eq!(found, ["extended_statistics mend_after public.t_ab"]);
    run(&copy, "ANALYZE t");
    let (found, _) = inspect(&["--from", &from, "--target", &target]);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn upgrade_inspect_subscriptions_of_version_17_need_their_origin() {
    let (_sandbox, old) = server(17, &[]);
    run(
        &old,
        "CREATE SUBSCRIPTION s CONNECTION 'dbname=elsewhere' PUBLICATION p WITH (connect = false)",
    );
    let url = old.url("postgres");
    let replication = || {
        let (found, _) = inspect(&["--from", &url, "--to", "18"]);
        let is_replication =
            |line: &String| line.starts_with("subscriptions") || line.starts_with("replication");
        let found = found.into_iter().filter(is_replication);
        found.collect::<Vec<_>>()
    };
    let needed = "replication_slots note max_active_replication_origins";
    assert_eq!(replication(), [needed]);
    run(
        &old,
        "SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin",
    );
    assert_eq!(replication(), ["subscriptions blocks s", needed]);
}

#[test]
fn upgrade_inspect_target_that_hides_parts_from_the_role_has_no_findings_about_them() {
    let (_sandbox, server) = server(15, &[("log_directory", "elsewhere")]);
    run(
        &server,
        "CREATE ROLE reader LOGIN; CREATE DATABASE shop;
        SELECT pg_create_physical_replication_slot('standby');
        REVOKE SELECT ON pg_replication_slots, pg_available_extensions FROM PUBLIC",
    );
    let url = server.url("postgres");
    let reader = url.replace("postgres@", "reader@");
    let (found, value) = inspect(&["--from", &url, "--target", &reader]);
    assert_eq!(found, Vec::<String>::new());
    let unchecked = value["unchecked"].to_string();
    for part in [
        "replication slots",
        "offered extensions",
        "settings that only some roles see",
    ] {
        assert!(unchecked.contains(part), "{part}: {unchecked}");
    }
    // The URLs make `shop` the counterpart of `postgres`, so that of `shop` is missing.
    let (found, _) = inspect(&["--from", &url, "--target", &server.url("shop")]);
    assert_eq!(found, ["databases mend_after shop"]);
}

#[test]
fn upgrade_inspect_reports_what_a_role_may_not_see_and_refuses_other_versions() {
    let (_sandbox, old) = server(15, &[]);
    run(
        &old,
        "CREATE ROLE reader LOGIN; CREATE DATABASE private; REVOKE CONNECT ON DATABASE private FROM PUBLIC;
        ALTER ROLE reader SET app.token = 'hidden-value'",
    );
    let reader = old.url("postgres").replace("postgres@", "reader@");
    let (_, value) = inspect(&["--from", &reader, "--to", "15"]);
    let unchecked = value["unchecked"].to_string();
    assert!(unchecked.contains("passwords of roles"), "{unchecked}");
    assert!(
        unchecked.contains("\"database\":\"private\""),
        "{unchecked}"
    );
    assert!(!value.to_string().contains("hidden-value"));
    let url = old.url("postgres");
    for (options, message) in [
        (&["--to", "14"][..], "is older than the server of --from"),
        (&["--to", "16", "--target", &url][..], "not 16"),
    ] {
        let output = rehearse(&[&["upgrade", "inspect", "--from", &url], options].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(message), "{text}");
    }
}
