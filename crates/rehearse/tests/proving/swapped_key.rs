//! A key of another type, in the data and in what is sent: the same rows are found, changed and left behind.

use super::*;

const TABLES: &str = "DROP TABLE IF EXISTS visits, links; \
    CREATE TABLE links (hash bytea PRIMARY KEY, state text NOT NULL, n int NOT NULL DEFAULT 0); \
    CREATE TABLE visits (at int, link bytea NOT NULL REFERENCES links (hash) ON DELETE CASCADE); \
    CREATE INDEX ON visits (link, at); \
    INSERT INTO links SELECT sha256(i::text::bytea), 'old', 0 FROM generate_series(0, 299) i; \
    INSERT INTO visits SELECT i, sha256((i % 300)::text::bytea) FROM generate_series(0, 899) i";

/// What is left behind, without the keys.
const LEFT: &str = "SELECT string_agg(state || ' ' || n || ' ' || visits, ',' ORDER BY state, n, visits) \
    FROM (SELECT l.state, l.n, count(v.at) AS visits FROM links l LEFT JOIN visits v ON v.link = l.hash GROUP BY l.hash, l.state, l.n) s";

/// Reads, writes and removals by key, as literals and as parameters, of keys that are there, that come, and that are
/// nowhere.
fn workload(at: &dyn Fn(&str) -> String, hashes: &[String]) -> (String, i64) {
    let mut log = String::new();
    let mut statements = 0;
    let mut say = |kind: &str, sql: &str, parameters: &[&str]| {
        let stamp = format!("2026-03-01 09:00:00.{statements:03} UTC [100] ");
        log.push_str(&format!("{stamp}LOG:  {kind}: {sql}\n"));
        if !parameters.is_empty() {
            let all: Vec<String> = (1..)
                .zip(parameters)
                .map(|(number, value)| format!("${number} = '{value}'"))
                .collect();
            log.push_str(&format!("{stamp}DETAIL:  parameters: {}\n", all.join(", ")));
        }
        statements += 1;
    };
    const SIMPLE: &str = "statement";
    const EXTENDED: &str = "execute <unnamed>";
    for (round, hash) in (0..).zip(hashes).take(20) {
        let new = hash.replace("\\x", &format!("\\x{round:02}ff"));
        let new = &new[..66];
        say(
            SIMPLE,
            &format!("SELECT state FROM links WHERE hash = '{hash}'"),
            &[],
        );
        say(
            EXTENDED,
            "SELECT count(*) FROM visits v WHERE v.link = $1::bytea",
            &[hash],
        );
        say(
            SIMPLE,
            &format!("SELECT 1 FROM links WHERE hash = '{new}'"),
            &[],
        );
        say(
            EXTENDED,
            "INSERT INTO links (n, hash, state) VALUES ($1, $2, 'new')",
            &[&round.to_string(), new],
        );
        say(
            SIMPLE,
            &format!("INSERT INTO visits VALUES ({round}, '{new}'), ({round}, '{hash}'::bytea)"),
            &[],
        );
        let array = format!("{{\"\\\\{hash}\",\"\\\\{new}\"}}").replace("\\\\\\", "\\\\");
        say(
            EXTENDED,
            "UPDATE links SET n = n + 1 WHERE hash = ANY ($1::bytea[])",
            &[&array],
        );
        if round % 4 == 0 {
            say(
                SIMPLE,
                &format!(
                    "DELETE FROM links l USING visits v WHERE v.link = l.hash AND l.hash IN ('{hash}', '\\x00')"
                ),
                &[],
            );
        }
    }
    let (log_path, made) = (at("k.log"), at("k.workload"));
    std::fs::write(&log_path, log).unwrap();
    let captured = rehearse(&[
        "capture", "log", &log_path, "--prefix", "%m [%p] ", "-o", &made,
    ]);
    assert_eq!(captured.status.code(), Some(0), "{captured:?}");
    (made, statements)
}

#[test]
fn a_key_of_another_type_finds_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let sandbox = Named::up("keyed");
    let mut client = Client::connect(&sandbox.url, NoTls).unwrap();
    client.batch_execute(TABLES).unwrap();
    let hashes: Vec<String> = client
        .query("SELECT hash::text FROM links WHERE ctid >= '(1,1)'", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let (original, statements) = workload(&at, &hashes);
    let replayed = |workload: &str, run: &str| {
        let (url, run) = (&sandbox.url, at(run));
        let done = rehearse(&[
            "replay", workload, "--target", url, "-o", &run, "--speed", "max", "--json",
        ]);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        let view: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(view["done"], statements, "{view}");
        assert_eq!(view["failed"], serde_json::json!({}), "{view}");
    };
    let left = |client: &mut Client| client.query_one(LEFT, &[]).unwrap().get::<_, String>(0);
    replayed(&original, "original.run");
    let as_it_was = left(&mut client);
    // Every row that came was written twice to, and every fourth of the old ones is gone.
    assert_eq!(as_it_was.matches("new").count(), 20, "{as_it_was}");
    assert_eq!(as_it_was.matches("old").count(), 295, "{as_it_was}");

    client.batch_execute(TABLES).unwrap();
    let keyed = at("keyed.workload");
    let made = rehearse(&[
        "rewrite",
        &original,
        "-o",
        &keyed,
        "--swap-key",
        "links.hash",
        "--target",
        &sandbox.url,
        "--json",
    ]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let view: Value = serde_json::from_slice(&made.stdout).unwrap();
    let account = &view["rewritings"][0];
    assert_eq!(account["rewriting"], "swap-key=links.hash");
    assert_eq!(account["reworded"], statements, "{account}");
    let script = std::fs::read_to_string(at("keyed.sql")).unwrap();
    let (change, vacuum) = script.split_at(script.find("VACUUM").unwrap());
    assert_eq!(vacuum.lines().count(), 2, "{script}");
    // Of data in which the numbers would be others it is refused, and nothing is changed.
    client
        .batch_execute("DELETE FROM links WHERE hash = (SELECT hash FROM links LIMIT 1)")
        .unwrap();
    let refused = client.batch_execute(change).unwrap_err();
    let refused = refused.as_db_error().unwrap().message().to_owned();
    client.batch_execute("ROLLBACK").unwrap();
    assert!(refused.contains("numbered otherwise"), "{refused}");
    client.batch_execute(TABLES).unwrap();
    client.batch_execute(change).unwrap();
    replayed(&keyed, "keyed.run");
    assert_eq!(left(&mut client), as_it_was);
    let numbers = client
        .query_one(
            "SELECT min(hash), max(hash), count(*), pg_typeof(min(hash))::text, (SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND confrelid = 'links'::regclass) FROM links",
            &[],
        )
        .unwrap();
    // 300 rows as they lay there, 20 in the order in which they came, and a key that no row has.
    assert_eq!(
        (numbers.get::<_, i64>(0), numbers.get::<_, i64>(1)),
        (1, 321)
    );
    assert_eq!(numbers.get::<_, String>(3), "bigint");
    assert_eq!(numbers.get::<_, i64>(4), 1);

    // A proof does both, and leaves the key as it was.
    client.batch_execute(TABLES).unwrap();
    drop(client);
    let output = at("k.proof");
    let proof = [
        "prove",
        &original,
        "--sandbox",
        &sandbox.name,
        "--database",
        "postgres",
        "--rewrite",
        "swap-key=public.links.hash",
        "--goal",
        "wal",
        "--margin",
        "50",
        "--speed",
        "max",
        "--noise-runs",
        "1",
        "--blocks",
        "2",
        "-o",
        &output,
        "--json",
    ];
    let done = rehearse(&proof);
    let view = validated(&done);
    assert_eq!(
        view["sides"][0]["name"], "swap-key=public.links.hash",
        "{view}"
    );
    assert_eq!(
        sandbox.ask("SELECT count(*) FROM links WHERE hash = sha256('0')"),
        1
    );
    // Gone on with, there is nothing left to do.
    let again = rehearse(&[&proof[..], &["--resume"]].concat());
    assert_eq!(again.status.code(), done.status.code(), "{again:?}");
    assert_eq!(
        validated(&again)["sides"][0]["effect"],
        view["sides"][0]["effect"]
    );
    let script = std::fs::read_to_string(at("k.proof/rewritten/key-1.sql")).unwrap();
    assert!(script.contains("TYPE bigint"), "{script}");
    let runs = std::fs::read_dir(at("k.proof/runs")).unwrap().flatten();
    let mut failed = 0;
    let mut met = 0;
    for run in runs {
        let summary = rehearse(&["summary", &run.path().display().to_string(), "--json"]);
        let view: Value = serde_json::from_slice(&summary.stdout).unwrap();
        failed += view["failed"].as_object().unwrap().len();
        met += 1;
    }
    assert_eq!((failed, met), (0, 9));
}

#[test]
fn a_key_that_cannot_be_swapped_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let sandbox = Named::up("unkeyed");
    let mut client = Client::connect(&sandbox.url, NoTls).unwrap();
    client.batch_execute(TABLES).unwrap();
    client
        .batch_execute(
            "CREATE TABLE seen (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), note text UNIQUE); \
             CREATE VIEW noted AS SELECT note FROM seen; \
             CREATE INDEX ON seen (upper(note))",
        )
        .unwrap();
    let (original, _) = workload(&at, &[format!("\\x{}", "00".repeat(32))]);
    let refused = |key: &str, why: &str| {
        let (url, output) = (&sandbox.url, at("no.workload"));
        let done = rehearse(&[
            "rewrite",
            &original,
            "-o",
            &output,
            "--swap-key",
            key,
            "--target",
            url,
        ]);
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains(why), "{key}: {said}");
        for left in ["no.workload", "no.sql"] {
            assert!(!Path::new(&at(left)).exists(), "{left}");
        }
    };
    refused("visits.link", "it refers to links");
    refused("links.n", "its type is integer");
    refused("links.state", "no unique index");
    refused("links.nothing", "there is no column");
    refused("elsewhere.links.hash", "there is no column");
    refused("links", "names no key");
    refused("seen.note", "rule _RETURN on view public.noted");
    refused("seen.note", "index public.seen_upper_idx");
    client
        .batch_execute(
            "CREATE TABLE words (word varchar(80) PRIMARY KEY, other text UNIQUE DEFAULT 'x', place text UNIQUE); \
             CREATE INDEX ON words (word varchar_pattern_ops); \
             CREATE TABLE uses (word varchar(80) REFERENCES words, place text DEFAULT 'a' REFERENCES words (place) REFERENCES seen (note)); \
             CREATE TABLE parts (id uuid, n int, PRIMARY KEY (id, n)) PARTITION BY RANGE (n); \
             CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9); CREATE UNIQUE INDEX ON part (id)",
        )
        .unwrap();
    refused(
        "words.word",
        "index public.words_word_idx (its operator class",
    );
    refused("words.place", "its default 'a'");
    refused("words.other", "a constant");
    refused("words.place", "foreign key uses_place_fkey1 to public.seen");
    refused("part.id", "inherits");
    let untold = rehearse(&[
        "rewrite",
        &original,
        "-o",
        &at("no.workload"),
        "--swap-key",
        "links.hash",
    ]);
    assert_eq!(untold.status.code(), Some(2), "{untold:?}");
    assert!(String::from_utf8_lossy(&untold.stderr).contains("give --target URL"));
    // Where the server makes keys of its own, those of the workload come far behind them.
    let made = rehearse(&[
        "rewrite",
        &original,
        "-o",
        &at("s.workload"),
        "--swap-key",
        "seen.id",
        "--target",
        &sandbox.url,
    ]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let script = std::fs::read_to_string(at("s.sql")).unwrap();
    let (change, _) = script.split_at(script.find("VACUUM").unwrap());
    client.batch_execute(change).unwrap();
    let id: i64 = client
        .query_one("INSERT INTO seen (note) VALUES ('a') RETURNING id", &[])
        .unwrap()
        .get(0);
    assert_eq!(id, 1);
}
