//! More sessions than connections, on a real server.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::traffic::{Traffic, server, statements};
use replay::Options;
use run::{Outcome, SkipReason, StatementKind};
use sandbox::Endpoint;
use test_support::connect;

/// Thirty sessions, each with settings, a prepared statement and transactions of its own.
fn many(server: &Endpoint) -> Traffic {
    connect(server)
        .batch_execute("CREATE TABLE seen (session int, place int, setting text, isolated bool)")
        .unwrap();
    let mut traffic = Traffic::new(server);
    for session in 1..=30 {
        let start_ms = session as i64;
        traffic.connect(start_ms, session);
        if session % 3 == 0 {
            traffic.simple(start_ms, session, &format!("SET a.b = '{session}'"));
        }
        for place in 0..10 {
            let at_ms = 20 + start_ms + 50 * place;
            traffic.simple(at_ms, session, "BEGIN");
            traffic.execute(
                at_ms + 2,
                session,
                // Every session has its own text under this name.
                "s",
                &format!(
                    "INSERT INTO seen VALUES ({session}, $1, coalesce(nullif(current_setting('a.b', true), ''), '-'), true)"
                ),
                &place.to_string(),
            );
            traffic.simple(at_ms + 5, session, "COMMIT");
        }
        traffic.disconnect(700, session);
    }
    traffic
}

#[test]
fn reopened_session_without_state_is_counted_once_when_connections_are_shared() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    traffic.simple(10, 1, "SELECT pg_terminate_backend(pg_backend_pid())");
    // The connection is opened again, and there is nothing to restore.
    traffic.simple(300, 1, "SELECT 1");
    // Another session takes the only connection, and the first takes it back.
    traffic.connect(400, 2);
    traffic.simple(410, 2, "SELECT 2");
    traffic.disconnect(500, 2);
    traffic.connect(510, 3);
    traffic.simple(520, 3, "SELECT 3");
    traffic.simple(700, 1, "SELECT 4");
    traffic.simple(800, 3, "SELECT 5");
    traffic.disconnect(900, 1);
    traffic.disconnect(900, 3);
    let options = Options {
        connections_max: Some(1),
        workers: 1,
        ..Options::default()
    };
    let (info, _) = traffic.replay(&options, |_| ());
    assert_eq!(info.connections_lost.values().sum::<u64>(), 1, "{info:?}");
    assert!(
        info.options.contains_key("connections_handed_over"),
        "{info:?}"
    );
    assert_eq!(info.connections_reopened, 1, "{info:?}");
}

#[test]
fn sessions_share_connections_and_see_only_their_own() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = many(&server);
    let mut admin = connect(&server);
    let most = AtomicI64::new(0);
    for (max, workers) in [(4, 1), (5, 2), (100, 1)] {
        admin.batch_execute("TRUNCATE seen").unwrap();
        most.store(0, Ordering::Relaxed);
        let options = Options {
            connections_max: Some(max),
            workers,
            ..Options::default()
        };
        let (info, executions) = traffic.replay(&options, |_| {
            let count: i64 = admin
                .query_one(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'traffic'",
                    &[],
                )
                .unwrap()
                .get(0);
            most.fetch_max(count, Ordering::Relaxed);
        });
        assert_eq!(info.done, info.statements, "{info:?}");
        assert!(!info.options.contains_key("restore_errors"), "{info:?}");
        let most = most.load(Ordering::Relaxed);
        assert!((1..=i64::from(max)).contains(&most), "{most} of {max}");
        let handed_over = info.options.contains_key("connections_handed_over");
        assert_eq!(handed_over, max < 30, "{info:?}");
        let rows = admin
            .query("SELECT session, count(*), count(DISTINCT place), min(setting), max(setting) FROM seen GROUP BY 1 ORDER BY 1", &[])
            .unwrap();
        assert_eq!(rows.len(), 30);
        for row in rows {
            let session: i32 = row.get(0);
            let setting = match session % 3 {
                0 => session.to_string(),
                _ => "-".to_owned(),
            };
            let found: (i64, i64, String, String) =
                (row.get(1), row.get(2), row.get(3), row.get(4));
            assert_eq!(
                found,
                (10, 10, setting.clone(), setting),
                "session {session}"
            );
        }
        let shared = executions
            .iter()
            .filter(|execution| execution.kind == StatementKind::Connect)
            .filter(|execution| execution.outcome == Outcome::Skipped(SkipReason::ConnectionShared))
            .count();
        assert_eq!(shared, 30_usize.saturating_sub(max as usize));
    }
}

#[test]
fn connection_state_binds_a_session_to_its_connection() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    traffic.simple(10, 1, "CREATE TEMP TABLE mine (n int)");
    traffic.simple(20, 1, "INSERT INTO mine VALUES (7)");
    traffic.simple(200, 1, "SELECT 1 / (n - 6) FROM mine");
    traffic.simple(210, 1, "DROP TABLE mine");
    traffic.connect(0, 2);
    traffic.simple(30, 2, "SELECT 1");
    traffic.disconnect(40, 2);
    traffic.disconnect(400, 1);
    let options = Options {
        connections_max: Some(1),
        ..Options::default()
    };
    let (info, executions) = traffic.replay(&options, |_| ());
    assert_eq!(info.done, 5, "{info:?}");
    // The other one waited until the table was gone.
    let waited = statements(&executions)
        .into_iter()
        .find(|execution| execution.session == 2)
        .unwrap();
    let dropped = executions
        .iter()
        .find(|execution| execution.session == 1 && execution.sequence == 4)
        .unwrap();
    assert!(waited.sent_ns > dropped.done_ns, "{waited:?} {dropped:?}");
    assert!(waited.session_lag_ns > 100_000_000);
}

#[test]
fn lost_connections_are_replaced_also_where_they_are_shared() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = many(&server);
    let mut admin = connect(&server);
    let options = Options {
        connections_max: Some(4),
        ..Options::default()
    };
    let (info, _) = traffic.replay(&options, |_| {
        admin
            .execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE application_name = 'traffic' ORDER BY random() LIMIT 1",
                &[],
            )
            .unwrap();
    });
    let lost: u64 = info.connections_lost.values().sum();
    assert!(lost > 0 && info.done > info.statements / 2, "{info:?}");
}

/// State that no SQL text shows: a function sets a parameter, and a row takes its number from a sequence.
#[test]
fn state_set_by_a_function_is_discarded_for_the_next_session() {
    let (_sandbox, server) = server(&[]);
    let mut admin = connect(&server);
    admin
        .batch_execute(
            "CREATE TABLE numbered (id serial, session int);
             CREATE TABLE told (session int, tenant text);
             CREATE FUNCTION tenant(name text) RETURNS void LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM set_config('app.tenant', name, false); END $$",
        )
        .unwrap();
    let mut traffic = Traffic::new(&server);
    for session in 1..=6 {
        traffic.connect(session as i64, session);
        let at_ms = 20 + 20 * session as i64;
        if session % 2 == 1 {
            traffic.simple(at_ms, session, &format!("SELECT tenant('{session}')"));
            let sql = format!("INSERT INTO numbered (session) VALUES ({session})");
            traffic.simple(at_ms + 2, session, &sql);
        } else {
            let sql =
                format!("INSERT INTO told VALUES ({session}, current_setting('app.tenant', true))");
            traffic.simple(at_ms, session, &sql);
            // As on a separate connection: the session has used no sequence.
            traffic.simple(at_ms + 2, session, "SELECT lastval()");
        }
        traffic.disconnect(400, session);
    }
    let options = Options {
        connections_max: Some(1),
        ..Options::default()
    };
    let (info, _) = traffic.replay(&options, |_| {});
    assert_eq!(info.failed.get("55000"), Some(&3), "{info:?}");
    assert_eq!(info.done + 3, info.statements, "{info:?}");
    let count = |tenant: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM told WHERE coalesce(tenant, '') {tenant} ''");
        connect(&server).query_one(&sql, &[]).unwrap().get(0)
    };
    assert_eq!((count("<>"), count("=")), (0, 3));
}
