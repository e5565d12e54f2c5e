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

/// Sandbox with tables as the target of replays, and a directory for workloads and runs.
struct Target {
    directory: TempDir,
    sandbox: Named,
}

impl Target {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sandbox = Named::up("rewriting");
        let mut client = Client::connect(&sandbox.url, NoTls).unwrap();
        client.batch_execute(TABLE).unwrap();
        Target { directory, sandbox }
    }

    /// Returns the path of a file in the directory.
    fn at(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Replays a workload of this many statements into emptied tables. Returns a digest of the resulting data.
    fn replay(&self, workload: &str, run: &str, statements: i64) -> i64 {
        let mut client = Client::connect(&self.sandbox.url, NoTls).unwrap();
        client
            .batch_execute("TRUNCATE kinds; UPDATE counters SET n = 0")
            .unwrap();
        let done = rehearse(&[
            "replay",
            workload,
            "--target",
            &self.sandbox.url,
            "-o",
            &self.at(run),
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
    }
}

/// Rewrites a workload. Returns the command's account.
fn rewrite(from: &str, to: &str, how: &[&str]) -> Value {
    let mut arguments = vec!["rewrite", from, "-o", to, "--json"];
    arguments.extend(how);
    let done = rehearse(&arguments);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Workload in its captured form, and the digest of the data that its replay leaves.
struct Original {
    path: String,
    statements: i64,
    digest: i64,
}

#[test]
fn a_workload_in_another_form_leaves_the_same_data_behind() {
    let target = Target::new();
    let (path, statements) = workload(&|name| target.at(name), "k", plain);
    let digest = target.replay(&path, "original.run", statements);
    let original = Original {
        path,
        statements,
        digest,
    };
    assert_preparing_and_its_reverse_keep_the_data(&target, &original);
    assert_pooling_keeps_the_data(&target, &original);
    assert_copying_keeps_the_data(&target);
    assert_pool_of_no_connections_is_refused(&target, &original);
}

/// Prepares 30 inserts, updates and reads, of shapes that each session repeats, and reverses it.
fn assert_preparing_and_its_reverse_keep_the_data(target: &Target, original: &Original) {
    let prepared = target.at("prepared.workload");
    let account = rewrite(&original.path, &prepared, &["--prepare"]);
    let account = &account["rewritings"][0];
    assert_eq!(account["rewriting"], "prepare");
    assert_eq!(account["account"]["reworded"], 90, "{account}");
    assert_eq!(
        target.replay(&prepared, "prepared.run", original.statements),
        original.digest
    );

    let simple = target.at("simple.workload");
    let account = rewrite(&prepared, &simple, &["--unprepare"]);
    assert_eq!(
        account["rewritings"][0]["account"]["reworded"], 90,
        "{account}"
    );
    assert_eq!(
        target.replay(&simple, "simple.run", original.statements),
        original.digest
    );
}

/// Sends four sessions through two connections: one setting for each is not sent any more, and two are.
fn assert_pooling_keeps_the_data(target: &Target, original: &Original) {
    let pooled = target.at("pooled.workload");
    let account = rewrite(&original.path, &pooled, &["--pool", "2"]);
    let done = &account["rewritings"][0]["account"];
    assert_eq!(
        (&done["opened"], &done["added"]),
        (&4.into(), &2.into()),
        "{done}"
    );
    assert_eq!(done["moved"], original.statements - 4, "{done}");
    assert_eq!(
        target.replay(&pooled, "pooled.run", original.statements - 2),
        original.digest
    );
    let inspected = rehearse(&["inspect", &pooled, "--json"]);
    let inspected: Value = serde_json::from_slice(&inspected.stdout).unwrap();
    assert_eq!(inspected["sessions"]["count"], 2, "{inspected}");
}

/// Sends ten rows at a time, of whatever session, as the data of a COPY: three in the place of 30 inserts.
fn assert_copying_keeps_the_data(target: &Target) {
    let (awkward, _) = workload(&|name| target.at(name), "awkward", awkward);
    let (inserts, copied) = (target.at("inserts.workload"), target.at("copied.workload"));
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
    let inserted = target.replay(&inserts, "inserts.run", 4 + 30);
    assert_eq!(target.replay(&copied, "copied.run", 4 + 3), inserted);
}

fn assert_pool_of_no_connections_is_refused(target: &Target, original: &Original) {
    let refused = rehearse(&[
        "rewrite",
        &original.path,
        "-o",
        &target.at("no.workload"),
        "--pool",
        "0",
    ]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("pool=20"),
        "{refused:?}"
    );
}
