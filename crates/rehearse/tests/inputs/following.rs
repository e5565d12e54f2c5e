//! Logs that are read while they are written: real servers, every kind of rotation, and pipes.

use super::*;

/// Server whose collector writes to `log`, and a client that counts the statements it sends.
struct Server {
    _sandbox: Sandbox,
    endpoint: Endpoint,
    logs: PathBuf,
}

impl Server {
    fn new(destination: &str, filename: &str) -> Self {
        let settings = [
            ("logging_collector", "on"),
            ("log_destination", destination),
            ("log_line_prefix", "%m [%p] %c %q%u@%d "),
            ("log_min_duration_statement", "0"),
            ("log_connections", "on"),
            ("log_disconnections", "on"),
            ("log_directory", "log"),
            ("log_filename", filename),
            ("log_rotation_size", "0"),
        ];
        let (sandbox, endpoint) = test_support::server().major(15).settings(&settings).start();
        let logs = sandbox.data_dir().join("log");
        Server {
            _sandbox: sandbox,
            endpoint,
            logs,
        }
    }

    fn client(&self) -> Client {
        Client::connect(&self.endpoint.url("postgres"), NoTls).unwrap()
    }
}

/// Starts following; messages go to a file.
struct Followed {
    child: Child,
    said: PathBuf,
    room: Room,
}

impl Followed {
    fn start(what: &str, more: &[&str]) -> Self {
        let room = Room::new();
        let said = room.path("said");
        let workload = room.text("f.workload");
        let arguments = [&[what, "--follow", "--json", "-o", &workload], more].concat();
        let child = program(&arguments)
            .stdout(Stdio::piped())
            .stderr(File::create(&said).unwrap())
            .spawn()
            .unwrap();
        let followed = Followed { child, said, room };
        followed.wait_for("following ");
        followed
    }

    fn wait_for(&self, words: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let said = std::fs::read_to_string(&self.said).unwrap();
            if said.contains(words) {
                return;
            }
            assert!(Instant::now() < until, "'{words}' was not said: {said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Returns the report, and that of `inspect` for the workload.
    fn end(self) -> (Value, Value) {
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            std::fs::read_to_string(&self.said).unwrap()
        );
        let captured = account(&output, 0);
        let inspect = Command::new(env!("CARGO_BIN_EXE_rehearse"))
            .args(["inspect", &self.room.text("f.workload"), "--json"])
            .output()
            .unwrap();
        (captured, serde_json::from_slice(&inspect.stdout).unwrap())
    }
}

#[test]
fn a_log_is_followed_through_rotation_until_it_is_enough() {
    let server = Server::new("stderr,csvlog", "postgresql-%Y-%m-%d_%H%M%S.log");
    let mut client = server.client();
    client.batch_execute("SELECT 'before'").unwrap();
    let logs = server.logs.display().to_string();
    let started = Instant::now();
    let followed = Followed::start(&logs, &["--duration", "12s"]);
    let mut sent = 0;
    for round in 0..3 {
        for number in 0..200 {
            let sql = format!("SELECT {round}, '{number}\n\tline'");
            client.batch_execute(&sql).unwrap();
            sent += 1;
        }
        // Names have whole seconds.
        std::thread::sleep(Duration::from_millis(1_100));
        client.batch_execute("SELECT pg_rotate_logfile()").unwrap();
        sent += 1;
    }
    let (captured, inspected) = followed.end();
    assert!(started.elapsed() > Duration::from_secs(11));
    assert_eq!(captured["statements"], sent);
    assert_eq!(captured["unreadable"]["lines"], 0);
    assert_eq!(inspected["statements"], sent);
    let files = captured["sources"].as_array().unwrap();
    assert!(files.len() >= 3, "{files:?}");
    assert!(files.iter().all(|file| file["format"] == "csvlog"));
    // Afterwards, both formats lie there: what is in both counts once.
    drop(client);
    let whole = checked(&[&logs], 0);
    assert_eq!(whole["statements"], sent + 1);
    assert_eq!(whole["series"]["overlaps"][0]["same"], true);
}

#[test]
fn a_log_is_followed_under_its_name_until_ctrl_c() {
    let server = Server::new("stderr", "server.log");
    let mut client = server.client();
    client.batch_execute("SELECT 'before'").unwrap();
    let log = server.logs.join("server.log");
    let followed = Followed::start(log.to_str().unwrap(), &[]);
    let mut sent = 0;
    for round in 0..3 {
        for number in 0..200 {
            client
                .batch_execute(&format!("SELECT {round}, {number}"))
                .unwrap();
            sent += 1;
        }
        // As logrotate does; the server writes to the old file until it is signalled.
        std::fs::rename(&log, server.logs.join(format!("server.log.{round}"))).unwrap();
        client.batch_execute("SELECT 'to the old file'").unwrap();
        client.batch_execute("SELECT pg_rotate_logfile()").unwrap();
        sent += 2;
        let until = Instant::now() + Duration::from_secs(30);
        while !log.exists() {
            assert!(Instant::now() < until, "the server did not rotate");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    client.batch_execute("SELECT 'last'").unwrap();
    sent += 1;
    // What the server's collector has is on its way.
    std::thread::sleep(Duration::from_millis(300));
    followed.signal("-INT");
    let (captured, inspected) = followed.end();
    assert_eq!(captured["statements"], sent);
    assert_eq!(inspected["statements"], sent);
    assert_eq!(captured["unreadable"]["lines"], 0);
}

#[test]
fn a_prefix_that_a_reload_changes_is_followed() {
    let server = Server::new("stderr", "server.log");
    let mut client = server.client();
    let log = server.logs.join("server.log");
    client.batch_execute("SELECT 'before'").unwrap();
    let followed = Followed::start(log.to_str().unwrap(), &["--from-start"]);
    let mut sent = 1;
    for prefix in ["%m %c [%p] user=%u,db=%d ", "%t [%p] %q%u@%d/%a "] {
        let change = format!("ALTER SYSTEM SET log_line_prefix = '{prefix}'");
        client.batch_execute(&change).unwrap();
        client.batch_execute("SELECT pg_reload_conf()").unwrap();
        sent += 2;
        // The log is read while there is one line of each statement, and no more.
        for number in 0..20 {
            std::thread::sleep(Duration::from_millis(100));
            client.batch_execute(&format!("SELECT {number}")).unwrap();
            sent += 1;
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    followed.signal("-INT");
    let (captured, inspected) = followed.end();
    assert_eq!(captured["statements"], sent, "{captured:#}");
    assert_eq!(inspected["statements"], sent);
    // The announcement alone does not show the new prefix.
    let unreadable = captured["unreadable"]["lines"].as_u64().unwrap();
    assert!(unreadable <= 4, "{captured:#}");
    let notes = captured["sources"][0]["notes"].to_string();
    assert_eq!(
        notes.matches("log_line_prefix was changed").count(),
        2,
        "{notes}"
    );
}

#[test]
fn a_truncated_log_and_a_pipe_are_followed() {
    let room = Room::new();
    let log = room.write("x.log", minute_of(1, 0));
    let append = |text: &str| {
        let mut file = File::options().append(true).open(&log).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let followed = Followed::start(&log, &["--from-start"]);
    append(&minute_of(1, 1));
    std::fs::copy(&log, room.path("x.log.1")).unwrap();
    File::create(&log).unwrap();
    append(&minute_of(1, 2));
    followed.wait_for("going on with");
    append(&minute_of(1, 3));
    std::thread::sleep(Duration::from_millis(500));
    followed.signal("-TERM");
    let (captured, _) = followed.end();
    assert_eq!(captured["statements"], 2_400);
    assert_eq!(captured["sessions"], 8);

    let mut piped = program(&["-", "--follow", "--dry-run", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = piped.stdin.take().unwrap();
    pipe.write_all(minute_of(1, 0).as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    let pid = piped.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    let output = piped.wait_with_output().unwrap();
    assert_eq!(account(&output, 0)["statements"], 600);
    drop(pipe);
}

#[test]
fn a_log_that_was_truncated_without_a_copy_is_followed() {
    let room = Room::new();
    let log = room.write("x.log", minute_of(1, 0));
    let followed = Followed::start(&log, &["--from-start"]);
    std::thread::sleep(Duration::from_millis(1_000));
    File::create(&log).unwrap();
    let mut file = File::options().append(true).open(&log).unwrap();
    file.write_all(minute_of(1, 2).as_bytes()).unwrap();
    followed.wait_for("going on with");
    std::thread::sleep(Duration::from_millis(500));
    followed.signal("-TERM");
    let (captured, _) = followed.end();
    assert_eq!(captured["statements"], 1_200);
}

/// Writes lines one millisecond apart, until the returned function is called.
fn busy(mut to: impl std::io::Write + Send + 'static) -> impl FnOnce() {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        let lines = minute_of(1, 0);
        for line in lines.split_inclusive('\n').cycle() {
            // In two pieces: a line may be half there when it is enough.
            let (one, two) = line.split_at(40);
            for piece in [one, two] {
                // A pipe's other end is gone when it has had enough.
                if to.write_all(piece.as_bytes()).is_err() {
                    return;
                }
            }
            let wait = Duration::from_millis(1);
            if stopped.recv_timeout(wait) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    move || {
        drop(stop);
        writer.join().unwrap();
    }
}

#[test]
fn a_log_that_is_never_silent_is_followed_until_it_is_enough() {
    for signal in [Some("-INT"), Some("-TERM"), None] {
        let room = Room::new();
        let log = room.write("x.log", minute_of(1, 0));
        let more: &[&str] = match signal {
            Some(_) => &[],
            None => &["--duration", "2s"],
        };
        let started = Instant::now();
        let followed = Followed::start(&log, more);
        let quiet = busy(File::options().append(true).open(&log).unwrap());
        let mut asked = started + Duration::from_secs(2);
        if let Some(signal) = signal {
            std::thread::sleep(Duration::from_secs(1));
            asked = Instant::now();
            followed.signal(signal);
        }
        followed.wait_for("stopping");
        let until = asked + Duration::from_secs(20);
        let mut followed = followed;
        while followed.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "{signal:?}: it goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
        quiet();
        let (captured, inspected) = followed.end();
        let statements = captured["statements"].as_u64().unwrap();
        assert!(statements > 100, "{statements}");
        assert_eq!(captured["unreadable"]["lines"], 0);
        assert_eq!(inspected["statements"], captured["statements"]);
    }
}

#[test]
fn a_pipe_that_is_never_silent_is_followed_until_it_is_enough() {
    for (more, signal) in [(&["--duration", "2s"][..], false), (&[], true)] {
        let arguments = [&["-", "--follow", "--dry-run", "--json"], more].concat();
        let mut piped = program(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let quiet = busy(piped.stdin.take().unwrap());
        if signal {
            std::thread::sleep(Duration::from_secs(2));
            let pid = piped.id().to_string();
            Command::new("kill").args(["-INT", &pid]).status().unwrap();
        }
        let until = Instant::now() + Duration::from_secs(20);
        while piped.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "it goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
        quiet();
        let output = piped.wait_with_output().unwrap();
        let statements = account(&output, 0)["statements"].as_u64().unwrap();
        assert!(statements > 100, "{statements}");
    }
}

#[test]
fn log_that_cannot_be_followed_leaves_nothing_behind() {
    let room = Room::new();
    let packed = room.write("a.log.gz", gzip(minute_of(1, 0).as_bytes()));
    let missing = room.text("missing.log");
    for log in [packed, missing] {
        let workload = room.text("f.workload");
        let output = program(&["--follow", &log, "-o", &workload])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(!room.path("f.workload.partial").exists(), "{said}");
    }
}

#[test]
fn only_one_log_is_followed_and_one_that_is_written() {
    let room = Room::new();
    let packed = room.write("a.log.gz", gzip(minute_of(1, 0).as_bytes()));
    for (arguments, words) in [
        (vec!["--follow", "--dry-run", &packed], "without --follow"),
        (
            vec!["--follow", "--dry-run", "a", "b"],
            "--follow reads one log",
        ),
        (vec!["--dry-run", "a", "--duration", "10m"], "--follow"),
        (
            vec!["--follow", "--dry-run", "a", "--duration", "10"],
            "30s, 10m or 1h30m",
        ),
    ] {
        let output = program(&arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn what_was_followed_until_a_kill_can_be_recovered() {
    let room = Room::new();
    let workload = room.text("f.workload");
    let mut piped = program(&["-", "--follow", "-o", &workload])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let quiet = busy(piped.stdin.take().unwrap());
    let safe = room.path("f.workload.partial/events-00000.parquet.footer");
    let until = Instant::now() + Duration::from_secs(30);
    while !safe.exists() {
        assert!(Instant::now() < until, "nothing was made safe");
        std::thread::sleep(Duration::from_millis(20));
    }
    piped.kill().unwrap();
    piped.wait().unwrap();
    quiet();
    let recovered = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(["recover", &format!("{workload}.partial")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&recovered.stderr).into_owned();
    assert!(recovered.status.success(), "{said}");
    let reader = workload::WorkloadReader::open(std::path::Path::new(&workload)).unwrap();
    assert!(reader.info().statements > 0);
}
