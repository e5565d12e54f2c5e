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
    std::fs::write(at("deletes.log"), log).unwrap();
    let made = rehearse(&[
        "capture",
        "log",
        &at("deletes.log"),
        "--prefix",
        "%m [%p] ",
        "-o",
        &at("deletes.workload"),
    ]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    at("deletes.workload")
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
        "--time-budget",
        "1s",
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
        "of it the constraint line_of_basket",
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
