//! `rehearse capture proxy` as a program: its signals, its control endpoint, full disks, and
//! what a killed proxy leaves.

mod hostile_http;

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use postgres::{Client, NoTls};
use sandbox::{Endpoint, Sandbox};
use serde_json::Value;
use workload::WorkloadReader;
use workload::series::Series;

/// Time after which a waiting test fails. It is not an expected duration.
const PATIENCE: Duration = Duration::from_secs(60);

fn server() -> &'static Endpoint {
    static SERVER: OnceLock<(Sandbox, Endpoint)> = OnceLock::new();
    let (_, endpoint) = SERVER.get_or_init(|| test_support::server().password("proxy").start());
    endpoint
}

/// Running program, and its messages.
struct Running {
    child: Child,
    told: Receiver<String>,
    heard: Vec<String>,
    port: u16,
}

impl Running {
    /// Starts the program. The shell runs `before` first.
    fn start(directory: &Path, before: &str, further: &[&str]) -> Self {
        let program = env!("CARGO_BIN_EXE_rehearse");
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(format!("{before} exec \"$0\" \"$@\""))
            .arg(program)
            .args(["capture", "proxy", "--listen", "127.0.0.1:0", "--upstream"])
            .arg(server().url("postgres"))
            .args(match further.contains(&"--roll") {
                true => ["-o", "a.series", "--json"],
                false => ["-o", "a.workload", "--json"],
            })
            .args(further)
            .current_dir(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, told) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let mut running = Running {
            child,
            told,
            heard: Vec::new(),
            port: 0,
        };
        let line = running.hears("listening at ");
        running.port = number_behind(&line, "127.0.0.1:");
        running
    }

    /// Reads up to the next line that contains this text.
    #[track_caller]
    fn hears(&mut self, what: &str) -> String {
        loop {
            match self.told.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    if line.contains(what) {
                        return line;
                    }
                }
                Err(_) => panic!("'{what}' was never told: {:#?}", self.heard),
            }
        }
    }

    fn client(&self) -> Client {
        let url = format!(
            "postgres://postgres:proxy@127.0.0.1:{}/postgres?connect_timeout=30",
            self.port
        );
        Client::connect(&url, NoTls).unwrap()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Ends it with Ctrl-C. Returns its exit code and output.
    fn end(mut self) -> (i32, Value) {
        self.signal("INT");
        let output = self.output();
        let code = output.status.code().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (code, serde_json::from_str(&text).unwrap())
    }

    fn output(&mut self) -> Output {
        let mut stdout = Vec::new();
        let mut pipe = self.child.stdout.take().unwrap();
        pipe.read_to_end(&mut stdout).unwrap();
        Output {
            status: self.child.wait().unwrap(),
            stdout,
            stderr: Vec::new(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number_behind(line: &str, before: &str) -> u16 {
    let (_, behind) = line.split_once(before).unwrap();
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Returns the status and the body of a response.
fn ask(port: u16, request: &str, header: &str) -> (u16, Value) {
    ask_as(&format!("127.0.0.1:{port}"), port, request, header)
}

/// Returns the status and the body of a response to a request with this `Host`.
fn ask_as(host: &str, port: u16, request: &str, header: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {host}\r\n{header}Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// Returns the header that presents the token of a file.
fn bearer(token_file: &Path) -> String {
    let token = std::fs::read_to_string(token_file).unwrap();
    format!("Authorization: Bearer {}\r\n", token.trim_end())
}

/// Returns the texts of a workload's statements.
fn statements(workload: &Path) -> Vec<String> {
    let reader = WorkloadReader::open(workload).unwrap();
    let events = reader.events().unwrap().map(|event| event.unwrap().0);
    events
        .filter_map(|event| event.kind.sql().map(ToString::to_string))
        .collect()
}

fn recover(partial: PathBuf) -> PathBuf {
    let recovered = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .arg("recover")
        .arg(&partial)
        .output()
        .unwrap();
    assert!(recovered.status.success(), "{recovered:?}");
    partial.with_extension("")
}

#[test]
fn recording_starts_and_stops_by_signal_and_by_request() {
    let directory = tempfile::tempdir().unwrap();
    let mut proxy = Running::start(directory.path(), "", &["--paused", "--admin-listen", "0"]);
    let line = proxy.hears("control at http://");
    let control = number_behind(&line, "127.0.0.1:");
    assert!(
        line.ends_with("the token in a.workload.control-token"),
        "{line}"
    );
    let token_file = directory.path().join("a.workload.control-token");
    let mode = std::fs::metadata(&token_file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = bearer(&token_file);
    let mut client = proxy.client();
    client.batch_execute("SELECT 'not yet'").unwrap();
    let (status, view) = ask(control, "GET /", "");
    assert_eq!((status, &view["recording"]), (200, &Value::Null));
    assert_eq!(view["connections"], 1);
    proxy.signal("USR1");
    proxy.hears("recording a.workload");
    client.batch_execute("SELECT 'first'").unwrap();
    let (status, error) = ask(control, "POST /start", &token);
    assert_eq!(status, 409, "{error}");
    // Without the token, or with another, nothing happens.
    let wrong = format!("Authorization: Bearer {}\r\n", "0".repeat(64));
    let basic = token.replace("Bearer", "Basic");
    let twice = token.repeat(2);
    for header in ["", "Authorization: Bearer \r\n", &wrong, &basic, &twice] {
        let (status, refused) = ask(control, "POST /stop", header);
        assert_eq!(status, 401, "{header}: {refused}");
    }
    proxy.signal("USR1");
    proxy.hears("recorded a.workload");
    client.batch_execute("SELECT 'between'").unwrap();
    let of_a_page = format!("Origin: http://page\r\n{token}");
    assert_eq!(ask(control, "POST /start", &of_a_page).0, 403);
    // A name that somebody had lead to this machine.
    for request in ["GET /", "POST /start"] {
        let (status, refused) = ask_as("rebound.example", control, request, &token);
        assert_eq!(status, 403, "{request}: {refused}");
    }
    assert_eq!(ask_as("localhost", control, "GET /", "").0, 200);
    let (status, started) = ask(control, "POST /start", &token);
    assert_eq!(
        (status, &started["workload"]),
        (200, &"a-2.workload".into())
    );
    client.batch_execute("SELECT 'second'").unwrap();
    let (status, stopped) = ask(control, "POST /stop", &token);
    assert_eq!(
        (status, &stopped["workload"]),
        (200, &"a-2.workload".into())
    );
    assert_eq!(ask(control, "POST /elsewhere", "").0, 404);
    drop(client);
    let (code, account) = proxy.end();
    assert_eq!(code, 0, "{account}");
    assert!(!token_file.exists());
    for (name, statement) in [("a", "SELECT 'first'"), ("a-2", "SELECT 'second'")] {
        let workload = directory.path().join(format!("{name}.workload"));
        assert_eq!(statements(&workload), [statement]);
    }
    assert_eq!(account["schema"], "rehearse/capture-proxy/1");
    for recording in account["recordings"].as_array().unwrap() {
        let number = |name: &str| recording[name].as_u64().unwrap();
        assert_eq!(
            number("read_bytes") + number("lost_bytes") + number("passed_bytes"),
            number("forwarded_bytes")
        );
        assert_eq!(number("statements"), 1);
    }
}

#[test]
fn control_hostile_requests_harm_neither_traffic_nor_recording() {
    let directory = tempfile::tempdir().unwrap();
    let token_file = directory.path().join("token");
    std::fs::write(&token_file, "0123456789abcdef".repeat(4)).unwrap();
    std::fs::set_permissions(&token_file, Permissions::from_mode(0o600)).unwrap();
    let mut proxy = Running::start(
        directory.path(),
        "",
        &["--admin-listen", "0", "--admin-token-file", "token"],
    );
    let line = proxy.hears("control at http://");
    assert!(line.ends_with("the token in token"), "{line}");
    let control = number_behind(&line, "127.0.0.1:");
    let mut client = proxy.client();
    client.batch_execute("SELECT 'before'").unwrap();
    hostile_http::assert_survived(&format!("127.0.0.1:{control}"), "/");
    // The same connection, and the recording from before.
    client.batch_execute("SELECT 'after'").unwrap();
    let (status, stopped) = ask(control, "POST /stop", &bearer(&token_file));
    assert_eq!((status, &stopped["workload"]), (200, &"a.workload".into()));
    drop(client);
    let (code, account) = proxy.end();
    assert_eq!(code, 0, "{account}");
    assert!(token_file.exists(), "a given file stays");
    let recorded = statements(&directory.path().join("a.workload"));
    assert_eq!(recorded, ["SELECT 'before'", "SELECT 'after'"]);
}

#[test]
fn rolled_recording_has_each_statement_once_and_the_state_in_each_part() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--roll", "1s", "--admin-listen", "0", "--keep-for", "1h"];
    let mut proxy = Running::start(directory.path(), "", &options);
    let line = proxy.hears("control at http://");
    let control = number_behind(&line, "127.0.0.1:");
    let mut client = proxy.client();
    client.batch_execute("SET work_mem = '8MB'").unwrap();
    client.batch_execute("BEGIN").unwrap();
    let mut sent = vec!["SET work_mem = '8MB'".to_owned(), "BEGIN".to_owned()];
    let mut status = Value::Null;
    let until = Instant::now() + PATIENCE;
    while status["written_series"]["parts_written"].as_u64() < Some(2) {
        assert!(Instant::now() < until, "{status}");
        let sql = format!("SELECT {}", sent.len());
        client.batch_execute(&sql).unwrap();
        sent.push(sql);
        std::thread::sleep(Duration::from_millis(20));
        status = ask(control, "GET /", "").1;
    }
    drop(client);
    let (code, report) = proxy.end();
    assert_eq!(code, 0, "{report}");
    let series = directory.path().join("a.series");
    assert_eq!(statements(&series), sent);
    let written = &report["written_series"];
    assert_eq!(written["statements"], sent.len());
    assert_eq!(report["recordings"][0]["statements"], sent.len());
    let parts = Series::open(&series).unwrap().parts;
    assert_eq!(written["parts_written"], parts.len());
    for part in &parts[1..] {
        // The settings, then the open transaction from its beginning.
        let begins = statements(&part.path);
        assert_eq!(begins[..2], sent[..2], "{part:?}");
    }
    // The sums of the parts are those of the whole.
    let reader = WorkloadReader::open(&series).unwrap();
    let account = &reader.info().provenance.reconciliation;
    assert_eq!(account["read_bytes"], report["recordings"][0]["read_bytes"]);
    assert_eq!(account["conversation"]["statements"], sent.len());
}

#[test]
fn what_a_killed_proxy_had_recorded_can_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut proxy = Running::start(directory.path(), "", &[]);
    let mut client = proxy.client();
    for number in 0..100 {
        client.batch_execute(&format!("SELECT {number}")).unwrap();
    }
    // What is older than this is to be there.
    std::thread::sleep(Duration::from_secs(4));
    client.batch_execute("SELECT 'just now'").unwrap();
    proxy.child.kill().unwrap();
    proxy.child.wait().unwrap();
    let workload = recover(directory.path().join("a.workload.partial"));
    let found = statements(&workload);
    let expected: Vec<String> = (0..100).map(|number| format!("SELECT {number}")).collect();
    assert!(found.starts_with(&expected), "{found:?}");
}

#[test]
fn a_full_disk_harms_no_traffic() {
    let directory = tempfile::tempdir().unwrap();
    // As a full disk: no file may become larger, and a write beyond that is refused, for root as well.
    let limit = "trap '' XFSZ; ulimit -f 200;";
    let proxy = Running::start(directory.path(), limit, &[]);
    let mut client = proxy.client();
    let begun = Instant::now();
    let mut sent: u64 = 0;
    let mut texts = Vec::new();
    // Texts that do not compress, until the recording has failed and for a while after.
    let mut failed_at = None;
    while failed_at.is_none_or(|failed_at| sent < failed_at + 500) {
        assert!(begun.elapsed() < PATIENCE, "the disk was never full");
        let text: String = (0..40)
            .map(|part| format!("{:x}", mixed(sent * 40 + part)))
            .collect();
        let row = client.query_one(&format!("SELECT '{text}'"), &[]).unwrap();
        assert_eq!(row.get::<_, String>(0), text);
        sent += 1;
        texts.push(format!("SELECT '{text}'"));
        // A fast machine would fill the disk before anything was made safe.
        let sent_at = SystemTime::now();
        while sent == 10 && !is_safe_since(directory.path(), sent_at) {
            assert!(begun.elapsed() < PATIENCE, "no event was made safe");
            std::thread::sleep(Duration::from_millis(20));
        }
        while let Ok(line) = proxy.told.try_recv() {
            if line.contains("recording a.workload has failed") {
                failed_at = Some(sent);
            }
        }
    }
    drop(client);
    let (code, account) = proxy.end();
    assert_eq!(code, 1, "{account}");
    let recording = &account["recordings"][0];
    assert!(
        recording["failure"].as_str().unwrap().contains("too large"),
        "{recording}"
    );
    // Where there is room for it, the program itself has kept what there was.
    let workload = match recording["state"].as_str().unwrap() {
        "recovered" => directory.path().join("a.workload"),
        state => {
            assert_eq!(state, "partial");
            recover(directory.path().join("a.workload.partial"))
        }
    };
    let found = statements(&workload);
    // How much more was made safe depends on how fast the disk filled up; what it is does not: the first
    // of what was sent, each prepared and executed, and nothing left out.
    assert!(!found.is_empty());
    let expected = texts.iter().flat_map(|text| [text, text]);
    let expected: Vec<String> = expected.take(found.len()).cloned().collect();
    assert_eq!(found, expected);
}

#[test]
fn of_a_folder_that_is_taken_away_nothing_is_promised() {
    let directory = tempfile::tempdir().unwrap();
    let mut proxy = Running::start(directory.path(), "", &[]);
    let mut client = proxy.client();
    client.batch_execute("SELECT 'before'").unwrap();
    std::fs::remove_dir_all(directory.path().join("a.workload.partial")).unwrap();
    client.batch_execute("SELECT 'behind it'").unwrap();
    proxy.hears("recording a.workload has failed");
    client.batch_execute("SELECT 'goes on'").unwrap();
    drop(client);
    let (code, view) = proxy.end();
    let recording = &view["recordings"][0];
    assert_eq!(code, 1, "{view}");
    assert_eq!(recording["state"], "gone");
    assert_eq!(recording["statements"], 0);
    assert_eq!(recording["read_bytes"], recording["forwarded_bytes"]);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Whether a footer file was written after a moment, so that the events before it can be recovered.
fn is_safe_since(directory: &Path, moment: SystemTime) -> bool {
    let listing = std::fs::read_dir(directory.join("a.workload.partial")).unwrap();
    let mut footers = listing.map(Result::unwrap).filter(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.starts_with("events-") && name.ends_with(".footer")
    });
    // An earlier footer may have the connection only. One that is replaced at this moment is read again.
    footers.any(|entry| {
        let metadata = entry.metadata().and_then(|one| one.modified());
        metadata.is_ok_and(|modified| modified > moment)
    })
}

/// Pseudo-random numbers (SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
            .args(["capture", "proxy"])
            .args(arguments)
            .current_dir(directory.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), stderr)
    };
    let (upstream, output) = ("postgres://127.0.0.1:1", "a.workload");
    for (listen, upstream, output, code, says) in [
        ("nowhere", upstream, output, 2, "ADDRESS:PORT"),
        ("proxy.sock", upstream, output, 2, "such as ./proxy.sock"),
        ("127.0.0.1:0", upstream, "a", 2, "-o a.workload"),
        (
            "127.0.0.1:0",
            "postgres://h?sslmode=no",
            output,
            2,
            "sslmode is",
        ),
        (
            "127.0.0.1:0",
            "host=h target_session_attrs=primary",
            output,
            2,
            "which only a login could tell, which is not done here; name the server",
        ),
        ("192.0.2.1:1", upstream, output, 3, "give another --listen"),
    ] {
        let (found, told) = run(&["--listen", listen, "--upstream", upstream, "-o", output]);
        assert_eq!(found, Some(code), "{told}");
        assert!(told.contains(says), "{told}");
    }
    assert!(
        std::fs::read_dir(directory.path())
            .unwrap()
            .next()
            .is_none()
    );
}
