//! Causes that only an experiment in the sandbox shows: work that is in no plan of the statement.

use super::*;

/// Baskets whose lines have lines of their own. The first foreign key has an index, the second has none.
const BASKETS: &str = "
    CREATE TABLE basket (id int PRIMARY KEY, note text);
    CREATE TABLE basket_line (id int PRIMARY KEY, basket_id int NOT NULL
        CONSTRAINT line_of_basket REFERENCES basket ON DELETE CASCADE);
    CREATE TABLE line_note (id int PRIMARY KEY, \"Line\" int NOT NULL
        CONSTRAINT note_of_line REFERENCES basket_line ON DELETE CASCADE);
    INSERT INTO basket SELECT i, 'note' FROM generate_series(1, 20000) i;
    INSERT INTO basket_line SELECT i, i % 20000 + 1 FROM generate_series(1, 60000) i;
    INSERT INTO line_note SELECT i, i % 60000 + 1 FROM generate_series(1, 120000) i;
    CREATE INDEX ON basket_line (basket_id);
    ANALYZE;";

fn deletes(at: &dyn Fn(&str) -> String) -> String {
    let mut log = String::from(
        "2026-03-01 09:00:00.000 UTC [100] LOG:  connection authorized: user=postgres database=postgres\n",
    );
    for number in 0..40 {
        let ms = 20 + number * 10;
        writeln!(
            log,
            "2026-03-01 09:00:00.{ms:03} UTC [100] LOG:  execute d: DELETE FROM basket WHERE id = $1\n\
             2026-03-01 09:00:00.{ms:03} UTC [100] DETAIL:  parameters: $1 = '{}'\n\
             2026-03-01 09:00:00.{ms:03} UTC [100] LOG:  statement: SELECT note FROM basket WHERE id = {}",
            number + 1,
            number + 5000
        )
        .unwrap();
    }
    captured(at, "deletes", &log)
}

#[test]
fn foreign_key_without_an_index_is_confirmed_by_an_experiment_that_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let sandbox = Named::up("cause-experiments");
    Client::connect(&sandbox.url, NoTls)
        .unwrap()
        .batch_execute(BASKETS)
        .unwrap();
    let done = rehearse(&[
        "diagnose",
        &deletes(&at),
        "--prove",
        "--sandbox",
        &sandbox.name,
        "-o",
        &at("round"),
        // The proof itself is tested elsewhere.
        "--max-findings",
        "0",
        "--json",
    ]);
    let view = validated_as("diagnose", &done);
    assert_eq!(done.status.code(), Some(1), "{view:#}");
    let first = &view["findings"][0];
    assert_eq!(first["rule"], "experiment", "{view:#}");
    let title = first["title"].as_str().unwrap();
    assert!(
        title.starts_with("the foreign key note_of_line searches all of public.line_note"),
        "{title}"
    );
    assert_eq!(
        first["changes"][0]["form"]["sql"],
        "CREATE INDEX ON public.line_note (\"Line\");"
    );
    assert!(first["max_gain"].as_f64().unwrap() > 0.4, "{first:#}");
    let constraint = by(
        &first["evidence"],
        "name",
        "of it the constraint line_of_basket of basket",
    );
    assert!(constraint["number"].as_f64().unwrap() > 0.0, "{first:#}");
    let account = by(&view["accounts"], "sql", "delete from basket where id = $1");
    assert!(
        account["explained_share"].as_f64().unwrap() > 0.5,
        "{account:#}"
    );
    assert_eq!(sandbox.ask("SELECT count(*) FROM basket"), 20_000);
    assert_eq!(
        sandbox.ask("SELECT count(*) FROM pg_indexes WHERE tablename = 'line_note'"),
        1
    );
}

/// Tables that lack an index of an expression, of a document, and one for the statement inside of a trigger.
const TROUBLES: &str = "
    CREATE TABLE member (id int PRIMARY KEY, email text);
    INSERT INTO member SELECT i, 'User' || i || '@x.org' FROM generate_series(1, 60000) i;
    CREATE INDEX ON member (email);
    CREATE TABLE doc (id int PRIMARY KEY, attrs jsonb);
    INSERT INTO doc SELECT i, jsonb_build_object('size', i % 1000, 'n', i) FROM generate_series(1, 40000) i;
    CREATE TABLE ledger (id int PRIMARY KEY, account int, amount int);
    INSERT INTO ledger SELECT i, i % 5000, 1 FROM generate_series(1, 80000) i;
    CREATE TABLE booking (id serial PRIMARY KEY, account int);
    CREATE FUNCTION check_balance() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM sum(amount) FROM ledger WHERE account = NEW.account; RETURN NEW; END $$;
    CREATE TRIGGER balance BEFORE INSERT ON booking FOR EACH ROW EXECUTE PROCEDURE check_balance();
    ANALYZE;";

fn troubled(at: &dyn Fn(&str) -> String) -> String {
    let mut log = String::from(
        "2026-03-01 09:00:00.000 UTC [100] LOG:  connection authorized: user=postgres database=postgres\n",
    );
    for number in 0..30 {
        let ms = 20 + number * 20;
        let mut execute = |sql: &str, value: String| {
            writeln!(
                log,
                "2026-03-01 09:00:00.{ms:03} UTC [100] LOG:  execute <unnamed>: {sql}\n\
                 2026-03-01 09:00:00.{ms:03} UTC [100] DETAIL:  parameters: $1 = '{value}'"
            )
            .unwrap();
        };
        let email = format!("user{}@x.org", number + 1);
        execute("SELECT id FROM member WHERE lower(email) = $1", email);
        let size = format!("{{\"size\": {number}}}");
        execute("SELECT id FROM doc WHERE attrs @> $1", size);
        execute(
            "INSERT INTO booking (account) VALUES ($1)",
            number.to_string(),
        );
    }
    captured(at, "troubled", &log)
}

/// Returns the sum of the own times of a part and those below.
fn sum_of_parts(part: &Value) -> f64 {
    let below = part["children"].as_array().unwrap().iter();
    part["own_ms"].as_f64().unwrap() + below.map(sum_of_parts).sum::<f64>()
}

#[test]
fn changes_that_remove_a_cause_are_confirmed_and_the_parts_of_the_time_add_up() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let sandbox = Named::up("confirmed-causes");
    Client::connect(&sandbox.url, NoTls)
        .unwrap()
        .batch_execute(TROUBLES)
        .unwrap();
    let done = rehearse(&[
        "diagnose",
        &troubled(&at),
        "--prove",
        "--sandbox",
        &sandbox.name,
        "-o",
        &at("round"),
        "--max-findings",
        "0",
        "--impact-of",
        "index:member_email_idx",
        "--impact-of",
        "setting:enable_tidscan=off",
        "--impact-of",
        "index:member_pkey",
        "--impact-of",
        "setting:checkpoint_timeout=1h",
        "--json",
    ]);
    let view = validated_as("diagnose", &done);
    let findings = view["findings"].as_array().unwrap();
    for (words, changes) in [
        (
            "lower(email)",
            &["CREATE INDEX ON public.member ((lower(email)));"][..],
        ),
        (
            "from doc",
            &[
                "CREATE INDEX ON public.doc USING gin (attrs jsonb_path_ops);",
                "CREATE INDEX ON public.doc USING gin (attrs);",
            ],
        ),
        (
            "into booking",
            &[
                "CREATE INDEX ON public.ledger (\"account\");",
                "CREATE INDEX ON public.ledger (\"account\", \"amount\");",
            ],
        ),
    ] {
        let confirmed = findings.iter().find(|one| {
            one["status"] == "confirmed" && one["subject"]["name"].as_str().unwrap().contains(words)
        });
        let confirmed = confirmed.unwrap_or_else(|| panic!("{words}: {view:#}"));
        let first = &confirmed["changes"][0];
        let sql = first["form"]["sql"].as_str().unwrap();
        assert!(changes.contains(&sql), "{words}: {confirmed:#}");
        assert_eq!(first["trial"]["outcome"], "removes_cause", "{first:#}");
        assert!(
            first["trial"]["index_bytes"].as_u64().unwrap() > 0,
            "{first:#}"
        );
    }
    // Nothing is faster without the first two; the others cannot be tried.
    let verdicts = view["suspects"].as_array().unwrap().iter();
    let verdicts: Vec<&str> = verdicts
        .map(|one| one["verdict"].as_str().unwrap())
        .collect();
    let expected = ["cleared", "cleared", "could_matter", "could_matter"];
    assert_eq!(verdicts, expected, "{:#}", view["suspects"]);
    for account in view["accounts"].as_array().unwrap() {
        let measured = &account["measured"];
        assert_eq!(measured["account"], "measured", "{account:#}");
        let sum = sum_of_parts(&measured["parts"]);
        let executions = measured["executions"].as_array().unwrap();
        let is_whole = |one: &Value| (one["ms"].as_f64().unwrap() - sum).abs() < 1e-6;
        assert!(executions.iter().any(is_whole), "{sum}: {account:#}");
        assert!(executions.len() > 1, "{account:#}");
    }
    assert_eq!(sandbox.ask("SELECT count(*) FROM booking"), 0);
    let indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'public'";
    assert_eq!(sandbox.ask(indexes), 5);
}

/// A second database whose rows a policy hides from the role that reads them.
const SHOP: &str = "
    CREATE TABLE sale (id int PRIMARY KEY, clerk text NOT NULL, amount int NOT NULL);
    INSERT INTO sale SELECT i, CASE WHEN i % 1000 = 0 THEN 'clerk' ELSE 'other' END, i / 200
        FROM generate_series(1, 20000) i;
    CREATE INDEX ON sale (amount);
    ALTER TABLE sale ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON sale FOR SELECT USING (clerk = current_user);
    GRANT SELECT ON sale TO clerk;
    ANALYZE;";

fn sales(at: &dyn Fn(&str) -> String) -> String {
    let mut log = String::from(
        "2026-03-01 09:00:00.000 UTC [100] LOG:  connection authorized: user=clerk database=shop\n",
    );
    for number in 0..20 {
        let ms = 20 + number * 20;
        writeln!(
            log,
            "2026-03-01 09:00:00.{ms:03} UTC [100] LOG:  statement: SELECT id, amount FROM sale WHERE amount >= {number}"
        )
        .unwrap();
    }
    captured(at, "sales", &log)
}

#[test]
fn statements_are_executed_in_their_database_as_their_role_with_its_settings() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let sandbox = Named::up("cause-experiment-roles");
    let mut owner = Client::connect(&sandbox.url, NoTls).unwrap();
    owner
        .batch_execute("CREATE ROLE clerk LOGIN; ALTER ROLE clerk SET enable_seqscan = off")
        .unwrap();
    owner.batch_execute("CREATE DATABASE shop").unwrap();
    let (server, _) = sandbox.url.rsplit_once('/').unwrap();
    let url = format!("{server}/shop");
    Client::connect(&url, NoTls)
        .unwrap()
        .batch_execute(SHOP)
        .unwrap();
    let diagnose = |output: &str, more: &[&str]| {
        let (workload, output) = (at("sales.workload"), at(output));
        let given = [
            "diagnose",
            &workload,
            "--prove",
            "--sandbox",
            &sandbox.name,
            "-o",
            &output,
            "--json",
        ];
        rehearse(&[&given, more].concat())
    };
    sales(&at);
    let view = validated_as("diagnose", &diagnose("round", &["--max-findings", "0"]));
    let account = by(
        &view["accounts"],
        "sql",
        "select id, amount from sale where amount >= $1",
    );
    let parts = &account["measured"]["parts"]["children"];
    let scan = parts
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["kind"] == "node");
    let scan = scan.unwrap_or_else(|| panic!("{account:#}"));
    // As the owner it would give all rows.
    let rows = scan["rows"].as_f64().unwrap();
    assert!((1.0..=50.0).contains(&rows), "{account:#}");
    // All rows qualify: only with the setting of the role the planner uses the index.
    assert!(
        account["measured"].to_string().contains("sale_amount_idx"),
        "{account:#}"
    );
    // Without time nothing is executed, and each statement has the reason.
    let view = validated_as("diagnose", &diagnose("brief", &["--time-budget", "1ms"]));
    for account in view["accounts"].as_array().unwrap() {
        let reason = account["measured"]["reason"].as_str().unwrap();
        assert!(
            reason.starts_with("the time for experiments was over"),
            "{account:#}"
        );
    }
    assert!(!view["accounts"].as_array().unwrap().is_empty(), "{view:#}");
}
