//! Series that are continued after a stop or a kill, and what a command says of their ends.

use std::os::unix::fs::PermissionsExt;

use workload::WorkloadReader;
use workload::series::Series;

use super::series::{log, rehearse, said};
use super::*;

fn start(room: &Room, more: &[&str]) -> Child {
    let (log, path) = (room.text("postgresql.log"), room.text("a.series"));
    let arguments = [&[&*log, "-o", &path, "--roll", "2m"], more].concat();
    let mut program = program(&arguments);
    program.stdout(Stdio::null()).stderr(Stdio::piped());
    program.spawn().unwrap()
}

fn capture(room: &Room, more: &[&str]) -> Output {
    start(room, more).wait_with_output().unwrap()
}

fn wait_until(condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until, "it was not reached in a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Follows the log into `a.series`, and kills the capture when it has made most of its last part safe.
fn kill_while_following(room: &Room, text: &str) {
    let (first, rest) = text.split_once('\n').unwrap();
    let log = room.write("postgresql.log", format!("{first}\n"));
    let mut followed = start(room, &["--follow"]);
    let mut said = BufReader::new(followed.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("following ") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended early");
    }
    let reads = std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let mut file = std::fs::OpenOptions::new().append(true).open(log).unwrap();
    file.write_all(rest.as_bytes()).unwrap();
    let last = room.path("a.series/20260301T090800Z.workload.partial");
    wait_until(|| last.join("events-00000.parquet.footer").exists());
    if let Ok(output) = rehearse_inspect(room) {
        assert!(!output.contains("capture was killed"), "{output}");
    }
    followed.kill().unwrap();
    followed.wait().unwrap();
    let _ = reads.join().unwrap();
}

fn rehearse_inspect(room: &Room) -> Result<String, String> {
    let output = rehearse(&["inspect", &room.text("a.series")]);
    match output.status.success() {
        true => Ok(said(&output)),
        false => Err(said(&output)),
    }
}

/// Returns the times and contents of all events, without the numbers that a capture gives them.
fn contents(path: &Path) -> Vec<String> {
    let reader = WorkloadReader::open(path).unwrap();
    let events = reader.events().unwrap().map(|item| item.unwrap().0);
    // After a gap, sessions begin with what restores their state.
    let statements = events.filter(|event| !event.prelude && event.kind.is_statement());
    // A log is followed from its end, so its first line is in the series only if it is read again before the series has a part.
    let is_first = |event: &workload::Event| {
        event
            .kind
            .sql()
            .is_some_and(|sql| sql.contains("work_mem = '1MB'"))
    };
    let statements = statements.filter(|event| !is_first(event));
    let mut contents: Vec<String> = statements
        .map(|event| format!("{} {:?}", event.due_us, event.kind))
        .collect();
    contents.sort();
    contents
}

#[test]
fn log_read_again_after_a_kill_adds_each_statement_once() {
    for recovers_first in [true, false] {
        let room = Room::new();
        let text = log();
        kill_while_following(&room, &text);
        let killed = rehearse_inspect(&room).unwrap();
        assert!(killed.contains("its capture was killed"), "{killed}");
        assert!(killed.contains("rehearse recover"), "{killed}");
        let path = room.path("a.series");
        if recovers_first {
            for part in Series::open(&path).unwrap().unfinished {
                let recovered = rehearse(&["recover", &part.path.display().to_string()]);
                assert_eq!(recovered.status.code(), Some(0), "{}", said(&recovered));
            }
        }
        let output = capture(&room, &["--append"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let one = room.text("one.workload");
        let log = room.text("postgresql.log");
        let all = program(&[&*log, "-o", &one]).output().unwrap();
        assert!(all.status.success(), "{}", said(&all));
        let expected = contents(Path::new(&one));
        let found = contents(&path);
        let lost = expected.iter().filter(|content| !found.contains(content));
        let lost: Vec<&String> = lost.take(5).collect();
        assert!(
            lost.is_empty(),
            "recovers first: {recovers_first}, lost {lost:?}"
        );
        assert_eq!(
            found.len(),
            expected.len(),
            "recovers first: {recovers_first}"
        );
        // Once more: there is nothing new.
        let output = capture(&room, &["--append"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let nothing = said(&output);
        assert!(nothing.contains("nothing new: all "), "{nothing}");
        assert!(contents(&path) == expected);
    }
}

#[test]
fn series_with_other_protection_is_not_continued() {
    let room = Room::new();
    room.write("postgresql.log", log());
    let key = room.text("mask.key");
    std::fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let output = capture(&room, &["--mask", &key]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let parts = || Series::open(&room.path("a.series")).unwrap().parts.len();
    let before = parts();
    room.write("postgresql.log", minute_of(2, 30));
    let refused = capture(&room, &["--append"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let reason = said(&refused);
    assert!(
        reason.contains("give --mask FILE, or give another name"),
        "{reason}"
    );
    assert_eq!(parts(), before);
    let output = capture(&room, &["--append", "--mask", &key]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(parts() > before);
}

#[test]
fn names_and_ends_of_series_are_explained() {
    let room = Room::new();
    let log = room.write("postgresql.log", log());
    let series = room.text("a.series");
    let output = program(&[&*log, "-o", &series]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let reason = said(&output);
    assert!(
        reason.contains("give --roll 15m to write a series"),
        "{reason}"
    );
    std::fs::create_dir(&series).unwrap();
    let output = rehearse(&["inspect", &series]);
    let reason = said(&output);
    assert!(reason.contains("it has no series.json"), "{reason}");
    std::fs::remove_dir(&series).unwrap();
    assert_eq!(capture(&room, &[]).status.code(), Some(0));
    let slice = |to: &str| {
        let output = room.text(&format!("{}.workload", to.replace([' ', ':'], "")));
        let sliced = rehearse(&["slice", &series, "-o", &output, "--to", to]);
        assert_eq!(sliced.status.code(), Some(0), "{}", said(&sliced));
        said(&sliced)
    };
    assert!(slice("2026-03-01 09:30:00").contains("so what is read ends before"));
    assert!(!slice("2026-03-01 09:05:00").contains("so what is read ends before"));
    assert_eq!(
        WorkloadReader::open(Path::new(&series)).unwrap().parts(),
        Some(5)
    );
}

#[test]
fn series_without_a_complete_part_states_when_the_first_one_is_complete() {
    let room = Room::new();
    room.write("postgresql.log", "");
    let path = room.text("a.series");
    let mut piped = program(&["-", "--follow", "-o", &path, "--roll", "1h"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = piped.stdin.take().unwrap();
    let text = log();
    input.write_all(text.as_bytes()).unwrap();
    let directory = room.path("a.series");
    wait_until(|| Series::open(&directory).is_ok_and(|series| !series.unfinished.is_empty()));
    let output = rehearse(&["inspect", &path]);
    let reason = said(&output);
    piped.kill().unwrap();
    piped.wait().unwrap();
    assert_eq!(output.status.code(), Some(2), "{reason}");
    assert!(
        reason.contains("it has no complete part yet (the first one at about 2026-03-01 10:00:30"),
        "{reason}"
    );
}

#[test]
fn series_of_several_servers_is_not_continued() {
    let room = Room::new();
    room.write("postgresql.log", log());
    let other = log().replace("shop", "store").replace('[', "[7");
    let other = room.write("other.log", other);
    let output = capture(&room, &[&other]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let before = contents(&room.path("a.series"));
    let refused = capture(&room, &["--append"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let reason = said(&refused);
    assert!(
        reason.contains("has the logs of several servers"),
        "{reason}"
    );
    assert_eq!(contents(&room.path("a.series")), before);
}
