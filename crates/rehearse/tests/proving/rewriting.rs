//! Rewritten workloads, in another form or over other connections, produce the same data.

use super::*;

const TABLE: &str = "CREATE TABLE kinds (id int PRIMARY KEY, small smallint, big bigint, exact numeric(20,3), \
    rough float8, words text, at timestamptz, flag bool, document jsonb); \
    CREATE TABLE counters (id int PRIMARY KEY, n bigint NOT NULL); \
    INSERT INTO counters SELECT i, 0 FROM generate_series(0, 9) i";

/// Query for a digest of the resulting data.
const LEFT: &str = "SELECT (('x' || left(md5((SELECT string_agg(k::text, '|' ORDER BY id) FROM kinds k) \
    || (SELECT string_agg(c::text, '|' ORDER BY id) FROM counters c)), 15))::bit(60))::bigint";

/// Statement that every session repeats.
fn plain(round: i64) -> String {
    format!("'it''s {round}'")
}

/// Value that COPY has to escape: tabs, backslashes, empty strings, and NULL.
fn awkward(round: i64) -> String {
    match round % 5 {
        0 => plain(round),
        1 => format!("'a\tb\\n \\. {round}'"),
        2 => "''".to_owned(),
        3 => "NULL".to_owned(),
        _ => "'\\N'".to_owned(),
    }
}

/// Creates sessions that set parameters, insert values of many types, count within transactions,
/// and read.
fn workload(at: &dyn Fn(&str) -> String, name: &str, words: fn(i64) -> String) -> (String, i64) {
    let mut lines = Vec::new();
    let mut statements = 0;
    let mut say = |session: i64, statement: String| {
        let number = lines.len();
        statements += 1;
        lines.push(format!(
            "2026-03-01 09:00:00.{number:03} UTC [{}] LOG:  statement: {statement}\n",
            100 + session
        ));
    };
    for session in 0..4 {
        say(session, "SET extra_float_digits = 1".to_owned());
    }
    for round in 0..30_i64 {
        let session = round % 4;
        let sign = if round % 2 == 0 { "" } else { "-" };
        let words = words(round);
        let big = if round % 3 == 0 { 5_000_000_000 } else { round };
        say(
            session,
            format!(
                "INSERT INTO kinds (id, small, big, exact, rough, words, at, flag, document) VALUES ({round}, {sign}{round}, {big}, {sign}{round}.125, {round}, {words}, \
                 '2026-01-01 00:00:{round:02}+00', 't', '{{\"a\": [{round}]}}')"
            ),
        );
        say(session, "BEGIN".to_owned());
        say(
            session,
            format!(
                "UPDATE counters SET n = n + {round} WHERE id = {}",
                round % 10
            ),
        );
        say(
            session,
            format!(
                "SELECT count(*) FROM kinds WHERE exact > {round} AND at < now() - interval '1 day' ORDER BY 1 LIMIT 5"
            ),
        );
        say(session, "COMMIT".to_owned());
    }
    let (log, made) = (at(&format!("{name}.log")), at(&format!("{name}.workload")));
    std::fs::write(&log, lines.concat()).unwrap();
    let captured = rehearse(&["capture", "log", &log, "--prefix", "%m [%p] ", "-o", &made]);
    assert_eq!(captured.status.code(), Some(0), "{captured:?}");
    (made, statements)
}

#[test]
fn a_workload_in_another_form_leaves_the_same_data_behind() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let sandbox = Named::up("rewriting");
    let mut client = Client::connect(&sandbox.url, NoTls).unwrap();
    client.batch_execute(TABLE).unwrap();
    let (original, statements) = workload(&at, "k", plain);
    let mut left = |workload: &str, run: &str, statements: i64| {
        client
            .batch_execute("TRUNCATE kinds; UPDATE counters SET n = 0")
            .unwrap();
        let done = rehearse(&[
            "replay",
            workload,
            "--target",
            &sandbox.url,
            "-o",
            &at(run),
            "--order",
            "global",
            "--json",
        ]);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        let view: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(view["done"], statements, "{view}");
        assert_eq!(
            client
                .query_one("SELECT count(*) FROM kinds", &[])
                .unwrap()
                .get::<_, i64>(0),
            30
        );
        client.query_one(LEFT, &[]).unwrap().get::<_, i64>(0)
    };
    let rewrite = |from: &str, to: &str, how: &[&str]| -> Value {
        let mut arguments = vec!["rewrite", from, "-o", to, "--json"];
        arguments.extend(how);
        let done = rehearse(&arguments);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        serde_json::from_slice(&done.stdout).unwrap()
    };
    let as_it_was = left(&original, "original.run", statements);

    // 30 inserts, updates and reads, of shapes that each session repeats.
    let prepared = at("prepared.workload");
    let account = rewrite(&original, &prepared, &["--prepare"]);
    let account = &account["rewritings"][0];
    assert_eq!(account["rewriting"], "prepare");
    assert_eq!(account["account"]["reworded"], 90, "{account}");
    assert_eq!(left(&prepared, "prepared.run", statements), as_it_was);

    let simple = at("simple.workload");
    let account = rewrite(&prepared, &simple, &["--unprepare"]);
    assert_eq!(
        account["rewritings"][0]["account"]["reworded"], 90,
        "{account}"
    );
    assert_eq!(left(&simple, "simple.run", statements), as_it_was);

    // Four sessions through two connections: one setting for each is not sent any more, and two are.
    let pooled = at("pooled.workload");
    let account = rewrite(&original, &pooled, &["--pool", "2"]);
    let done = &account["rewritings"][0]["account"];
    assert_eq!(
        (&done["opened"], &done["added"]),
        (&4.into(), &2.into()),
        "{done}"
    );
    assert_eq!(done["moved"], statements - 4, "{done}");
    assert_eq!(left(&pooled, "pooled.run", statements - 2), as_it_was);
    let inspected = rehearse(&["inspect", &pooled, "--json"]);
    let inspected: Value = serde_json::from_slice(&inspected.stdout).unwrap();
    assert_eq!(inspected["sessions"]["count"], 2, "{inspected}");

    // Ten rows at a time, of whatever session, as the data of a COPY: three in the place of 30 inserts.
    let (awkward, _) = workload(&at, "awkward", awkward);
    let (inserts, copied) = (at("inserts.workload"), at("copied.workload"));
    let others = ["update", "select", "begin", "commit"].map(|one| ["--drop", one]);
    rewrite(&awkward, &inserts, others.as_flattened());
    let account = rewrite(&inserts, &copied, &["--batch-inserts", "10,copy"]);
    assert_eq!(
        account["rewritings"][0]["rewriting"],
        "batch-inserts=10,copy"
    );
    let done = &account["rewritings"][0]["account"];
    assert_eq!(
        (&done["merged"], &done["batches"]),
        (&30.into(), &3.into()),
        "{done}"
    );
    let inserted = left(&inserts, "inserts.run", 4 + 30);
    assert_eq!(left(&copied, "copied.run", 4 + 3), inserted);

    let refused = rehearse(&[
        "rewrite",
        &original,
        "-o",
        &at("no.workload"),
        "--pool",
        "0",
    ]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("pool=20"),
        "{refused:?}"
    );
}
