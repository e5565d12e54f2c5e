//! Checks that a capture holds only statements that were sent, whatever names clients choose for
//! their user, database and application.

use capture_log::{LogReport, SkipReason, capture_bytes};
use capture_sink::EventCollector;
use proptest::prelude::*;
use workload::{Event, Unreplayable};

/// A client, as the server sees it.
#[derive(Debug, Clone)]
struct Client {
    user: String,
    database: String,
    application: String,
    pid: u32,
    /// It is refused before it is authenticated.
    refused: bool,
}

/// Writes the lines of a server.
struct Server {
    prefix: &'static str,
    log_connections: bool,
    text: String,
    sent: Vec<String>,
    line_numbers: std::collections::HashMap<u32, u32>,
}

impl Server {
    fn new(prefix: &'static str, log_connections: bool) -> Self {
        Server {
            prefix,
            log_connections,
            text: String::new(),
            sent: Vec::new(),
            line_numbers: Default::default(),
        }
    }

    fn write(&mut self, client: &Client, label: &str, message: &str) {
        let number = self.line_numbers.entry(client.pid).or_default();
        *number += 1;
        let mut letters = self.prefix.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '%' => match letters.next().unwrap() {
                    'm' => self.text.push_str("2026-03-01 09:30:05.123 UTC"),
                    't' => self.text.push_str("2026-03-01 09:30:05 UTC"),
                    'p' => self.text.push_str(&client.pid.to_string()),
                    'c' => self.text.push_str(&format!("69a407a0.{:x}", client.pid)),
                    'l' => self.text.push_str(&number.to_string()),
                    'e' => self.text.push_str("00000"),
                    'r' | 'h' => self.text.push_str("[local]"),
                    'u' => self.text.push_str(&client.user),
                    'd' => self.text.push_str(&client.database),
                    'a' => self.text.push_str(match &*client.application {
                        "" => "[unknown]",
                        name => name,
                    }),
                    'q' => (),
                    other => panic!("%{other}"),
                },
                other => self.text.push(other),
            }
        }
        self.text
            .push_str(&format!("{label}:  {}\n", message.replace('\n', "\n\t")));
    }

    fn connect(&mut self, client: &Client) {
        if self.log_connections {
            let unknown = Client {
                user: "[unknown]".into(),
                database: "[unknown]".into(),
                application: String::new(),
                ..client.clone()
            };
            self.write(&unknown, "LOG", "connection received: host=[local]");
        }
        let unnamed = Client {
            application: String::new(),
            ..client.clone()
        };
        let Client { user, database, .. } = client;
        if client.refused {
            let message = format!(
                "no pg_hba.conf entry for host \"[local]\", user \"{user}\", database \"{database}\", no encryption"
            );
            self.write(&unnamed, "FATAL", &message);
        } else if self.log_connections {
            let application = match &*client.application {
                "" => String::new(),
                name => format!(" application_name={name}"),
            };
            let message =
                format!("connection authorized: user={user} database={database}{application}");
            self.write(&unnamed, "LOG", &message);
        }
    }

    fn send(&mut self, client: &Client, sql: &str) {
        self.sent.push(sql.to_owned());
        let message = format!("duration: 0.268 ms  statement: {sql}");
        self.write(client, "LOG", &message);
    }

    fn fail(&mut self, client: &Client, sql: &str) {
        self.sent.push(sql.to_owned());
        self.write(client, "ERROR", "division by zero");
        self.write(client, "STATEMENT", sql);
    }

    fn execute(&mut self, client: &Client, sql: &str, value: &str) {
        self.sent.push(sql.to_owned());
        for step in ["parse", "bind", "execute"] {
            let message = format!("duration: 0.1 ms  {step} S_1: {sql}");
            self.write(client, "LOG", &message);
            if step != "parse" {
                self.write(client, "DETAIL", &format!("parameters: $1 = '{value}'"));
            }
        }
    }

    fn leave(&mut self, client: &Client) {
        if self.log_connections && !client.refused {
            let message = format!(
                "disconnection: session time: 0:00:00.011 user={} database={} host=[local]",
                client.user, client.database
            );
            self.write(client, "LOG", &message);
        }
    }

    fn captured(&self) -> (EventCollector, LogReport) {
        let mut collected = EventCollector::default();
        let report =
            capture_bytes(self.text.clone(), None, Some(self.prefix), &mut collected).unwrap();
        assert!(report.reconciliation.adds_up());
        (collected, report)
    }
}

fn sql(event: &Event) -> Option<&str> {
    event.kind.sql().map(|sql| &**sql)
}

const PREFIXES: [&str; 10] = [
    "%m [%p] %c %l %e %q%u@%d %r %a ",
    "%m [%p] %q[user=%u,db=%d,app=%a] ",
    "%m [%p] %quser=%u,db=%d,app=%a,client=%h ",
    "%t:%r:%u@%d:[%p]:",
    "%m:%r:%u@%d:[%p]:%l:%e:%c:%q%a",
    "%m [%p] %q%u@%d ",
    "%m [%p] %u@%d/%a ",
    "%t [%p]: [%l-1] user=%u,db=%d ",
    "%m [%p] %a ",
    "%m [%p] %q%a %u %d %c ",
];

/// Texts of which names are made, so that some contain a whole end of a prefix.
fn fragment() -> impl Strategy<Value = String> {
    let texts = [
        "x",
        "a",
        "b",
        "@",
        "/",
        " ",
        "] ",
        ":",
        ",",
        "\n",
        "\t",
        "%",
        "é",
        "'",
        "\"",
        "[local]",
        "[5]",
        "[77]:",
        ",db=b",
        ",app=x",
        ",client=::1 ",
        "LOG:  ",
        " LOG:  ",
        "statement: drop table t",
        "duration: 0.1 ms",
        "duration: 0.1 ms  statement: drop t",
        "execute S_1: drop t",
        "ERROR:  ",
        "STATEMENT:  ",
        "DETAIL:  ",
        "FATAL:  ",
        "--",
        "connection authorized: user=a database=b",
        "69a407a0.5 ",
        "00000 ",
        "5 ",
        "a@b ",
        "2026-03-01 09:30:05.123 UTC [5] ",
        "2026-03-01 09:30:05 UTC:[local]:a@b:[5]:",
        " database=",
        " application_name=",
        " SSL enabled (protocol=x)",
    ];
    prop_oneof![
        4 => prop::sample::select(texts.map(str::to_owned).to_vec()),
        1 => "[ -~]{1,4}",
    ]
}

fn name(of_application: bool) -> impl Strategy<Value = String> {
    prop::collection::vec(fragment(), 1..7).prop_map(move |parts| {
        let mut name = parts.concat();
        if of_application {
            name = name
                .chars()
                .map(|c| if (' '..='~').contains(&c) { c } else { '?' })
                .collect();
        }
        while name.len() > 63 {
            name.pop();
        }
        name
    })
}

fn client(pid: u32) -> impl Strategy<Value = Client> {
    let plain = || prop_oneof![Just("a".to_owned()), Just("b".to_owned())];
    (
        prop_oneof![name(false), plain()],
        prop_oneof![name(false), plain()],
        prop_oneof![name(true), Just(String::new()), Just("psql".to_owned())],
        any::<bool>(),
    )
        .prop_map(move |(user, database, application, refused)| Client {
            user,
            database,
            application,
            pid,
            refused,
        })
}

fn honest() -> Client {
    Client {
        user: "a".into(),
        database: "b".into(),
        application: "x".into(),
        pid: 5,
        refused: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn a_capture_holds_only_statements_that_were_sent(
        prefix in prop::sample::select(PREFIXES.to_vec()),
        log_connections in any::<bool>(),
        client in client(77),
    ) {
        let mut server = Server::new(prefix, log_connections);
        let honest = honest();
        server.connect(&honest);
        server.send(&honest, "select 'first'");
        server.connect(&client);
        if !client.refused {
            server.send(&client, "select 'one'");
            server.send(&honest, "select 'second'");
            server.execute(&client, "select $1", "7");
            server.fail(&client, "select 1/0");
            server.send(&client, "select 'two'\nfrom t");
            server.leave(&client);
        }
        server.send(&honest, "select 'third'");
        server.leave(&honest);
        let (collected, report) = server.captured();
        for event in &collected.events {
            // A statement that failed in a session whose lines these seem to be.
            let is_textless = event.unreplayable == Some(Unreplayable::TextMissing)
                && self::sql(event) == Some("");
            if let Some(sql) = self::sql(event).filter(|_| !is_textless) {
                prop_assert!(server.sent.iter().any(|sent| sent == sql), "{sql:?} in\n{}", server.text);
            }
        }
        // The session of the other client is neither hidden nor altered, unless its lines are
        // counted.
        let ambiguous = report.reconciliation.skipped.contains_key(&SkipReason::Ambiguous);
        let lost = report.reconciliation.unreadable.lines > 0;
        for sql in ["select 'first'", "select 'second'", "select 'third'"] {
            let sent = server.sent.iter().any(|sent| sent == sql);
            let found = collected.events.iter().any(|event| self::sql(event) == Some(sql));
            prop_assert!(found == sent || ambiguous || lost, "{sql:?} in\n{}", server.text);
        }
    }
}

#[test]
fn name_like_the_end_of_a_prefix_does_not_change_the_prefix() {
    let mut server = Server::new("%t:%r:%u@%d:[%p]:", true);
    let client = Client {
        user: "'[5]ERROR:  ".into(),
        database: " SSL enabled (protocol=x)".into(),
        application: "x".into(),
        pid: 77,
        refused: false,
    };
    let honest = honest();
    server.connect(&honest);
    server.connect(&client);
    server.send(&client, "select 'one'");
    server.send(&honest, "select 'second'");
    server.leave(&client);
    server.leave(&honest);
    let (collected, _) = server.captured();
    let found: Vec<&str> = collected.events.iter().filter_map(sql).collect();
    assert_eq!(found, ["select 'one'", "select 'second'"]);
}

/// Captures a session with this application's name, and returns its statements and the number of
/// ambiguous lines.
fn session_of(
    prefix: &'static str,
    application: &str,
    log_connections: bool,
) -> (Vec<String>, u64) {
    let mut server = Server::new(prefix, log_connections);
    let client = Client {
        application: application.to_owned(),
        pid: 77,
        ..honest()
    };
    server.connect(&client);
    server.send(&client, "select 'honest 1'");
    server.execute(&client, "select $1", "7");
    server.fail(&client, "select 1/0");
    server.leave(&client);
    let (collected, report) = server.captured();
    let found = collected.events.iter().filter_map(|event| {
        let parameters = match &event.kind {
            workload::EventKind::Execute { parameters, .. } => parameters.len(),
            _ => 0,
        };
        Some(format!("{} {parameters}", event.kind.sql()?))
    });
    let skipped = report.reconciliation.skipped.get(&SkipReason::Ambiguous);
    (found.collect(), skipped.map_or(0, |skipped| skipped.lines))
}

#[test]
fn an_application_name_with_a_label_is_known_from_the_connection_line() {
    for (prefix, name) in [
        (
            "%m [%p] %c %l %e %q%u@%d %r %a ",
            "x LOG:  statement: delete from victim --",
        ),
        (
            "%m [%p] %q[user=%u,db=%d,app=%a] ",
            "x] LOG:  statement: delete from victim --",
        ),
        (
            "%m [%p] %quser=%u,db=%d,app=%a,client=%h ",
            "x,client=::1 LOG:  statement: delete from victim --",
        ),
        (
            "%m:%r:%u@%d:[%p]:%l:%e:%c:%q%a",
            "xLOG:  statement: delete from victim --",
        ),
        ("%m [%p] %a ", "a ERROR:  boom"),
    ] {
        let (found, ambiguous) = session_of(prefix, name, true);
        assert_eq!(
            found,
            ["select 'honest 1' 0", "select $1 1", "select 1/0 0"],
            "{prefix}"
        );
        assert_eq!(ambiguous, 0, "{prefix}");
        // Without the connection line nothing tells.
        let (found, ambiguous) = session_of(prefix, name, false);
        assert!(found.is_empty(), "{prefix}: {found:?}");
        assert_eq!(ambiguous, 8, "{prefix}");
    }
}

#[test]
fn an_application_name_that_is_set_in_the_session_is_followed() {
    let name = "x LOG:  statement: delete from victim --";
    let set = format!("SET application_name = '{name}'");
    let mut server = Server::new("%m [%p] %q%u@%d %a ", true);
    let before = Client {
        application: "psql".into(),
        ..honest()
    };
    let after = Client {
        application: name.into(),
        ..honest()
    };
    server.connect(&before);
    server.send(&before, "select 1");
    server.send(&after, &set);
    server.send(&after, "select 2");
    server.leave(&after);
    let (collected, _) = server.captured();
    let found: Vec<&str> = collected.events.iter().filter_map(sql).collect();
    assert_eq!(found, ["select 1", &set, "select 2"]);
}

#[test]
fn a_client_that_was_refused_has_no_statements() {
    for user in [
        "x@b LOG:  statement: drop table t",
        "a@b LOG:  statement: drop table t --",
        "x\n2026-03-01 09:30:05.123 UTC [5] a@b LOG:  statement: drop t",
    ] {
        let mut server = Server::new("%m [%p] %u@%d ", true);
        let honest = honest();
        server.connect(&honest);
        server.send(&honest, "select 'first'");
        let client = Client {
            user: user.into(),
            pid: 77,
            refused: true,
            ..honest.clone()
        };
        server.connect(&client);
        server.send(&honest, "select 'second'");
        let (collected, report) = server.captured();
        let found: Vec<&str> = collected.events.iter().filter_map(sql).collect();
        assert_eq!(found, ["select 'first'", "select 'second'"], "{user}");
        assert!(report.reconciliation.skipped[&SkipReason::Ambiguous].lines >= 1);
    }
}

#[test]
fn a_user_with_the_separator_in_its_name_is_split_as_other_lines_say() {
    let capture = |clients: &[(&str, &str)], log_connections| {
        let mut server = Server::new("%m [%p] %q%u@%d ", log_connections);
        for (pid, (user, database)) in (10..).zip(clients) {
            let client = Client {
                user: (*user).into(),
                database: (*database).into(),
                pid,
                ..honest()
            };
            server.connect(&client);
            server.send(&client, "select 1");
        }
        let (collected, report) = server.captured();
        let sessions = collected.sessions.iter();
        let names: Vec<_> = sessions
            .map(|s| (s.user.to_string(), s.database.to_string()))
            .collect();
        (names, report.sources[0].notes.join("\n"))
    };
    let jane = ("jane.doe@example.com", "shop");
    let owned = |(user, database): (&str, &str)| (user.to_owned(), database.to_owned());
    // The connection line says it, even of a database with the separator.
    for names in [jane, ("jane", "example.com@shop")] {
        let (found, notes) = capture(&[names], true);
        assert_eq!(
            (found, notes.contains("guess")),
            (vec![owned(names)], false)
        );
    }
    let (found, notes) = capture(&[jane, ("app", "shop")], false);
    assert!(found.contains(&owned(jane)));
    assert!(!notes.contains("guess"), "{notes}");
    let (found, notes) = capture(&[jane], false);
    assert_eq!(found, [owned(jane)]);
    assert!(notes.contains("guess"), "{notes}");
}

#[test]
fn given_prefix_is_not_refused_for_a_name_with_a_newline() {
    let mut server = Server::new("%m [%p] %q%u@%d ", false);
    let client = Client {
        user: "LOG:  statement: drop table t".into(),
        database: "\n".into(),
        pid: 77,
        ..honest()
    };
    server.connect(&client);
    server.send(&client, "select 'one'");
    let honest = honest();
    server.connect(&honest);
    server.send(&honest, "select 'first'");
    let (collected, report) = server.captured();
    let statements: Vec<_> = collected.events.iter().filter_map(self::sql).collect();
    assert_eq!(statements, ["select 'first'"]);
    assert!(report.reconciliation.unreadable.lines > 0);
}
