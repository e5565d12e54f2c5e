//! Tests to which statement a temporary file of a session is attributed.

use super::log;

/// Returns the statements of the temporary files of a log.
fn file_statements(lines: &str) -> Vec<Option<String>> {
    let (collected, _) = log(lines);
    let files = collected.server_events.iter();
    files
        .filter(|event| event.kind == workload::ServerEventKind::TemporaryFile)
        .map(|event| event.sql.as_deref().map(str::to_owned))
        .collect()
}

#[test]
fn control_statement_in_a_named_portal_is_no_cursor() {
    for (control, name) in [
        ("COMMIT", "COMMIT"),
        ("CLOSE a", "CLOSE a"),
        ("FETCH ALL FROM a", "FETCH ALL FROM a"),
    ] {
        let causes = file_statements(&format!(
            "
            10.000 1 LOG:  statement: BEGIN
            10.001 1 LOG:  statement: DECLARE a CURSOR FOR select 1
            10.002 1 LOG:  execute S/P: {control}
            10.003 1 LOG:  temporary file: path \"base/pgsql_tmp/pgsql_tmp1.0\", size 10
            10.003 1 STATEMENT:  {name}
        "
        ));
        assert_eq!(
            causes,
            [Some("DECLARE a CURSOR FOR select 1".to_owned())],
            "{control}"
        );
    }
}

#[test]
fn transaction_that_a_named_portal_committed_leaves_no_cursor_open() {
    let causes = file_statements(
        "
        10.000 1 LOG:  statement: BEGIN
        10.001 1 LOG:  statement: DECLARE a CURSOR FOR select 1
        10.002 1 LOG:  execute S/P: COMMIT
        10.003 1 LOG:  statement: BEGIN
        10.003 1 LOG:  statement: select 0
        10.004 1 LOG:  execute U/Q: select 2
        10.005 1 LOG:  execute S/P: COMMIT
        10.006 1 LOG:  temporary file: path \"base/pgsql_tmp/pgsql_tmp1.0\", size 10
        10.006 1 STATEMENT:  COMMIT
    ",
    );
    assert_eq!(causes, [Some("select 2".to_owned())]);
}
