//! Changes of plans on copies compared with those on servers with the data: an upgrade, a migration, settings.
//!
//! Statistics of both servers are of all rows, so that samples do not differ. The numbers are printed; docs/benchmarks has
//! them.

use connect::Target;
use connect::login::Login;
use planner_copy::{CopyRequest, OWNER, PlannerServer, export};
use postgres::{Client, NoTls};
use sandbox::{Dirs, Installation, Sandbox, ServerRequirements};

const SHOP: &str = include_str!("shop.sql");
const STATEMENTS: &str = include_str!("statements.sql");
/// Sets of values for each statement.
const SETS: u64 = 5;

const MIGRATION: &str = "DROP INDEX orders_customer; \
     CREATE INDEX orders_customer_placed ON orders (customer, placed); \
     CREATE INDEX customers_tier ON customers (tier, country); \
     ALTER TABLE products ALTER COLUMN category TYPE bigint; \
     DROP INDEX lines_product; \
     ALTER TABLE events DETACH PARTITION events_1";

fn login() -> Login {
    Login {
        user: "postgres".into(),
        database: "postgres".into(),
        application: "test".into(),
        role: None,
        settings: [].into(),
    }
}

fn full_server(major: u16, statistics_target: u32) -> (Sandbox, Client) {
    let mut sandbox = test_support::server().major(major).create();
    let target = statistics_target.to_string();
    let settings = [
        ("default_statistics_target", &*target),
        ("autovacuum", "off"),
        ("fsync", "off"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    sandbox.set(settings.to_vec()).unwrap();
    let endpoint = sandbox.start().unwrap();
    let mut client = test_support::connect(&endpoint);
    client.batch_execute(SHOP).unwrap();
    client.batch_execute("VACUUM ANALYZE").unwrap();
    client.batch_execute("CHECKPOINT").unwrap();
    (sandbox, client)
}

fn connect(target: &Target) -> Client {
    let server = &target.servers[0];
    let Some(connect::Host::Unix(directory)) = &server.host else {
        panic!("{server:?}");
    };
    let text = format!(
        "host={} port={} user={OWNER} dbname=postgres",
        directory.display(),
        server.port
    );
    Client::connect(&text, NoTls).unwrap()
}

/// Statements with values, a few of each.
fn statements() -> Vec<String> {
    let mut all = Vec::new();
    let mut random: u64 = 1;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        1 + (random >> 33) % below
    };
    let names = [
        ("{cat}", 200),
        ("{c}", 100_000),
        ("{o}", 400_000),
        ("{p}", 20_000),
        ("{k}", 39),
        ("{d}", 330),
        ("{t}", 10),
        ("{n}", 200),
    ];
    for statement in STATEMENTS.lines() {
        for _ in 0..SETS {
            let mut text = statement.trim_end_matches(';').to_owned();
            for (name, below) in names {
                text = text.replace(name, &next(below).to_string());
            }
            if !all.contains(&text) {
                all.push(text);
            }
        }
    }
    all
}

/// Plans without numbers.
fn shapes(client: &mut Client, settings: &str, statements: &[String]) -> Vec<String> {
    client.batch_execute(settings).unwrap();
    let shapes = statements
        .iter()
        .map(
            |statement| match client.query(&format!("EXPLAIN (COSTS OFF) {statement}"), &[]) {
                Ok(rows) => {
                    let lines: Vec<String> =
                        rows.iter().map(|row| row.get::<_, String>(0)).collect();
                    lines.join("\n")
                }
                Err(error) => format!("{:?}", error.code()),
            },
        )
        .collect();
    client.batch_execute("RESET ALL").unwrap();
    shapes
}

/// Numbers of plan changes.
#[derive(Debug, Default)]
struct Agreement {
    plans: usize,
    changed: usize,
    predicted: usize,
    both: usize,
    equal_before: usize,
    equal_after: usize,
}

fn agreement(full: (&[String], &[String]), copy: (&[String], &[String])) -> Agreement {
    let mut found = Agreement::default();
    for at in 0..full.0.len() {
        let (changed, predicted) = (full.0[at] != full.1[at], copy.0[at] != copy.1[at]);
        found.plans += 1;
        found.changed += usize::from(changed);
        found.predicted += usize::from(predicted);
        found.both += usize::from(changed && predicted);
        found.equal_before += usize::from(full.0[at] == copy.0[at]);
        found.equal_after += usize::from(full.1[at] == copy.1[at]);
    }
    found
}

#[test]
fn changes_of_plans_on_copies_are_those_on_servers_with_the_data() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let target = std::env::var("STATISTICS_TARGET")
        .ok()
        .and_then(|text| text.parse().ok());
    let target = target.unwrap_or(10_000);
    let statements = statements();
    let (old, mut old_client) = full_server(15, target);
    let (_new, mut new_client) = full_server(18, target);
    let url = old.endpoint().url("postgres");
    let begun = std::time::Instant::now();
    let exported = export(&Target::parse(&url, |_| None).unwrap(), &login(), None).unwrap();
    println!("export: {:?}", begun.elapsed());
    let dirs = Dirs::from_environment().unwrap();
    let copy = |installation: &Installation, change: &'static str| {
        PlannerServer::create(CopyRequest {
            export: &exported,
            installation,
            dirs: &dirs,
            settings: &[],
            change: &mut |target: &Target| {
                connect(target)
                    .batch_execute(change)
                    .map_err(|error| format!("{error:?}"))
            },
        })
        .unwrap()
    };
    let newer = sandbox::find(&ServerRequirements::major(18), &dirs, &mut |_| ()).unwrap();
    let (before, after) = (
        copy(old.installation(), "SELECT 1"),
        copy(&newer, "SELECT 1"),
    );
    let migrated = copy(old.installation(), MIGRATION);
    println!(
        "left out: {:?} {:?} {:?}",
        before.left_out, after.left_out, migrated.left_out
    );
    let [mut before, mut after, mut migrated] =
        [&before, &after, &migrated].map(|server| connect(server.target()));
    let full_before = shapes(&mut old_client, "", &statements);
    let copy_before = shapes(&mut before, "", &statements);
    let report = |name: &str, full_after: &[String], copy_after: &[String]| {
        let found = agreement((&full_before, full_after), (&copy_before, copy_after));
        println!("{name}: {found:?}");
        let part = |part: usize, all: usize| part as f64 / all.max(1) as f64;
        assert!(
            part(found.both, found.predicted) >= 0.95 || found.predicted == 0,
            "{name}: {found:?}"
        );
        assert!(
            part(found.both, found.changed) >= 0.9 || found.changed == 0,
            "{name}: {found:?}"
        );
    };
    let full_after = shapes(&mut new_client, "", &statements);
    report(
        "15 to 18",
        &full_after,
        &shapes(&mut after, "", &statements),
    );
    for settings in [
        "SET random_page_cost = 1.1",
        "SET work_mem = '64kB'",
        "SET effective_cache_size = '16MB'; SET seq_page_cost = 0.2",
        "SET max_parallel_workers_per_gather = 0",
        "SET enable_hashjoin = off",
    ] {
        let full = shapes(&mut old_client, settings, &statements);
        report(settings, &full, &shapes(&mut before, settings, &statements));
    }
    old_client.batch_execute(MIGRATION).unwrap();
    let full_migrated = shapes(&mut old_client, "", &statements);
    for (at, statement) in statements.iter().enumerate() {
        let copied = shapes(&mut migrated, "", std::slice::from_ref(statement));
        if copied[0] != full_migrated[at] {
            println!(
                "differs after the migration: {statement}\n{}\n--- copy\n{}",
                full_migrated[at], copied[0]
            );
        }
    }
    report(
        "migration",
        &full_migrated,
        &shapes(&mut migrated, "", &statements),
    );
}
