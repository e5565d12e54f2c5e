//! Replays as a role that has no right to write.

use replay::{LoginMap, ReplayError};

use super::*;

/// A role that may read everything, and what has to be revoked for that: in a database of a version before 15
/// everyone may create tables in `public`, and everyone may execute functions of dblink.
const ROLE: &str = "
    CREATE ROLE reader LOGIN PASSWORD 'attack';
    GRANT USAGE ON SCHEMA public TO reader;
    GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
    REVOKE CREATE ON SCHEMA public FROM PUBLIC;
    DO $$ DECLARE f text; BEGIN
        FOR f IN SELECT objid::regprocedure FROM pg_depend WHERE deptype = 'e' AND classid = 'pg_proc'::regclass LOOP
            EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || f || ' FROM PUBLIC';
        END LOOP; END $$;
    -- A role of those that only read.
    GRANT pg_monitor TO reader";

/// Objects that rights are granted on.
const OBJECTS: &str = "
    CREATE ROLE writer;
    CREATE DATABASE elsewhere;
    CREATE TABLE t (a int, b int);
    CREATE VIEW seen AS SELECT * FROM t;
    CREATE SEQUENCE s;
    CREATE SCHEMA app;
    CREATE FOREIGN DATA WRAPPER w;
    CREATE SERVER remote FOREIGN DATA WRAPPER w;
    CREATE FUNCTION definer() RETURNS int LANGUAGE sql AS 'SELECT 1';
    CREATE FUNCTION alias(text) RETURNS text LANGUAGE internal VOLATILE AS 'pg_read_file_all';
    REVOKE EXECUTE ON FUNCTION alias(text) FROM PUBLIC;
    CREATE FUNCTION on_ddl() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN END';
    CREATE EXTENSION dblink;
    CREATE FUNCTION step(s int, n int) RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';
    REVOKE EXECUTE ON FUNCTION step(int, int) FROM PUBLIC;
    SELECT lo_create(4712)";

/// First version, statements that give the role a right to write, the right's name in the message, and statements
/// that take the right back.
const RIGHTS: &[(u16, &str, &str, &str)] = &[
    (
        10,
        "ALTER ROLE reader SUPERUSER",
        "reader is SUPERUSER",
        "ALTER ROLE reader NOSUPERUSER",
    ),
    (
        10,
        "ALTER ROLE reader CREATEDB",
        "reader is CREATEDB",
        "ALTER ROLE reader NOCREATEDB",
    ),
    (
        10,
        "ALTER ROLE reader CREATEROLE",
        "reader is CREATEROLE",
        "ALTER ROLE reader NOCREATEROLE",
    ),
    (
        10,
        "ALTER ROLE reader REPLICATION",
        "reader is REPLICATION",
        "ALTER ROLE reader NOREPLICATION",
    ),
    (
        10,
        "ALTER ROLE reader BYPASSRLS",
        "reader is BYPASSRLS",
        "ALTER ROLE reader NOBYPASSRLS",
    ),
    (
        10,
        "GRANT pg_signal_backend TO reader",
        "membership in pg_signal_backend",
        "REVOKE pg_signal_backend FROM reader",
    ),
    (
        11,
        "GRANT pg_execute_server_program TO reader",
        "membership in pg_execute_server_program",
        "REVOKE pg_execute_server_program FROM reader",
    ),
    (
        14,
        "GRANT pg_write_all_data TO reader",
        "membership in pg_write_all_data",
        "REVOKE pg_write_all_data FROM reader",
    ),
    // Also without inheriting: SET ROLE takes it.
    (
        10,
        "ALTER ROLE reader NOINHERIT; ALTER ROLE writer CREATEDB; GRANT writer TO reader",
        "writer is CREATEDB",
        "ALTER ROLE writer NOCREATEDB",
    ),
    (
        10,
        "GRANT INSERT ON t TO writer",
        "INSERT on public.t",
        "REVOKE INSERT ON t FROM writer; REVOKE writer FROM reader",
    ),
    (
        10,
        "ALTER TABLE t OWNER TO reader",
        "ownership of table public.t",
        "ALTER TABLE t OWNER TO postgres",
    ),
    (
        10,
        "ALTER DATABASE elsewhere OWNER TO reader",
        "ownership of database elsewhere",
        "ALTER DATABASE elsewhere OWNER TO postgres",
    ),
    (
        10,
        "GRANT DELETE, TRUNCATE ON t TO reader",
        "DELETE, TRUNCATE on public.t",
        "REVOKE ALL ON t FROM reader",
    ),
    (
        10,
        "GRANT TRIGGER ON t TO PUBLIC",
        "TRIGGER on public.t",
        "REVOKE ALL ON t FROM PUBLIC",
    ),
    (
        10,
        "GRANT UPDATE (b) ON t TO reader",
        "UPDATE on public.t",
        "REVOKE UPDATE (b) ON t FROM reader",
    ),
    (
        10,
        "GRANT INSERT ON seen TO reader",
        "INSERT on public.seen",
        "REVOKE ALL ON seen FROM reader",
    ),
    (
        17,
        "GRANT MAINTAIN ON t TO reader",
        "MAINTAIN on public.t",
        "REVOKE ALL ON t FROM reader",
    ),
    (
        10,
        "GRANT USAGE ON SEQUENCE s TO reader",
        "sequence public.s",
        "REVOKE ALL ON SEQUENCE s FROM reader",
    ),
    (
        10,
        "GRANT CREATE ON SCHEMA app TO reader",
        "CREATE on schema app",
        "REVOKE ALL ON SCHEMA app FROM reader",
    ),
    (
        10,
        "GRANT CREATE ON DATABASE postgres TO reader",
        "CREATE on database postgres",
        "REVOKE CREATE ON DATABASE postgres FROM reader",
    ),
    (
        10,
        "GRANT CREATE ON TABLESPACE pg_default TO reader",
        "CREATE on tablespace pg_default",
        "REVOKE ALL ON TABLESPACE pg_default FROM reader",
    ),
    (
        10,
        "GRANT USAGE ON FOREIGN DATA WRAPPER w TO reader",
        "foreign-data wrapper w",
        "REVOKE ALL ON FOREIGN DATA WRAPPER w FROM reader",
    ),
    (
        10,
        "GRANT USAGE ON FOREIGN SERVER remote TO reader",
        "foreign server remote",
        "REVOKE ALL ON FOREIGN SERVER remote FROM reader",
    ),
    (
        10,
        "GRANT UPDATE ON LARGE OBJECT 4712 TO reader",
        "large object 4712",
        "REVOKE ALL ON LARGE OBJECT 4712 FROM reader",
    ),
    (
        15,
        "GRANT ALTER SYSTEM ON PARAMETER work_mem TO reader",
        "ALTER SYSTEM on parameter work_mem",
        "REVOKE ALL ON PARAMETER work_mem FROM reader",
    ),
    (
        10,
        "ALTER FUNCTION definer() SECURITY DEFINER",
        "function public.definer() (SECURITY DEFINER)",
        "REVOKE EXECUTE ON FUNCTION definer() FROM PUBLIC",
    ),
    (
        10,
        "CREATE AGGREGATE sums(int) (SFUNC = step, STYPE = int)",
        "aggregate public.sums(integer) (SECURITY DEFINER)",
        "DROP AGGREGATE sums(int)",
    ),
    (
        10,
        "CREATE EVENT TRIGGER audit ON ddl_command_end EXECUTE PROCEDURE on_ddl()",
        "event trigger audit",
        "DROP EVENT TRIGGER audit",
    ),
    (
        10,
        "GRANT EXECUTE ON FUNCTION alias(text) TO reader",
        "function public.alias(text)",
        "REVOKE ALL ON FUNCTION alias(text) FROM reader",
    ),
    (
        10,
        "GRANT EXECUTE ON FUNCTION pg_switch_wal() TO reader",
        "function pg_switch_wal()",
        "REVOKE ALL ON FUNCTION pg_switch_wal() FROM reader",
    ),
    (
        10,
        "GRANT EXECUTE ON FUNCTION dblink_exec(text) TO reader",
        "function public.dblink_exec(text)",
        "REVOKE ALL ON FUNCTION dblink_exec(text) FROM reader",
    ),
];

fn as_reader(read_only: ReadOnly) -> Options {
    Options {
        speed: Speed::Max,
        read_only,
        logins: LoginMap {
            user: Some("reader".to_owned()),
            ..LoginMap::default()
        },
        ..Options::default()
    }
}

/// Returns the refusal of the role, if it is refused.
fn refusal(workload: &Path, server: &Endpoint, database: &str) -> Option<String> {
    let mut options = as_reader(ReadOnly::Role);
    options.logins.database = Some(database.to_owned());
    let reader = WorkloadReader::open(workload).unwrap();
    let target = Target::parse(&server.url(database), |_| None).unwrap();
    match replay::dry_run(&reader, &target, &options) {
        Ok(_) => None,
        Err(error @ ReplayError::Refused { .. }) => Some(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn role_without_rights_is_accepted_and_each_right_to_write_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    write_workload(&workload, &[(1, vec![], None)]);
    for &major in test_support::versions(&[10, 13, 15, 18]) {
        let (_sandbox, server) = test_support::server()
            .major(major)
            .password("attack")
            .start();
        let mut client = test_support::connect(&server);
        let mut execute = |texts: &str| {
            for statement in sql::statement_texts(texts) {
                client
                    .batch_execute(statement)
                    .unwrap_or_else(|error| panic!("{major}: {statement}: {error:?}"));
            }
        };
        execute(OBJECTS);
        execute(ROLE);
        let refusal = || refusal(&workload, &server, "postgres");
        assert_eq!(refusal(), None, "{major}");
        for (since, grant, right, revoke) in RIGHTS {
            if major < *since {
                continue;
            }
            execute(grant);
            let message = refusal().unwrap_or_else(|| panic!("{major}: {grant} is not refused"));
            assert!(message.contains(right), "{major}: {grant}: {message}");
            execute(revoke);
            assert_eq!(refusal(), None, "{major}: {revoke}");
        }
    }
}

#[test]
fn attacks_as_a_role_without_rights_change_nothing_even_without_read_only() {
    for &major in test_support::versions(&[13, 15, 18]) {
        let mut field = Battlefield::set_up(major);
        for statement in sql::statement_texts(ROLE) {
            field.client.batch_execute(statement).unwrap();
        }
        // Everyone may execute a user's function in C.
        let message = refusal(&field.workload, &field.server, "attack");
        assert!(message.is_some_and(|said| said.contains("EXECUTE on function public.gen_salt(text,text)")));
        let revoked = "REVOKE EXECUTE ON FUNCTION gen_salt(text, text) FROM PUBLIC";
        field.client.batch_execute(revoked).unwrap();
        assert_eq!(refusal(&field.workload, &field.server, "attack"), None);
        let before = field.state();
        for (mode, name) in [(ReadOnly::Role, "a.run"), (ReadOnly::Off, "b.run")] {
            let run = field.directory.path().join(name);
            let executions = replay_with(&as_reader(mode), &field.workload, &run, &field.server);
            let mut failed = BTreeMap::new();
            for execution in executions {
                if let Outcome::Failed(code) = execution.outcome {
                    *failed.entry(code.to_string()).or_insert(0) += 1;
                }
                let reads = execution.session == 5_000;
                assert!(
                    !reads || execution.outcome == Outcome::Done,
                    "{execution:?}"
                );
            }
            println!("{major}, {mode:?}: {failed:?}");
            if mode == ReadOnly::Off {
                assert!(failed["42501"] >= 30, "{failed:?}");
                // Large objects of its own, as every role may make them.
                field.client.batch_execute("DROP OWNED BY reader").unwrap();
            }
            assert_eq!(field.state(), before, "{major}, {mode:?}");
            assert_eq!(field.programs(), 0, "{major}, {mode:?}");
        }
    }
}
