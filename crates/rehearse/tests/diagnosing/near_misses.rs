//! Near misses of the problems in the other diagnosis tests: similar statements without the cause, or with less of it.
//!
//! Nothing is found. With other thresholds the findings appear, which shows that the rules were applied. Prepared
//! statements (rarely planned), deadlocks and locks have no threshold; they are counted here.

use run::RunReader;

use super::*;

const NEARLY: &str = "
    CREATE EXTENSION pg_stat_statements;
    CREATE TABLE links (id int PRIMARY KEY, due timestamptz, queued_at timestamptz);
    INSERT INTO links SELECT i, now() - i * interval '1 s', CASE WHEN i > 1000 THEN now() END FROM generate_series(1, 1010) i;
    CREATE INDEX ON links (due) WHERE queued_at IS NULL;
    CREATE TABLE events_0 (kind int, path text);
    CREATE TABLE events_1 (kind int, path text);
    CREATE TABLE events_2 (kind int, path text);
    CREATE TABLE events_3 (kind int, path text);
    CREATE TABLE notes (id int PRIMARY KEY, a int, b int, note text);
    INSERT INTO notes SELECT i, i % 100, i % 100 / 20, md5(i::text) FROM generate_series(1, 20000) i;
    CREATE TABLE orders (id int PRIMARY KEY, customer int);
    CREATE TABLE items (id int PRIMARY KEY, order_id int);
    INSERT INTO orders SELECT i, i / 6 FROM generate_series(1, 600) i;
    INSERT INTO items SELECT i, i FROM generate_series(1, 600) i;
    CREATE INDEX ON items (order_id);
    CREATE INDEX ON items (order_id) WHERE id > 500;
    CREATE INDEX ON notes (a, b);
    CREATE TABLE keys (id uuid PRIMARY KEY, v int);
    INSERT INTO keys SELECT lpad(i::text, 32, '0')::uuid, i FROM generate_series(1, 60000) i;
    CREATE TABLE parts (at int, v int) PARTITION BY RANGE (at);
    ";

fn set_up_nearly(endpoint: &Endpoint) {
    let mut client = postgres::Client::connect(&endpoint.url("postgres"), postgres::NoTls).unwrap();
    let mut all = NEARLY.to_owned();
    // As many different expressions as a backend keeps compiled, some of them twice, and many indexes, but not of one
    // table: what locks them all would go past the fast path.
    for i in 0..40 {
        let (table, expression) = (i % 4, i % 32);
        writeln!(
            all,
            "CREATE INDEX ON events_{table} (kind) WHERE kind = {i} AND path ~ '^/a{expression}/.*b$';"
        )
        .unwrap();
    }
    // With the table above them fewer than there are places on the fast path, since reading the catalogue takes some too.
    for i in 0..11 {
        writeln!(
            all,
            "CREATE TABLE parts_{i} PARTITION OF parts FOR VALUES FROM ({i}) TO ({});",
            i + 1
        )
        .unwrap();
    }
    all.push_str("ANALYZE; CHECKPOINT;");
    client.batch_execute(&all).unwrap();
}

/// Claims that lock and skip, with an index that fits.
const CLAIM_WELL: &str = "UPDATE links SET queued_at = now() WHERE id IN (SELECT id FROM links WHERE queued_at IS NULL \
     AND due < now() ORDER BY due LIMIT 5 FOR UPDATE SKIP LOCKED) RETURNING id";
/// A claim that locks nothing: one worker sends it, and no other.
const CLAIM_ALONE: &str = "UPDATE orders SET customer = customer WHERE id IN (SELECT id FROM orders WHERE id > 590 LIMIT 2)";

/// Creates the traffic of all near misses at once.
fn nearly() -> Script {
    let mut script = Script::default();
    add_other_work(&mut script);
    // One checkpoint that somebody asked for.
    script.at(100, 100, "CHECKPOINT");
    for round in 0..40 {
        let ms = 50 + round * 60;
        add_sound_claims(&mut script, ms, round);
        add_insert_into_one_of_four(&mut script, ms + 2, round);
        for each in 0..4 {
            let id = round * 4 + each + 1;
            add_prepared_join(&mut script, ms + 5 + each, id);
            add_whole_read(&mut script, ms + 10 + each * 8, id);
        }
    }
    for round in 0..12 {
        let ms = 60 + round * 150;
        add_fair_estimate_and_small_sort(&mut script, ms);
        add_list_with_too_few_queries(&mut script, ms, round);
        add_busy_transaction(&mut script, ms);
        add_slow_growth(&mut script, ms + 20, round);
        add_due_links(&mut script, ms + 30, round);
    }
    add_growing_keys(&mut script);
    add_locks_within_the_fast_path(&mut script);
    add_short_wait_for_a_row(&mut script);
    add_two_orders_one_after_the_other(&mut script);
    script
}

/// Adds so much other work that a wait of a second is less than a hundredth of all.
fn add_other_work(script: &mut Script) {
    for session in 0..50 {
        script.at(20, 300 + session, "SELECT pg_sleep(2.9)");
    }
}

fn add_sound_claims(script: &mut Script, ms: u32, round: u32) {
    script.at(ms, 101 + round % 2, CLAIM_WELL);
    script.at(ms, 103, CLAIM_ALONE);
}

fn add_insert_into_one_of_four(script: &mut Script, ms: u32, round: u32) {
    let event = format!(
        "INSERT INTO events_{} VALUES ({round}, '/a{round}/b')",
        round % 4
    );
    script.at(ms, 104, &event);
}

/// Adds a join that is planned a few times a session, since it is prepared.
fn add_prepared_join(script: &mut Script, ms: u32, id: u32) {
    let prepared = format!("{JOIN}$1");
    script.prepared(ms, 105, "j", &prepared, &[id]);
}

/// Adds a read that is planned each time, for more work than that. It reads the whole table and keeps most of it.
fn add_whole_read(script: &mut Script, ms: u32, id: u32) {
    let read = format!("SELECT sum(length(note)) FROM notes WHERE b < 3 AND id > {id}");
    script.at(ms, 106, &read);
}

fn add_fair_estimate_and_small_sort(script: &mut Script, ms: u32) {
    script.at(ms, 107, "SELECT * FROM notes WHERE a = 1 AND b = 0");
    script.at(
        ms,
        107,
        "SELECT count(*) FROM (SELECT * FROM notes WHERE id <= 4000 ORDER BY note OFFSET 0) x",
    );
}

/// Adds a list of six, always followed by five calls.
fn add_list_with_too_few_queries(script: &mut Script, ms: u32, round: u32) {
    script.at(
        ms,
        109,
        &format!(
            "SELECT id FROM orders WHERE customer = {} AND id > 0",
            round + 1
        ),
    );
    for item in 0..5 {
        script.at(
            ms + 1,
            109,
            &format!(
                "SELECT * FROM items WHERE order_id = {}",
                round * 6 + item + 6
            ),
        );
    }
}

/// Adds a transaction whose time is the server's, not the client's.
fn add_busy_transaction(script: &mut Script, ms: u32) {
    script.at(ms, 110, "BEGIN");
    script.at(ms + 2, 110, "SELECT pg_sleep(0.09)");
    script.at(ms + 120, 110, "COMMIT");
}

/// Adds rows to the table that is scanned as a whole: hardly any.
fn add_slow_growth(script: &mut Script, ms: u32, round: u32) {
    script.at(
        ms,
        111,
        &format!(
            "INSERT INTO notes SELECT 30000 + {round} * 5 + i, 7, 7, 'x' FROM generate_series(1, 5) i"
        ),
    );
}

/// Adds rows to the queue: more is due each time, while some of it is claimed.
fn add_due_links(script: &mut Script, ms: u32, round: u32) {
    script.at(
        ms,
        112,
        &format!(
            "INSERT INTO links SELECT 5000 + {round} * 100 + i, now(), NULL FROM generate_series(1, 100) i"
        ),
    );
}

/// Adds keys of a type that is random elsewhere: these grow.
fn add_growing_keys(script: &mut Script) {
    let insert = "INSERT INTO keys VALUES (lpad($1, 32, '0')::uuid, $2)";
    for number in 0..600 {
        script.prepared(900 + number, 118, "k", insert, &[90_000 + number, number]);
    }
}

fn add_locks_within_the_fast_path(script: &mut Script) {
    script.at(200, 113, "BEGIN");
    script.at(205, 113, "SELECT count(*) FROM parts");
    script.at(210, 113, "SELECT pg_sleep(1.7)");
    script.at(2_000, 113, "COMMIT");
}

/// Adds a transaction that holds the lock of a row for about a second, and one that waits for it.
fn add_short_wait_for_a_row(script: &mut Script) {
    let update = "UPDATE orders SET customer = customer WHERE id = 1";
    script.at(1_000, 114, "BEGIN");
    script.at(1_005, 114, update);
    script.at(1_010, 114, "SELECT pg_sleep(1.1)");
    script.at(2_120, 114, "COMMIT");
    script.at(1_300, 115, update);
}

/// Adds two transactions that lock two rows in two orders, one after the other.
fn add_two_orders_one_after_the_other(script: &mut Script) {
    for (ms, session, one, other) in [(700, 116, 501, 502), (1_700, 117, 502, 501)] {
        script.at(ms, session, "BEGIN");
        for (after, id) in [(5, one), (10, other)] {
            script.at(
                ms + after,
                session,
                &format!("UPDATE orders SET customer = 1 WHERE id = {id}"),
            );
        }
        script.at(ms + 15, session, "ROLLBACK");
    }
}

#[test]
fn what_is_nearly_wrong_is_not_found_and_was_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = server();
    set_up_nearly(&endpoint);
    let queue = "SELECT count(*) FILTER (WHERE queued_at IS NULL) AS stalled, \
         count(*) FILTER (WHERE queued_at IS NOT NULL) AS queued FROM links";
    let url = endpoint.url("postgres");
    let run = replayed(directory.path(), "nearly", nearly(), &url, Some(queue));

    assert_fast_path_took_all_partitions(Path::new(&run));
    assert_every_rule_finds_nothing(&run);
    assert_lower_thresholds_find_them(&run);
}

/// Threshold for the time of a statement, which is this machine's and not what is asked.
const ANY_SPEED: [&str; 2] = ["--threshold", "misestimate-call-ms=0"];

/// Checks that the locks of all partitions were seen, and by the fast path.
fn assert_fast_path_took_all_partitions(run: &Path) {
    let locks = RunReader::open(run).unwrap().locks().unwrap();
    let most = locks.map(Result::unwrap).filter(|one| one.fast_path);
    assert!(most.map(|one| one.most).max() >= Some(12));
}

fn assert_every_rule_finds_nothing(run: &str) {
    let (_, diagnosis) = diagnosed(&[&[run], &ANY_SPEED[..]].concat());
    for rule in [
        "missing-index",
        "index-open-tax",
        "indexes",
        "keys",
        "hot-updates",
        "claims",
        "fast-path-locks",
        "lock-waits",
        "misestimates",
        "n-plus-one",
        "old-snapshots",
        "planning-dominated",
        "regex-cache",
        "sequential-scans",
        "spills",
        "starved-queue",
        "checkpoints",
        "transactions",
    ] {
        assert!(!found(&diagnosis, rule, ""), "{rule}: {diagnosis:#}");
        let all = diagnosis["rules"].as_array().unwrap();
        let one = all.iter().find(|one| one["rule"] == rule).unwrap();
        assert_eq!(one["outcome"], "well", "it was not looked at: {one}");
    }
}

/// Checks that the findings appear with other thresholds.
fn assert_lower_thresholds_find_them(run: &str) {
    let lower = [
        ("missing-index", "public.notes", "missing-index-kept=0.7"),
        ("indexes", "public.events_0_kind", "unused-index-bytes=1"),
        ("indexes", "was not used", "unused-index-writes=5"),
        ("index-open-tax", "public.events", "index-open-indexes=9"),
        ("keys", "keys_pkey", "random-key-pages=0.001"),
        ("hot-updates", "links", "hot-updates=100"),
        ("claims", "links", "claim-blocks=1"),
        ("claims", "update orders", "claim-blocks=1"),
        ("lock-waits", "update orders", "lock-wait-share=0.0001"),
        (
            "misestimates",
            "from notes where a =",
            "misestimate-factor=4",
        ),
        (
            "n-plus-one",
            "from items where order_id",
            "n-plus-one-matching=0",
        ),
        ("old-snapshots", "was open for", "old-snapshot-s=1"),
        ("planning-dominated", "sum", "planning-share=0.001"),
        ("regex-cache", "32 different", "regex-distinct=31"),
        (
            "sequential-scans",
            "public.notes grows",
            "sequential-scan-growth=30",
        ),
        ("spills", "order by note", "spill-bytes=1000"),
        ("starved-queue", "stalled grows", "queue-idle-share=0"),
        ("checkpoints", "checkpoints come", "checkpoints-requested=1"),
        ("transactions", "idle", "transaction-idle-share=0.01"),
    ];
    let mut arguments = [&[run], &ANY_SPEED[..]].concat();
    for (.., threshold) in lower {
        arguments.extend(["--threshold", threshold]);
    }
    let (_, diagnosis) = diagnosed(&arguments);
    for (rule, words, threshold) in lower {
        assert!(found(&diagnosis, rule, words), "{threshold}: {diagnosis:#}");
    }
}
