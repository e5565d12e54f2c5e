//! `rehearse mcp`, driven by JSON-RPC lines over its standard input and output.

#[path = "../../../analysis/compare/tests/made_up/mod.rs"]
mod made_up;
mod official_client;
mod on_a_server;
mod stopping;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use run::RunWriter;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{command, rehearse};

/// Value in the traffic of the tests that no answer may have.
const CANARY: &str = "canary7731";

/// A directory with the artefacts of a test, and one for temporary files.
struct Room {
    directory: TempDir,
}

/// A client of a running server.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl Room {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["root", "temporary"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        Room { directory }
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    fn temporary(&self) -> PathBuf {
        self.directory.path().join("temporary")
    }

    fn at(&self, name: &str) -> String {
        self.root().join(name).display().to_string()
    }

    fn command(&self, options: &[&str]) -> std::process::Command {
        let mut command = command(&["mcp", "--root"]);
        command.arg(self.root()).args(options);
        command.env("TMPDIR", self.temporary());
        command
    }

    /// Starts a server, and initialises the session.
    fn connect(&self, options: &[&str]) -> Client {
        let mut client = Client::start(self.command(options));
        client.initialise();
        client
    }

    /// Writes a log of this many statements with the canary, after a line that cannot be read.
    fn write_log(&self, name: &str, statements: usize) {
        let mut text = "no line of a server\n".to_owned();
        for number in 0..statements {
            let statement = match number % 3 {
                0 => format!("SELECT * FROM items WHERE pad = '{CANARY}{number}'"),
                1 => format!("UPDATE items SET pad = '{CANARY}' WHERE id = {number}"),
                _ => "SELECT 1".to_owned(),
            };
            text.push_str(&format!(
                "2026-03-01 09:{:02}:{:02}.{:03} UTC [{}] LOG:  duration: 1.500 ms  statement: {statement}\n",
                number / 60_000 % 60,
                number / 1_000 % 60,
                number % 1_000,
                100 + number % 4
            ));
        }
        std::fs::write(self.root().join(name), text).unwrap();
    }

    /// Writes a run of two statements, the second of which takes this many times its usual time. Every tenth execution
    /// has no fingerprint.
    fn write_run(&self, name: &str, seed: u64, factor: f64) {
        let mut chance = made_up::Chance::new(seed);
        let statement = |id| made_up::text(id, &format!("select {id} from t where id = $1"));
        let texts = (1..=2).map(|id| Ok(statement(id)));
        let info = made_up::info();
        let mut writer = RunWriter::create(&self.root().join(name), &info, texts).unwrap();
        for number in 0..2_000u64 {
            let which = number % 2;
            let service_ns = [1e6, 2e6 * factor][which as usize] * chance.skewed();
            let due_ns = number as i64 * 20_000_000;
            let mut execution = made_up::done(which + 1, number, due_ns, service_ns);
            execution.fingerprint = execution.fingerprint.filter(|_| number % 10 != 0);
            writer.execution(&execution).unwrap();
        }
        writer.finish(info, 0).unwrap();
    }

    /// Returns the entries of the directory for temporary files.
    fn leftovers(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.temporary()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Client {
    fn start(mut command: std::process::Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Client {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            requests: 0,
        }
    }

    fn initialise(&mut self) {
        let answer = self.request(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            }),
        );
        assert_eq!(
            answer["result"]["serverInfo"]["name"], "rehearse",
            "{answer}"
        );
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    /// Sends a request, and returns its id.
    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.begin(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
    }

    /// Reads the next message.
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(
            self.output.read_line(&mut line).unwrap() > 0,
            "the server ended"
        );
        line
    }

    fn answer(&mut self, id: &Value) -> Value {
        loop {
            let answer: Value = serde_json::from_str(&self.line()).unwrap();
            if answer.get("method").is_none() {
                assert_eq!(&answer["id"], id, "{answer}");
                return answer;
            }
        }
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(&json!(id))
    }

    /// Calls a tool, and returns its result.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin_call(tool, arguments);
        let answer = self.answer(&json!(id));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool, and returns the structured content of its answer, which has no value of the traffic.
    #[track_caller]
    fn content(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{result}");
        let text = result.to_string();
        assert!(!text.contains(CANARY), "{text}");
        assert!(!text_of(&result).is_empty() && result["structuredContent"]["paths"].is_array());
        result["structuredContent"].clone()
    }

    /// Calls a tool that refuses, and returns the message.
    #[track_caller]
    fn refusal(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        text_of(&result)
    }

    /// Closes the server's input, and returns its exit code and messages.
    fn close(mut self) -> (Option<i32>, String) {
        self.input = None;
        let status = self.child.wait().unwrap();
        let mut messages = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut messages).unwrap();
        (status.code(), messages)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text_of(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn mcp_lists_prove_only_if_proofs_are_allowed() {
    let room = Room::new();
    let names = |options: &[&str]| {
        let answer = room.connect(options).request("tools/list", json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap().clone();
        assert!(
            tools
                .iter()
                .all(|tool| tool["inputSchema"]["type"] == "object")
        );
        let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
        names.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let reading = "list inspect statement compare diagnose plan";
    assert_eq!(names(&[]), reading);
    assert_eq!(names(&["--allow-proofs"]), format!("{reading} prove"));
    let refusal = room
        .connect(&[])
        .refusal("prove", json!({ "path": "a", "sandbox": "a" }));
    assert!(refusal.contains("--allow-proofs"), "{refusal}");
}

#[test]
fn mcp_answers_lines_that_are_no_calls_with_errors_and_continues() {
    let room = Room::new();
    let mut client = Client::start(room.command(&[]));
    let code = |client: &mut Client, line: &str, id: Value| {
        client.send_line(line);
        client.answer(&id)["error"]["code"].as_i64().unwrap()
    };
    let early = r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#;
    assert_eq!(code(&mut client, early, json!("a")), -32_600);
    assert_eq!(code(&mut client, "{ broken", Value::Null), -32_700);
    client.initialise();
    assert_eq!(code(&mut client, "{ broken", Value::Null), -32_700);
    assert_eq!(code(&mut client, r#"{"id":"b"}"#, json!("b")), -32_600);
    let huge = format!(
        r#"{{"jsonrpc":"2.0","id":"c","x":"{}"}}"#,
        "x".repeat(3 << 20)
    );
    assert_eq!(code(&mut client, &huge, Value::Null), -32_600);

    let unknown = client.request("tools/call", json!({ "name": "drop", "arguments": {} }));
    assert_eq!(unknown["error"]["code"], -32_602);
    let message = unknown["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("no tool `drop`; call one of list, "),
        "{message}"
    );
    assert_eq!(
        client.request("no/method", json!({}))["error"]["code"],
        -32_601
    );
    let refusal = client.refusal("inspect", json!({ "path": 3 }));
    assert!(refusal.contains("the arguments of `inspect`"), "{refusal}");
    let refusal = client.refusal(
        "statement",
        json!({ "path": "a", "fingerprint": "x", "y": 1 }),
    );
    assert!(refusal.contains("unknown field `y`"), "{refusal}");
    assert_eq!(client.content("list", json!({}))["is_complete"], true);
    assert_eq!(client.close(), (Some(0), String::new()));
}

#[test]
fn mcp_refuses_paths_out_of_its_roots_alike_whether_they_exist() {
    let room = Room::new();
    room.write_log("a.log", 3);
    let outside = room.directory.path().join("outside.log");
    std::fs::copy(room.root().join("a.log"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, room.root().join("link.log")).unwrap();
    let mut client = room.connect(&[]);
    let calls = |path: &str| {
        [
            ("list", json!({ "path": path })),
            ("inspect", json!({ "path": path })),
            ("diagnose", json!({ "path": path })),
            ("plan", json!({ "path": path })),
            (
                "statement",
                json!({ "path": path, "fingerprint": "0123456789abcdef" }),
            ),
            ("compare", json!({ "before": [path], "after": [path] })),
        ]
    };
    for path in [
        outside.display().to_string(),
        room.directory
            .path()
            .join("absent.log")
            .display()
            .to_string(),
        "../outside.log".to_owned(),
        "link.log".to_owned(),
        "absent.log".to_owned(),
        "/etc/passwd".to_owned(),
    ] {
        for (tool, arguments) in calls(&path) {
            let refusal = client.refusal(tool, arguments);
            let expected = format!(
                "{path} is not available: the roots of this server have no artefact or log of this path; call `list` for those that there are"
            );
            assert_eq!(refusal, expected, "{tool}");
        }
    }
    for arguments in [json!({}), json!({ "path": room.root() })] {
        let listed = client.content("list", arguments);
        assert_eq!(listed["artefacts"].as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(listed["links_not_followed"], 1);
    }
}

#[test]
fn mcp_lists_the_newest_first_and_says_that_a_listing_is_incomplete() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;

    let room = Room::new();
    room.write_log("old.log", 1);
    let old = std::fs::File::open(room.root().join("old.log")).unwrap();
    let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(86_400);
    old.set_modified(past).unwrap();
    std::fs::create_dir_all(room.root().join("closed/deeper")).unwrap();
    room.write_run("new.run", 1, 1.0);
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    open(&room.root().join("new.run"), 0o755);
    open(&room.root().join("new.run/manifest.json"), 0o644);
    open(&room.root().join("closed"), 0o000);
    open(room.directory.path(), 0o755);
    open(&room.temporary(), 0o777);
    let mut command = room.command(&[]);
    let is_root =
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    if is_root {
        // Root reads every directory. The program is copied to a place that others can enter.
        let program = room.directory.path().join("rehearse");
        let copied = std::process::Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_rehearse"))
            .arg(&program)
            .status();
        assert!(copied.unwrap().success());
        let root = room.root();
        command = std::process::Command::new(&program);
        command
            .args(["mcp", "--root"])
            .arg(root)
            .env("TMPDIR", room.temporary());
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    let mut client = Client::start(command);
    client.initialise();
    let result = client.call("list", json!({}));
    let listed = &result["structuredContent"];
    let names = listed["artefacts"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(names, [room.at("new.run"), room.at("old.log")]);
    assert_eq!(
        listed["artefacts"][1]["modified"].as_str().unwrap()[..10],
        *"1970-01-02"
    );
    assert_eq!(listed["is_complete"], false);
    assert_eq!(listed["incomplete"][0]["path"], room.at("closed"));
    let text = text_of(&result);
    assert!(text.starts_with("The listing is incomplete: "), "{text}");
    open(&room.root().join("closed"), 0o755);
}

#[test]
fn mcp_inspects_a_log_with_its_unreadable_lines_and_without_values() {
    let room = Room::new();
    room.write_log("a.log", 30);
    let mut client = room.connect(&[]);
    let content = client.content("inspect", json!({ "path": "a.log" }));
    assert_eq!(content["paths"], json!([room.at("a.log")]));
    assert_eq!(content["kind"], "log");
    assert_eq!(content["capture"]["lines"], 31);
    assert_eq!(content["capture"]["unreadable"]["lines"], 1);
    assert_eq!(content["report"]["statements"], 30);
    let statements = content["report"]["by_statement"].as_array().unwrap();
    let update = statements
        .iter()
        .find(|one| one["class"] == "update")
        .unwrap();
    assert_eq!(update["sql"], "update items set pad = $1 where id = $2");

    let fingerprint = update["fingerprint"].as_str().unwrap();
    let arguments = json!({ "path": "a.log", "fingerprint": fingerprint });
    let content = client.content("statement", arguments);
    assert_eq!(content["report"]["statement"]["calls"], 10);
    assert_eq!(content["report"]["executions"], 30);
    let refusal = client.refusal(
        "statement",
        json!({ "path": "a.log", "fingerprint": "0".repeat(16) }),
    );
    assert!(
        refusal.contains("no statement has the fingerprint"),
        "{refusal}"
    );
    assert_eq!(client.close(), (Some(0), String::new()));
    assert_eq!(room.leftovers(), Vec::<PathBuf>::new());
}

#[test]
fn mcp_answers_about_messages_of_the_server_have_no_values() {
    const LOG: &str = include_str!("messages.log");
    assert!(LOG.matches(CANARY).count() > 10);
    let room = Room::new();
    std::fs::write(room.at("a.log"), LOG).unwrap();
    let prefix = ["--prefix", "%m [%p] "];
    let captured = [
        "capture",
        "log",
        &room.at("a.log"),
        "-o",
        &room.at("a.workload"),
    ];
    let captured = rehearse(&[&captured[..], &prefix].concat());
    assert_eq!(captured.status.code(), Some(0), "{captured:?}");
    let mut client = room.connect(&["--max-bytes", "10000000", "--max-rows", "1000"]);
    for path in ["a.log", "a.workload"] {
        let report = client.content("inspect", json!({ "path": path }))["report"].clone();
        assert_eq!(report["server"]["kinds"]["deadlock"], 1, "{report}");
        for statement in report["by_statement"].as_array().unwrap() {
            let fingerprint = &statement["fingerprint"];
            client.content(
                "statement",
                json!({ "path": path, "fingerprint": fingerprint }),
            );
        }
    }
    client.content("diagnose", json!({ "path": "a.workload" }));
}

#[test]
fn mcp_compares_runs_with_the_verdicts_of_the_terminal_and_counts_executions_without_fingerprint() {
    let room = Room::new();
    room.write_run("a.run", 1, 1.0);
    room.write_run("b.run", 2, 4.0);
    let mut client = room.connect(&[]);
    let arguments = json!({ "before": ["a.run"], "after": ["b.run"] });
    let result = client.call("compare", arguments);
    let shown = rehearse(&["compare", &room.at("a.run"), &room.at("b.run")]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let first = shown.lines().next().unwrap();
    assert!(text_of(&result).contains(first), "{first}: {result}");
    let content = &result["structuredContent"];
    assert_eq!(
        content["paths"],
        json!([room.at("a.run"), room.at("b.run")])
    );
    let json = rehearse(&["compare", &room.at("a.run"), &room.at("b.run"), "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    for at in 0..2 {
        let of = |view: &Value| {
            let statement = &view["statements"][at];
            (statement["sql"].clone(), statement["service"].clone())
        };
        assert_eq!(of(&content["report"]), of(&json));
    }
    assert_eq!(
        content["report"]["statements"][0]["service"]["finding"],
        "slower"
    );

    let arguments = json!({ "path": "b.run", "fingerprint": "0000000000000002" });
    let statement = client.content("statement", arguments)["report"].clone();
    assert_eq!(statement["executions"], 2_000);
    assert_eq!(statement["executions_without_fingerprint"], 200);
    assert_eq!(statement["calls"], 1_000);
    assert_eq!(statement["done"], 1_000);
    let content = client.content("inspect", json!({ "path": "b.run" }));
    assert_eq!(content["report"]["done"], 2_000);
    let refusal = client.refusal("plan", json!({ "path": "b.run" }));
    assert!(refusal.contains("replay with --explain"), "{refusal}");
}

#[test]
fn mcp_answer_is_within_the_limits_and_says_what_is_cut() {
    let room = Room::new();
    for number in 0..40 {
        room.write_log(&format!("{number}.log"), 1);
    }
    let mut client = room.connect(&["--max-rows", "7"]);
    let listed = client.content("list", json!({}));
    assert_eq!(listed["artefacts"].as_array().unwrap().len(), 7);
    assert_eq!(
        listed["cut"],
        json!([{ "list": "artefacts", "kept": 7, "of": 40 }])
    );

    let mut client = room.connect(&["--max-bytes", "4096"]);
    for (tool, arguments) in [("list", json!({})), ("inspect", json!({ "path": "1.log" }))] {
        client.begin_call(tool, arguments);
        let line = client.line();
        assert!(line.len() <= 4_096, "{} bytes", line.len());
        let answer: Value = serde_json::from_str(&line).unwrap();
        let cut = &answer["result"]["structuredContent"]["cut"];
        assert!(!cut.as_array().unwrap().is_empty(), "{answer}");
    }
}
