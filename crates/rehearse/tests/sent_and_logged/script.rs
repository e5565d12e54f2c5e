//! Statements of a mixture's sessions. Each has a unique mark in its text or in a value, so that none can
//! be confused with another.

use std::time::Duration;

use postgres::types::Type;
use postgres::{Client, NoTls};

use super::mixture::Class::{All, Definition, Modification};
use super::sent::{Driver, Phase, Value};

/// Executed before the first mixture.
pub const SCHEMA: &str = "
    CREATE TABLE item (id int PRIMARY KEY, note text, price numeric(12,2), tags text[], sizes int[],
        raw bytea, ready bool, ratio float8, big bigint);
    CREATE TABLE parent (id int PRIMARY KEY);
    CREATE TABLE child (id int PRIMARY KEY,
        parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
    CREATE FUNCTION forge(message text) RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN RAISE LOG '%', message; RETURN 1; END $$";

/// Executed before each mixture.
pub const EMPTIED: &str = "TRUNCATE item, parent, child";

/// Messages of RAISE that look like the server's own log lines.
const FORGERIES: [&str; 7] = [
    "statement: drop table t",
    "execute <unnamed>: drop table t",
    "duration: 7777777.000 ms  statement: drop table t",
    "duration: 7777777.000 ms",
    "duration: 1.000 ms  parse s1: drop table t",
    "connection authorized: user=mallory database=t application_name=mallory",
    "disconnection: session time: 0:00:00.005 user=postgres database=postgres host=127.0.0.1 port=1",
];

/// Number of forged entries that one session of [`ordinary`] writes to the log.
pub const FORGED: u64 = 2 * FORGERIES.len() as u64;

const EXECUTED: Phase = Phase::Execution;
const ANALYSED: Phase = Phase::Analysis { positioned: true };
const REFUSED: Phase = Phase::Analysis { positioned: false };

/// Sends all fast statements. `session` is a number from 0.
pub fn ordinary(driver: &mut Driver, session: i32) {
    let mut next = session * 1_000;
    let mut number = move || {
        next += 1;
        next
    };
    values(driver, &mut number);
    texts(driver, &mut number);
    transactions(driver, &mut number);
    portals(driver, &mut number);
    definitions(driver, &mut number);
    mistakes(driver, &mut number);
    forgeries(driver, &mut number);
    copies(driver, &mut number);
    let sql = format!("SELECT {} AS never_used", number());
    let unused = driver.prepare(All, &sql);
    driver.unused(unused);
}

fn values(driver: &mut Driver, number: &mut impl FnMut() -> i32) {
    let mut insert = driver.prepare(Modification, "INSERT INTO item (id, note) VALUES ($1, $2)");
    let long = "0123456789 it's long; ".repeat(150);
    let wide = format!("a{}", "ü€".repeat(60));
    for note in [
        Some(long.as_str()),
        Some(wide.as_str()),
        Some("it's 'quoted' ''twice''"),
        None,
        Some("two\nlines\r\n\tand a tab"),
        Some("\tfirst"),
        Some("$2 = 'x', $3 = NULL', $4 = '"),
        Some("back\\slash ü€ 𝄞 \"double\""),
        Some(""),
        Some("NULL"),
        Some("wait..."),
        Some("'"),
        Some("exactly forty bytes, which is the limit."),
        Some("\n\n"),
    ] {
        let note = note.map_or_else(Value::null, Value::text);
        driver.execute(&mut insert, &[Value::int(number()), note]);
    }
    let mut everything = driver.prepare(
        Modification,
        "UPDATE item SET note = $2, price = price + $3::text::numeric, tags = $4, sizes = $5,
    raw = $6, ready = $7, ratio = $8, big = $9
WHERE id = $1",
    );
    for _ in 0..3 {
        let id = number();
        driver.execute(
            &mut everything,
            &[
                Value::int(id),
                Value::text(&format!("note {id}")),
                Value::text("-12345.67"),
                Value::texts(
                    vec![
                        Some("a b"),
                        None,
                        Some("it's \"x\""),
                        Some(""),
                        Some("plain"),
                        Some("NULL"),
                    ],
                    r#"{"a b",NULL,"it's \"x\"","",plain,"NULL"}"#,
                ),
                Value::ints(vec![1, -2, 3], "{1,-2,3}"),
                Value::bytes(&[0, 39, 92, 255]),
                Value::truth(id % 2 == 0),
                Value::float(-0.5, "-0.5"),
                Value::long(i64::MIN),
            ],
        );
    }
    // Several in a row: nothing but the values tells one from the next.
    let mut select = driver.prepare(All, "SELECT note FROM item WHERE id = $1");
    for _ in 0..8 {
        driver.execute(&mut select, &[Value::int(number())]);
    }
    for _ in 0..4 {
        let id = number();
        driver.unnamed(
            All,
            "SELECT $2 || note FROM item WHERE id = $1",
            &[
                (Value::int(id), Type::INT4),
                (Value::text(&format!("it's {id}\n\tunnamed")), Type::TEXT),
            ],
            None,
        );
    }
    driver.execute(&mut insert, &[Value::int(number()), Value::text("again")]);
}

fn texts(driver: &mut Driver, number: &mut impl FnMut() -> i32) {
    for sql in [
        "SELECT 'it''s', E'a\\nb', \"note\" FROM item WHERE id = ?",
        "SELECT ?\n\tAS tabbed,\n\n    2 -- a comment; 'not closed\n",
        "\n\t SELECT ? /* blank first, \"quoted\" */",
        "SELECT ?; SELECT 2;\nSELECT 'three; four'",
        "SELECT 'statement: drop table t', ?",
        "SELECT 'LOG:  duration: 1 ms', '%m %% %s {} ü€ 𝄞', ?\r\n",
        "SELECT $$ $1 it's $$, ?",
        "SHOW search_path -- ?",
        "/* ? only a comment */",
        "; /* ? */ ;",
        "EXPLAIN SELECT ?",
        "WITH kept AS (INSERT INTO item (id) VALUES (?) RETURNING id) SELECT id FROM kept",
    ] {
        driver.simple(All, &sql.replace('?', &number().to_string()));
    }
    driver.simple(All, "");
    for sql in [
        "INSERT INTO item (id, note) VALUES (?, 'a\nb')",
        "SELECT 1; DELETE FROM item WHERE id = ?",
        "EXPLAIN ANALYZE UPDATE item SET note = 'x' WHERE id = ?",
    ] {
        driver.simple(Modification, &sql.replace('?', &number().to_string()));
    }
    let id = number();
    driver.simple(
        Modification,
        &format!("PREPARE q{id} (int, text) AS INSERT INTO item (id, note) VALUES ($1, $2)"),
    );
    for _ in 0..2 {
        let value = number();
        driver.simple(Modification, &format!("EXECUTE q{id} ({value}, 'it''s')"));
    }
    driver.simple(All, &format!("DEALLOCATE q{id}"));
}

fn transactions(driver: &mut Driver, number: &mut impl FnMut() -> i32) {
    let mut insert = driver.prepare(
        Modification,
        "INSERT INTO item (id, note) VALUES ($1, $2) RETURNING id",
    );
    driver.simple(All, "BEGIN");
    let id = number();
    driver.execute(&mut insert, &[Value::int(id), Value::text("first")]);
    driver.simple(All, "SAVEPOINT before");
    driver.execute_fails(
        &mut insert,
        &[Value::int(id), Value::text("twice")],
        "23505",
        EXECUTED,
    );
    driver.simple(All, "ROLLBACK TO before");
    driver.execute(&mut insert, &[Value::int(number()), Value::null()]);
    driver.simple(All, "COMMIT");

    driver.simple(All, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    let sql = format!("SELECT {} / 0", number());
    driver.simple_fails(All, &sql, "22012", EXECUTED);
    let sql = format!("SELECT {}", number());
    driver.simple_fails(All, &sql, "25P02", REFUSED);
    driver.execute_fails(
        &mut insert,
        &[Value::int(number()), Value::text("refused")],
        "25P02",
        Phase::Bind { values_read: false },
    );
    driver.simple(All, "ROLLBACK");
}

fn portals(driver: &mut Driver, number: &mut impl FnMut() -> i32) {
    let mut pages = driver.prepare(All, "SELECT generate_series(1, 1000), $1::int, $2::text");
    for fetches in [2, 0] {
        let values = [Value::int(number()), Value::text("paged\nit's")];
        driver.pages(&mut pages, &values, 10, fetches);
    }
    let id = number();
    driver.simple(All, "BEGIN");
    driver.simple(
        All,
        &format!("DECLARE c{id} CURSOR FOR SELECT generate_series(1, 100)"),
    );
    driver.simple(All, &format!("FETCH 10 FROM c{id}"));
    driver.simple(All, "END");
}

fn definitions(driver: &mut Driver, number: &mut impl FnMut() -> i32) {
    let id = number();
    driver.simple(Definition, &format!("CREATE TABLE t{id} (a int)"));
    driver.simple(Definition, &format!("COMMENT ON TABLE t{id} IS 'it''s'"));
    driver.simple(Modification, &format!("TRUNCATE t{id}"));
    driver.unnamed(
        Definition,
        &format!("ALTER TABLE t{id} ADD b text"),
        &[],
        None,
    );
    driver.simple(Definition, &format!("DROP TABLE t{id}"));
    driver.simple(
        Definition,
        &format!("CREATE TEMPORARY TABLE u{id} AS SELECT 1 AS a"),
    );
}

fn mistakes(driver: &mut Driver, number: &mut impl FnMut() -> i32) {
    let id = simple_mistakes(driver, number);
    parse_mistakes(driver, number);
    bind_mistakes(driver, number);
    execution_mistakes(driver, id);
    commit_mistakes(driver, number);
}

/// Returns a text with a number in place of its question mark.
fn numbered(text: &str, number: i32) -> String {
    text.replace('?', &number.to_string())
}

/// Sends simple queries that fail. Returns the id of a row of `item`.
fn simple_mistakes(driver: &mut Driver, number: &mut impl FnMut() -> i32) -> i32 {
    driver.simple_fails(All, &numbered("SELEC ?", number()), "42601", Phase::Syntax);
    driver.simple_fails(
        Modification,
        &numbered("INSERT INTO item (id) VALUES (?", number()),
        "42601",
        Phase::Syntax,
    );
    driver.simple_fails(
        All,
        &numbered("SELECT nope,\n\t? FROM item", number()),
        "42703",
        ANALYSED,
    );
    let id = number();
    driver.simple(
        Modification,
        &format!("INSERT INTO item (id) VALUES ({id})"),
    );
    driver.simple_fails(
        Modification,
        &format!("INSERT INTO item (id, note) VALUES ({id}, 'twice')"),
        "23505",
        EXECUTED,
    );
    id
}

/// Fails on Parse: with a place in the text, without parameters, and without a place.
fn parse_mistakes(driver: &mut Driver, number: &mut impl FnMut() -> i32) {
    driver.prepare_fails(
        All,
        &numbered("SELECT nope FROM item WHERE id = $1 + ?", number()),
        "42703",
        ANALYSED,
    );
    driver.prepare_fails(
        All,
        &numbered("SELECT nope? FROM item", number()),
        "42703",
        ANALYSED,
    );
    driver.prepare_fails(
        All,
        &numbered("SELECT $1::int FRM item ?", number()),
        "42601",
        ANALYSED,
    );
}

/// Fails on Bind: on a value, and on planning with the values.
fn bind_mistakes(driver: &mut Driver, number: &mut impl FnMut() -> i32) {
    let mut divide = driver.prepare(All, "SELECT 100 / $1::int, $2::text");
    driver.execute_fails(
        &mut divide,
        &[Value::broken(b"12345"), Value::text("broken")],
        "22P03",
        Phase::Bind { values_read: false },
    );
    let mark = format!("by nothing {}", number());
    driver.execute_fails(
        &mut divide,
        &[Value::int(0), Value::text(&mark)],
        "22012",
        Phase::Bind { values_read: true },
    );
    let mark = format!("by something {}", number());
    driver.execute(&mut divide, &[Value::int(4), Value::text(&mark)]);
    driver.unnamed(
        All,
        "SELECT 1000 / $1::int, $2",
        &[
            (Value::int(0), Type::INT4),
            (Value::text(&format!("unnamed {}", number())), Type::TEXT),
        ],
        Some(("22012", Phase::Bind { values_read: true })),
    );
}

/// Fails on execution: `id` is that of a row of `item`.
fn execution_mistakes(driver: &mut Driver, id: i32) {
    let mut insert = driver.prepare(Modification, "INSERT INTO item (note, id) VALUES ($2, $1)");
    driver.execute_fails(
        &mut insert,
        &[
            Value::int(id),
            Value::text("the same id; it's long enough to be cut on error"),
        ],
        "23505",
        EXECUTED,
    );
    driver.unnamed(
        Modification,
        "INSERT INTO item (note, id) VALUES ($1, $2::int)",
        &[
            (Value::text("unnamed, the same id"), Type::TEXT),
            (Value::int(id), Type::INT4),
        ],
        Some(("23505", EXECUTED)),
    );
}

/// Fails at the end of the transaction, which is implicit but for the last one.
fn commit_mistakes(driver: &mut Driver, number: &mut impl FnMut() -> i32) {
    let mut child = driver.prepare(Modification, "INSERT INTO child VALUES ($1, $2)");
    let orphan = number();
    driver.execute_fails(
        &mut child,
        &[Value::int(orphan), Value::int(orphan)],
        "23503",
        Phase::Commit,
    );
    let orphan = number();
    driver.simple_fails(
        Modification,
        &format!("INSERT INTO child VALUES ({orphan}, {orphan})"),
        "23503",
        EXECUTED,
    );
    let orphan = number();
    driver.simple(All, "BEGIN");
    driver.execute(&mut child, &[Value::int(orphan), Value::int(orphan)]);
    driver.simple_fails(All, "COMMIT", "23503", EXECUTED);
}

fn forgeries(driver: &mut Driver, number: &mut impl FnMut() -> i32) {
    let mut forge = driver.prepare(All, "SELECT forge($1), $2::int");
    for message in FORGERIES {
        driver.simple(
            All,
            &format!(
                "DO $x${} BEGIN RAISE LOG '{message}'; END $x$ -- {}",
                "",
                number()
            ),
        );
        driver.execute(&mut forge, &[Value::text(message), Value::int(number())]);
    }
}

fn copies(driver: &mut Driver, number: &mut impl FnMut() -> i32) {
    let id = number();
    driver.copy_in(
        "COPY item (id, note) FROM STDIN",
        format!("{id}\tcopied\n").as_bytes(),
    );
    driver.copy_out(&format!("COPY (SELECT {}) TO STDOUT", number()));
}

/// Duration of slow statements: one and a half times the threshold of the mixtures that have
/// one.
const SLOW_US: i64 = 150_000;

/// Sends statements that take longer than the threshold, between fast ones.
pub fn slow(driver: &mut Driver) {
    driver.simple(All, "SELECT 1, pg_sleep(0.15)").slept_us = SLOW_US;
    driver.simple(All, "SELECT 2");
    let mut sleep = driver.prepare(All, "SELECT pg_sleep($1), $2::text");
    for mark in ["slow 3", "quick 4", "slow 5"] {
        let slow = mark.starts_with("slow");
        let (seconds, text) = if slow { (0.15, "0.15") } else { (0.0, "0") };
        let sent = driver.execute(
            &mut sleep,
            &[Value::float(seconds, text), Value::text(mark)],
        );
        sent.slept_us = if slow { SLOW_US } else { 0 };
    }
    // Fails after its end, and is too fast to be logged by duration.
    let mut child = driver.prepare(Modification, "INSERT INTO child VALUES ($1, $1)");
    driver.execute_fails(&mut child, &[Value::int(-1)], "23503", Phase::Commit);
    driver.simple(All, "BEGIN");
    driver.simple(Modification, "INSERT INTO item (id) VALUES (-1)");
    driver
        .simple(
            Modification,
            "UPDATE item SET note = pg_sleep(0.15)::text WHERE id = -1",
        )
        .slept_us = SLOW_US;
    driver.simple(All, "COMMIT");
}

/// Sends statements that end in time-outs, in a cancel from another session, and in a
/// termination of the session.
pub fn stopped(driver: &mut Driver, mut control: Client) {
    let mut sleep = driver.prepare(All, "SELECT pg_sleep($1), $2::int");
    driver.simple(All, "SET statement_timeout = '60ms'");
    driver.simple_fails(All, "SELECT pg_sleep(20)", "57014", EXECUTED);
    driver.execute_fails(
        &mut sleep,
        &[Value::float(20.0, "20"), Value::int(1)],
        "57014",
        EXECUTED,
    );
    driver.simple(All, "SET statement_timeout = 0");
    let canceler = std::thread::spawn(move || {
        let sql = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
            WHERE query LIKE 'SELECT pg_sleep%' AND application_name LIKE 'stopped%'
                AND state = 'active' AND query_start < now() - interval '80 ms'";
        while control.query(sql, &[]).unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    driver.execute_fails(
        &mut sleep,
        &[Value::float(30.0, "30"), Value::int(2)],
        "57014",
        Phase::Canceled,
    );
    canceler.join().unwrap();
    driver.simple(All, "SELECT 'still there'");
    driver.simple_fails(
        All,
        "SELECT pg_terminate_backend(pg_backend_pid())",
        "57P01",
        EXECUTED,
    );
}

/// Sends a statement that a cancel request ends. It is the session's last one, since the server
/// signals a backend twice for one request (`signal_child`), and the second signal may hit the
/// next statement.
pub fn canceled(driver: &mut Driver) {
    driver.simple(All, "SELECT 'soon canceled'");
    let token = driver.client.cancel_token();
    let canceler = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(150));
        token.cancel_query(NoTls).unwrap();
    });
    driver.simple_fails(All, "SELECT pg_sleep(30) /* ü */", "57014", Phase::Canceled);
    canceler.join().unwrap();
}
