//! Inputs of `capture log`: compressed files, pipes, directories, patterns, series with
//! gaps and overlaps, and logs of real servers that are still being written.

mod continued;
mod following;
mod series;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use sandbox::{Endpoint, Sandbox};
use serde_json::Value;

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(["capture", "log"]).args(arguments);
    command
}

/// Returns the report of a capture, which must end with this exit code.
#[track_caller]
fn account(output: &Output, code: i32) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let account: Value = serde_json::from_slice(&output.stdout).unwrap();
    let skipped = account["skipped"].as_object().unwrap();
    let skipped: u64 = skipped
        .values()
        .map(|skipped| skipped["lines"].as_u64().unwrap())
        .sum();
    assert_eq!(
        account["lines"].as_u64().unwrap(),
        account["lines_in_events"].as_u64().unwrap()
            + skipped
            + account["unreadable"]["lines"].as_u64().unwrap()
    );
    account
}

#[track_caller]
fn checked(names: &[&str], code: i32) -> Value {
    let arguments = [names, &["--dry-run", "--json"]].concat();
    account(&program(&arguments).output().unwrap(), code)
}

fn without_sources(mut account: Value) -> Value {
    for name in ["sources", "series", "left_out"] {
        account.as_object_mut().unwrap().remove(name);
    }
    account
}

fn names(account: &Value) -> Vec<&str> {
    let files = account["sources"].as_array().unwrap().iter();
    files
        .map(|file| file["name"].as_str().unwrap().rsplit('/').next().unwrap())
        .collect()
}

/// Creates a minute of one server's log from `minute` on: eight sessions, ten statements per
/// second.
fn minute_of(server: u32, minute: u32) -> String {
    let mut log = String::new();
    for tick in 0..600 {
        let (second, milli) = (tick / 10, tick % 10 * 100);
        let pid = 100 + tick % 8;
        writeln!(
            log,
            "2026-03-01 {:02}:{:02}:{second:02}.{milli:03} UTC [{pid}] app@shop LOG:  duration: 0.5 ms  statement: SELECT {server}, {minute}, {tick}",
            9 + minute / 60,
            minute % 60,
        )
        .unwrap();
    }
    log
}

struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Self {
        Room(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.text(name)
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn a_compressed_or_piped_log_gives_the_account_of_the_plain_one() {
    let room = Room::new();
    let log = format!("{}garbage\n{}", minute_of(1, 0), minute_of(1, 1));
    let plain = room.write("plain", &log);
    let whole = without_sources(checked(&[&plain], 1));
    assert_eq!(whole["statements"], 1_200);
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(log.as_bytes()).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(log.as_bytes()).unwrap();
    let packed = [
        gzip(log.as_bytes()),
        zstd::encode_all(log.as_bytes(), 1).unwrap(),
        bzip2.finish().unwrap(),
        xz.finish().unwrap(),
    ];
    let elsewhere = |account: &Value| {
        let mut account = without_sources(account.clone());
        account["unreadable"]["first"][0]["file"] = Value::Null;
        account
    };
    for packed in packed {
        // The name says nothing.
        let packed = room.write("packed.log", packed);
        assert_eq!(elsewhere(&checked(&[&packed], 1)), elsewhere(&whole));
        for (piped, arguments) in [
            (&plain, ["-", "--dry-run", "--json"].as_slice()),
            (&packed, &["-", "--dry-run", "--json"]),
        ] {
            let stdin = File::open(piped).unwrap();
            let output = program(arguments).stdin(stdin).output().unwrap();
            assert_eq!(elsewhere(&account(&output, 1)), elsewhere(&whole));
        }
    }
    let first = &whole["unreadable"]["first"][0];
    assert_eq!(
        (&first["file"], &first["line"]),
        (&plain.into(), &601.into())
    );
}

#[test]
fn a_damaged_file_is_read_as_far_as_it_goes_and_said_to_be() {
    let room = Room::new();
    let packed = gzip(minute_of(1, 0).as_bytes());
    room.write("a.log.gz", &packed[..packed.len() / 2]);
    room.write("b.log", minute_of(1, 1));
    let account = checked(&[&room.text("")], 1);
    let statements = account["statements"].as_u64().unwrap();
    assert!((700..1_200).contains(&statements), "{statements}");
    let damage = &account["sources"][0]["damage"];
    assert!(damage.as_str().unwrap().contains("cut"), "{damage}");
    let shown = program(&[&room.text("a.log.gz"), "--dry-run"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("damaged: "), "{shown}");

    room.write("nothing.gz", &packed[..12]);
    let refused = program(&[&room.text("nothing.gz"), "--dry-run"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(3));
    room.write("logs.zip", b"PK\x03\x04 and more");
    let refused = program(&[&room.text("logs.zip"), "--dry-run"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("zip") && said.contains("unzip -p"), "{said}");
}

#[test]
fn order_directory_and_pattern_make_no_difference() {
    let room = Room::new();
    let one = room.write("postgresql-2026-03-01_0900.log", minute_of(1, 0));
    let two = room.write(
        "postgresql-2026-03-01_0901.log",
        gzip(minute_of(1, 1).as_bytes()),
    );
    let three = room.write("postgresql-2026-03-01_0902.log", minute_of(1, 2));
    let whole = checked(&[&one, &two, &three], 0);
    assert_eq!(
        (&whole["statements"], &whole["sessions"]),
        (&1_800.into(), &8.into())
    );
    std::fs::create_dir(room.path("old")).unwrap();
    room.write("README", "no log\n");
    let (pattern, last) = (room.text("*.log"), room.text("*02.log"));
    for (arguments, left_out) in [
        (vec![three.as_str(), &two, &one], 0),
        // The directory in it, and what is no log.
        (vec![room.0.path().to_str().unwrap()], 2),
        (vec![pattern.as_str()], 0),
        // Two of three were given twice.
        (vec![last.as_str(), &one, &pattern], 2),
    ] {
        let account = checked(&arguments, 0);
        assert_eq!(
            without_sources(account.clone()),
            without_sources(whole.clone())
        );
        assert_eq!(names(&account), names(&whole), "{arguments:?}");
        let found = account["left_out"].as_array().unwrap();
        assert_eq!(found.len(), left_out, "{found:?}");
    }
    let none = program(&[&room.text("*.csv"), "--dry-run"])
        .output()
        .unwrap();
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn a_log_that_goes_back_in_time_is_refused_and_one_with_disorder_read() {
    let room = Room::new();
    let log = minute_of(1, 0);
    for count in [10, 600] {
        let lines: Vec<&str> = log.split_inclusive('\n').take(count).collect();
        let turned: Vec<&str> = lines.iter().rev().copied().collect();
        let turned = room.write("turned.log", turned.concat());
        let refused = program(&[&turned, "--dry-run"]).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(said.contains("tac"), "{said}");
        let mut disordered = lines;
        for at in (0..count - 1).step_by(3) {
            disordered.swap(at, at + 1);
        }
        let disordered = room.write("disordered.log", disordered.concat());
        assert_eq!(checked(&[&disordered], 0)["statements"], count);
    }
}

#[test]
fn what_is_not_there_and_what_would_be_lost_are_refused() {
    let room = Room::new();
    let log = room.write("a.log", minute_of(1, 0) + "garbage\n");
    let refused = program(&[&room.text("nope.log"), "--dry-run"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("give the name of a log file"), "{said}");

    // What cannot be read counts once, too.
    let copy = room.write("a.log.gz", gzip(&std::fs::read(&log).unwrap()));
    assert_eq!(checked(&[&log, &copy], 1)["unreadable"]["lines"], 1);

    let workload = room.text("a.workload");
    let made = program(&[&log, "-o", &workload]).output().unwrap();
    assert_eq!(made.status.code(), Some(1));
    let inspect = |page: &str| {
        Command::new(env!("CARGO_BIN_EXE_rehearse"))
            .args(["inspect", &workload, "--html", page])
            .output()
            .unwrap()
    };
    let refused = inspect(&log);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        std::fs::read_to_string(&log)
            .unwrap()
            .ends_with("garbage\n")
    );
    let page = room.text("a.html");
    for _ in 0..2 {
        assert_eq!(inspect(&page).status.code(), Some(0));
    }
}

#[test]
fn a_byte_order_mark_is_no_line_and_utf_16_is_named() {
    let room = Room::new();
    let marked = room.write("bom.log", format!("\u{feff}{}", minute_of(1, 0)));
    let account = checked(&[&marked], 0);
    assert_eq!(account["statements"], 600);
    assert_eq!(account["lines"], 600);
    let wide: Vec<u8> = std::iter::once(0xfeff)
        .chain(minute_of(1, 0).encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let wide = room.write("wide.log", wide);
    let refused = program(&[&wide, "--dry-run"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("iconv -f UTF-16"), "{said}");
}

#[test]
fn a_log_that_stays_silent_is_not_judged() {
    let room = Room::new();
    let log = room.write("a.log", minute_of(1, 0));
    let followed = program(&[&log, "--follow", "--duration", "1s", "--dry-run"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&followed.stderr).into_owned();
    let shown = String::from_utf8_lossy(&followed.stdout).into_owned();
    assert!(said.contains("nothing was written to the log"), "{said}");
    assert!(!shown.contains("good for"), "{shown}");
}

#[test]
fn gaps_and_missing_names_are_told() {
    let room = Room::new();
    for (name, minute) in [
        ("s.log.4", 0),
        ("s.log.3", 1),
        ("s.log.1", 60),
        ("s.log", 61),
    ] {
        room.write(name, minute_of(1, minute));
    }
    let account = checked(&[&room.text("")], 0);
    assert_eq!(names(&account), ["s.log.4", "s.log.3", "s.log.1", "s.log"]);
    let gaps = account["series"]["gaps"].as_array().unwrap();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(gaps[0]["before"].as_str().unwrap().ends_with("s.log.3"));
    let span_us = gaps[0]["to_us"].as_i64().unwrap() - gaps[0]["from_us"].as_i64().unwrap();
    assert_eq!(span_us, 58 * 60_000_000 + 100_000);
    let missing = account["series"]["missing"].as_array().unwrap();
    assert_eq!(missing, &[Value::from(room.text("s.log.2"))]);
    assert_eq!(account["series"]["overlaps"].as_array().unwrap().len(), 0);
    let shown = program(&[&room.text(""), "--dry-run"]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("gap: nothing was logged for 58 min"),
        "{shown}"
    );
}

#[test]
fn what_two_files_have_counts_once_and_other_servers_are_kept_apart() {
    let room = Room::new();
    let (first, second, third) = (minute_of(1, 0), minute_of(1, 1), minute_of(1, 2));
    // The same lines under two names; and pieces that overlap by a minute.
    let a = room.write("a.log", format!("{first}{second}"));
    let copy = room.write("copy.log.gz", gzip(format!("{first}{second}").as_bytes()));
    let piece = room.write("piece.log", format!("{second}{third}"));
    for (names, statements, left_out) in [
        (vec![a.as_str(), &copy], 1_200, 1_200),
        (vec![&a, &piece], 1_800, 600),
        (vec![&piece, &copy, &a], 1_800, 1_800),
    ] {
        let account = checked(&names, 0);
        assert_eq!(account["statements"], statements, "{names:?}");
        assert_eq!(account["sessions"], 8, "{names:?}");
        assert_eq!(account["skipped"]["duplicate"]["lines"], left_out);
        assert_eq!(account["series"]["overlaps"][0]["same"], true);
    }
    // Another server with the same process numbers, both rotated.
    for minute in 0..3 {
        room.write(&format!("north-{minute}.log"), minute_of(1, minute));
        room.write(&format!("south-{minute}.log"), minute_of(2, minute));
    }
    let pattern = room.text("*th-?.log");
    let both = checked(&[&pattern], 0);
    assert_eq!(both["statements"], 3_600);
    assert_eq!(both["sessions"], 16);
    let overlaps = both["series"]["overlaps"].as_array().unwrap();
    assert_eq!(overlaps.len(), 1, "{overlaps:?}");
    assert_eq!(overlaps[0]["same"], false);
}

#[test]
fn pipe_of_the_shell_is_read_whole_and_named_pipe_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("a.log");
    std::fs::write(&log, minute_of(1, 0)).unwrap();
    let whole = without_sources(checked(&[log.to_str().unwrap()], 0));
    let substituted = Command::new("bash")
        .args(["-c", r#""$0" capture log <(cat "$1") --dry-run --json"#])
        .args([env!("CARGO_BIN_EXE_rehearse"), log.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(without_sources(account(&substituted, 0)), whole);

    let pipe = directory.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let pipe = pipe.to_str().unwrap();
    let target = format!("postgres://x@127.0.0.1/x?sslmode=verify-ca&sslrootcert={pipe}");
    let output = |name: &str| directory.path().join(name).display().to_string();
    let (workload, run) = (output("a.workload"), output("a.run"));
    let packets = output("b.workload");
    let refused: [&[&str]; 4] = [
        &["capture", "log", pipe, "--dry-run"],
        &[
            "capture",
            "log",
            pipe,
            "--follow",
            "--duration",
            "1s",
            "-o",
            &workload,
        ],
        &["capture", "pcap", pipe, "-o", &packets],
        &[
            "observe",
            "--target",
            &target,
            "--duration",
            "1s",
            "-o",
            &run,
        ],
    ];
    for arguments in refused {
        let begun = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
        let ended = command.args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(
            matches!(ended.status.code(), Some(2 | 3)),
            "{arguments:?}: {said}"
        );
        assert!(
            said.contains("it is a") && said.contains("pipe"),
            "{arguments:?}: {said}"
        );
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
