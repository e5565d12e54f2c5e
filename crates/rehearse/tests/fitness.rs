//! Applies the printed settings to real servers. Their log must lack nothing. In reverse, each
//! setting that removes information must be named.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls, types::Type};
use sandbox::{Endpoint, Sandbox};

/// Longer than a server needs to write its log.
const PATIENCE: Duration = Duration::from_secs(20);

fn rehearse(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Returns the output of a command that must succeed.
fn printed(arguments: &[&str]) -> String {
    let output = rehearse(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the statements of a script that change the server. What psql writes for the undo is left out.
fn statements(script: &str) -> Vec<String> {
    let lines = script.lines();
    let code = lines.map(|line| line.split("-- ").next().unwrap().trim());
    code.filter(|line| line.starts_with("ALTER SYSTEM ") || line.starts_with("SELECT pg_"))
        .map(|line| line.trim_end_matches(';').to_owned())
        .collect()
}

/// Server that logs to a file, with default settings otherwise.
struct Server {
    _sandbox: Sandbox,
    endpoint: Endpoint,
    /// The stderr log; a csvlog has the same name with another extension.
    log: PathBuf,
    room: tempfile::TempDir,
}

impl Server {
    fn new(major: u16) -> Self {
        let settings = [
            ("logging_collector", "on"),
            ("log_directory", "log"),
            ("log_filename", "postgresql.log"),
            ("log_rotation_size", "0"),
        ];
        let (sandbox, endpoint) = test_support::server()
            .major(major)
            .settings(&settings)
            .start();
        let log = sandbox.data_dir().join("log/postgresql.log");
        let server = Server {
            _sandbox: sandbox,
            endpoint,
            log,
            room: tempfile::tempdir().unwrap(),
        };
        server
            .connect()
            .batch_execute("CREATE TABLE item (id int PRIMARY KEY, name text); INSERT INTO item VALUES (0, 'a')")
            .unwrap();
        server
    }

    fn connect(&self) -> Client {
        Client::connect(&self.endpoint.url("postgres"), NoTls).unwrap()
    }

    /// Runs a script, waits until a new session has this value, and empties the log.
    fn apply(&self, script: &[String], awaited: (&str, &str)) {
        // A session's own settings of connections are those that it began with.
        let mut client = self.connect();
        for statement in script {
            client
                .simple_query(statement)
                .unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        drop(client);
        let (name, value) = awaited;
        wait(&format!("{name} = {value}"), || {
            let sql = "SELECT setting FROM pg_settings WHERE name = $1";
            let row = self.connect().query_one(sql, &[&name]).unwrap();
            row.get::<_, String>(0) == value
        });
        wait("the last session to go", || {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
            self.connect().query_one(sql, &[]).unwrap().get::<_, i64>(0) == 1
        });
        // The collector writes within milliseconds what is in its pipe. Nothing tells that it has.
        let mut size = 0;
        wait("the log to rest", || {
            let before = std::mem::replace(&mut size, self.log_bytes());
            std::thread::sleep(Duration::from_millis(100));
            size == before
        });
        for log in self.logs() {
            let file = std::fs::File::options().write(true).open(log).unwrap();
            file.set_len(0).unwrap();
        }
    }

    /// Returns the logs that exist.
    fn logs(&self) -> Vec<PathBuf> {
        let all = [self.log.clone(), self.log.with_extension("csv")];
        all.into_iter().filter(|log| log.exists()).collect()
    }

    /// Returns their size in bytes.
    fn log_bytes(&self) -> u64 {
        let size = |log: &PathBuf| log.metadata().unwrap().len();
        self.logs().iter().map(size).sum()
    }

    /// Captures the log, and returns the report.
    fn captured(&self, name: &str) -> serde_json::Value {
        // A server that logs as csvlog writes a line about that to the other log.
        let size = |log: &PathBuf| log.metadata().unwrap().len();
        let written = self.logs().into_iter().max_by_key(size).unwrap();
        let log = self
            .room
            .path()
            .join(name)
            .with_extension(written.extension().unwrap());
        std::fs::copy(&written, &log).unwrap();
        let output = rehearse(&[
            "capture",
            "log",
            log.to_str().unwrap(),
            "--dry-run",
            "--json",
        ]);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "{name}: {output:?}");
        let view: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let workload = self.room.path().join(format!("{name}.workload"));
        rehearse(&[
            "capture",
            "log",
            log.to_str().unwrap(),
            "-o",
            workload.to_str().unwrap(),
        ]);
        assert_eq!(
            view["fitness"],
            self.kept(&workload),
            "{name}: what the manifest keeps"
        );
        view
    }

    /// Returns the quality of the workload that was kept.
    fn kept(&self, workload: &Path) -> serde_json::Value {
        let reader = workload::WorkloadReader::open(workload).unwrap();
        let account = &reader.info().provenance.reconciliation;
        let account = serde_json::from_value(account.clone()).unwrap();
        let fitness = capture_log::LogQuality::judge(&account);
        serde_json::to_value(fitness).unwrap()
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Number of rounds of statements, each with failing ones.
const ROUNDS: i32 = 30;
const SLOW: i32 = 12;
const SENT: u64 = (ROUNDS * 4 + SLOW + 4) as u64;
const FAILED: u64 = 3;

/// Runs one session in both protocols, with failures at each step.
fn session(server: &Server, number: i32) {
    let mut client = server.connect();
    let insert = client.prepare("INSERT INTO item VALUES ($1, $2)").unwrap();
    for round in 0..ROUNDS {
        let id = number * 1_000 + round;
        client.simple_query("BEGIN").unwrap();
        client
            .execute(&insert, &[&id, &"a name that is long"])
            .unwrap();
        let found = "SELECT name FROM item WHERE id = $1";
        client.query_typed(found, &[(&id, Type::INT4)]).unwrap();
        client.simple_query("COMMIT").unwrap();
    }
    for _ in 0..SLOW {
        client.simple_query("SELECT pg_sleep(0.06)").unwrap();
    }
    client
        .execute(&insert, &[&0, &"is there already"])
        .unwrap_err();
    client
        .query_typed("SELECT 1 / $1", &[(&0, Type::INT4)])
        .unwrap_err();
    client
        .simple_query("SELECT nothing FROM nowhere")
        .unwrap_err();
    client
        .simple_query("DELETE FROM item WHERE id > 0")
        .unwrap();
}

/// Runs sessions one after another, and returns when the log is complete.
fn traffic(server: &Server, sessions: i32) {
    (1..=sessions).for_each(|number| session(server, number));
    let mut size = 0;
    wait("the log", || {
        let before = std::mem::replace(&mut size, server.log_bytes());
        std::thread::sleep(Duration::from_millis(100));
        size > 0 && size == before
    });
}

/// Applies the printed settings, checks that the log lacks nothing, and reverts them.
fn the_printed_settings_suffice(major: u16) {
    let server = Server::new(major);
    let version = major.to_string();
    let script = printed(&["capture", "settings", "--version", &version]);
    server.apply(&statements(&script), ("log_destination", "csvlog"));
    assert_nothing_is_lacking(&server, "csvlog");
    let stderr = [
        "ALTER SYSTEM SET log_destination = 'stderr'",
        "SELECT pg_reload_conf()",
    ];
    server.apply(&stderr.map(str::to_owned), ("log_destination", "stderr"));
    assert_nothing_is_lacking(&server, "stderr");
}

/// Runs a script with psql in a directory, and returns whether psql succeeded.
fn psql(server: &Server, directory: &Path, script: &str) -> bool {
    let mut child = Command::new("psql")
        .args(["-X", &server.endpoint.url("postgres")])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // psql ends at the first error, and does not read the rest.
    let _ = stdin.write_all(script.as_bytes());
    drop(stdin);
    child.wait().unwrap().success()
}

/// Returns the settings in postgresql.auto.conf.
fn set_by_alter_system(server: &Server) -> Vec<(String, String)> {
    let sql = "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf' ORDER BY name";
    let rows = server.connect().query(sql, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[test]
fn undo_of_the_settings_restores_the_values_that_alter_system_gave_before() {
    if Command::new("psql").arg("--version").output().is_err() {
        return test_support::report_skipped("there is no psql");
    }
    let server = Server::new(15);
    let earlier = [
        ("log_destination", "stderr, csvlog"),
        ("log_line_prefix", r"it''s \ %m "),
        ("log_min_duration_statement", "250"),
        ("work_mem", "9MB"),
    ];
    for (name, value) in earlier {
        let sql = format!("ALTER SYSTEM SET {name} = '{value}'");
        server.connect().batch_execute(&sql).unwrap();
    }
    let before = set_by_alter_system(&server);
    assert_eq!(before.len(), earlier.len());
    let set = printed(&["capture", "settings"]);
    let undo = printed(&["capture", "settings", "--undo"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rehearse-settings-undo.sql");

    // Without a place for the earlier values, nothing is changed.
    let unfinished = directory.path().join("rehearse-settings-undo.sql.new");
    std::fs::create_dir(&unfinished).unwrap();
    assert!(!psql(&server, directory.path(), &set));
    assert_eq!(set_by_alter_system(&server), before);
    std::fs::remove_dir(&unfinished).unwrap();

    // After an interrupted run, and for another server, the earlier values are not overwritten.
    let (half, _) = set
        .split_once("ALTER SYSTEM SET log_disconnections")
        .unwrap();
    assert!(psql(&server, directory.path(), half));
    let interrupted = set_by_alter_system(&server);
    assert_ne!(interrupted, before);
    let other = Server::new(15);
    for server in [&server, &other] {
        let values = (set_by_alter_system(server), std::fs::read(&file).unwrap());
        assert!(!psql(server, directory.path(), &set));
        let after = (set_by_alter_system(server), std::fs::read(&file).unwrap());
        assert_eq!(after, values);
    }
    assert!(set_by_alter_system(&other).is_empty());
    // Servers of the tests are physical copies, with the same system identifier.
    let sql = "SELECT system_identifier::text FROM pg_control_system()";
    let identifier: String = server.connect().query_one(sql, &[]).unwrap().get(0);
    let of_other = std::fs::read_to_string(&file).unwrap();
    let of_other = of_other.replace(&identifier, "1");
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join(file.file_name().unwrap()), of_other).unwrap();
    assert!(!psql(&server, elsewhere.path(), &undo));
    assert_eq!(set_by_alter_system(&server), interrupted);
    assert!(psql(&server, directory.path(), &undo));
    assert_eq!(set_by_alter_system(&server), before);
    assert!(!file.exists());

    // The second time, the values of the first are not taken for the earlier ones.
    for _ in 0..2 {
        assert!(psql(&server, directory.path(), &set));
    }
    let during = set_by_alter_system(&server);
    assert!(during.contains(&("log_min_duration_statement".to_owned(), "0".to_owned())));
    let elsewhere = tempfile::tempdir().unwrap();
    assert!(!psql(&server, elsewhere.path(), &undo));
    assert_eq!(set_by_alter_system(&server), during);
    assert!(psql(&server, directory.path(), &undo));
    assert_eq!(set_by_alter_system(&server), before);
    let sql = "SELECT setting FROM pg_settings WHERE name = 'log_min_duration_statement'";
    wait("the server to read the settings", || {
        let row = server.connect().query_one(sql, &[]).unwrap();
        row.get::<_, String>(0) == "250"
    });
}

/// Sends traffic, and asserts that the log has all of it.
fn assert_nothing_is_lacking(server: &Server, name: &str) {
    traffic(server, 3);
    let view = server.captured(name);
    let fitness = &view["fitness"];
    let lacks = &fitness["findings"];
    assert_eq!(lacks, &serde_json::json!([]), "{fitness:#}");
    let mut extents = fitness["uses"].as_object().unwrap().values();
    assert!(extents.all(|extent| extent == "yes"), "{fitness:#}");
    // The preparations of the failing texts count as statements of their own, or do not, by what
    // the server logged; nothing that was sent is missing.
    let tallies = &view["tallies"];
    assert_eq!(tallies["statements"], SENT * 3, "{view:#}");
    assert_eq!(fitness["replayable"], SENT * 3);
    assert_eq!(tallies["failed"], FAILED * 3);
    assert_eq!(tallies["timed"], (SENT - FAILED) * 3);
    assert_eq!(tallies["sessions"], 3);
    assert_eq!(tallies["whole"], 3);
}

#[test]
fn the_printed_settings_suffice_for_13() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    the_printed_settings_suffice(13);
}

#[test]
fn the_printed_settings_suffice_for_15() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    the_printed_settings_suffice(15);
}

#[test]
fn the_printed_settings_suffice_for_17() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    the_printed_settings_suffice(17);
}

#[test]
fn the_printed_settings_suffice_for_18() {
    the_printed_settings_suffice(18);
}

/// Setting that differs from the recommended ones, and the expected finding: its name and the setting
/// that it names.
struct Lack {
    set: &'static [(&'static str, &'static str)],
    finding: &'static str,
    setting: (&'static str, &'static str),
    /// Use that is no longer `yes`, and its value.
    extent: (&'static str, &'static str),
}

const LACKS: [Lack; 15] = [
    Lack {
        set: &[("log_min_duration_statement", "-1")],
        finding: "only_failures",
        setting: ("log_min_duration_statement", "0"),
        extent: ("replay", "no"),
    },
    Lack {
        set: &[
            ("log_min_duration_statement", "-1"),
            ("log_statement", "all"),
        ],
        finding: "durations_unknown",
        setting: ("log_min_duration_statement", "0"),
        extent: ("latencies", "no"),
    },
    Lack {
        set: &[
            ("log_min_duration_statement", "-1"),
            ("log_statement", "mod"),
        ],
        finding: "writes_only",
        setting: ("log_min_duration_statement", "0"),
        extent: ("replay", "partly"),
    },
    Lack {
        set: &[("log_min_duration_statement", "-1"), ("log_duration", "on")],
        finding: "durations_without_statement",
        setting: ("log_min_duration_statement", "0"),
        extent: ("replay", "no"),
    },
    Lack {
        set: &[("log_min_duration_statement", "50")],
        finding: "slow_only",
        setting: ("log_min_duration_statement", "0"),
        extent: ("replay", "partly"),
    },
    Lack {
        set: &[
            ("log_min_duration_statement", "-1"),
            ("log_min_duration_sample", "0"),
            ("log_statement_sample_rate", "0.5"),
        ],
        finding: "gaps",
        setting: ("log_min_duration_statement", "0"),
        extent: ("replay", "partly"),
    },
    Lack {
        set: &[("log_parameter_max_length", "4")],
        finding: "values_cut",
        setting: ("log_parameter_max_length", "-1"),
        extent: ("replay", "partly"),
    },
    Lack {
        set: &[("log_parameter_max_length", "0")],
        finding: "values_missing",
        setting: ("log_parameter_max_length", "-1"),
        extent: ("replay", "partly"),
    },
    Lack {
        set: &[("log_error_verbosity", "terse")],
        finding: "values_missing",
        setting: ("log_error_verbosity", "default"),
        extent: ("replay", "partly"),
    },
    Lack {
        set: &[("log_parameter_max_length_on_error", "0")],
        finding: "values_missing_on_failure",
        setting: ("log_parameter_max_length_on_error", "-1"),
        extent: ("replay", "partly"),
    },
    Lack {
        set: &[("log_min_error_statement", "panic")],
        finding: "errors_without_statement",
        setting: ("log_min_error_statement", "error"),
        extent: ("failures", "partly"),
    },
    Lack {
        set: &[("log_connections", "off")],
        finding: "no_beginnings",
        setting: ("log_connections", "on"),
        extent: ("sessions", "no"),
    },
    Lack {
        set: &[("log_disconnections", "off")],
        finding: "no_ends",
        setting: ("log_disconnections", "on"),
        extent: ("sessions", "no"),
    },
    Lack {
        set: &[("log_line_prefix", "%t [%p] %q%u@%d ")],
        finding: "whole_seconds",
        setting: ("log_line_prefix", "%m [%p] %c %l %e %q%r "),
        extent: ("pacing", "partly"),
    },
    Lack {
        set: &[("log_line_prefix", "%m [%p] %q%u@%d ")],
        finding: "uncoded",
        setting: ("log_line_prefix", "%m [%p] %c %l %e %q%r "),
        extent: ("failures", "no"),
    },
];

#[test]
fn whatever_a_setting_takes_away_is_found_and_the_setting_named() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let server = Server::new(17);
    let best = statements(&printed(&["capture", "settings", "--version", "17"]));
    for (index, lack) in LACKS.iter().enumerate() {
        let Lack {
            set,
            finding,
            setting,
            extent,
        } = lack;
        let mut script = vec!["ALTER SYSTEM RESET ALL".to_owned()];
        script.extend(best.iter().filter(|s| s.starts_with("ALTER")).cloned());
        script.extend(
            set.iter()
                .map(|(name, value)| format!("ALTER SYSTEM SET {name} = '{value}'")),
        );
        script.push("ALTER SYSTEM SET log_destination = 'stderr'".to_owned());
        script.push("SELECT pg_reload_conf()".to_owned());
        let (name, value) = set[set.len() - 1];
        server.apply(&script, (name, value));
        // A sample of few transactions shows too few of their ends now and then, one of many never.
        let sessions = if *finding == "gaps" { 3 } else { 1 };
        traffic(&server, sessions);
        let fitness = &server.captured(&format!("lack-{index}"))["fitness"];
        let findings = fitness["findings"].as_array().unwrap();
        let found = findings.iter().find(|found| found["finding"] == *finding);
        let found = found.unwrap_or_else(|| panic!("{set:?}: no {finding} in {fitness:#}"));
        let (name, value) = setting;
        assert_eq!(found["settings"][name], *value, "{set:?}: {found:#}");
        let (of, wanted) = extent;
        let is = &fitness["uses"][of];
        assert_eq!(is, wanted, "{set:?}: {of}: {fitness:#}");
    }
}
