//! Code of an exported database reaches neither the exported server nor the machine of a check.

use std::os::unix::fs::PermissionsExt;

use connect::Target;
use planner_copy::{OWNER, PlannerCopyError, RoleFacts, SchemaObject, ValueMask, export};
use postgres::{Client, NoTls};

use super::{connect, copy, explain, login, target_url, try_copy};

/// Objects of a role without rights. Each function tries to execute a program, and hides that it fails.
const ATTACK: &str = r#"
    CREATE FUNCTION s.attack(place text) RETURNS int VOLATILE LANGUAGE plpgsql AS $f$
        BEGIN EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', 'touch FOLDER/' || place); RETURN 0;
        EXCEPTION WHEN insufficient_privilege THEN RETURN 0; END $f$;
    CREATE FUNCTION s.constant(place text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN s.attack(place); END';
    CREATE FUNCTION s.check(value int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql
        AS 'BEGIN PERFORM s.attack(''domain''); RETURN true; END';
    CREATE DOMAIN s.checked AS int CHECK (s.check(VALUE));
    CREATE TABLE s.t (a int, b s.checked, c int, d int);
    INSERT INTO s.t SELECT i, i % 5, i % 9, i FROM generate_series(1, 1000) i;
    CREATE INDEX t_a ON s.t ((a + s.constant('index')));
    CREATE INDEX t_b ON s.t (b);
    CREATE INDEX t_d ON s.t (d);
    CREATE STATISTICS s.pairs (mcv) ON b, c FROM s.t;
    CREATE TYPE s."\'])x,pg_type e,pg_type t,pg_range r;commit;select s.attack('export');--" AS ENUM ('a', 'b');
    CREATE TABLE s.odd (kind s."\'])x,pg_type e,pg_type t,pg_range r;commit;select s.attack('export');--");
    INSERT INTO s.odd SELECT 'a' FROM generate_series(1, 100);
    CREATE TYPE s.mood AS ENUM ('a', 'b', 'c', 'd', 'e');
    CREATE FUNCTION s.text_of(s.mood) RETURNS text LANGUAGE plpgsql AS 'BEGIN PERFORM s.attack(''cast''); RETURN ''a''; END';
    CREATE CAST (s.mood AS text) WITH FUNCTION s.text_of(s.mood);
    CREATE TABLE s.moods (mood s.mood);
    ALTER TABLE s.moods ALTER mood SET STATISTICS 1;
    INSERT INTO s.moods SELECT unnest(enum_range(NULL::s.mood)) FROM generate_series(1, 100);
    CREATE INDEX moods_mood ON s.moods (mood);
    CREATE TYPE s.pair AS (a int, b int);
    CREATE FUNCTION s.text_of_pair(s.pair) RETURNS text LANGUAGE plpgsql
        AS 'BEGIN PERFORM s.attack(''implicit_cast''); RETURN ''a''; END';
    CREATE CAST (s.pair AS text) WITH FUNCTION s.text_of_pair(s.pair) AS IMPLICIT;
    CREATE TABLE s.couples (couple s.pair);
    INSERT INTO s.couples SELECT (i, i)::s.pair FROM generate_series(1, 1000) i;
    CREATE INDEX couples_couple ON s.couples (couple);
    ANALYZE s.t; ANALYZE s.odd; ANALYZE s.moods; ANALYZE s.couples;
    SELECT set_config('search_path', 's;copy/**/(select/**/1)to/**/program/**/$$touch${IFS}FOLDER/path$$', false);
    ALTER ROLE evil SET search_path FROM CURRENT"#;

#[test]
fn code_of_an_export_runs_without_the_rights_of_a_superuser() {
    let (sandbox, endpoint) = test_support::server().major(15).start();
    let folder = tempfile::tempdir().unwrap();
    let everyone = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everyone).unwrap();
    let mut admin = connect(&endpoint);
    admin
        .batch_execute(
            "CREATE ROLE evil LOGIN; CREATE SCHEMA s AUTHORIZATION evil;
             ALTER DATABASE postgres SET standard_conforming_strings = off;
             SET SESSION AUTHORIZATION evil",
        )
        .unwrap();
    let path = folder.path().display().to_string();
    admin
        .batch_execute(&ATTACK.replace("FOLDER", &path))
        .unwrap();
    let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
    let exported = export(&target, &login(), None).unwrap();
    let range = |relation: &str, column: &str| {
        let mut columns = exported.statistics.iter();
        let found =
            columns.find(|one| one.relation == relation && one.column.as_deref() == Some(column));
        found.unwrap().range.clone()
    };
    let ends = |low: &str, high: &str| Some((low.to_owned(), high.to_owned()));
    assert_eq!(range("moods", "mood"), ends("a", "e"));
    assert_eq!(range("couples", "couple"), ends("(1,1)", "(1000,1000)"));
    // Planning a query of this table evaluates the function of its index.
    assert_eq!(range("t", "d"), None);
    let mut withheld = exported.not_exported.iter();
    let withheld = withheld.find(|one| one.subject.ends_with("indexed columns of s.t"));
    assert!(
        withheld.is_some_and(|one| one.reason.contains("functions of other roles")),
        "{:?}",
        exported.not_exported
    );
    let mask = ValueMask {
        key: "key".to_owned(),
        replace: &|text| text.to_owned(),
    };
    export(&target, &login(), Some(&mask)).unwrap();

    let server = copy(
        &exported,
        sandbox.installation(),
        "INSERT INTO s.t SELECT 1, 1, s.constant('change')",
    );
    let left_out: Vec<&str> = server.left_out.iter().map(|one| &*one.subject).collect();
    assert!(left_out.is_empty(), "{:?}", server.left_out);
    // The superuser of the exported server plans with its constants, too.
    let mut client = Client::connect(&target_url(server.target()), NoTls).unwrap();
    let plan = explain(
        &mut client,
        "SELECT * FROM s.t WHERE c = s.constant('plan')",
    );
    assert!(plan.contains("Filter: (c = 0)"), "{plan}");
    let is_superuser = client
        .query_one("SELECT current_setting('is_superuser')", &[])
        .unwrap();
    assert_eq!(is_superuser.get::<_, &str>(0), "off");
    let files: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .flatten()
        .collect();
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn role_of_an_export_gets_no_rights_of_the_superuser_or_of_predefined_roles() {
    let (sandbox, endpoint) = test_support::server().major(15).start();
    let mut admin = connect(&endpoint);
    // Up to version 15 this right is enough to become a member of any role that is no superuser.
    admin
        .batch_execute(
            "CREATE ROLE evil LOGIN CREATEROLE; SET SESSION AUTHORIZATION evil;
             CREATE ROLE rehearse_superuser; GRANT rehearse_superuser TO evil",
        )
        .unwrap();
    let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
    let mut exported = export(&target, &login(), None).unwrap();
    let try_to_copy = |exported: &_| try_copy(exported, sandbox.installation(), &[], "SELECT 1");
    for name in ["rehearse_superuser", OWNER] {
        let roles = exported.roles.iter_mut();
        for role in roles.filter(|role| role.name.starts_with("rehearse_")) {
            name.clone_into(&mut role.name);
        }
        let refusal = try_to_copy(&exported).err().unwrap();
        assert!(matches!(refusal, PlannerCopyError::Usage(_)), "{refusal:?}");
        let text = refusal.to_string();
        assert!(
            text.contains(&format!("a role named {name}")) && text.contains("export again"),
            "{text}"
        );
    }
    // A file may have any text.
    exported.roles = vec![RoleFacts {
        name: "evil".to_owned(),
        superuser: false,
        bypass_rls: false,
        member_of: ["rehearse_superuser", "pg_execute_server_program"]
            .map(str::to_owned)
            .into(),
    }];
    let server = try_to_copy(&exported).unwrap();
    let left_out: Vec<&str> = server.left_out.iter().map(|one| &*one.subject).collect();
    assert_eq!(left_out, ["membership of evil"; 2]);
    let url = target_url(server.target()).replace("user=postgres", &format!("user={OWNER}"));
    let mut client = Client::connect(&url, NoTls).unwrap();
    let sql =
        "SELECT rolname::text FROM pg_roles WHERE pg_has_role('evil', oid, 'MEMBER') ORDER BY 1";
    let rows = client.query(sql, &[]).unwrap();
    let roles: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(roles, ["evil"]);
}

#[test]
fn extension_that_connects_to_other_systems_is_dropped_under_every_name() {
    let (sandbox, endpoint) = test_support::server().major(15).start();
    let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
    let mut exported = export(&target, &login(), None).unwrap();
    let extension = |name: &str, created: &str| SchemaObject {
        kind: "extension".to_owned(),
        name: name.to_owned(),
        sql: format!("CREATE EXTENSION IF NOT EXISTS {created} SCHEMA public CASCADE"),
    };
    exported.objects = vec![
        extension("hstore", "dblink"),
        // The statement is that of the name, as that of an extension that requires dblink is.
        extension("\"dblink\"", "\"dblink\""),
        extension("citext", "citext"),
    ];
    let server = copy(&exported, sandbox.installation(), "SELECT 1");
    let left_out: Vec<&str> = server.left_out.iter().map(|one| &*one.subject).collect();
    assert_eq!(left_out, ["extension hstore", "extension dblink"]);
    let mut client = Client::connect(&target_url(server.target()), NoTls).unwrap();
    let sql = "SELECT extname::text FROM pg_extension ORDER BY 1";
    let rows = client.query(sql, &[]).unwrap();
    let extensions: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(extensions, ["citext", "plpgsql"]);
}
