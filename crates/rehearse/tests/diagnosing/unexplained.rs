//! Statements whose time no rule explains.

use super::*;

/// A trigger whose work is in no plan of the statement.
const HIDDEN_WORK: &str = "
    CREATE EXTENSION pg_stat_statements;
    CREATE TABLE ledger AS SELECT i AS id, i % 7 AS kind FROM generate_series(1, 100000) i;
    CREATE TABLE bookings (id int, kind int);
    CREATE TABLE accounts (id int PRIMARY KEY, balance int);
    INSERT INTO accounts SELECT i, 0 FROM generate_series(1, 10000) i;
    CREATE FUNCTION recount() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM count(*) FROM ledger WHERE kind = NEW.kind AND id >= 0; RETURN NEW; END $$;
    CREATE TRIGGER recount BEFORE INSERT ON bookings FOR EACH ROW EXECUTE FUNCTION recount();
    ANALYZE; CHECKPOINT;";

fn bookings() -> Script {
    let mut script = Script::default();
    for number in 0..100 {
        let ms = 20 + number * 20;
        script.prepared(
            ms,
            200,
            "b",
            "INSERT INTO bookings (id, kind) VALUES ($1, $2)",
            &[number, number % 7],
        );
        script.prepared(
            ms,
            201,
            "s",
            "SELECT balance FROM accounts WHERE id = $1",
            &[number + 1],
        );
    }
    script
}

#[test]
fn statement_that_no_finding_explains_heads_the_report_and_decides_the_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    // On a slow disk, flushes at commits explain the time.
    let (_sandbox, endpoint) = server_with(&[("synchronous_commit", "off")]);
    let url = endpoint.url("postgres");
    postgres::Client::connect(&url, postgres::NoTls)
        .unwrap()
        .batch_execute(HIDDEN_WORK)
        .unwrap();
    let run = replayed(directory.path(), "bookings", bookings(), &url, None);
    let (code, diagnosis) = diagnosed(&[&run]);
    assert_eq!(code, Some(1), "{diagnosis:#}");
    let first = &diagnosis["findings"][0];
    assert_eq!(first["rule"], "unexplained", "{diagnosis:#}");
    let title = first["title"].as_str().unwrap();
    assert!(
        title.starts_with("no finding explains: insert into bookings")
            && title.ends_with("blocks per call for 1 row"),
        "{title}"
    );
    let next = first["changes"][0]["message"].as_str().unwrap();
    assert!(next.contains("triggers"), "{next}");
    let account = &diagnosis["accounts"][0];
    assert_eq!(account["needs_explanation"], true, "{account:#}");
    assert_eq!(account["explained_share"], 0.0, "{account:#}");

    let text = rehearse(&["diagnose", &run]);
    let text = String::from_utf8(text.stdout).unwrap();
    let first = text.lines().find(|line| line.starts_with("problem: "));
    assert!(
        first.is_some_and(|line| line.starts_with("problem: no finding explains: insert into")),
        "{text}"
    );
}
