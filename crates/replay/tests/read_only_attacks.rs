//! Replays of texts that try to write although the replay is read-only, against real servers.
//!
//! Each attack is a session of its own. The number that it tries to insert identifies it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clock::{Clock, Speed, SystemClock};
use postgres::Client;
use replay::{Observer, Options, Snapshot, Target};
use run::{Execution, Outcome, RunReader};
use sandbox::Endpoint;
use workload::{
    Event, EventKind, NoRedaction, Provenance, Session, WireDetails, WorkloadReader,
    WorkloadWriter, WriterOptions,
};

const SCHEMA: &str = r"
    CREATE EXTENSION IF NOT EXISTS dblink;
    CREATE TABLE victim (n int);
    CREATE SEQUENCE sq;
    CREATE ROLE other SUPERUSER;
    CREATE TYPE pair AS (a int, b int);
    CREATE FUNCTION setoff() RETURNS void LANGUAGE sql VOLATILE AS
        $$ SELECT set_config('default_transaction_' || 'read_only', 'off', false) $$;
    CREATE FUNCTION wf(n int) RETURNS void LANGUAGE sql AS 'INSERT INTO victim VALUES ($1)';
    CREATE FUNCTION own() RETURNS text LANGUAGE sql AS
        $$ SELECT 'host=' || split_part(current_setting('unix_socket_directories'), ',', 1) || ' port='
            || current_setting('port') || ' user=postgres password=attack dbname=attack' $$;
    CREATE FUNCTION wdb(n int) RETURNS text LANGUAGE sql AS
        $$ SELECT dblink_exec(own(), 'INSERT INTO victim VALUES (' || $1 || ')') $$;
    CREATE FUNCTION stable_wdb(n int) RETURNS text LANGUAGE sql STABLE AS $$ SELECT wdb($1) $$;
    CREATE FUNCTION dynamic(n int) RETURNS text LANGUAGE plpgsql AS
        $$ DECLARE r text; BEGIN EXECUTE 'SELECT w' || 'db(' || n || ')' INTO r; RETURN r; END $$;
    CREATE FUNCTION of_pair(p pair) RETURNS text LANGUAGE sql AS $$ SELECT wdb(p.a) $$;
    CREATE FUNCTION plus_db(a int, b int) RETURNS text LANGUAGE sql AS $$ SELECT wdb(a) $$;
    CREATE OPERATOR +! (LEFTARG = int, RIGHTARG = int, FUNCTION = plus_db);
    CREATE FUNCTION state(s int, n int) RETURNS int LANGUAGE sql AS $$ SELECT length(wdb(n)) $$;
    CREATE AGGREGATE agg (int) (SFUNC = state, STYPE = int, INITCOND = 0);
    CREATE VIEW v AS SELECT wdb(65) AS w;
    CREATE VIEW over_v AS SELECT * FROM v;
    CREATE PROCEDURE wr(n int) LANGUAGE plpgsql AS
        $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; INSERT INTO victim VALUES (n); COMMIT; END $$;
    SELECT lo_create(4711);
";

/// Everything that an attack may change, as one text.
const STATE: &str = "SELECT concat_ws(E'\n', \
    (SELECT 'rows ' || string_agg(n::text, ',' ORDER BY n) FROM victim), \
    (SELECT 'sequence ' || last_value || is_called FROM sq), \
    (SELECT 'large objects ' || count(*) FROM pg_largeobject_metadata), \
    (SELECT 'large object data ' || count(*) FROM pg_largeobject), \
    (SELECT 'slots ' || count(*) FROM pg_replication_slots), \
    (SELECT 'origins ' || count(*) FROM pg_replication_origin), \
    (SELECT 'relations ' || count(*) || ' pages ' || sum(relpages) FROM pg_class), \
    (SELECT 'collations ' || count(*) FROM pg_collation), \
    (SELECT 'settings ' || count(*) FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf'), \
    (SELECT 'prepared ' || count(*) FROM pg_prepared_xacts))";

fn insert(n: u32) -> String {
    format!("INSERT INTO victim VALUES ({n})")
}

/// Returns the texts of each attack. `directory` is for files of programs.
fn attacks(directory: &Path) -> Vec<(u32, Vec<String>)> {
    let pwned = |n: u32| format!("touch {}/pwned{n}", directory.display());
    let exec = |name: &str, n: u32| format!("SELECT {name}(own(), '{}')", insert(n));
    let smuggled = |n: u32| format!("; commit; begin read write; {}; commit", insert(n));
    let texts: Vec<(u32, Vec<String>)> = vec![
        (1, vec![format!("select 1 --\r{}", smuggled(1))]),
        (2, vec![format!("select E'a'\n'\\' || '{}; select '1'", smuggled(2))]),
        (3, vec![
            "set standard_conforming_strings=off".into(),
            format!("select '\\' || '{}; select '1'", smuggled(3)),
        ]),
        (4, vec![exec("U&\"dblink\\005fexec\"", 4)]),
        (5, vec![
            "select dblink_connect('c', own())".into(),
            format!("select dblink_open('c', 'x', 'select 1; commit; {}; begin')", insert(5)),
        ]),
        (6, vec!["set default_transaction_read_only=off".into(), insert(6)]),
        (7, vec!["set session characteristics as transaction read write".into(), insert(7)]),
        (8, vec!["begin read write".into(), insert(8), "commit".into()]),
        (9, vec!["select setoff()".into(), insert(9)]),
        (10, vec!["begin".into(), "select setoff()".into(), "commit".into(), insert(10)]),
        (11, vec![format!("select setoff(); {}", insert(11))]),
        (12, vec![format!("begin; commit; {}", insert(12))]),
        (13, vec![
            "select set_config('default_transaction_'||'read_only','off',false)".into(),
            insert(13),
        ]),
        (14, vec![format!("do $$begin commit; set transaction read write; {}; end$$", insert(14))]),
        (15, vec!["call wr(15)".into()]),
        (16, vec![format!("copy (select 1) to program '{}'", pwned(16))]),
        (17, vec![
            "set standard_conforming_strings=off".into(),
            format!("copy (select '\\') to stdout --') to program '{}'", pwned(17)),
        ]),
        (18, vec!["select nextval('sq')".into()]),
        (19, vec![format!("prepare p as {}", insert(19)), "execute p".into()]),
        (20, vec!["set role other".into(), insert(20), format!("set role other; {}", insert(20))]),
        (21, vec!["with x as (insert into victim values (21) returning *) select * from x".into()]),
        (22, vec!["select wf(22)".into()]),
        (23, vec!["select wdb(23)".into()]),
        (24, vec!["alter system set work_mem='3MB'".into()]),
        (25, vec!["select lo_import('/etc/hostname')".into()]),
        (26, vec!["select pg_import_system_collations('pg_catalog')".into()]),
        (27, vec!["select pg_replication_origin_create('o27')".into()]),
        (28, vec!["select pg_create_physical_replication_slot('s28', true)".into()]),
        (29, vec![format!("explain analyze {}", insert(29))]),
        (30, vec!["START TRANSACTION READ/**/WRITE".into(), insert(30), "commit".into()]),
        (31, vec![
            "begin".into(),
            "set transaction read write".into(),
            insert(31),
            "commit".into(),
        ]),
        (32, vec![format!("begin; set transaction read write; {}; commit", insert(32))]),
        (33, vec![format!("select 1e--'\n{}; --'", smuggled(33))]),
        (34, vec![format!("select 1e'\\' || '{}; select '1'", smuggled(34))]),
        (35, vec!["copy victim from program 'echo 35'".into()]),
        (36, vec![
            "select pg_terminate_backend(0)".into(),
            "select pg_reload_conf()".into(),
            "select pg_switch_wal()".into(),
        ]),
        (37, vec!["load 'auto_explain'".into()]),
        (38, vec![format!("lock table victim in access exclusive mode; {}", insert(38))]),
        (39, vec![
            "begin".into(),
            "select setoff()".into(),
            "savepoint a".into(),
            "rollback to a".into(),
            "commit and chain".into(),
            insert(39),
            "commit".into(),
        ]),
        (40, vec!["select * from dblink_send_query('c','x')".into()]),
        (41, vec![format!(
            "select pg_catalog.set_config(U&'default_transaction\\005fread_only','off',false); commit; {}",
            insert(41)
        )]),
        (42, vec!["reset default_transaction_read_only".into(), insert(42)]),
        (43, vec![
            "create temp table tt(a int)".into(),
            format!("copy tt from program '{}; echo 1'", pwned(43)),
        ]),
        (44, vec!["select lo_from_bytea(0,'abc')".into(), "select lo_put(4711, 0, 'x')".into()]),
        (45, vec!["select setval('sq',500)".into()]),
        (46, vec!["vacuum victim".into(), "analyze victim".into(), "reindex table victim".into()]),
        (47, vec!["select pg_stat_reset()".into()]),
        (48, vec![
            "select pg_restore_relation_stats('schemaname','public','relname','victim','relpages',77)"
                .into(),
        ]),
        (49, vec!["select pg_file_unlink('doesnotexist')".into()]),
        // Other ways to the same functions.
        (61, vec!["select stable_wdb(61)".into(), "explain analyze select stable_wdb(61)".into()]),
        (62, vec!["select dynamic(62)".into()]),
        (63, vec!["select (p).of_pair from (select row(63, 1)::pair as p) x".into()]),
        (64, vec!["select 64 +! 1".into(), "select 64 operator(public.+!) 1".into()]),
        (65, vec!["select * from v".into(), "table over_v".into(), "copy (select w from v) to stdout".into()]),
        (66, vec!["select agg(66)".into()]),
        (67, vec!["prepare q as select wdb(67)".into(), "execute q".into()]),
        (68, vec!["begin".into(), "declare c cursor for select wdb(68)".into(), "fetch c".into()]),
        (69, vec!["select query_to_xml('select wdb(69)', true, true, '')".into()]),
        (70, vec![format!("select 0x1$$, {} $$", &exec("dblink_exec", 70)[7..])]),
        (71, vec!["select ts_stat('select to_tsvector(wdb(71))')".into()]),
        (72, vec!["select u&\"wd!0062\" uescape '!' (72)".into(), "select public.\"wdb\"(72)".into()]),
        (73, vec!["select lo_unlink(4711)".into(), "select lo_export(4711, '/tmp/x')".into()]),
        (74, vec!["select pg_logical_emit_message(false, 'x', 'y')".into()]),
        (75, vec![
            "set standard_conforming_strings=off".into(),
            "select '\\', wdb(75) --'".into(),
            "select '\\' || ', wdb(75), ' ".into(),
        ]),
        (76, vec!["select wdb(76) from generate_series(1, 2) where wdb(76) is not null".into()]),
        (77, vec!["values (wdb(77))".into(), "show work_mem; select wdb(77)".into()]),
    ];
    texts
}

/// Startup parameters by which a session asks for writing.
const STARTUP: &[(&str, &str)] = &[
    ("options", "-c default_transaction_read_only=off"),
    ("options", "--default-transaction-read-only=off"),
    ("options", "-c Default_Transaction_Read_Only=off"),
    ("default_transaction_read_only", "off"),
];

struct Unwatched;

impl Observer for Unwatched {
    fn on_progress(&mut self, _: &Snapshot) {}
    fn should_stop(&mut self) -> bool {
        false
    }
}

fn event(session: u64, sequence: usize, kind: EventKind) -> Event {
    Event {
        session,
        sequence: sequence as u64,
        due_us: 1_700_000_000_000_000 + sequence as i64,
        kind,
        outcome: workload::Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        wire_details: None,
    }
}

/// Number of a session, its statements, and a startup parameter.
type Attack = (u64, Vec<EventKind>, Option<(&'static str, &'static str)>);

/// Writes a workload with one session for each list of texts.
fn write_workload(path: &Path, sessions: &[Attack]) {
    let options = WriterOptions::default();
    let mut writer = WorkloadWriter::create(path, options, NoRedaction).unwrap();
    for (session, kinds, setting) in sessions {
        let connect = EventKind::Connect {
            database: "attack".into(),
            user: "postgres".into(),
            application: "".into(),
        };
        let mut events = vec![event(*session, 0, connect)];
        events[0].wire_details = setting.map(|(name, value)| {
            Arc::new(WireDetails {
                settings: vec![(name.into(), value.into())],
                ..WireDetails::default()
            })
        });
        for kind in kinds.iter().cloned().chain([EventKind::Disconnect]) {
            events.push(event(*session, events.len(), kind));
        }
        for event in &events {
            writer.event(&event.borrowed()).unwrap();
        }
        let session = Session {
            id: *session,
            database: "attack".into(),
            user: "postgres".into(),
            application: "".into(),
            client: "".into(),
            start_us: events[0].due_us,
            end_us: events.last().unwrap().due_us,
            start_seen: true,
            end_seen: true,
            statements: 0,
        };
        writer.session(session).unwrap();
    }
    writer.finish(Provenance::default()).unwrap();
}

/// Replays a workload, and returns its executions.
fn replay(path: &Path, run: &Path, server: &Endpoint, read_only: bool) -> Vec<Execution> {
    let options = Options {
        speed: Speed::Max,
        read_only,
        ..Options::default()
    };
    let reader = WorkloadReader::open(path).unwrap();
    let target = Target::parse(&server.url("attack"), |_| None).unwrap();
    let checked = options.target_with_settings(&target);
    let info = replay::check_target(&reader, &checked, &options.logins).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    replay::replay(
        &reader,
        &target,
        info,
        &options,
        run,
        &clock,
        &mut Unwatched,
    )
    .unwrap();
    let reader = RunReader::open(run).unwrap();
    reader.executions().unwrap().map(Result::unwrap).collect()
}

fn state(client: &mut Client) -> String {
    client.query_one(STATE, &[]).unwrap().get(0)
}

#[test]
fn read_only_replay_of_attacks_writes_nothing() {
    for major in test_support::versions(&[13, 15, 18]) {
        attack(*major);
    }
}

fn attack(major: u16) {
    let (_sandbox, server) = test_support::server()
        .major(major)
        .password("attack")
        .start();
    let mut admin = test_support::connect(&server);
    admin.batch_execute("CREATE DATABASE attack").unwrap();
    let mut client = Client::connect(&server.url("attack"), postgres::NoTls).unwrap();
    for statement in sql::statement_texts(SCHEMA) {
        client.batch_execute(statement).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    // The server's programs run as another user.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).unwrap();

    let mut sessions: Vec<Attack> = Vec::new();
    for (number, texts) in attacks(directory.path()) {
        let simple = texts.iter().map(|text| EventKind::Simple {
            sql: text.as_str().into(),
        });
        sessions.push((u64::from(number), simple.collect(), None));
        let extended = texts.iter().map(|text| EventKind::Execute {
            statement: "".into(),
            portal: "".into(),
            sql: text.as_str().into(),
            parameters: vec![],
        });
        sessions.push((1_000 + u64::from(number), extended.collect(), None));
    }
    for (number, setting) in (80..).zip(STARTUP) {
        let sql = insert(number).into();
        let kinds = vec![EventKind::Simple { sql }];
        sessions.push((u64::from(number), kinds, Some(*setting)));
    }
    // Reading still works.
    let harmless = [
        "select count(*) from victim",
        "select random(), clock_timestamp(), pg_sleep(0), own()",
        "begin",
        "select 'it''s; ' || E'\\';' -- ;\r , $$;$$",
        "copy (select 1) to stdout",
        "commit",
        "select pg_stat_get_numscans(0), pg_relation_size('victim'), version()",
    ];
    let reads = harmless.map(|sql| EventKind::Simple { sql: sql.into() });
    sessions.push((5_000, reads.to_vec(), None));

    let workload = directory.path().join("a.workload");
    write_workload(&workload, &sessions);
    let before = state(&mut client);
    let executions = replay(&workload, &directory.path().join("a.run"), &server, true);
    assert_eq!(state(&mut client), before, "{major}");
    let programs = || {
        let files = std::fs::read_dir(directory.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("pwned")).count()
    };
    assert_eq!(programs(), 0, "{major}");

    let (mut withheld, mut refused) = (0, BTreeMap::new());
    for execution in &executions {
        match execution.outcome {
            Outcome::Skipped(run::SkipReason::ReadOnly) => withheld += 1,
            Outcome::Failed(code) => *refused.entry(code.to_string()).or_insert(0) += 1,
            _ => {}
        }
        if execution.session == 5_000 {
            assert_eq!(execution.outcome, Outcome::Done, "{execution:?}");
        }
    }
    println!("{major}: {withheld} withheld, refused by the server: {refused:?}");
    assert!(withheld >= 80, "{withheld}");
    assert!(refused["25006"] >= 20, "{refused:?}");
    // Several commands in one text.
    assert!(refused["42601"] >= 16, "{refused:?}");

    // The test can fail: without the option most of it writes.
    replay(&workload, &directory.path().join("b.run"), &server, false);
    assert_ne!(state(&mut client), before);
    let written: i64 = client
        .query_one("SELECT count(DISTINCT n) FROM victim", &[])
        .unwrap()
        .get(0);
    println!(
        "{major}: {written} attacks insert without --read-only, {} run programs",
        programs()
    );
    assert!(written >= 30, "{written}");
}
