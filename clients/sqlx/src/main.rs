//! The story of sqlx: sqlx-story URL STATEMENTS.json. What a statement may say is in check.py.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::TryStreamExt;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPoolCopyExt, PgPoolOptions};
use sqlx::types::chrono::{DateTime, Utc};
use sqlx::types::{Decimal, Json, Uuid, chrono::NaiveDate};
use sqlx::{AssertSqlSafe, Connection, Executor, PgPool, Postgres, QueryBuilder, Row};

static CHECKS: AtomicUsize = AtomicUsize::new(0);

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(sqlx::Type, Clone, Copy, Debug, PartialEq)]
#[sqlx(type_name = "sqlx_mood", rename_all = "lowercase")]
enum Mood {
    Good,
    Bad,
}

#[derive(sqlx::FromRow, Debug, PartialEq)]
struct Item {
    id: Uuid,
    name: String,
    price: Option<Decimal>,
    data: Vec<u8>,
    sizes: Vec<i32>,
    tags: Vec<String>,
    doc: Json<Value>,
    made: DateTime<Utc>,
    day: NaiveDate,
    mood: Option<Mood>,
}

/// The story: where it connects to, and what each connection sent.
struct Story {
    options: PgConnectOptions,
    sessions: Vec<Value>,
}

fn equal<T: PartialEq + std::fmt::Debug>(found: T, expected: T, what: &str) {
    if found != expected {
        eprintln!("sqlx: {what}: {found:?} instead of {expected:?}");
        std::process::exit(1);
    }
    CHECKS.fetch_add(1, Ordering::Relaxed);
}

fn fails<T>(result: std::result::Result<T, sqlx::Error>, sqlstate: &str, what: &str) {
    let found = result
        .err()
        .and_then(|error| error.as_database_error()?.code().map(String::from));
    equal(found.as_deref(), Some(sqlstate), what);
}

impl Story {
    fn application(&mut self, part: &str) -> PgConnectOptions {
        let application = format!("sqlx-{part}");
        self.sessions
            .push(json!({"application": application, "statements": []}));
        self.options.clone().application_name(&application)
    }

    async fn connect(&mut self, part: &str) -> Result<PgConnection> {
        let options = self.application(part);
        Ok(PgConnection::connect_with(&options).await?)
    }

    /// Notes a statement of the connection that was opened last.
    fn said(&mut self, sql: &str, more: Value) {
        let mut one = json!({"sql": sql});
        one.as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        self.sessions.last_mut().expect("a connection")["statements"]
            .as_array_mut()
            .expect("a list")
            .push(one);
    }

    fn simple(&mut self, sql: &str) {
        self.said(sql, json!({"kind": "simple"}));
    }
}

const ODD: &str = "it's \\ \"ü\" 日本";
const INSERT: &str = "INSERT INTO sqlx_items VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

fn item(n: u128) -> Result<Item> {
    Ok(Item {
        id: Uuid::from_u128(n),
        name: ODD.into(),
        price: (n % 2 == 1).then(|| Decimal::new(1250, 2)),
        data: vec![0, 255],
        sizes: vec![1, -2, n as i32],
        tags: vec!["a".into(), "b".into()],
        doc: Json(json!({"a": n as u64, "b": null})),
        made: DateTime::from_str("2024-02-29T12:30:15.25Z")?,
        day: NaiveDate::from_str("2024-02-29")?,
        mood: (n > 0).then_some(Mood::Good),
    })
}

async fn statements(story: &mut Story) -> Result {
    let mut connection = story.connect("statements").await?;
    let there: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_type WHERE typname = 'sqlx_mood'")
        .fetch_one(&mut connection)
        .await?;
    story.said(
        "SELECT count(*) FROM pg_type WHERE typname = 'sqlx_mood'",
        json!({"rows": 1, "named": true}),
    );
    // The type stays, so that a copy of the database has it under another number.
    if there == 0 {
        connection
            .execute("CREATE TYPE sqlx_mood AS ENUM ('good', 'bad')")
            .await?;
    }
    let create = "DROP TABLE IF EXISTS sqlx_items; CREATE TABLE sqlx_items (id uuid PRIMARY KEY, name text, price numeric, data bytea, sizes int[], tags text[], doc jsonb, made timestamptz, day date, mood sqlx_mood)";
    sqlx::raw_sql(create).execute(&mut connection).await?;
    story.simple(create);
    for n in 0..4 {
        // The first without a name, the others under one.
        let one = item(n)?;
        let named = n > 0;
        let done = sqlx::query(INSERT)
            .bind(one.id)
            .bind(&one.name)
            .bind(one.price)
            .bind(&one.data)
            .bind(&one.sizes)
            .bind(&one.tags)
            .bind(&one.doc)
            .bind(one.made)
            .bind(one.day)
            .bind(one.mood)
            .persistent(named)
            .execute(&mut connection)
            .await?;
        equal(done.rows_affected(), 1, "rows inserted");
        story.said(INSERT, json!({
            "kind": "execute", "rows": 1, "named": named,
            "parameters": [one.id.to_string(), ODD, one.price.map(|_| "12.50"), "\\x00ff", format!("{{1,-2,{n}}}"), "{a,b}",
                format!("{{\"a\":{n},\"b\":null}}"), "2024-02-29 12:30:15.250000+00", "2024-02-29", one.mood.map(|_| "good")],
            "types": ["uuid", "text", "numeric", "bytea", "int4[]", "text[]", "jsonb", "timestamptz", "date", "text"],
        }));
        let select = "SELECT * FROM sqlx_items WHERE id = $1";
        equal(
            sqlx::query_as::<_, Item>(select)
                .bind(one.id)
                .fetch_one(&mut connection)
                .await?,
            one,
            "the row",
        );
        story.said(
            select,
            json!({"rows": 1, "parameters": [Uuid::from_u128(n).to_string()], "named": true}),
        );
    }
    let moods: Vec<Mood> = sqlx::query_scalar("SELECT $1")
        .bind(vec![Mood::Good, Mood::Bad])
        .fetch_one(&mut connection)
        .await?;
    equal(
        moods,
        vec![Mood::Good, Mood::Bad],
        "an array of a type of one's own",
    );
    story.said(
        "SELECT $1",
        json!({"rows": 1, "types": ["text[]"], "parameters": ["{good,bad}"]}),
    );
    connection.close().await?;
    Ok(())
}

/// More texts than the cache holds: the oldest is closed.
async fn cache(story: &mut Story) -> Result {
    let options = story.application("cache").statement_cache_capacity(2);
    let mut connection = PgConnection::connect_with(&options).await?;
    for n in 0..12 {
        let sql = format!("SELECT $1 + {}", n % 4);
        let sum: i32 = sqlx::query_scalar(AssertSqlSafe(sql.clone()))
            .bind(n)
            .fetch_one(&mut connection)
            .await?;
        equal(sum, n + n % 4, "a sum");
        story.said(
            &sql,
            json!({"parameters": [n.to_string()], "types": ["int4"], "named": true, "rows": 1}),
        );
    }
    connection.close().await?;
    Ok(())
}

async fn transactions(story: &mut Story) -> Result {
    let mut connection = story.connect("transactions").await?;
    let key = Uuid::from_u128(1);
    let (update, insert) = (
        "UPDATE sqlx_items SET name = $1 WHERE id = $2",
        "INSERT INTO sqlx_items (id) VALUES ($1)",
    );
    let mut outer = connection.begin().await?;
    sqlx::query(update)
        .bind("a")
        .bind(key)
        .execute(&mut *outer)
        .await?;
    let mut inner = outer.begin().await?;
    fails(
        sqlx::query(insert).bind(key).execute(&mut *inner).await,
        "23505",
        "a second row with one key",
    );
    inner.rollback().await?;
    let mut inner = outer.begin().await?;
    sqlx::query(insert)
        .bind(Uuid::from_u128(50))
        .execute(&mut *inner)
        .await?;
    inner.commit().await?;
    outer.commit().await?;
    let parameters = json!({"parameters": [key.to_string()], "sqlstate": "23505"});
    story.simple("BEGIN");
    story.said(
        update,
        json!({"parameters": ["a", key.to_string()], "rows": 1}),
    );
    story.simple("SAVEPOINT _sqlx_savepoint_1");
    story.said(insert, parameters);
    story.simple("ROLLBACK TO SAVEPOINT _sqlx_savepoint_1");
    story.simple("SAVEPOINT _sqlx_savepoint_1");
    story.said(
        insert,
        json!({"parameters": [Uuid::from_u128(50).to_string()], "rows": 1}),
    );
    story.simple("RELEASE SAVEPOINT _sqlx_savepoint_1");
    story.simple("COMMIT");
    // Dropped: it is rolled back with the next statement.
    let mut lost = connection.begin().await?;
    sqlx::query("DELETE FROM sqlx_items")
        .execute(&mut *lost)
        .await?;
    drop(lost);
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlx_items")
        .fetch_one(&mut connection)
        .await?;
    equal(left, 5, "what a dropped transaction left");
    story.simple("BEGIN");
    story.said("DELETE FROM sqlx_items", json!({"rows": 5}));
    story.simple("ROLLBACK");
    story.said("SELECT count(*) FROM sqlx_items", json!({"rows": 1}));
    let mut broken = connection
        .begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE")
        .await?;
    fails(
        sqlx::query("SELECT nothing FROM sqlx_items")
            .execute(&mut *broken)
            .await,
        "42703",
        "a column that is not there",
    );
    fails(
        broken.execute("SELECT 1").await,
        "25P02",
        "the statement after an error",
    );
    broken.rollback().await?;
    story.simple("BEGIN ISOLATION LEVEL SERIALIZABLE");
    story.said(
        "SELECT nothing FROM sqlx_items",
        json!({"kind": "prepare", "sqlstate": "42703"}),
    );
    story.said("SELECT 1", json!({"sqlstate": "25P02"}));
    story.simple("ROLLBACK");
    fails(
        sqlx::query("SELECT 10 / $1")
            .bind(0)
            .execute(&mut connection)
            .await,
        "22012",
        "a division by zero",
    );
    story.said(
        "SELECT 10 / $1",
        json!({"parameters": ["0"], "sqlstate": "22012"}),
    );
    connection.close().await?;
    Ok(())
}

async fn many(story: &mut Story) -> Result {
    let mut connection = story.connect("many").await?;
    let mut builder: QueryBuilder<Postgres> =
        QueryBuilder::new("INSERT INTO sqlx_items (id, name) ");
    builder.push_values(100..150u128, |mut row, n| {
        row.push_bind(Uuid::from_u128(n))
            .push_bind(format!("many {n}"));
    });
    let sql = builder.sql().as_str().to_string();
    equal(
        builder
            .build()
            .execute(&mut connection)
            .await?
            .rows_affected(),
        50,
        "rows of one insert",
    );
    let parameters: Vec<String> = (100..150u128)
        .flat_map(|n| [Uuid::from_u128(n).to_string(), format!("many {n}")])
        .collect();
    story.said(&sql, json!({"parameters": parameters, "rows": 50}));
    let unnest = "UPDATE sqlx_items SET sizes = ARRAY[of.n] FROM unnest($1::int4[], $2::text[]) of (n, name) WHERE sqlx_items.name = of.name";
    let names: Vec<String> = (100..120).map(|n| format!("many {n}")).collect();
    let numbers: Vec<i32> = (100..120).collect();
    equal(
        sqlx::query(unnest)
            .bind(&numbers)
            .bind(&names)
            .execute(&mut connection)
            .await?
            .rows_affected(),
        20,
        "rows updated",
    );
    let list = |texts: &[String]| format!("{{{}}}", texts.join(","));
    let sizes: Vec<String> = numbers.iter().map(i32::to_string).collect();
    story.said(unnest, json!({"parameters": [list(&sizes), list(&names)], "types": ["int4[]", "text[]"], "rows": 20}));
    let walk = "SELECT n, repeat(md5(n::text), 16) FROM generate_series(1, $1) n";
    let mut stream = sqlx::query(walk).bind(10_000i64).fetch(&mut connection);
    let mut length = 0;
    while let Some(row) = stream.try_next().await? {
        length += row.get::<String, _>(1).len();
    }
    drop(stream);
    equal(length, 5_120_000, "a large result");
    story.said(walk, json!({"parameters": ["10000"], "rows": 10_000}));
    // Several results of one text.
    let several = "SELECT 1; SELECT 2";
    equal(
        sqlx::raw_sql(several)
            .fetch_all(&mut connection)
            .await?
            .len(),
        2,
        "two results",
    );
    story.simple(several);
    connection.close().await?;
    Ok(())
}

async fn copies(story: &mut Story) -> Result {
    let options = story.application("copies");
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(options)
        .await?;
    pool.execute("CREATE TEMPORARY TABLE copied (a int, b text)")
        .await?;
    story.said("CREATE TEMPORARY TABLE copied (a int, b text)", json!({}));
    let data: String = (0..1000).map(|n| format!("{n}\tline {n} ü\n")).collect();
    let mut copy = pool.copy_in_raw("COPY copied FROM STDIN").await?;
    copy.send(data.as_bytes()).await?;
    equal(copy.finish().await?, 1000, "rows copied in");
    story.said(
        "COPY copied FROM STDIN",
        json!({"rows": 1000, "copy_data": data}),
    );
    let mut copy = pool.copy_in_raw("COPY copied FROM STDIN").await?;
    copy.send("x\ty\n".as_bytes()).await?;
    fails(copy.finish().await, "22P02", "x as a number");
    story.said(
        "COPY copied FROM STDIN",
        json!({"sqlstate": "22P02", "copy_data": "x\ty\n"}),
    );
    let mut copy = pool.copy_in_raw("COPY copied FROM STDIN").await?;
    copy.send("1\t2\n".as_bytes()).await?;
    copy.abort("given up").await?;
    story.said(
        "COPY copied FROM STDIN",
        json!({"sqlstate": "57014", "copy_data": "1\t2\n", "copy_failed": true}),
    );
    let out: Vec<_> = pool
        .copy_out_raw("COPY copied TO STDOUT")
        .await?
        .try_collect()
        .await?;
    equal(
        String::from_utf8(out.concat())?,
        data,
        "what was copied out",
    );
    story.said("COPY copied TO STDOUT", json!({"rows": 1000}));
    pool.close().await;
    Ok(())
}

async fn notifications(story: &mut Story) -> Result {
    let options = story.application("listener");
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(options)
        .await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen("sqlx_news").await?;
    story.said("LISTEN \"sqlx_news\"", json!({}));
    let mut teller = story.connect("teller").await?;
    let notify = "SELECT pg_notify($1, $2)";
    sqlx::query(notify)
        .bind("sqlx_news")
        .bind("hello")
        .execute(&mut teller)
        .await?;
    story.said(
        notify,
        json!({"parameters": ["sqlx_news", "hello"], "rows": 1}),
    );
    equal(
        listener.recv().await?.payload(),
        "hello",
        "the notification",
    );
    teller.close().await?;
    Ok(())
}

/// Four connections, and eight that want one; they tell by their process which one they have.
async fn pool(story: &mut Story) -> Result {
    let options = story.application("pool");
    let empty = story.sessions.pop().expect("a connection");
    let pool: PgPool = PgPoolOptions::new()
        .max_connections(4)
        .connect_with(options)
        .await?;
    let turns = Arc::new(Mutex::new(Vec::new()));
    let insert = "INSERT INTO sqlx_items (id, name) VALUES ($1, $2)";
    let tasks: Vec<_> = (0..8u128)
        .map(|place| {
            let (pool, turns) = (pool.clone(), Arc::clone(&turns));
            tokio::spawn(async move {
                let mut connection = pool.acquire().await?;
                let process: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
                    .fetch_one(&mut *connection)
                    .await?;
                turns.lock().expect("a list").push((process, place));
                for n in 0..10 {
                    let one = sqlx::query(insert)
                        .bind(Uuid::from_u128(1000 + place * 100 + n))
                        .bind("pool");
                    equal(
                        one.execute(&mut *connection).await?.rows_affected(),
                        1,
                        "rows of a pool",
                    );
                }
                Ok::<_, sqlx::Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    pool.close().await;
    let turns = turns.lock().expect("a list").clone();
    let processes: BTreeSet<i32> = turns.iter().map(|&(process, _)| process).collect();
    for process in processes {
        story.sessions.push(empty.clone());
        for (_, place) in turns.iter().filter(|&&(of, _)| of == process) {
            story.said("SELECT pg_backend_pid()", json!({"rows": 1}));
            for n in 0..10 {
                let key = Uuid::from_u128(1000 + place * 100 + n).to_string();
                story.said(
                    insert,
                    json!({"parameters": [key, "pool"], "rows": 1, "named": true}),
                );
            }
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result {
    let arguments: Vec<String> = std::env::args().collect();
    let mut story = Story {
        options: PgConnectOptions::from_str(&arguments[1])?,
        sessions: Vec::new(),
    };
    statements(&mut story).await?;
    cache(&mut story).await?;
    transactions(&mut story).await?;
    many(&mut story).await?;
    copies(&mut story).await?;
    notifications(&mut story).await?;
    pool(&mut story).await?;
    std::fs::write(
        &arguments[2],
        serde_json::to_string_pretty(&story.sessions)?,
    )?;
    println!("ok: {} checks", CHECKS.load(Ordering::Relaxed));
    Ok(())
}
