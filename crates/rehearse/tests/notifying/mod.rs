//! `rehearse compare --notify`: the message about a verdict reaches a receiver, and a receiver that fails changes nothing.

use std::net::TcpListener;
use std::process::{Command, Output};

use serde_json::Value;

use super::webhook_receiver::Receiver;
use super::{Room, executions};

/// Path of a webhook, which nothing may print.
const SECRET: &str = "/services/T0/GEHEIM?token=GEHEIM";
const OK: &str = "200 OK";

struct Fixture {
    _room: Room,
    before: String,
    after: String,
}

impl Fixture {
    /// Creates runs of which the second statement got ten times slower.
    fn new() -> Self {
        let room = Room::new();
        let before = room.run("before.run", executions(1, 1.0, 1.0));
        let after = room.run("after.run", executions(2, 1.0, 10.0));
        Fixture {
            _room: room,
            before,
            after,
        }
    }

    /// Compares with options, and with the variable of the environment. Its own settings of proxies are left out.
    fn compare(&self, options: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(name);
        }
        let command = command.args(["compare", &self.before, &self.after]);
        let fails = ["--fail-on", "regression"];
        command.args(fails).args(options);
        command.envs(environment.iter().copied()).output().unwrap()
    }
}

/// Requires the verdict, its exit code and that the secret is not shown. Returns what was reported.
fn assert_verdict(output: &Output) -> String {
    let reported = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{reported}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.starts_with("REGRESSION: 1 statement"), "{text}");
    for printed in [&reported, &text] {
        assert!(!printed.contains("GEHEIM"), "{printed}");
    }
    reported
}

#[test]
fn message_has_the_verdict_the_runs_and_the_slower_statement() {
    let fixture = Fixture::new();
    let receiver = Receiver::start(&[OK]);
    let url = format!("{}{SECRET}", receiver.origin);
    let reported = assert_verdict(&fixture.compare(&[], &[("REHEARSE_NOTIFY_URL", &url)]));
    let posted = format!("Posted the verdict to {}.", receiver.origin);
    assert!(reported.contains(&posted), "{reported}");
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    let request = &requests[0];
    assert_eq!(request.line, format!("POST {SECRET} HTTP/1.1"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    let message = request.json();
    is_valid(&message);
    assert_eq!(message["outcome"], "worse");
    assert_eq!(message["title"], "rehearse compare: Regression");
    assert_eq!(message["verdicts"][0]["verdict"], "regression");
    assert_eq!(message["sources"][0]["label"], "before");
    assert_eq!(message["sources"][0]["name"], *fixture.before);
    assert_eq!(message["sources"][1]["name"], *fixture.after);
    assert_eq!(message["conditions"][0], "regression HOLDS");
    let finding = &message["findings"][0];
    assert_eq!(finding["finding"], "slower", "{message:#}");
    assert_eq!(finding["statement"], "select 2 from t where id = $1");
    let factor = finding["factor"].as_f64().unwrap();
    assert!((8.0..12.0).contains(&factor), "{factor}");
}

fn is_valid(message: &Value) {
    let schema = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(["schema", "notification"])
        .output()
        .unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("message.json", schema).unwrap();
    let compiled = compiler.compile("message.json", &mut schemas).unwrap();
    if let Err(error) = schemas.validate(message, compiled) {
        panic!("{error:#}");
    }
}

#[test]
fn message_takes_the_form_of_slack_or_teams() {
    let fixture = Fixture::new();
    let receiver = Receiver::start(&[OK]);
    let url = format!("{}{SECRET}", receiver.origin);
    for format in ["slack", "teams"] {
        let options = ["--notify", &url, "--notify-format", format];
        assert_verdict(&fixture.compare(&options, &[]));
    }
    let requests = receiver.requests();
    let slack = requests[0].json();
    let text = slack["text"].as_str().unwrap();
    for part in ["Regression", "before.run", "slower × ", "select 2 from t"] {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
    assert_eq!(slack["blocks"][0]["type"], "header");
    assert_eq!(slack["blocks"][1]["type"], "rich_text");
    let sections = slack["blocks"][1]["elements"].as_array().unwrap();
    assert!(
        sections
            .iter()
            .all(|one| one["type"] == "rich_text_section")
    );
    let teams = requests[1].json();
    let attachment = &teams["attachments"][0];
    assert_eq!(teams["type"], "message");
    assert_eq!(
        attachment["contentType"],
        "application/vnd.microsoft.card.adaptive"
    );
    let card = &attachment["content"];
    assert_eq!(card["type"], "AdaptiveCard");
    for block in card["body"].as_array().unwrap() {
        assert_eq!(block["type"], "RichTextBlock");
        for run in block["inlines"].as_array().unwrap() {
            assert_eq!(run["type"], "TextRun");
            assert_ne!(run["text"], "");
        }
    }
    assert!(card.to_string().contains("select 2 from t where id = $1"));
}

#[test]
fn receiver_that_is_busy_is_asked_again_up_to_a_limit() {
    let fixture = Fixture::new();
    const BUSY: &str = "429 Too Many Requests\r\nRetry-After: 0";
    const FAILING: &str = "500 Internal Server Error\r\nRetry-After: 0";
    for (answers, requests, words) in [
        (&[BUSY, OK][..], 2, "Posted the verdict"),
        (
            &[FAILING],
            3,
            "it answered 500 Internal Server Error; the service fails",
        ),
        (
            &["404 Not Found"],
            1,
            "it answered 404 Not Found; check that the webhook still exists",
        ),
        (
            &["302 Found\r\nLocation: /GEHEIM"],
            1,
            "it answered 302 Found; give the address",
        ),
    ] {
        let receiver = Receiver::start(answers);
        let url = format!("{}{SECRET}", receiver.origin);
        let reported = assert_verdict(&fixture.compare(&["--notify", &url], &[]));
        assert!(reported.contains(words), "'{words}' is not in: {reported}");
        assert_eq!(receiver.requests().len(), requests, "{words}");
    }
}

#[test]
fn receiver_that_does_not_answer_or_is_not_there_is_reported() {
    let fixture = Fixture::new();
    // Connections are accepted by the system, and never answered.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = deaf.local_addr().unwrap().to_string();
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://{place}{SECRET}");
        let limited = ["--notify", &url, "--notify-timeout", "300ms"];
        let reported = assert_verdict(&fixture.compare(&limited, &[]));
        let words = format!("could not be posted to {scheme}://{place}: no answer within 0.3 s");
        assert!(reported.contains(&words), "{reported}");
        assert!(reported.contains("--notify-timeout"), "{reported}");
    }
    drop(deaf);
    let url = format!("http://{place}{SECRET}");
    let reported = assert_verdict(&fixture.compare(&["--notify", &url], &[]));
    assert!(reported.contains("Connection refused"), "{reported}");
}

#[test]
fn message_goes_through_the_proxy_of_the_environment() {
    let fixture = Fixture::new();
    let proxy = Receiver::start(&[OK]);
    let url = format!("http://chat.example{SECRET}");
    let environment = [
        ("HTTP_PROXY", &*proxy.origin),
        ("REHEARSE_NOTIFY_URL", &url),
    ];
    let reported = assert_verdict(&fixture.compare(&[], &environment));
    assert!(reported.contains("Posted the verdict to http://chat.example."));
    assert_eq!(proxy.requests()[0].line, format!("POST {url} HTTP/1.1"));
}

#[test]
fn address_that_is_no_url_is_refused_before_the_runs_are_read() {
    let fixture = Fixture::new();
    for options in [
        &["--notify", "hooks.slack.com/GEHEIM"][..],
        &["https://hooks.slack.com/GEHEIM"],
        &["--notify", "https://h/GEHEIM", "--dry-run"],
        &["--notify-format", "slack"],
    ] {
        let output = fixture.compare(options, &[]);
        let reported = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{reported}");
        assert!(!reported.contains("GEHEIM"), "{reported}");
        assert_eq!(output.stdout, b"");
    }
    // An empty variable is none.
    let output = fixture.compare(&[], &[("REHEARSE_NOTIFY_URL", "")]);
    assert!(!assert_verdict(&output).contains("osted"));
}
