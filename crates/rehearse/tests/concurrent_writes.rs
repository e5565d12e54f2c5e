//! Sessions that use what other sessions wrote: captured by the proxy or from a log, and replayed onto a copy whose
//! sequences have other values.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use postgres::{Client, NoTls};
use run::{Outcome, RunInfo, RunReader};
use sandbox::{Endpoint, Stop};
use test_support::{CaptureProxy, connect, server};

const SCHEMA: &str = "CREATE TABLE products (id int PRIMARY KEY, stock int);
    INSERT INTO products SELECT i, 1000 FROM generate_series(1, 50) i;
    CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ref uuid DEFAULT gen_random_uuid() UNIQUE,
        customer int, payment bigint);
    CREATE TABLE items (order_id bigint REFERENCES orders, no int, product_id int REFERENCES products, pieces int,
        PRIMARY KEY (order_id, no));
    CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id bigint REFERENCES orders,
        amount int);
    CREATE TABLE accounts (name text PRIMARY KEY);
    CREATE TABLE tickets (id serial PRIMARY KEY, phone bigint)";

/// The sequences of the copy are ahead of the server's, by different numbers.
const AHEAD: &str =
    "ALTER SEQUENCE orders_id_seq RESTART 40000; ALTER SEQUENCE payments_id_seq RESTART 70";

/// State of the tables without generated values.
const STATE: &str = "SELECT string_agg(concat_ws('/', customer, items, amount), ',' ORDER BY customer, items, amount)
        || ' ' || (SELECT string_agg(stock::text, ',' ORDER BY id) FROM products)
        || ' ' || (SELECT count(*) FROM accounts)
    FROM (SELECT customer, (SELECT string_agg(product_id || 'x' || pieces, '+' ORDER BY no) FROM items
            WHERE order_id = o.id) AS items, (SELECT amount FROM payments p WHERE p.id = o.payment) AS amount
        FROM orders o) AS described";

/// Replays onto the target. Returns the run.
fn replay(workload: &Path, target: &Endpoint, options: &[&str]) -> RunReader {
    let name = options.join("").replace(['-', '/'], "");
    let run = workload.with_extension(format!("{name}.run"));
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .arg("replay")
        .arg(workload)
        .args(["--target", &target.url("postgres"), "--no-facts", "-o"])
        .arg(&run)
        .args(options)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    RunReader::open(&run).unwrap()
}

/// Returns the statements that did something else than in the capture.
fn differences(run: &RunReader) -> Vec<String> {
    let executions = run.executions().unwrap().map(Result::unwrap);
    let differing = executions.filter(|one| {
        let sqlstate = match one.outcome {
            Outcome::Failed(sqlstate) => Some(sqlstate),
            Outcome::Done => None,
            // Sessions with shared connections skip their connects and disconnects.
            Outcome::Skipped(_) => return one.is_statement(),
        };
        one.is_statement()
            && (sqlstate != one.captured.sqlstate
                || sqlstate.is_none() && one.captured.rows.is_some_and(|rows| rows != one.rows))
    });
    differing.map(|one| format!("{one:?}")).collect()
}

fn count<'i>(info: &'i RunInfo, name: &str) -> &'i str {
    info.options.get(name).map_or("", |count| count)
}

/// Captures what `work` does through a proxy.
fn capture(source: &Endpoint, workload: &Path, work: impl FnOnce(&Endpoint)) {
    let options = ["--checksum-results", "rows"];
    let proxy = CaptureProxy::start(env!("CARGO_BIN_EXE_rehearse"), source, workload, &options);
    work(&proxy.endpoint);
    proxy.interrupt();
}

fn client(endpoint: &Endpoint) -> Client {
    Client::connect(&endpoint.url("postgres"), NoTls).unwrap()
}

#[test]
fn values_of_other_sessions_and_sequences_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let (_source, source) = server().password("writes").tcp().start();
    let (_target, target) = server().password("writes").tcp().start();
    for endpoint in [&source, &target] {
        connect(endpoint).batch_execute(SCHEMA).unwrap();
    }
    connect(&target).batch_execute(AHEAD).unwrap();
    capture(&source, &workload, |proxy| {
        let (mut shop, mut worker) = (client(proxy), client(proxy));
        for n in 0..20 {
            let insert = "INSERT INTO orders (customer) VALUES ($1) RETURNING id, ref::text AS ref";
            let order = shop.query_one(insert, &[&n]).unwrap();
            let (id, token): (i64, String) = (order.get(0), order.get(1));
            let pay = "INSERT INTO payments (order_id, amount) VALUES ($1, $2) RETURNING id";
            let payment: i64 = worker.query_one(pay, &[&id, &n]).unwrap().get(0);
            let update = "UPDATE orders SET payment = $1 WHERE ref = $2::text::uuid";
            assert_eq!(worker.execute(update, &[&payment, &token]).unwrap(), 1);
            // A literal.
            let product = n % 5 + 1;
            let named = format!(
                "INSERT INTO items (order_id, no, product_id, pieces) VALUES ({id}, 2, {product}, 1)"
            );
            shop.batch_execute(&named).unwrap();
            // Several rows of one result.
            let two = "INSERT INTO orders (customer) VALUES ($1), ($2) RETURNING id";
            let ids = shop.query(two, &[&(n + 100), &(n + 200)]).unwrap();
            let second: i64 = ids[1].get(0);
            let cancel = "UPDATE orders SET customer = -n.c FROM (SELECT 200 AS c) n WHERE id = $1";
            assert_eq!(worker.execute(cancel, &[&second]).unwrap(), 1);
            let remove = format!("DELETE FROM items WHERE order_id = {id} AND no = 2; {named}");
            assert!(shop.batch_execute(&remove).is_ok());
        }
        // A snapshot of one session in another.
        let mut exporter = shop.transaction().unwrap();
        let snapshot: String = exporter
            .query_one("SELECT pg_export_snapshot()", &[])
            .unwrap()
            .get(0);
        worker
            .batch_execute(&format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{snapshot}'; SELECT count(*) FROM orders; COMMIT"
            ))
            .unwrap();
        exporter
            .execute("DELETE FROM orders WHERE customer = -1", &[])
            .unwrap();
        exporter.commit().unwrap();
    });
    let run = replay(&workload, &target, &["--order", "dependencies"]);
    let differences = differences(&run);
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(count(run.info(), "generated_unknown"), "0");
    let paid =
        "SELECT count(*) FROM orders o JOIN payments p ON p.id = o.payment AND p.order_id = o.id";
    let paid: i64 = connect(&target).query_one(paid, &[]).unwrap().get(0);
    assert_eq!(paid, 20);
    let cancelled = "SELECT count(*) FILTER (WHERE customer = -200), count(*) FILTER (WHERE customer BETWEEN 100 AND 199)
        FROM orders";
    let cancelled = connect(&target).query_one(cancelled, &[]).unwrap();
    assert_eq!(
        (cancelled.get::<_, i64>(0), cancelled.get::<_, i64>(1)),
        (20, 20)
    );
}

#[test]
fn generated_values_in_arrays_and_documents_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let (_source, source) = server().password("writes").tcp().start();
    let (_target, target) = server().password("writes").tcp().start();
    for endpoint in [&source, &target] {
        let log = "CREATE TABLE log (entry jsonb)";
        connect(endpoint).batch_execute(SCHEMA).unwrap();
        connect(endpoint).batch_execute(log).unwrap();
    }
    connect(&target).batch_execute(AHEAD).unwrap();
    capture(&source, &workload, |proxy| {
        let (mut shop, mut worker) = (client(proxy), client(proxy));
        for n in 0..20 {
            let insert =
                "INSERT INTO orders (customer) VALUES ($1), ($1) RETURNING id, ref::text AS ref";
            let rows = shop.query(insert, &[&n]).unwrap();
            let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
            let refs: Vec<String> = rows.iter().map(|row| row.get(1)).collect();
            let by_id = "UPDATE orders SET customer = customer + 100 WHERE id = ANY($1)";
            assert_eq!(worker.execute(by_id, &[&ids]).unwrap(), 2);
            let by_ref =
                "UPDATE orders SET customer = customer + 1000 WHERE ref = ANY($1::text[]::uuid[])";
            assert_eq!(worker.execute(by_ref, &[&refs]).unwrap(), 2);
            // A number that is equal by chance stays as it is.
            let entry = format!(
                r#"{{"order_id": {}, "pieces": {}, "ref": "{}"}}"#,
                ids[1], ids[1], refs[1]
            );
            let log = "INSERT INTO log (entry) VALUES ($1::text::jsonb)";
            worker.execute(log, &[&entry]).unwrap();
        }
    });
    let run = replay(&workload, &target, &["--order", "dependencies"]);
    let differences = differences(&run);
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(count(run.info(), "generated_unknown"), "0");
    let counted = |sql: &str| -> Vec<i64> {
        let row = connect(&target).query_one(sql, &[]).unwrap();
        (0..row.len()).map(|column| row.get(column)).collect()
    };
    let changed = "SELECT count(*) FILTER (WHERE customer BETWEEN 1100 AND 1119) FROM orders";
    assert_eq!(counted(changed), [40]);
    let logged = "SELECT count(*), count(*) FILTER (WHERE o.ref::text = entry ->> 'ref'),
            count(*) FILTER (WHERE (entry ->> 'pieces')::bigint < 100)
        FROM log JOIN orders o ON o.id = (entry ->> 'order_id')::bigint";
    assert_eq!(counted(logged), [20, 20, 20]);
}

/// One of several workers of a shop, which leave orders for one another.
fn work(proxy: &Endpoint, worker: u64, tasks: &AtomicI64, orders: &Mutex<VecDeque<(i64, String)>>) {
    let mut client = client(proxy);
    let mut random = 88_172_645_463_325_252 ^ (worker << 32);
    let mut below = move |limit: i32| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) as i32 % limit
    };
    while tasks.fetch_sub(1, Ordering::Relaxed) > 1 {
        let taken = match below(3) {
            0 => orders.lock().unwrap().pop_front(),
            _ => None,
        };
        if let Some((id, token)) = taken {
            let mut transaction = client.transaction().unwrap();
            let find = "SELECT id, customer FROM orders WHERE ref = $1::text::uuid FOR UPDATE";
            assert_eq!(transaction.query(find, &[&token]).unwrap().len(), 1);
            let pay = "INSERT INTO payments (order_id, amount) VALUES ($1, $2) RETURNING id";
            let payment: i64 = transaction
                .query_one(pay, &[&id, &below(900)])
                .unwrap()
                .get(0);
            let update = "UPDATE orders SET payment = $1 WHERE id = $2";
            assert_eq!(transaction.execute(update, &[&payment, &id]).unwrap(), 1);
            transaction.commit().unwrap();
        } else if below(4) == 0 {
            let name = format!("n{}", below(60));
            // It exists, or not.
            let _ = client.execute("INSERT INTO accounts VALUES ($1)", &[&name]);
        } else {
            let mut transaction = client.transaction().unwrap();
            let insert = "INSERT INTO orders (customer) VALUES ($1) RETURNING id, ref::text AS ref";
            let order = transaction.query_one(insert, &[&below(30)]).unwrap();
            let (id, token): (i64, String) = (order.get(0), order.get(1));
            let first = below(4) + 1;
            for no in 0..3 {
                let item =
                    "INSERT INTO items (order_id, no, product_id, pieces) VALUES ($1, $2, $3, $4)";
                let product = first + no;
                transaction
                    .execute(item, &[&id, &no, &product, &(below(5) + 1)])
                    .unwrap();
                let take = "UPDATE products SET stock = stock - 1 WHERE id = $1";
                transaction.execute(take, &[&product]).unwrap();
            }
            transaction.commit().unwrap();
            orders.lock().unwrap().push_back((id, token));
        }
    }
}

/// Lets eight workers do 600 tasks.
fn work_at_once(endpoint: &Endpoint) {
    let (tasks, orders) = (AtomicI64::new(600), Mutex::default());
    std::thread::scope(|scope| {
        for worker in 1..=8 {
            let (tasks, orders) = (&tasks, &orders);
            scope.spawn(move || work(endpoint, worker, tasks, orders));
        }
    });
}

#[test]
fn concurrent_writes_are_replayed_as_they_were() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let (_source, source) = server().password("writes").tcp().start();
    connect(&source).batch_execute(SCHEMA).unwrap();
    capture(&source, &workload, work_at_once);
    let expected: String = connect(&source).query_one(STATE, &[]).unwrap().get(0);
    for options in [
        &["--order", "dependencies"][..],
        &["--order", "dependencies", "--speed", "max"],
    ] {
        let (_target, target) = server().password("writes").tcp().start();
        connect(&target).batch_execute(SCHEMA).unwrap();
        connect(&target).batch_execute(AHEAD).unwrap();
        let run = replay(&workload, &target, options);
        let differences = differences(&run);
        assert!(differences.is_empty(), "{options:?}: {differences:#?}");
        assert_eq!(count(run.info(), "generated_unknown"), "0");
        assert_ne!(count(run.info(), "remapped"), "0");
        let found: String = connect(&target).query_one(STATE, &[]).unwrap().get(0);
        assert_eq!(found, expected, "{options:?}");
    }
}

/// Two halves of work with a pause of four seconds between them. A transaction is open in the pause, and the second half
/// uses what the first half and the transaction made.
fn work_with_a_pause(proxy: &Endpoint) {
    let orders = Mutex::default();
    let half = || {
        let tasks = AtomicI64::new(200);
        std::thread::scope(|scope| {
            for worker in 1..=4 {
                let (tasks, orders) = (&tasks, &orders);
                scope.spawn(move || work(proxy, worker, tasks, orders));
            }
        });
    };
    let mut keeper = client(proxy);
    let own: i64 = keeper
        .query_one(
            "INSERT INTO orders (customer) VALUES (-1) RETURNING id",
            &[],
        )
        .unwrap()
        .get(0);
    half();
    let mut transaction = keeper.transaction().unwrap();
    let insert = "INSERT INTO orders (customer) VALUES (-2) RETURNING id, ref::text AS ref";
    let order = transaction.query_one(insert, &[]).unwrap();
    let (id, token): (i64, String) = (order.get(0), order.get(1));
    client(proxy).batch_execute(PAUSE).unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let item = "INSERT INTO items (order_id, no, product_id, pieces) VALUES ($1, 1, 1, 1)";
    assert_eq!(transaction.execute(item, &[&id]).unwrap(), 1);
    assert_eq!(transaction.execute(item, &[&own]).unwrap(), 1);
    transaction.commit().unwrap();
    orders.lock().unwrap().push_front((id, token));
    half();
}

/// Marks the pause.
const PAUSE: &str = "INSERT INTO accounts VALUES ('pause')";

#[test]
fn killed_replay_is_resumed_with_the_values_that_it_generated() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let (_source, source) = server().password("writes").tcp().start();
    connect(&source).batch_execute(SCHEMA).unwrap();
    capture(&source, &workload, work_with_a_pause);
    let expected: String = connect(&source).query_one(STATE, &[]).unwrap().get(0);
    let options = &["--order", "dependencies"][..];
    let (_target, target) = server().password("writes").tcp().start();
    connect(&target).batch_execute(SCHEMA).unwrap();
    connect(&target).batch_execute(AHEAD).unwrap();
    let killed = directory.path().join("killed.run");
    let mut child = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .arg("replay")
        .arg(&workload)
        .args(["--target", &target.url("postgres"), "--no-facts"])
        .args(["--checkpoint", "50ms", "-o"])
        .arg(&killed)
        .args(options)
        .spawn()
        .unwrap();
    let mut observer = connect(&target);
    let is_paused = "SELECT FROM accounts WHERE name = 'pause'";
    while observer.query(is_paused, &[]).unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Everything that is done reaches the disk.
    std::thread::sleep(Duration::from_secs(2));
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = killed.to_str().unwrap();
    let resuming = [options, &["--resume", killed]].concat();
    let run = replay(&workload, &target, &resuming);
    assert!(run.info().options.contains_key("resumed"));
    let differences = differences(&run);
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(count(run.info(), "generated_unknown"), "0");
    let found: String = observer.query_one(STATE, &[]).unwrap().get(0);
    assert_eq!(found, expected);
}

#[test]
fn sessions_that_share_connections_follow_values_and_dependencies() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let (_source, source) = server().password("writes").tcp().start();
    connect(&source).batch_execute(SCHEMA).unwrap();
    capture(&source, &workload, |proxy| {
        // One transaction is open at once.
        let mut clients: Vec<Client> = (0..6).map(|_| client(proxy)).collect();
        for n in 0..30_usize {
            let (buyer, cashier) = (n % 6, (n + 1) % 6);
            let mut open = clients[buyer].transaction().unwrap();
            let insert = "INSERT INTO orders (customer) VALUES ($1) RETURNING id, ref::text AS ref";
            let order = open.query_one(insert, &[&(n as i32)]).unwrap();
            let (id, token): (i64, String) = (order.get(0), order.get(1));
            open.commit().unwrap();
            let pay = "INSERT INTO payments (order_id, amount) VALUES ($1, 5) RETURNING id";
            let mut open = clients[cashier].transaction().unwrap();
            let payment: i64 = open.query_one(pay, &[&id]).unwrap().get(0);
            let ids = vec![payment];
            let raise = "UPDATE payments SET amount = 6 WHERE id = ANY ($1)";
            assert_eq!(open.execute(raise, &[&ids]).unwrap(), 1);
            open.commit().unwrap();
            let update = "UPDATE orders SET payment = $1 WHERE ref = $2::text::uuid";
            let payer = &mut clients[cashier];
            assert_eq!(payer.execute(update, &[&payment, &token]).unwrap(), 1);
        }
    });
    let expected: String = connect(&source).query_one(STATE, &[]).unwrap().get(0);
    // When the machine stalls the replay, more transactions are due than there are connections, and statements are
    // let go before what they depend on.
    let is_exact = (0..4).any(|_| replay_on_two_connections(&workload, &expected));
    assert!(is_exact, "the machine stalled each of four replays");
}

/// Replays on a server of its own. Returns whether all statements waited for what they depend on; then they did what
/// the capture did.
fn replay_on_two_connections(workload: &Path, expected: &str) -> bool {
    let (_target, target) = server().password("writes").tcp().start();
    connect(&target).batch_execute(SCHEMA).unwrap();
    connect(&target).batch_execute(AHEAD).unwrap();
    let options = ["--order", "dependencies", "--max-connections", "2"];
    let run = replay(workload, &target, &options);
    if count(run.info(), "let_go_before_dependencies") != "0" {
        let name = format!("{}.run", options.concat().replace('-', ""));
        std::fs::remove_dir_all(workload.with_extension(name)).unwrap();
        return false;
    }
    let differences = differences(&run);
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(count(run.info(), "generated_unknown"), "0");
    assert_ne!(count(run.info(), "connections_handed_over"), "");
    let found: String = connect(&target).query_one(STATE, &[]).unwrap().get(0);
    assert_eq!(found, expected);
    true
}

/// Settings that log all statements with their durations, in a file of the data directory.
const LOGGING: [(&str, &str); 8] = [
    ("logging_collector", "on"),
    ("log_line_prefix", "%m [%p] %c %l %e %q%r "),
    ("log_min_duration_statement", "0"),
    ("log_connections", "on"),
    ("log_disconnections", "on"),
    ("log_parameter_max_length_on_error", "-1"),
    ("log_directory", "log"),
    ("log_filename", "server.log"),
];

/// Captures what `work` does at a server that has the tables from its log, and returns the state of the tables. `extension`
/// is that of the log's file.
fn capture_log(
    destination: &str,
    extension: &str,
    workload: &Path,
    work: impl FnOnce(&Endpoint),
) -> String {
    let mut server = server().password("writes").create();
    connect(&server.start().unwrap())
        .batch_execute(SCHEMA)
        .unwrap();
    server.stop(Stop::Fast).unwrap();
    let settings = LOGGING
        .into_iter()
        .chain([("log_destination", destination)]);
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    server.set(settings.collect()).unwrap();
    work(&server.start().unwrap());
    server.stop(Stop::Fast).unwrap();
    let log = server
        .data_dir()
        .join("log/server")
        .with_extension(extension);
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(["capture", "log"])
        .arg(log)
        .arg("-o")
        .arg(workload)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    connect(&server.start().unwrap())
        .query_one(STATE, &[])
        .unwrap()
        .get(0)
}

fn number(info: &RunInfo, name: &str) -> u64 {
    count(info, name).parse().unwrap()
}

#[test]
fn concurrent_writes_of_a_log_are_replayed_with_inferred_values() {
    for (destination, extension) in [("csvlog", "csv"), ("stderr", "log")] {
        let directory = tempfile::tempdir().unwrap();
        let workload = directory.path().join("a.workload");
        let expected = capture_log(destination, extension, &workload, work_at_once);
        let (_target, target) = server().password("writes").start();
        connect(&target).batch_execute(SCHEMA).unwrap();
        connect(&target).batch_execute(AHEAD).unwrap();
        // No order is asked for.
        let run = replay(&workload, &target, &[]);
        let info = run.info();
        assert_eq!(count(info, "order"), "dependencies");
        // Statements at the same time may have exchanged the values that are inferred by their order. UUIDs that are not
        // known are sent as captured. What uses either may fail.
        let wrong = differences(&run);
        let statements = info.workload.statements;
        assert!(
            wrong.len() as u64 * 100 <= statements,
            "{destination}: {wrong:#?}"
        );
        let (inferred, ambiguous) = (
            number(info, "generated_inferred"),
            number(info, "generated_ambiguous"),
        );
        assert!(
            inferred > 100 && ambiguous * 50 <= inferred,
            "{inferred}, {ambiguous} not"
        );
        // Exchanged values may be seen in the tables alone.
        let by_order = number(info, "generated_by_order");
        if wrong.is_empty() && ambiguous == 0 && by_order == 0 {
            let found: String = connect(&target).query_one(STATE, &[]).unwrap().get(0);
            assert_eq!(found, expected, "{destination}");
        }
    }
}

#[test]
fn small_numbers_of_a_log_that_are_equal_by_chance_stay_as_they_were() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    capture_log("csvlog", "csv", &workload, |endpoint| {
        let (mut shop, mut worker) = (client(endpoint), client(endpoint));
        for n in 0..20 {
            let insert = "INSERT INTO orders (customer) VALUES ($1) RETURNING id";
            let id: i64 = shop.query_one(insert, &[&(3 * n)]).unwrap().get(0);
            // Products have the number of the order, and pieces and amounts that of another one.
            let item =
                "INSERT INTO items (order_id, no, product_id, pieces) VALUES ($1, 1, $2, $3)";
            let number = id as i32;
            shop.execute(item, &[&id, &number, &(n % 7 + 1)]).unwrap();
            let pay = "INSERT INTO payments (order_id, amount) VALUES ($1, $2)";
            worker.execute(pay, &[&id, &(20 - n)]).unwrap();
        }
    });
    let (_target, target) = server().password("writes").start();
    connect(&target).batch_execute(SCHEMA).unwrap();
    connect(&target).batch_execute(AHEAD).unwrap();
    let run = replay(&workload, &target, &[]);
    let differences = differences(&run);
    assert!(differences.is_empty(), "{differences:#?}");
    let right = "SELECT count(*) FROM orders o JOIN items i ON i.order_id = o.id JOIN payments p ON p.order_id = o.id
        WHERE o.id >= 40000 AND i.product_id = o.customer / 3 + 1 AND i.pieces = o.customer / 3 % 7 + 1
            AND p.amount = 20 - o.customer / 3";
    let right: i64 = connect(&target).query_one(right, &[]).unwrap().get(0);
    assert_eq!(right, 20);
}

#[test]
fn numbers_of_a_log_that_exceed_the_type_of_a_key_do_not_prevent_inference() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    capture_log("csvlog", "csv", &workload, |endpoint| {
        let mut client = client(endpoint);
        // The state of the tables has an order.
        let order = "INSERT INTO orders (customer) VALUES (1)";
        client.batch_execute(order).unwrap();
        for n in 0..10 {
            let insert = "INSERT INTO tickets (phone) VALUES (NULL) RETURNING id";
            let id: i32 = client.query_one(insert, &[]).unwrap().get(0);
            let update = "UPDATE tickets SET phone = $1 WHERE id = $2";
            let phone = 4_915_100_000_000_i64 + n;
            client.execute(update, &[&phone, &id]).unwrap();
        }
    });
    let (_target, target) = server().password("writes").start();
    connect(&target).batch_execute(SCHEMA).unwrap();
    let ahead = "ALTER SEQUENCE tickets_id_seq RESTART 500";
    connect(&target).batch_execute(ahead).unwrap();
    let run = replay(&workload, &target, &["--order", "dependencies"]);
    assert_eq!(count(run.info(), "generated_inferred"), "10");
    assert_eq!(count(run.info(), "generated_ambiguous"), "0");
    let right = "SELECT count(*) FROM tickets WHERE phone - 4915100000000 = id - 500";
    let right: i64 = connect(&target).query_one(right, &[]).unwrap().get(0);
    assert_eq!(right, 10);
}

#[test]
fn generated_columns_that_the_role_may_not_read_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    capture_log("csvlog", "csv", &workload, |endpoint| {
        let insert = "INSERT INTO orders (customer) VALUES (1) RETURNING id";
        client(endpoint).query_one(insert, &[]).unwrap();
    });
    let (_target, target) = server().password("writes").start();
    let mut owner = connect(&target);
    owner.batch_execute(SCHEMA).unwrap();
    let setup = "CREATE ROLE reader LOGIN PASSWORD 'writes'; GRANT ALL ON ALL TABLES IN SCHEMA public TO reader;
        GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO reader; REVOKE SELECT ON pg_catalog.pg_sequence FROM public";
    owner.batch_execute(setup).unwrap();
    let options = ["--order", "dependencies", "--as-user", "reader"];
    let run = replay(&workload, &target, &options);
    let unknown = count(run.info(), "generated_columns_unknown");
    assert!(
        unknown.contains("permission denied for table pg_sequence"),
        "{unknown}"
    );
    assert_eq!(run.info().options.get("keys_unknown"), None);
    assert_eq!(count(run.info(), "generated_inferred"), "0");
}
