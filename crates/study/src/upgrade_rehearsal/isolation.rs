//! Isolation of private servers: a replay there must not reach the systems that production reaches.
//!
//! A dump has foreign servers with their addresses and passwords, and functions that connect to other systems. So user mappings
//! and subscriptions are not restored, and the following is switched off after the definitions are restored, before data
//! are: the restore itself executes queries of materialized views.
//!
//! On servers of the user nothing is switched off. A rehearsal there is refused, unless the user confirms it.

use connect::Target;
use planner_copy::REACHING_EXTENSIONS;

use crate::environment::{ask, quote_literal};
use crate::failure::Failure;

/// File of the script.
pub(super) const FILE: &str = "isolate.sql";

/// Tests a line of `pg_restore --list` for a user mapping, as a basic regular expression. Source: `pg_backup_archiver.c`,
/// `PrintTOCSummary`: dump identifier, table OID, OID, type.
pub(super) const USER_MAPPING: &str = "^[0-9]*; [0-9]* [0-9]* USER MAPPING ";

/// Returns statements that switch off foreign tables, extensions that connect to other systems, and commands that create such
/// connections. They print a line for each thing that was switched
/// off.
///
/// Without its handler, a foreign-data wrapper is refused on each use (`GetFdwRoutine` in `foreign.c`). Functions of
/// extensions get a body that fails, since dropping them would drop the views that use them. Event triggers do not fire
/// for `CREATE EXTENSION` of a certain name only, so a workload that creates such an extension is not covered.
pub(super) fn script() -> String {
    SCRIPT.replace("EXTENSIONS", &extensions())
}

/// Refuses servers of the user whose database reaches other systems: foreign servers, extensions that connect, and enabled
/// subscriptions.
///
/// # Errors
/// If there are any, or a server cannot be read.
pub(super) fn refuse(databases: [(&str, &Target); 2]) -> Result<(), Failure> {
    for (option, database) in databases {
        let rows =
            ask(database, &REACHING.replace("EXTENSIONS", &extensions())).map_err(|error| {
                Failure::could_not(format!(
                    "cannot read the foreign servers of {option}, {}: {error}",
                    database.address()
                ))
            })?;
        let found: Vec<String> = rows.into_iter().flatten().flatten().collect();
        if !found.is_empty() {
            return Err(Failure::usage(format!(
                "the database of {option}, {}, reaches other systems, and the replay may write there: {}; drop them in the copy, for example in --restore, or confirm with --allow-foreign-servers that they lead to no production",
                database.address(),
                found.join(", ")
            )));
        }
    }
    Ok(())
}

/// Returns the extensions that connect to other systems, as a list of SQL.
fn extensions() -> String {
    let literals = REACHING_EXTENSIONS.map(quote_literal);
    literals.join(", ")
}

/// Names what reaches other systems in a database.
const REACHING: &str = "SELECT 'foreign server ' || srvname FROM pg_catalog.pg_foreign_server s
  JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw WHERE w.fdwhandler <> 0
UNION ALL SELECT 'extension ' || extname FROM pg_catalog.pg_extension WHERE extname IN (EXTENSIONS)
UNION ALL SELECT 'subscription ' || subname FROM pg_catalog.pg_subscription s
  JOIN pg_catalog.pg_database d ON d.oid = s.subdbid WHERE d.datname = current_database() AND s.subenabled
ORDER BY 1";

const SCRIPT: &str = r#"\set ON_ERROR_STOP on
SELECT 'foreign-data wrapper ' || fdwname FROM pg_foreign_data_wrapper WHERE fdwhandler <> 0 ORDER BY fdwname;
SELECT format('ALTER FOREIGN DATA WRAPPER %I NO HANDLER', fdwname) FROM pg_foreign_data_wrapper WHERE fdwhandler <> 0 \gexec
CREATE TEMP TABLE reaching AS SELECT oid, extname FROM pg_extension WHERE extname IN (EXTENSIONS);
SELECT 'extension ' || extname FROM reaching ORDER BY extname;
UPDATE pg_catalog.pg_proc p SET prolang = (SELECT oid FROM pg_language WHERE lanname = 'plpgsql'), probin = NULL,
  prosrc = 'BEGIN RAISE EXCEPTION ''rehearse: connections to other systems are switched off on private servers''; END'
FROM pg_depend d JOIN reaching r ON d.refobjid = r.oid
WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND NOT EXISTS (SELECT FROM pg_aggregate WHERE aggfnoid = p.oid);
SELECT 'NOT the language ' || lanname FROM pg_language l
WHERE NOT lanpltrusted AND lanname NOT IN ('internal', 'c', 'plproxy')
  AND EXISTS (SELECT FROM pg_proc WHERE prolang = l.oid) ORDER BY lanname;
CREATE SCHEMA rehearse_isolation;
CREATE FUNCTION rehearse_isolation.refuse() RETURNS event_trigger LANGUAGE plpgsql AS
  'BEGIN RAISE EXCEPTION ''rehearse: % is switched off on private servers'', tg_tag; END';
CREATE EVENT TRIGGER rehearse_isolation ON ddl_command_start WHEN TAG IN
  ('CREATE SUBSCRIPTION', 'ALTER SUBSCRIPTION', 'CREATE SERVER', 'ALTER SERVER', 'CREATE USER MAPPING', 'ALTER USER MAPPING',
   'CREATE FOREIGN DATA WRAPPER', 'ALTER FOREIGN DATA WRAPPER', 'IMPORT FOREIGN SCHEMA')
  EXECUTE PROCEDURE rehearse_isolation.refuse();
ALTER EVENT TRIGGER rehearse_isolation ENABLE ALWAYS;
"#;

/// Returns the lines of the script as a sentence for the report.
pub(super) fn sentences(printed: &str) -> Vec<String> {
    let (open, off): (Vec<&str>, Vec<&str>) = (printed.lines().filter(|line| !line.is_empty()))
        .partition(|line| line.starts_with("NOT "));
    let mut sentences = Vec::new();
    if !off.is_empty() {
        sentences.push(format!(
            "switched off on both private servers, since they reach other systems, so statements that use them fail: {}",
            off.join(", ")
        ));
    }
    let open: Vec<&str> = open
        .iter()
        .map(|line| line.trim_start_matches("NOT "))
        .collect();
    if !open.is_empty() {
        sentences.push(format!(
            "functions in {} were executed on private servers, and may have reached other systems",
            open.join(", ")
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_switched_off_and_what_was_not_are_two_sentences() {
        let found =
            sentences("foreign-data wrapper a\nextension dblink\nNOT the language plpython3u\n");
        assert_eq!(found.len(), 2);
        assert!(found[0].ends_with("foreign-data wrapper a, extension dblink"));
        assert!(found[1].contains("functions in the language plpython3u"));
        assert!(sentences("\n").is_empty());
    }

    #[test]
    fn database_with_foreign_servers_or_dblink_is_refused_and_one_without_is_not() {
        let (_server, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let sides = [("--from", &target), ("--target", &target)];
        refuse(sides).unwrap();
        let offered =
            "SELECT count(*) FROM pg_available_extensions WHERE name IN ('dblink', 'postgres_fdw')";
        if ask(&target, offered).unwrap()[0][0].as_deref() != Some("2") {
            test_support::report_skipped("dblink or postgres_fdw is not installed");
            return;
        }
        for sql in [
            "CREATE EXTENSION dblink",
            "CREATE EXTENSION postgres_fdw",
            "CREATE SERVER prod FOREIGN DATA WRAPPER postgres_fdw",
        ] {
            ask(&target, sql).unwrap();
        }
        let refused = refuse(sides).unwrap_err().message;
        assert!(
            refused.contains("--from") && refused.contains("extension dblink, foreign server prod"),
            "{refused}"
        );
    }
}
