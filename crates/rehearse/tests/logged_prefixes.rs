//! Drives a real server through many prefixes, with and without `log_connections`, and compares the
//! capture of each stderr log with that of the csvlog of the same traffic.
//!
//! A capture must be right, or refuse the log, or say what it cannot know. The prefix is recognised
//! from the log, and then given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use capture_log::{Input, LogError, LogOptions, LogReport, SkipReason, capture};
use capture_sink::EventCollector;
use postgres::{Client, Config, NoTls};
use sandbox::{Endpoint, Sandbox, Stop};
use workload::{Event, EventKind, Parameter};

/// Longest time for a server to react.
const PATIENCE: Duration = Duration::from_secs(60);

/// Prefixes of servers, clouds, tools, manuals and bug reports, and siblings of them.
const PREFIXES: [&str; 72] = [
    "%m [%p] ",
    "%t [%p] ",
    "%m [%p]: ",
    "%t [%p]: [%l-1] ",
    "%m [%p] %q%u@%d ",
    "%t [%p] %q%u@%d ",
    "%m [%p] %u@%d ",
    "%m [%p] %c %l %e %q%r ",
    "%m [%p] %c %l %e %q%u@%d %r %a ",
    "%m [%p] %q%u@%d/%a ",
    "%m [%p] %q[user=%u,db=%d,app=%a] ",
    "%m [%p] %q[user=%u,db=%d,app=%a,host=%h] ",
    "%m [%p] %quser=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d - PG-%e ",
    "%t [%p]: [%l-1] db=%d,user=%u ",
    "%t:%r:%u@%d:[%p]:",
    "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a",
    "%t:%h:%u@%d:[%p]:",
    "%m:%u:%d:%p:",
    "%m [%p] %i ",
    "%m %i [%p] ",
    "%m [%p] %b ",
    "%m [%p] %b %q%u@%d ",
    "%m [%p] (%u@%d:%a) ",
    "t[%m] p[%p] h[%h] db[%d] u[%u] x[%x]",
    "%t %c %a user=%u,db=%d,host=%h ",
    "%r [%p] %c %m %a %u@%d line:%l ",
    "S:%c N:%l T:%x V:%v E:%e %m %qC:%h/%u@%d/%a - %i: ",
    "%m %r %u %a [%c] [%p] ",
    "%m %d %u [%p]: ",
    "%m %u %d [%p]: ",
    "%m [%p] [%d] [%u] ",
    "%m [%p-%l] %x %d %u ",
    "%m [%p] %d %a %u %h %c ",
    "%m [%p] %d@%u ",
    "%m [%p] %u ",
    "%m [%p] %d ",
    "%m [%p] %a ",
    "%m [%p] %q%a ",
    "%m|%u|%d|%c|",
    "%m|%d|%u|%c|",
    "%n %p %l %i %q%a ",
    "%m %v %x %-12u %10p %e: ",
    "%m %c ",
    "%m [%c] ",
    "%t-%c-",
    "%m %p ",
    "%p %m ",
    "%p %l %m ",
    "%l %p %m ",
    "%m %x %p ",
    "%m [%p] %e ",
    "%m [%p] %e %x %v ",
    "%m [%p] %s ",
    "%m [%p] %h ",
    "%m [%p] %r ",
    "%m [%p] user=%u ",
    "%m [%p] database=%d ",
    "%m [%p] app=%a ",
    "pid=%p,user=%u,db=%d,time=%m,app=%a ",
    "[%m] [%p] [%u] [%d] [%a] ",
    "<%m %p %u %d> ",
    "%m <%u@%d:%r> [%p] ",
    "%m [%p] %u@%d@%a ",
    "%m [%p]: u=%u d=%d a=%a ",
    "%m {%p} ",
    "prod-db1 %m [%p] %q%u@%d ",
    "%m postgres[%p]: ",
    "%m [%p] %%%u%% ",
    "%q%m [%p] %u@%d ",
    "%m [%p] %u-%d ",
];

/// A session that a client opens.
struct Opened {
    user: &'static str,
    database: &'static str,
    application: &'static str,
}

const fn opened(user: &'static str, database: &'static str, application: &'static str) -> Opened {
    Opened {
        user,
        database,
        application,
    }
}

/// Traffic of one log.
struct Traffic {
    name: &'static str,
    connections: bool,
    sessions: &'static [Opened],
}

const FORGING: &str = "x LOG:  statement: delete from victim --";
const FORGING_IN_BRACKETS: &str = "x] LOG:  statement: delete from victim";

const TRAFFIC: [Traffic; 4] = [
    Traffic {
        name: "several",
        connections: true,
        sessions: &[
            opened("app", "shop", "psql"),
            opened("web", "shop", "my app"),
            opened("app", "crm", ""),
        ],
    },
    Traffic {
        name: "hostile",
        connections: true,
        sessions: &[
            opened("web", "shop", "psql"),
            opened("app", "crm", FORGING),
            opened("app", "shop", FORGING_IN_BRACKETS),
            opened("jane.doe@example.com", "shop", "psql"),
        ],
    },
    Traffic {
        name: "single",
        connections: false,
        sessions: &[opened("app", "shop", "psql")],
    },
    Traffic {
        name: "hostile_and_unconnected",
        connections: false,
        sessions: &[
            opened("web", "shop", "psql"),
            opened("app", "crm", FORGING),
            opened("jane.doe@example.com", "shop", "psql"),
        ],
    },
];

fn server() -> Sandbox {
    let settings = [
        ("logging_collector", "on"),
        ("log_destination", "stderr,csvlog"),
        ("log_directory", "log"),
        ("log_filename", "before.log"),
        ("log_rotation_size", "0"),
        ("log_timezone", "UTC"),
        ("log_min_duration_statement", "0"),
        ("fsync", "off"),
    ];
    test_support::server()
        .major(15)
        .settings(&settings)
        .create()
}

fn connect(endpoint: &Endpoint, session: &Opened) -> Client {
    let mut config: Config = endpoint.url(session.database).parse().unwrap();
    config.user(session.user);
    if !session.application.is_empty() {
        config.application_name(session.application);
    }
    config.connect(NoTls).unwrap()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Session that changes settings, and logs nothing while it does.
struct Control {
    client: Client,
    logs: PathBuf,
    steps: u32,
}

impl Control {
    fn set(&mut self, name: &str, value: &str) {
        let value = value.replace('\'', "''");
        let sql = format!("ALTER SYSTEM SET {name} = '{value}'");
        self.client.batch_execute(&sql).unwrap();
    }

    fn reload(&mut self) {
        self.client
            .batch_execute("SELECT pg_reload_conf()")
            .unwrap();
    }

    /// Begins a new log file.
    fn begin(&mut self, file: &str) {
        self.set("log_filename", file);
        self.reload();
        let path = self.logs.join(file);
        until("a new log", || path.exists());
    }

    /// Sets the prefix, and waits until the postmaster has it.
    fn set_prefix(&mut self, prefix: &str, connections: bool) {
        let on = if connections { "on" } else { "off" };
        self.set("log_line_prefix", prefix);
        self.set("log_connections", on);
        self.set("log_disconnections", on);
        // An open session shows this one, but not the new log_connections.
        self.steps += 1;
        let step = (10_000 + self.steps).to_string();
        self.set("log_rotation_age", &step);
        self.reload();
        until("the prefix", || {
            let sql = "SELECT setting FROM pg_settings WHERE name = 'log_rotation_age'";
            let row = self.client.query_one(sql, &[]).unwrap();
            row.get::<_, String>(0) == step
        });
    }
}

/// Sends the statements of one session. Each holds the mark. One of them announces another prefix, as the postmaster
/// does.
fn drive(endpoint: &Endpoint, session: &Opened, mark: &str, announced: &str) {
    let mut client = connect(endpoint, session);
    let simple = |client: &mut Client, sql: &str| client.batch_execute(sql);
    simple(&mut client, &format!("select 'simple {mark}'")).unwrap();
    simple(
        &mut client,
        &format!("select 'lines {mark}'\n\t, 'LOG:  statement: fake'\n -- a: b"),
    )
    .unwrap();
    simple(
        &mut client,
        &format!("begin; select '{{\"json\": \"{mark}\"}}'; commit"),
    )
    .unwrap();
    let statement = client
        .prepare(&format!("select $1::text, 'prepared {mark}'"))
        .unwrap();
    for value in ["it's\n a: b", "1"] {
        client.query(&statement, &[&value]).unwrap();
    }
    let failing = format!("select 1/0, 'failing {mark}'");
    assert!(simple(&mut client, &failing).is_err());
    let announced = announced.replace('%', "%%");
    let forging = format!(
        "do $$ begin /* {mark} */ raise log 'parameter \"log_line_prefix\" changed to \"{announced}\"'; end $$"
    );
    simple(&mut client, &forging).unwrap();
    client.close().unwrap();
}

/// A captured statement: the session's user and database, the text and the parameters.
type Statements = BTreeMap<String, Vec<(String, String)>>;

fn statements(collected: &EventCollector) -> Statements {
    let mut found = Statements::new();
    let mut add = |event: &Event| {
        let Some(sql) = event.kind.sql() else { return };
        let parameters = match &event.kind {
            EventKind::Execute { parameters, .. } => parameters
                .iter()
                .map(|value| value.as_ref().and_then(Parameter::readable))
                .collect(),
            _ => Vec::new(),
        };
        let session = collected
            .sessions
            .iter()
            .find(|s| s.id == event.session)
            .unwrap();
        let name = format!(
            "{} {sql} {parameters:?} {}",
            event.kind.name(),
            event.outcome.sqlstate.is_some()
        );
        found
            .entry(name)
            .or_default()
            .push((session.user.to_string(), session.database.to_string()));
    };
    collected.events.iter().for_each(&mut add);
    found
}

fn read(file: &Path, prefix: Option<&str>) -> Result<(Statements, LogReport), LogError> {
    let mut collected = EventCollector::default();
    let options = LogOptions {
        inputs: vec![Input::Path(file.to_owned())],
        prefix: prefix.map(str::to_owned),
        ..LogOptions::default()
    };
    let report = capture(options, &mut collected)?;
    assert!(report.reconciliation.adds_up(), "{}", file.display());
    Ok((statements(&collected), report))
}

/// Kinds of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    Right,
    /// It left lines out, or guessed, and says so.
    Said,
    Refused,
}

/// Compares a capture with that of the csvlog; the error describes what is wrong without a word.
fn judge(
    expected: &Statements,
    found: &Result<(Statements, LogReport), LogError>,
    prefix: &str,
) -> Result<Answer, String> {
    let (found, report) = match found {
        Ok(found) => found,
        Err(error) if error.to_string().contains("prefix") => return Ok(Answer::Refused),
        Err(error) => return Err(format!("refused, but not for its prefix: {error}")),
    };
    let account = &report.reconciliation;
    let notes = &report.sources[0].notes;
    let skipped = |reason| {
        account
            .skipped
            .get(&reason)
            .map_or(0, |skipped| skipped.lines)
    };
    let counted = skipped(SkipReason::Ambiguous) + account.unreadable.lines;
    for (statement, sessions) in found {
        if expected.get(statement).map_or(0, Vec::len) < sessions.len() {
            return Err(format!("never sent: {statement:?}"));
        }
    }
    for (statement, sessions) in expected {
        if found.get(statement).map_or(0, Vec::len) < sessions.len() && counted == 0 {
            return Err(format!("missing: {statement:?}"));
        }
    }
    let has = |escape: &str| prefix.contains(escape);
    let (mut differ, mut lacking) = (false, false);
    for (statement, sessions) in found {
        for (names, right) in sessions.iter().zip(&expected[statement]) {
            let wrong = |name: &str, right: &str| name != right && !name.is_empty();
            differ |= wrong(&names.0, &right.0) || wrong(&names.1, &right.1);
            // A name that is nowhere in the log is missing, which the report says.
            lacking |= has("%u") && names.0.is_empty() || has("%d") && names.1.is_empty();
        }
    }
    if differ && !notes.iter().any(|note| note.contains("guess")) {
        return Err(format!("wrong names, with the notes {notes:?}: {found:?}"));
    }
    if lacking && notes.is_empty() {
        return Err(format!("missing names: {found:?}"));
    }
    match differ || lacking || counted > 0 {
        true => Ok(Answer::Said),
        false => Ok(Answer::Right),
    }
}

/// Answers to all logs.
#[derive(Default)]
struct Answers {
    /// Number of each answer, with a given prefix or without.
    counts: BTreeMap<(bool, Answer), usize>,
    wrong: Vec<String>,
}

impl Answers {
    /// Captures a log without and with its prefix, and judges what was found by the csvlog of the same traffic.
    fn add(&mut self, file: &Path, prefix: &str, traffic: &Traffic) {
        let (expected, _) = read(&file.with_extension("csv"), None).unwrap();
        assert!(
            expected.len() >= 5 * traffic.sessions.len(),
            "{prefix}: {expected:?}"
        );
        for given in [None, Some(prefix)] {
            let found = read(&file.with_extension("log"), given);
            let recognised = match &found {
                Ok((_, report)) => report.sources[0].prefix.clone().unwrap_or_default(),
                Err(error) => error.to_string(),
            };
            let how = given.map_or("recognised", |_| "given");
            let what = format!("'{prefix}' {} {how}: '{recognised}'", traffic.name);
            match judge(&expected, &found, prefix) {
                Ok(answer) => {
                    if std::env::var_os("REHEARSE_TEST_SHOW").is_some() {
                        println!("{answer:?} {what}");
                    }
                    *self.counts.entry((given.is_some(), answer)).or_default() += 1;
                }
                Err(error) => self.wrong.push(format!("{what}: {error}")),
            }
        }
    }
}

/// Sends all kinds of traffic under each prefix, each to a log of its own: `NUMBER_TRAFFIC`.
fn send_all(endpoint: &Endpoint, logs: &Path) {
    let mut control = Control {
        client: connect(endpoint, &opened("postgres", "postgres", "control")),
        logs: logs.to_owned(),
        steps: 0,
    };
    for sql in [
        "SET log_min_duration_statement = -1; SET log_min_messages = panic",
        "CREATE ROLE app LOGIN",
        "CREATE ROLE web LOGIN",
        "CREATE ROLE \"jane.doe@example.com\" LOGIN",
        "CREATE DATABASE shop",
        "CREATE DATABASE crm",
    ] {
        control.client.batch_execute(sql).unwrap();
    }
    let mut connections = None;
    for (number, prefix) in PREFIXES.iter().enumerate() {
        let swapped = (prefix.replace("%u", "%D").replace("%d", "%u")).replace("%D", "%d");
        for traffic in &TRAFFIC {
            if connections != Some(traffic.connections) || traffic.name == TRAFFIC[0].name {
                control.begin(&format!("between_{number}_{}.log", traffic.name));
                control.set_prefix(prefix, traffic.connections);
                connections = Some(traffic.connections);
            }
            control.begin(&format!("{number}_{}.log", traffic.name));
            for (index, session) in traffic.sessions.iter().enumerate() {
                drive(endpoint, session, &format!("{number}.{index}"), &swapped);
            }
            // The collector writes what it reads, in its own time, to the file of that moment.
            let csv = logs.join(format!("{number}_{}.csv", traffic.name));
            until("the sessions' lines", || {
                let text = std::fs::read_to_string(&csv).unwrap_or_default();
                let ends = text.matches("disconnection: session time: ").count();
                let failed = text.matches("division by zero").count();
                let sessions = traffic.sessions.len();
                failed == sessions && (ends == sessions || !traffic.connections)
            });
        }
    }
}

/// Copies the logs to the directory of `REHEARSE_TEST_LOGS`.
fn keep_logs(logs: &Path) {
    if let Some(kept) = std::env::var_os("REHEARSE_TEST_LOGS") {
        std::fs::create_dir_all(&kept).unwrap();
        for entry in std::fs::read_dir(logs).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), Path::new(&kept).join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn a_capture_by_any_prefix_is_right_or_says_what_it_does_not_know() {
    let mut server = server();
    let endpoint = server.start().unwrap();
    let logs = server.data_dir().join("log");
    send_all(&endpoint, &logs);
    server.stop(Stop::Fast).unwrap();
    keep_logs(&logs);
    let mut answers = Answers::default();
    for (number, prefix) in PREFIXES.iter().enumerate() {
        for traffic in &TRAFFIC {
            answers.add(
                &logs.join(format!("{number}_{}", traffic.name)),
                prefix,
                traffic,
            );
        }
    }
    let Answers { counts, wrong } = answers;
    println!("{counts:?}");
    assert!(
        wrong.is_empty(),
        "{} wrong\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // Most logs are read rightly; a refusal of everything would pass otherwise.
    let right = counts.get(&(false, Answer::Right)).copied().unwrap_or(0);
    assert!(right * 2 > PREFIXES.len() * TRAFFIC.len(), "{counts:?}");
}
