//! Tools on runs of a real server, and proofs.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use sandbox::Dirs;

use super::stopping::wait_until;
use super::*;

/// A private server with a table, in a directory of its own, and a workload for it.
struct Fixture {
    room: Room,
    state: TempDir,
    url: String,
}

const NAME: &str = "mine";

const ITEMS: &str = "CREATE TABLE items (id int, owner int, pad text); \
    INSERT INTO items SELECT i, i % 500, repeat('x', 40) FROM generate_series(1, 100000) i; \
    CREATE ROLE app LOGIN; GRANT SELECT, INSERT ON items TO app; \
    CREATE ROLE carrier; GRANT pg_execute_server_program TO carrier; \
    CREATE ROLE sleeper LOGIN NOINHERIT; GRANT carrier TO sleeper; \
    CREATE ROLE reader LOGIN; GRANT EXECUTE ON FUNCTION lo_export(oid, text) TO reader; \
    CREATE ROLE founder LOGIN CREATEROLE; \
    ANALYZE";

impl Fixture {
    fn new() -> Self {
        let state = tempfile::tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(state.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let places = Dirs {
            cache: Dirs::from_environment().unwrap().cache,
            state: state.path().join("state"),
        };
        let (made, endpoint) = test_support::server().places(places.clone()).start();
        let url = endpoint.url("postgres");
        made.keep(NAME, &places).unwrap();
        let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
        client.batch_execute(ITEMS).unwrap();
        let fixture = Fixture {
            room: Room::new(),
            state,
            url,
        };
        fixture.write_workload();
        fixture
    }

    /// Writes 80 reads that need an index, and 20 statements that fail with the canary in their message.
    fn write_workload(&self) {
        let statement = |number: usize| match number % 5 {
            0 => format!("INSERT INTO items (id) VALUES ('{CANARY}')"),
            _ => format!("SELECT count(*) FROM items WHERE owner = {number} AND pad <> '{CANARY}'"),
        };
        self.capture("a", (0..100).map(statement));
    }

    /// Captures statements as a workload of this name, in sessions of an unknown role.
    fn capture(&self, name: &str, statements: impl Iterator<Item = String>) {
        let line = |(number, statement): (usize, String)| {
            format!(
                "2026-03-01 09:00:00.{:03} UTC [{}] LOG:  duration: 1.500 ms  statement: {statement}\n",
                number * 3,
                100 + number % 4
            )
        };
        let log = self.room.at(&format!("{name}.log"));
        let workload = self.room.at(&format!("{name}.workload"));
        let lines = statements.enumerate().map(line);
        std::fs::write(&log, lines.collect::<String>()).unwrap();
        self.run(&["capture", "log", &log, "-o", &workload]);
    }

    fn run(&self, arguments: &[&str]) {
        let done = command(arguments)
            .env("REHEARSE_STATE_DIR", self.state.path().join("state"))
            .output()
            .unwrap();
        assert_eq!(done.status.code(), Some(0), "{arguments:?}: {done:?}");
    }

    fn connect(&self, options: &[&str]) -> Client {
        let mut command = self.room.command(options);
        command.env("REHEARSE_STATE_DIR", self.state.path().join("state"));
        let mut client = Client::start(command);
        client.initialise();
        client
    }

    /// Returns the directories of private servers.
    fn servers(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.state.path().join("state/sandboxes")).unwrap();
        let paths = entries.flatten().map(|entry| entry.path());
        paths.filter(|path| path.is_dir()).collect()
    }

    fn assert_data_are_as_before(&self) {
        assert_eq!(self.servers().len(), 1);
        let places = Dirs {
            cache: Dirs::from_environment().unwrap().cache,
            state: self.state.path().join("state"),
        };
        let named = sandbox::find_named(NAME, &places).unwrap();
        assert!(named.is_running());
        let url = named.endpoint.url("postgres");
        let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
        let question = "SELECT count(*) FROM pg_indexes WHERE tablename = 'items'";
        assert_eq!(client.query_one(question, &[]).unwrap().get::<_, i64>(0), 0);
        assert!(sandbox::open(NAME, &places).unwrap().snapshots().is_empty());
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let places = Dirs {
            cache: self.state.path().join("cache"),
            state: self.state.path().join("state"),
        };
        let _ = sandbox::down(NAME, &places);
    }
}

#[test]
fn mcp_answers_on_real_runs_have_plans_findings_and_no_values() {
    let fixture = Fixture::new();
    let workload = fixture.room.at("a.workload");
    for name in ["a.run", "b.run"] {
        let output = fixture.room.at(name);
        fixture.run(&[
            "replay",
            &workload,
            "--target",
            &fixture.url,
            "--explain",
            "-o",
            &output,
        ]);
    }
    let mut client = fixture.connect(&[]);
    let plans = client.content("plan", json!({ "path": "a.run" }))["plans"].clone();
    let planned = plans.as_array().unwrap().iter();
    let planned: Vec<&Value> = planned
        .filter(|one| one["plan"]["status"] == "planned")
        .collect();
    assert_eq!(planned.len(), 1, "{plans}");
    assert!(
        planned[0]["plan"].to_string().contains("Seq Scan"),
        "{plans}"
    );
    let fingerprint = planned[0]["fingerprint"].clone();
    let arguments = json!({ "path": "a.run", "fingerprint": fingerprint });
    let one = client.content("plan", arguments.clone())["plans"].clone();
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!(
        client.content("statement", arguments)["report"]["calls"],
        80
    );

    let run = client.content("inspect", json!({ "path": "a.run" }))["report"].clone();
    assert_eq!(run["failed"]["22P02"], 20, "{run}");
    client.content("inspect", json!({ "path": "a.workload" }));
    client.content(
        "compare",
        json!({ "before": ["a.run"], "after": ["b.run"] }),
    );
    for path in ["a.run", "a.workload"] {
        let diagnosis = client.content("diagnose", json!({ "path": path }));
        assert_eq!(diagnosis["report"]["schema"], "rehearse/diagnose/1");
    }
    assert_eq!(client.close().0, Some(0));
}

#[test]
fn mcp_proof_is_on_a_copy_that_is_deleted_afterwards_also_if_it_is_stopped() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let fixture = Fixture::new();
    let mut client = fixture.connect(&["--allow-proofs"]);
    let refused = client.refusal(
        "prove",
        json!({ "path": "a.workload", "sandbox": NAME, "settings": ["archive_command=true"] }),
    );
    assert!(
        refused.contains("archive_command is not allowed here"),
        "{refused}"
    );
    let refused = client.refusal(
        "prove",
        json!({ "path": "a.workload", "sandbox": "other", "settings": ["work_mem=8MB"] }),
    );
    assert!(refused.contains("other"), "{refused}");

    let change = json!({
        "path": "a.workload",
        "sandbox": NAME,
        "role": "app",
        "indexes": [{ "table": "items", "columns": ["owner"] }],
        "goal": "blocks",
    });
    let proof = client.content("prove", change.clone());
    let side = &proof["report"]["sides"][0];
    assert_eq!(side["verdict"], "won", "{proof}");
    assert_eq!(side["name"], "CREATE INDEX ON \"items\" (\"owner\")");
    let place = proof["report"]["place"].as_str().unwrap();
    assert!(place.starts_with("a copy of the sandbox mine"), "{place}");
    fixture.assert_data_are_as_before();

    let id = client.begin_call("prove", change.clone());
    wait_until("a copy is made", || fixture.servers().len() == 2);
    client.send(&json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": { "requestId": id },
    }));
    wait_until("the copy is deleted", || fixture.servers().len() == 1);
    assert_eq!(client.content("list", json!({}))["is_complete"], true);
    fixture.assert_data_are_as_before();

    client.begin_call("prove", change);
    wait_until("a copy is made", || fixture.servers().len() == 2);
    client.child.kill().unwrap();
    wait_until("the copy is deleted", || fixture.servers().len() == 1);
    fixture.assert_data_are_as_before();
}

#[test]
fn mcp_proof_of_a_workload_that_executes_programs_executes_none_whatever_the_role() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let fixture = Fixture::new();
    let writable = fixture.state.path().join("writable");
    std::fs::create_dir(&writable).unwrap();
    std::fs::set_permissions(&writable, PermissionsExt::from_mode(0o777)).unwrap();
    let file = writable.join("executed");
    let copy = format!("COPY (SELECT 1) TO PROGRAM 'touch {}'", file.display());
    let hidden = format!("DO $$ BEGIN EXECUTE {:?}; END $$", copy).replace('"', "$c$");
    let statements = (0..20).map(|number| [&copy, &hidden][number % 2].clone());
    fixture.capture("attack", statements);
    let mut client = fixture.connect(&["--allow-proofs"]);
    for (role, expected) in [
        (None, "\"postgres\" (SUPERUSER)"),
        (Some("postgres"), "\"postgres\" (SUPERUSER)"),
        (
            Some("sleeper"),
            "\"sleeper\" (membership in pg_execute_server_program)",
        ),
        (Some("reader"), "\"reader\" (EXECUTE on lo_export)"),
        (Some("founder"), "\"founder\" (CREATEROLE)"),
        (Some("absent"), "\"absent\" (does not exist)"),
        // Its statements fail.
        (Some("app"), "the target did none of the 20 statements"),
    ] {
        let refused = client.refusal(
            "prove",
            json!({
                "path": "attack.workload",
                "sandbox": NAME,
                "role": role,
                "settings": ["work_mem=8MB"],
            }),
        );
        assert!(refused.contains(expected), "{role:?}: {refused}");
        assert!(!file.exists(), "{role:?}");
    }
    fixture.assert_data_are_as_before();
}
