//! Texts of servers, manifests, file names and arguments cannot command the terminal, look like the program's own
//! lines, or show a password.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

const EVIL: &str =
    "\u{1b}[31mEVIL\u{1b}]0;t\u{7}\u{202e}abc\u{9b}31m\u{2028}\r\nrehearse: all is well";

fn rehearse(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Checks both streams.
#[track_caller]
fn assert_harmless(output: &Output, what: &str) {
    for stream in [&output.stdout, &output.stderr] {
        let text = std::str::from_utf8(stream).unwrap();
        let executed =
            |c: &char| c.is_control() && !"\n\t".contains(*c) || "\u{202e}\u{2028}".contains(*c);
        assert_eq!(text.chars().find(executed), None, "{what}: {text:?}");
        let forged = text
            .lines()
            .any(|line| line.contains("all is well") && line.starts_with("rehearse: all"));
        assert!(!forged, "{what}: {text}");
    }
}

fn workload(directory: &Path) -> String {
    let log = directory.join("a.log");
    let line = |rest: &str| format!("2026-03-01 09:00:00.000 UTC [7] LOG:  {rest}\n");
    let text = line("connection authorized: user=postgres database=postgres")
        + &line("duration: 0.100 ms  statement: SELECT 1");
    std::fs::write(&log, text).unwrap();
    let made = directory.join("a.workload").display().to_string();
    let log = log.display().to_string();
    let output = rehearse(&["capture", "log", &log, "--prefix", "%m [%p] ", "-o", &made]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    made
}

/// Starts a server that refuses each login with a hostile message.
fn hostile_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 8];
            while stream.read_exact(&mut head).is_ok() {
                let length = u32::from_be_bytes(head[..4].try_into().unwrap());
                let mut rest = vec![0; length as usize - 8];
                stream.read_exact(&mut rest).unwrap();
                // 80877103 and 80877104 request encryption.
                if head[4..6] == [4, 210] {
                    stream.write_all(b"N").unwrap();
                    continue;
                }
                let mut body = b"SFATAL\0C28P01\0M".to_vec();
                body.extend_from_slice(EVIL.as_bytes());
                body.extend_from_slice(b"\0\0");
                let mut message = vec![b'E'];
                message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
                message.extend_from_slice(&body);
                let _ = stream.write_all(&message);
                break;
            }
        }
    });
    port
}

#[test]
fn message_of_hostile_server_is_harmless_in_every_stream() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let run = directory.path().join("a.run").display().to_string();
    let url = format!(
        "postgres://postgres:geheim@127.0.0.1:{}/x",
        hostile_server()
    );
    let replay = ["replay", &workload, "--target", &url, "-o", &run];
    for further in [
        &[][..],
        &["--log-format", "json"],
        &["--log-level", "debug"],
    ] {
        let output = rehearse(&[&replay[..], further].concat());
        assert_harmless(&output, &further.join(" "));
        assert_ne!(output.status.code(), Some(0), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("EVIL") && !said.contains("geheim"), "{said}");
        if further == ["--log-format", "json"] {
            let values = said.lines().map(serde_json::from_str::<serde_json::Value>);
            let messages: Vec<String> = values.map(|one| one.unwrap().to_string()).collect();
            assert!(messages.concat().contains("\u{202e}abc"), "{said}");
        }
        let _ = std::fs::remove_dir_all(&run);
    }
    let observed = directory.path().join("o.run").display().to_string();
    let observe = ["observe", "--target", &url, "-o", &observed, "--for", "1s"];
    assert_harmless(&rehearse(&observe), "observe");
}

#[test]
fn manifest_and_file_names_are_harmless() {
    let directory = tempfile::tempdir().unwrap();
    let made = workload(directory.path());
    let manifest = Path::new(&made).join("manifest.json");
    let whole: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    for place in [
        "/kind",
        "/files/0/name",
        "/provenance/sources/0/name",
        "/body/provenance/sources/0/name",
        "/id",
    ] {
        let mut changed = whole.clone();
        let Some(value) = changed.pointer_mut(place) else {
            continue;
        };
        *value = EVIL.into();
        std::fs::write(&manifest, changed.to_string()).unwrap();
        for arguments in [
            &["inspect", &made][..],
            &["inspect", "--json", &made],
            &["show", &made],
        ] {
            assert_harmless(&rehearse(arguments), place);
        }
    }
    std::fs::write(&manifest, whole.to_string()).unwrap();
    let evil = directory.path().join(EVIL).display().to_string();
    std::fs::create_dir(directory.path().join(EVIL.split_once('\n').unwrap().0)).unwrap();
    for arguments in [
        &["inspect", &evil][..],
        &["capture", "log", &evil, "-o", "x.workload"],
        &["compare", &evil, &evil],
        &["replay", &made, "--target", "host=h", "--key", &evil],
        &[&evil],
        &["sandbox", "down", &evil],
    ] {
        let output = rehearse(arguments);
        assert_harmless(&output, arguments[0]);
        assert_ne!(output.status.code(), Some(0), "{output:?}");
    }
}

#[test]
fn password_is_not_shown_wherever_it_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let made = workload(directory.path());
    let out = directory.path().join("x.run").display().to_string();
    for target in [
        "u:geheim@127.0.0.1:1/db",
        "postgres://u:geheim@127.0.0.1:1/db",
        "postgres://u:ge/geheim@127.0.0.1:1/db",
        "postgres://u:geheim",
        "host=127.0.0.1 port=1 password=geheim",
        "host=127.0.0.1 port=1 pasword=geheim",
        "host=127.0.0.1 password=a geheim",
    ] {
        for arguments in [
            &["replay", &made, "--target", target, "-o", &out][..],
            &["observe", "--target", target, "-o", &out, "--for", "1s"],
            // The option was forgotten or misspelt.
            &["replay", &made, target],
            &["replay", &made, &format!("--taget={target}")],
            &["replay", &made, "--target", target, "--speed", target],
        ] {
            let output = rehearse(arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_ne!(output.status.code(), Some(0), "{arguments:?}");
            assert!(!said.contains("geheim"), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn statements_are_whole_in_a_pipe_and_as_wide_as_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("a.log");
    let columns: Vec<String> = (0..60).map(|number| format!("column_{number}")).collect();
    let sql = format!("select {} from orders", columns.join(", "));
    let line = |rest: &str| format!("2026-03-01 09:00:00.000 UTC [7] LOG:  {rest}\n");
    let text = line("connection authorized: user=postgres database=postgres")
        + &line(&format!("duration: 0.100 ms  statement: {sql}"));
    std::fs::write(&log, text).unwrap();
    let made = directory.path().join("a.workload").display().to_string();
    let log = log.display().to_string();
    let capture = ["capture", "log", &log, "--prefix", "%m [%p] ", "-o", &made];
    let output = rehearse(&capture);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let piped = String::from_utf8(rehearse(&["inspect", &made]).stdout).unwrap();
    assert!(piped.contains(&sql), "{piped}");

    for width in [90, 200] {
        let program = env!("CARGO_BIN_EXE_rehearse");
        let shell = format!("stty rows 40 cols {width}; '{program}' inspect '{made}'");
        let output = Command::new("script")
            .args(["-qec", &shell, "/dev/null"])
            .env("NO_COLOR", "1")
            .env_remove("COLUMNS")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        let cut = shown.lines().find(|line| line.contains("select column_0"));
        let cut = cut.unwrap_or_else(|| panic!("{shown}")).trim_end();
        // A blank before the ellipsis is left out.
        assert!((width - 1..=width).contains(&cut.chars().count()), "{cut}");
        assert!(cut.ends_with('…'), "{cut}");
    }
}
