//! Problems of statement statistics and connections, and near misses.

use super::*;

const COLUMNS: u32 = 20;

/// A server that keeps a hundred statements and does not count planning.
fn forgetful() -> (Sandbox, Endpoint) {
    let (sandbox, endpoint) = server_with(&[
        ("pg_stat_statements.max", "100"),
        ("pg_stat_statements.track_planning", "off"),
    ]);
    let mut client = postgres::Client::connect(&endpoint.url("postgres"), postgres::NoTls).unwrap();
    client
        .batch_execute("CREATE EXTENSION pg_stat_statements")
        .unwrap();
    let columns: Vec<String> = (0..COLUMNS)
        .map(|column| format!("c{column} int"))
        .collect();
    client
        .batch_execute(&format!("CREATE TABLE t ({})", columns.join(", ")))
        .unwrap();
    (sandbox, endpoint)
}

/// Creates `count` sessions that each send `each` statements with `texts` different texts, over two seconds.
fn sessions(count: u32, each: u32, texts: u32) -> Script {
    let mut script = Script::default();
    for session in 0..count {
        for number in 0..each {
            let text = (session * each + number) % texts;
            script.at(
                20 + number * 2_000 / each + session * 3,
                100 + session,
                // Names that are given to results make no other statement; columns do.
                &format!(
                    "SELECT c{} FROM t WHERE c{} = {number}",
                    text / COLUMNS,
                    text % COLUMNS
                ),
            );
        }
    }
    script
}

#[test]
fn statistics_that_forget_or_hurt_and_connections_that_are_hardly_used_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = forgetful();
    let url = endpoint.url("postgres");

    // 60 connections for 5 statements each, of 300 different texts.
    let run = replayed(directory.path(), "many", sessions(60, 5, 300), &url, None);
    let (_, diagnosis) = diagnosed(&[&run, "--threshold", "planning-unseen-ms=0"]);
    for (rule, words) in [
        ("evictions", "thrown out of the statistics"),
        ("planning-blind-spot", "planning is not counted"),
        (
            "connection-churn",
            "connections a second are opened, for 5.0 statements each",
        ),
    ] {
        assert!(found(&diagnosis, rule, words), "{rule}: {diagnosis:#}");
    }
    assert!(!found(&diagnosis, "statistics-cliff", ""), "{diagnosis:#}");

    // 6 connections for 40 statements each, all of one text: nothing is thrown out, nothing is churned. The statistics
    // are not full, since the queries of the replay need room, too.
    postgres::Client::connect(&url, postgres::NoTls)
        .unwrap()
        .batch_execute("SELECT pg_stat_statements_reset()")
        .unwrap();
    let run = replayed(directory.path(), "few", sessions(6, 40, 1), &url, None);
    let (_, diagnosis) = diagnosed(&[&run, "--threshold", "planning-unseen-ms=0"]);
    for rule in ["evictions", "connection-churn", "statistics-cliff"] {
        assert!(!found(&diagnosis, rule, ""), "{rule}: {diagnosis:#}");
    }
    assert!(
        found(&diagnosis, "planning-blind-spot", ""),
        "{diagnosis:#}"
    );
    // On a machine whose cliff is near, the same rate is a warning, and counting planning no advice.
    let near = [
        "--threshold",
        "cliff-calls-per-second=10",
        "--threshold",
        "planning-unseen-ms=0",
    ];
    let (code, diagnosis) = diagnosed(&[&[run.as_str()], &near[..]].concat());
    assert!(found(&diagnosis, "statistics-cliff", ""), "{diagnosis:#}");
    assert!(
        !found(&diagnosis, "planning-blind-spot", ""),
        "{diagnosis:#}"
    );
    assert_eq!(code, Some(1));

    // Where planning is counted, nobody is blind.
    postgres::Client::connect(&url, postgres::NoTls)
        .unwrap()
        .batch_execute("ALTER SYSTEM SET pg_stat_statements.track_planning = on")
        .unwrap();
    postgres::Client::connect(&url, postgres::NoTls)
        .unwrap()
        .batch_execute("SELECT pg_reload_conf(); SELECT pg_sleep(0.5)")
        .unwrap();
    let run = replayed(directory.path(), "counted", sessions(6, 40, 1), &url, None);
    let (_, diagnosis) = diagnosed(&[&run, "--threshold", "planning-unseen-ms=0"]);
    assert!(
        !found(&diagnosis, "planning-blind-spot", ""),
        "{diagnosis:#}"
    );
}

#[test]
fn diagnosis_by_a_role_without_rights_names_the_grants() {
    let (_sandbox, endpoint) = forgetful();
    let mut owner = postgres::Client::connect(&endpoint.url("postgres"), postgres::NoTls).unwrap();
    let setup = "CREATE SCHEMA dba; ALTER EXTENSION pg_stat_statements SET SCHEMA dba; CREATE ROLE weak LOGIN";
    owner.batch_execute(setup).unwrap();
    let url = endpoint.url("postgres").replacen("postgres@", "weak@", 1);
    let grants = || -> Vec<String> {
        let (_, diagnosis) = diagnosed(&["--target", &url, "--duration", "1s"]);
        let hidden = diagnosis["hidden"].as_array().unwrap().iter();
        hidden
            .map(|one| one["grant"].as_str().unwrap().to_owned())
            .collect()
    };
    let found = grants();
    let missing = "GRANT USAGE ON SCHEMA dba TO weak";
    assert!(found.iter().any(|one| one == missing), "{found:?}");
    owner.batch_execute(missing).unwrap();
    let found = grants();
    let missing = "GRANT pg_read_all_stats TO weak";
    assert!(found.iter().any(|one| one == missing), "{found:?}");
    owner.batch_execute("GRANT pg_monitor TO weak").unwrap();
    assert_eq!(grants(), Vec::<String>::new());
}
