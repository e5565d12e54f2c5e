//! Captures of logs into a series of workloads, and commands that read one.

use super::*;
use workload::WorkloadReader;
use workload::series::{Series, SeriesState};

/// Ten minutes from 09:00:01 on, with a setting per session, and a statement that is logged three minutes after its start.
pub(super) fn log() -> String {
    let mut log = String::new();
    for session in 0..8 {
        writeln!(
            log,
            "2026-03-01 09:00:01.000 UTC [{}] app@shop LOG:  duration: 0.5 ms  statement: SET work_mem = '{}MB'",
            100 + session,
            session + 1
        )
        .unwrap();
    }
    for minute in 1..10 {
        log.push_str(&minute_of(1, minute));
        if minute == 4 {
            log.push_str("2026-03-01 09:05:00.000 UTC [200] app@shop LOG:  duration: 180000.0 ms  statement: SELECT slow()\n");
        }
    }
    log
}

pub(super) fn rehearse(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(arguments).output().unwrap()
}

pub(super) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Captures the log into `a.series`, with a part for each two minutes.
fn capture(room: &Room, more: &[&str]) -> Output {
    let log = room.write("postgresql.log", log());
    let path = room.text("a.series");
    let arguments = [&[&*log, "-o", &path, "--roll", "2m", "--json"], more].concat();
    program(&arguments).output().unwrap()
}

fn events(path: &Path) -> Vec<(i64, u64, workload::EventKind)> {
    let reader = WorkloadReader::open(path).unwrap();
    let events = reader.events().unwrap().map(|item| item.unwrap().0);
    events
        .map(|event| (event.due_us, event.sequence, event.kind))
        .collect()
}

#[test]
fn series_is_read_by_every_command_like_the_workload_of_the_same_log() {
    let room = Room::new();
    let report = account(&capture(&room, &[]), 0);
    let written = &report["written_series"];
    assert_eq!(written["parts_written"], 5, "{written}");
    assert_eq!(written["statements"], report["statements"]);
    // The slow statement, and the connection with which its session begins.
    assert_eq!(written["late_events"], 2, "{written}");
    let one = room.text("one.workload");
    let log = room.text("postgresql.log");
    account(
        &program(&[&*log, "-o", &one, "--json"]).output().unwrap(),
        0,
    );
    let path = room.text("a.series");
    assert_eq!(events(Path::new(&path)), events(Path::new(&one)));
    let inspected = |path: &str| -> Value {
        let output = rehearse(&["inspect", path, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (of_series, of_one) = (inspected(&path), inspected(&one));
    for name in [
        "statements",
        "sessions",
        "start_wall_us",
        "span_us",
        "by_statement",
    ] {
        assert_eq!(of_series[name], of_one[name], "{name}");
        assert!(!of_one[name].is_null(), "{name}");
    }
    // A slice over the border of two parts has the settings of its sessions.
    let slice = |from: &str, to: &str| {
        let part = room.text(to);
        let range = [
            "--from",
            "2026-03-01 09:03:30",
            "--to",
            "2026-03-01 09:04:30",
        ];
        let output = rehearse(&[&["slice", from, "-o", &part], &range[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        events(Path::new(&part))
    };
    assert_eq!(
        slice(&path, "of_series.workload"),
        slice(&one, "of_one.workload")
    );
    // A part alone begins with the state of its sessions.
    let third = room.path("a.series/20260301T090400Z.workload");
    let reader = WorkloadReader::open(&third).unwrap();
    let preludes = reader.events().unwrap().map(|item| item.unwrap().0);
    let settings = preludes.filter(|event| event.prelude && event.kind.is_statement());
    assert_eq!(settings.count(), 8);
}

#[test]
fn series_is_continued_with_append_only_and_states_the_gap() {
    let room = Room::new();
    account(&capture(&room, &[]), 0);
    let again = capture(&room, &[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        said(&again).contains("pass --append to continue it"),
        "{}",
        said(&again)
    );
    // A killed capture leaves the state, and a part that is not complete.
    let path = room.path("a.series");
    let last = path.join("20260301T090800Z.workload");
    let mut info = Series::open(&path).unwrap().info;
    info.state = SeriesState::BeingCaptured;
    info.write(&path).unwrap();
    std::fs::rename(&last, path.join("20260301T090800Z.workload.partial")).unwrap();
    let later = room.write("later.log", minute_of(2, 30));
    let text = path.display().to_string();
    let output = program(&[&*later, "-o", &text, "--roll", "2m", "--append"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        said(&output).contains("20260301T090800Z.workload of a capture that was killed"),
        "{}",
        said(&output)
    );
    let output = rehearse(&["inspect", &text]);
    let gaps = said(&output);
    assert_eq!(output.status.code(), Some(0), "{gaps}");
    assert!(
        gaps.contains("to 2026-03-01 09:30:00 UTC: the capture was killed"),
        "{gaps}"
    );
    assert!(
        gaps.contains("it was recovered after its capture"),
        "{gaps}"
    );
    let reader = WorkloadReader::open(&path).unwrap();
    assert_eq!(reader.parts(), Some(7));
    // Sessions of the second capture are not those of the first.
    assert_eq!(reader.sessions().unwrap().count(), 9 + 8);
}

#[test]
fn retention_removes_the_oldest_parts_of_this_series_only() {
    let room = Room::new();
    std::fs::create_dir(room.path("kept")).unwrap();
    let foreign = room.path("kept/notes");
    std::fs::write(&foreign, "the user's").unwrap();
    account(&capture(&room, &[]), 0);
    let path = room.path("a.series");
    // What only looks like a part: a link to the user's directory, and a workload of another series.
    std::os::unix::fs::symlink(room.path("kept"), path.join("20260101T000000Z.workload")).unwrap();
    let other = room.path("b.series");
    let log = room.text("postgresql.log");
    let more = ["-o", &other.display().to_string(), "--roll", "1h"];
    assert!(
        program(&[&[&*log], &more[..]].concat())
            .status()
            .unwrap()
            .success()
    );
    let of_other = path.join("20260102T000000Z.workload");
    std::fs::rename(other.join("20260301T090000Z.workload"), &of_other).unwrap();
    std::fs::remove_file(path.join("20260101T000000Z.workload")).unwrap();
    let later = room.write("later.log", minute_of(2, 30));
    let text = path.display().to_string();
    let options = [
        "-o",
        &text,
        "--roll",
        "2m",
        "--append",
        "--keep-for",
        "25m",
        "--json",
    ];
    let output = program(&[&[&*later], &options[..]].concat())
        .output()
        .unwrap();
    let report = account(&output, 0);
    assert_eq!(
        report["written_series"]["parts_removed"],
        3,
        "{}",
        said(&output)
    );
    assert_eq!(report["written_series"]["parts_kept"], 4);
    let series = Series::open(&path).unwrap();
    assert_eq!(series.info.removed.parts, 3);
    assert_eq!(series.foreign, [of_other]);
    assert!(foreign.exists());
    // The newest part stays, however small the limit.
    let last = room.write("last.log", minute_of(3, 40));
    let options = ["-o", &text, "--roll", "2m", "--append", "--keep-size", "1B"];
    let output = program(&[&[&*last], &options[..]].concat())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(Series::open(&path).unwrap().parts.len(), 1);
}

#[test]
fn missing_and_damaged_parts_are_refused_only_if_they_are_needed() {
    let room = Room::new();
    account(&capture(&room, &[]), 0);
    let path = room.path("a.series");
    std::fs::remove_dir_all(path.join("20260301T090200Z.workload")).unwrap();
    let text = path.display().to_string();
    let output = rehearse(&["inspect", &text]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        said(&output).contains("part 2 is missing"),
        "{}",
        said(&output)
    );
    let slice = |name: &str, from: &str| {
        rehearse(&["slice", &text, "-o", &room.text(name), "--from", from])
    };
    let output = slice("a.workload", "2026-03-01 09:04:00");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let events = path.join("20260301T090800Z.workload/events-00000.parquet");
    let bytes = std::fs::read(&events).unwrap();
    std::fs::write(&events, &bytes[..bytes.len() / 2]).unwrap();
    let output = slice("b.workload", "2026-03-01 09:04:00");
    assert_eq!(output.status.code(), Some(3));
    assert!(said(&output).contains("is damaged"), "{}", said(&output));
    let log = room.text("postgresql.log");
    for refused in [
        &["--roll", "2m", "--statement", "x"][..],
        &["--roll", "1500ms"],
        &["--keep-for", "1h"],
        &["--append"],
    ] {
        let arguments = [&[&log, "-o", "x.series"], refused].concat();
        let output = program(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{refused:?}");
    }
    for output in ["x.workload", "s3://bucket/x.series", "nowhere/x.series"] {
        let refused = program(&[&log, "-o", output, "--roll", "1m"])
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(2), "{output}");
    }
}

#[test]
fn events_of_a_file_that_an_earlier_capture_lacked_are_reported_as_in_a_gap() {
    let room = Room::new();
    let file = |name: &str, minutes: std::ops::Range<u32>| {
        let text: String = minutes.map(|minute| minute_of(1, minute)).collect();
        room.write(name, text)
    };
    let files = [
        file("1.log", 0..3),
        file("2.log", 4..9),
        file("3.log", 10..13),
    ];
    let [first, second, third] = &files;
    let path = room.text("a.series");
    let options = ["-o", &path, "--roll", "2m", "--json"];
    let output = program(&[&[&**first, third], &options[..]].concat())
        .output()
        .unwrap();
    account(&output, 0);
    let output = rehearse(&["inspect", &path]);
    let inspected = said(&output);
    let sentence = "has nothing from 2026-03-01 09:02:59 UTC to 2026-03-01 09:10:00 UTC";
    assert!(inspected.contains(sentence), "{inspected}");
    let append = |given: &[&str]| {
        program(&[given, &options[..], &["--append"]].concat())
            .output()
            .unwrap()
    };
    let output = append(&[first, second, third]);
    let report = account(&output, 0);
    // The statements of five minutes.
    assert_eq!(report["written_series"]["repeated_in_gaps"], 3_000);
    let notes = said(&output);
    for part in [
        "3000 of these events ended in a gap of the series, so it may not have them",
        "nothing was added: of 6608 events, 3000 ended in a gap of the series",
    ] {
        assert!(notes.contains(part), "{notes}");
    }
    // Pauses that are shorter than half a file are none.
    let whole = room.text("b.series");
    let output = program(&[first, second, third, "-o", &whole, "--roll", "2m"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(
        Series::open(Path::new(&whole)).unwrap().info.possible_gaps,
        []
    );
}
