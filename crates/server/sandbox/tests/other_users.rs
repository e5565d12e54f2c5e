//! Attacks on a sandbox by another user of the machine. They need root, which can act as that user.

mod support;

use sandbox::{Endpoint, Options, Sandbox};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{ask, connect, places, server};

/// User `nobody`.
const NOBODY: u32 = 65534;
/// Variable with what a child process of a test attacks.
const ATTACK: &str = "SANDBOX_ATTACK";

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Runs this test again as `nobody`, with what it is to attack. Returns the attacker's result.
fn attack(test: &str, what: &str) -> String {
    let top = tempfile::tempdir_in("/tmp").unwrap();
    let program = top.path().join("attacker");
    // Not by `fs::copy`: another test's thread that starts a program has the open file for a moment, and what
    // is open for writing cannot be executed.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().unwrap())
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(top.path(), open).unwrap();
    let output = Command::new(&program)
        .args(["--exact", test, "--nocapture"])
        .env(ATTACK, what)
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let result = text
        .split("result: ")
        .nth(1)
        .unwrap_or_else(|| panic!("{text}"));
    result.lines().next().unwrap().to_owned()
}

fn report(result: &str) {
    let mut out = io::stdout();
    writeln!(out, "\nresult: {result}").unwrap();
}

/// Connects as superuser, and runs a program on the server's machine.
fn execute_program(url: &str) -> Result<String, String> {
    let mut client = postgres::Client::connect(url, postgres::NoTls)
        .map_err(|error| format!("{error:?}").replace('\n', " "))?;
    client
        .batch_execute("create table poc (l text); copy poc from program 'id -un'")
        .map_err(|error| error.to_string())?;
    Ok(ask(&mut client, "select l from poc"))
}

#[test]
fn other_user_cannot_connect_by_tcp() {
    if let Ok(url) = std::env::var(ATTACK) {
        return report(&format!("{:?}", execute_program(&url)));
    }
    if !is_root() {
        return;
    }
    let (_top, places) = places();
    for major in [10, 13, 17] {
        let options = Options {
            tcp: true,
            ..Options::default()
        };
        let mut sandbox = Sandbox::create(&server(major), options, &places).unwrap();
        let endpoint = sandbox.start().unwrap();
        let attack = |endpoint: &Endpoint| {
            attack(
                "other_user_cannot_connect_by_tcp",
                &endpoint.url("postgres"),
            )
        };
        // The attack works for those who know the password.
        let right = attack(&endpoint);
        assert!(
            right.starts_with("Ok(") && !right.contains("\"postgres\""),
            "{right}"
        );
        for password in [None, Some("postgres".to_owned()), Some(String::new())] {
            let guess = Endpoint {
                password,
                ..endpoint.clone()
            };
            let result = attack(&guess);
            assert!(
                result.starts_with("Err(") && result.contains("password"),
                "{result}"
            );
        }
        let verifier =
            "select substr(rolpassword, 1, 14) from pg_authid where rolname = 'postgres'";
        let mut own = connect(&endpoint.url("postgres"));
        assert_eq!(ask(&mut own, verifier), "SCRAM-SHA-256$");
    }
}

#[test]
fn other_user_cannot_connect_by_socket() {
    if let Some(path) = std::env::var_os(ATTACK) {
        return report(&match UnixStream::connect(PathBuf::from(path)) {
            Ok(_) => "connected".to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        });
    }
    if !is_root() {
        return;
    }
    let (top, mut places) = places();
    // The second one is too long for a socket in the sandbox.
    for name in ["short", &"a-rather-long-name".repeat(5)] {
        places.state = top.path().join(name);
        let mut sandbox = Sandbox::create(&server(17), Options::default(), &places).unwrap();
        let endpoint = sandbox.start().unwrap();
        let sockets = endpoint.socket_dir.unwrap();
        let socket = sockets.join(format!(".s.PGSQL.{}", endpoint.port));
        UnixStream::connect(&socket).unwrap();
        assert_eq!(std::fs::metadata(&sockets).unwrap().mode() & 0o777, 0o700);
        let result = attack(
            "other_user_cannot_connect_by_socket",
            socket.to_str().unwrap(),
        );
        assert_eq!(result, "PermissionDenied");
    }
}

#[test]
fn other_user_cannot_read_any_file_of_a_sandbox() {
    if let Some(root) = std::env::var_os(ATTACK) {
        return report(&readable(Path::new(&root)).join(" "));
    }
    if !is_root() {
        return;
    }
    let (_top, places) = places();
    let options = Options {
        tcp: true,
        ..Options::default()
    };
    let mut sandbox = Sandbox::create(&server(17), options, &places).unwrap();
    sandbox.start().unwrap();
    sandbox.snapshot("loaded").unwrap();
    let root = sandbox.root().to_str().unwrap().to_owned();
    assert_eq!(
        attack("other_user_cannot_read_any_file_of_a_sandbox", &root),
        ""
    );
}

/// Returns the readable directories and files, by their names and by those that a sandbox is known to have.
fn readable(root: &Path) -> Vec<String> {
    let files = [
        "password",
        "sandbox.json",
        "server.log",
        "rehearse.conf",
        "data/PG_VERSION",
    ];
    let mut read: Vec<String> = files
        .iter()
        .filter(|name| std::fs::read(root.join(name)).is_ok())
        .map(|name| (*name).to_owned())
        .collect();
    for dir in ["", "data", "socket", "snapshots", "snapshots/loaded"] {
        if std::fs::read_dir(root.join(dir)).is_ok() {
            read.push(format!("{dir}/"));
        }
    }
    read
}
