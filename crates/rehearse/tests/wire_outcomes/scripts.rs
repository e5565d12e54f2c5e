//! Sessions whose outcomes only the wire shows. Each script checks what its server answers.

use protocol::backend::tag;
use protocol::frontend::Target;

use super::raw::{Raw, Value::*};

pub const SCHEMA: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TYPE pair AS (m mood, n int);
    CREATE TABLE t (who text);
    CREATE TABLE z (a int);
    CREATE TABLE moods (id int, m mood, ms mood[], p pair);
    CREATE TABLE documents (id int, document oid)";

/// Tables that a replay must leave as the capture did.
pub const TABLES: [&str; 5] = [
    "SELECT who FROM t ORDER BY 1",
    "SELECT z::text FROM z ORDER BY 1",
    "SELECT moods::text FROM moods ORDER BY id",
    "SELECT documents::text FROM documents ORDER BY id",
    "SELECT loid || ' ' || pageno || ' ' || encode(data, 'hex') FROM pg_largeobject ORDER BY 1",
];

pub type Script = (&'static str, fn(&mut Raw));

pub const ALL: [Script; 13] = [
    ("describe statement", refused_describe_of_statement),
    ("describe portal", refused_describe_of_portal),
    ("bind", refused_bind),
    ("bind in a group", refused_bind_after_an_execution),
    ("two portals", refused_bind_before_another_portal),
    ("flush", refused_bind_after_flush),
    ("accepted", accepted_bind_without_execute),
    ("parse again", parse_of_a_closed_name),
    ("refused parse", refused_parse_keeps_the_statement),
    ("skipped close", skipped_close_keeps_the_statement),
    ("gone", names_that_are_gone),
    ("large objects", large_objects),
    ("user types", parameters_of_user_types),
];

fn insert(raw: &mut Raw, who: &str) -> Vec<String> {
    raw.query(&format!("INSERT INTO t VALUES ('{who}')")).errors
}

/// Ends a transaction that an error aborted, and leaves a row that must be there.
fn end_aborted(raw: &mut Raw, name: &str) {
    assert_eq!(insert(raw, "refused"), ["25P02"]);
    assert_eq!(raw.query("COMMIT").errors, [""; 0]);
    assert_eq!(insert(raw, name), [""; 0]);
}

fn begin(raw: &mut Raw) {
    assert_eq!(raw.query("BEGIN").errors, [""; 0]);
    assert_eq!(insert(raw, "rolled back"), [""; 0]);
}

fn refused_describe_of_statement(raw: &mut Raw) {
    begin(raw);
    let answer = raw.describe(Target::Statement(b"nosuch")).sync();
    assert_eq!(answer.errors, ["26000"]);
    end_aborted(raw, "describe statement");
    // The statement exists, and its result has changed.
    raw.query("CREATE TEMP TABLE changing (a int)");
    assert_eq!(
        raw.parse("c", "SELECT * FROM changing", &[]).sync().errors,
        [""; 0]
    );
    raw.query("ALTER TABLE changing ADD b int");
    begin(raw);
    let answer = raw.describe(Target::Statement(b"c")).sync();
    assert_eq!(answer.errors, ["0A000"]);
    end_aborted(raw, "describe changed");
}

fn refused_describe_of_portal(raw: &mut Raw) {
    begin(raw);
    let answer = raw.describe(Target::Portal(b"nosuch")).sync();
    assert_eq!(answer.errors, ["34000"]);
    end_aborted(raw, "describe portal");
}

fn refused_bind(raw: &mut Raw) {
    let parsed = raw.parse("b", "SELECT 10 / $1::int", &[]).sync();
    assert_eq!(parsed.errors, [""; 0]);
    begin(raw);
    assert_eq!(raw.bind("", "b", &[Text("x")]).sync().errors, ["22P02"]);
    end_aborted(raw, "bind");
    begin(raw);
    // The plan is made by the Bind.
    let answer = raw
        .bind("p", "b", &[Text("0")])
        .describe(Target::Portal(b"p"))
        .sync();
    assert_eq!(answer.errors, ["22012"]);
    end_aborted(raw, "bind and describe");
    begin(raw);
    assert_eq!(raw.bind("", "nosuch", &[]).sync().errors, ["26000"]);
    end_aborted(raw, "bind of an unknown name");
}

fn refused_bind_after_an_execution(raw: &mut Raw) {
    // One implicit transaction, which the Bind aborts.
    let answer = raw
        .parse(
            "",
            "INSERT INTO t VALUES ('rolled back with the group')",
            &[],
        )
        .bind("", "", &[])
        .execute("", 0)
        .parse("i", "SELECT $1::int", &[])
        .bind("q", "i", &[Text("x")])
        .sync();
    assert_eq!(answer.errors, ["22P02"]);
    assert_eq!(insert(raw, "bind in a group"), [""; 0]);
    // And one that the server accepts: the group is committed.
    let answer = raw
        .parse("", "INSERT INTO t VALUES ('committed with the group')", &[])
        .bind("", "", &[])
        .execute("", 0)
        .bind("q", "i", &[Text("1")])
        .sync();
    assert_eq!(answer.errors, [""; 0]);
}

fn refused_bind_before_another_portal(raw: &mut Raw) {
    let answer = raw
        .parse("i", "INSERT INTO t SELECT 'portal ' || $1::int", &[])
        .bind("one", "i", &[Text("1")])
        .bind("two", "i", &[Text("x")])
        .execute("one", 0)
        .execute("two", 0)
        .sync();
    assert_eq!(answer.errors, ["22P02"]);
    let answer = raw
        .parse("i", "INSERT INTO t SELECT 'portal ' || $1::int", &[])
        .bind("one", "i", &[Text("1")])
        .bind("two", "i", &[Text("2")])
        .execute("one", 0)
        .execute("two", 0)
        .sync();
    assert_eq!(answer.errors, ["42P05"]);
    let answer = raw
        .bind("one", "i", &[Text("1")])
        .bind("two", "i", &[Text("2")])
        .execute("one", 0)
        .execute("two", 0)
        .sync();
    assert_eq!(answer.errors, [""; 0]);
}

fn refused_bind_after_flush(raw: &mut Raw) {
    begin(raw);
    raw.parse("f", "SELECT $1::int", &[]).sync();
    let answer = raw.bind("", "f", &[Text("x")]).flush(tag::ERROR_RESPONSE);
    assert_eq!(answer.errors, ["22P02"]);
    assert_eq!(raw.sync().errors, [""; 0]);
    end_aborted(raw, "flush");
}

fn accepted_bind_without_execute(raw: &mut Raw) {
    begin(raw);
    raw.parse("a", "INSERT INTO t SELECT 'accepted ' || $1::int", &[]);
    assert_eq!(raw.sync().errors, [""; 0]);
    assert_eq!(raw.bind("p", "a", &[Text("1")]).sync().errors, [""; 0]);
    assert_eq!(raw.describe(Target::Portal(b"p")).sync().errors, [""; 0]);
    assert_eq!(raw.bind("r", "a", &[Text("2")]).sync().errors, [""; 0]);
    assert_eq!(raw.execute("p", 0).sync().errors, [""; 0]);
    assert_eq!(raw.query("COMMIT").errors, [""; 0]);
}

fn parse_of_a_closed_name(raw: &mut Raw) {
    let sql = "SELECT * FROM z WHERE a > $1";
    let run = |raw: &mut Raw| raw.bind("", "s", &[Text("0")]).execute("", 0).sync().errors;
    assert_eq!(raw.parse("s", sql, &[]).sync().errors, [""; 0]);
    assert_eq!(run(raw), [""; 0]);
    assert_eq!(raw.query("ALTER TABLE z ADD b text").errors, [""; 0]);
    assert_eq!(run(raw), ["0A000"]);
    raw.close(Target::Statement(b"s"));
    assert_eq!(raw.parse("s", sql, &[]).sync().errors, [""; 0]);
    assert_eq!(run(raw), [""; 0]);
    assert_eq!(raw.query("ALTER TABLE z ADD c text").errors, [""; 0]);
    // In one group with its execution.
    raw.close(Target::Statement(b"s")).parse("s", sql, &[]);
    assert_eq!(run(raw), [""; 0]);
    for types in [&[23][..], &[25], &[1700]] {
        let sql = "INSERT INTO t SELECT pg_typeof($1)::text || ' ' || $1";
        raw.close(Target::Statement(b"s"));
        assert_eq!(raw.parse("s", sql, types).sync().errors, [""; 0]);
        assert_eq!(run(raw), [""; 0]);
    }
}

fn refused_parse_keeps_the_statement(raw: &mut Raw) {
    let kept = "INSERT INTO t VALUES ('kept')";
    assert_eq!(raw.parse("k", kept, &[]).sync().errors, [""; 0]);
    let other = "INSERT INTO t VALUES ('never')";
    assert_eq!(raw.parse("k", other, &[]).sync().errors, ["42P05"]);
    assert_eq!(raw.bind("", "k", &[]).execute("", 0).sync().errors, [""; 0]);
    // A name whose Parse failed is free.
    assert_eq!(
        raw.parse("n", "SELECT * FROM nosuch", &[]).sync().errors,
        ["42P01"]
    );
    assert_eq!(
        raw.bind("", "n", &[]).execute("", 0).sync().errors,
        ["26000"]
    );
    let parsed = raw.parse("n", "INSERT INTO t VALUES ('free')", &[]).sync();
    assert_eq!(parsed.errors, [""; 0]);
    assert_eq!(raw.bind("", "n", &[]).execute("", 0).sync().errors, [""; 0]);
}

fn skipped_close_keeps_the_statement(raw: &mut Raw) {
    let sql = "INSERT INTO t SELECT 'skipped close ' || $1::int";
    assert_eq!(raw.parse("s", sql, &[]).sync().errors, [""; 0]);
    let answer = raw
        .bind("", "s", &[Text("x")])
        .execute("", 0)
        .close(Target::Statement(b"s"))
        .parse("s", "INSERT INTO t VALUES ('never')", &[])
        .sync();
    assert_eq!(answer.errors, ["22P02"]);
    let answer = raw.bind("", "s", &[Text("1")]).execute("", 0).sync();
    assert_eq!(answer.errors, [""; 0]);
}

fn names_that_are_gone(raw: &mut Raw) {
    let sql = "INSERT INTO t VALUES ('gone')";
    let run = |raw: &mut Raw| raw.bind("", "g", &[]).execute("", 0).sync().errors;
    let gone: [fn(&mut Raw); 5] = [
        |raw| drop(raw.query("DEALLOCATE g")),
        |raw| drop(raw.query("DEALLOCATE ALL")),
        |raw| drop(raw.query("DISCARD ALL")),
        |raw| drop(raw.close(Target::Statement(b"g")).sync()),
        |raw| drop(raw.query("/* all */ DISCARD ALL")),
    ];
    for (number, end) in gone.into_iter().enumerate() {
        assert_eq!(raw.parse("g", sql, &[]).sync().errors, [""; 0]);
        assert_eq!(run(raw), [""; 0]);
        end(raw);
        begin(raw);
        assert_eq!(run(raw), ["26000"], "{number}");
        end_aborted(raw, "gone");
        assert_eq!(raw.parse("g", sql, &[]).sync().errors, [""; 0]);
        assert_eq!(run(raw), [""; 0]);
        assert_eq!(raw.close(Target::Statement(b"g")).sync().errors, [""; 0]);
    }
}

fn large_objects(raw: &mut Raw) {
    let (lo_open, lo_close, lowrite, loread) = (952, 953, 955, 954);
    let (lo_creat, lo_unlink, lo_lseek) = (957, 964, 956);
    let number = |number: i32| number.to_be_bytes();
    let (read_and_write, from_start) = (number(0x2_0000 | 0x4_0000), number(0));
    raw.query("BEGIN");
    let created = raw.call(lo_creat, &[&read_and_write]).result.unwrap();
    let fd = raw
        .call(lo_open, &[&created, &read_and_write])
        .result
        .unwrap();
    let written = raw.call(lowrite, &[&fd, b"a large object\0\xff"]);
    assert_eq!(written.result.unwrap(), number(16));
    raw.call(lo_lseek, &[&fd, &from_start, &from_start]);
    let read = raw.call(loread, &[&fd, &number(7)]);
    assert_eq!(read.result.unwrap(), b"a large");
    assert_eq!(raw.call(lo_close, &[&fd]).errors, [""; 0]);
    let oid = u32::from_be_bytes(created.try_into().unwrap());
    let insert = format!("INSERT INTO documents VALUES (1, {oid})");
    assert_eq!(raw.query(&insert).errors, [""; 0]);
    raw.query("COMMIT");
    // One that is unlinked, and a call that fails in a transaction.
    let second = raw.call(lo_creat, &[&read_and_write]).result.unwrap();
    assert_eq!(raw.call(lo_unlink, &[&second]).errors, [""; 0]);
    begin(raw);
    assert_eq!(raw.call(lo_unlink, &[&second]).errors, ["42704"]);
    assert_eq!(raw.call(lo_close, &[&number(0)]).errors, ["25P02"]);
    end_aborted(raw, "large objects");
}

/// Types that a client names have other OIDs in a copy.
fn parameters_of_user_types(raw: &mut Raw) {
    let oid = |raw: &mut Raw, name: &str| {
        let answer = raw.query(&format!("SELECT '{name}'::regtype::oid"));
        let text = String::from_utf8(answer.rows[0][6..].to_vec()).unwrap();
        text.parse::<u32>().unwrap()
    };
    let (mood, moods) = (oid(raw, "mood"), oid(raw, "mood[]"));
    let sql = "INSERT INTO moods (id, m, ms) VALUES ($1, $2, $3)";
    raw.parse("typed", sql, &[23, mood, moods]);
    let answer = raw
        .bind("", "typed", &[Text("1"), Text("ok"), Text("{ok,sad}")])
        .execute("", 0)
        .sync();
    assert_eq!(answer.errors, [""; 0]);
    let answer = raw
        .parse("", "UPDATE moods SET m = $1 WHERE m = $2", &[mood, mood])
        .bind("", "", &[Text("sad"), Text("ok")])
        .execute("", 0)
        .sync();
    assert_eq!(answer.errors, [""; 0]);
}
