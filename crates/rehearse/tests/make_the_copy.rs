//! The commands that a capture prints for a copy, executed: a base backup with archived WAL, and pg_dump with an exported
//! snapshot. They need Debian's programs of PostgreSQL 15.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use run::{Outcome, RunReader};
use sandbox::{Endpoint, Sandbox};
use test_support::{CaptureProxy, connect, server};

/// Directory of `pg_basebackup` and `psql`, which downloaded servers do not have.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

const SCHEMA: &str = "CREATE TABLE customers (id int PRIMARY KEY, name text);
    INSERT INTO customers SELECT i, 'c' || i FROM generate_series(1, 20) i;
    CREATE TABLE purchases (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int REFERENCES customers);
    CREATE TABLE lines (purchase bigint REFERENCES purchases, no int, PRIMARY KEY (purchase, no));
    INSERT INTO purchases (customer) SELECT 1 + i % 20 FROM generate_series(1, 7) i";

/// Purchases without their ids, which two sessions may get in another order, and all ids.
const STATE: &str = "SELECT string_agg(purchase, ' ' ORDER BY purchase) || ' | ' || (SELECT string_agg(id::text, ' ' ORDER BY id)
        FROM purchases)
    FROM (SELECT concat_ws('/', customer, (SELECT string_agg(no::text, '+' ORDER BY no) FROM lines WHERE purchase = id)) AS purchase
        FROM purchases) AS described";

fn has_programs() -> bool {
    let found = Path::new(PROGRAMS).join("pg_basebackup").exists();
    if !found {
        test_support::report_skipped("the programs of PostgreSQL 15 are not installed");
    }
    found
}

fn rehearse(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = rehearse(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A directory that the user of the servers may write.
struct Place {
    directory: tempfile::TempDir,
    owner: (u32, u32),
}

impl Place {
    fn new(server: &Sandbox) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        let owner = server.data_dir().metadata().unwrap();
        Place {
            directory,
            owner: (owner.uid(), owner.gid()),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Executes a script by the shell, as the user of the servers. Its first failure fails it.
    #[track_caller]
    fn execute(&self, script: &str) {
        let mut command = Command::new("sh");
        if is_root() {
            command = Command::new("setpriv");
            let (user, group) = self.owner;
            command
                .args([format!("--reuid={user}"), format!("--regid={group}")])
                .args(["--clear-groups", "sh"]);
        }
        let path = format!("{PROGRAMS}:{}", std::env::var("PATH").unwrap());
        let output = command
            .args(["-e", "-c", script])
            .env("PATH", path)
            .env("HOME", self.directory.path())
            .current_dir(self.directory.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let log = fs::read_to_string(self.path("COPY.log")).unwrap_or_default();
        assert!(output.status.success(), "{script}\n{said}\n{log}");
    }
}

fn is_root() -> bool {
    // A file of this process belongs to its user.
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Returns the commands of a recipe of `inspect --copy-commands`.
#[track_caller]
fn recipe(workload: &str, title: &str) -> String {
    let text = printed(&["inspect", workload, "--copy-commands"]);
    let (_, after) = text
        .split_once(title)
        .unwrap_or_else(|| panic!("{title}: {text}"));
    let lines = after.lines().skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = lines.map(|line| line.trim_start_matches("    ")).collect();
    commands.join("\n")
}

fn url(server: &Endpoint) -> String {
    server
        .url("postgres")
        .trim_end_matches("postgres")
        .to_owned()
}

/// Makes a purchase, with lines that use its id.
fn purchase(client: &mut Client, customer: i32) {
    let sql = "INSERT INTO purchases (customer) VALUES ($1) RETURNING id";
    let id: i64 = client.query_one(sql, &[&customer]).unwrap().get(0);
    for no in 1..=2 {
        let line = "INSERT INTO lines VALUES ($1, $2)";
        client.execute(line, &[&id, &no]).unwrap();
    }
}

fn state(client: &mut Client) -> String {
    client.query_one(STATE, &[]).unwrap().get(0)
}

/// Replays onto the copy, and requires that every statement does what it did.
#[track_caller]
fn replays_wholly(workload: &str, target: &str, run: &str) {
    printed(&[
        "replay",
        workload,
        "--target",
        target,
        "--no-facts",
        "-o",
        run,
    ]);
    let reader = RunReader::open(Path::new(run)).unwrap();
    let executions: Vec<_> = reader.executions().unwrap().map(Result::unwrap).collect();
    assert!(executions.len() > 20);
    for one in executions.iter().filter(|one| one.is_statement()) {
        assert_eq!(one.outcome, Outcome::Done, "{one:?}");
        assert!(
            one.captured.rows.is_none_or(|rows| rows == one.rows),
            "{one:?}"
        );
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn base_backup_recovered_to_the_starting_point_replays_wholly() {
    if !has_programs() {
        return;
    }
    let archive = tempfile::tempdir().unwrap();
    fs::set_permissions(archive.path(), Permissions::from_mode(0o777)).unwrap();
    let command = format!("cp %p {}/%f", archive.path().display());
    let settings = [
        ("wal_level", "replica"),
        ("max_wal_senders", "4"),
        ("archive_mode", "on"),
        ("archive_command", &command),
    ];
    let builder = server().major(15).password("copy").settings(&settings);
    let (sandbox, source) = builder.start();
    let place = Place::new(&sandbox);
    let mut direct = connect(&source);
    direct.batch_execute(SCHEMA).unwrap();
    let base = url(&source);
    place.execute(&format!(
        "pg_basebackup -D COPY --checkpoint=fast -d {base}postgres"
    ));
    // What was written after the backup comes from the archive; what is not committed does not come.
    purchase(&mut direct, 3);
    let mut open = connect(&source);
    open.batch_execute("BEGIN; INSERT INTO purchases (customer) VALUES (4)")
        .unwrap();
    let workload = place.text("a.workload");
    let options = ["--starting-point", &source.url("postgres")];
    let program = env!("CARGO_BIN_EXE_rehearse");
    let proxy = CaptureProxy::start(program, &source, Path::new(&workload), &options);
    let mut clients = [connect(&proxy.endpoint), connect(&proxy.endpoint)];
    for customer in 1..=10 {
        purchase(&mut clients[customer as usize % 2], customer);
    }
    drop(clients);
    open.batch_execute("ROLLBACK").unwrap();
    proxy.interrupt();
    let expected = state(&mut direct);

    let text = printed(&["inspect", &workload, "--copy-commands"]);
    assert!(text.contains("1 transaction had written"), "{text}");
    let port = free_port();
    let script = recipe(&workload, "A base backup")
        .replace("postgres://SOURCE/", &base)
        .replace("ARCHIVE", &archive.path().display().to_string())
        .replace(
            "-p 5433",
            &format!(
                "-p {port} -k {} -c listen_addresses=127.0.0.1",
                place.text("")
            ),
        );
    // The source has the archive's last file when it says so.
    let switched = "SELECT pg_switch_wal()";
    direct.query_one(switched, &[]).unwrap();
    wait_for(|| archived(&mut direct));
    place.execute(&script);
    let target = format!("postgres://postgres:copy@127.0.0.1:{port}/postgres");
    let _stop = Stop(&place);
    let mut copy = Client::connect(&target, NoTls).unwrap();
    wait_for(|| {
        !copy
            .query_one("SELECT pg_is_in_recovery()", &[])
            .unwrap()
            .get::<_, bool>(0)
    });
    let sequences = printed(&["inspect", &workload, "--sequences"]);
    fs::write(place.path("sequences.sql"), sequences).unwrap();
    place.execute(&format!("psql -q -d {target} -f sequences.sql"));
    replays_wholly(&workload, &target, &place.text("a.run"));
    assert_eq!(state(&mut copy), expected);
}

/// Whether the WAL up to the last switch is archived.
fn archived(client: &mut Client) -> bool {
    let sql = "SELECT last_archived_wal >= pg_walfile_name(pg_current_wal_lsn() - 16777216) FROM pg_stat_archiver";
    let row = client.query_one(sql, &[]).unwrap();
    row.get::<_, Option<bool>>(0).unwrap_or(false)
}

fn wait_for(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "it never was so");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Stops the copy.
struct Stop<'p>(&'p Place);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0
            .execute("pg_ctl -D COPY -m immediate -w stop > stop.log");
    }
}

#[test]
fn dump_with_the_exported_snapshot_replays_wholly() {
    if !has_programs() {
        return;
    }
    let (sandbox, source) = server().major(15).password("copy").start();
    let (_other, copy) = server().major(15).password("copy").start();
    let place = Place::new(&sandbox);
    let mut direct = connect(&source);
    direct.batch_execute("CREATE DATABASE shop").unwrap();
    let shop = |server: &Endpoint| Client::connect(&server.url("shop"), NoTls).unwrap();
    shop(&source).batch_execute(SCHEMA).unwrap();
    let workload = place.text("a.workload");
    let options = [
        "--starting-point",
        &source.url("shop"),
        "--export-snapshot=5m",
    ];
    let program = env!("CARGO_BIN_EXE_rehearse");
    let proxy = CaptureProxy::start(program, &source, Path::new(&workload), &options);
    let mut client = shop(&proxy.endpoint);
    for customer in 1..=5 {
        purchase(&mut client, customer);
    }
    let exported = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE '%pg_export_snapshot%'";
    assert_eq!(direct.query_one(exported, &[]).unwrap().get::<_, i64>(0), 1);
    let script = dump_recipe(&place, &workload)
        .replace("postgres://SOURCE/", &url(&source))
        .replace("postgres://COPY/", &url(&copy));
    place.execute(&script);
    for customer in 6..=10 {
        purchase(&mut client, customer);
    }
    drop(client);
    proxy.interrupt();
    let expected = state(&mut shop(&source));
    let sequences = printed(&["inspect", &workload, "--sequences"]);
    fs::write(place.path("sequences.sql"), sequences).unwrap();
    place.execute(&format!(
        "psql -q -d {} -f sequences.sql",
        copy.url("postgres")
    ));
    replays_wholly(&workload, &copy.url("postgres"), &place.text("a.run"));
    assert_eq!(state(&mut shop(&copy)), expected);
}

/// Returns the recipe while the capture runs, from a recovered copy of its unfinished workload.
fn dump_recipe(place: &Place, workload: &str) -> String {
    let partial = format!("{workload}.partial");
    let copied = place.text("b.workload");
    wait_for(|| {
        let _ = fs::remove_dir_all(format!("{copied}.partial"));
        let _ = fs::remove_dir_all(&copied);
        let mut copy = Command::new("cp");
        copy.args(["-r", &partial, &format!("{copied}.partial")]);
        let _ = copy.status();
        let recovered = rehearse(&["recover", &format!("{copied}.partial")]);
        recovered.status.success()
            && rehearse(&["inspect", &copied, "--copy-commands"])
                .status
                .success()
    });
    recipe(&copied, "pg_dump with the exported snapshot")
}

#[test]
fn slice_from_a_dump_in_the_capture_replays_wholly_onto_it() {
    if !has_programs() {
        return;
    }
    let (sandbox, source) = server().major(15).password("copy").start();
    let (_other, copy) = server().major(15).password("copy").start();
    let place = Place::new(&sandbox);
    connect(&source).batch_execute(SCHEMA).unwrap();
    let workload = place.text("a.workload");
    let program = env!("CARGO_BIN_EXE_rehearse");
    let proxy = CaptureProxy::start(program, &source, Path::new(&workload), &[]);
    let [mut client, mut open] = [connect(&proxy.endpoint), connect(&proxy.endpoint)];
    for customer in 1..=3 {
        purchase(&mut client, customer);
    }
    // In progress at the snapshot: the dump does not have it, and the slice has all of it.
    open.batch_execute("BEGIN; INSERT INTO purchases (customer) VALUES (4)")
        .unwrap();
    let dump = format!("pg_dump -d {} -f dump.sql", proxy.endpoint.url("postgres"));
    place.execute(&dump);
    open.batch_execute("COMMIT").unwrap();
    for customer in 5..=12 {
        purchase(&mut client, customer);
    }
    drop((client, open));
    proxy.interrupt();
    let expected = state(&mut connect(&source));
    let target = copy.url("postgres");
    place.execute(&format!(
        "psql -q -v ON_ERROR_STOP=1 -d {target} -f dump.sql"
    ));
    let slice = place.text("b.workload");
    let output = rehearse(&["slice", &workload, "--from-dump", "-o", &slice]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("dump of database postgres was taken at"),
        "{said}"
    );
    let sequences = printed(&["inspect", &slice, "--sequences"]);
    fs::write(place.path("sequences.sql"), sequences).unwrap();
    place.execute(&format!(
        "psql -q -v ON_ERROR_STOP=1 -d {target} -f sequences.sql"
    ));
    replays_wholly(&slice, &target, &place.text("a.run"));
    assert_eq!(state(&mut connect(&copy)), expected);
    // The slice itself contains no dump.
    let none = rehearse(&[
        "slice",
        &slice,
        "--from-dump",
        "-o",
        &place.text("c.workload"),
    ]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("contains no pg_dump"));
}
