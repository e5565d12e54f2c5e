//! Replays of texts that try to write although the replay is read-only, against real servers.
//!
//! Each attack is a session of its own. The number that it tries to insert identifies it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clock::{Clock, Speed, SystemClock};
use postgres::Client;
use replay::{Observer, Options, ReadOnly, Snapshot, Target};
use run::{Execution, Outcome, RunReader};
use sandbox::Endpoint;
use workload::{
    Event, EventKind, NoRedaction, Provenance, Session, WireDetails, WorkloadReader,
    WorkloadWriter, WriterOptions,
};

mod role;

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
    CREATE FUNCTION gen_salt(text, text) RETURNS text LANGUAGE c VOLATILE STRICT AS '$libdir/dblink', 'dblink_exec';
    CREATE FUNCTION Änderung(n int) RETURNS text LANGUAGE sql AS $$ SELECT wdb($1) $$;
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

/// Statements of each attack, by its number. `{insert}` stands for the attack's insertion, `{smuggled}`
/// for the same in a transaction of its own, and `{program}` for a command that creates a file.
const ATTACKS: &[(u32, &[&str])] = &[
    (1, &["select 1 --\r{smuggled}"]),
    (2, &["select E'a'\n'\\' || '{smuggled}; select '1'"]),
    (
        3,
        &[
            "set standard_conforming_strings=off",
            "select '\\' || '{smuggled}; select '1'",
        ],
    ),
    (4, &["SELECT U&\"dblink\\005fexec\"(own(), '{insert}')"]),
    (
        5,
        &[
            "select dblink_connect('c', own())",
            "select dblink_open('c', 'x', 'select 1; commit; {insert}; begin')",
        ],
    ),
    (6, &["set default_transaction_read_only=off", "{insert}"]),
    (
        7,
        &[
            "set session characteristics as transaction read write",
            "{insert}",
        ],
    ),
    (8, &["begin read write", "{insert}", "commit"]),
    (9, &["select setoff()", "{insert}"]),
    (10, &["begin", "select setoff()", "commit", "{insert}"]),
    (11, &["select setoff(); {insert}"]),
    (12, &["begin; commit; {insert}"]),
    (
        13,
        &[
            "select set_config('default_transaction_'||'read_only','off',false)",
            "{insert}",
        ],
    ),
    (
        14,
        &["do $$begin commit; set transaction read write; {insert}; end$$"],
    ),
    (15, &["call wr(15)"]),
    (16, &["copy (select 1) to program '{program}'"]),
    (
        17,
        &[
            "set standard_conforming_strings=off",
            "copy (select '\\') to stdout --') to program '{program}'",
        ],
    ),
    (18, &["select nextval('sq')"]),
    (19, &["prepare p as {insert}", "execute p"]),
    (
        20,
        &["set role other", "{insert}", "set role other; {insert}"],
    ),
    (
        21,
        &["with x as (insert into victim values (21) returning *) select * from x"],
    ),
    (22, &["select wf(22)"]),
    (23, &["select wdb(23)"]),
    (24, &["alter system set work_mem='3MB'"]),
    (25, &["select lo_import('/etc/hostname')"]),
    (26, &["select pg_import_system_collations('pg_catalog')"]),
    (27, &["select pg_replication_origin_create('o27')"]),
    (
        28,
        &["select pg_create_physical_replication_slot('s28', true)"],
    ),
    (29, &["explain analyze {insert}"]),
    (
        30,
        &["START TRANSACTION READ/**/WRITE", "{insert}", "commit"],
    ),
    (
        31,
        &["begin", "set transaction read write", "{insert}", "commit"],
    ),
    (32, &["begin; set transaction read write; {insert}; commit"]),
    (33, &["select 1e--'\n{smuggled}; --'"]),
    (34, &["select 1e'\\' || '{smuggled}; select '1'"]),
    (35, &["copy victim from program 'echo 35'"]),
    (
        36,
        &[
            "select pg_terminate_backend(0)",
            "select pg_reload_conf()",
            "select pg_switch_wal()",
        ],
    ),
    (37, &["load 'auto_explain'"]),
    (
        38,
        &["lock table victim in access exclusive mode; {insert}"],
    ),
    (
        39,
        &[
            "begin",
            "select setoff()",
            "savepoint a",
            "rollback to a",
            "commit and chain",
            "{insert}",
            "commit",
        ],
    ),
    (40, &["select * from dblink_send_query('c','x')"]),
    (
        41,
        &[
            "select pg_catalog.set_config(U&'default_transaction\\005fread_only','off',false); commit; {insert}",
        ],
    ),
    (42, &["reset default_transaction_read_only", "{insert}"]),
    (
        43,
        &[
            "create temp table tt(a int)",
            "copy tt from program '{program}; echo 1'",
        ],
    ),
    (
        44,
        &[
            "select lo_from_bytea(0,'abc')",
            "select lo_put(4711, 0, 'x')",
        ],
    ),
    (45, &["select setval('sq',500)"]),
    (
        46,
        &["vacuum victim", "analyze victim", "reindex table victim"],
    ),
    (47, &["select pg_stat_reset()"]),
    (
        48,
        &[
            "select pg_restore_relation_stats('schemaname','public','relname','victim','relpages',77)",
        ],
    ),
    (49, &["select pg_file_unlink('doesnotexist')"]),
    // Other ways to the same functions.
    (
        61,
        &[
            "select stable_wdb(61)",
            "explain analyze select stable_wdb(61)",
        ],
    ),
    (62, &["select dynamic(62)"]),
    (
        63,
        &["select (p).of_pair from (select row(63, 1)::pair as p) x"],
    ),
    (64, &["select 64 +! 1", "select 64 operator(public.+!) 1"]),
    (
        65,
        &[
            "select * from v",
            "table over_v",
            "copy (select w from v) to stdout",
        ],
    ),
    (66, &["select agg(66)"]),
    (67, &["prepare q as select wdb(67)", "execute q"]),
    (
        68,
        &["begin", "declare c cursor for select wdb(68)", "fetch c"],
    ),
    (
        69,
        &["select query_to_xml('select wdb(69)', true, true, '')"],
    ),
    (70, &["select 0x1$$, dblink_exec(own(), '{insert}') $$"]),
    (71, &["select ts_stat('select to_tsvector(wdb(71))')"]),
    (
        72,
        &[
            "select u&\"wd!0062\" uescape '!' (72)",
            "select public.\"wdb\"(72)",
        ],
    ),
    (
        73,
        &["select lo_unlink(4711)", "select lo_export(4711, '/tmp/x')"],
    ),
    (74, &["select pg_logical_emit_message(false, 'x', 'y')"]),
    (
        75,
        &[
            "set standard_conforming_strings=off",
            "select '\\', wdb(75) --'",
            "select '\\' || ', wdb(75), ' ",
        ],
    ),
    (
        76,
        &["select wdb(76) from generate_series(1, 2) where wdb(76) is not null"],
    ),
    (77, &["values (wdb(77))", "show work_mem; select wdb(77)"]),
    // A library's function under a harmless name.
    (78, &["select gen_salt(own(), '{insert}')"]),
    (
        79,
        &[
            "select \"Änderung\"(79)",
            "select Änderung(79)",
            "select ÄNDERUNG(79)",
        ],
    ),
];

/// Returns the statements of each attack. `directory` is for files of programs.
fn attacks(directory: &Path) -> Vec<(u32, Vec<String>)> {
    let attack = |&(number, texts): &(u32, &[&str])| {
        let insert = insert(number);
        let smuggled = format!("; commit; begin read write; {insert}; commit");
        let program = format!("touch {}/pwned{number}", directory.display());
        let complete = |text: &&str| {
            text.replace("{insert}", &insert)
                .replace("{smuggled}", &smuggled)
                .replace("{program}", &program)
        };
        (number, texts.iter().map(complete).collect())
    };
    ATTACKS.iter().map(attack).collect()
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

/// Replays a workload as its users, and returns its executions.
fn replay(path: &Path, run: &Path, server: &Endpoint, read_only: ReadOnly) -> Vec<Execution> {
    let options = Options {
        speed: Speed::Max,
        read_only,
        ..Options::default()
    };
    replay_with(&options, path, run, server)
}

fn replay_with(options: &Options, path: &Path, run: &Path, server: &Endpoint) -> Vec<Execution> {
    let reader = WorkloadReader::open(path).unwrap();
    let target = Target::parse(&server.url("attack"), |_| None).unwrap();
    let checked = options.target_with_settings(&target);
    let info = replay::check_target(&reader, &checked, &options.logins).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    replay::replay(&reader, &target, info, options, run, &clock, &mut Unwatched).unwrap();
    let reader = RunReader::open(run).unwrap();
    reader.executions().unwrap().map(Result::unwrap).collect()
}

#[test]
fn read_only_replay_of_attacks_writes_nothing() {
    for major in test_support::versions(&[13, 15, 18]) {
        attack(*major);
    }
}

/// A server with the attacked database, and a workload of all attacks.
struct Battlefield {
    _sandbox: sandbox::Sandbox,
    server: Endpoint,
    /// A superuser in the attacked database.
    client: Client,
    directory: tempfile::TempDir,
    workload: std::path::PathBuf,
}

impl Battlefield {
    fn set_up(major: u16) -> Self {
        let (sandbox, server) = test_support::server()
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
        let workload = directory.path().join("a.workload");
        write_workload(&workload, &sessions(directory.path()));
        Battlefield {
            _sandbox: sandbox,
            server,
            client,
            directory,
            workload,
        }
    }

    fn state(&mut self) -> String {
        self.client.query_one(STATE, &[]).unwrap().get(0)
    }

    /// Returns the number of programs that the server ran.
    fn programs(&self) -> usize {
        let files = std::fs::read_dir(self.directory.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("pwned")).count()
    }
}

/// Returns a session for each attack by each protocol, and one that only reads.
fn sessions(directory: &Path) -> Vec<Attack> {
    let mut sessions: Vec<Attack> = Vec::new();
    for (number, texts) in attacks(directory) {
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
    sessions
}

fn attack(major: u16) {
    let mut field = Battlefield::set_up(major);
    let before = field.state();
    let run = field.directory.path().join("a.run");
    let executions = replay(&field.workload, &run, &field.server, ReadOnly::Sessions);
    assert_eq!(field.state(), before, "{major}");
    assert_eq!(field.programs(), 0, "{major}");

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
    let run = field.directory.path().join("b.run");
    replay(&field.workload, &run, &field.server, ReadOnly::Off);
    assert_ne!(field.state(), before);
    let written: i64 = field
        .client
        .query_one("SELECT count(DISTINCT n) FROM victim", &[])
        .unwrap()
        .get(0);
    println!(
        "{major}: {written} attacks insert without --read-only, {} run programs",
        field.programs()
    );
    assert!(written >= 30, "{written}");
}
